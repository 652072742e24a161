from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal
from jax.test_util import check_grads

from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.ops import lambdas, relative_position
from fourier_attn.ops.lambdas import METHODS, lambda_layer
from fourier_attn.ops.token_conv import token_convolve


def run(arrays: list, **options: object) -> jax.Array:
    return jax.jit(partial(lambda_layer, **options))(*arrays)


def inputs(axes: tuple, taps: tuple, h: int = 1, k: int = 3, v: int = 2, u: int = 1, b: int = 2) -> list:
    """Query, key, value and position."""
    t = int(np.prod(axes))
    shapes = (b, t, h, k), (b, t, k, u), (b, t, v, u), (*taps, k, u)
    return [normal(*shape, seed=i) for i, shape in enumerate(shapes)]


def oracle(
    query, key, value, position, axes: tuple, causal: bool = False, mask: np.ndarray | None = None
) -> np.ndarray:
    """Both lambdas written out for each position, by loops in float64; dense tables where taps = (t, t)."""
    query, key, value, position = (np.asarray(a, np.float64) for a in (query, key, value, position))
    b, t, h, _ = query.shape
    mask = np.ones((b, t), bool) if mask is None else np.asarray(mask)
    dense = position.ndim == 4 and len(axes) == 1
    first = [r - 1 if causal else r // 2 for r in position.shape[:-2]]
    place = np.array(list(np.ndindex(*axes)))
    y = np.zeros((b, t, h, value.shape[2]))
    for i, n in np.ndindex(b, t):
        seen = [m for m in range(t) if mask[i, m] and (m <= n or not causal)]
        if not seen:
            continue
        weights = np.exp(key[i, seen] - key[i, seen].max(axis=0))
        content = np.einsum("mku,mvu->kv", weights / weights.sum(axis=0), value[i, seen])
        for m in seen:
            tap = place[m] - place[n] + first[: len(axes)]
            inside = all(0 <= c < r for c, r in zip(tap, position.shape[:-2], strict=False))
            if dense or inside:
                table = position[n, m] if dense else position[tuple(tap)]
                content = content + np.einsum("ku,vu->kv", table, value[i, m])
        y[i, n] = query[i, n] @ content
    return y


# axes of the positions, taps of the table: prime, even, one; local, global; more taps than positions
CASES = [((1,), (3,)), ((7,), (3,)), ((8,), (15,)), ((6,), (11,)), ((5,), (1,)), ((3,), (9,))]
GRIDS = [((3, 4), (3, 3)), ((4, 3), (7, 5)), ((1, 5), (3, 5)), ((2, 2), (5, 3))]


@pytest.mark.parametrize(
    ("axes", "taps"),
    [
        *CASES[:4],
        *GRIDS[:2],
        *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[4:] + GRIDS[2:]),
    ],
)
def test_is_the_definition(axes: tuple, taps: tuple) -> None:
    """By every method, without and with a mask."""
    grid = axes if len(axes) == 2 else None
    arrays = inputs(axes, taps, h=2, u=2)
    t = int(np.prod(axes))
    mask = np.arange(t)[None] != np.array([[1], [t - 2]])
    expected = [oracle(*arrays, axes, mask=given) for given in (None, mask)]

    @jax.jit
    def results(*arrays: jax.Array) -> dict:
        run = partial(lambda_layer, *arrays, grid=grid)
        masks = None, jnp.asarray(mask)
        return {method: [run(mask=given, method=method) for given in masks] for method in METHODS}

    for ys in results(*arrays).values():
        for y, z in zip(ys, expected, strict=True):
            np.testing.assert_allclose(y, z, atol=1e-5)


