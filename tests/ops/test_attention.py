import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal
from jax.test_util import check_grads

from fourier_attn.layers.attention import Attention
from fourier_attn.ops.attention import attention, fewest_products


def oracle(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Softmax-weighted average of the values, one query at a time in float64."""
    y = np.zeros(q.shape)
    for b, i, h in np.ndindex(q.shape[:3]):
        scores = [q[b, i, h] @ k[b, j, h] / np.sqrt(q.shape[-1]) for j in range(k.shape[1])]
        weights = np.where(mask[b], np.exp(scores), 0.0)
        y[b, i, h] = weights / weights.sum() @ v[b, :, h]
    return y


@pytest.mark.parametrize(("t", "s", "h", "k"), [(1, 1, 1, 1), (5, 5, 2, 3), (4, 7, 3, 8)])
def test_is_the_definition(t: int, s: int, h: int, k: int) -> None:
    q, key, v = normal(2, t, h, k), normal(2, s, h, k, seed=1), normal(2, s, h, k, seed=2)
    mask = np.arange(s)[None] < np.array([[s], [max(1, s - 2)]])
    y = jax.jit(attention)(q, key, v, mask=jnp.asarray(mask))
    expected = oracle(*(np.asarray(x, np.float64) for x in (q, key, v)), mask)
    np.testing.assert_allclose(y, expected, atol=2e-6)  # float32 rounding of values near 1


def test_no_mask_is_a_mask_of_ones() -> None:
    q = normal(2, 5, 2, 3)
    np.testing.assert_array_equal(attention(q, q, q), attention(q, q, q, mask=jnp.ones((2, 5), bool)))


def test_gradient() -> None:
    q = normal(1, 4, 2, 3)
    mask = jnp.array([[True, True, True, False]])
    f = jax.jit(lambda q, k, v: attention(q, k, v, mask=mask))
    check_grads(f, (q, q + 1, q - 1), order=1, modes=["rev"], rtol=2e-2)


@pytest.mark.parametrize(("width", "k"), [("full", 6), ("split", 3)])
def test_layer_is_project_attend_project(width: str, k: int) -> None:
    layer, x = Attention(heads=2, head_width=width), normal(2, 5, 6)
    params = drawn(layer, x)["params"]
    shapes = {name: {key: value.shape for key, value in group.items()} for name, group in params.items()}
    assert shapes == {
        "query": {"kernel": (6, 2, k)},
        "key": {"kernel": (6, 2, k)},
        "value": {"kernel": (6, 2, k)},
        "out": {"kernel": (2, k, 6), "bias": (6,)},
    }
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    q, key, v = (np.einsum("btd,dhk->bthk", x, p[name]["kernel"]) for name in ("query", "key", "value"))
    heads = oracle(q, key, v, np.ones((2, 5), bool))
    expected = np.einsum("bthk,hkd->btd", heads, p["out"]["kernel"]) + p["out"]["bias"]
    np.testing.assert_allclose(jax.jit(layer.apply)({"params": params}, x), expected, atol=5e-6)


def test_layer_has_the_articles_parameters() -> None:
    params = jax.eval_shape(Attention(heads=8).init, jax.random.key(0), jnp.zeros((1, 2, 128)))
    assert sum(p.size for p in jax.tree.leaves(params)) == 524_416


def test_layer_is_permutation_equivariant() -> None:
    layer, x = Attention(heads=2), normal(1, 6, 4)
    params = drawn(layer, x)
    order = jnp.array([3, 0, 5, 1, 4, 2])
    apply = jax.jit(layer.apply)
    np.testing.assert_allclose(apply(params, x[:, order]), apply(params, x)[:, order], atol=1e-6)


def test_layer_masking() -> None:
    """Neither the content nor the amount of padding reaches the real tokens."""
    layer, x = Attention(heads=2), normal(2, 7, 4)
    params = drawn(layer, x)
    mask = jnp.broadcast_to(jnp.arange(7)[None] < 4, (2, 7))
    apply = jax.jit(layer.apply)
    y = apply(params, x, mask=mask)[:, :4]
    np.testing.assert_allclose(y, apply(params, x.at[:, 4:].set(9.0), mask=mask)[:, :4], atol=1e-6)
    np.testing.assert_allclose(y, apply(params, x[:, :4]), atol=1e-6)


def test_layer_is_finite_where_everything_is_padding() -> None:
    layer, x = Attention(heads=2), normal(1, 3, 4)
    y, _ = jax.jit(layer.init_with_output)(jax.random.key(0), x, mask=jnp.zeros((1, 3), bool))
    assert np.isfinite(y).all()


def test_heads_must_divide_a_split_width() -> None:
    with pytest.raises(ValueError, match="heads=3 must divide d=4"):
        Attention(heads=3, head_width="split").init(jax.random.key(0), normal(1, 2, 4))
    with pytest.raises(ValueError, match="head_width='half' is unknown"):
        Attention(heads=2, head_width="half").init(jax.random.key(0), normal(1, 2, 4))


def test_biases_of_queries_keys_and_values() -> None:
    layer, x = Attention(heads=2, head_width="split", bias=True), normal(1, 5, 4)
    params = drawn(layer, x)["params"]
    assert {name: set(part) for name, part in params.items()} == {
        name: {"kernel", "bias"} for name in ("query", "key", "value", "out")
    }
    params = jax.tree.map(lambda p: normal(*p.shape, seed=p.size), params)
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    q, k, v = (
        np.einsum("td,dhk->htk", x[0], p[name]["kernel"]) + p[name]["bias"][:, None]
        for name in ("query", "key", "value")
    )
    weights = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(2))
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("htk,hkd->td", weights @ v, p["out"]["kernel"]) + p["out"]["bias"]
    np.testing.assert_allclose(jax.jit(layer.apply)({"params": params}, x)[0], expected, atol=1e-5)


def test_dropout_zeroes_weights_and_keeps_the_mean() -> None:
    """With values 1 the output of a query is the sum of its weights: 1 on average, in steps."""
    q, v = jnp.zeros((2, 50, 3, 4)), jnp.ones((2, 50, 3, 4))
    mask = jnp.broadcast_to(jnp.arange(50)[None] < 40, (2, 50))
    y = attention(q, q, v, mask=mask, dropout=0.25, dropout_key=jax.random.key(0))
    kept = np.asarray(y) * 0.75 * 40
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-4)
    assert kept[..., 0].std() == pytest.approx(np.sqrt(40 * 0.25 * 0.75), rel=0.15)  # binomial
    assert float(y.mean()) == pytest.approx(1.0, abs=5 * np.sqrt(0.25 / 0.75 / 40 / 300))
    plain = attention(q, q, v, mask=mask)
    np.testing.assert_allclose(attention(q, q, v, mask=mask, dropout=0.25), plain)  # no key
    with pytest.raises(ValueError, match="dropout=0.5 of attention weights needs implementation='xla'"):
        attention(q, q, v, dropout=0.5, implementation="cudnn")


def test_a_layer_drops_in_training_only() -> None:
    layer, x = Attention(heads=2, dropout=0.5), normal(1, 6, 4)
    params = drawn(layer, x)
    apply = jax.jit(layer.apply, static_argnames="train")
    np.testing.assert_array_equal(apply(params, x), jax.jit(Attention(heads=2).apply)(params, x))
    a, b = (apply(params, x, train=True, rngs={"dropout": jax.random.key(i)}) for i in range(2))
    assert np.abs(a - b).max() > 1e-3


@pytest.mark.parametrize(("b", "t", "s"), [(0, 3, 3), (2, 0, 3), (2, 3, 0)])
def test_of_nothing(b: int, t: int, s: int) -> None:
    """No source token: zeros."""
    q, k = jnp.ones((b, t, 2, 4)), jnp.ones((b, s, 2, 4))
    y, slope = jax.value_and_grad(lambda q: jnp.sum(attention(q, k, k)))(q)
    assert (float(y), slope.shape) == (0, q.shape)
    assert attention(q, k, k, dropout=0.5, dropout_key=jax.random.key(0)).shape == q.shape


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2.0])
def test_a_rate_that_drops_everything_is_refused(rate: float) -> None:
    x = jnp.ones((1, 2, 1, 4))
    with pytest.raises(ValueError, match=r"dropout=.* must lie in \[0, 1\)"):
        attention(x, x, x, dropout=rate, dropout_key=jax.random.key(0))


# A source: cross-attention


def test_cross_attention_is_the_chapters_equations() -> None:
    """Eq. 1.18-1.24 for one question and N patches, in float64, and heads and the output map around them."""
    layer, question, patches = (
        Attention(heads=2, head_width="split"),
        normal(2, 1, 6),
        normal(2, 5, 4, seed=1),
    )
    params = drawn(layer, question, source=patches)["params"]
    assert {name: part["kernel"].shape for name, part in params.items()} == {
        "query": (6, 2, 3),
        "key": (4, 2, 3),
        "value": (4, 2, 3),
        "out": (2, 3, 6),
    }
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    expected = np.zeros((2, 1, 6))
    for b, head in np.ndindex(2, 2):
        q = np.asarray(question[b, 0], np.float64) @ p["query"]["kernel"][:, head]
        keys = [np.asarray(z, np.float64) @ p["key"]["kernel"][:, head] for z in patches[b]]
        values = np.array([np.asarray(z, np.float64) @ p["value"]["kernel"][:, head] for z in patches[b]])
        s = np.array([q @ key for key in keys]) / np.sqrt(3)
        weights = np.exp(s) / np.exp(s).sum()
        expected[b, 0] += weights @ values @ p["out"]["kernel"][head]
    y = jax.jit(layer.apply)({"params": params}, question, source=patches)
    np.testing.assert_allclose(y, expected + p["out"]["bias"], atol=5e-6)


def test_self_attention_is_attention_to_itself() -> None:
    layer, x = Attention(heads=2), normal(2, 5, 4)
    params = drawn(layer, x)
    mask = jnp.arange(5)[None] < jnp.array([[5], [3]])
    apply = jax.jit(layer.apply)
    np.testing.assert_array_equal(apply(params, x, mask=mask), apply(params, x, source=x, mask=mask))


def test_a_source_has_no_places_to_rotate_by() -> None:
    x = normal(1, 2, 4)
    with pytest.raises(ValueError, match="rotary=True has no places for the tokens of a source"):
        Attention(heads=1, rotary=True).init(jax.random.key(0), x, source=normal(1, 3, 4))


def test_masking_of_a_source() -> None:
    """Neither the content nor the amount of the source's padding reaches the queries, however many."""
    layer, x, source = Attention(heads=2), normal(2, 3, 4), normal(2, 7, 5, seed=1)
    params = drawn(layer, x, source=source)
    mask = jnp.broadcast_to(jnp.arange(7)[None] < 4, (2, 7))
    apply = jax.jit(layer.apply)
    y = apply(params, x, source=source, mask=mask)
    np.testing.assert_allclose(y, apply(params, x, source=source.at[:, 4:].set(9.0), mask=mask), atol=1e-6)
    np.testing.assert_allclose(y, apply(params, x, source=source[:, :4]), atol=1e-6)
    assert np.abs(y - apply(params, x, source=source)).max() > 1e-3


# Products in another order

SIZES = [  # b, t, s, d, e, h, k
    (2, 5, 7, 6, 4, 2, 6),
    (1, 1, 9, 4, 8, 3, 2),
    (3, 70, 70, 8, 8, 2, 8),
]


@pytest.mark.parametrize("width", ["full", "split"])
@pytest.mark.parametrize("masked", [False, True])
def test_fused_is_literal(width: str, masked: bool) -> None:
    """Outputs and all derivatives, of self-attention and with a source, some of it or all of it padding."""
    x, source = normal(3, 5, 6), normal(3, 7, 4, seed=1)
    mask = jnp.arange(7)[None] < jnp.array([[7], [3], [0]]) if masked else None
    literal, fused = (Attention(heads=2, head_width=width, method=m) for m in ("literal", "fused"))
    params = drawn(literal, x, source=source)
    params = jax.tree.map(lambda p: normal(*p.shape, seed=p.size) / 2, params)

    def both(layer: Attention) -> tuple:
        def loss(params: dict, x: jax.Array, source: jax.Array) -> jax.Array:
            return jnp.sum(jnp.sin(layer.apply(params, x, source=source, mask=mask)))

        y = jax.jit(layer.apply)(params, x, source=source, mask=mask)
        return y, jax.jit(jax.grad(loss, (0, 1, 2)))(params, x, source)

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), both(fused), both(literal))


