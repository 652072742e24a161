"""Random numbers of a pass, counted aperture after aperture.

So an aperture's draws do not depend on how many follow it. On CPUs normal numbers are looked up in a table,
of half as many random bits as `jax.random.normal` takes; on all other platforms that one draws them, which is
the plain form that a test holds the table against. What is drawn once for a device has the plain form
everywhere.
"""

import math
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import erfinv

from fourier_attn.ops.platforms import by_platform, cpu_or_other

Key = Any  # of jax.random, or None where nothing is drawn
LEVELS = 2**16
_VALUES = erfinv((2 * np.arange(LEVELS) + 1) / LEVELS - 1)
VALUES = (_VALUES / _VALUES.std()).astype(np.float32)
choose = cpu_or_other("table", "plain")


def stream(key: Key, name: str) -> Key:
    """Returns the key of a named stream: streams of one seed have nothing in common.

    Not even with the small numbers that keys are folded with elsewhere.
    """
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


def device_key(seed: Any) -> Key:
    """Returns the key of a device, which depends on neither the precision nor the default kind of keys."""
    return jax.random.key(jnp.asarray(seed, jnp.int32), impl="threefry2x32")


def normal(key: Key, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Draws standard normal numbers.

    On CPUs they are from 65,536 equally likely values up to 4.3, with mean 0 and variance 1.

    Args:
      key: PRNG key.
      shape: of the result.
      dtype: float type of the result.
    """
    if math.prod(shape[-2:]) == 1:
        return jax.random.normal(key, shape, dtype)
    return by_platform(choose, partial(compute_normal, shape=shape, dtype=dtype), key)


def compute_normal(form: str, key: Key, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Draws standard normal numbers in one form; "table" gives two for each 32 random bits.

        n = erfinv((2 i + 1) / 65536 - 1) / s,    i = 0 .. 65535,   s^2 the variance of the numerators

    Bits of one axis take less time to count, and to compile, than those of several.

    Args:
      form: "table", or "plain" for `jax.random.normal`.
      key: PRNG key.
      shape: of the result.
      dtype: float type of the result.
    """
    if form == "plain":
        return jax.random.normal(key, (math.prod(shape),), dtype).reshape(shape)
    pixels = math.prod(shape[-2:])
    words = jax.random.bits(key, (math.prod(shape[:-2]) * -(-pixels // 2),), jnp.uint32)
    words = words.reshape(*shape[:-2], -1)
    halves = jnp.concatenate([words & (LEVELS - 1), words >> 16], axis=-1)[..., :pixels]
    values = jnp.asarray(VALUES, dtype).at[halves.astype(jnp.int32)].get(mode="promise_in_bounds")
    return values.reshape(shape)


def uniform(key: Key, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Draws uniform numbers in [0, 1).

    Args:
      key: PRNG key.
      shape: of the result.
      dtype: float type of the result.
    """
    return jax.random.uniform(key, (math.prod(shape),), dtype).reshape(shape)


def sample(distribution: Callable[..., Array], key: Key, shape: tuple[int, ...], *more: Any) -> Array:
    """Returns distribution(key, shape, ...) of shape (m, *batch, n1, n2), m numbers for a pixel.

    Numbers are counted in the array's order, so that the batch has to be the first axis.

    Args:
      distribution: a function of `jax.random`.
      key: the key.
      shape: shape of the sample.
      more: further arguments of the distribution.
    """
    m, *batch, rows, cols = shape
    return jnp.moveaxis(distribution(key, (*batch, m, rows, cols), *more), -3, 0)
