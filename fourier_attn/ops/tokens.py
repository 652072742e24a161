"""Convolution of a sequence of tokens with one short filter."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def token_convolve(x: Float[Array, "*b t d"], filter: Float[Array, " r"]) -> Float[Array, "*b t d"]:
    """Convolves the sequence of tokens with a filter that all features share.

        y[i] = sum_{k = -N .. N} w[N + k] x[i - k],     r = 2 N + 1 taps, x is zero outside

    A true convolution: tap N + k weights the token k places before.

    Raises: ValueError for an even number of taps.
    Source: Torralba, Isola and Freeman, Foundations of Computer Vision, the chapter on transformers, eq. 1.6.
    """
    (r,), t = filter.shape, x.shape[-2]
    if r % 2 == 0:
        raise ValueError(f"filter has r={r} taps; make it odd, so that it has a centre")
    n = r // 2
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(n, n), (0, 0)])
    w = filter.astype(x.dtype)
    return sum((w[r - 1 - i] * padded[..., i : i + t, :] for i in range(1, r)), w[r - 1] * padded[..., :t, :])
