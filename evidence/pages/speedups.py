"""Plots how many times faster one side of a comparison is, over all sizes that were measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from fourier_attn import style

PLOTTED = (
    *("speed-fourier", "speed-mixers", "speed-ops", "speed-torch"),
    *("speed-encoder", "speed-images", "speed-optics"),
)
LOOKS = {"forward": (style.BLUE, "o", -0.17), "forward + backward": (style.VERMILION, "s", 0.17)}
OTHER = (style.BLUE, "o", 0.0)  # of rows that do not name a pass, or are training steps


@style.styled()
def plot(documents: Sequence[Mapping[str, Any]]) -> Figure:
    """Plots the ratio of both sides' times: a line for each comparison, a point for each size.

    A point is filled if all rounds agree on the faster side, and hollow otherwise.

    Args:
      documents: files of results of benchmarks, see `evidence.pages.timings.SPEED`.
    """
    rows = [row for document in documents for row in document["rows"] if "times_faster" in row]
    names = list(dict.fromkeys(row["what"] for row in rows))
    figure = style.figure(height=0.21 * len(names) + 0.9)
    axes = figure.subplots()
    axes.axvline(1, color=style.GREY, linewidth=0.8)
    for row in rows:
        colour, marker, shift = LOOKS.get(row.get("pass", ""), OTHER)
        decided = not row["lowest"] <= 1 <= row["highest"]
        look = {"color": colour, "markerfacecolor": colour if decided else "none", "markersize": 4.0}
        axes.plot([row["times_faster"]], [names.index(row["what"]) + shift], marker, **look)
    axes.set(xscale="log", ylim=(len(names) - 0.5, -0.5))
    axes.set_yticks(range(len(names)), names)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("times faster (right of 1: the first side)\nhollow: rounds disagree")
    passes = {row.get("pass", "") for row in rows} & LOOKS.keys()
    if len(passes) > 1:
        handles = [
            Line2D([], [], linestyle="", color=colour, marker=marker, label=label)
            for label, (colour, marker, _) in LOOKS.items()
        ]
        figure.legend(handles=handles, loc="outside upper right", ncols=2)
    return figure
