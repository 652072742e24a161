import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.test_util import check_grads

from fourier_attn.layers.circular import CircularAttention
from fourier_attn.ops.circular import BOUNDARIES, METHODS, circular_attention, circular_correlate

# axes of the signal and taps of the kernel: odd, even, prime, one; r < d and r = d; one and two axes
SHAPES = [((1,), (1,)), ((2,), (2,)), ((7,), (7,)), ((8,), (3,)), ((6,), (4,)), ((13,), (1,))]
IMAGES = [((3, 4), (3, 4)), ((5, 5), (3, 3)), ((4, 6), (2, 3)), ((1, 5), (1, 2)), ((7, 2), (3, 1))]


def oracle(x: np.ndarray, w: np.ndarray, axes: tuple, boundary: str, convolution: bool = False) -> np.ndarray:
    """The sums of the docstring, term by term in float64: one vector x, one kernel w."""
    image, taps, sign = x.reshape(axes), w.shape, -1 if convolution else 1
    places = axes if boundary != "valid" else tuple(n - r + 1 for n, r in zip(axes, taps, strict=True))
    y = np.zeros(places)
    for p in np.ndindex(*places):
        for j in np.ndindex(*taps):
            first = {"circular": [0] * len(axes), "zero": [r // 2 for r in taps]}.get(boundary)
            if first is None:  # whole windows only: the last place of a reversed window is its first
                first = [-(r - 1) if convolution else 0 for r in taps]
                n = [a + sign * b - f for a, b, f in zip(p, j, first, strict=True)]
            else:
                n = [a + sign * (b - f) for a, b, f in zip(p, j, first, strict=True)]
            if boundary == "circular":
                n = [a % size for a, size in zip(n, axes, strict=True)]
            if all(0 <= a < size for a, size in zip(n, axes, strict=True)):
                y[p] += w[j] * image[tuple(n)]
    return y.reshape(-1)


@pytest.mark.parametrize(("axes", "taps"), SHAPES + IMAGES)
def test_is_the_definition(axes: tuple, taps: tuple) -> None:
    """By every method, at every boundary, as correlation and as convolution."""
    x, w = normal(2, int(np.prod(axes))), normal(3, *taps, seed=1)
    exact = [np.asarray(a, np.float64) for a in (x, w)]
    cases = list(itertools.product(METHODS[1:], BOUNDARIES, (False, True)))

    @jax.jit
    def results(x: jax.Array, w: jax.Array) -> list:
        correlate = partial(circular_correlate, x, w, shape=axes if len(axes) == 2 else None)
        return [correlate(method=method, boundary=b, convolution=c) for method, b, c in cases]

    for y, (_, boundary, convolution) in zip(results(x, w), cases, strict=True):
        expected = np.array([[oracle(v, k, axes, boundary, convolution) for k in exact[1]] for v in exact[0]])
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, atol=1e-5)  # float32 sums of some 20 terms


def test_methods_agree_at_the_articles_sizes() -> None:
    for d, shape in ((128, None), (128, (16, 8)), (121, (11, 11))):
        x, w = normal(2, 4, d), normal(3, *(shape or (d,)), seed=1) / 11
        correlate = partial(circular_correlate, shape=shape)
        *others, direct = jax.jit(lambda x, w, f=correlate: [f(x, w, method=m) for m in METHODS])(x, w)
        for y in others:
            np.testing.assert_allclose(y, direct, atol=1e-5)


def test_valid_is_a_block_of_circular() -> None:
    """On a 5 x 5 field a 3 x 3 kernel leaves the 3 x 3 block at the top left."""
    x, w = normal(25), normal(1, 3, 3, seed=1)
    correlate = jax.jit(partial(circular_correlate, shape=(5, 5)), static_argnames="boundary")
    whole = correlate(x, w).reshape(5, 5)
    block = correlate(x, w, boundary="valid").reshape(3, 3)
    np.testing.assert_allclose(block, whole[:3, :3], atol=1e-6)


def test_a_convolution_is_a_correlation_with_the_reversed_kernel() -> None:
    x, w = normal(3, 7), normal(2, 7, seed=1)
    mirrored = jnp.roll(jnp.flip(w, 1), 1, 1)
    np.testing.assert_allclose(
        circular_correlate(x, mirrored), circular_correlate(x, w, convolution=True), atol=1e-6
    )


@pytest.mark.parametrize("method", METHODS)
def test_shifts_pass_through(method: str) -> None:
    correlate = jax.jit(partial(circular_correlate, method=method))
    x, w = normal(2, 9), normal(3, 9, seed=1)
    y = correlate(x, w)
    np.testing.assert_allclose(correlate(jnp.roll(x, 2, -1), w), jnp.roll(y, 2, -1), atol=1e-5)
    np.testing.assert_allclose(correlate(jnp.roll(x, 2, -1), jnp.roll(w, 2, -1)), y, atol=1e-5)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("method", METHODS[1:])
def test_gradient(boundary: str, method: str) -> None:
    f = jax.jit(partial(circular_correlate, shape=(3, 4), boundary=boundary, method=method))
    check_grads(f, (normal(2, 12), normal(2, 2, 3, seed=1)), order=1, modes=["rev"], rtol=1e-2)


def attend(x: np.ndarray, kernels: list[np.ndarray], axes: tuple, boundary: str, mask: np.ndarray):
    """The articles' layer by loops over heads and queries, heads kept: (t, h, p)."""
    heads = []
    for query, key, value in zip(*kernels, strict=True):
        q, k, v = (np.array([oracle(token, w, axes, boundary) for token in x]) for w in (query, key, value))
        scores = np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        heads.append(weights / weights.sum(axis=1, keepdims=True) @ v)
    return np.stack(heads, axis=1)


@pytest.mark.parametrize(
    ("axes", "taps"),
    [
        ((7,), (7,)),
        ((5, 4), (3, 3)),
        pytest.param((8,), (3,), marks=pytest.mark.slow),
        pytest.param((3, 4), (3, 4), marks=pytest.mark.slow),
    ],
)
def test_attention_is_the_articles_layer(axes: tuple, taps: tuple) -> None:
    """By both methods, at every boundary; heads kept and heads summed."""
    t, d = 5, int(np.prod(axes))
    x, kernels = normal(1, t, d), [normal(2, *taps, seed=i) / 2 for i in (1, 2, 3)]
    mask = np.array([True, True, False, True, False])
    exact = [np.asarray(w, np.float64) for w in kernels]
    cases = list(itertools.product(BOUNDARIES, ("literal", "fused")))

    @jax.jit
    def results(x: jax.Array, *kernels: jax.Array) -> list:
        attend = partial(circular_attention, x, *kernels, shape=axes if len(axes) == 2 else None)
        attend = partial(attend, mask=jnp.asarray(mask)[None])
        return [
            [attend(boundary=boundary, method=method, combine_heads=form) for form in ("none", "sum")]
            for boundary, method in cases
        ]

    for (heads, summed), (boundary, _) in zip(results(x, *kernels), cases, strict=True):
        expected = attend(np.asarray(x[0], np.float64), exact, axes, boundary, mask)
        np.testing.assert_allclose(heads[0], expected, atol=2e-5)
        np.testing.assert_allclose(summed[0], expected.sum(axis=1), atol=2e-5)


@pytest.mark.parametrize("boundary", ["circular", "zero"])
def test_the_fused_form_has_the_derivatives_of_the_literal_one(boundary: str) -> None:
    x, kernels = normal(2, 6, 8), [normal(2, 5, seed=i) / 2 for i in (1, 2, 3)]
    mask = jnp.arange(6)[None] < jnp.array([[6], [3]])

    def loss(method: str, *inputs: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(circular_attention(*inputs, boundary=boundary, mask=mask, method=method)))

    methods = "literal", "fused"
    grads = [jax.jit(jax.grad(partial(loss, method), (0, 1, 2, 3)))(x, *kernels) for method in methods]
    for literal, fused in zip(*grads, strict=True):
        np.testing.assert_allclose(fused, literal, atol=2e-5)


def test_a_sequence_of_padding_has_the_derivative_of_a_plain_average() -> None:
    x, kernels, mask = normal(1, 5, 6), normal(3, 2, 6, seed=1), jnp.zeros((1, 5), bool)

    def loss(x: jax.Array, method: str) -> jax.Array:
        return jnp.sum(circular_attention(x, *kernels, mask=mask, method=method) ** 2)

    literal, fused = (jax.jit(jax.grad(partial(loss, method=m)))(x) for m in ("literal", "fused"))
    np.testing.assert_allclose(fused, literal, atol=1e-4)


def test_transforms_can_be_differentiated_twice() -> None:
    x, w = normal(2, 6), normal(2, 6, seed=1)

    def slope(method: str, x: jax.Array) -> jax.Array:
        gradient = jax.grad(lambda x: jnp.sum(circular_correlate(x, w, method=method) ** 3))(x)
        return jnp.sum(gradient**2)

    fft, matmul = (jax.jit(jax.grad(partial(slope, method)))(x) for method in ("fft", "matmul"))
    np.testing.assert_allclose(fft, matmul, rtol=1e-3, atol=1e-3 * float(np.abs(matmul).max()))


def test_fused_attention_gradient() -> None:
    f = jax.jit(lambda x, w: circular_attention(x, w, w + 1, w - 1))
    check_grads(f, (normal(1, 4, 5), normal(2, 5, seed=1) / 3), order=1, modes=["rev"], rtol=2e-2)


def test_one_head_of_delta_kernels_is_attention_among_the_tokens() -> None:
    x, delta = normal(1, 5, 6), jnp.eye(6)[:1]
    scores = jax.nn.softmax(jnp.einsum("btd,bsd->bts", x, x) / 6**0.5)
    np.testing.assert_allclose(jax.jit(circular_attention)(x, delta, delta, delta), scores @ x, atol=1e-5)


def test_query_and_key_kernels_act_through_their_cross_correlation_only() -> None:
    x, value = normal(1, 5, 6), normal(2, 6, seed=3)
    query, key = normal(2, 6, seed=1), normal(2, 6, seed=2)
    attend = jax.jit(circular_attention)
    shifted = attend(x, jnp.roll(query, 2, 1), jnp.roll(key, 2, 1), value)
    np.testing.assert_allclose(shifted, attend(x, query, key, value), atol=1e-5)


def test_attention_leaves_the_order_of_tokens_alone() -> None:
    x, kernels, order = normal(2, 6, 8), normal(3, 2, 8, seed=1), jnp.array([3, 1, 5, 0, 2, 4])
    attend = jax.jit(circular_attention)
    y = attend(x, *kernels)
    np.testing.assert_allclose(attend(x[:, order], *kernels), y[:, order], atol=1e-5)


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("method", ["literal", "fused"])
def test_leading_axes_and_low_precision(method: str) -> None:
    x, kernels = normal(2, 3, 5, 8), normal(3, 2, 8, seed=1) / 3
    attend = jax.jit(partial(circular_attention, method=method))
    y = attend(x, *kernels)
    np.testing.assert_allclose(y[1], attend(x[1], *kernels), atol=1e-5)
    low = attend(x.astype(jnp.bfloat16), *kernels.astype(jnp.bfloat16))
    assert low.dtype == jnp.bfloat16
    np.testing.assert_allclose(low.astype(jnp.float32), y, atol=0.1)  # 8 bits


@pytest.mark.parametrize(
    ("fields", "shapes", "count"),
    [
        ({}, (8, 128), 3072),
        ({"shape": (16, 8)}, (8, 16, 8), 3072),
        ({"shape": None, "kernel": None}, (8, 128), 3072),
        ({"shape": (16, 8), "kernel": (3, 3), "boundary": "zero"}, (8, 3, 3), 216),
        (
            {"kernel": (5,), "boundary": "valid", "combine_heads": "project"},
            (8, 5),
            120 + 8 * 124 * 128 + 128,
        ),
    ],
)
def test_layer_parameters(fields: dict, shapes: tuple, count: int) -> None:
    x = jnp.zeros((1, 2, 128))
    y, params = jax.eval_shape(CircularAttention(**fields).init_with_output, jax.random.key(0), x)
    assert y.shape == x.shape
    assert {params["params"][name].shape for name in ("query", "key", "value")} == {shapes}
    assert sum(p.size for p in jax.tree.leaves(params)) == count


def test_layer_of_the_articles_at_121_has_2904_parameters() -> None:
    params = jax.eval_shape(CircularAttention(shape=(11, 11)).init, jax.random.key(0), jnp.zeros((1, 2, 121)))
    assert sum(p.size for p in jax.tree.leaves(params)) == 2904


def test_layer_projects_the_concatenated_heads() -> None:
    layer, x = CircularAttention(heads=2, combine_heads="project"), normal(1, 4, 6)
    y, params = jax.jit(layer.init_with_output)(jax.random.key(0), x)
    p = params["params"]
    attend = jax.jit(partial(circular_attention, combine_heads="none"))
    heads = attend(x, p["query"], p["key"], p["value"])
    expected = jnp.einsum("bthp,hpd->btd", heads, p["out"]["kernel"]) + p["out"]["bias"][None, None]
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        ((2, 9), {}, "r must lie between 1 and d"),
        ((2, 2, 2), {}, "a kernel \\(h, r1, r2\\) needs shape"),
        ((2, 3), {"shape": (2, 4)}, "a kernel \\(h, r\\) none"),
        ((2, 2, 2), {"shape": (3, 3)}, "d1 \\* d2 = d = 8"),
        ((2, 2, 5), {"shape": (2, 4)}, "r must lie between 1 and d"),
        ((2, 3), {"boundary": "mirror"}, "boundary='mirror' is unknown"),
        ((2, 3), {"method": "slow"}, "method='slow' is unknown"),
        ((3,), {}, "must be \\(h, r\\)"),
    ],
)
def test_bad_kernels(kernel: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        circular_correlate(normal(2, 8), normal(*kernel), **options)
    with pytest.raises(ValueError, match=message):
        circular_attention(normal(1, 2, 8), *[normal(*kernel)] * 3, **options)


def test_bad_attention() -> None:
    x, w = normal(1, 2, 8), normal(2, 3)
    with pytest.raises(ValueError, match="must have one shape"):
        circular_attention(x, w, w, normal(2, 4))
    with pytest.raises(ValueError, match=r"mask of shape \(1, 3\) must be"):
        circular_attention(x, w, w, w, mask=jnp.ones((1, 3), bool))
    with pytest.raises(ValueError, match="combine_heads='mean' is unknown"):
        circular_attention(x, w, w, w, combine_heads="mean")
    for fields, message in (
        ({"combine_heads": "mean"}, "combine_heads='mean' is unknown"),
        ({"boundary": "valid", "kernel": (3,)}, "use combine_heads='project' or 'zero'"),
        ({"kernel": (3, 3)}, "kernel with 1 axes"),
        ({"heads": 0}, "heads=0"),
    ):
        with pytest.raises(ValueError, match=message):
            CircularAttention(**fields).init(jax.random.key(0), x)
