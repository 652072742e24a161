"""launch.tune: equal draws, the choice by validation, what is run again, and what is refused."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import run_here

from fourier_attn.train import summary
from launch import results, sweep, tune

MODELS = ("--config=fnet:reviews", "--config=attention:reviews")
VALIDATION = {"fnet-reviews": (0.6, 0.9, 0.7), "attention-reviews": (0.8, 0.5, 0.4)}
TEST = {"fnet-reviews": (0.99, 0.6, 0.5), "attention-reviews": (0.7, 0.98, 0.97)}


def call(*words: str) -> tuple[int, str, str]:
    return run_here(tune, *words, arguments=True)


def test_draws_follow_their_equation() -> None:
    """lr = low (high / low)^u, dropout = low + u (high - low), in float64; more trials keep the first."""
    space = {
        "optim.learning_rate": tune.Range(1e-4, 1e-2, True),
        "model.dropout": tune.Range(0.0, 0.5, False),
    }
    uniform = np.random.default_rng(3).random((400, 3))
    found = tune.draws(space, 400, seed=3)
    rates = np.array([float(point["optim.learning_rate"]) for point in found])
    dropout = np.array([float(point["model.dropout"]) for point in found])
    expected = 10.0 ** (-4.0 + 2.0 * uniform[:, 0])
    np.testing.assert_allclose(rates, expected, rtol=6e-4)  # four digits are written
    np.testing.assert_allclose(dropout, 0.5 * uniform[:, 2], rtol=6e-4)
    assert abs(np.mean(rates < 1e-3) - 0.5) < 4 * 0.5 / 20  # half the draws in each decade, 4 deviations
    assert tune.draws(space, 5, seed=3) == found[:5]
    alone = tune.draws({"model.dropout": space["model.dropout"]}, 5, seed=3)
    assert [point["model.dropout"] for point in alone] == [point["model.dropout"] for point in found[:5]]
    assert tune.draws(space, 5, seed=4) != found[:5]


def test_the_best_by_validation_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The winner of validation is not that of the test; a finished trial is not run again."""
    commands, done = [], set()

    def runner(waiting: Iterator[sweep.Run], parts: object) -> int:
        for run in waiting:
            commands.append(run.program.command)
            done.add(run.program.workdir)
            run.code = 0
        return 0

    def row(directory: Path, point: dict[str, str], code: int | None, error: str) -> results.Row:
        model, index = directory.parent.name, int(directory.name)
        scores = (VALIDATION[model][index], TEST[model][index])
        return results.Row(directory.name, point, "done", "accuracy", *scores)

    monkeypatch.setattr(sweep, "run_here", runner)
    monkeypatch.setattr(summary, "is_finished", lambda directory: directory in done)
    monkeypatch.setattr(sweep, "check_same", lambda directory, config: None)
    monkeypatch.setattr(results, "row", row)
    words = (*MODELS, "--trials=3", f"--directory={tmp_path}", "--dropout=", "--", "--config.seed=5")
    code, out, _ = call(*words)
    assert code == 0
    assert len(commands) == 6
    knobs = [[word for word in command if word.startswith("--config.optim")] for command in commands]
    assert knobs[:3] == knobs[3:]
    assert not [word for word in sum(commands, ()) if "dropout" in word]
    found = json.loads((tmp_path / tune.FILE).read_text())
    best = {each["model"]: (each["best"], each["validation"], each["test"]) for each in found["best"]}
    assert best == {"fnet-reviews": ("001", 0.9, 0.6), "attention-reviews": ("000", 0.8, 0.7)}
    assert (found["seed"], found["trials"]) == (0, 3)
    for hidden in ("0.99", "0.98", "0.97"):  # test scores that chose nothing
        assert hidden not in out + (tmp_path / tune.FILE).read_text()
    done.remove(tmp_path / "fnet-reviews" / "002")
    assert call(*words)[0] == 0
    assert [command[-1] for command in commands[6:]] == [f"--workdir={tmp_path}/fnet-reviews/002"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no --config is given; give --config=FILE once for each model"),
        ([*MODELS, MODELS[0]], "has the name fnet-reviews, as another has"),
        ([*MODELS, "--trials=0"], "--trials=0 must be at least 1"),
        ([*MODELS, "--seed=-1"], "--seed=-1 must be at least 0"),
        ([*MODELS, "--learning_rate=1e-3"], "--learning_rate=1e-3 is not a range; give LOW,HIGH"),
        ([*MODELS, "--learning_rate=0,1e-3"], "must begin above 0"),
        ([*MODELS, "--dropout=0.5,0.1"], "the smaller one first"),
        ([*MODELS, "--dropout=0,2"], "must lie in [0, 1)"),
        ([*MODELS, "--learning_rate=", "--weight_decay=", "--dropout="], "every range is empty"),
        ([*MODELS, "--module=launch.sweep"], "has no validation score; leave it out"),
        ([*MODELS, "--", "--config=fnet:imdb"], "give each one before --"),
        ([*MODELS, "--", "--config.model.dropout=0.1"], "is also tuned; leave it out, or pass --dropout="),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    separator = words.index("--") if "--" in words else len(words)
    place = f"--directory={tmp_path / 'none'}"
    code, _, err = call(*words[:separator], place, "--dry_run", *words[separator:])
    assert code == 2
    assert message in err
    assert not (tmp_path / "none").exists()


def test_an_undefined_score_never_wins() -> None:
    rows = [
        results.Row(str(i), {}, "done", "f1", score, None) for i, score in enumerate((math.nan, 0.2, None))
    ]
    assert [row.run for row in results.ordered(rows)] == ["1", "0", "2"]
    assert [results.scored(row) for row in rows] == [False, True, False]
