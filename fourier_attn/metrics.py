"""Metrics: sums over examples, their means, and where they are written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from tensorboardX import SummaryWriter

Sums = dict[str, Any]


def zeros() -> Sums:
    """The sums over no example."""
    return {name: jnp.zeros((), jnp.float32) for name in ("loss", "correct", "count")}


def sums(logits: Float[Array, "b c"], label: Int[Array, " b"], weight: Float[Array, " b"]) -> Sums:
    """Cross-entropy, correct answers and number of examples, summed with their weights.

    Units: loss in nats.
    """
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, label)
    correct = (jnp.argmax(logits, axis=-1) == label).astype(jnp.float32)
    return {"loss": jnp.vdot(loss, weight), "correct": jnp.vdot(correct, weight), "count": weight.sum()}


def add(a: Sums, b: Sums) -> Sums:
    """Sums over both sets of examples."""
    return jax.tree.map(jnp.add, a, b)


def mean(total: Sums) -> dict[str, Any]:
    """Divides sums by their count: loss and accuracy; with several seeds also each seed's and the deviation.

    The deviation over K seeds is that of a sample, divided by K - 1.
    """
    total = {name: np.asarray(value, np.float64) for name, value in total.items()}
    result = {}
    for name, summed in (("loss", total["loss"]), ("accuracy", total["correct"])):
        values = np.atleast_1d(summed / np.maximum(total["count"], 1.0))
        result[name] = float(values.mean())
        if len(values) > 1:
            result |= {f"{name}_std": float(values.std(ddof=1)), f"{name}_seeds": values.tolist()}
    return result


class Writer:
    """Writes metrics to `metrics.jsonl` and to TensorBoard event files in the run's directory.

    Lines of steps after `step` are dropped: a resumed run writes them again.
    """

    def __init__(self, workdir: Path, step: int):
        self.path = workdir / "metrics.jsonl"
        kept = [line for line in read(workdir) if line["step"] <= step]
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


def read(workdir: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`; a line cut off by a kill is left out.

    Raises: ValueError for a line that is no JSON.
    """
    path = workdir / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    try:
        return [json.loads(line) for line in lines if line.endswith("\n")]
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged ({error}); mend it or move it away") from error


def plot_curves(workdir: Path) -> None:
    """Draws `curves.png`: train and validation accuracy by epoch."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = [line for line in read(workdir) if line["epoch"] == int(line["epoch"])]
    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="epoch", ylabel="accuracy", title=workdir.name)
    for split in ("train", "validation"):
        points = [
            (line["epoch"], line["accuracy"], line.get("accuracy_std", 0.0))
            for line in lines
            if line["split"] == split
        ]
        if points:
            epoch, accuracy, deviation = np.array(points).T
            axes.errorbar(
                epoch, accuracy, deviation if deviation.any() else None, marker="o", capsize=3, label=split
            )
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(workdir / "curves.png", dpi=120)
