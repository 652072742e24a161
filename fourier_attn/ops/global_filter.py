"""Filters a sequence or a grid of tokens with learned transfer functions."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.transforms import irfftn, rfftn


def bins(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the half spectrum of real arrays: the last axis has $n // 2 + 1$ bins.

        >>> bins((8, 6))
        (8, 4)

    Args:
      axes: shape of the real arrays.
    """
    return (*axes[:-1], axes[-1] // 2 + 1)


@takes_arrays
def as_signals(x: Float[Array, "*b t d"], grid: tuple[int, ...] | None) -> Float[Array, "..."]:
    """Returns tokens as a float32 signal of each feature, (*b, d, t) or (*b, d, rows, cols).

        >>> as_signals(jnp.zeros((6, 4)), (2, 3)).shape
        (4, 2, 3)

    Args:
      x: the tokens, (*b, t, d).
      grid: (rows, cols), or None for a sequence.
    Raises: ValueError where the grid does not have t tokens.
    """
    *b, t, d = x.shape
    axes = tuple(grid or (t,))
    if math.prod(axes) != t:
        raise ValueError(f"grid={grid} must have t = {t} tokens; use grid=None for a sequence")
    return jnp.swapaxes(x, -1, -2).astype(wide(x)).reshape(*b, d, *axes)


@takes_arrays
def as_tokens(signal: Float[Array, "..."], x: Float[Array, "*b t d"]) -> Float[Array, "*b t d"]:
    """Inverts `as_signals`, with the shape and dtype of x.

        >>> x = jnp.arange(6.0).reshape(3, 2)
        >>> bool((as_tokens(as_signals(x, None), x) == x).all())
        True

    Args:
      signal: the signals, (*b, d, t) or (*b, d, rows, cols).
      x: tokens of the wanted shape and dtype.
    """
    return jnp.swapaxes(signal.reshape(*x.shape[:-2], x.shape[-1], x.shape[-2]), -1, -2).astype(x.dtype)


@takes_arrays
def global_filter(
    x: Float[Array, "*b t d"], filter: Float[Array, "*f d 2"], *, grid: tuple[int, ...] | None = None
) -> Float[Array, "*b t d"]:
    """Filters the sequence of each feature by a learned transfer function.

        y[:, j] = irfft(W[:, j] rfft(x[:, j])),    W[f, j] = filter[f, j, 0] + sqrt(-1) filter[f, j, 1]

    which is circular convolution with $irfft(W[:, j])$: the last token is the neighbour of the first. With
    `grid=(rows, cols)` tokens are an image, row by row, and both transforms have two axes. Forward sign; the
    inverse carries the whole factor $1 / t$. Any pair that inverts, the orthonormal one of the publication
    too, gives the same y from the same filter. Transforms run in float32.

    y is real, so that some parameters are dead: the imaginary part of bin 0 and, for even t, of bin $t / 2$;
    on a grid the anti-Hermitian part over the rows, $(W[f] - conj(W[-f])) / 2$, in those two columns.

        >>> x = jnp.arange(8.0).reshape(1, 4, 2)
        >>> identity = jnp.zeros((3, 2, 2)).at[..., 0].set(1.0)  # 4 tokens have 3 frequencies
        >>> global_filter(x, identity)[0, :, 0]
        Array([0., 2., 4., 6.], dtype=float32)

    Args:
      x: the tokens, (*b, t, d).
      filter: real and imaginary parts, (t // 2 + 1, d, 2), or (rows, cols // 2 + 1, d, 2).
      grid: (rows, cols) of an image. Default None, a sequence.
    Masking: none; every output depends on every token, padding included.
    Raises: ValueError for a filter or a grid that does not fit.
    Source: Rao et al., Global Filter Networks for Image Classification, arXiv 2107.00645.
    """
    t, d = x.shape[-2:]
    axes = tuple(grid or (t,))
    signal = as_signals(x, grid)
    if filter.shape != (*bins(axes), d, 2):
        raise ValueError(
            f"filter of shape {filter.shape} must be {(*bins(axes), d, 2)} for tokens {axes} and d={d}; "
            "resample_filter changes its size"
        )
    if 0 in x.shape:
        return x
    spectrum = rfftn(signal, axes)
    weight = jnp.moveaxis(jax.lax.complex(*_parts(filter.astype(wide(x)))), -1, 0)
    return as_tokens(irfftn(spectrum * jnp.broadcast_to(weight, spectrum.shape), axes), x)


@takes_arrays
def resample_filter(
    filter: Float[Array, "*f d 2"], source: tuple[int, ...], target: tuple[int, ...]
) -> Float[Array, "*g d 2"]:
    """Interpolates a filter of `global_filter` over frequency for another number of tokens.

        V[g] = (1 - a) W[m] + a W[m + 1],    g n / t = m + a,    0 <= a < 1

    for n tokens before and t after, on each axis. W is periodic in f with period n, so that negative
    frequencies have their neighbours, and $W[-f] = conj(W[f])$ continues the half spectrum; dead parameters
    have no influence. Approximate: a trained filter at another size is another function. It is exact where t
    divides n, and otherwise the better the smoother W is, that is the shorter its kernel.

        >>> filter = jnp.ones((5, 2, 2))  # for 8 tokens of 2 features
        >>> resample_filter(filter, (8,), (16,)).shape
        (9, 2, 2)

    Args:
      filter: the filter for `source`.
      source: its tokens, (n,) or (rows, cols).
      target: the wanted tokens, (t,) or (rows, cols).
    Raises: ValueError for sizes that do not fit the filter or each other.
    """
    source, target = tuple(source), tuple(target)
    if len(source) != len(target) or min(source + target) < 1 or filter.shape[:-2] != bins(source):
        raise ValueError(
            f"filter with bins {filter.shape[:-2]}, source={source} and target={target} must fit: positive "
            "sizes, as many in both, and n // 2 + 1 bins on the last axis"
        )
    if source == target:
        return filter
    last, n = len(source) - 1, source[-1]
    weight = jax.lax.complex(*_parts(filter))
    f = np.arange(n // 2 + 1)
    own = (f == 0) | (2 * f == n)  # columns that are their own mirror image
    own = np.broadcast_to(own[:, None], weight.shape)
    weight = jnp.where(own, (weight + _mirrored(weight, last)) / 2, weight)
    beyond = jax.lax.slice_in_dim(_mirrored(weight, last), (n - 1) // 2, (n - 1) // 2 + 1, axis=last)
    weight = jnp.concatenate([weight, beyond], axis=last)  # bin n // 2 + 1
    for axis, (before, after, places) in enumerate(zip(source, target, bins(target), strict=True)):
        period = before if axis < last else weight.shape[last]
        lower, rest = np.divmod(np.arange(places) * before, after)
        share = jnp.asarray(rest / after, weight.dtype).reshape(-1, *[1] * (weight.ndim - axis - 1))
        low, high = (jnp.take(weight, m % period, axis, mode="clip") for m in (lower, lower + 1))
        share = jnp.broadcast_to(share, low.shape)
        weight = low + share * (high - low)
    return jnp.stack([weight.real, weight.imag], axis=-1)


def _parts(filter: Array) -> tuple[Array, Array]:
    real = filter.astype(wide(filter))
    return real[..., 0], real[..., 1]


def _mirrored(weight: Array, axes: int) -> Array:
    """Returns $conj(W[-f, ..])$ over the first `axes` axes."""
    where = tuple(range(axes))
    return jnp.roll(jnp.flip(weight, where), (1,) * axes, where).conj()
