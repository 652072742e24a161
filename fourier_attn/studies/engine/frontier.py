"""The engines that give the most accuracy for their joules; their table and their figure."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourier_attn import style
from fourier_attn.studies.intervals import percent_range, wilson_interval

Rows = Sequence[dict[str, Any]]
TESTED = "judged"  # the part of engines that were evaluated on the test split, as files of results have it


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Places of the points (cost, gain) that no other one beats, the cheapest first.

    Another one beats a point that costs no more and gains no less, and is not the same in both.
    """
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1]))
    indices, best = [], -math.inf
    for i in order:
        if points[i][1] > best:
            indices.append(i)
            best = points[i][1]
    return indices


def nearest(rows: Rows, count: int) -> list[dict[str, Any]]:
    """Returns `count` rows, of the front, then of the front of the rest, and so on; the cheapest first."""
    left, chosen = list(rows), []
    while left and len(chosen) < count:
        places = front([(row["joules"]["typical"], row["validation_accuracy"]) for row in left])
        best = sorted((left[i] for i in places), key=lambda row: -row["validation_accuracy"])
        chosen += best[: count - len(chosen)]
        left = [row for i, row in enumerate(left) if i not in places]
    return sorted(chosen, key=lambda row: row["joules"]["typical"])


def part(rows: Rows, name: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["part"] == name]


def words(row: dict[str, Any]) -> str:
    """Returns the settings of a row in words."""
    return (
        f"{row['bits']} bit, {row['slices']} slice(s), {row['averages']} average(s), "
        f"power x {row['power']:g}, fewest {row['prefer']}"
    )


def table(rows: Rows) -> str:
    """Lists the engines that were evaluated on the test split, the exact transform and the processor."""
    (exact,), (processor,) = part(rows, "exact"), part(rows, "electronic")
    lines = [f"test accuracy of {exact['examples']} examples, % (95 %)   J of an example (low to high)"]
    for number, row in enumerate(part(rows, TESTED), 1):
        lines.append(f"{number:>2} {_numbers(row, exact['examples'])}   {words(row)}")
    lines.append(
        f"   {_numbers(processor, exact['examples'])}   exact, on the processor: {processor['power']}"
    )
    return "\n".join(lines)


def _numbers(row: dict[str, Any], examples: int) -> str:
    low, high = wilson_interval(row["accuracy"], examples)
    joules = row["joules"]
    return (
        f"{100 * row['accuracy']:6.2f} ({percent_range(low, high)})   "
        f"{joules['typical']:.3g} ({joules['low']:.3g} to {joules['high']:.3g})"
    )


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots accuracy over joules: all engines that were searched, those tested with bands, and electronics.

    The tested ones have their numbers in the table.
    """
    figure = style.figure(height=3.8)
    axes, rows = figure.subplots(), document["rows"]
    (exact,), (processor,), tested = part(rows, "exact"), part(rows, "electronic"), part(rows, TESTED)
    searched, examples = part(rows, "searched"), exact["examples"]
    axes.plot(
        [row["joules"]["typical"] for row in searched],
        [100 * row["validation_accuracy"] for row in searched],
        ".",
        color=style.PALE,
        label=f"searched ({len(searched)}), validation accuracy",
    )
    low, high = wilson_interval(exact["accuracy"], examples)
    axes.axhspan(100 * low, 100 * high, color=style.GREEN, alpha=0.12, linewidth=0)
    level = 100 * exact["accuracy"]
    axes.axhline(level, color=style.GREEN, linewidth=0.8, label="exact transform, 95 %")
    best = [tested[i] for i in front([(row["joules"]["typical"], row["accuracy"]) for row in tested])]
    axes.step(
        [row["joules"]["typical"] for row in best],
        [100 * row["accuracy"] for row in best],
        where="post",
        color=style.BLUE,
        linewidth=0.8,
    )
    label = "engines, test accuracy, 95 %; joules low to high"
    _bars(axes, tested, examples, color=style.BLUE, fmt="o", label=label)
    label = "processor of the machine, exact"
    _bars(axes, [processor], examples, color=style.VERMILION, fmt="s", label=label)
    axes.set(xscale="log", xlabel="energy of an example's transforms, J", ylabel="accuracy, %")
    axes.set_title(document["setting"].replace("; ", "\n"))  # what was computed again has a line of its own
    figure.legend(loc="outside lower center", ncols=2)
    figure.draw_without_rendering()  # the places of the numbers
    for numbers, place in together(axes, tested, examples):
        axes.annotate(numbers, place, (0, 2), textcoords="offset points", ha="center", va="bottom")
    return figure


def together(axes: Axes, rows: Rows, examples: int) -> list[tuple[str, tuple[float, float]]]:
    """Numbers of points, with a place above each; those that would overlap are one range."""
    near = 34 / 72 * axes.figure.dpi  # pixels
    groups: list[tuple[list[int], tuple[float, float]]] = []
    for number, row in enumerate(rows, 1):
        place = row["joules"]["typical"], 100 * wilson_interval(row["accuracy"], examples)[1]
        pixels = axes.transData.transform(place)
        if groups and np.abs(pixels - axes.transData.transform(groups[-1][1])).max() < near:
            groups[-1][0].append(number)
        else:
            groups.append(([number], place))
    return [(f"{n[0]}" if len(n) == 1 else f"{n[0]} to {n[-1]}", place) for n, place in groups]


def _bars(axes: Axes, rows: Rows, examples: int, **look: Any) -> None:
    """Points with intervals in both directions."""
    x = [row["joules"]["typical"] for row in rows]
    y = [100 * row["accuracy"] for row in rows]
    ends = [wilson_interval(row["accuracy"], examples) for row in rows]
    axes.errorbar(
        x,
        y,
        yerr=[
            [value - 100 * low for value, (low, _) in zip(y, ends, strict=True)],
            [100 * high - value for value, (_, high) in zip(y, ends, strict=True)],
        ],
        xerr=[
            [row["joules"]["typical"] - row["joules"]["low"] for row in rows],
            [row["joules"]["high"] - row["joules"]["typical"] for row in rows],
        ],
        linewidth=0.8,
        **look,
    )
