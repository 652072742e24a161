"""Fourier mixing as products of real matrices: for short sequences, matrix units and low precision.

The transform of the features is

    a + sqrt(-1) b = sum_n x[m, n] exp(-2 pi sqrt(-1) j n / d)

The mixed tokens are $sum_m a cos + b sin$: real and imaginary parts lie side by side and are summed in one
product. Products run in the dtype of x and accumulate in float32. Tables are NumPy's, one for each size and
dtype, so that all layers of a program share them.
"""

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.chirp import positions, roots


def _product(equation: str, *arrays: Array | np.ndarray) -> Float[Array, "..."]:
    """Computes an einsum in the arrays' dtype with sums in float32 at least."""
    highest = None if arrays[0].dtype == jnp.bfloat16 else jax.lax.Precision.HIGHEST
    return jnp.einsum(equation, *arrays, precision=highest, preferred_element_type=wide(*arrays))


def _turns(i: np.ndarray, m: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns cos and sin of $2 pi i m / n$, after removing whole turns."""
    phase = np.outer(i, m) % n * (2 * np.pi / n)
    return np.cos(phase), np.sin(phase)


@lru_cache(maxsize=16)
def _features(d: int, dtype: jnp.dtype) -> np.ndarray:
    """(d, 2, d // 2 + 1): from features to the real and the imaginary part of half of their spectrum."""
    cos, sin = _turns(np.arange(d), np.arange(d // 2 + 1), d)
    return np.stack([cos, -sin], 1).astype(dtype)


@lru_cache(maxsize=16)
def _tokens(t: int, dtype: jnp.dtype) -> np.ndarray:
    """(t, 2 t): from real and imaginary part, token by token, to the real part of their spectrum."""
    return np.stack(_turns(np.arange(t), np.arange(t), t), -1).reshape(t, -1).astype(dtype)


@lru_cache(maxsize=16)
def _stages(t: int, first: int, dtype: jnp.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Two stages (Cooley-Tukey) for $t = first second$, with the twiddle factors in the second one.

    (i1, e, m1, c) from part c to part e; (i1, i2, m2 e) from both parts to the real part.
    """
    second = t // first
    cos, sin = _turns(np.arange(first), np.arange(first), first)
    one = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], 1)
    two = np.stack(_turns(np.arange(t), np.arange(second), t), -1).reshape(second, first, -1)
    return one.astype(dtype), two.swapaxes(0, 1).astype(dtype, order="C")


@takes_arrays
def mirrored(half: Float[Array, "*b t f"], d: int) -> Float[Array, "*b t d"]:
    """Returns all d columns from $j = 0 .. d // 2$: $y[i, j] = y[-i mod t, -j mod d]$.

        >>> mirrored(jnp.array([[1.0, 2.0, 3.0]]), 4)
        Array([[1., 2., 3., 2.]], dtype=float32)

    Args:
      half: the first columns, (*b, t, d // 2 + 1).
      d: number of columns.
    """
    rest = jnp.flip(half[..., 1 : (d + 1) // 2], axis=(-2, -1))
    return jnp.concatenate([half, jnp.roll(rest, 1, axis=-2)], axis=-1)


def _spectrum(x: Float[Array, "*b t d"]) -> Float[Array, "*b t 2 f"]:
    return _product("...tn,ncj->...tcj", x, _features(x.shape[-1], x.dtype)).astype(x.dtype)


@takes_arrays
def matmul_mix(x: Float[Array, "*b t d"]) -> Float[Array, "*b t d"]:
    """Mixes by one product per axis, for half of the columns, and mirrors them.

        >>> matmul_mix(jnp.ones((3, 2)))[0, 0].round().astype(int)  # the sum of all
        Array(6, dtype=int32)

    Args:
      x: the tokens, (*b, t, d).
    """
    *lead, t, d = x.shape
    if 0 in x.shape:
        return x
    parts = _spectrum(x).reshape(*lead, 2 * t, d // 2 + 1)
    y = _product("...mj,im->...ij", parts, _tokens(t, x.dtype))
    return mirrored(y.astype(x.dtype), d)


def divisor(t: int) -> int:
    """Returns the largest divisor of t up to $sqrt(t)$.

        >>> divisor(12), divisor(7)
        (3, 1)

    Args:
      t: a positive integer.
    """
    return next(n for n in range(math.isqrt(t), 0, -1) if t % n == 0)


@takes_arrays
def monarch_mix(x: Float[Array, "*b t d"]) -> Float[Array, "*b t d"]:
    """Mixes by two products for the tokens, $t = t1 t2$, with $t (4 t1 + 2 t2)$ multiplications per column.

        u[i1, m2] = sum_{m1} z[m1, m2] exp(-2 pi sqrt(-1) i1 m1 / t1)
        y[i1, i2] = Re sum_{m2} u[i1, m2] exp(-2 pi sqrt(-1) i m2 / t)

    t1 and t2 are the divisors nearest to $sqrt(t)$, $t1 <= t2$; for a prime t there is one product.

        >>> monarch_mix(jnp.ones((4, 2)))[0, 0].round().astype(int)  # the sum of all
        Array(8, dtype=int32)

    Args:
      x: the tokens, (*b, t, d).
    """
    *lead, t, d = x.shape
    if 0 in x.shape:
        return x
    first = divisor(t)
    if first == 1:
        return matmul_mix(x)
    one, two = _stages(t, first, x.dtype)
    parts = _spectrum(x).reshape(*lead, first, t // first, 2, d // 2 + 1)
    parts = _product("...kmcj,iekc->...imej", parts, one).astype(x.dtype)
    parts = parts.reshape(*lead, first, t // first * 2, d // 2 + 1)
    y = _product("...imj,ikm->...kij", parts, two).reshape(*lead, t, d // 2 + 1)
    return mirrored(y.astype(x.dtype), d)


@takes_arrays
def masked_mix(x: Float[Array, "*b t d"], lengths: Int[Array, "*b"]) -> Float[Array, "*b t d"]:
    """Mixes the first $n = lengths[b]$ tokens of each example by an n by d transform; zero from n on.

    Cosines and sines of $2 pi i m / n$ for each example, zero for i or $m >= n$. Their two products p and q
    are kept apart: $y[i, j] = p + q$, and $y[i, -j] = p - q$ needs no mirror image.

        >>> masked_mix(jnp.ones((1, 4, 2)), jnp.array([3]))[0, 0, 0].round().astype(int)  # of 3 tokens
        Array(6, dtype=int32)

    Args:
      x: the tokens, (*b, t, d).
      lengths: number of tokens of each example, (*b), from 0 to t.
    """
    t, d = x.shape[-2:]
    if 0 in x.shape:
        return x
    m, n = positions(lengths, t), jnp.maximum(lengths, 1)
    real = m < lengths[..., None]
    table = roots(n, t, wide(x))
    table = jnp.stack([table.real, -table.imag], -2)[..., None, :]
    turns = m[..., :, None] * m[..., None, :] % n[..., None, None]
    table = jnp.take_along_axis(table, turns[..., None, :, :], -1, mode="clip")
    both = (real[..., :, None] & real[..., None, :])[..., None, :, :]
    table = jnp.where(both, table, jnp.zeros((), table.dtype)).astype(x.dtype)
    # Zero times a padded infinity would not be zero.
    parts = _spectrum(jnp.where(real[..., None], x, jnp.zeros((), x.dtype)))
    p, q = jnp.moveaxis(_product("...cim,...mcj->...cij", table, parts), -3, 0)
    return jnp.concatenate([p + q, jnp.flip((p - q)[..., 1 : (d + 1) // 2], -1)], -1).astype(x.dtype)
