"""The sweep behind `fourier_attn.studies.robustness`: its rows, its table, its picture."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourier_attn import model, predict
from fourier_attn.config import Config
from fourier_attn.data.batches import Batch, Split
from fourier_attn.optics import Engine, presets
from fourier_attn.train import metrics
from fourier_attn.train.evaluate import evaluate_split
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.step import make_eval_step

MARKERS = "osD^vP*X"
LINES = ("-", "--", ":", "-.")
WIDTH = 0.3  # bits, over which curves stand side by side


def run_engine(directory: Path, config: Config) -> Engine | None:
    """The engine that a run was trained on, None for the exact transform.

    Raises: ValueError for a mixer without optical form.
    """
    if "engine" not in config.model.mixer:
        raise ValueError(
            f"workdir={directory} has the mixer {config.model.mixer.name!r}, without optical form"
        )
    return presets.build(config.model.mixer.engine)


def public_split(
    directory: Path, config: Config, data_dir: str | None = None, examples: int = 0
) -> tuple[str, Split]:
    """The run's test split, or the validation split where labels of test are not public; and its name.

    Args:
      examples: the first so many of it; 0 is all.
    """
    config.data.eval_examples = config.data.test_examples = examples
    splits = predict.load(config, directory, data_dir)
    if splits.test.labels.min() < 0:
        return "validation", splits.validation
    return "test", splits.test


def accuracies(
    directory: Path,
    engine: Engine,
    bits: Sequence[int],
    noises: Sequence[float],
    devices: int,
    *,
    data_dir: str | None = None,
    examples: int = 0,
) -> Iterator[dict[str, Any]]:
    """Accuracy with the exact transform (a row without bits), then with every combination.

    Raises: ValueError for a task without classes.
    """
    config, _, params = predict.restore(directory)
    fields, seeds = config.model.to_dict(), config.train.seeds
    objective = OBJECTIVES[config.model.head]
    if "accuracy" not in objective.names:
        raise ValueError(
            f"workdir={directory} has the task {config.data.task!r}, which has no accuracy; "
            "name a run on a task with classes"
        )
    if fields["mixer"].get("padding") == "own":
        raise ValueError(
            f"workdir={directory} transforms each example at its own length (padding='own'), which has no "
            "optical form; name a run with padding='invariant', 'zero' or 'tokens'"
        )
    if fields["mixer"].get("padding") == "invariant":  # each example is padded to its length: the same
        fields["mixer"]["padding"] = "zero"
    name, batches = public_split(directory, config, data_dir, examples)

    @jax.jit
    def forward(params: Any, batch: Batch, engine: Engine | None, noise: Any) -> Any:
        mixer = fields["mixer"] | {"engine": engine, "eval_engine": None}
        network = model.build(fields | {"mixer": mixer})
        return make_eval_step(network, objective, seeds, noise)(params, batch)

    def accuracy(engine: Engine | None, noise: int = 0) -> float:
        total, _ = evaluate_split(lambda *inputs: forward(*inputs, engine, noise), params, batches)
        return metrics.mean(total)["accuracy"]

    row = {"run": directory.name, "split": name}
    yield row | {"accuracy": accuracy(None)}
    for b, noise, device in itertools.product(bits, noises, range(devices)):
        through = accuracy(presets.scaled(engine, b, noise, device), device)
        yield row | {"bits": b, "noise": noise, "device": device, "accuracy": through}


def percentages(
    rows: Sequence[dict[str, Any]], run: str, bits: Sequence[int], noises: Sequence[float]
) -> tuple[float, np.ndarray]:
    """Accuracy of a run in percent: of the exact transform, and of each noise, bits and device."""
    exact = math.nan
    cells = {(noise, b): [] for noise in noises for b in bits}
    for row in rows:
        if row["run"] != run:
            continue
        if "bits" not in row:
            exact = 100 * row["accuracy"]
        else:
            cells[row["noise"], row["bits"]].append(100 * row["accuracy"])
    return exact, np.array(list(cells.values())).reshape(len(noises), len(bits), -1)


def runs(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The runs of the rows, each once."""
    return list(dict.fromkeys(row["run"] for row in rows))


def print_table(rows: Sequence[dict[str, Any]], bits: Sequence[int], noises: Sequence[float]) -> None:
    """Mean accuracy over devices, in percent."""
    for run in runs(rows):
        exact, table = percentages(rows, run, bits, noises)
        print(f"{run}: {rows[0]['split']} accuracy, %; exact {exact:.2f}")
        print("noise x   " + "".join(f"{f'{b} bit':>9}" for b in bits))
        for noise, cells in zip(noises, table.mean(axis=2), strict=True):
            print(f"{noise:<10g}" + "".join(f"{cell:9.2f}" for cell in cells))


def draw(rows: Sequence[dict[str, Any]], bits: Sequence[int], noises: Sequence[float]) -> Figure:
    """What each run loses against its exact transform, over bits, and a map of accuracy for each run."""
    names = runs(rows)
    figure = Figure(figsize=(5 * (1 + len(names)), 4), layout="constrained")
    first, *maps = figure.subplots(1, 1 + len(names))
    found = {run: percentages(rows, run, bits, noises) for run in names}
    _draw_losses(first, found, bits, noises)
    least = min(table.min() for _, table in found.values())
    most = max(table.max() for _, table in found.values())
    for axes, (run, (exact, table)) in zip(maps, found.items(), strict=True):
        image = _draw_map(axes, table.mean(axis=2), bits, noises, least, most)
        axes.set_title(f"{run}, exact {exact:.2f} %")
        figure.colorbar(image, ax=axes, label=f"{rows[0]['split']} accuracy, %")
    return figure


def _draw_losses(
    axes: Axes,
    found: dict[str, tuple[float, np.ndarray]],
    bits: Sequence[int],
    noises: Sequence[float],
) -> None:
    """A curve for each run and noise, side by side: mean and deviation over devices."""
    shifts = iter(np.linspace(-WIDTH / 2, WIDTH / 2, len(found) * len(noises)))
    for color, (run, (exact, table)) in enumerate(found.items()):
        for style, (noise, values) in enumerate(zip(noises, exact - table, strict=True)):
            devices = values.shape[1]
            axes.errorbar(
                np.asarray(bits) + next(shifts),
                values.mean(axis=1),
                values.std(axis=1, ddof=min(1, devices - 1)),
                color=f"C{color}",
                linestyle=LINES[style % len(LINES)],
                marker=MARKERS[(color * len(noises) + style) % len(MARKERS)],
                markersize=4,
                capsize=2,
                label=f"{run}, noise x {noise:g}",
            )
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set(
        xlabel="bits of all converters",
        ylabel="accuracy lost against the exact transform, points",
        xticks=bits,
    )
    axes.legend(fontsize=7, handlelength=4)


def _draw_map(
    axes: Axes, table: np.ndarray, bits: Sequence[int], noises: Sequence[float], least: float, most: float
) -> Any:
    """Mean accuracies over devices, in colours and numbers; the image."""
    image = axes.imshow(table, aspect="auto", cmap="viridis", vmin=least, vmax=most)
    for i, j in np.ndindex(*table.shape):
        dark = table[i, j] < (least + most) / 2
        axes.text(j, i, f"{table[i, j]:.1f}", ha="center", va="center", color="white" if dark else "black")
    axes.set(xticks=range(len(bits)), xticklabels=bits, xlabel="bits of all converters")
    axes.set(yticks=range(len(noises)), yticklabels=[f"{noise:g}" for noise in noises])
    axes.set_ylabel("noise, times the engine's")
    return image
