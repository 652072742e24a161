"""Plots how far each assumption alone moves an answer, as bars from low to high, the widest on top."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from fourier_attn import style
from fourier_attn.studies.engine.projection import ANSWERS

Rows = Sequence[dict[str, Any]]
TITLES = {"joules": "energy of an example", "seconds": "time of an example", "speedup": "speed-up"}
UNITS = {"joules": "J", "seconds": "s", "speedup": ""}
LOW, HIGH = style.BLUE, style.ORANGE
PREFIXES = {-4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G"}
BARS = 10  # the widest
SAME = 0.005  # bars that are narrower, as a share, are left out
WIDE = 5  # times its least number: such a panel has a logarithmic axis


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots a panel for each engine and each answer, one under the other."""
    rows = [row for row in document["rows"] if row["part"] == "sensitivity"]
    panels = [(name, answer) for name in dict.fromkeys(row["preset"] for row in rows) for answer in ANSWERS]
    mine = [[row for row in rows if row["preset"] == name] for name, _ in panels]
    slots = [max(len(widest(some, answer)), 1) for some, (_, answer) in zip(mine, panels, strict=True)]
    heights = [slot + 2.6 for slot in slots]
    figure = style.figure(height=0.19 * sum(heights) + 0.6)
    column = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, some, slot, (name, answer) in zip(column, mine, slots, panels, strict=True):
        _panel(axes, some, answer)
        axes.set_ylim(slot - 0.4, -0.6)
        axes.set_title(f"{name}: {axes.get_title('left')}")
    ends = [Patch(color=LOW, label="at its low value"), Patch(color=HIGH, label="at its high value")]
    figure.legend(handles=ends, loc="outside lower center", ncols=2)
    figure.suptitle(f"One assumption at a time, all others typical:\n{document['setting']}")
    return figure


def widest(rows: Rows, answer: str) -> list[dict[str, Any]]:
    """Returns the rows that move the answer most, the widest first."""
    moving = [row for row in rows if _width(row, answer) > math.log1p(SAME)]
    return sorted(moving, key=lambda row: _width(row, answer), reverse=True)[:BARS]


def _values(row: dict[str, Any], answer: str) -> tuple[float, float, float]:
    low, high = row["answers"]
    return low[answer], row["typical_answers"][answer], high[answer]


def _width(row: dict[str, Any], answer: str) -> float:
    values = _values(row, answer)
    return math.log(max(values) / min(values))


def _panel(axes: Axes, rows: Rows, answer: str) -> None:
    chosen = widest(rows, answer)
    axes.set_yticks(range(len(chosen)), [_label(row) for row in chosen])
    axes.set_title(TITLES[answer])
    if not chosen:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "nothing moves it", transform=axes.transAxes, ha="center", va="center")
        return
    ends = [value for row in chosen for value in _values(row, answer)]
    span = max(ends) / min(ends)
    if span > WIDE:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < WIDE**2 else (1,)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    show = partial(number, unit=UNITS[answer])
    for place, row in enumerate(chosen):
        low, middle, high = _values(row, answer)
        for value, color in ((low, LOW), (high, HIGH)):
            axes.barh(place, value - middle, left=middle, color=color, height=0.7)
        for value, side in ((min(low, middle, high), "right"), (max(low, middle, high), "left")):
            if value != middle:
                axes.annotate(
                    show(value),
                    (value, place),
                    (-3 if side == "right" else 3, 0),
                    textcoords="offset points",
                    ha=side,
                    va="center",
                )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: show(value)))
    axes.margins(x=0.25)
    axes.grid(False, axis="y")
    middle = _values(chosen[0], answer)[1]
    axes.axvline(middle, color="black", linewidth=0.8)
    axes.set_title(f"{TITLES[answer]}, typically {show(middle)}")


def number(value: float, unit: str) -> str:
    """Returns a number with three digits and the unit's prefix."""
    if not unit or value <= 0:
        return f"{value:.3g}"
    thousands = min(max(math.floor(math.log10(value) / 3), -4), 3)
    return f"{value / 1000**thousands:.3g} {PREFIXES[thousands]}{unit}"


def _label(row: dict[str, Any]) -> str:
    low, _, high = row["values"]
    return f"{row['component']}  {_short(low)} to {_short(high)} {row['unit']}".rstrip()


def _short(value: float) -> str:
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
