"""Forward mode and second derivatives: every op has them, or says by name what to do instead."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.sharding import PartitionSpec as P
from test_arguments import OPS, arguments, kinds

from fourier_attn.model import MIXERS
from fourier_attn.ops.attention import attention
from fourier_attn.ops.blockwise_attention import attend
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.ops.lambdas import lambda_layer
from fourier_attn.ops.transforms import irfftn, rfftn

ROWS = ("implementation", "rows")
AROUND = {  # the option that has the derivatives that the op refuses without it
    "attention.attention": ROWS,
    "attention.fused_attention": ROWS,
    "attention.average_source": ROWS,
    "attention.shared_attention": ROWS,
    "circular.circular_attention": ROWS,
}
NONE_AROUND = ("blockwise_attention.attend",)  # the refused form itself
DIFFERENTIABLE = [name for name in OPS if {"Float", "Complex", "Inexact"} & set(kinds(OPS[name]).values())]
STEP = 1e-5  # of finite differences in float64; their errors are of order STEP**2 and 1e-16 / STEP


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
        weighted = (jnp.vdot(jnp.sin(y.ravel()), jnp.cos(jnp.arange(y.size, dtype=y.dtype))) for y in real)
        return sum(weighted, start=jnp.zeros(()))

    return compute, [np.asarray(leaves[i].real, np.float64) for i in where]


def check(function: Callable[..., Any], given: dict[str, Any]) -> None:
    """Compares derivatives along a direction, in every order of the two modes, with finite differences."""
    with jax.enable_x64(True):
        compute, x = scalar(function, given)
        v = tuple(jnp.cos(jnp.arange(a.size)).reshape(a.shape) for a in x)
        gradient = jax.grad(compute, tuple(range(len(x))))

        def push(f: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *x: jax.jvp(f, x, v)[1]

        def pull(*x: jax.Array) -> jax.Array:
            return sum(map(jnp.vdot, gradient(*x), v), start=jnp.zeros(()))

        def derivatives(*x: jax.Array) -> Any:
            first = push(compute)(*x), jax.linearize(compute, *x)[1](*v), pull(*x)
            second = push(gradient)(*x), *(jax.grad(f, range(len(x)))(*x) for f in (push(compute), pull))
            return (compute(*x), gradient(*x)), first, second

        def flat(tree: Any) -> np.ndarray:
            return np.concatenate([np.ravel(a) for a in jax.tree.leaves(tree)])

        three = [np.stack([a - STEP * b, a, a + STEP * b]) for a, b in zip(x, v, strict=True)]
        values, first, second = jax.jit(jax.vmap(derivatives))(*three)
        before, here, after = (jax.tree.map(lambda a, i=i: a[i], values) for i in range(3))
        slope, curve = ((flat(high) - flat(low)) / 2 / STEP for high, low in zip(after, before, strict=True))
        for found in first:
            np.testing.assert_allclose(flat(found[1]), slope, rtol=1e-6, atol=1e-6)
        for found in second:
            np.testing.assert_allclose(flat([a[1] for a in found]), curve, rtol=1e-5, atol=1e-4)
        single = jax.jit(lambda *x: (compute(*x), push(compute)(*x)))(*x)
        np.testing.assert_allclose(flat(single), flat((here[0], first[0][1])), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_both_modes_are_right_or_refused_with_a_way_around(name: str) -> None:
    given = arguments()[name]
    if name in NONE_AROUND:
        with pytest.raises(TypeError, match="reverse mode only; pass"):
            check(OPS[name], given)
        return
    if name in AROUND:
        option, value = AROUND[name]
        with pytest.raises(TypeError, match=f"reverse mode only; pass {option}='{value}'"):
            check(OPS[name], given)
        given = given | {option: value}
    check(OPS[name], given)


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

    def forward_over_reverse(x: jax.Array, v: jax.Array, loss: Callable[..., Any] = loss) -> jax.Array:
        return jax.jvp(jax.grad(loss), (x,), (v,))[1]

    def reverse_over_forward(x: jax.Array, v: jax.Array) -> jax.Array:
        return jax.grad(lambda x: jax.jvp(loss, (x,), (v,))[1])(x)

    outside = jax.jit(jax.vmap(forward_over_reverse))(x, v)
    inside = jax.jit(lambda x, v: forward_over_reverse(x, v, lambda x: jnp.sum(jax.vmap(loss)(x))))(x, v)
    single = jax.jit(reverse_over_forward)
    for i in range(3):
        for together in (outside, inside):
            np.testing.assert_allclose(together[i], single(x[i], v[i]), rtol=1e-3, atol=2e-3)


DERIVATIVES: dict[str, Callable[[Callable[..., Any]], Callable[[jax.Array], Any]]] = {
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "jacfwd": jax.jacfwd,
    "hessian": lambda f: jax.hessian(lambda x: jnp.sum(f(x))),
    "grad of grad": lambda f: jax.grad(lambda x: jnp.sum(jax.grad(lambda x: jnp.sum(f(x)))(x))),
}
REFUSING: tuple[Callable[[jax.Array], jax.Array], ...] = (
    lambda x: attention(x, x, x),
    lambda x: attend(x, x, x),
)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_refused_derivative_names_the_op_and_the_way_around(name: str, compiled: bool) -> None:
    for function in REFUSING:
        derivative = DERIVATIVES[name](function)
        with pytest.raises(TypeError, match="attention has .* pass implementation='rows'"):
            (jax.jit(derivative) if compiled else derivative)(normal(1, 3, 1, 2))


@pytest.mark.parametrize("name", MIXERS)
def test_every_mixer_has_all_derivatives_or_an_option_that_has_them(name: str) -> None:
    x = normal(1, 4, 8)
    sizes = {"length": 4} if "length" in MIXERS[name].__dataclass_fields__ else {}

    def mixed(**options: Any) -> Callable[[jax.Array], jax.Array]:
        layer = MIXERS[name](**sizes, **options)
        return partial(layer.apply, layer.init(jax.random.key(0), x))

    function = mixed()
    if name in ("attention", "circular"):
        with pytest.raises(TypeError, match="pass implementation='rows'"):
            jax.jvp(function, (x,), (x,))
        plain, function = function, mixed(implementation="rows")
        np.testing.assert_allclose(function(x), plain(x), atol=1e-5)
    slope = jax.grad(lambda x: jnp.sum(jnp.sin(function(x))))
    step = 1e-2  # of finite differences in float32
    for once in (function, slope):
        expected = (once(x + step * x) - once(x - step * x)) / (2 * step)
        np.testing.assert_allclose(jax.jvp(once, (x,), (x,))[1], expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: fourier_mix(x, lengths=n),
        lambda x, _: lambda_layer(
            x[:, :, None], x[..., None], x[..., None], jnp.ones((3, 4, 1)), method="shift"
        ),
        lambda x, _: lambda_layer(
            x[:, :, None], x[..., None], x[..., None], jnp.ones((3, 4, 1)), method="fft"
        ),
        lambda x, n: attention(*[x[:, :, None]] * 3, mask=jnp.arange(5)[None] < n[:, None], causal=True),
    ],
    ids=["fourier_mix", "lambda_layer", "lambda_layer, fft", "attention"],
)
def test_shards_of_a_mesh_have_derivatives(function: Callable[..., jax.Array]) -> None:
    """Inside `shard_map` the type of an array names the axes of the mesh over which it differs."""
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.shard_map(function, mesh=mesh, in_specs=(P("d"), P("d")), out_specs=P("d"))

    def gradient(function: Callable[..., jax.Array]) -> jax.Array:
        return jax.grad(lambda x: jnp.sum(jnp.sin(function(x, jnp.array([3, 5])))))(normal(2, 5, 4))

    np.testing.assert_allclose(gradient(spread), gradient(function), rtol=1e-5, atol=1e-5)