def test_fused_in_half_precision() -> None:
    x = normal(2, 9, 8)
    exact, half = (Attention(heads=2, method="fused", dtype=jnp.dtype(d)) for d in ("float32", "bfloat16"))
    params = drawn(exact, x)
    y = jax.jit(half.apply)(params, x)
    assert y.dtype == jnp.bfloat16
    expected = jax.jit(exact.apply)(params, x)
    np.testing.assert_allclose(y.astype(jnp.float32), expected, atol=0.05)  # of values near 1


def test_both_forms_begin_with_the_same_weights() -> None:
    x = normal(1, 5, 6)
    literal, fused = (Attention(heads=2, method=m).init(jax.random.key(3), x) for m in ("literal", "fused"))
    jax.tree.map(np.testing.assert_array_equal, literal, fused)


@pytest.mark.parametrize("sizes", [*SIZES, (32, 256, 256, 16, 16, 2, 4), (1, 4, 4, 64, 64, 2, 64)])
def test_the_count_of_products_is_the_compilers(sizes: tuple[int, ...]) -> None:
    b, t, s, d, e, h, k = sizes

    def literal(x, z, query, key, value, out):  # without the softmax, which both have
        q, u, v = (jnp.einsum("btd,dhk->bthk", *both) for both in ((x, query), (z, key), (z, value)))
        return jnp.einsum("bhts,bshk,hkd->btd", jnp.einsum("bthk,bshk->bhts", q, u), v, out, optimize=False)

    def fused(x, z, query, key, value, out):
        merged, after = jnp.einsum("dhk,ehk->dhe", query, key), jnp.einsum("ehk,hkc->hec", value, out)
        scores = jnp.einsum("bthe,bse->bhts", jnp.einsum("btd,dhe->bthe", x, merged), z)
        return jnp.einsum("bthe,hec->btc", jnp.einsum("bhts,bse->bthe", scores, z), after)

    shapes = [(b, t, d), (b, s, e), (d, h, k), (e, h, k), (e, h, k), (h, k, d)]
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    flops = {f.__name__: jax.jit(f).lower(*arguments).cost_analysis()["flops"] for f in (literal, fused)}
    assert fewest_products(*sizes) == min(flops, key=flops.__getitem__)


