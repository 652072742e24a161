"""Summarises a sweep in a table of its runs, the best first."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fourier_attn import atomic
from fourier_attn.columns import aligned
from fourier_attn.train.summary import is_finished, summary
from launch.grid import Point

FILE = "summary.json"


@dataclass
class Row:
    """One run: its values of the grid, and how it ended."""

    run: str
    values: dict[str, str]
    state: str  # "done", "failed", "stopped" or "open"
    metric: str | None = None
    validation: float | None = None  # best of all epochs
    test: float | None = None
    error: str = ""


def row(directory: Path, point: Point, code: int | None, error: str = "") -> Row:
    """Returns the row of a run.

    Args:
      code: the command's exit code; None if it is unknown, or the run has not been started.
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
    """Sorts rows by validation, the best first; runs without one, or whose score is undefined, are last."""
    return sorted(rows, key=lambda r: (scored(r), r.validation or 0.0), reverse=True)


def scored(row: Row) -> bool:
    """Returns whether a run has a validation score that is a number."""
    return row.validation is not None and math.isfinite(row.validation)


def write(directory: Path, rows: Sequence[Row]) -> None:
    """Writes the table as JSON, one object for each run."""
    atomic.make_folder(directory)
    atomic.write(directory / FILE, json.dumps([asdict(r) for r in ordered(rows)], indent=2) + "\n")


def table(rows: Sequence[Row]) -> str:
    """Returns the table as text, with the reason for each failure."""
    metric = next((r.metric for r in rows if r.metric), "metric")
    knobs = list(rows[0].values)
    cells = [[f"validation {metric}", f"test {metric}", *knobs, "state"]]
    cells += [[show(r.validation), show(r.test), *r.values.values(), r.state] for r in ordered(rows)]
    lines = aligned(cells)
    lines += [f"{r.state}: {r.run}: {r.error or 'see its output'}" for r in rows if r.state == "failed"]
    return "\n".join(lines)


def show(value: Any) -> str:
    return "-" if value is None else f"{value:.5g}"
