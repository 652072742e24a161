"""Derivatives of nested functions that have rules of their own: those of the exact function are kept."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array

from fourier_attn.optics.random import Key

Values = Sequence[Any]


def exact(equation: Any, inputs: Values) -> list[Any]:
    """Runs an equation as it is. Its inputs stay valid, because the program may use them again."""
    params = equation.params
    if "donated_invars" in params:
        equation = equation.replace(params=params | {"donated_invars": (False,) * len(equation.invars)})
    variables = [atom for atom in equation.invars if not isinstance(atom, core.Literal)]
    values = [x for x, atom in zip(inputs, equation.invars, strict=True) if atom in variables]
    known = dict(zip(variables, values, strict=True))
    names = core.DebugInfo("through", "one equation", ("",) * len(known), ("",) * len(equation.outvars))
    one = core.Jaxpr((), list(known), equation.outvars, [equation], equation.effects, names)
    return core.jaxpr_as_fun(core.ClosedJaxpr(one, ()))(*known.values())


def with_derivatives(
    equation: Any, light: Callable[..., Values], key: Key, inputs: Values, *, forward: bool
) -> Values:
    """Runs `light`, with the derivatives of the exact equation at the same inputs.

    Args:
      equation: the equation.
      light: computes its results from a key and its inputs.
      key: PRNG key of the noise, or None.
      inputs: of the equation.
      forward: True: derivatives of forward and reverse mode, as `jax.custom_jvp`. False: of reverse mode
        alone, as `jax.custom_vjp`.
    """
    consts, inputs = _apart(equation, inputs)
    steered: Any = (jax.custom_jvp if forward else jax.custom_vjp)(
        lambda key, consts, *x: light(key, *consts, *x)
    )

    def jvp(primals: Values, tangents: Values) -> tuple[Values, Values]:
        _, consts, *x = primals
        _, out = jax.jvp(lambda *x: exact(equation, (*consts, *x)), tuple(x), tuple(tangents[2:]))
        return steered(*primals), out

    def backward(kept: tuple[Values, Values], cotangents: Values) -> Values:
        consts, x = kept
        _, transposed = jax.vjp(lambda *x: exact(equation, (*consts, *x)), *x)
        return (None, None, *transposed(cotangents))

    if forward:
        steered.defjvp(jvp)
    else:  # The forward pass calls `steered`, so that second derivatives keep the rule.
        steered.defvjp(lambda key, consts, *x: (steered(key, consts, *x), (consts, x)), backward)
    return steered(key, list(consts), *inputs)


def _apart(equation: Any, inputs: Values) -> tuple[Values, Values]:
    """Returns what a function with a derivative of its own closes over, and its arguments."""
    count = equation.params.get("num_consts", 0)
    closed = [_constant(x) if jnp.issubdtype(jnp.result_type(x), jnp.inexact) else x for x in inputs[:count]]
    return closed, inputs[count:]


@jax.custom_jvp
def _constant(x: Array) -> Array:
    """Returns x, which must not be differentiated."""
    return x


@functools.partial(_constant.defjvp, symbolic_zeros=True)
def _refuse(primals: Values, tangents: Values) -> tuple[Any, Any]:
    if not isinstance(tangents[0], jax.custom_derivatives.SymbolicZero):
        raise ValueError(
            "a function with a derivative of its own (jax.custom_vjp) closes over a value that is "
            "differentiated; pass it as an argument, or use custom_derivatives='inline'"
        )
    return primals[0], jnp.zeros_like(primals[0])