@pytest.mark.parametrize(("t", "r"), [(1, 1), (7, 3), (8, 8), (70, 2)])
def test_causal_is_the_definition(t: int, r: int) -> None:
    arrays = inputs((t,), (r,), h=2, u=2)
    mask = np.arange(t)[None] != np.array([[0], [t // 2]])
    expected = oracle(*arrays, (t,), causal=True, mask=mask)

    @jax.jit
    def results(*arrays: jax.Array) -> list:
        run = partial(lambda_layer, *arrays, causal=True, mask=jnp.asarray(mask))
        return [run(method=method) for method in METHODS]

    for y in results(*arrays):
        np.testing.assert_allclose(y, expected, atol=1e-5)


def test_a_table_for_each_pair_of_positions() -> None:
    arrays = inputs((5,), (5, 5), h=2, u=2)
    np.testing.assert_allclose(run(arrays), oracle(*arrays, (5,)), atol=1e-5)


@pytest.mark.parametrize(
    ("axes", "taps"),
    [
        ((40,), (5,)),
        pytest.param((40,), (79,), marks=pytest.mark.slow),
        ((30,), (25,)),
        ((9, 4), (3, 5)),
        pytest.param((9, 4), (17, 7), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("placing", [True, False])
def test_blocks_of_the_banded_matrix_fit_together(
    axes: tuple, taps: tuple, placing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows cut from the values (few taps) and from the table (many), with a ragged last block."""
    monkeypatch.setattr(relative_position, "BLOCK", 16)
    query, _, value, table = inputs(axes, taps, h=2, u=2)
    query, value = query.reshape(2, *axes, 2, 3), value.reshape(2, *axes, 2, 2)
    before = tuple(min(r // 2, n - 1) for r, n in zip(taps, axes, strict=True))
    matrix = partial(relative_position.by_matrix, placing=placing)
    forms = [jax.jit(partial(f, before=before)) for f in (matrix, relative_position.by_fft)]
    pulled = [jax.vjp(f, query, value, table) for f in forms]
    cotangent = normal(*pulled[0][0].shape, seed=9)
    (y, pull), (expected, expected_pull) = pulled
    np.testing.assert_allclose(y, expected, atol=2e-4)
    for got, want in zip(pull(cotangent), expected_pull(cotangent), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-3)


def test_which_of_two_is_skewed() -> None:
    """The table's columns, where they are fewer than the scores; of a batch of any size the scores."""
    for b, axes, h, r, table in [
        (8, (32, 32), 1, 23, True),
        (4, (32, 32), 1, 23, False),
        (8, (16, 16), 4, 31, True),
        (4, (16, 16), 4, 31, False),
        (32, (256,), 4, 511, True),
        (16, (256,), 2, 511, False),
    ]:
        assert relative_position._worth_placing((b, *axes, h, 16), r) == table, (b, axes, h, r)
    (b,) = jax.export.symbolic_shape("b")
    shapes = [(b, 96, 4, 16), (b, 96, 1, 8), (63, 16, 1)]
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    matrix = jax.jit(partial(relative_position.by_matrix, before=(31,)))
    exported = jax.export.export(matrix)(*given)
    arrays = [normal(*[8 if n is b else n for n in shape], seed=i) for i, shape in enumerate(shapes)]
    np.testing.assert_allclose(exported.call(*arrays), matrix(*arrays), atol=1e-4)


@pytest.mark.parametrize("placing", [True, False])
@pytest.mark.parametrize(("axes", "taps"), [((512,), (33,)), ((8, 8), (7, 7))])
def test_derivatives_by_the_table_are_summed_in_float32(axes: tuple, taps: tuple, placing: bool) -> None:
    """Of bfloat16, whose deviations are 0.4 % of a number, and less of a sum of many."""
    query, _, value, table = inputs(axes, taps, k=16, v=32)
    query, value = query.reshape(2, *axes, 1, 16), value.reshape(2, *axes, 1, 32)
    before, cotangent = tuple(r // 2 for r in taps), normal(*value.shape, seed=9)

    @partial(jax.jit, static_argnames="dtype")
    def derivative(table: jax.Array, dtype: str) -> jax.Array:
        q, v = query.astype(dtype), value.astype(dtype)
        pull = jax.vjp(lambda table: relative_position.by_matrix(q, v, table, before, placing), table)[1]
        return pull(cotangent)[0]

    exact, rounded = derivative(table, "float32"), derivative(table, "bfloat16")
    assert jnp.linalg.norm(rounded - exact) < 0.0045 * jnp.linalg.norm(exact)


@pytest.mark.parametrize("method", METHODS[1:])
def test_gradient(method: str) -> None:
    mask = jnp.arange(6)[None] < 5
    f = jax.jit(partial(lambda_layer, grid=(2, 3), mask=mask, method=method))
    check_grads(f, inputs((2, 3), (3, 3), h=2, u=2, b=1), order=1, modes=["rev"], rtol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offset", "climb", "near"), [(4096.0, 0.0, True), (0.0, 9.0, True), (-300.0, 64.0, False)]
)
def test_running_softmax_across_chunks(
    offset: float, climb: float, near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results, pullbacks and pushforwards are those of all pairs in float64; an offset of keys is nothing.

    Keys climb at each of the first positions by less and by more than a chunk of several positions can hold.
    """
    monkeypatch.setattr(lambdas, "CHUNK", 4)
    query, key, value, _ = inputs((10,), (3,), h=2, u=2)
    ramp = climb * jnp.minimum(jnp.arange(10.0), 5)[None, :, None, None]
    key, value = jnp.round(64 * key) / 64 + ramp, value.swapaxes(-1, -2)  # offsets are added exactly
    assert (lambdas._climb(key[:, :8]) < lambdas.CLIMB) == near
    given, cotangent = (query, key, value), normal(2, 10, 2, 2, seed=9)
    tangents = tuple(normal(*x.shape, seed=i) for i, x in enumerate(given, 5))

    def plain(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        seen = jnp.tril(jnp.ones((10, 10), bool))[None, :, :, None, None]
        weights = jax.nn.softmax(jnp.where(seen, key[:, None], -1e30 * jnp.ones_like(key[:, None])), axis=2)
        return jnp.einsum("bnhk,bnmku,bmuv->bnhv", query, weights, value)

    def ours(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        return lambdas.causal_content_lambda(query, key + offset, value)

    def all_of(f, given: tuple, tangents: tuple, cotangent: jax.Array) -> tuple:
        y, pull = jax.vjp(f, *given)
        return y, jax.jvp(f, given, tangents)[1], *pull(cotangent)

    found = jax.jit(partial(all_of, ours))(given, tangents, cotangent)
    each = [jax.vmap(ours)(*(x[:, None] for x in given))[:, 0]]  # both branches, and one is selected
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)), (given, tangents, cotangent))
        expected = [np.asarray(x) for x in all_of(plain, *exact)]
    for y, z in zip([*each, *found], [expected[0], *expected], strict=True):
        np.testing.assert_allclose(y, z, atol=2e-6)  # sums in float32


def test_tokens_masked_at_the_start_do_not_slow_a_running_softmax() -> None:
    """A masked key is not a climb of the others, and positions that see no token have no content."""
    arrays, mask = inputs((40,), (1,)), jnp.broadcast_to(jnp.arange(40) >= 5, (2, 40))
    assert lambdas._climb(jnp.where(mask[:, :32, None, None], arrays[1][:, :32], lambdas.NEVER)) < 10
    y = run(arrays, causal=True, mask=mask)
    np.testing.assert_array_equal(y[:, :5], 0)
    np.testing.assert_allclose(y, oracle(*arrays, (40,), causal=True, mask=np.asarray(mask)), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS[1:])
def test_the_future_has_no_influence(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative of y[n] by key and value at m > n is zero, that at m <= n is not; across chunks too."""
    monkeypatch.setattr(lambdas, "CHUNK", 4)
    query, key, value, position = inputs((9,), (9,), b=1)

    def outputs(key: jax.Array, value: jax.Array) -> jax.Array:
        return lambda_layer(query, key, value, position, causal=True, method=method)[0].sum(axis=(1, 2))

    for jacobian in jax.jit(jax.jacrev(outputs, (0, 1)))(key, value):
        sizes = np.abs(jacobian[:, 0]).max(axis=(2, 3))  # of n by m
        np.testing.assert_allclose(np.triu(sizes, 1), 0, atol=1e-6)
    assert (sizes[np.tril_indices(9)] > 1e-3).all()  # by the values


def test_shifts_pass_through_away_from_the_edges() -> None:
    query, _, value, position = inputs((20,), (5,))
    still = jnp.zeros((2, 20, 3, 1))
    y = run([query, still, value, position]) - run([query, still, value, 0 * position])
    moved = [jnp.roll(a, 4, 1) for a in (query, value)]
    z = run([moved[0], still, moved[1], position]) - run([moved[0], still, moved[1], 0 * position])
    np.testing.assert_allclose(z[:, 8:16], y[:, 4:12], atol=1e-5)
    assert np.abs(z[:, :3] - jnp.roll(y, 4, 1)[:, :3]).max() > 1e-2  # at the edge the neighbours differ


def test_without_positions_it_is_linear_attention() -> None:
    query, key, value, position = inputs((6,), (3,))
    y = run([query, key, value, 0 * position])
    weights = jnp.einsum("bthk,bsku->bhts", query, jax.nn.softmax(key, axis=1))
    np.testing.assert_allclose(y, jnp.einsum("bhts,bsv->bthv", weights, value[..., 0]), atol=1e-5)


def test_one_key_and_no_content_is_a_convolution_of_the_tokens() -> None:
    value, w = normal(2, 7, 5, 1), normal(3, 1, 1, seed=1)
    one, still = jnp.ones((2, 7, 1, 1)), jnp.zeros((2, 7, 1, 1))
    y = run([one, still, value, w]) - value.mean(axis=1)[:, None, None, :, 0]
    expected = token_convolve(value[..., 0], w[::-1, 0, 0])
    np.testing.assert_allclose(y[:, :, 0], expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("causal", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_half_precision_is_stable(dtype: str, causal: bool) -> None:
    """1,500 values around 3 of nearly equal weight: sums in half precision would stand still; large keys."""
    t, steps = 1500, [0, 700, 1499]
    query, key, value, position = inputs((t,), (3,), k=2, v=2, b=1)
    position = position / 4
    low = [a.astype(dtype) for a in (query, key / 8, value / 4 + 3, position)]
    exact = [np.asarray(a.astype(jnp.float32), np.float64) for a in low]
    y = run(low, causal=causal)
    assert y.dtype == dtype
    for n in steps:
        seen = slice(0, n + 1 if causal else t)
        weights = np.exp(exact[1][0, seen, :, 0])
        content = (weights / weights.sum(axis=0)).T @ exact[2][0, seen, :, 0]
        first = 2 if causal else 1
        near = [(r, n + r - first) for r in range(3) if 0 <= n + r - first < t]
        content = content + sum(np.outer(exact[3][r, :, 0], exact[2][0, m, :, 0]) for r, m in near)
        expected = exact[0][0, n, 0] @ content
        bound = 3e-2 if dtype == "bfloat16" else 4e-3  # some roundings of 2^-8 and 2^-11 of values near 3
        np.testing.assert_allclose(np.asarray(y[0, n, 0], np.float64), expected, atol=bound * 6)

    def loss(*arrays: jax.Array) -> jax.Array:
        return lambda_layer(*arrays, causal=causal).astype(jnp.float32).var()

    large = [low[0], (300 * key).astype(dtype), *low[2:]]
    for g in jax.jit(jax.grad(loss, (0, 1, 2, 3)))(*large):
        assert np.isfinite(g).all()


def test_leading_axes() -> None:
    query, key, value, position = inputs((6,), (3,))
    y = run([query[0], key[0], value[0], position])
    np.testing.assert_allclose(y, run([query, key, value, position])[0], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({3: (4, 3, 1)}, {}, r"even context, \(4,\); make it odd"),
        ({3: (3, 4, 3, 1)}, {"grid": (2, 4)}, r"even context, \(3, 4\)"),
        ({1: (2, 8, 4, 1)}, {}, r"key of shape \(2, 8, 4, 1\)"),
        ({2: (2, 8, 2, 2)}, {}, r"value of shape \(2, 8, 2, 2\) must be .* and 1"),
        ({3: (3, 3, 2)}, {}, r"must be taps and then \(k, u\) = \(3, 1\)"),
        ({}, {"mask": jnp.ones((2, 7), bool)}, r"mask of shape \(2, 7\)"),
        ({}, {"grid": (2, 4)}, r"must be \(r1, r2, k, u\) on a grid"),
        ({3: (3, 3, 3, 1)}, {"grid": (3, 3)}, "rows \\* cols = t = 8"),
        ({3: (3, 3, 3, 1)}, {}, r"must be \(t, t, k, u\) with t=8"),
        ({3: (3, 3, 3, 1)}, {"grid": (2, 4), "causal": True}, "is not causal"),
        ({3: (0, 3, 1)}, {"causal": True}, "is empty"),
        ({3: (15, 3, 1)}, {"causal": True}, "is not causal: with causal=True pass"),
        ({}, {"method": "slow"}, "method='slow' is unknown"),
    ],
)
def test_bad_input(change: dict, options: dict, message: str) -> None:
    shapes = dict(enumerate([(2, 8, 1, 3), (2, 8, 3, 1), (2, 8, 2, 1), (3, 3, 1)])) | change
    with pytest.raises(ValueError, match=message):
        lambda_layer(*(normal(*shape) for shape in shapes.values()), **options)


@pytest.mark.parametrize(
    ("fields", "d", "count"),
    [
        ({"norm": "none"}, 128, 20_528),
        ({"norm": "none", "grid": (4, 4)}, 128, 20_624),
        ({}, 128, 20_528 + 16 + 128),
        ({"heads": 4, "u": 2, "norm": "none"}, 8, 8 * 64 + 8 * 32 + 8 * 4 + 3 * 16 * 2),
        ({"context": 0, "length": 20, "norm": "none"}, 128, 20_480 + 39 * 16),
        ({"context": 0, "length": 20, "table": "pairs", "norm": "none"}, 128, 20_480 + 20 * 20 * 16),
        ({"context": 0, "length": 20, "causal": True, "norm": "none"}, 128, 20_480 + 20 * 16),
    ],
)
def test_layer_parameters(fields: dict, d: int, count: int) -> None:
    init = LambdaLayer(**fields).init_with_output
    y, params = jax.eval_shape(init, jax.random.key(0), jnp.ones((1, 16, d)))
    assert y.shape == (1, 16, d)
    assert sum(p.size for p in jax.tree.leaves(params)) == count


def test_layer_is_project_normalise_apply() -> None:
    layer, x = LambdaLayer(heads=2, k=3, u=2), normal(2, 5, 6)
    p = jax.jit(layer.init)(jax.random.key(1), x)["params"]
    shapes = {"query": (6, 2, 3), "key": (6, 3, 2), "value": (6, 3, 2)}
    assert {name: p[name]["kernel"].shape for name in shapes} == shapes
    assert p["position"].shape == (3, 3, 2)
    query, key, value = (np.einsum("btd,dij->btij", x, p[name]["kernel"]) for name in shapes)

    def norm(y: np.ndarray, axes: tuple) -> np.ndarray:
        y = y - y.mean(axes, keepdims=True)
        return y / np.sqrt((y**2).mean(axes, keepdims=True) + 1e-5)

    expected = oracle(norm(query, (-1,)), key, norm(value, (-2, -1)), p["position"], (5,))
    y = jax.jit(layer.apply)({"params": p}, x)
    np.testing.assert_allclose(y, expected.reshape(2, 5, 6), atol=1e-4)


def test_the_articles_layer() -> None:
    layer = LambdaLayer(k=16, norm="none", initializer="uniform")
    params = jax.jit(layer.init)(jax.random.key(0), jnp.ones((1, 4, 128)))["params"]
    assert sum(p.size for p in jax.tree.leaves(params)) == 20_528
    for p in jax.tree.leaves(params):
        assert -0.5 <= p.min() < -0.4
        assert 0.4 < p.max() <= 0.5


def test_a_table_of_pairs_that_depends_on_the_distance_alone_is_a_relative_one() -> None:
    n, t, x = 7, 5, normal(2, 5, 6)
    fields = {"k": 3, "context": 0, "length": n}
    relative, pairs = LambdaLayer(**fields), LambdaLayer(**fields, table="pairs")
    p = drawn(relative, x)["params"]
    distance = np.arange(n) - np.arange(n)[:, None] + n - 1  # m - n, from 0 on
    q = p | {"position": p["position"][distance]}
    np.testing.assert_allclose(
        jax.jit(pairs.apply)({"params": q}, x), jax.jit(relative.apply)({"params": p}, x), atol=2e-6
    )  # float32
    free = drawn(pairs, x)["params"]
    cut = free | {"position": free["position"].at[t:].set(9.0).at[:, t:].set(9.0)}
    np.testing.assert_array_equal(
        jax.jit(pairs.apply)({"params": cut}, x), jax.jit(pairs.apply)({"params": free}, x)
    )


def test_a_mirrored_image_and_table_mirror_the_result() -> None:
    layer, image = LambdaLayer(grid=(3, 4)), normal(2, 3, 4, 6)
    params, apply = (
        drawn(layer, image.reshape(2, 12, 6))["params"],
        jax.jit(layer.apply),
    )

    def run_on(image: jax.Array, position: jax.Array) -> jax.Array:
        return apply({"params": params | {"position": position}}, image.reshape(2, 12, 6)).reshape(
            image.shape
        )

    y = run_on(image, params["position"])
    mirrored = run_on(image[:, :, ::-1], params["position"][:, ::-1])[:, :, ::-1]
    np.testing.assert_allclose(mirrored, y, atol=1e-5)
    assert np.abs(run_on(image[:, :, ::-1], params["position"])[:, :, ::-1] - y).max() > 1e-2


def test_a_causal_layer_on_a_sequence_shorter_than_its_context() -> None:
    layer, x = LambdaLayer(causal=True, context=5), normal(1, 8, 4)
    params, apply = drawn(layer, x), jax.jit(layer.apply)
    y = apply(params, x)
    np.testing.assert_allclose(apply(params, x[:, :3]), y[:, :3], atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"heads": 3}, "heads=3 must divide d=4"),
        ({"context": 4}, "context=4 must be odd"),
        ({"context": 0, "length": 2}, "a sequence of 6 positions exceeds length=2"),
        ({"u": 0}, "u=0 and length=512 must be at least 1"),
        ({"k": 1}, "k=1 and d / heads \\* u = 4 must exceed 1"),
        ({"norm": "batch"}, "norm='batch' is unknown"),
        ({"initializer": "zeros"}, "initializer='zeros' is unknown"),
        ({"table": "pairs"}, "table='pairs' needs context=0"),
        ({"table": "dense"}, "table='dense' is unknown"),
        ({"causal": True, "grid": (2, 3)}, "an image has no order"),
    ],
)
def test_bad_fields(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LambdaLayer(**fields).init(jax.random.key(0), normal(1, 6, 4))
