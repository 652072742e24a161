"""The metric that chooses the best weights."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourier_attn import config, data, train
from fourier_attn.data import TASKS
from fourier_attn.studies import compare
from fourier_attn.train import loop, monitor, step, training_run
from fourier_attn.train.evaluate import compute_metrics
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.rundir import config_file, curves
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.scores import ERRORS, SCORES
from fourier_attn.train.summary import Summary, summary
from launch import results


def test_every_metric_has_a_direction() -> None:
    """A loss and an error are better if lower; a perfect answer has the best value."""
    names = {name for objective in OBJECTIVES.values() for name in objective.names} | {*SCORES}
    lower = {name for name in names if "loss" in name or name in (*ERRORS, "perplexity")}
    assert lower == names & monitor.LOWER


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_metric_that_a_task_offers_is_computed(task: str) -> None:
    """Of two examples, the first network right and the second wrong; one place is not labelled."""
    c = config.default(task=task)
    c.data.labels = ("B-X", "O") if task == "tags" else ()
    known = data.task_of(c.data)
    answered = OBJECTIVES[known.head].written
    for name in monitor.available(known):
        chosen = monitor.monitored(known, name)
        assert chosen.metrics[0] == name
        assert set(chosen.metrics) == {*known.metrics, name}
        if name in OBJECTIVES[known.head].names or not answered or known.head == "spans":
            continue  # of spans: tests/train/test_spans.py
        labels = np.array([[0, 1, -100]] if known.head in ("tokens", "autoencoder") else [0, 1])
        right = np.eye(2)[np.maximum(labels, 0)] if known.labels else labels.astype(float)
        answers = np.stack([right, 1 - right])
        values = compute_metrics(chosen, {}, answers, labels)[name] * monitor.sign(name)
        assert values[0] == pytest.approx(0.0 if name in ERRORS else 1.0), name
        assert values[0] > values[1], name


@pytest.mark.parametrize(
    ("task", "name"), [("reviews", "rmse"), ("listops", "f1"), ("stsb", "accuracy"), ("pretraining", "loss")]
)
def test_a_metric_that_the_task_does_not_have_is_refused(task: str, name: str, tmp_path: Path) -> None:
    c = config.default(task=task)
    c.train.monitor, c.data.corpora = name, ("a.txt",) if task == "pretraining" else ()
    with pytest.raises(ValueError, match=f"train.monitor='{name}' is not a metric of this task; choose one"):
        monitor.check(c)
    own = config.default(task="files")
    for known in ("rmse", "macro_f1"):  # classes or numbers: the data will say
        own.train.monitor = known
        monitor.check(own)
    own.train.monitor = "bogus"
    with pytest.raises(ValueError, match="is unknown; choose one of accuracy, loss"):
        monitor.check(own)


@pytest.mark.parametrize(("metric", "epoch", "order"), [("loss", 1, "ab"), ("accuracy", 2, "ba")])
def test_everything_agrees_on_which_is_better(metric: str, epoch: int, order: str, tmp_path: Path) -> None:
    """The best epoch, the order of runs in comparisons and sweeps, and the mark in the picture."""
    points = {"a": (0.2, 0.3, 0.25), "b": (0.4, 0.9, 0.6)}
    for name, values in points.items():
        c = config.default()
        c.train.monitor = metric
        (tmp_path / name).mkdir()
        config_file.save(tmp_path / name, c)
        lines = [{"step": e, "epoch": e, "split": "validation", metric: v} for e, v in enumerate(values, 1)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / name / "metrics.jsonl").write_text(text)
    runs = [summary(tmp_path / name) for name in points]
    assert {run.metric for run in runs} == {metric}
    assert {run.epoch for run in runs} == {epoch}
    assert "".join(run.run for run in compare.ordered([*runs, Summary("c", "open")])) == f"{order}c"
    rows = [results.row(tmp_path / name, {}, 0) for name in points]
    assert "".join(row.run for row in results.ordered(rows)) == order
    (axes,) = curves.plot(read_lines(tmp_path / "b"), metric).axes[:1]
    assert f"best epoch, {epoch}" in {text.get_text() for text in axes.texts}


def test_the_mean_over_seeds_is_ordered_by_the_metric() -> None:
    values = {("1e-3", "0"): 0.5, ("1e-3", "1"): 0.7, ("1e-2", "0"): 0.1, ("1e-2", "1"): 0.3}
    for metric, first in (("loss", "1e-2"), ("accuracy", "1e-3")):
        rows = [
            results.Row(f"{rate}-{seed}", {"rate": rate, "seed": seed}, "done", metric, value)
            for (rate, seed), value in values.items()
        ]
        assert results.means(rows)[0].values == {"rate": first}
        knobs = [{"optim.learning_rate": rate, "seed": seed} for rate, seed in values]
        runs = [
            Summary(str(i), "done", k, metric, [(1.0, v)], v)
            for i, (k, v) in enumerate(zip(knobs, values.values(), strict=True))
        ]
        assert compare.mean_table(runs)[1][-1] == first


@pytest.mark.parametrize(
    ("before", "score", "said"),
    [
        (-math.inf, -0.5, "   best loss so far"),
        (-0.5, -0.4, "   best loss so far"),
        (-0.4, -0.4, ""),
        (-0.4, math.nan, ""),
        ([-0.4, -0.5], [-0.5, -0.4], "   best loss so far for 1 of 2 seeds"),
        ([-0.4, -0.5], [-0.3, -0.4], "   best loss so far"),
    ],
)
def test_a_new_optimum_is_announced(before: Any, score: Any, said: str) -> None:
    shape = np.shape(before)
    counter: Any = np.zeros(shape, np.int32)
    low: Any = np.asarray(before, np.float32)
    params = {"w": np.zeros((*shape, 2))}
    state = step.State(counter, params, (), {}, params, low, counter, counter, counter)
    run = object.__new__(training_run.Run)
    run.state, run.metric = step.close_epoch(state, np.asarray(score, np.float32)), "loss"
    assert loop.describe_best(run) == said


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_the_lowest_loss_has_the_best_weights(
    toy: config.Config, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses 0.5, NaN, 0.4, 0.6, 0.7: the third epoch is the best, and patience ends after two more."""
    evaluate, losses = training_run.Run.evaluate, [0.5, math.nan, 0.4, 0.6, 0.7]

    def given(run: training_run.Run, title: str, batches: Any, params: Any) -> Any:
        values, answers = evaluate(run, title, batches, params)
        if title == "validation":
            values["loss"] = np.array([losses[run.step // run.per_epoch - 1]])
        return values, answers

    monkeypatch.setattr(training_run.Run, "evaluate", given)
    toy.train.monitor, toy.train.epochs, toy.train.patience = "loss", 9, 2
    result, out = train.run(toy, tmp_path), capsys.readouterr().out
    assert result["epoch"] == 5
    lines = [line for line in out.splitlines() if line.startswith("epoch")]
    assert [line.endswith("best loss so far") for line in lines] == [True, False, True, False, False]
    assert "loss on validation has not improved for train.patience=2 epochs: best 0.4000 after epoch 3" in out
    found = summary(tmp_path)
    assert (found.metric, found.epoch, found.validation) == ("loss", 3, 0.4)


@pytest.mark.usefixtures("standard_promotion")
def test_own_tables_say_what_they_ask_only_when_read(tmp_path: Path) -> None:
    """A metric of numbers for labels that are classes: an error, and nothing is left."""
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "".join(f"word {i},{'ab'[i % 2]}\n" for i in range(40)))
    c = config.default(task="files")
    c.data.train, c.train.monitor, c.data.tokenizer = str(table), "rmse", "words"
    with pytest.raises(ValueError, match="'rmse' is not a metric of this task; choose one of accuracy, loss"):
        train.run(c, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_from_before_has_its_tasks_metric(tmp_path: Path) -> None:
    """A missing key is its default; a plug-in's metric is the recorded one."""
    config_file.save(tmp_path, config.default(task="cola"))
    facts = json.loads((tmp_path / "config.json").read_text())
    del facts["config"]["train"]["monitor"]
    (tmp_path / "config.json").write_text(json.dumps(facts))
    assert config_file.as_written(tmp_path)[1] == "matthews"
    assert dataclasses.asdict(summary(tmp_path))["metric"] == "matthews"
