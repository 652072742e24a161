"""Reads from a run's directory whether it is finished, its knobs and its metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn import data
from fourier_attn.layers.fields import LENGTHS, source
from fourier_attn.model import MIXERS
from fourier_attn.train import init_from, monitor
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.checkpoint import checkpoint_ids
from fourier_attn.train.rundir.metrics_log import read_lines


def finished(directory: Path) -> dict[str, Any] | None:
    """Returns a finished run's metrics on the test set; None for an unfinished run.

    The line of metrics is not enough: the state after the last step must exist and be sound, and all
    predictions, too.
    """
    lines = read_lines(directory) if (directory / "config.json").exists() else []
    tests = [line for line in lines if line["split"] == "test"]
    saved = checkpoint_ids(directory)
    if not tests or not saved or saved[0].step != tests[-1]["step"] or not saved[0].validated:
        return None
    line, config = tests[-1], config_file.load(directory)
    task, answers = data.task_of(config.data), directory / "predictions.jsonl"
    objective = OBJECTIVES[task.head]
    known = set(line) & {"examples", *task.metrics, *objective.names}
    predictions = answers.read_bytes().count(b"\n") if answers.exists() else 0
    expected = line.get("examples", predictions)  # earlier versions did not say it
    if not known or (objective.written and (predictions != expected or not predictions)):
        return None
    try:
        _, _, name, state = init_from.restore_state(directory, on_device=False)
    except ValueError:  # none is sound: resuming the run reports it
        return None
    patience = config.train.patience
    stopped = bool(patience) and int(np.min(state.epochs_since_best)) >= patience
    stopped = stopped and config_file.extended_at(directory) != line["step"]
    ended = line["step"] >= config.optim.steps or stopped  # beyond them, where the data have become fewer
    return line if name == saved[0] and ended else None


def is_finished(directory: Path) -> bool:
    """Returns whether the training command has nothing left to do."""
    try:
        return finished(directory) is not None
    except ValueError:  # damaged files, which the command will report
        return False


@dataclass
class Summary:
    """Summarises a run.

    Args:
      state: "done", or "open" for a run that is under way or was stopped.
      knobs: its whole configuration, by full names.
      metric: the one that chooses the best weights; `curve` has it on validation, (epoch, value) after each.
      validation: its best value on validation; `epoch`, after which one.
      test, seconds: of a finished run; the seconds of a resumed run are unknown.
      validation_sd, test_sd: over the seeds of a run that has several.
      rows: fingerprints of the data that it was evaluated on.
    """

    run: str
    state: str
    knobs: dict[str, Any] = field(default_factory=dict)
    metric: str | None = None
    curve: list[tuple[float, float]] = field(default_factory=list)
    validation: float | None = None
    epoch: float | None = None
    test: float | None = None
    validation_sd: float | None = None
    test_sd: float | None = None
    rows: dict[str, str] = field(default_factory=dict)
    parameters: int | None = None
    seconds: float | None = None


def summary(directory: Path) -> Summary:
    """Summarises the run in a directory.

    Raises: ValueError for a directory that holds no run, or a damaged one.
    """
    (knobs, metric), lines = config_file.as_written(directory), read_lines(directory)
    state = "done" if is_finished(directory) or _tested(directory, lines) else "open"
    result = Summary(directory.name, state, knobs, metric)
    result.curve = [
        (float(line["epoch"]), float(line[metric]))
        for line in lines
        if line["split"] == "validation" and line.get(metric) is not None
    ]
    if result.curve:
        result.epoch, result.validation = monitor.best(result.curve, metric)
        result.validation_sd = next(
            line.get(f"{metric}_std")
            for line in lines
            if (line["split"], line["epoch"]) == ("validation", result.epoch)
        )
    result.rows = config_file.record(directory)["fingerprints"].get("data", {})
    test = next((line for line in reversed(lines) if line["split"] == "test"), {})
    result.test, result.test_sd, result.parameters, result.seconds = (
        test.get(name) for name in (metric, f"{metric}_std", "parameters", "seconds")
    )
    return result


def _tested(directory: Path, lines: Sequence[dict[str, Any]]) -> bool:
    """Returns whether a run with plug-ins, whose state needs their code, ends with its test."""
    if not config_file.record(directory).get("plugins") or not lines or lines[-1]["split"] != "test":
        return False
    return config_file.extended_at(directory) != lines[-1]["step"]


def _from_data(run: Summary, name: str) -> bool:
    """Returns whether a mixer's field holds the padded lengths of the data."""
    mixer = MIXERS.get(run.knobs.get("model.mixer.name", ""))
    return mixer is not None and source(mixer, name.removeprefix("model.mixer.")) == LENGTHS


def differing(runs: Sequence[Summary]) -> list[str]:
    """Returns the knobs in which runs that have them differ, but not those that only one mixer has."""
    names = dict.fromkeys(name for run in runs for name in run.knobs)

    def differs(name: str) -> bool:
        values = [run.knobs[name] for run in runs if name in run.knobs and not _from_data(run, name)]
        return any(value != values[0] for value in values)

    return [name for name in names if name not in config_file.FREE_KEYS and differs(name)]
