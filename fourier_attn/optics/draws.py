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

LEVELS = 2**16
_VARIANCE = np.mean(2 * erfinv((2 * np.arange(LEVELS) + 1) / LEVELS - 1) ** 2)  # just below 1


def normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Standard normal numbers of 65,536 equally likely values up to 4.3, mean 0 and variance 1.

        n = sqrt(2 / V) erfinv((2 i + 1) / 65536 - 1),    i = 0 .. 65535

    Two for each 32 random bits, so that half as many are drawn as by `jax.random.normal`.
    """
    pixels = math.prod(shape[-2:])
    if pixels == 1:
        return jax.random.normal(key, shape, dtype)
    words = jax.random.bits(key, (*shape[:-2], -(-pixels // 2)))
    halves = jnp.concatenate([words & (LEVELS - 1), words >> 16], axis=-1)[..., :pixels]
    place = (halves.astype(dtype) + 0.5) * (2 / LEVELS) - 1
    return (jax.lax.erf_inv(place) * math.sqrt(2 / _VARIANCE)).reshape(shape)


def draw(sample: Callable[..., Array], key: Any, shape: tuple[int, ...], *more: Any) -> Array:
    """sample(key, shape, ...) for (m, *batch, n1, n2), m numbers for a pixel.

    Numbers are counted in the array's order, so that the batch has to stand first.
    """
    return jnp.moveaxis(sample(key, (*shape[1:], shape[0]), *more), -1, 0)
