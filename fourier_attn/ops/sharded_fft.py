"""Fourier transforms like those of `jnp.fft` that keep a sharded batch on its devices.

XLA gathers the whole batch on every CPU or GPU for a batch-sharded `jnp.fft.fft` in a compiled program. These
functions tell its partitioner that each example is transformed by itself. They transform the last axis, or
the last two. All other axes may be sharded, and stay so. Transformed axes are gathered if they are sharded,
and must not be empty.

Forward transforms are not normalised. Inverse transforms have the factor $1 / n$, as in `jnp.fft`. Every
function is a linear map with derivatives of any order, in forward and in reverse mode.

`rfft` and `fft2` of bfloat16 are products with cosines and sines, in bfloat16 with sums in float32. For
normal random numbers, their error is below 1 % of the root mean square of the result.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact

from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.derivatives import linear_map
from fourier_attn.ops.transforms import batchwise

_KINDS = {"fft": jnp.fft.fftn, "ifft": jnp.fft.ifftn, "rfft": jnp.fft.rfftn, "irfft": jnp.fft.irfftn}


@takes_arrays
def fft(x: Inexact[Array, "*b n"]) -> Complex[Array, "*b n"]:
    """Transforms the last axis.

        X[f] = sum_m x[m] exp(-2 pi sqrt(-1) f m / n)

        >>> fft(jnp.ones(4)).real.round().astype(int)
        Array([4, 0, 0, 0], dtype=int32)

    Args:
      x: real or complex numbers (*b, n), of any length n.
    """
    return _transform("fft", _complex(x), _sizes(x, 1))


@takes_arrays
def ifft(x: Inexact[Array, "*b n"]) -> Complex[Array, "*b n"]:
    """Inverts `fft`, with the factor $1 / n$.

        >>> ifft(fft(jnp.arange(4.0))).real.round().astype(int)
        Array([0, 1, 2, 3], dtype=int32)

    Args:
      x: spectra (*b, n).
    """
    return _transform("ifft", _complex(x), _sizes(x, 1))


@takes_arrays
def fft2(x: Inexact[Array, "*b t n"]) -> Complex[Array, "*b t n"]:
    """Transforms the last two axes, see `fft`. Real bfloat16 is transformed by products.

        >>> fft2(jnp.ones((2, 2))).real.round().astype(int)[0]
        Array([4, 0], dtype=int32)

    Args:
      x: real or complex numbers (*b, t, n).
    """
    t, n = _sizes(x, 2)
    if x.dtype != jnp.bfloat16:
        return _transform("fft", _complex(x), (t, n))
    columns = _product("...tn,ncj->...tcj", x, _turns(n, n)).astype(x.dtype)
    (cos, sin), (re, im) = np.moveaxis(_turns(t, t), 1, 0), jnp.moveaxis(columns, -2, 0)
    rows = partial(_product, "...tj,ti->...ij")
    return jax.lax.complex(rows(re, cos) - rows(im, sin), rows(re, sin) + rows(im, cos))


@takes_arrays
def ifft2(x: Inexact[Array, "*b t n"]) -> Complex[Array, "*b t n"]:
    """Inverts `fft2`, with the factor $1 / (t n)$.

        >>> ifft2(fft2(jnp.ones((2, 2)))).real.round().astype(int)[0]
        Array([1, 1], dtype=int32)

    Args:
      x: spectra (*b, t, n).
    """
    return _transform("ifft", _complex(x), _sizes(x, 2))


@takes_arrays
def rfft(x: Float[Array, "*b n"]) -> Complex[Array, "*b f"]:
    """Transforms real numbers, and returns the first half of the spectrum, see `fft`.

    bfloat16 is transformed by a product, and the result is complex64.

        >>> rfft(jnp.ones(4)).real.round().astype(int)
        Array([4, 0, 0], dtype=int32)

    Args:
      x: real numbers (*b, n).
    Raises: ValueError for n = 0.
    """
    (n,) = _sizes(x, 1)
    if x.dtype != jnp.bfloat16:
        return _transform("rfft", x.astype(wide(x)), (n,))
    parts = _product("...n,ncf->...cf", x, _turns(n, n // 2 + 1))
    return jax.lax.complex(parts[..., 0, :], parts[..., 1, :])


@takes_arrays
def irfft(x: Inexact[Array, "*b f"], n: int, *, low_precision: bool = False) -> Float[Array, "*b n"]:
    """Inverts `rfft`, with the factor $1 / n$.

        >>> irfft(rfft(jnp.arange(5.0)), 5).round().astype(int)
        Array([0, 1, 2, 3, 4], dtype=int32)

    Args:
      x: half spectra (*b, n // 2 + 1).
      n: length of the result.
      low_precision: whether the spectra are rounded to bfloat16, transformed by a product, and returned in
        bfloat16; default False.
    Raises: ValueError if x does not have n // 2 + 1 frequencies.
    """
    if n < 1 or x.shape[-1] != n // 2 + 1:
        raise ValueError(
            f"n={n} needs n // 2 + 1 frequencies, but x has {x.shape[-1]}; give the length that rfft had"
        )
    x = _complex(x)
    if not low_precision:
        return _transform("irfft", x, (n,))
    parts = jnp.concatenate([x.real, x.imag], -1).astype(jnp.bfloat16)
    twice = np.where((np.arange(n // 2 + 1) * 2) % n == 0, 1.0, 2.0) / n  # all but two stand for a pair
    table = (_turns(n, n // 2 + 1) * twice).reshape(n, -1)
    return _product("...f,nf->...n", parts, table).astype(jnp.bfloat16)


def _sizes(x: Array, axes: int) -> tuple[int, ...]:
    if 0 in (sizes := x.shape[-axes:]):
        raise ValueError(f"x of shape {x.shape} has nothing to transform; give at least one number per axis")
    return sizes


def _complex(x: Array) -> Array:
    return x.astype(_complex_dtype(x.dtype))


def _complex_dtype(dtype: Any) -> Any:
    return jnp.complex128 if dtype in (jnp.float64, jnp.complex128) else jnp.complex64


def _turns(n: int, frequencies: int) -> np.ndarray:
    """Returns cos and minus sin of $2 pi m f / n$, (n, 2, frequencies), after removing whole turns."""
    phase = np.outer(np.arange(n), np.arange(frequencies)) % n * (2 * np.pi / n)
    return np.stack([np.cos(phase), -np.sin(phase)], 1)


def _product(equation: str, x: Array, table: np.ndarray) -> Array:
    return jnp.einsum(equation, x, table.astype(x.dtype), preferred_element_type=jnp.float32)


def _transform(kind: str, x: Array, sizes: tuple[int, ...]) -> Array:
    if 0 in x.shape:
        last = sizes[-1] // 2 + 1 if kind == "rfft" else sizes[-1]
        dtype = jnp.finfo(x.dtype).dtype if kind == "irfft" else _complex_dtype(x.dtype)
        return jnp.zeros((*x.shape[: -len(sizes)], *sizes[:-1], last), dtype)
    return linear_map(_marked(kind, sizes), _marked(kind, sizes, transposed=True), x)


@lru_cache
def _marked(kind: str, sizes: tuple[int, ...], transposed: bool = False) -> Callable[[Array], Array]:
    """Returns the transform of the trailing axes or its transpose, marked as one of each example alone."""

    def forward(x: Array) -> Array:
        return _KINDS[kind](x, s=sizes, axes=tuple(range(-len(sizes), 0)))

    def backward(g: Array) -> Array:
        last = sizes[-1] // 2 + 1 if kind == "irfft" else sizes[-1]
        dtype = jnp.finfo(g.dtype).dtype if kind == "rfft" else _complex_dtype(g.dtype)
        shape = jax.ShapeDtypeStruct((*g.shape[: -len(sizes)], *sizes[:-1], last), dtype)
        return jax.linear_transpose(forward, shape)(g)[0]

    return batchwise(backward if transposed else forward, len(sizes))
