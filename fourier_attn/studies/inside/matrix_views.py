"""Plots the matrices of layers."""

import base64
import math
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from fourier_attn import style
from fourier_attn.studies.inside import structure
from fourier_attn.studies.inside.matrix_layers import D, T

COLUMNS = 5  # panels in a row of the figure
NAMES = {  # titles of panels
    "fc": "dense over tokens (fc)",
    "conv 3": "convolution, 3 taps",
    "conv 1": "convolution, 1 tap",
    "MLP": "MLP of each token",
    "circular": "circular attention",
    "lambda": "lambda layer",
    "fourier": "Fourier mixing (FNet)",
    "global_filter": "global filter",
    "afno": "AFNO",
    "long_conv": "long convolution",
    "linear": "linear: learned matrices",
    "random": "random: fixed matrices",
    "token_conv": "one filter over tokens",
}
NONE = 1e-4  # a relative residual that is float32 rounding, in layers with a softmax, too


def packed(matrix: np.ndarray) -> str:
    """Packs a square matrix in 255 levels; one in a hundred of its nonzero entries is clipped."""
    high = np.percentile(np.abs(matrix[matrix != 0]), 99)
    levels = np.round(127 * np.clip(matrix / high, -1, 1)).astype(np.int8)
    return base64.b64encode(zlib.compress(levels.tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Returns a packed matrix, from -1 to 1."""
    levels = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.int8)
    return levels.reshape(math.isqrt(levels.size), -1) / 127


def title(row: dict[str, Any]) -> str:
    """Returns the name of a row's layer in words."""
    name = str(row["layer"])
    return NAMES.get(name, name)


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots the matrices, token by token, and weights over tokens: blue below zero, red above.

    Each has its own scale, which clips one in a hundred of its nonzero entries.
    """
    rows = document["rows"]
    pictures = [
        (f"{title(row)}\nrank {row['rank']}, {row['distinct']:,} distinct", row["matrix"]) for row in rows
    ]
    pictures += [(f"{title(row)}\nweights of tokens", row["weights"]) for row in rows if "weights" in row]
    lines = -(-len(pictures) // COLUMNS)
    figure = style.figure(height=1.75 * lines + 0.8)
    panels = figure.subplots(lines, COLUMNS, squeeze=False).ravel()
    for axes in panels[len(pictures) :]:
        axes.set_axis_off()
    for axes, (words, matrix) in zip(panels, pictures, strict=False):
        _show(axes, matrix, words)
    _scale(figure, panels[: len(pictures)], location="bottom", shrink=0.4)
    words = f"input: {T} tokens of {D} features, token by token (weights: {T} tokens)"
    figure.supxlabel(f"{words}. Distinct: number of different entries")
    figure.supylabel("output")
    return figure


@style.styled()
def plot_chosen(document: dict[str, Any], layers: dict[str, str]) -> Figure:
    """Plots the matrices of some layers side by side, with one colour bar.

    Args:
      document: the JSON document of the study.
      layers: names of the layers, with the titles of their panels.
    """
    rows = {row["layer"]: row for row in document["rows"]}
    figure = style.figure(height=2.1)
    panels = figure.subplots(1, len(layers), squeeze=False)[0]
    for axes, (name, title) in zip(panels, layers.items(), strict=True):
        _show(axes, rows[name]["matrix"], title)
        axes.set_xlabel(f"input, token 1 to {T}")
    panels[0].set_ylabel(f"output, token 1 to {T}")
    bar = figure.colorbar(ScalarMappable(Normalize(-1, 1), style.DIVERGING), ax=list(panels), shrink=0.7)
    bar.set_ticks([-1, 0, 1], labels=["negative", "0", "positive"])
    return figure


@style.styled()
def plot_layer(document: dict[str, Any], layer: str) -> Figure:
    """Plots one layer's matrix and, if it averages, its weights."""
    (row,) = [row for row in document["rows"] if row["layer"] == layer]
    pictures = {f"{T} tokens of {D} features": row["matrix"]}
    pictures |= {f"weights over {T} tokens": row["weights"]} if "weights" in row else {}
    figure = style.figure(2.4 * len(pictures) + 1.2, 2.6)
    for axes, (title, matrix) in zip(
        figure.subplots(1, len(pictures), squeeze=False)[0], pictures.items(), strict=True
    ):
        _show(axes, matrix, title)
        axes.set(xlabel="input", ylabel="output")
    _scale(figure, figure.axes)
    return figure


def _scale(figure: Figure, panels: Iterable[Axes], **look: Any) -> None:
    """Adds the colour bar, in shares of each panel's own scale."""
    bar = figure.colorbar(ScalarMappable(Normalize(-1, 1), style.DIVERGING), ax=list(panels), **look)
    bar.set_label("entry, relative to the panel's\n99th percentile of nonzero entries")
    bar.set_ticks([-1, 0, 1], labels=["-1 or less", "0", "1 or more"])


def _show(axes: Axes, matrix: str, title: str) -> None:
    axes.imshow(unpacked(matrix), cmap=style.DIVERGING, vmin=-1, vmax=1)
    axes.set_title(title, fontsize=style.SMALL - 0.5)
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(True)


def structures(row: dict[str, Any]) -> list[str]:
    """Returns the structures of the matrix, without implied ones: a circulant matrix is Toeplitz, too."""
    held = [name for name, residual in row["residuals"].items() if residual < structure.SAME]
    return [name for name in held if not (name == "Toeplitz" and "circulant" in held)]
