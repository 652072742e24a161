"""Layers as matrices, and their symmetries: python -m fourier_attn.studies.matrices [--out=results/matrices]

Every mixer, and layers to compare it with, is linearised at a random input x by `jax.jacobian`,

    J[i, p, j, q] = d y[i, p] / d x[j, q]

with its initial parameters. Of J: a picture, rank, distinct entries, structure. Of the layer: its parameters
and how they grow, which lengths it takes, whether it commutes with translations and permutations of the
tokens, whether J depends on x, and the floating-point operations of its compiled program.

Source: Torralba, Isola and Freeman, Foundations of Computer Vision, the chapter on transformers, section 1.8.
"""

import base64
import itertools
import math
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourier_attn import command, provenance, style
from fourier_attn.layers.tokens import Linear
from fourier_attn.layers.weights import attention_weights
from fourier_attn.model import MIXERS, fields
from fourier_attn.studies import structure
from fourier_attn.studies.markdown import Results, notes, table

T, D = 16, 8  # of the matrices and residuals
EDGE = 4  # tokens that are zero at either end, where translations are to meet no border
MANY, WIDE = 128, 64  # of the count of operations
COLUMNS = 5  # of the picture
NONE = 1e-4  # a relative residual that is float32 rounding, in layers with a softmax, too


class Plain(NamedTuple):
    """A layer that is no mixer: the shapes of its parameters at width d, and a function of them and x."""

    shapes: Callable[[int], dict[str, tuple[int, ...]]]
    function: Callable[[dict[str, Array], Array], Array]

    def init(self, key: Array, x: Array) -> dict[str, Array]:
        shapes = self.shapes(x.shape[-1])
        keys = jax.random.split(key, len(shapes))
        return {
            name: jax.random.normal(k, shape) * math.prod(shape[:-1]) ** -0.5
            for k, (name, shape) in zip(keys, shapes.items(), strict=True)
        }

    def apply(self, params: dict[str, Array], x: Array) -> Array:
        return self.function(params, x)


