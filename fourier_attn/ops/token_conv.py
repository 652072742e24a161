"""Convolution of a sequence of tokens with one short filter."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fourier_attn.ops.arguments import takes_arrays


@takes_arrays
def token_convolve(
    x: Float[Array, "*b t d"], filter: Float[Array, "*r"], *, grid: tuple[int, ...] | None = None
) -> Float[Array, "*b t d"]:
    """Convolves the sequence of tokens with a filter that all features share.

        y[i] = sum_{k = -N .. N} w[N + k] x[i - k],     r = 2 N + 1 taps, x is zero outside

    A true convolution: tap N + k weights the token k places before. With `grid=(rows, cols)` tokens are an
    image, row by row, and the filter (r1, r2) has two axes.

        >>> x = jnp.arange(4.0).reshape(1, 4, 1)
        >>> token_convolve(x, jnp.array([0.0, 0.0, 1.0])).ravel()  # the token before
        Array([0., 0., 1., 2.], dtype=float32)

    Raises: ValueError for an even number of taps, and for a grid that does not fit.
    Source: Torralba, Isola and Freeman, Foundations of Computer Vision, the chapter on transformers, eq. 1.6.
    """
    axes, t = tuple(grid or (x.shape[-2],)), x.shape[-2]
    if math.prod(axes) != t or filter.ndim != len(axes):
        raise ValueError(f"grid={grid} must have t = {t} tokens, and a filter of {filter.shape} as many axes")
    if any(r % 2 == 0 for r in filter.shape):
        taps = " x ".join(map(str, filter.shape))
        raise ValueError(f"filter has r={taps} taps; make it odd, so that it has a centre")
    reach = [r // 2 for r in filter.shape]
    image = x.reshape(*x.shape[:-2], *axes, x.shape[-1])
    lead = x.ndim - 2
    padded = jnp.pad(image, [(0, 0)] * lead + [(n, n) for n in reach] + [(0, 0)])
    w = filter.astype(x.dtype)

    def term(tap: tuple[int, ...]) -> Array:
        before = (2 * n - i for n, i in zip(reach, tap, strict=True))
        near = tuple(slice(first, first + n) for first, n in zip(before, axes, strict=True))
        return w[tap] * padded[(slice(None),) * lead + near]

    first, *rest = np.ndindex(*filter.shape)
    return sum((term(tap) for tap in rest), term(first)).reshape(x.shape)
