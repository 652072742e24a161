"""The sweep of `fourier_attn.studies.engine.robustness`: its rows, its table, its figure."""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from fourier_attn import style
from fourier_attn.columns import aligned
from fourier_attn.optics import Engine, presets
from fourier_attn.studies.engine.evaluator import EngineEvaluator

LINES = ("-", "--", ":", "-.")
RANGE = 4  # standard errors that a colour scale has at least: less is noise
WIDTH = 0.3  # bits, over which curves are placed side by side


def accuracies(
    evaluator: EngineEvaluator, engine: Engine, bits: Sequence[int], noises: Sequence[float], devices: int
) -> Iterator[dict[str, Any]]:
    """Yields the accuracy with the exact transform (a row without bits), then with every combination.

    Args:
      evaluator: evaluates one run through engines.
      engine: the engine to start from.
      bits: of all converters.
      noises: factors on the noise.
      devices: how many are drawn.
    """
    row = {
        "run": evaluator.name,
        "split": evaluator.public,
        "examples": len(evaluator.splits[evaluator.public].labels),
    }
    yield row | {"accuracy": evaluator.exact(evaluator.public)}
    for b, noise, device in itertools.product(bits, noises, range(devices)):
        through = evaluator.through([presets.scaled(engine, b, noise, device)], evaluator.public, device)
        yield row | {"bits": b, "noise": noise, "device": device, "accuracy": float(through[0])}


def percentages(
    rows: Sequence[dict[str, Any]], run: str, bits: Sequence[int], noises: Sequence[float]
) -> tuple[float, np.ndarray]:
    """Returns a run's accuracy in percent: with the exact transform, and by noise, bits and device.

    Args:
      rows: of the sweep.
      run: name of the run.
      bits: of all converters.
      noises: factors on the noise.
    """
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
    """Returns the runs of the rows, each once."""
    return list(dict.fromkeys(row["run"] for row in rows))


def print_table(rows: Sequence[dict[str, Any]], bits: Sequence[int], noises: Sequence[float]) -> None:
    """Prints the mean accuracy over devices, in percent.

    Args:
      rows: of the sweep.
      bits: of all converters.
      noises: factors on the noise.
    """
    for run in runs(rows):
        exact, table = percentages(rows, run, bits, noises)
        print(f"{run}: {rows[0]['split']} accuracy, %; exact {exact:.2f}")
        lines = [["noise x", *(f"{b} bit" for b in bits)]]
        for noise, cells in zip(noises, table.mean(axis=2), strict=True):
            lines.append([f"{noise:g}", *(f"{cell:.2f}" for cell in cells)])
        print("\n".join(aligned(lines, right=True)))


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots each run's loss of accuracy over bits, and a map of accuracy for each run."""
    rows = document["rows"]
    bits, noises = (sorted({row[name] for row in rows if name in row}) for name in ("bits", "noise"))
    by_run = {run: percentages(rows, run, bits, noises) for run in runs(rows)}
    high = 0.45 * len(noises) + 0.7
    figure = style.figure(height=2.8 + high)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(2.8, high))[:, 0]
    _plot_losses(upper.subplots(), by_run, bits, noises, standard_error(document))
    means = [table.mean(axis=2) for _, table in by_run.values()]
    error = standard_error(document)
    norm = Normalize(*wide([float(np.min(means)), float(np.max(means))], RANGE * (error or 0.0)))
    maps = lower.subplots(1, len(by_run), sharey=True, squeeze=False)[0]
    for axes, mean, (run, (exact, _)) in zip(maps, means, by_run.items(), strict=True):
        _plot_map(axes, mean, bits, noises, norm)
        axes.set_title(f"{run}: exact transform {exact:.2f} %")
    maps[0].set_ylabel("noise, times\nthe engine's")
    lower.colorbar(ScalarMappable(norm), ax=list(maps), label=f"{rows[0]['split']} accuracy, %")
    style.label_ends(upper.axes[0])
    return figure


def standard_error(document: dict[str, Any]) -> float | None:
    """Returns the standard error of an accuracy, in points, from the number of examples that it is of.

    Of an accuracy, not of a difference on the same examples, which is less. Sweeps that did not note the
    number have it in their commands; None where it is not known.
    """
    rows = document["rows"]
    matches = [re.search(r"--examples=(\d+)", each.get("command") or "") for each in (document, *rows)]
    examples = rows[0].get("examples") or next((int(match[1]) for match in matches if match), 0)
    accuracy = next(row["accuracy"] for row in rows if "bits" not in row)
    return 100 * math.sqrt(accuracy * (1 - accuracy) / examples) if examples else None


def wide(ends: Sequence[float], least: float) -> tuple[float, float]:
    """Returns a range with the same middle, and so wide at least."""
    half, middle = max(ends[1] - ends[0], least) / 2, sum(ends) / 2
    return middle - half, middle + half


def _plot_losses(
    axes: Axes,
    by_run: dict[str, tuple[float, np.ndarray]],
    bits: Sequence[int],
    noises: Sequence[float],
    error: float | None,
) -> None:
    """Plots a curve for each run and noise, side by side: mean and deviation over devices.

    Grey: one standard error of the examples on either side, which all curves share.
    """
    if error:
        axes.axhspan(-error, error, color=style.PALE, alpha=0.4, linewidth=0)
    shifts = iter(np.linspace(-WIDTH / 2, WIDTH / 2, len(by_run) * len(noises)))
    for colour, (run, (exact, table)) in enumerate(by_run.items()):
        for dashes, (noise, values) in enumerate(zip(noises, exact - table, strict=True)):
            devices = values.shape[1]
            axes.errorbar(
                np.asarray(bits) + next(shifts),
                values.mean(axis=1),
                values.std(axis=1, ddof=min(1, devices - 1)),
                color=style.COLOURS[colour],
                linestyle=LINES[dashes % len(LINES)],
                marker=style.MARKERS[(colour * len(noises) + dashes) % len(style.MARKERS)],
                elinewidth=0.8,
                label=f"{run}, noise x {noise:g}",
            )
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set(
        title="lost against the exact transform: mean and SD over devices"
        + (f"; grey: one standard error of the examples, {error:.2f} points" if error else ""),
        xlabel="bits of all converters",
        ylabel="accuracy lost, points",
        xticks=bits,
    )


def _plot_map(
    axes: Axes, table: np.ndarray, bits: Sequence[int], noises: Sequence[float], norm: Normalize
) -> None:
    """Plots mean accuracies over devices, in colours and numbers."""
    axes.imshow(table, aspect="auto", norm=norm)
    for i, j in np.ndindex(*table.shape):
        dark = norm(table[i, j]) < 0.5
        axes.text(j, i, f"{table[i, j]:.1f}", ha="center", va="center", color="white" if dark else "black")
    axes.grid(False)
    axes.set(xticks=range(len(bits)), xticklabels=bits, xlabel="bits of all converters")
    axes.set(yticks=range(len(noises)), yticklabels=[f"{noise:g}" for noise in noises])
