"""What a run writes while it goes on: metrics.jsonl, TensorBoard events, curves.png."""

import io
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tensorboardX import SummaryWriter

from fourier_attn import atomic


class Writer:
    """Writes metrics to `metrics.jsonl` and to TensorBoard event files in the run's directory.

    A resumed run writes lines of later steps again, so these are dropped. Numbers that are not finite
    are null.

    Args:
      step: lines of later steps are dropped, and what was read from test sets.
      closed: whether the validation at `step` is behind the run; if not, its lines are dropped, too.
    """

    def __init__(self, workdir: Path, step: int, closed: bool = True):
        self.path, last = workdir / "metrics.jsonl", step if closed else step - 1
        kept = [
            line
            for line in read_lines(workdir)
            if line["step"] <= last and line["split"] in ("train", "validation")
        ]
        atomic.write(self.path, "".join(strict_json(line) + "\n" for line in kept))
        self.file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "a")
        self.board = SummaryWriter(str(workdir / "tensorboard"), purge_step=last + 1, write_to_disk=True)

    def write(self, split: str, step: int, epoch: int | float, values: Mapping[str, Any]) -> None:
        """Writes one line: step, epoch (a fraction of the data seen), split, then the values."""
        line = {"step": step, "epoch": epoch, "split": split, **values}
        self.file.write(strict_json(line) + "\n")
        self.file.flush()
        for name, value in values.items():
            if isinstance(value, float):
                self.board.add_scalar(f"{split}/{name}", value, step)

    def close(self) -> None:
        """Sees that all lines are on the disk."""
        os.fsync(self.file.fileno())
        self.file.close()
        self.board.close()


def strict_json(value: Any) -> str:
    """JSON as everybody reads it: a number that is not finite is null."""
    return json.dumps(_strict(value), allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    return [_strict(item) for item in value] if isinstance(value, list) else value


def read_lines(workdir: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`; a line cut off by a kill is left out.

    Raises: ValueError for a line that is no JSON, or lacks step, epoch or split.
    """
    path = workdir / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    found = []
    for number, line in enumerate(lines, 1):
        if line.endswith(b"\n"):
            try:
                values = json.loads(line)
                if type(values["step"]) is not int or not isinstance(values["split"], str):
                    raise ValueError("its step is no whole number, or its split no name")
                if type(values["epoch"]) not in (int, float) or not math.isfinite(values["epoch"]):
                    raise ValueError("its epoch is no number")
                found.append(values)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ValueError(
                    f"{path}, line {number} is damaged ({error}); mend it or move it away"
                ) from error
    return found


def plot_curves(workdir: Path, name: str = "accuracy", chance: float | None = None) -> None:
    """Draws `curves.png`: loss, and one of the metrics, of train and validation by epoch.

    Args:
      name: of the metric that chooses the best epoch, which is marked.
      chance: what guessing gets.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = read_lines(workdir)
    epochs = [line for line in lines if line["epoch"] == int(line["epoch"])]
    losses = [key for key in epochs[0] if key.endswith("loss")] if epochs else []
    shown = [name, *(loss for loss in losses[:1] if loss != name)]
    figure = Figure(figsize=(5 * len(shown), 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, metric in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for split in ("train", "validation"):
            points = [
                (line["epoch"], line[metric], line.get(f"{metric}_std", 0.0))
                for line in epochs
                if line["split"] == split and line.get(metric) is not None
            ]
            if points:
                epoch, value, deviation = np.array(points).T
                bars = deviation if deviation.any() else None
                axes.errorbar(epoch, value, bars, marker="o", ms=4, capsize=3, label=split)
                axes.set_xticks(epoch if len(epoch) <= 20 else epoch[:: len(epoch) // 10])
                if split == "validation" and metric == name:
                    best = int(np.argmax(value))
                    axes.axvline(
                        epoch[best], color="0.6", lw=0.8, ls=":", label=f"best epoch, {epoch[best]:g}"
                    )
        for line in lines:
            if line["split"] == "test" and line.get(metric) is not None:
                axes.plot(line["epoch"], line[metric], "k*", ms=9, label="test, best weights")
        if metric == name and chance is not None:
            axes.axhline(chance, color="0.6", lw=0.8, ls="--", label="chance")
        axes.set(xlabel="epoch", ylabel=metric.replace("_", " "))
        axes.margins(y=0.1)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.suptitle(workdir.name)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    atomic.write(workdir / "curves.png", picture.getvalue())
