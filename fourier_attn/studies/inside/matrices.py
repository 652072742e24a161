"""Measures layers as matrices and their symmetries: python -m fourier_attn.studies.inside.matrices

    python -m fourier_attn.studies.inside.matrices --layers=lambda,attention --out=few

The study linearises every mixer, and layers to compare it with, at a random input x by `jax.jacobian`:

    J[i, p, j, q] = (d y[i, p]) / (d x[j, q])

The parameters are the initial ones. For J, the study records a picture, its rank, its number of distinct
entries and its structure. For the layer, it records the number of parameters and how it grows, the lengths
that the layer accepts, whether it commutes with translations and permutations of the tokens, whether J
depends on x, and the floating-point operations of its compiled program.

Source: Torralba, Isola and Freeman, Foundations of Computer Vision, the chapter on transformers, section 1.8.
"""

import itertools
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from jaxtyping import Array

from fourier_attn import command, paths, provenance, style
from fourier_attn.choices import check_choices
from fourier_attn.layers.attention_weights import attention_weights
from fourier_attn.studies.inside import structure
from fourier_attn.studies.inside.matrix_layers import AVERAGING, LAYERS, D, T, example
from fourier_attn.studies.inside.matrix_views import packed, plot, structures

OUT = "results/studies/matrices"
EDGE = 4  # tokens that are zero at either end, where translations are to meet no border
MANY, WIDE = 128, 64  # of the count of operations


def define_flags() -> None:
    flags.DEFINE_list("layers", list(LAYERS), "names of the layers")
    flags.DEFINE_string(
        "out",
        None,
        f"path of the results without a suffix; .json and .png are added; default for all layers: {OUT}",
    )


def main() -> None:
    names = list(dict.fromkeys(flags.FLAGS.layers))
    check_choices("layers", names or [""], LAYERS)
    if flags.FLAGS.out is None and names != list(LAYERS):
        raise ValueError(f"layers={','.join(names)} are not all, which {OUT}.json has; name a file by --out")
    out, rows = paths.stem(flags.FLAGS.out or OUT, "--out"), []
    for name in names:
        make = LAYERS[name]
        row = measure(name, make)
        rows.append(row | ({"weights": packed(weights(make))} if name in AVERAGING else {}))
        print(
            f"{name:>13}: rank {row['rank']:3}, {row['distinct']:5,} distinct entries, "
            f"{row['growth'] or 'no'} parameters; {', '.join(structures(row)) or 'no structure'}"
        )
    setting = f"t = {T}, d = {D}, initial parameters; operations at t = {MANY}, d = {WIDE}"
    document = provenance.record() | {"setting": setting, "rows": rows}
    provenance.write(out.with_name(f"{out.name}.json"), document)
    style.save(plot(document), out.with_name(f"{out.name}.png"))
    print(f"written to {out}.json and {out}.png")


def measure(name: str, make: Callable[[int], Any]) -> dict[str, Any]:
    """Measures a layer and returns its row, with the matrix packed for figures.

    Args:
      name: the name of the layer.
      make: makes the layer for a number of tokens.
    """
    layer, x, other = make(T), example(T, D), example(T, D, seed=1)
    params = layer.init(jax.random.key(0), x[None])
    function = of_tokens(layer, params)
    linearised = jax.jit(jax.jacobian(function))
    matrix, elsewhere = (np.asarray(linearised(at), np.float64) for at in (x, other))
    return {
        "layer": name,
        "rank": structure.rank(structure.square(matrix)),
        "rows": T * D,
        "products": structure.products(matrix),
        "distinct": structure.distinct(matrix),
        "residuals": {kind: residual(matrix) for kind, residual in structure.STRUCTURES.items()},
        "depends_on_x": structure.residual(elsewhere, matrix, matrix),
        "lengths": lengths(layer, params),
        "parameters": count(make, T, D),
        "growth": growth(make),
        **symmetries(function, x),
        **operations(make),
        "matrix": packed(structure.square(matrix)),
    }


def of_tokens(layer: Any, params: Any) -> Callable[[Array], Array]:
    """Returns the layer as a function of the tokens (t, d) of one example."""
    apply = jax.jit(layer.apply)
    return lambda tokens: apply(params, tokens[None])[0]


