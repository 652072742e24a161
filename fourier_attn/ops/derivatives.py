"""Refuses derivatives that an op does not have, by name and with the way around them."""

from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
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