def _convolve(p: dict[str, Array], x: Array) -> Array:
    y = jax.lax.conv_general_dilated(x, p["kernel"], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    return y + p["bias"][None, None]


def convolution(taps: int) -> Plain:
    """Of neurons, as in a CNN: each tap is a matrix of features."""
    return Plain(lambda d: {"kernel": (taps, d, d), "bias": (d,)}, _convolve)


def _mlp(p: dict[str, Array], x: Array) -> Array:
    hidden = jax.nn.relu(x @ p["w1"] + p["b1"][None, None])
    return hidden @ p["w2"] + p["b2"][None, None]


def _mlp_shapes(d: int) -> dict[str, tuple[int, ...]]:
    return {"w1": (d, 4 * d), "b1": (4 * d,), "w2": (4 * d, d), "b2": (d,)}


def mixer(name: str, t: int, **options: Any) -> Any:
    """One for sequences of t tokens."""
    stores = {"length": t} if "length" in [field.name for field in fields(name)] else {}
    return MIXERS[name](**stores, **options)


OPTIONS: dict[str, dict[str, Any]] = {  # one head, and sizes that fit a small width
    "attention": {"heads": 1},
    "circular": {"heads": 1},
    "lambda": {"k": 4},
    "afno": {"blocks": 2},
}
LAYERS: dict[str, Callable[[int], Any]] = {  # for t tokens
    "fc": lambda t: Linear(length=t, use_features=False, use_bias=True),
    "conv 3": lambda t: convolution(3),
    "conv 1": lambda t: convolution(1),
    "MLP": lambda t: Plain(_mlp_shapes, _mlp),
    **{name: partial(mixer, name, **OPTIONS.get(name, {})) for name in MIXERS},
}
AVERAGING = ("attention", "circular", "lambda")  # whose weights over tokens depend on the tokens
# What the chapter's table says of its three layers.
CHAPTER = {
    "fc": "fixed input dim, N² parameters",
    "token_conv": "variable input dim, k parameters, commutes with translations",
    "attention": "variable input dim, parameters of query, key and value, commutes with permutations",
}


def define_flags() -> None:
    flags.DEFINE_string("out", "results/matrices", "files that get the numbers and the picture, no ending")


def main() -> None:
    out = Path(flags.FLAGS.out)
    rows = []
    for name, make in LAYERS.items():
        row = measure(name, make)
        rows.append(row | ({"weights": packed(weights(make))} if name in AVERAGING else {}))
        print(
            f"{name:>13}: rank {row['rank']:3}, {row['distinct']:5,} distinct entries, "
            f"{row['growth'] or 'no'} parameters; {', '.join(structures(row)) or 'no structure'}"
        )
    setting = f"t = {T}, d = {D}, initial parameters; operations at t = {MANY}, d = {WIDE}"
    document = provenance.record() | {"setting": setting, "rows": rows}
    provenance.write(out.with_suffix(".json"), document)
    style.save(draw(document), out.with_suffix(".png"))
    print(f"written to {out}.json and {out}.png")


def measure(name: str, make: Callable[[int], Any]) -> dict[str, Any]:
    """Everything that is told of a layer, and its matrix as it is drawn."""
    layer, x, other = make(T), example(T, D), example(T, D, seed=1)
    params = layer.init(jax.random.key(0), x[None])
    apply = jax.jit(layer.apply)

    def function(tokens: Array) -> Array:
        return apply(params, tokens[None])[0]

    jacobian = jax.jit(jax.jacobian(function))
    matrix, there = (np.asarray(jacobian(at), np.float64) for at in (x, other))
    return {
        "layer": name,
        "rank": structure.rank(structure.square(matrix)),
        "rows": T * D,
        "products": structure.products(matrix),
        "distinct": structure.distinct(matrix),
        "residuals": {kind: residual(matrix) for kind, residual in structure.STRUCTURES.items()},
        "depends_on_x": structure.residual(there, matrix, matrix),
        "lengths": lengths(layer, params),
        "parameters": count(make, T, D),
        "growth": growth(make),
        **symmetries(function, x),
        **operations(make),
        "matrix": packed(structure.square(matrix)),
    }


def packed(matrix: np.ndarray) -> str:
    """A square matrix in 255 levels; one in a hundred of its entries other than 0 is beyond the last one."""
    high = np.percentile(np.abs(matrix[matrix != 0]), 99)
    levels = np.round(127 * np.clip(matrix / high, -1, 1)).astype(np.int8)
    return base64.b64encode(zlib.compress(levels.tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """The matrix that was packed, from -1 to 1."""
    levels = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.int8)
    return levels.reshape(math.isqrt(levels.size), -1) / 127


def example(t: int, d: int, seed: int = 0) -> Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal((t, d)), jnp.float32)


def lengths(layer: Any, params: Any) -> str:
    """Which other numbers of tokens the same parameters take."""
    fits = {}
    for t in (T // 2, 2 * T):
        try:
            layer.apply(params, example(t, D)[None])
            fits[t] = True
        except ValueError:
            fits[t] = False
    return {(True, True): "any", (True, False): "up to t", (False, False): "t"}[tuple(fits.values())]


def count(make: Callable[[int], Any], t: int, d: int) -> int:
    """Parameters of a layer for t tokens of width d."""
    shapes = jax.eval_shape(make(t).init, jax.random.key(0), jnp.zeros((1, t, d)))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


POWERS = {"t²": (2, 0), "t d": (1, 1), "d²": (0, 2), "t": (1, 0), "d": (0, 1), "1": (0, 0)}


def growth(make: Callable[[int], Any]) -> str:
    """The parameters as a polynomial of t and d, fitted to counts at nine sizes, which it must meet exactly.

    Raises: ValueError where no polynomial of second degree does.
    """
    sizes = list(itertools.product((16, 32, 64), (16, 48, 64)))
    counts = np.array([count(make, t, d) for t, d in sizes], np.float64)
    terms = np.array([[t**p * d**q for p, q in POWERS.values()] for t, d in sizes], np.float64)
    scale = terms.max(axis=0)
    coefficients = np.round(np.linalg.lstsq(terms / scale, counts)[0] / scale, 4)
    if not np.array_equal(terms @ coefficients, counts):
        raise ValueError(f"parameters {counts.tolist()} at sizes {sizes} are no polynomial; fit another law")
    written = ""
    for name, c in zip(POWERS, coefficients, strict=True):
        if c:
            factor = f"{abs(c):g}" if name == "1" else name if abs(c) == 1 else f"{abs(c):g} {name}"
            written += (" - " if c < 0 else " + " if written else "") + factor
    return written.strip() or "0"


def symmetries(function: Callable[[Array], Array], x: Array) -> dict[str, float]:
    """How far y(move(x)) is from move(y(x)), as a share of y, for three ways to move the tokens.

    "translation" moves tokens with zeros at both ends, and compares the places that both results have.
    """
    inside, order = x.at[:EDGE].set(0).at[-EDGE:].set(0), np.random.default_rng(2).permutation(len(x))
    shift = partial(jnp.roll, shift=EDGE - 1, axis=0)
    moves = {"translation": (shift, inside), "cyclic": (shift, x), "permutation": (lambda a: a[order], x)}
    found = {}
    for name, (move, tokens) in moves.items():
        y = function(tokens)
        first = EDGE - 1 if name == "translation" else 0
        found[name] = float(jnp.linalg.norm((function(move(tokens)) - move(y))[first:]) / jnp.linalg.norm(y))
    return found


def operations(make: Callable[[int], Any]) -> dict[str, float]:
    """Floating-point operations of the compiled program, and the power of t with which they grow.

    Raises: ValueError for a program with a loop, of which only one round would be counted.
    """
    found = []
    for t in (MANY, 2 * MANY):
        x = jnp.zeros((1, t, WIDE))
        layer = make(t)
        params = layer.init(jax.random.key(0), x)
        compiled = jax.jit(layer.apply).lower(params, x).compile()
        if " while(" in (compiled.as_text() or ""):
            raise ValueError(f"the program for t={t} has a loop, whose rounds cannot be counted; make t less")
        found.append(float((compiled.cost_analysis() or {}).get("flops", 0.0)))
    power = math.log2(found[1] / found[0]) if found[0] else 0.0
    return {"operations": found[0], "power_of_t": power}


def weights(make: Callable[[int], Any]) -> np.ndarray:
    """What the layer's one head applies to the values of its tokens, at the same x: (t, t)."""
    layer, x = make(T), example(T, D)[None]
    return np.asarray(attention_weights(layer, layer.init(jax.random.key(0), x), x)[0, 0])


@style.styled()
def draw(document: dict[str, Any]) -> Figure:
    """The matrices, token by token, and weights over tokens: blue below zero, red above.

    Each has its own scale, which ends where one in a hundred of its entries other than 0 is larger.
    """
    rows = document["rows"]
    pictures = [
        (f"{row['layer']}\nrank {row['rank']}, {row['distinct']:,} distinct", row["matrix"]) for row in rows
    ]
    pictures += [(f"{row['layer']}\nweights", row["weights"]) for row in rows if "weights" in row]
    lines = -(-len(pictures) // COLUMNS)
    figure = style.figure(height=1.75 * lines + 0.2)
    panels = figure.subplots(lines, COLUMNS, squeeze=False).ravel()
    for axes in panels[len(pictures) :]:
        axes.set_axis_off()
    for axes, (title, matrix) in zip(panels, pictures, strict=False):
        _show(axes, matrix, title)
    words = f"input: {T} tokens of {D} features, token by token; of weights: {T} tokens"
    figure.supxlabel(f"{words}. Distinct: different entries")
    figure.supylabel("output")
    return figure


@style.styled()
def draw_layer(document: dict[str, Any], layer: str) -> Figure:
    """Of one layer its matrix and, where it averages, its weights."""
    (row,) = [row for row in document["rows"] if row["layer"] == layer]
    pictures = {f"{T} tokens of {D} features": row["matrix"]}
    pictures |= {f"weights over {T} tokens": row["weights"]} if "weights" in row else {}
    figure = style.figure(2.4 * len(pictures), 2.6)
    for axes, (title, matrix) in zip(
        figure.subplots(1, len(pictures), squeeze=False)[0], pictures.items(), strict=True
    ):
        _show(axes, matrix, title)
        axes.set(xlabel="input", ylabel="output")
    return figure


def _show(axes: Axes, matrix: str, title: str) -> None:
    axes.imshow(unpacked(matrix), cmap=style.DIVERGING, vmin=-1, vmax=1)
    axes.set_title(title, fontsize=style.SMALL - 0.5)
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(True)


def structures(row: dict[str, Any]) -> list[str]:
    """Those that the matrix has, without what follows: a circulant matrix is Toeplitz, too."""
    held = [name for name, residual in row["residuals"].items() if residual < structure.SAME]
    return [name for name in held if not (name == "Toeplitz" and "circulant" in held)]


def matrix_table(results: Results, name: str) -> str:
    """Of each layer, what its matrix is like."""
    document = results.document(name)
    head = ["layer", "rank", "distinct entries", "products T ⊗ F", "structure", "depends on x"]
    lines = [
        [
            f"`{row['layer']}`",
            f"{row['rank']} of {row['rows']}",
            f"{row['distinct']:,}",
            str(row["products"]),
            ", ".join(structures(row)) or "none",
            "yes" if row["depends_on_x"] > NONE else "no",
        ]
        for row in document["rows"]
    ]
    return table(head, lines) + notes({name: document})


def property_table(results: Results, name: str) -> str:
    """Of each layer, its sizes, symmetries and cost, beside what the chapter says."""
    document = results.document(name)
    head = [
        "layer",
        "lengths",
        "parameters",
        "translation",
        "cyclic",
        "permutation",
        "10⁶ operations",
        "growth",
    ]
    lines = [
        [
            f"`{row['layer']}`",
            row["lengths"],
            row["growth"] if row["growth"].isdigit() else f"{row['growth']} = {row['parameters']:,}",
            *(exact(row[kind]) for kind in ("translation", "cyclic", "permutation")),
            f"{row['operations'] / 1e6:.2g}",
            f"t^{row['power_of_t']:.1f}" if row["operations"] else "",
            CHAPTER.get(row["layer"], ""),
        ]
        for row in document["rows"]
    ]
    return table([*head, "the chapter"], lines) + notes({name: document})


def exact(residual: float) -> str:
    """A residual, and whether it is rounding alone."""
    if residual < NONE:
        return f"**yes** ({residual:.0e})" if residual else "**yes** (0)"
    return f"no ({residual:.2g})"


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
