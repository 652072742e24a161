"""Forward mode and second derivatives: every op has them, or says by name what to do instead."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from test_arguments import OPS, arguments

from fourier_attn.ops.attention import attention
from fourier_attn.ops.blockwise_attention import attend
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.ops.lambdas import lambda_layer
from fourier_attn.ops.transforms import irfftn, rfftn

ROWS = {"implementation": "rows"}
AROUND = {  # what the message of a refused derivative names
    "attention.attention": ROWS,
    "attention.fused_attention": ROWS,
    "attention.average_source": ROWS,
    "attention.shared_attention": ROWS,
    "circular.circular_attention": ROWS,
    "lambdas.lambda_layer": {"method": "matrix"},
}
NONE_AROUND = ("blockwise_attention.attend", "relative_position.by_shift")  # the refused forms themselves
STEP = 1e-5  # of finite differences; errors are of its square


def scalar(function: Callable[..., Any], given: dict[str, Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A number made of all results, as a function of the real parts of all arrays, and these."""
    leaves, tree = jax.tree.flatten(given)
    where = [
        i for i, x in enumerate(leaves) if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact)
    ]

    def compute(*parts: jax.Array) -> jax.Array:
        inputs = list(leaves)
        for i, part in zip(where, parts, strict=True):
            whole = jnp.iscomplexobj(leaves[i])
            inputs[i] = jax.lax.complex(part, jnp.asarray(leaves[i].imag, part.dtype)) if whole else part
        results = jax.tree.leaves(function(**jax.tree.unflatten(tree, inputs)))
        real = [y for y in results if jnp.issubdtype(y.dtype, jnp.floating)]
        real += [part for y in results if jnp.iscomplexobj(y) for part in (y.real, y.imag)]
        terms = [jnp.sin(y) * jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape) for y in real]
        return sum(map(jnp.sum, terms), jnp.zeros(()))

    return compute, [np.asarray(leaves[i].real, np.float64) for i in where]


def check(function: Callable[..., Any], given: dict[str, Any]) -> None:
    """Compares both with differences in float64."""
    with jax.enable_x64(True):
        compute, x = scalar(function, given)
        v = [np.cos(np.arange(a.size)).reshape(a.shape) for a in x]
        numbers = tuple(range(len(x)))
        if not x:
            return  # nothing to differentiate

        def products(*x: jax.Array) -> Any:
            return jax.jvp(jax.value_and_grad(compute, numbers), x, tuple(map(jnp.asarray, v)))

        step = jax.jit(products)
        (_, here), (slope, curve) = step(*x)
        del here
        after, before = (step(*(a + s * b for a, b in zip(x, v, strict=True)))[0] for s in (STEP, -STEP))
        forward = jax.jit(lambda *x: jax.jvp(compute, x, tuple(map(jnp.asarray, v)))[1])(*x)
        size = 1e-6 * (1 + abs(float(after[0])) / STEP * 1e-8)
        np.testing.assert_allclose(slope, (after[0] - before[0]) / 2 / STEP, rtol=1e-6, atol=100 * size)
        np.testing.assert_allclose(forward, slope, rtol=1e-9, atol=1e-9)
        for found, high, low in zip(curve, after[1], before[1], strict=True):
            np.testing.assert_allclose(found, (high - low) / 2 / STEP, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", OPS)
def test_both_modes_are_right_or_refused_with_a_way_around(name: str) -> None:
    given = arguments()[name]
    if name in NONE_AROUND:
        with pytest.raises(TypeError, match="reverse mode only; pass"):
            check(OPS[name], given)
        return
    if name in AROUND:
        option, value = next(iter(AROUND[name].items()))
        with pytest.raises(TypeError, match=f"reverse mode only; pass {option}='{value}'"):
            check(OPS[name], given)
    check(OPS[name], given | AROUND.get(name, {}))


TRANSFORMS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "rfftn, irfftn": lambda x: irfftn(rfftn(x, (6, 5)) ** 2, (6, 5))[..., :5, :4],
    "fourier_mix": fourier_mix,
    "lengths": lambda x: fourier_mix(x, lengths=jnp.array([3, 5])),
    "products": lambda x: fourier_mix(x, method="matmul"),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_linear_maps_can_be_transformed_in_any_order(name: str) -> None:
    """Forward over reverse, reverse over forward, in checkpoints in a scan, and for many examples at once."""
    x, v = normal(3, 2, 5, 4), normal(3, 2, 5, 4, seed=1)

    def loss(x: jax.Array) -> jax.Array:
        def layer(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jnp.sin(TRANSFORMS[name](x)), None

        return jnp.sum(jax.lax.scan(jax.checkpoint(layer), x, None, length=2)[0] ** 2)

    def forward_over_reverse(x: jax.Array, v: jax.Array) -> jax.Array:
        return jax.jvp(jax.grad(loss), (x,), (v,))[1]

    def reverse_over_forward(x: jax.Array, v: jax.Array) -> jax.Array:
        return jax.grad(lambda x: jax.jvp(loss, (x,), (v,))[1])(x)

    together = jax.jit(jax.vmap(forward_over_reverse))(x, v)
    single = jax.jit(reverse_over_forward)
    for i in range(3):
        np.testing.assert_allclose(together[i], single(x[i], v[i]), rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_refused_derivative_names_the_op_and_the_way_around(compiled: bool) -> None:
    x, key, value = normal(1, 3, 1, 2), normal(1, 3, 2, 1), normal(1, 3, 2, 1)

    def shifted(x: jax.Array) -> jax.Array:
        return lambda_layer(x, key, value, normal(3, 2, 1), method="shift")

    for function, why in (
        (lambda x: attention(x, x, x), "attention has .* pass implementation='rows'"),
        (lambda x: attend(x, x, x), "attention has .* pass implementation='rows'"),
        (shifted, "lambda_layer with method='shift'.* pass method='matrix'"),
    ):

        def pushed(x: jax.Array, function: Any = function) -> Any:
            return jax.jvp(function, (x,), (x,))

        with pytest.raises(TypeError, match=why):
            (jax.jit(pushed) if compiled else pushed)(x)
    twice = jax.grad(lambda x: jnp.sum(jax.grad(lambda x: jnp.sum(attention(x, x, x)))(x)))
    with pytest.raises(TypeError, match="attention has .* pass implementation='rows'"):
        (jax.jit(twice) if compiled else twice)(x)
