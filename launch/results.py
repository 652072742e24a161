"""Summarises a sweep in a table of its runs, with the best run first."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fourier_attn import atomic
from fourier_attn.columns import aligned
from fourier_attn.train.metrics import over_runs
from fourier_attn.train.monitor import sign
from fourier_attn.train.summary import is_finished, summary
from launch.grid import Point

FILE, MEANS_FILE = "summary.json", "means.json"
SEEDS = ("seed", "data.split_seed")  # Runs that differ only in these are averaged.


@dataclass
class Row:
    """One run of a sweep.

    Args:
      run: name of its directory.
      values: its options, as written in the grid.
      state: "done", "failed", "stopped" or "open".
      metric: name of the metric; None if it is not known yet.
      validation: best validation score of all epochs.
      test: test score.
      error: reason of a failure.
    """

    run: str
    values: dict[str, str]
    state: str
    metric: str | None = None
    validation: float | None = None
    test: float | None = None
    error: str = ""


@dataclass
class Mean:
    """Mean scores of finished runs that differ only in their seeds.

    Args:
      values: the options that they share.
      runs: number of runs.
      validation: mean validation score.
      validation_sd: standard deviation (n - 1) of it; None for one run.
      test: mean test score.
      test_sd: standard deviation (n - 1) of it; None for one run.
    """

    values: dict[str, str]
    runs: int
    validation: float | None
    validation_sd: float | None
    test: float | None
    test_sd: float | None


def row(directory: Path, point: Point, code: int | None, error: str = "") -> Row:
    """Returns the row of a run.

    Args:
      directory: of the run.
      point: its options.
      code: the command's exit code; None if it is unknown, or the run has not been started.
      error: reason of a failure.
    """
    row = Row(directory.name, dict(point), state(directory, code), error=error)
    try:
        if (directory / "config.json").exists():
            run = summary(directory)
            row.metric, row.validation, row.test = run.metric, run.validation, run.test
    except ValueError as damaged:
        row.error = str(damaged)
    return row


def state(directory: Path, code: int | None) -> str:
    """Returns the state of a run: "done", "open", "stopped" or "failed"."""
    if code == 0 or is_finished(directory):
        return "done"
    if code is None:
        return "open"
    return "stopped" if code > 128 else "failed"


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Sorts rows by validation score, with the best first and runs without a defined score last."""
    return sorted(rows, key=lambda r: (scored(r), sign(r.metric) * (r.validation or 0.0)), reverse=True)


def scored(row: Row) -> bool:
    """Returns whether a run has a validation score that is a number."""
    return row.validation is not None and math.isfinite(row.validation)


def means(rows: Sequence[Row]) -> list[Mean]:
    """Returns means over seeds, with the best first; [] if no two runs differ only in their seeds."""
    groups: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for each in ordered(rows):
        kept = tuple((knob, value) for knob, value in each.values.items() if knob not in SEEDS)
        groups.setdefault(kept, []).append(each)
    if len(groups) == len(rows):
        return []
    done = {key: [r for r in group if r.state == "done" and scored(r)] for key, group in groups.items()}
    found = [
        Mean(
            dict(key),
            len(group),
            *over_runs(r.validation for r in group),
            *over_runs(r.test for r in group),
        )
        for key, group in done.items()
        if group
    ]
    metric = next((r.metric for r in rows if r.metric), None)
    return sorted(found, key=lambda mean: sign(metric) * (mean.validation or 0.0), reverse=True)


def write(directory: Path, rows: Sequence[Row]) -> None:
    """Writes the table as JSON, one object for each run, and the means over seeds if there are several."""
    atomic.make_folder(directory)
    atomic.write(directory / FILE, json.dumps([asdict(r) for r in ordered(rows)], indent=2) + "\n")
    if averaged := means(rows):
        atomic.write(directory / MEANS_FILE, json.dumps([asdict(m) for m in averaged], indent=2) + "\n")


def table(rows: Sequence[Row]) -> str:
    """Returns the table as text, the means over seeds if any, and the reason for each failure."""
    metric = next((r.metric for r in rows if r.metric), "metric")
    knobs = list(rows[0].values)
    cells = [[f"validation {metric}", f"test {metric}", *knobs, "state"]]
    cells += [[show(r.validation), show(r.test), *r.values.values(), r.state] for r in ordered(rows)]
    lines = aligned(cells)
    if averaged := means(rows):
        lines += ["", *mean_lines(averaged, metric)]
    lines += [f"{r.state}: {r.run}: {r.error or 'see its output'}" for r in rows if r.state == "failed"]
    return "\n".join(lines)


def mean_lines(averaged: Sequence[Mean], metric: str) -> list[str]:
    """Returns the lines of the table of means."""
    cells = [["seeds", f"mean validation {metric}", "SD", f"mean test {metric}", "SD", *averaged[0].values]]
    for m in averaged:
        scores = (m.validation, m.validation_sd, m.test, m.test_sd)
        cells.append([str(m.runs), *map(show, scores), *m.values.values()])
    return aligned(cells)


def show(value: Any) -> str:
    return "-" if value is None else f"{value:.5g}"