def test_nothing_has_no_fewest_products() -> None:
    assert fewest_products(0, 300, 300, 4, 4, 2, 4) == fewest_products(2, 300, 0, 4, 4, 2, 4) == "literal"


@pytest.mark.parametrize(
    ("fields", "t", "chosen"),
    [({}, 64, "fused"), ({}, 2, "literal"), ({"head_width": "split"}, 64, "literal")],
)
def test_auto_is_the_form_with_fewer_products(fields: dict, t: int, chosen: str) -> None:
    x = normal(2, t, 8)
    programs = {}
    for method in ("auto", "literal", "fused"):
        layer = Attention(heads=2, method=method, **fields)
        programs[method] = str(jax.make_jaxpr(layer.apply)(drawn(layer, x), x))
    assert programs["auto"] == programs[chosen]
    assert programs["literal"] != programs["fused"]


@pytest.mark.parametrize("fields", [{"bias": True}, {"dropout": 0.1}, {"rotary": True, "grid": (8, 8)}])
def test_what_stands_in_between_is_not_fused(fields: dict) -> None:
    x, draws = normal(2, 64, 8), {"dropout": jax.random.key(2)}
    with pytest.raises(ValueError, match="method='fused' needs bias=False, rotary=False, dropout=0"):
        Attention(heads=2, method="fused", **fields).init(jax.random.key(0), x)
    literal, auto = (Attention(heads=2, method=m, **fields) for m in ("literal", "auto"))
    params = drawn(literal, x)
    a, b = (
        jax.jit(layer.apply, static_argnames="train")(params, x, train=True, rngs=draws)
        for layer in (literal, auto)
    )
    np.testing.assert_array_equal(a, b)


def test_an_unknown_method() -> None:
    with pytest.raises(ValueError, match="method='merged' is unknown; choose one of auto, literal, fused"):
        Attention(heads=2, method="merged").init(jax.random.key(0), normal(1, 2, 4))
