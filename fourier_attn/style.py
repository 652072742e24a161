"""Defines the style of figures: sizes, colours, fonts, labels at the ends of curves, and files.

Decorate functions that plot with `styled()`. It leaves matplotlib's global settings unchanged.
"""

import io
from collections.abc import Sequence
from contextlib import ContextDecorator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.rcsetup import cycler
from matplotlib.text import Annotation
from PIL import Image
from scipy.optimize import isotonic_regression

from fourier_attn import atomic

COLUMN, PAGE = 3.5, 7.2  # widths in inches: of a column, and of a page
DPI = 150
# Okabe and Ito, Color Universal Design, 2008; without its yellow, which is too pale on white, and its black
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
GREY, PALE = "#767676", "#d0d0d0"
MARKERS = "os^Dv*XP"
SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"  # even in lightness, and safe for the colour-blind
SMALL = 7.0  # points: type inside of a figure; the rest of it has a point more
RIGHT = 1.03  # where names of curves begin, as a share of the axes
LEAST_CONTRAST = 4.5  # of type on white, WCAG 2 AA

SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # which matplotlib brings along
    "font.size": SMALL,
    "axes.labelsize": SMALL + 1,
    "axes.titlesize": SMALL + 1,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=COLOURS),
    "figure.titlesize": SMALL + 2,
    "figure.dpi": DPI,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "errorbar.capsize": 2.0,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "image.cmap": SEQUENTIAL,
    "image.interpolation": "nearest",
}


def styled() -> ContextDecorator:
    """Returns a decorator that applies the settings of this style to a function that plots."""
    return matplotlib.rc_context(SETTINGS)


def figure(width: float = PAGE, height: float = 3.0) -> Figure:
    """Returns an empty figure of a size in inches; its parts make room for each other."""
    made = Figure((width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def ink(colour: str) -> str:
    """Returns the colour, darkened if type in it would be too pale on white."""
    rgb = np.array(to_rgb(colour))
    while 1.05 / (luminance(rgb) + 0.05) < LEAST_CONTRAST:
        rgb = 0.97 * rgb
    return to_hex(tuple(rgb))


def luminance(rgb: np.ndarray) -> float:
    """Returns the luminance of sRGB (WCAG 2): $Y = 0.2126 R + 0.7152 G + 0.0722 B$ of linear values."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def label_ends(*panels: Axes) -> None:
    """Writes the labels of curves next to their ends, at the right of their axes, so that none overlap.

    The panels belong to one figure. Call this last, since it looks at where things are. Panels whose names do
    not fit get a legend.
    """
    curves = {axes: _labelled(axes) for axes in panels}
    names = {axes: [_name(axes, *curve) for curve in curves[axes]] for axes in panels}
    _figure(panels[0]).draw_without_rendering()  # now there are places
    for axes in panels:
        _put(axes, names[axes], [line for _, line in curves[axes]])


def _name(axes: Axes, label: str, line: Line2D) -> Annotation:
    """Writes a curve's label, with a thin line to the end of the curve."""
    thin = {"arrowstyle": "-", "linewidth": 0.4, "color": line.get_color()}
    return axes.annotate(
        label,
        _end(line),
        (RIGHT, 0.5),
        xycoords=line.get_transform(),
        textcoords="axes fraction",
        va="center",
        color=ink(to_hex(line.get_color())),
        annotation_clip=False,
        arrowprops=thin | {"shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)},
    )


def _put(axes: Axes, names: Sequence[Annotation], curves: Sequence[Line2D]) -> None:
    """Moves labels to the ends of their curves, as far as there is room."""
    if not names:
        return
    gap = 1.15 * SMALL / 72 * _figure(axes).dpi / axes.bbox.height  # lines of type, as a share of the axes
    if len(names) * gap > 1:
        for name in names:
            name.remove()
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        return
    ends = [float(line.get_transform().transform(_end(line))[1]) for line in curves]  # pixels
    wanted = [(end - axes.bbox.y0) / axes.bbox.height for end in ends]
    for name, place in zip(names, apart(wanted, gap), strict=True):
        name.set_position((RIGHT, place))


def _end(line: Line2D) -> tuple[float, float]:
    """Returns the last point of a curve."""
    x, y = line.get_xdata(), line.get_ydata()
    return float(np.asarray(x, float)[-1]), float(np.asarray(y, float)[-1])


def _figure(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def _labelled(axes: Axes) -> list[tuple[str, Line2D]]:
    """Returns the labels with their curves; two curves can share a label."""
    curves = []
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        line = handle if isinstance(handle, Line2D) else handle.get_children()[0]
        if isinstance(line, Line2D) and np.size(line.get_xdata()):
            curves.append((label, line))
    return curves


def apart(wanted: Sequence[float], gap: float) -> np.ndarray:
    """Returns positions in 0..1 that are at least `gap` apart and nearest to `wanted` (least squares).

    Sorted, they are `p[i] = r[i] + i gap`, where r is the nearest rising sequence to `wanted[i] - i gap`.
    """
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    rising = isotonic_regression(np.asarray(wanted, float)[order] - steps).x
    places = np.empty(len(wanted))
    places[order] = np.clip(rising, gap / 2, max(1 - gap / 2 - steps[-1], gap / 2)) + steps
    return places


def interval(
    axes: Axes, value: float, low: float, high: float, row: int, ends: tuple[float, float], colour: str
) -> None:
    """Plots a value with its interval; arrows mark parts outside the axes.

    Args:
      axes: the axes to plot in.
      value: the value.
      low, high: the interval.
      row: the vertical position.
      ends: the limits of the horizontal axis.
      colour: the colour of the value and the interval.
    """
    bars = [[value - max(low, ends[0])], [min(high, ends[1]) - value]]
    axes.errorbar([value], [row], xerr=bars, fmt="o", color=colour)
    for end, marker, beyond in ((ends[0], "<", low < ends[0]), (ends[1], ">", high > ends[1])):
        if beyond:
            axes.plot([end], [row], marker, color=colour, markersize=4.5, clip_on=False, zorder=3)


def save(figure: Figure, path: Path) -> None:
    """Writes a figure to a PNG file, atomically."""
    atomic.write(path, png(figure))


@styled()
def png(figure: Figure) -> bytes:
    """Returns a PNG of at most 256 colours that depends on the figure alone, so not on the program's name."""
    full, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(full, dpi=DPI, format="png", metadata={"Software": None})
    whole = Image.open(full).convert("RGB")
    colours = whole.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)  # rare ones, too
    colours.save(packed, "png", optimize=True, dpi=(DPI, DPI))
    return packed.getvalue()
