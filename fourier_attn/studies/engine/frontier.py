"""The engines that give the most accuracy for their joules; their table and their figure."""

import math
from collections.abc import Sequence
from typing import Any

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
    """Returns the settings of a row in words; one slice and one average are left out.

    Args:
      row: an engine, with bits, slices, averages, power (over that of the preset) and prefer.
    """
    more = [f"{row[name]} {name}" for name in ("slices", "averages") if row[name] > 1]
    plan = {"error": "fewest errors", "passes": "fewest passes"}[row["prefer"]]
    return ", ".join([f"{row['bits']} bit", *more, f"power x {row['power']:g}", plan])


def table(rows: Rows) -> str:
    """Lists the engines that were evaluated on the test split, the exact transform and the processor."""
    (exact,), (processor,) = part(rows, "exact"), part(rows, "electronic")
    lines = [f"test accuracy of {exact['examples']} examples, % (95 %)   J of an example (low to high)"]
    for number, row in enumerate(part(rows, TESTED), 1):
        light = row.get("photons_per_mac")
        photons = "" if light is None else f", {light:.3g} photons per MAC"
        lines.append(f"{number:>2} {_numbers(row, exact['examples'])}   {words(row)}{photons}")
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
    """Plots accuracy and energy of each engine that was tested, and of the processor, one line for each.

    Bars are 95 % intervals of accuracy over examples, and the range of energy from low to high prices.

    Args:
      document: a file of results of `fourier_attn.studies.engine.pareto`.
    """
    rows = document["rows"]
    (exact,), (processor,), tested = part(rows, "exact"), part(rows, "electronic"), part(rows, TESTED)
    lines, count = [*tested, processor], len(part(rows, "searched"))
    names = [f"{number}: {words(row)}" for number, row in enumerate(tested, 1)] + [
        "processor, exact transform"
    ]
    figure = style.figure(height=0.2 * len(lines) + 1.1)
    left, right = figure.subplots(1, 2, sharey=True)
    low, high = wilson_interval(exact["accuracy"], exact["examples"])
    left.axvspan(100 * low, 100 * high, color=style.PALE, alpha=0.5, linewidth=0)
    for place, row in enumerate(lines):
        look = (
            {"color": style.VERMILION, "fmt": "s"} if row is processor else {"color": style.BLUE, "fmt": "o"}
        )
        ends = wilson_interval(row["accuracy"], exact["examples"])
        _bar(left, place, [100 * ends[0], 100 * row["accuracy"], 100 * ends[1]], look)
        _bar(right, place, [row["joules"][corner] for corner in ("low", "typical", "high")], look)
    left.set(yticks=range(len(lines)), yticklabels=names, ylim=(len(lines) - 0.4, -0.6))
    left.set(xlabel="test accuracy, %", title="accuracy; grey: exact transform, 95 %")
    right.set(xscale="log", xlabel="J per example", title="energy of the transforms, low to high")
    title = document["setting"].replace("; ", "\n")  # a remark has its own line
    figure.suptitle(f"{title}\nthe best of {count} engines on the validation set")
    return figure


def _bar(axes: Axes, place: int, values: Sequence[float], look: dict[str, Any]) -> None:
    """Draws a point with a horizontal bar from the first to the last of three values."""
    low, middle, high = values
    axes.errorbar(middle, place, xerr=[[middle - low], [high - middle]], linewidth=0.8, **look)
