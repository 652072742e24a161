"""Fourier mixing: the real part of a two-dimensional discrete Fourier transform."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fourier_attn.ops.chirp import LONGEST, chirp_mix
from fourier_attn.ops.platforms import by_platform
from fourier_attn.ops.products import divisor, masked_mix, matmul_mix, mirrored, monarch_mix
from fourier_attn.ops.transforms import batchwise

METHODS = ("auto", "fft", "rfft", "matmul", "monarch")
LOW = (jnp.bfloat16, jnp.float16)


def _rfft(x: Float[Array, "*b t d"]) -> Float[Array, "*b t d"]:
    """Half of the spectrum is enough for real x."""
    return mirrored(jnp.fft.rfft2(x).real, x.shape[-1])


_PLAIN = {
    "fft": batchwise(lambda x: jnp.fft.fft2(x).real, 2),
    "rfft": batchwise(_rfft, 2),
    "matmul": matmul_mix,
    "monarch": monarch_mix,
}
_MASKED = {"fft": chirp_mix, "rfft": chirp_mix, "matmul": masked_mix}


def best_method(platform: str, t: int, *, low: bool, masked: bool) -> str:
    """The table in the docstring of `fourier_mix`; `low` says that the dtype has 16 bits."""
    if platform == "tpu":
        return _best_on_tpu(t, low=low, masked=masked)
    units = platform in ("cuda", "rocm") and low  # products in 16 bits, which are much faster
    if masked:
        return "matmul" if t <= (256 if units else 16) else "rfft"
    if not units:
        return "rfft"
    return "matmul" if t <= 1024 else "monarch" if divisor(t) >= 16 else "rfft"


def _best_on_tpu(t: int, *, low: bool, masked: bool) -> str:
    """By the compiler's estimates for a v5e."""
    if masked:
        return "matmul" if t <= (512 if low else 256) else "rfft"
    if divisor(t) < 16:
        return "matmul" if t <= (2048 if low else 1024) else "rfft"
    if t <= (512 if low else 128):
        return "matmul"
    return "monarch" if low or t < 16384 else "rfft"


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _mix(x: Float[Array, "*b t d"], lengths: Int[Array, "*b"] | None, method: str) -> Float[Array, "*b t d"]:
    if method != "auto":
        return _compute(method, x, lengths)
    choose = partial(best_method, t=x.shape[-2], low=x.dtype in LOW, masked=lengths is not None)
    return by_platform(choose, _compute, x, lengths)


def _compute(method: str, x: Array, lengths: Array | None) -> Array:
    native = x.dtype in LOW and method in ("matmul", "monarch")
    values = x if native else x.astype(jnp.float32)
    if lengths is None:
        return _PLAIN[method](values).astype(x.dtype)
    whole = (lengths == x.shape[-2]).all()
    y = jax.lax.cond(whole, lambda x, n: _PLAIN[method](x), _MASKED[method], values, lengths)
    return y.astype(x.dtype)


# <Re F x, g> = <x, Re F g>: the operator is self-adjoint, with lengths too, so that the backward pass is
# the forward pass applied to the cotangent, and nothing but the lengths has to be kept.
_mix.defvjp(
    lambda x, lengths, method: (_mix(x, lengths, method), lengths),
    lambda method, lengths, g: (_mix(g, lengths, method), None),
)


def fourier_mix(
    x: Float[Array, "*b t d"], *, lengths: Int[Array, "..."] | None = None, method: str = "auto"
) -> Float[Array, "*b t d"]:
    """Mixes tokens and features by the real part of the two-dimensional Fourier transform.

        y[i, j] = Re sum_{m < t, n < d} x[m, n] exp(-2 pi sqrt(-1) (i m / t + j n / d))

    Forward sign, no normalisation (white noise comes out sqrt(t d / 2) times larger), any t and d, the
    input's dtype. The map is linear and self-adjoint; its reverse-mode derivative is the same transform and
    saves no activations. A batch that is sharded over devices stays where it is. Forward mode (`jax.jvp`)
    of the op itself is refused by JAX, as for every `jax.custom_vjp`.

    Args:
      x: the tokens.
      lengths: every example is transformed by itself over its first lengths[b] tokens, a number that takes
        the place of t and may be traced. Outside 0 .. t it is the caller's error, and clipped.
      method: "fft" is the complex transform of the definition; "rfft" computes half of the spectrum and
        mirrors it, y[i, j] = y[-i mod t, -j mod d]. Both run in float32. "matmul" is one product per axis
        with real cosines and sines, "monarch" two with t1 and t2 for t = t1 t2 tokens; both run in bfloat16
        and float16 as such, with sums in float32. With lengths, "fft" and "rfft" are chirps, O(t log t), and
        "matmul" is products with a table for each example, O(t^2); where all lengths are t, both are the
        plain transforms. "auto", by backend, dtype and t:

            CPU, any dtype (measured)          "rfft"; with lengths "matmul" to t = 16, then "rfft"
            GPU, float32 (estimate)            the same
            GPU, 16 bit (estimate)             "matmul" to t = 1024, then "monarch", or "rfft" where t has no
                                               divisor from 16 to sqrt(t); with lengths "matmul" to
                                               t = 256, then "rfft"
            TPU, float32 (the compiler's       "matmul" to t = 128, "monarch" below 16,384, then "rfft";
            estimate for v5e)                  without such a divisor "matmul" to t = 1024, then "rfft";
                                               with lengths "matmul" to t = 256, then "rfft"
            TPU, 16 bit (the same)             "matmul" to t = 512, then "monarch"; without such a divisor
                                               "matmul" to t = 2048, then "rfft"; with lengths "matmul" to
                                               t = 512, then "rfft"

        `python -m benchmarks.fourier` measures; `python -m benchmarks.aot v5e` has the compiler's cycles.
        None of the estimates was run.
    Masking: without lengths every output depends on every input, padding included. With lengths neither
      content nor number of the positions from lengths[b] on has an influence; outputs there are 0.
    Raises: ValueError for an unknown method, and with lengths for "monarch", for another shape than the
      examples' and for t above 2^20.
    Source: Lee-Thorpe et al., FNet: Mixing Tokens with Fourier Transforms, arXiv 2105.03824.
    """
    _check(x, lengths, method)
    return _mix(x, None if lengths is None else jnp.clip(lengths.astype(jnp.int32), 0, x.shape[-2]), method)


def _check(x: Array, lengths: Array | None, method: str) -> None:
    """Says what does not fit, its value and the cure."""
    if method not in METHODS:
        raise ValueError(f"method={method!r} is unknown; choose one of {', '.join(METHODS)}")
    if lengths is None:
        return
    if method == "monarch":
        raise ValueError("method='monarch' has no form with lengths; use 'auto', 'rfft' or 'matmul'")
    if lengths.shape != x.shape[:-2]:
        raise ValueError(f"lengths of shape {lengths.shape} must be one for each example, {x.shape[:-2]}")
    if x.shape[-2] > LONGEST:
        raise ValueError(f"t={x.shape[-2]} exceeds {LONGEST}, the most with lengths; cut the sequences")
