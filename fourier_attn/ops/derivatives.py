"""Gives functions derivatives of their own, and refuses those that an op does not have, by its name."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array


def linear_map(forward: Callable[..., Any], backward: Callable[..., Any], x: Any, *saved: Any) -> Any:
    """Returns forward(x, *saved), a linear map of x whose transpose is backward(g, *saved).

    It has derivatives of any order with respect to x, in both modes, although the two functions need not have
    any. With respect to `saved` it has those of the two functions.

        >>> twice = partial(linear_map, lambda x: 2 * x, lambda g: 2 * g)
        >>> jax.jvp(twice, (3.0,), (1.0,))[1], jax.grad(twice)(3.0)
        (Array(2., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))

    Args:
      forward: the map.
      backward: its transpose, whose result has the shapes of x.
      x: an array or several ones.
      saved: further arguments of the two functions, arrays or several ones.
    """
    inputs, tree = jax.tree.flatten((x, saved))
    program, results = jax.make_jaxpr(forward, return_shape=True)(x, *saved)
    maps = {"forward": forward, "backward": backward, "count": len(jax.tree.leaves(x))}
    trees = {"tree": tree, "results": jax.tree.structure(results)}
    return jax.tree.unflatten(trees["results"], _linear.bind(*inputs, jaxpr=program, **maps, **trees))


def _run(*inputs: Any, jaxpr: Any, **_: Any) -> list[Any]:
    return jaxpr_as_fun(jaxpr)(*inputs)


def _jvp(inputs: Sequence[Any], tangents: Sequence[Any], *, count: int, **params: Any) -> Any:
    bind = partial(_linear.bind, count=count, **params)
    moved = bind(*map(ad.instantiate_zeros, tangents[:count]), *inputs[count:])
    of_saved = [i for i in range(count, len(inputs)) if type(tangents[i]) is not ad.Zero]
    if of_saved:

        def at(*values: Array) -> list[Array]:
            changed = list(inputs)
            for i, value in zip(of_saved, values, strict=True):
                changed[i] = value
            return _run(*changed, **params)

        _, more = jax.jvp(at, [inputs[i] for i in of_saved], [tangents[i] for i in of_saved])
        moved = [a + b for a, b in zip(moved, more, strict=True)]
    return bind(*inputs), moved


def _transpose(
    cotangents: Any,
    *inputs: Any,
    forward: Any,
    backward: Any,
    count: int,
    tree: Any,
    results: Any,
    jaxpr: Any,
) -> list[Any]:
    g = jax.tree.unflatten(results, map(ad.instantiate_zeros, cotangents))
    _, saved = jax.tree.unflatten(tree, inputs)
    pulled = jax.tree.leaves(linear_map(backward, forward, g, *saved))
    wanted = map(ad.is_undefined_primal, inputs[:count])
    return [y if ask else None for y, ask in zip(pulled, wanted, strict=True)] + [None] * len(inputs[count:])


def _vmapped(
    inputs: Any, axes: Any, *, forward: Any, backward: Any, count: int, tree: Any, results: Any, jaxpr: Any
) -> tuple[list[Array], list[int]]:
    size = next(x.shape[axis] for x, axis in zip(inputs, axes, strict=True) if axis is not None)
    whole = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(inputs[:count], axes, strict=False)
    ]
    x, saved = jax.tree.unflatten(tree, [*whole, *inputs[count:]])
    _, of_saved = jax.tree.unflatten(tree, axes)
    forward, backward = (jax.vmap(f, (0, *of_saved)) for f in (forward, backward))
    y = jax.tree.leaves(linear_map(forward, backward, x, *saved))
    return y, [0] * len(y)


_linear = Primitive("linear_map")
_linear.multiple_results = True
_linear.def_impl(_run)
_linear.def_abstract_eval(lambda *_, jaxpr, **__: jaxpr.out_avals)
mlir.register_lowering(_linear, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[_linear] = _jvp
ad.primitive_transposes[_linear] = _transpose
batching.primitive_batchers[_linear] = _vmapped


def reverse_only(
    why: str, forward: Callable[..., Any], backward: Callable[..., tuple[Array, ...]]
) -> Callable[..., Array]:
    """Returns a function of arrays with a derivative of its own in reverse mode, and none in forward mode.

    It is a `jax.custom_vjp` that says by itself what it has not.

    Args:
      why: message of the error in forward mode: the op, and the way around it.
      forward: computes the result and a tuple of what the backward pass needs.
      backward: computes from these and the result's cotangent those of all floating point arguments.
    Raises: TypeError in forward mode, also where a program with it is compiled.
    """
    function = jax.custom_jvp(lambda *arrays: forward(*arrays)[0])

    def refuse(_: Any, y: Array, *saved: Any) -> Array:
        return _refused.bind(y, why=why)

    def pull(g: Array, _: Array, *saved: Any) -> tuple[Array, ...]:
        return backward(saved, g)

    @function.defjvp
    def jvp(arrays: tuple[Array, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
        y, saved = forward(*arrays)
        moving = tuple(
            t for x, t in zip(arrays, tangents, strict=True) if jnp.issubdtype(x.dtype, jnp.floating)
        )
        return y, linear_map(refuse, pull, moving, y, *saved)

    return function


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


# The tangent of a function with reverse mode alone. Reverse mode transposes it and never computes it.
_refused = Primitive("reverse_only")
_refused.def_impl(_refuse)
_refused.def_abstract_eval(lambda y, why: y)
mlir.register_lowering(_refused, _refuse)
ad.primitive_jvps[_refused] = lambda primals, tangents, why: _refuse(why=why)
batching.defvectorized(_refused)
