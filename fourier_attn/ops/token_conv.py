"""Convolves a sequence of tokens with one short filter."""

import functools
import math
import operator

from jaxtyping import Array, Float

from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.neighbours import check_reach, neighbours
from fourier_attn.ops.token_shares import shares


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
      does not fit. Where devices share the tokens, also for a grid, and for taps beyond the next device.
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
    if shares() > 1:
        check_reach("a filter", axes, filter.shape[0], causal=causal, name="taps")
    ahead = [0 if causal else r // 2 for r in filter.shape]  # places that the filter reaches behind a token
    before = tuple(r - 1 - a for r, a in zip(filter.shape, ahead, strict=True))
    near = neighbours(x.reshape(math.prod(x.shape[:-2]), *axes, x.shape[-1]), before, filter.shape)
    terms = [w * y for w, y in zip(filter.astype(x.dtype).ravel(), reversed(near), strict=True)]
    return functools.reduce(operator.add, terms).reshape(x.shape)