def lengths(layer: Any, params: Any) -> str:
    """Returns the numbers of tokens that `layer` accepts with the same `params`: "any", "up to t" or "t"."""
    fits = {}
    for t in (T // 2, 2 * T):
        try:
            layer.apply(params, example(t, D)[None])
            fits[t] = True
        except ValueError:
            fits[t] = False
    return {(True, True): "any", (True, False): "up to t", (False, False): "t"}[tuple(fits.values())]


def count(make: Callable[[int], Any], t: int, d: int) -> int:
    """Returns the number of parameters of a layer.

    Args:
      make: returns the layer for a number of tokens.
      t, d: tokens and features.
    """
    shapes = jax.eval_shape(make(t).init, jax.random.key(0), jnp.zeros((1, t, d)))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


POWERS = {"t²": (2, 0), "t d": (1, 1), "d²": (0, 2), "t": (1, 0), "d": (0, 1), "1": (0, 0)}


def growth(make: Callable[[int], Any]) -> str:
    """Returns the number of parameters as a polynomial of t and d, which fits counts at nine sizes exactly.

    Raises: ValueError if no polynomial of second degree does.
    """
    sizes = list(itertools.product((16, 32, 64), (16, 48, 64)))
    counts = np.array([count(make, t, d) for t, d in sizes], np.float64)
    terms = np.array([[t**p * d**q for p, q in POWERS.values()] for t, d in sizes], np.float64)
    scale = terms.max(axis=0)
    coefficients = np.round(np.linalg.lstsq(terms / scale, counts)[0] / scale, 4)
    if not np.array_equal(terms @ coefficients, counts):
        raise ValueError(f"parameters {counts.tolist()} at sizes {sizes} fit no polynomial; fit another law")
    written = ""
    for name, c in zip(POWERS, coefficients, strict=True):
        if c:
            factor = f"{abs(c):g}" if name == "1" else name if abs(c) == 1 else f"{abs(c):g} {name}"
            written += (" - " if c < 0 else " + " if written else "") + factor
    return written.strip() or "0"


def symmetries(function: Callable[[Array], Array], x: Array) -> dict[str, float]:
    """Returns the distance of y(move(x)) from move(y(x)), as a share of y, for three ways to move the tokens.

    "translation" moves tokens with zeros at both ends, and compares the places that both results have.
    """
    inside, order = x.at[:EDGE].set(0).at[-EDGE:].set(0), np.random.default_rng(2).permutation(len(x))
    shift = partial(jnp.roll, shift=EDGE - 1, axis=0)
    moves = {"translation": (shift, inside), "cyclic": (shift, x), "permutation": (lambda a: a[order], x)}
    distances = {}
    for name, (move, tokens) in moves.items():
        y = function(tokens)
        error = (function(move(tokens)) - move(y))[EDGE - 1 if name == "translation" else 0 :]
        distances[name] = float(jnp.linalg.norm(error) / jnp.linalg.norm(y))
    return distances


def operations(make: Callable[[int], Any]) -> dict[str, float]:
    """Returns the compiled program's floating-point operations, and the power of t with which they grow.

    Raises: ValueError for a program with a loop, of which only one round would be counted.
    """
    counts = []
    for t in (MANY, 2 * MANY):
        x = jnp.zeros((1, t, WIDE))
        layer = make(t)
        params = layer.init(jax.random.key(0), x)
        compiled = jax.jit(layer.apply).lower(params, x).compile()
        if " while(" in (compiled.as_text() or ""):
            raise ValueError(f"the program for t={t} has a loop, whose rounds cannot be counted; make t less")
        counts.append(float((compiled.cost_analysis() or {}).get("flops", 0.0)))
    power = math.log2(counts[1] / counts[0]) if counts[0] else 0.0
    return {"operations": counts[0], "power_of_t": power}


def weights(make: Callable[[int], Any]) -> np.ndarray:
    """Returns the weights (t, t) of the layer's single head, at the same x."""
    layer, x = make(T), example(T, D)[None]
    return np.asarray(attention_weights(layer, layer.init(jax.random.key(0), x), x)[0, 0])


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
