"""Of many engines those that give the most accuracy for their joules; their table and their picture."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from fourier_attn.studies.bands import interval

Rows = Sequence[dict[str, Any]]


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Places of the points (cost, gain) that no other one beats, the cheapest first.

    Another one beats a point that costs no more and gains no less, and is not the same in both.
    """
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1]))
    found, best = [], -math.inf
    for i in order:
        if points[i][1] > best:
            found.append(i)
            best = points[i][1]
    return found


def nearest(rows: Rows, count: int) -> list[dict[str, Any]]:
    """So many rows: those of the front, then of the front of what is left, and so on; the cheapest first."""
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
    """What was chosen."""
    return (
        f"{row['bits']} bit, {row['slices']} slice(s), {row['averages']} average(s), "
        f"power x {row['power']:g}, fewest {row['prefer']}"
    )


def table(rows: Rows) -> str:
    """A line for each engine that judged the test split, the exact transform and the processor."""
    (exact,), (processor,) = part(rows, "exact"), part(rows, "electronic")
    lines = [f"test accuracy of {exact['examples']} examples, % (95 %)   J of an example (low to high)"]
    for number, row in enumerate(part(rows, "judged"), 1):
        lines.append(f"{number:>2} {_numbers(row, exact['examples'])}   {words(row)}")
    lines.append(
        f"   {_numbers(processor, exact['examples'])}   exact, on the processor: {processor['power']}"
    )
    return "\n".join(lines)


def _numbers(row: dict[str, Any], examples: int) -> str:
    low, high = interval(row["accuracy"], examples)
    joules = row["joules"]
    return (
        f"{100 * row['accuracy']:6.2f} ({100 * low:.2f} to {100 * high:.2f})   "
        f"{joules['typical']:.3g} ({joules['low']:.3g} to {joules['high']:.3g})"
    )


def draw(rows: Rows, setting: str) -> Figure:
    """Accuracy over joules: all that were searched, those that were judged with bands, and electronics."""
    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.subplots()
    (exact,), (processor,), judged = part(rows, "exact"), part(rows, "electronic"), part(rows, "judged")
    searched = part(rows, "searched")
    axes.plot(
        [row["joules"]["typical"] for row in searched],
        [100 * row["validation_accuracy"] for row in searched],
        ".",
        color="0.75",
        label=f"searched ({len(searched)}), validation accuracy",
    )
    low, high = interval(exact["accuracy"], exact["examples"])
    axes.axhspan(100 * low, 100 * high, color="tab:green", alpha=0.12)
    axes.axhline(100 * exact["accuracy"], color="tab:green", linewidth=0.8, label="exact transform, 95 %")
    _bars(
        axes, judged, exact["examples"], "tab:blue", "o", "engines, test accuracy, 95 %; joules low to high"
    )
    _bars(axes, [processor], exact["examples"], "tab:red", "s", "this machine's processor, exact")
    best = [judged[i] for i in front([(row["joules"]["typical"], row["accuracy"]) for row in judged])]
    axes.step(
        [row["joules"]["typical"] for row in best],
        [100 * row["accuracy"] for row in best],
        where="post",
        color="tab:blue",
        linewidth=0.8,
    )
    for number, row in enumerate(judged, 1):
        place = row["joules"]["typical"], 100 * row["accuracy"]
        axes.annotate(str(number), place, (4, 5), textcoords="offset points", fontsize=9)
    legend = [f"{number}  {words(row)}" for number, row in enumerate(judged, 1)]
    figure.text(1.0, 0.5, "\n".join(legend), fontsize=8, va="center", ha="left")
    axes.set(xscale="log", xlabel="joules of an example's transforms", ylabel="accuracy, %", title=setting)
    axes.legend(fontsize=8, loc="lower right")
    axes.grid(linewidth=0.3)
    return figure


def _bars(axes: Any, rows: Rows, examples: int, color: str, marker: str, label: str) -> None:
    """Points with intervals in both directions."""
    x = [row["joules"]["typical"] for row in rows]
    y = [100 * row["accuracy"] for row in rows]
    ends = [interval(row["accuracy"], examples) for row in rows]
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
        fmt=marker,
        color=color,
        markersize=5,
        linewidth=0.8,
        capsize=2,
        label=label,
    )
