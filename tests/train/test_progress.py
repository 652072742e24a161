"""What a run shows of itself while it goes on: bars, and the picture of its curves."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tqdm import tqdm

from fourier_attn import config, train
from fourier_attn.train import loop, progress, training_run
from fourier_attn.train.distributed import signals
from fourier_attn.train.rundir import curves
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.step import State


@pytest.mark.usefixtures("standard_promotion")
def test_bars_move_and_end_at_their_ends(
    toy: config.Config, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an epoch ends on a log step, too."""
    seen: list[tuple[object, int, int]] = []

    class Bar(tqdm):
        def __init__(self, *words: object, **options: object):
            super().__init__(*words, **options | {"disable": False, "file": io.StringIO(), "mininterval": 0})

        def display(self, *words: object, **options: object) -> None:
            seen.append((self.desc or "train", self.n, self.total))

    monkeypatch.setattr(progress, "tqdm", Bar)
    monkeypatch.setattr(training_run, "plot_curves", curves.plot_curves)
    toy.train.epochs, toy.train.log_every = 2, 3  # epochs of six steps
    where = tmp_path_factory.mktemp("run")
    train.run(toy, where)
    assert (where / "curves.png").read_bytes().startswith(b"\x89PNG")
    places = {title: [(n, total) for name, n, total in seen if name.strip(": ") == title] for title in NAMES}
    assert {0, 3, 6, 9, 12} <= {n for n, _ in places["train"]}
    assert places["train"][-1] == (12, 12)
    assert {n for n, _ in places["validation"]} == set(range(5))
    assert {total for _, total in places["validation"]} == {4}
    assert {n for n, _ in places["test"]} == set(range(14))


NAMES = ("train", "validation", "test")


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize(("seconds", "plots"), [(0, 3), (1e9, 2)], ids=["long epochs", "short epochs"])
def test_how_often_curves_are_plotted(
    toy: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, plots: int
) -> None:
    """After the first epoch, then at most once in `PLOT_SECONDS`, and at the end."""
    seen: list[int] = []
    monkeypatch.setattr(training_run, "PLOT_SECONDS", seconds)
    monkeypatch.setattr(training_run, "plot_curves", lambda where, *_: seen.append(len(read_lines(where))))
    toy.train.epochs = 2
    train.run(toy, tmp_path)
    assert (len(seen), seen[-1]) == (plots, len(read_lines(tmp_path)))


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize(
    "why", [signals.Interrupted(15), loop.Diverged("the loss")], ids=lambda why: type(why).__name__
)
def test_a_run_that_stops_plots_its_last_epochs(
    toy: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: BaseException
) -> None:
    """After the second epoch of six steps, which is too early for another plot."""
    seen: list[int] = []

    def stop(run: training_run.Run) -> None:
        if getattr(run, "step", 0) == 14:
            raise why

    monkeypatch.setattr(training_run.Run, "poll", stop)
    monkeypatch.setattr(training_run, "plot_curves", lambda where, *_: seen.append(len(read_lines(where))))
    toy.train.epochs = 3
    with pytest.raises(type(why)):
        train.run(toy, tmp_path)
    assert len(seen) == 2
    assert seen[1] == len(read_lines(tmp_path)) > seen[0]


class Devices:
    """Steps that take `seconds` each, on a clock that goes on as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float):
        self.now, self.seconds, self.lines = 0.0, seconds, []
        monkeypatch.setattr(progress.time, "perf_counter", lambda: self.now)

    def train(self, steps: int, first: int = 0) -> list[int]:
        """Trains, and returns the steps at which progress waited for the devices."""
        shown = []
        with progress.Progress("train", steps, 8, unit="step", done=first, say=self.lines.append) as bar:
            assert bar.bar.disable  # standard error is not a terminal
            self.now += 30  # compiling
            for step in range(first + 1, steps + 1):
                self.now += self.seconds
                if bar.due(step):
                    shown.append(step)
                    bar.show(step, "loss 0.500")
        return shown


def test_slow_steps_are_said_once_a_minute_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """308 seconds passed without a word, as a run spoke at its log steps and epochs only."""
    devices = Devices(monkeypatch, 6.0)
    assert devices.train(100) == list(range(1, 101))
    assert devices.lines[:2] == [
        "train       5 of 100 steps, loss 0.500, 1 examples/s, 10 min left",
        "train       15 of 100 steps, loss 0.500, 1 examples/s, 8 min left",
    ]
    assert len(devices.lines) == 10


def test_quick_steps_do_not_wait_for_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some two looks a second, whatever a step takes; a run that is short says nothing."""
    devices = Devices(monkeypatch, 0.001)
    shown = devices.train(5000)
    assert len(shown) < 15
    assert devices.lines == []
    devices = Devices(monkeypatch, 0.02)
    devices.train(20_000, first=10_000)
    assert devices.lines[0] == "train       11,519 of 20,000 steps, loss 0.500, 400 examples/s, 3 min left"


