"""What ops and layers take: every array argument of every one, found in their modules."""

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Float32, Int, Key, Real, Shaped

from fourier_attn import layers, ops, optics
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.controls import Identity
from fourier_attn.layers.embed import PatchEmbedding, TokenEmbedding
from fourier_attn.layers.encoder import Block
from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.layers.heads import Autoencoder, Features, Head, NextToken, Pretraining, Question
from fourier_attn.model import MIXERS
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.attention import attention, shared_attention
from fourier_attn.ops.circular import circular_attention
from fourier_attn.ops.fourier import fourier_mix, fourier_mix_grid
from fourier_attn.ops.lambdas import lambda_layer
from fourier_attn.ops.positions import places

KINDS = ("Float", "Int", "Bool", "Complex", "Inexact", "Num", "UInt8", "Key")


def kind(annotation: Any) -> str:
    """The kind of array that an argument is, "" for none."""
    found = [kind(part) for part in typing.get_args(annotation)]
    return next(filter(None, found), "") or getattr(getattr(annotation, "dtype", None), "__name__", "")


def kinds(function: Callable) -> dict[str, str]:
    """Those of the arguments that are arrays."""
    parameters = inspect.signature(function).parameters.items()
    return {name: found for name, p in parameters if (found := kind(p.annotation)) in KINDS}


def modules(package: Any) -> Iterator[Any]:
    for module in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{module.name}")


def public_ops() -> dict[str, Callable]:
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": function
        for module in modules(ops)
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__
        if not name.startswith("_") and kinds(function)
    }


OPS = public_ops()


