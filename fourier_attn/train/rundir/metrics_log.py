"""Writes and reads a run's metrics.jsonl, and passes metrics to a tracker."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fourier_attn import atomic
from fourier_attn.train.rundir.trackers import TRACKERS


class Writer:
    """Writes metrics to metrics.jsonl in the run's directory, and to a tracker.

    Lines of later steps and of test sets are removed, because a resumed run writes them again. Numbers that
    are not finite are written as null.

    Args:
      workdir: directory of the run.
      step: step of the state that the run starts from.
      closed: whether the validation at `step` is finished; if not, its lines are removed as well. Default
        True.
      tracker: a key of `TRACKERS`; default "tensorboard".
      config: options of the run by dotted path, for the tracker; default none.
    """

    def __init__(
        self,
        workdir: Path,
        step: int,
        closed: bool = True,
        tracker: str = "tensorboard",
        config: Mapping[str, Any] = MappingProxyType({}),
    ):
        self.path, last = workdir / "metrics.jsonl", step if closed else step - 1
        kept = [
            line
            for line in read_lines(workdir)
            if line["step"] <= last and line["split"] in ("train", "validation")
        ]
        atomic.write(self.path, "".join(strict_json(line) + "\n" for line in kept))
        self.file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "a")
        self.tracker = TRACKERS[tracker](workdir, last, config)

    def write(self, split: str, step: int, epoch: int | float, values: Mapping[str, Any]) -> None:
        """Writes one line of metrics.

        Args:
          split: "train", "validation", or the name of a test split.
          step: number of training steps made.
          epoch: number of epochs done, which may be a fraction.
          values: metrics by name.
        """
        line = {"step": step, "epoch": epoch, "split": split, **values}
        self.file.write(strict_json(line) + "\n")
        self.file.flush()
        numbers = {f"{split}/{name}": value for name, value in values.items() if isinstance(value, float)}
        self.tracker.write(step, epoch, numbers)

    def sync(self) -> None:
        """Syncs all lines and events to the disk."""
        os.fsync(self.file.fileno())
        self.tracker.flush()

    def close(self) -> None:
        """Syncs all lines and events to the disk, and closes the tracker."""
        self.sync()
        self.file.close()
        self.tracker.close()


def check_no_metrics(workdir: Path) -> None:
    """Refuses to start over in a directory with metrics but without a checkpoint. Raises: ValueError."""
    if (workdir / "metrics.jsonl").exists():
        steps = max((line["step"] for line in read_lines(workdir)), default=0)
        raise ValueError(
            f"workdir={workdir} has metrics of {steps} steps but no checkpoint; restore its folder "
            "checkpoints, or start again in another workdir"
        )


def strict_json(value: Any) -> str:
    """Returns standard JSON, with null for numbers that are not finite."""
    return json.dumps(_strict(value), allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    return [_strict(item) for item in value] if isinstance(value, list) else value


def read_lines(workdir: Path) -> list[dict[str, Any]]:
    """Returns the lines of a run's metrics.jsonl, without an incomplete last line.

    Raises: ValueError for a line that is not JSON, or lacks step, epoch or split.
    """
    path = workdir / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    complete = []
    for number, line in enumerate(lines, 1):
        if line.endswith(b"\n"):
            try:
                values = json.loads(line)
                if type(values["step"]) is not int or not isinstance(values["split"], str):
                    raise ValueError("its step is not an integer, or its split is not a name")
                if type(values["epoch"]) not in (int, float) or not math.isfinite(values["epoch"]):
                    raise ValueError("its epoch is not a number")
                complete.append(values)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ValueError(
                    f"{path}, line {number} is damaged ({error}); fix the line or move the file"
                ) from error
    return complete
