"""What can be said of a run from its directory, finished or not: its knobs, and what it has found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fourier_attn.train.finished import finished
from fourier_attn.train.rundir import workdir
from fourier_attn.train.rundir.metrics_log import read_lines


@dataclass
class Summary:
    """A run.

    Args:
      state: "done", or "open" for one that is under way, or was stopped.
      knobs: all of its configuration, by their full names.
      metric: the one that chooses the best weights; `curve` has it on validation, (epoch, value) after each.
      validation: its best value on validation; `epoch`, after which one.
      test, seconds: of a finished run; seconds are not known of one that was resumed.
      validation_sd, test_sd: over the seeds of a run that has several.
      rows: fingerprints of the data that it was judged on.
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
    """Reads a run's directory.

    Raises: ValueError for a directory that holds no run, or a damaged one.
    """
    (knobs, metric), lines = workdir.as_written(directory), read_lines(directory)
    state = "done" if is_finished(directory) or _tested(directory, lines) else "open"
    found = Summary(directory.name, state, knobs, metric)
    found.curve = [
        (float(line["epoch"]), float(line[metric]))
        for line in lines
        if line["split"] == "validation" and line.get(metric) is not None
    ]
    if found.curve:
        found.epoch, found.validation = max(found.curve, key=lambda point: point[1])
        found.validation_sd = next(
            line.get(f"{metric}_std")
            for line in lines
            if (line["split"], line["epoch"]) == ("validation", found.epoch)
        )
    found.rows = workdir.record(directory)["fingerprints"].get("data", {})
    test = next((line for line in reversed(lines) if line["split"] == "test"), {})
    found.test, found.test_sd, found.parameters, found.seconds = (
        test.get(name) for name in (metric, f"{metric}_std", "parameters", "seconds")
    )
    return found


def is_finished(directory: Path) -> bool:
    """Whether there is nothing left to do for the training command."""
    try:
        return finished(directory) is not None
    except ValueError:  # damaged files, of which the command will speak
        return False


def _tested(directory: Path, lines: Sequence[dict[str, Any]]) -> bool:
    """Whether a run with plug-ins, whose state needs their code, ends with its test."""
    if not workdir.record(directory).get("plugins") or not lines or lines[-1]["split"] != "test":
        return False
    return workdir.extended_at(directory) != lines[-1]["step"]


def differing(runs: Sequence[Summary]) -> list[str]:
    """Names of the knobs in which runs that have them differ; those of one mixer alone are not among them."""
    names = dict.fromkeys(name for run in runs for name in run.knobs)

    def differs(name: str) -> bool:
        values = [run.knobs[name] for run in runs if name in run.knobs]
        return any(value != values[0] for value in values)

    return [name for name in names if name not in workdir.FREE and differs(name)]
