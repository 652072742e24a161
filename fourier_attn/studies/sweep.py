"""The sweep behind `fourier_attn.studies.robustness`: its rows, its table, its picture."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourier_attn.optics import Engine, presets
from fourier_attn.studies.judge import Judge

MARKERS = "osD^vP*X"
LINES = ("-", "--", ":", "-.")
WIDTH = 0.3  # bits, over which curves stand side by side


def accuracies(
    judge: Judge, engine: Engine, bits: Sequence[int], noises: Sequence[float], devices: int
) -> Iterator[dict[str, Any]]:
    """Accuracy with the exact transform (a row without bits), then with every combination."""
    row = {"run": judge.name, "split": judge.public}
    yield row | {"accuracy": judge.exact(judge.public)}
    for b, noise, device in itertools.product(bits, noises, range(devices)):
        through = judge.through([presets.scaled(engine, b, noise, device)], judge.public, device)
        yield row | {"bits": b, "noise": noise, "device": device, "accuracy": float(through[0])}


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
