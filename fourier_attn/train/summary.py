"""Reads from a run's directory whether it is finished, its options and its metrics."""

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

    A finished run has the metrics, an intact checkpoint of the last step, and all predictions.
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
    expected = line.get("examples", predictions)  # earlier versions did not write it
    if not known or (objective.written and (predictions != expected or not predictions)):
        return None
    try:
        _, _, name, state = init_from.restore_state(directory, on_device=False)
    except ValueError:  # no intact checkpoint; resuming the run reports it
        return None
    patience = config.train.patience
    stopped = bool(patience) and int(np.min(state.epochs_since_best)) >= patience
    stopped = stopped and config_file.extended_at(directory) != line["step"]
    ended = line["step"] >= config.optim.steps or stopped  # more steps if the data have become fewer
    return line if name == saved[0] and ended else None


def is_finished(directory: Path) -> bool:
    """Returns whether the training command has nothing left to do for a run."""
    try:
        return finished(directory) is not None
    except ValueError:  # damaged files, which the command reports
        return False


@dataclass
class Summary:
    """Summarises a run.

    Args:
      run: name of its directory.
      state: "done", or "open" for a run that is unfinished.
      knobs: its complete configuration, by dotted path.
      metric: the metric that chooses the best weights.
      curve: its validation values, (epoch, value).
      validation: its best validation value; None before the first validation.
      epoch: the epoch of this value.
      test: its value on the test set; None for an unfinished run.
      validation_sd, test_sd: standard deviations over several seeds; None for one seed.
      rows: fingerprints of the data that it was evaluated on.
      parameters: number of parameters of one network.
      seconds: duration of the training; None for unfinished and for resumed runs.
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

    Raises: ValueError for a directory without a run, and for a damaged run.
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
    """Returns whether a run with plug-ins ends with its test; its checkpoint cannot be read without them."""
    if not config_file.record(directory).get("plugins") or not lines or lines[-1]["split"] != "test":
        return False
    return config_file.extended_at(directory) != lines[-1]["step"]


def _from_data(run: Summary, name: str) -> bool:
    """Returns whether a mixer's field holds the padded lengths of the data."""
    mixer = MIXERS.get(run.knobs.get("model.mixer.name", ""))
    return mixer is not None and source(mixer, name.removeprefix("model.mixer.")) == LENGTHS


def differing(runs: Sequence[Summary]) -> list[str]:
    """Returns the options with different values in those runs that have them."""
    names = dict.fromkeys(name for run in runs for name in run.knobs)

    def differs(name: str) -> bool:
        values = [run.knobs[name] for run in runs if name in run.knobs and not _from_data(run, name)]
        return any(value != values[0] for value in values)

    return [name for name in names if name not in config_file.FREE_KEYS and differs(name)]
