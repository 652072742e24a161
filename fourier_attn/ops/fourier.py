"""Fourier mixing: the real part of a two-dimensional discrete Fourier transform."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fourier_attn.ops.transforms import batchwise

METHODS = ("auto", "fft", "rfft")


def _fft(x: Float[Array, "*b t d"]) -> Float[Array, "*b t d"]:
    return jnp.fft.fft2(x).real


def _rfft(x: Float[Array, "*b t d"]) -> Float[Array, "*b t d"]:
    """Half of the spectrum is enough: y[i, j] = y[-i mod t, -j mod d] for real x."""
    d = x.shape[-1]
    half = jnp.fft.rfft2(x).real  # j = 0 .. d // 2
    rest = jnp.flip(half[..., 1 : (d + 1) // 2], axis=(-2, -1))
    return jnp.concatenate([half, jnp.roll(rest, 1, axis=-2)], axis=-1)


_TRANSFORMS = {"fft": batchwise(_fft, 2), "rfft": batchwise(_rfft, 2)}


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _mix(x: Float[Array, "*b t d"], method: str) -> Float[Array, "*b t d"]:
    transform = _TRANSFORMS["rfft" if method == "auto" else method]
    return transform(x.astype(jnp.float32)).astype(x.dtype)


# <Re F x, g> = <x, Re F g>: the operator is self-adjoint, so that the backward pass is the
# forward pass applied to the cotangent, and nothing has to be kept from the forward pass.
_mix.defvjp(lambda x, method: (_mix(x, method), None), lambda method, _, g: (_mix(g, method),))


def fourier_mix(x: Float[Array, "*b t d"], *, method: str = "auto") -> Float[Array, "*b t d"]:
    """Mixes tokens and features by the real part of the two-dimensional Fourier transform.

        y[i, j] = Re sum_{m < t, n < d} x[m, n] exp(-2 pi sqrt(-1) (i m / t + j n / d))

    Forward sign, no normalisation (white noise comes out sqrt(t d / 2) times larger), any t and
    d. Transforms run in float32 whatever the input; the result has the input's dtype. The map is
    linear and self-adjoint; its reverse-mode derivative is the same transform and saves no
    activations. A batch that is sharded over devices stays where it is. Forward-mode
    differentiation (`jax.jvp`) of the op itself is refused by JAX, as for every `jax.custom_vjp`.

    Args:
      x: the tokens.
      method: "fft" is the complex transform of the definition; "rfft" transforms real input, so
        that half of the spectrum is computed, and mirrors it: y[i, j] = y[-i mod t, -j mod d].
        "auto" is "rfft", which was the faster one at every size of `python -m benchmarks.fourier`.
    Masking: none; every output depends on every input, padding included.
    Raises: ValueError for an unknown method.
    Source: Lee-Thorpe et al., FNet: Mixing Tokens with Fourier Transforms, arXiv 2105.03824.
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r} is unknown; choose one of {', '.join(METHODS)}")
    return _mix(x, method)
