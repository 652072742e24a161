"""Runs side by side."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import run_here

from fourier_attn import config
from fourier_attn.studies import compare
from fourier_attn.studies.runs import labels
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.metrics_log import strict_json
from fourier_attn.train.summary import Summary, differing, summary


def write_run(directory: Path, rate: float = 0.5, mixer: str = "fourier", task: str = "reviews") -> Path:
    """A run that was stopped after two epochs, as the loop writes it."""
    c = config.default(mixer, task)
    c.optim.learning_rate = rate
    directory.mkdir(parents=True)
    config_file.save(directory, c)
    metric = "spearman" if task == "stsb" else "accuracy"
    values = [
        ("train", 1, 0.5),
        ("validation", 1, 0.6),
        ("validation", 2, rate),
    ]
    lines = [{"step": 10 * e, "epoch": e, "split": split, metric: value} for split, e, value in values]
    (directory / "metrics.jsonl").write_text("".join(strict_json(line) + "\n" for line in lines))
    return directory


def call(*words: object) -> tuple[int, str, str]:
    return run_here(compare, *map(str, words), arguments=True)


def test_a_run_under_way(tmp_path: Path) -> None:
    found = summary(write_run(tmp_path / "a", 0.7))
    assert (found.run, found.state, found.metric) == ("a", "open", "accuracy")
    assert found.curve == [(1, 0.6), (2, 0.7)]
    assert (found.validation, found.epoch, found.test, found.seconds) == (0.7, 2, None, None)


def test_knobs_that_differ() -> None:
    runs = [
        Summary("a", "done", {"seed": 0, "model.d": 4, "data.dir": "x", "model.mixer.heads": 2}),
        Summary("b", "done", {"seed": 0, "model.d": 8, "data.dir": "y", "model.mixer.norm": "none"}),
    ]
    assert differing(runs) == ["model.d"]
    assert differing(runs[:1]) == []


def test_the_table_the_picture_and_the_order(tmp_path: Path) -> None:
    for name, rate in (("low", 0.1), ("high", 0.9)):
        write_run(tmp_path / name, rate)
    write_run(tmp_path / "other", 0.65, "attention")
    (tmp_path / "no-run").mkdir()
    code, out, error = call(*tmp_path.iterdir(), f"--out={tmp_path / 'tables' / 'all'}")
    assert (code, error) == (0, "")
    rows = list(csv.DictReader((tmp_path / "tables" / "all.csv").open()))
    assert [row["run"] for row in rows] == ["high", "other", "low"]
    assert [row["validation accuracy"] for row in rows] == ["0.9", "0.65", "0.6"]
    assert [row["optim.learning_rate"] for row in rows] == ["0.9", "0.65", "0.1"]
    assert [row["model.mixer.name"] for row in rows] == ["fourier", "attention", "fourier"]
    assert "model.mixer.heads" not in rows[0]  # of one mixer alone
    assert "data.batch" not in rows[0]
    assert (tmp_path / "tables" / "all.png").stat().st_size > 5_000
    assert out.splitlines()[1].startswith("high")


def test_runs_of_one_name_keep_their_curves(tmp_path: Path) -> None:
    """Two sweeps name their runs alike; the same run, named twice, is one."""
    rates = {"one/0": 0.9, "one/1": 0.8, "two/0": 0.7, "two/1": 0.95, "other": 0.65}
    for name, rate in rates.items():
        write_run(tmp_path / name, rate)
    code, out, error = call(*(tmp_path / name for name in rates), tmp_path / "one" / "." / "0")
    assert (code, error) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == sorted(rates, key=rates.__getitem__)[::-1]
    assert labels([tmp_path / "a", tmp_path / "b" / "a"]) == [f"{tmp_path.name}/a", "b/a"]
    names = labels([tmp_path / name for name in rates])
    found = [replace(summary(tmp_path / path), run=name) for path, name in zip(rates, names, strict=True)]
    alike = [replace(run, run="one name") for run in found]
    for runs in (found, alike):  # even a name that is not alone stands beside each of its curves
        (axes,) = compare.plot(runs).axes
        ends = [(text.get_text(), text.xy[1]) for text in axes.texts]
        assert ends == [(run.run, run.curve[-1][1]) for run in runs]


def test_deviations_over_seeds_are_kept(tmp_path: Path) -> None:
    write_run(tmp_path / "one")
    path = write_run(tmp_path / "several", 0.9) / "metrics.jsonl"
    line = '{"step": 20, "epoch": 2, "split": "validation", "accuracy": 0.9'
    path.write_text(path.read_text().replace(line, f'{line}, "accuracy_std": 0.02'))
    rows = compare.table([summary(tmp_path / "several"), summary(tmp_path / "one")])
    assert rows[0][:4] == ["run", "validation accuracy", "its SD", "epoch"]
    assert [row[:3] for row in rows[1:]] == [["several", "0.9", "0.02"], ["one", "0.6", ""]]


def test_runs_that_differ_in_their_seeds_have_a_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean and deviation by hand: (0.7 + 0.9) / 2 and sqrt(2) / 10; one line with a band in the picture."""
    for name, mixer, seed, last in (
        ("a", "fourier", 0, 0.7),
        ("b", "fourier", 1, 0.9),
        ("c", "lambda", 0, 0.75),
    ):
        path = write_run(tmp_path / name, 0.5, mixer)
        c = config.default(mixer)
        c.seed = seed
        config_file.save(path, c)
        lines = (path / "metrics.jsonl").read_text().replace('"accuracy": 0.5}', f'"accuracy": {last}}}')
        (path / "metrics.jsonl").write_text(lines)
    assert compare.mean_table([summary(tmp_path / name) for name in "abc"]) == []  # none is finished
    monkeypatch.setattr("fourier_attn.train.summary.is_finished", lambda directory: True)
    again = [summary(tmp_path / name) for name in "aab"]
    assert [len(group) for _, group in compare.grouped(again)] == [2, 1]  # a repeated run is no further seed
    assert call(tmp_path / "a", "--out=.")[:2] == (2, "")
    code, out, error = call(*(tmp_path / name for name in "abc"), f"--out={tmp_path / 'all'}")
    assert (code, error) == (0, "")
    [row] = csv.DictReader((tmp_path / "all-means.csv").open())
    assert (row["runs"], row["mean validation accuracy"], row["model.mixer.name"]) == ("2", "0.8", "fourier")
    assert float(
        next(csv.reader(out.splitlines()[6:], delimiter=" ", skipinitialspace=True))[2]
    ) == pytest.approx(0.02**0.5)
    (axes,) = compare.plot([summary(tmp_path / name) for name in "abc"]).axes
    assert [text.get_text() for text in axes.texts] == ["model.mixer.name=fourier (2 seeds)", "c"]
    assert len(axes.collections) == 1  # the band


def test_runs_on_two_tasks_are_not_compared(tmp_path: Path) -> None:
    code, _, error = call(write_run(tmp_path / "a"), write_run(tmp_path / "b", task="imdb"))
    assert code == 2
    assert "imdb and reviews; compare runs on one task" in error


def test_nothing_to_compare(tmp_path: Path) -> None:
    assert call()[2].startswith("error: no directories are given")
    code, _, error = call(tmp_path)
    assert code == 2
    assert "no run found in" in error
    code, _, error = call(write_run(tmp_path / "a"), write_run(tmp_path / "b", task="stsb"))
    assert code == 2
    assert "accuracy and spearman; compare runs on one task" in error


@pytest.mark.parametrize("damage", ["{", '{"config": {}}'])
def test_a_damaged_run_is_named(damage: str, tmp_path: Path) -> None:
    (write_run(tmp_path / "a") / "config.json").write_text(damage)
    code, _, error = call(tmp_path / "a")
    assert code == 2
    assert "config.json is damaged" in error
