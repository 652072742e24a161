"""Lists the layers that the study of matrices measures: every mixer, and layers to compare it with."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fourier_attn.layers.controls import Linear
from fourier_attn.layers.fields import POSITIONS, named
from fourier_attn.layers.introspection import LOOKING
from fourier_attn.model import MIXERS

T, D = 16, 8  # tokens and features


class Plain(NamedTuple):
    """Describes a layer that is not a mixer.

    Args:
      shapes: returns the shapes of its parameters at width d.
      function: computes the layer from its parameters and x.
    """

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
    """Returns a convolution as in a CNN: each tap is a matrix of features."""
    return Plain(lambda d: {"kernel": (taps, d, d), "bias": (d,)}, _convolve)


def _mlp(p: dict[str, Array], x: Array) -> Array:
    hidden = jax.nn.relu(x @ p["w1"] + p["b1"][None, None])
    return hidden @ p["w2"] + p["b2"][None, None]


def _mlp_shapes(d: int) -> dict[str, tuple[int, ...]]:
    return {"w1": (d, 4 * d), "b1": (4 * d,), "w2": (4 * d, d), "b2": (d,)}


def mixer(name: str, t: int, **options: Any) -> Any:
    """Returns a mixer for sequences of t tokens.

    Args:
      name: the name of the mixer in `MIXERS`.
      t: the number of tokens.
      options: fields of the mixer.
    """
    stores = dict.fromkeys(named(MIXERS[name], POSITIONS), t)
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
AVERAGING = tuple(name for name, kind in MIXERS.items() if kind in LOOKING)


def example(t: int, d: int, seed: int = 0) -> Array:
    """Returns a random input (t, d) with values of the normal distribution.

    Args:
      t, d: tokens and features.
      seed: seed of the random numbers.
    """
    return jnp.asarray(np.random.default_rng(seed).standard_normal((t, d)), jnp.float32)