def test_the_devices_have_a_step_to_do_while_one_is_shown() -> None:
    """Or nothing is computed while the next batch is read, where each step takes longer than a look."""
    events: list[str] = []

    class Bar(progress.TrainingProgress):
        def __init__(self):
            self.names, self.latest = ("loss",), None

        def due(self, step: int) -> bool:
            return True

        def show(self, step: int, metrics: str = "") -> None:
            events.append(f"shown {step} {metrics}")

    bar, state = Bar(), None
    for step in range(1, 5):
        if state:  # donated
            state.step.delete()
            state.sums["loss"].delete()
        events.append(f"started {step}")
        state = State(jnp.int32(step), *[None] * 2, {"loss": jnp.array([step, 1.0])}, *[None] * 5)
        bar.follow(step, state, at_once=step == 4)
    assert events == [
        "started 1",
        *("started 2", "shown 1 loss 1.000"),
        *("started 3", "shown 2 loss 2.000"),
        *("started 4", "shown 4 loss 4.000"),
    ]


@pytest.mark.parametrize(
    ("stale", "score", "said"),
    [(3, 0.8125, "best 81.25 % after epoch 2"), ([3, 4], [0.8, 0.9], "best 85.00 % after epoch 1 and 2")],
)
def test_early_stopping_is_announced(stale: Any, score: Any, said: str) -> None:
    c = config.default()
    c.train.patience = 3
    state: Any = SimpleNamespace(epochs_since_best=np.array(stale), best_score=np.array(score, np.float32))
    run = object.__new__(training_run.Run)
    run.state, run.step, run.per_epoch, run.metric, run.config = state, 30, 6, "accuracy", c
    line = f"stopped     accuracy on validation has not improved for train.patience=3 epochs: {said}"
    assert loop.describe_early_stopping(run) == line


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99.0, "99 s"), (100.0, "2 min"), (5940.0, "99 min"), (11100.0, "3 h 05 min")],
)
def test_durations_are_read_at_once(seconds: float, words: str) -> None:
    assert progress.duration(seconds) == words


def line(split: str, epoch: float, accuracy: float, loss: float = 0.5) -> dict:
    return {"split": split, "epoch": epoch, "accuracy": accuracy, "loss": loss}


def test_noise_is_not_drawn_as_a_large_change() -> None:
    lines = [line(split, i, 0.9 + 0.001 * i) for i in (1, 2, 3) for split in ("train", "validation")]
    first, second = curves.plot(lines, chance=0.88).axes
    for axes in (first, second):
        low, high = axes.get_ylim()
        assert high - low >= 0.099
        assert all(tick == int(tick) for tick in axes.get_xticks())


def test_what_the_curves_say() -> None:
    lines = [line("validation", 1, 0.7), line("validation", 2, 0.8), line("validation", 3, 0.75)]
    lines += [line("train", 2.5, 0.99), line("test", 3, 0.7912)]
    first, second = curves.plot(lines, chance=0.5).axes
    said = {text.get_text() for text in first.texts}
    assert said == {"validation", "test, 79.12 %", "best epoch, 2", "chance"}
    assert second.get_ylabel() == "loss"
    low, high = first.get_ylim()
    assert 0 <= low < 0.5
    assert 0.8 < high <= 1.02
