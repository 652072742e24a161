"""Random numbers of a pass, counted aperture after aperture.

So an aperture's draws do not depend on how many follow it.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import erfinv

Key = Any  # of jax.random, or None where nothing is drawn
LEVELS = 2**16
_VALUES = erfinv((2 * np.arange(LEVELS) + 1) / LEVELS - 1)
VALUES = (_VALUES / _VALUES.std()).astype(np.float32)


def normal(key: Key, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Standard normal numbers of 65,536 equally likely values up to 4.3, mean 0 and variance 1.

        n = erfinv((2 i + 1) / 65536 - 1) / s,    i = 0 .. 65535,   s^2 the variance of the numerators

    Two for each 32 random bits and looked up, so that half as many bits are drawn as by `jax.random.normal`;
    bits of one axis take less time to count, and to compile, than those of several.
    """
    pixels = math.prod(shape[-2:])
    if pixels == 1:
        return jax.random.normal(key, shape, dtype)
    words = jax.random.bits(key, (math.prod(shape[:-2]) * -(-pixels // 2),))
    words = words.reshape(*shape[:-2], -1)
    halves = jnp.concatenate([words & (LEVELS - 1), words >> 16], axis=-1)[..., :pixels]
    values = jnp.asarray(VALUES, dtype).at[halves.astype(jnp.int32)].get(mode="promise_in_bounds")
    return values.reshape(shape)


def uniform(key: Key, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Numbers from 0 up to, not including, 1."""
    return jax.random.uniform(key, (math.prod(shape),), dtype).reshape(shape)


def draw(sample: Callable[..., Array], key: Key, shape: tuple[int, ...], *more: Any) -> Array:
    """sample(key, shape, ...) for (m, *batch, n1, n2), m numbers for a pixel.

    Numbers are counted in the array's order, so that the batch has to stand first.
    """
    m, *batch, rows, cols = shape
    return jnp.moveaxis(sample(key, (*batch, m, rows, cols), *more), -3, 0)
