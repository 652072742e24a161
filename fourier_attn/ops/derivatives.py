"""Gives linear maps derivatives in both modes, and refuses those that an op does not have, by its name."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def reverse_only(why: str, x: Array) -> Array:
    """Returns x. Its derivative has reverse mode only.

    Args:
      why: message of the error in forward mode: the op, and the way around it.
      x: floating point numbers.
    Raises: TypeError in forward mode, also where a program with it is compiled.
    """
    return x


@reverse_only.defjvp
def _reverse_only_jvp(why: str, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return primals[0], _refused.bind(tangents[0], why=why)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def not_differentiable(why: str, x: Array) -> Array:
    """Returns x, which must not be differentiated.

    Args:
      why: message of the error: the op, and the way around it.
      x: floating point numbers.
    Raises: TypeError where it is differentiated.
    """
    return x


@not_differentiable.defjvp
def _not_differentiable_jvp(why: str, primals: tuple[Array], tangents: tuple[Array]) -> Any:
    raise TypeError(why)


def _refuse(*_: Any, why: str) -> Any:
    raise TypeError(why)


# The tangent of `reverse_only`. Reverse mode transposes it and never computes it.
_refused = Primitive("reverse_only")
_refused.def_impl(_refuse)
_refused.def_abstract_eval(lambda x, why: x)
mlir.register_lowering(_refused, _refuse)
ad.deflinear2(_refused, lambda cotangent, _, why: [cotangent])
batching.defvectorized(_refused)


def linear_map(
    forward: Callable[..., Array], backward: Callable[..., Array], x: Array, *others: Array
) -> Array:
    """Returns forward(x, *others), a linear map of x with a given transpose.

    It has derivatives of any order with respect to x, in both modes, although the two functions need not have
    any. Under `vmap` the functions get one more leading axis.

    Args:
      forward: the map, of arrays with any leading axes.
      backward: its transpose, backward(g, *others).
      x: what it maps.
      others: further arguments, with the same leading axes. They have no derivative.
    """
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, *others)]
    program = jax.make_jaxpr(forward)(*shapes)
    return _linear.bind(x, *others, jaxpr=program, forward=forward, backward=backward)


def _run(*arrays: Array, jaxpr: Any, forward: Any, backward: Any) -> Array:
    return jaxpr_as_fun(jaxpr)(*arrays)[0]


def _linear_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Array, Array]:
    tangent = ad.instantiate_zeros(tangents[0])
    return _linear.bind(*primals, **params), _linear.bind(tangent, *primals[1:], **params)


def _linear_transpose(g: Any, x: Any, *others: Array, jaxpr: Any, forward: Any, backward: Any) -> list[Any]:
    nothing = [None] * len(others)
    return [None if type(g) is ad.Zero else linear_map(backward, forward, g, *others), *nothing]


def _linear_batch(arrays: Any, axes: Any, *, jaxpr: Any, forward: Any, backward: Any) -> tuple[Array, int]:
    size = next(a.shape[axis] for a, axis in zip(arrays, axes, strict=True) if axis is not None)
    whole = [
        jnp.broadcast_to(a, (size, *a.shape)) if axis is None else jnp.moveaxis(a, axis, 0)
        for a, axis in zip(arrays, axes, strict=True)
    ]
    return linear_map(forward, backward, *whole), 0


_linear = Primitive("linear_map")
_linear.def_impl(_run)
_linear.def_abstract_eval(lambda *_, jaxpr, **__: jaxpr.out_avals[0])
mlir.register_lowering(_linear, mlir.lower_fun(_run, multiple_results=False))
ad.primitive_jvps[_linear] = _linear_jvp
ad.primitive_transposes[_linear] = _linear_transpose
batching.primitive_batchers[_linear] = _linear_batch
