"""Fourier transforms like those of `jnp.fft` that keep a sharded batch on its devices.

XLA gathers the whole batch on every CPU or GPU for a batch-sharded `jnp.fft.fft` under `jax.jit`. These
functions tell its partitioner that each example is transformed by itself. They are linear maps with
derivatives of any order in both modes, and with `vmap`. The transformed axes are gathered if they are sharded.

Real transforms and `fft2` of bfloat16 are products with cosines and sines, in bfloat16 with sums in float32.
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Complex, Float, Inexact

from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.transforms import batchwise

_KINDS = {"fft": jnp.fft.fftn, "ifft": jnp.fft.ifftn, "rfft": jnp.fft.rfftn, "irfft": jnp.fft.irfftn}
_linear = Primitive("sharded_fft")  # its parameters: kind, sizes, and whether it is the transpose


def _compute(x: Array, *, kind: str, sizes: tuple[int, ...], transposed: bool) -> Array:
    """Returns the transform of the trailing axes, or the transpose of this linear map."""
    function = partial(_KINDS[kind], s=sizes, axes=tuple(range(-len(sizes), 0)))
    if not transposed:
        return function(x)
    last = sizes[-1] // 2 + 1 if kind == "irfft" else sizes[-1]
    dtype = x.real.dtype if kind == "rfft" else jnp.result_type(x.dtype, jnp.complex64)
    shape = jax.ShapeDtypeStruct((*x.shape[: -len(sizes)], *sizes[:-1], last), dtype)
    return jax.linear_transpose(function, shape)(x)[0]


@lru_cache
def _marked(kind: str, sizes: tuple[int, ...], transposed: bool) -> Any:
    return jax.jit(
        batchwise(partial(_compute, kind=kind, sizes=sizes, transposed=transposed), len(sizes))
    )


def _transposed(cotangent: Any, _: Any, *, transposed: bool, **named: Any) -> list[Any]:
    return [_linear.bind(cotangent, transposed=not transposed, **named)]


def _batched(arrays: Any, axes: Any, **named: Any) -> tuple[Array, int]:
    return _linear.bind(jnp.moveaxis(arrays[0], axes[0], 0), **named), 0


_linear.def_impl(lambda x, **named: _marked(**named)(x))
_linear.def_abstract_eval(lambda x, **named: jax.typeof(jax.eval_shape(partial(_compute, **named), x)))
mlir.register_lowering(_linear, mlir.lower_fun(lambda x, **named: _marked(**named)(x), multiple_results=False))
ad.deflinear2(_linear, _transposed)
batching.primitive_batchers[_linear] = _batched
