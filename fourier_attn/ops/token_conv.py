"""Convolves a sequence of tokens with one short filter."""

import itertools
import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from fourier_attn.ops.arguments import takes_arrays


@takes_arrays
def token_convolve(
    x: Float[Array, "*b t d"],
    filter: Float[Array, "*r"],
    *,
    grid: tuple[int, ...] | None = None,
    causal: bool = False,
) -> Float[Array, "*b t d"]:
    """Convolves the sequence of tokens with a filter that all features share.

        y[i] = sum_{k = -N .. N} w[N + k] x[i - k],     r = 2 N + 1 taps, x is zero outside
        y[i] = sum_{k = 0 .. r - 1} w[k] x[i - k],      causal, any r

    A true convolution: tap $N + k$, or tap k if causal, weights the token k places before. With
    `grid=(rows, cols)` tokens are an image, row by row, and the filter (r1, r2) has two axes.

        >>> x = jnp.arange(4.0).reshape(1, 4, 1)
        >>> token_convolve(x, jnp.array([0.0, 0.0, 1.0])).ravel()  # the token before
        Array([0., 0., 1., 2.], dtype=float32)

    Args:
      x: the tokens, (*b, t, d).
      filter: taps (r), or (r1, r2) with a grid.
      grid: (rows, cols) of an image. Default None, a sequence.
      causal: lets taps reach earlier tokens only. Default False.
    Raises: ValueError for an even number of taps unless causal, for causal with a grid, and for a grid that
      does not fit.
    Source: Torralba, Isola and Freeman, Foundations of Computer Vision, the chapter on transformers, eq. 1.6.
    """
    axes, t = tuple(grid or (x.shape[-2],)), x.shape[-2]
    if math.prod(axes) != t or filter.ndim != len(axes):
        raise ValueError(f"grid={grid} must have t = {t} tokens, and a filter of {filter.shape} as many axes")
    if causal and grid:
        raise ValueError(f"causal=True needs a sequence, not grid={grid}; an image has no order")
    if not causal and any(r % 2 == 0 for r in filter.shape):
        taps = " x ".join(map(str, filter.shape))
        raise ValueError(f"filter has r={taps} taps; make it odd, so that it has a centre")
    last = [r - 1 for r in filter.shape]
    ahead = [0 if causal else n // 2 for n in last]  # places that the filter reaches behind a token
    image = x.reshape(*x.shape[:-2], *axes, x.shape[-1])
    lead = x.ndim - 2
    padded = jnp.pad(
        image, [(0, 0)] * lead + [(n - a, a) for n, a in zip(last, ahead, strict=True)] + [(0, 0)]
    )
    w = filter.astype(x.dtype)

    def term(tap: tuple[int, ...]) -> Array:
        before = (n - i for n, i in zip(last, tap, strict=True))
        near = tuple(slice(first, first + n) for first, n in zip(before, axes, strict=True))
        return w[tap] * padded[(slice(None),) * lead + near]

    first, *rest = itertools.product(*map(range, filter.shape))
    return sum((term(tap) for tap in rest), term(first)).reshape(x.shape)
