"""Writes the report on the classes of a split: report.json, confusion.csv and confusion.png.

Tasks with several labels per example have no confusion matrix, and so only report.json.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fourier_attn import atomic, style
from fourier_attn.train.rundir.metrics_log import strict_json

MOST = 30  # largest number of classes for a picture with numbers
CELL, LEAST, WHOLE = 0.42, 2.6, 5.0  # inches: a cell with numbers; smallest side; side without numbers
LONGEST = 20  # longest name in the picture, in letters


def write(directory: Path, found: dict[str, Any], split: str = "test") -> None:
    """Writes the scores of the classes, and the confusion matrix as a table and as a picture.

    For splits other than "test" the names of the files contain the split, for example report-NAME.json.

    Args:
      directory: folder for the files.
      found: scores from `scores.per_class`, or from `label_scores.per_label`, which have no matrix.
      split: name of the split; default "test".
    """
    end, names = ("" if split == "test" else f"-{split}"), list(found["classes"])
    atomic.write(directory / f"report{end}.json", strict_json(found) + "\n")
    if "confusion" not in found:
        return
    table = io.StringIO(newline="")
    rows = ([name, *row] for name, row in zip(names, found["confusion"], strict=True))
    csv.writer(table).writerows([["label, predicted as", *names], *rows])
    atomic.write(directory / f"confusion{end}.csv", table.getvalue())
    plot_confusion(directory / f"confusion{end}.png", found["confusion"], names, f"{directory.name}, {split}")


def plot_confusion(path: Path, counts: Sequence[Sequence[int]], names: Sequence[str], title: str) -> None:
    """Plots a confusion matrix into a file.

    Args:
      path: the file.
      counts, names, title: see `plot`.
    """
    style.save(plot(counts, names, title), path)


@style.styled()
def plot(counts: Sequence[Sequence[int]], names: Sequence[str], title: str = "") -> Figure:
    """Plots a confusion matrix: rows are labels, columns are predictions, colours are shares of a row.

    With up to `MOST` classes, the axes have the names, and each non-empty cell has its count and share.

    Args:
      counts: number of examples for each label and prediction (c, c).
      names: names of the c classes.
      title: title of the picture; default none.
    """
    matrix = np.array(counts)
    examples = matrix.sum(axis=1, keepdims=True)
    shares = np.divide(matrix, examples, out=np.zeros(matrix.shape), where=examples > 0)
    named = len(names) <= MOST
    side = max(LEAST, CELL * len(names)) if named else WHOLE
    figure = style.figure(side + 1.9, side + 1.2)
    axes = figure.subplots()
    image = axes.imshow(shares, vmin=0, vmax=1)
    axes.grid(visible=False)
    axes.set(xlabel="predicted class", ylabel="label", title=title)
    if named:
        shown = [name if len(name) <= LONGEST else f"{name[: LONGEST - 2]}.." for name in names]
        flat = max(map(len, shown)) * len(shown) < 14 * side
        axes.set_xticks(range(len(names)), shown, rotation=0 if flat else 90)
        axes.set_yticks(range(len(names)), shown)
        _write_cells(figure, matrix, shares)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, format=PercentFormatter(1.0))
    bar.set_label("share of the label's examples")
    return figure


def _write_cells(figure: Figure, matrix: np.ndarray, shares: np.ndarray) -> None:
    """Writes count and share into each non-empty cell, in black or white.

    Args:
      figure: a figure whose first axes have the matrix.
      matrix: counts (c, c).
      shares: shares of each row (c, c).
    """
    colours, axes = matplotlib.colormaps[style.SEQUENTIAL], figure.axes[0]
    for row, column in np.argwhere(matrix):
        share = shares[row, column]
        dark = style.luminance(np.array(colours(share)[:3])) < 0.18  # white and black contrast alike at 0.18
        words = f"{matrix[row, column]}\n{100 * share:.0f} %"
        axes.text(column, row, words, ha="center", va="center", color="w" if dark else "k", fontsize=6)
