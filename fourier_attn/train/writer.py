"""What a run writes while it goes on: metrics.jsonl, TensorBoard events, curves.png."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tensorboardX import SummaryWriter


class Writer:
    """Writes metrics to `metrics.jsonl` and to TensorBoard event files in the run's directory.

    Lines of steps after `step` are dropped: a resumed run writes them again.
    """

    def __init__(self, workdir: Path, step: int):
        self.path = workdir / "metrics.jsonl"
        kept = [line for line in read_lines(workdir) if line["step"] <= step]
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in kept))
        temporary.replace(self.path)
        self.file = self.path.open("a")
        self.board = SummaryWriter(str(workdir / "tensorboard"), purge_step=step + 1, write_to_disk=True)

    def write(self, split: str, step: int, epoch: int | float, values: Mapping[str, Any]) -> None:
        """Writes one line: step, epoch (a fraction of the data seen), split, then the values."""
        self.file.write(json.dumps({"step": step, "epoch": epoch, "split": split, **values}) + "\n")
        self.file.flush()
        for name, value in values.items():
            if isinstance(value, float):
                self.board.add_scalar(f"{split}/{name}", value, step)

    def close(self) -> None:
        self.file.close()
        self.board.close()


def read_lines(workdir: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`; a line cut off by a kill is left out.

    Raises: ValueError for a line that is no JSON.
    """
    path = workdir / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    try:
        return [json.loads(line) for line in lines if line.endswith("\n")]
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged ({error}); mend it or move it away") from error


def plot_curves(workdir: Path, name: str = "accuracy") -> None:
    """Draws `curves.png`: one of the means, of train and validation, by epoch."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = [line for line in read_lines(workdir) if line["epoch"] == int(line["epoch"])]
    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="epoch", ylabel=name.replace("_", " "), title=workdir.name)
    for split in ("train", "validation"):
        points = [
            (line["epoch"], line[name], line.get(f"{name}_std", 0.0))
            for line in lines
            if line["split"] == split and name in line
        ]
        if points:
            epoch, value, deviation = np.array(points).T
            axes.errorbar(
                epoch, value, deviation if deviation.any() else None, marker="o", capsize=3, label=split
            )
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(workdir / "curves.png", dpi=120)
