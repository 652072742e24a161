"""Fourier mixing of sequences whose tokens are shared among devices."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Int

from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.chirp import chirp_transform, chirps, mirror, positions
from fourier_attn.ops.token_shares import exchange, give_back
from fourier_attn.ops.transforms import rfftn, symmetric

_fft = symmetric(lambda z: jnp.fft.fft(z), 1)


@takes_arrays
def shared_mix(x: Float[Array, "*b t d"], lengths: Int[Array, "*b"] | None) -> Float[Array, "*b t d"]:
    """Mixes tokens that are shared among devices, with two exchanges of as many real numbers as x has.

        z[m, k] = sum_n x[m, n] exp(-2 pi sqrt(-1) k n / d),           0 < k < d / 2
        c[i, k] = sum_m z[m, k] exp(-2 pi sqrt(-1) i m / t)
        y[i, k] = Re c[i, k],    y[i, d - k] = Re c[-i mod t, k]

    The features are transformed first, while a device has whole tokens. Then the devices exchange tokens for
    pairs of columns k and $d - k$: column k of the half spectrum holds both. Columns 0 and $d / 2$ are real,
    so that they share one complex column, and $Re c[i, k]$ is replaced by the even part of the real part, or
    of the imaginary part.

        >>> shared_mix(jnp.ones((1, 3, 2)), None)[0, 0].round().astype(int)  # the sum of all
        Array([6, 0], dtype=int32)

    Args:
      x: the tokens, (*b, t, d), with an even d.
      lengths: number of tokens of each transform, (*b); None: t.
    Raises: ValueError for an odd d.
    """
    t, d = x.shape[-2:]
    if d % 2:
        raise ValueError(f"d={d} is odd; make it even, so that devices can share pairs of features")
    if 0 in x.shape:
        return x
    real = None if lengths is None else (positions(lengths, t) < lengths[..., None])[..., None]
    x = x if real is None else jnp.where(real, x, jnp.zeros((), x.dtype))
    half = rfftn(x.astype(wide(x)), (d,))
    other = jnp.concatenate([half.real[..., -1:], half.imag[..., 1:-1]], -1)
    pairs = jnp.stack([half.real[..., :-1], other], -1)
    layouts: Any = {"tokens": -3, "shared": -2, "what": "pairs of features"}
    pairs = exchange(pairs, **layouts)
    z, back = _along_tokens(jax.lax.complex(pairs[..., 0], pairs[..., 1]), lengths)
    even = jnp.arange(d // 2) == 0
    both = [jnp.where(even, (z.real + back.real) / 2, z.real)]
    both.append(jnp.where(even, (z.imag + back.imag) / 2, back.real))
    y = give_back(jnp.stack(both, -1), **layouts)
    y = jnp.concatenate([y[..., 0], y[..., :1, 1], jnp.flip(y[..., 1:, 1], -1)], -1)
    return y if real is None else jnp.where(real, y, jnp.zeros((), y.dtype))


def _along_tokens(
    z: Complex[Array, "*b t k"], lengths: Int[Array, "*b"] | None
) -> tuple[Complex[Array, "*b t k"], Complex[Array, "*b t k"]]:
    """Returns the transform of each column, and the transform at negated frequencies."""

    def whole(z: Array) -> tuple[Array, Array]:
        c = _fft(z.swapaxes(-1, -2)).swapaxes(-1, -2)
        return c, jnp.roll(jnp.flip(c, -2), 1, -2)

    def chirped(z: Array, n: Array) -> tuple[Array, Array]:
        n = jnp.maximum(n, 1)
        w = chirps(n, z.shape[-2], z.real.dtype)
        c = chirp_transform((z * w[..., None]).swapaxes(-1, -2), w).swapaxes(-1, -2) * w[..., None]
        return c, mirror(c, n)

    if lengths is None:
        return whole(z)
    full = (lengths == z.shape[-2]).all()
    return jax.lax.cond(full, lambda z, _: whole(z), chirped, z, lengths)