@cache
def arguments(b: int = 2, t: int = 6, d: int = 4, s: int = 5) -> dict[str, dict[str, Any]]:
    """Small arguments of every op: b examples of t tokens of width d, and of s source tokens."""
    x, source, heads = normal(b, t, d), normal(b, s, d, seed=1), normal(b, t, 2, d)
    lengths, mask = jnp.full(b, t // 2), jnp.ones((b, t), bool)
    relative = {"query": normal(b, t, 2, d), "value": normal(b, t, 1, 3), "table": normal(3, d, 1)}
    relative |= {"before": (min(1, max(t - 1, 0)),)}
    keys = {"query": heads, "key": normal(b, t, d, 1), "value": normal(b, t, 1, 3)}
    project = {"query": normal(d, 2, 3), "key": normal(d, 2, 3, seed=1)}
    place, sums = jnp.zeros(b, int), (normal(b, d, 1, 3), normal(b, d, 1), normal(b, d, 1))
    return {
        "afno.softshrink": {"x": x, "threshold": 0.1},
        "afno.spectral_mlp": {
            "x": x,
            "kernels": (normal(1, d, 3, 2), normal(1, 3, d, 2)),
            "biases": (normal(1, 3, 2), normal(1, d, 2)),
        },
        "attention.attention": {"query": heads, "key": heads, "value": heads, "mask": mask},
        "attention.softmax_weights": {"query": heads, "key": heads, "mask": mask},
        "attention.fused_attention": {"x": x, "source": source, **project}
        | {"value": normal(d, 2, 3, seed=2), "out": normal(2, 3, 7), "mask": jnp.ones((b, s), bool)},
        "attention.average_source": {"x": x, "source": source, **project, "mask": jnp.ones((b, s), bool)},
        "attention.shared_attention": {"query": x, "shared": source, "mask": jnp.ones((b, s), bool)},
        "blockwise_attention.attend": {"query": heads, "key": heads, "value": heads, "mask": mask},
        "chirp.positions": {"lengths": lengths, "t": t},
        "chirp.roots": {"n": lengths + 1, "size": t},
        "chirp.chirps": {"n": lengths + 1, "t": t},
        "chirp.mirror": {"x": x, "n": lengths + 1},
        "chirp.chirp_transform": {
            "c": jax.lax.complex(normal(b, d, t), normal(b, d, t, seed=1)),
            "w": jax.lax.complex(normal(b, t), normal(b, t, seed=1)),
        },
        "chirp.chirp_mix": {"x": x, "lengths": lengths},
        "circular.circular_correlate": {"x": x, "kernel": normal(2, 3)},
        "circular.circular_attention": {"x": x, "mask": mask}
        | {name: normal(2, 3, seed=i) for i, name in enumerate(("query", "key", "value"))},
        "dense.matrix_dot_general": {"lhs": x, "rhs": normal(d, 3)}
        | {"dimension_numbers": (((2,), (0,)), ((), ()))},
        "fourier.fourier_mix": {"x": x, "lengths": lengths},
        "fourier.fourier_mix_grid": {"x": x, "grid": (2, t // 2)},
        "fourier_shared.shared_mix": {"x": x, "lengths": lengths},
        "token_shares.exchange": {"x": x},
        "token_shares.give_back": {"x": x},
        "token_shares.by_token": {"x": x},
        "global_filter.as_signals": {"x": x, "grid": None},
        "global_filter.as_tokens": {"signal": normal(b, d, t), "x": x},
        "global_filter.global_filter": {"x": x, "filter": normal(t // 2 + 1, d, 2)},
        "global_filter.resample_filter": {"filter": normal(4, d, 2), "source": (6,), "target": (9,)},
        "hartley.transform": {"x": normal(b, t, 4), "axes": (4,)},
        "hartley.adjoint": {"x": normal(b, t, 8), "axes": (4,)},
        "hartley.spectrum": {"kernel": normal(2, 3), "axes": (4,)},
        "lambdas.content_lambda": keys,
        "lambdas.causal_content_lambda": keys,
        "lambdas.lambda_layer": {**keys, "value": normal(b, t, 3, 1), "position": normal(3, d, 1)}
        | {"mask": mask},
        "long_conv.long_convolve": {"x": x, "kernel": normal(5, d)},
        "patches.patches": {"x": normal(b, 4, 4, d), "patch": 2},
        "patches.fold": {"y": normal(b, 4, 2, 2, d), "image": (4, 4), "patch": 2},
        "positions.sines": {"where": places(t), "width": 4},
        "positions.sinusoids": {"where": places(t), "width": 4},
        "positions.rotate": {"x": normal(b, t, 2, 4), "where": places(t)},
        "positions.interpolate": {"table": normal(4, d), "source": (4,), "target": (8,)},
        "fourier_matmul.mirrored": {"half": normal(b, t, 3), "d": 4},
        "fourier_matmul.matmul_mix": {"x": x},
        "fourier_matmul.monarch_mix": {"x": x},
        "fourier_matmul.masked_mix": {"x": x, "lengths": lengths},
        "relative_position.by_shift": relative,
        "relative_position.by_matrix": relative,
        "relative_position.by_fft": relative,
        "relative_position.by_pairs": {
            "query": heads,
            "value": normal(b, t, 1, 3),
            "table": normal(t, t, d, 1),
        },
        "steps.put": {"kept": x, "new": normal(b, 1, d), "place": place},
        "steps.last": {"x": x, "count": place, "r": 3},
        "steps.attend_step": {"query": normal(b, 2, d), "key": heads, "value": heads, "place": place},
        "steps.fused_attention_step": {"x": normal(b, d), "tokens": x, **project, "place": place}
        | {"value": normal(d, 2, 3, seed=2), "out": normal(2, 3, 7)},
        "steps.mix_step": {"matrix": normal(t, t), "x": x, "place": place},
        "steps.convolve_step": {"window": x, "filter": normal(t, d)},
        "steps.content_sums": {"key": keys["key"], "value": keys["value"]},
        "steps.content_sums_step": {"before": sums, "key": normal(b, 1, d, 1), "value": normal(b, 1, 1, 3)},
        "steps.lambda_step": {"query": normal(b, 2, d), "sums": sums, "window": keys["value"]}
        | {"position": normal(t, d, 1)},
        "neighbours.neighbours": {"x": x, "before": (1,), "taps": (3,)},
        "token_conv.token_convolve": {"x": x, "filter": normal(3)},
        **{f"sharded_fft.{name}": {"x": x} for name in ("fft", "ifft", "fft2", "ifft2", "rfft")},
        "sharded_fft.irfft": {"x": x, "n": 2 * d - 1},
        "transforms.rfftn": {"x": x, "sizes": (8,)},
        "transforms.irfftn": {"x": normal(b, 5).astype(jnp.complex64), "sizes": (8,)},
        "transforms.fftn": {"x": x.astype(jnp.complex64), "axes": 1},
        "transforms.ifftn": {"x": x.astype(jnp.complex64), "axes": 1},
    }


def test_every_op_is_tried() -> None:
    assert arguments().keys() == OPS.keys(), "a new op needs arguments in this table, and @takes_arrays"


def given(names: dict[str, str], which: str, change: Callable, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments, those of a kind changed."""
    return {n: jax.tree.map(change, v) if names.get(n) == which else v for n, v in values.items()}


def wrong(function: Callable, name: str, value: Any, values: dict[str, Any]) -> str:
    """What a function says of a value of an argument, or of each array of one that is a tuple."""
    value = jax.tree.map(lambda _: value, values[name]) if isinstance(values[name], tuple) else value
    with pytest.raises((ValueError, TypeError)) as caught:
        function(**{**values, name: value})
    return str(caught.value)


@pytest.mark.parametrize("name", OPS)
def test_what_is_no_number_of_the_kind_is_refused_by_name(name: str) -> None:
    op, values, names = OPS[name], arguments()[name], kinds(OPS[name])
    for argument in names.keys() & values.keys():
        for value in (np.array(["a"]), {"a": 1}, np.array([None]), np.ma.masked_equal([1.0], 1.0)):
            assert wrong(op, argument, value, values).startswith(argument)
        found, array = names[argument], jax.tree.leaves(values[argument])[0]
        if found == "Float":
            said = wrong(op, argument, array.astype(jnp.complex64), values)
            assert said.startswith(argument)
            assert f"must not be complex (complex64); use {argument}" in said
            assert wrong(op, argument, jax.random.split(jax.random.key(0)), values).startswith(argument)
        if found in ("Int", "Bool"):
            for dtype in (jnp.float32, jnp.complex64):
                said = wrong(op, argument, array.astype(dtype), values)
                assert said.startswith(f"{argument} of dtype {jnp.dtype(dtype)} must be ")


WRONG: dict[Any, tuple[Any, ...]] = {
    int: (2.5, "a", [1]),
    float: ("0.5", [0.5], 1j),
    bool: ("no", [True], 2),
    str: ("?",),
    tuple[int, ...]: (2.5, ("a",)),
}
FREE = {
    "chirp.roots.dtype",
    "chirp.chirps.dtype",
    "dense.matrix_dot_general.dimension_numbers",
    "dense.matrix_dot_general.options",
}
# arguments that matter in a mesh of devices alone
FREE |= {
    f"token_shares.{op}.{name}"
    for op in ("exchange", "give_back", "by_token")
    for name in ("tokens", "shared", "what")
}


@pytest.mark.parametrize("name", OPS)
def test_every_other_argument_is_refused_by_name(name: str) -> None:
    """Every argument that is not an array is a number, a switch, a name or a tuple of sizes."""
    op, values = OPS[name], arguments()[name]
    for argument, parameter in inspect.signature(op).parameters.items():
        if argument in kinds(op) or f"{name}.{argument}" in FREE:
            continue
        parts = typing.get_args(parameter.annotation)
        of = parts[0] if type(None) in parts else parameter.annotation
        for value in WRONG[of]:
            with pytest.raises((ValueError, TypeError), match=f"^{argument}="):
                op(**{**values, argument: value})


@pytest.mark.parametrize("name", OPS)
def test_integers_lists_and_numpy_are_taken(name: str) -> None:
    """They give what arrays of float32, or of booleans, give."""
    op, names, values = OPS[name], kinds(OPS[name]), arguments()[name]
    expected = jax.eval_shape(partial(op, **values))
    unlike = given(names, "Float", lambda x: np.asarray(x).astype(np.int64), values)
    unlike = given(names, "Bool", lambda x: np.asarray(x, np.uint8), unlike)
    unlike = given(names, "Int", lambda x: np.asarray(x, np.uint8), unlike)
    lists = given(names, "Float", lambda x: np.asarray(x).tolist(), values)
    for which in ("Bool", "Num"):
        lists = given(names, which, lambda x: np.asarray(x).tolist(), lists)
    assert jax.eval_shape(partial(op, **unlike)) == jax.eval_shape(partial(op, **lists)) == expected


@takes_arrays
def taken(
    x: Float[Array, "b t"], n: Int[Array, " b"] | None = None, *, mask: Bool[Array, "b t"] | None = None
) -> tuple[Array | None, ...]:
    return x, n, mask


@takes_arrays
def many(x: Float[Array, " t"], *more: Float[Array, " t"], n: int = 1, **named: Float[Array, " t"]) -> Any:
    return x, more, n, named


def test_surplus_arguments() -> None:
    """Positional ones never stand for keywords; those of *args and **kwargs are converted, too."""
    with pytest.raises(TypeError, match="positional argument"):
        fourier_mix(normal(1, 3, 2), [1.5])  # not a complaint about lengths
    x, more, n, named = many([1], [2], [3], n=np.int8(4), other=[5])
    assert n == 4
    assert [y.dtype for y in (x, *more, named["other"])] == [jnp.float32] * 4
    for arguments, options, said in (
        (([1], [2], ["a"]), {}, r"^more\[1\] must be an array"),
        (([1],), {"other": ["a"]}, "^other must be an array"),
    ):
        with pytest.raises(TypeError, match=said):
            many(*arguments, **options)


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        ("Float[Array, 't']", "annotation .* of x is a string.*; remove the quotes"),
        (typing.Optional["Array"], "annotation .* of x is a string"),
        (Float32[Array, " t"], "annotation Float32 of x is unknown; use one of Float, "),
        (Shaped[Array, " t"] | None, "annotation Shaped of x is unknown"),
        (tuple[Real[Array, " t"], int], "annotation Real of x is unknown"),
        (Float[Array, " t"] | Int[Array, " t"], "annotation .* of x cannot be followed; use one kind"),
        (tuple[Float[Array, " t"], ...], "annotation .* of x cannot be followed"),
        (list[Float[Array, " t"]], "annotation .* of x cannot be followed"),
    ],
)
def test_what_cannot_be_followed_is_refused_at_once(annotation: Any, said: str) -> None:
    def unlike(x: Any) -> Any:
        return x

    unlike.__annotations__["x"] = annotation
    with pytest.raises(TypeError, match=said):
        takes_arrays(unlike)


def test_values_are_kept() -> None:
    """Whatever holds them; integers are the real numbers that they stand for."""
    rows = [[3, 0], [250, 7]]
    arrays = np.array(rows), np.array(rows, np.uint8), jnp.array(rows, jnp.uint8), [*map(jnp.array, rows)]
    for x in (rows, *arrays):
        y, n, mask = taken(x, mask=np.array(rows) > 5)
        assert (y.dtype, n, mask.dtype) == (jnp.float32, None, bool)
        np.testing.assert_array_equal(y, np.array(rows, np.float32))
    y, n, mask = taken(np.array(rows, np.longdouble) / 2, (2, 1), mask=[[1, 0], [True, 0]])
    np.testing.assert_array_equal(y, np.array(rows) / 2)
    np.testing.assert_array_equal(n, [2, 1])
    np.testing.assert_array_equal(mask, [[True, False], [True, False]])
    half = jnp.array(rows, jnp.bfloat16)
    assert taken(half)[0] is half
    with pytest.raises(TypeError, match=r"x must be an array of numbers, not list \[\[1\], \[1, 2\]\]"):
        taken([[1], [1, 2]])
    with pytest.raises(TypeError, match="x=None must be an array"):
        taken(None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        taken(half, y=3)


@pytest.mark.parametrize("name", OPS)
def test_nothing_in_nothing_out(name: str) -> None:
    """An axis of size 0 gives results of the right shape, and derivatives, or a line that says why not."""
    for axis in "btds":
        nothing_in(name, axis)


def nothing_in(name: str, axis: str) -> None:
    op, values, names = OPS[name], arguments(**{axis: 0})[name], kinds(OPS[name])
    inputs = {n: v for n, v in values.items() if names.get(n) == "Float"}
    if not any(0 in x.shape for x in jax.tree.leaves(inputs)):
        return

    def loss(inputs: dict[str, Any]) -> tuple[Any, Any]:
        y = op(**{**values, **inputs})
        return sum(jnp.sum(jnp.abs(part)) for part in jax.tree.leaves(y)), y

    try:
        gradient, y = jax.eval_shape(jax.grad(loss, has_aux=True), inputs)
    except ValueError as error:
        if "must" not in str(error) and "give" not in str(error):
            raise
        return
    some = jax.eval_shape(partial(op, **arguments(**{axis: 16})[name]))
    for part, like in zip(*map(jax.tree.leaves, (y, some)), strict=True):
        assert part.shape == tuple(0 if n % 16 == 0 else n for n in like.shape), axis
        assert part.dtype == like.dtype
    assert jax.tree.map(jnp.shape, gradient) == jax.tree.map(jnp.shape, inputs)


@takes_arrays
def drawn(key: Key[Array, ""]) -> Any:
    return key


@pytest.mark.parametrize("default", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_raw_keys(default: str) -> None:
    """Their size says whose they are; where it is the default's size, they are the default's."""
    with jax.default_prng_impl(default):
        for impl in ("threefry2x32", "rbg"):
            expected = default if impl == "rbg" and default != "threefry2x32" else impl
            assert str(jax.random.key_impl(drawn(jax.random.PRNGKey(0, impl=impl)))) == expected


def test_no_source_tokens_have_no_average() -> None:
    x, none = normal(2, 6, 2, 4), jnp.zeros((2, 0, 2, 4))
    assert not attention(x, none, none).any()
    assert not shared_attention(x[:, :, 0], none[:, :, 0], jnp.ones((2, 0), bool)).any()


def dtypes(program: Any) -> Iterator[Any]:
    """Those of all arrays of a program and of the programs in it."""
    for equation in program.eqns:
        yield from (v.aval.dtype for v in (*equation.invars, *equation.outvars) if hasattr(v.aval, "dtype"))
        for leaf in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: hasattr(p, "eqns")):
            inner = getattr(leaf, "jaxpr", leaf)
            if hasattr(inner, "eqns"):
                yield from dtypes(inner)


@pytest.mark.parametrize("name", OPS)
def test_double_precision_is_double_inside(name: str) -> None:
    """Nothing of a program, nor of its derivative, is of single precision."""
    op, names, small = OPS[name], kinds(OPS[name]), arguments()[name]
    with jax.enable_x64(True):
        values = given(names, "Float", lambda x: jnp.asarray(np.asarray(x, np.float64)), small)
        values = given(names, "Complex", lambda x: jnp.asarray(np.asarray(x, np.complex128)), values)
        arrays = {n: v for n, v in values.items() if names.get(n) in ("Float", "Complex")}
        if not arrays:
            return

        def loss(x: Any) -> Any:
            return sum(jnp.sum(jnp.abs(y)) for y in jax.tree.leaves(op(**{**values, **x})))

        found = {str(dtype) for dtype in dtypes(jax.make_jaxpr(jax.value_and_grad(loss))(arrays).jaxpr)}
    assert "float64" in found
    assert not found & {"float32", "complex64", "bfloat16", "float16"}


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.shard_map(f, mesh=Mesh(jax.devices()[:1], "d"), in_specs=P("d"), out_specs=P("d")),
        lambda f: lambda x: jax.vmap(f, spmd_axis_name="d")(x[None])[0],
        lambda f: lambda x: jax.linearize(f, x)[0],
        lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum()),
    ],
    ids=["shard_map", "vmap", "linearize", "checkpoint"],
)
def test_transformations_see_through(transform: Callable) -> None:
    """Arguments are converted inside of them, those of ops with a derivative of their own too."""

    def op(x: Array) -> Array:
        return fourier_mix(x, lengths=jnp.full(x.shape[:-2], 3, jnp.uint32))

    x = jax.ShapeDtypeStruct((2, 6, 4), jnp.float32)
    assert jax.eval_shape(transform(op), x).shape == x.shape


def test_sizes_may_be_symbols() -> None:
    @takes_arrays
    def sized(n: int, sizes: tuple[int, ...]) -> Any:
        return n, sizes

    b, t = jax.export.symbolic_shape("b, t")
    assert sized(t, [b, np.int8(2)]) == (t, (b, 2))


def test_nothing_is_left_in_a_program() -> None:
    x, mask = normal(2, 6, 4), jnp.ones((2, 6), bool)
    kernel = normal(2, 3)
    for marked in (fourier_mix, partial(circular_attention, query=kernel, key=kernel, value=kernel)):
        plain = inspect.unwrap(getattr(marked, "func", marked))
        plain = partial(plain, **marked.keywords) if isinstance(marked, partial) else plain
        assert str(jax.make_jaxpr(marked)(x)) == str(jax.make_jaxpr(plain)(x))
    program = str(jax.make_jaxpr(partial(attention, mask=mask))(*[normal(2, 6, 2, 4)] * 3))
    assert "callback" not in program


def test_lengths() -> None:
    x, expected = normal(2, 12, 4), fourier_mix(normal(2, 12, 4), lengths=jnp.array([12, 5]))
    for lengths in ([12, 5], (np.int64(12), np.uint8(5)), np.array([12, 5], np.int8), [jnp.int32(12), 5]):
        np.testing.assert_array_equal(fourier_mix(x, lengths=lengths), expected)
    for lengths in ([13, 5], [12, -1], np.array([2**32 + 5, 3])):
        with pytest.raises(ValueError, match="lengths.* must lie between 0 and t=12|beyond 32 bits"):
            fourier_mix(x, lengths=lengths)
    for lengths in ([12.0, 5.0], [np.nan, 1], [True, False]):
        with pytest.raises(ValueError, match="lengths of dtype .* must be whole numbers"):
            fourier_mix(x, lengths=lengths)
    for lengths in ([[12, 5]], 12, [12, 5, 1]):
        with pytest.raises(ValueError, match="must be one for each example"):
            fourier_mix(x, lengths=lengths)
    traced = jax.jit(lambda x, n: fourier_mix(x, lengths=n))
    np.testing.assert_array_equal(traced(x, jnp.array([99, -3])), traced(x, jnp.array([12, 0])))
    clipped = jax.jit(lambda n: taken([[0]], n)[1])(jnp.array([2**32 - 1, 5], jnp.uint32))
    np.testing.assert_array_equal(clipped, np.array([2**31 - 1, 5], np.int32))


def test_masks_grids_and_keys() -> None:
    x = normal(2, 6, 2, 4)
    for mask, said in (
        (jnp.ones((2, 6)), "mask of dtype float32 must be booleans"),
        (jnp.full((2, 6), 2), "mask has values from 2 to 2; it must be True or False"),
        (jnp.ones((2, 1, 6), bool), r"mask of shape \(2, 1, 6\) must have the axes \(b, s\)"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            attention(x, x, x, mask=mask)
    image = normal(1, 6, 4)
    np.testing.assert_array_equal(fourier_mix_grid(image, [2, 3]), fourier_mix_grid(image, (2, 3)))
    np.testing.assert_array_equal(fourier_mix_grid(image, np.array([2, 3])), fourier_mix_grid(image, (2, 3)))
    with pytest.raises(TypeError, match="grid=6 must be a tuple of whole numbers"):
        fourier_mix_grid(image, 6)
    old, new = jax.random.PRNGKey(3), jax.random.key(3)
    dropped = [attention(x, x, x, dropout=0.5, dropout_key=key) for key in (old, new)]
    np.testing.assert_array_equal(*dropped)
    with pytest.raises(ValueError, match=r"dropout_key of dtype int64 must be a key"):
        attention(x, x, x, dropout=0.5, dropout_key=3)
    with pytest.raises(ValueError, match=r"dropout_key of dtype uint32 must be a key"):
        attention(x, x, x, dropout=0.5, dropout_key=jnp.zeros(3, jnp.uint32))
    with pytest.raises(ValueError, match=r"x of shape \(3,\) must have the axes \(\*b, t, d\)"):
        fourier_mix(normal(3))
    with pytest.raises(ValueError, match="key of shape"):  # before the type checker of these tests
        inspect.unwrap(attention)(x, x[:, :, :1], x[:, :, :1])
    with pytest.raises(ValueError, match=r"mask of shape \(6, 6\) must be \(b, s\) = \(2, 6\)"):
        inspect.unwrap(attention)(x, x, x, mask=jnp.ones((6, 6), bool))
    with pytest.raises(ValueError, match="query must not be complex"):
        lambda_layer(x.astype(jnp.complex64), normal(2, 6, 4, 1), normal(2, 6, 3, 1), None)


IDS, PIXELS = jnp.array([[1, 2, 3]]), np.full((1, 8, 8, 3), 7, np.uint8)
X, POOLED = normal(1, 6, 8), normal(1, 8)
LAYERS: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {
    **{type(mixer()).__name__: (mixer(), (X,), {}) for mixer in MIXERS.values()},
    "Attention": (Attention(heads=2), (X,), {}),
    "Block": (Block(mixer=Identity, mlp=4), (X,), {}),
    "Head": (Head(outputs=2), (X, POOLED), {}),
    "Autoencoder": (Autoencoder(outputs=2, positions=6), (X, POOLED), {}),
    "Features": (Features(), (X, POOLED), {}),
    "Question": (Question(outputs=2, vocab=3), (X, POOLED), {"question": jnp.array([[1]])}),
    "NextToken": (NextToken(), (X, POOLED), {"table": normal(5, 8)}),
    "Pretraining": (Pretraining(), (X, POOLED), {"table": normal(5, 8)}),
    "TokenEmbedding": (TokenEmbedding(vocab=4, positions=3, d=8), (IDS,), {}),
    "PatchEmbedding": (PatchEmbedding(d=8, image=(8, 8, 3)), (PIXELS,), {}),
}


def test_every_layer_is_tried() -> None:
    found = {
        name
        for module in modules(layers)
        for name, layer in vars(module).items()
        if inspect.isclass(layer) and issubclass(layer, nn.Module) and layer.__module__ == module.__name__
    }
    # Encoder has the inputs of its embedding; OnEngine is a base of layers.
    assert found - LAYERS.keys() == {"Encoder", "OnEngine"}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_what_ops_take(name: str) -> None:
    """A missing batch and complex numbers are refused by name; integers and masks of 0 and 1 are taken."""
    layer, inputs, others = LAYERS[name]
    first = next(iter(kinds(type(layer).__call__)))

    def said(x: Any) -> str:
        with pytest.raises(ValueError, match=f"^{first} ") as caught:
            jax.eval_shape(partial(layer.init, **others), jax.random.key(0), x, *inputs[1:])
        return str(caught.value)

    x = jnp.asarray(inputs[0])
    axes = {2: "b, t", 3: "b, t, d", 4: "b, i, j, c"}[x.ndim]
    assert f"must have the axes ({axes}); for one example use {first}[None]" in said(x[0])
    assert "complex" in said(x.astype(jnp.complex64))
    shapes = jax.eval_shape(partial(layer.init, **others), jax.random.key(0), *inputs)
    apply = partial(layer.apply, jax.tree.map(lambda p: jnp.full(p.shape, 0.1, p.dtype), shapes))
    whole = np.asarray(x if x.ndim != 3 else jnp.round(2 * x)).astype(np.int64)
    expected = jax.eval_shape(partial(apply, **others), *inputs)
    assert jax.eval_shape(lambda: apply(whole, *inputs[1:], **others)) == expected
    if "mask" in kinds(type(layer).__call__):
        mask = [[1, 1, 1, 1, 0, 0]]
        assert jax.eval_shape(lambda: apply(X, mask=mask)) == expected
        with pytest.raises(ValueError, match="mask of dtype float32 must be booleans"):
            apply(X, mask=np.array(mask, np.float32))


def test_pixels_are_bytes() -> None:
    layer = PatchEmbedding(d=8, image=(8, 8, 3))
    for pixels in (PIXELS / 255, PIXELS.astype(np.int32) * 40):
        with pytest.raises(ValueError, match="pixels of dtype .* must be bytes from 0 to 255"):
            layer.apply({}, pixels)  # before a parameter is read
    layer = FourierMixing()
    assert layer.apply({}, PIXELS[0, :, :, :2].tolist()).dtype == jnp.float32


ENGINE, WHOLE = optics.Engine(shape=(4, 4)), np.arange(16).reshape(1, 4, 4)
OPTICAL: dict[str, tuple[Any, ...]] = {
    "optical_4f": (WHOLE, np.eye(4, dtype=int)),
    "optical_4f_correlate": (WHOLE, np.array([[1, 2]])),
    "optical_circular_correlate": (WHOLE, np.array([[1, 2]])),
    "optical_dft": (WHOLE,),
    "optical_dft2": (WHOLE,),
    "optical_fourier_mix": (WHOLE,),
    "optical_incoherent_correlate": (WHOLE, np.array([[1, 2]])),
    "optical_position_lambda": (WHOLE[:, :, None], WHOLE[..., None], np.ones((3, 4, 1), int)),
}


@pytest.mark.parametrize("name", [name for name in dir(optics) if name.startswith("optical_")])
def test_engines_take_what_ops_take(name: str) -> None:
    """Complex numbers too, where light is what is transformed."""
    engine = ENGINE.replace(detection="intensity") if "incoherent" in name else ENGINE
    op, values = partial(getattr(optics, name), engine=engine), OPTICAL[name]
    floats = [jnp.asarray(x, jnp.float32) for x in values]
    expected = jax.eval_shape(op, *floats)
    assert jax.eval_shape(lambda: op(*values)) == expected
    light = [x.astype(jnp.complex64) for x in floats]
    if name.startswith(("optical_dft", "optical_4f")):
        assert jax.eval_shape(op, *light) == expected
    else:
        with pytest.raises(ValueError, match="must not be complex .complex64.; use "):
            jax.eval_shape(op, *light)
