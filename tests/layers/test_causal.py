"""Causal mixers: no later token reaches an earlier one, through the whole network."""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal

from fourier_attn import config, model
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.attention_weights import WEIGHTS, attention_weights
from fourier_attn.layers.causality import check_causal
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.controls import Linear
from fourier_attn.layers.heads import HEADS, Head, NextToken
from fourier_attn.layers.token_conv import TokenConvolution
from fourier_attn.ops.attention import attention, fused_attention, softmax_weights
from fourier_attn.ops.token_conv import token_convolve
from fourier_attn.optics import Engine

T, D, REAL = 7, 8, 5
# Every mixer with a causal form, and the ways in which it can be computed.
CAUSAL: dict[str, tuple[str, dict[str, Any]]] = {
    "attention": ("attention", {"heads": 2, "method": "literal"}),
    "attention, fused": ("attention", {"heads": 2, "method": "fused"}),
    "circular": ("circular", {"heads": 2, "method": "literal"}),
    "circular, fused": ("circular", {"heads": 2, "method": "fused"}),
    "circular, zero boundary": ("circular", {"heads": 2, "boundary": "zero", "method": "fused"}),
    "lambda": ("lambda", {"k": 4}),
    "lambda, global": ("lambda", {"k": 4, "context": 0, "method": "fft"}),
    "long_conv": ("long_conv", {}),
    "token_conv": ("token_conv", {"taps": 4}),
    "linear": ("linear", {}),
    "random": ("random", {}),
}
TRANSFORMED = ("lambda, global", "long_conv")  # by a Fourier transform over all tokens


def network(name: str, fields: dict[str, Any], **options: Any) -> model.Model:
    c = config.default(name)
    c.model.update({"depth": 2, "d": D, "mlp": 8, "vocab": 11, "positions": T, **options})
    c.model.mixer.update({"causal": True} | fields | ({"length": T} if "length" in c.model.mixer else {}))
    return model.build(c.model)


class Given(nn.Module):
    """An embedding whose inputs are the vectors themselves."""

    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(self, inputs: jax.Array, *, types: None, train: bool) -> tuple[jax.Array, None]:
        return inputs, None


@pytest.mark.parametrize("position", ["pre", "post"])
@pytest.mark.parametrize("case", CAUSAL)
def test_no_gradient_from_a_later_token(case: str, position: str) -> None:
    """d y[i] / d x[j] through two blocks is 0 for j > i, and some earlier token counts; with padding, too."""
    encoder = network(*CAUSAL[case], norm_position=position).encoder(embed=Given)
    x, along = normal(1, T, D), normal(D, seed=1)
    params = drawn(encoder, x)

    def output(x: jax.Array, mask: jax.Array) -> jax.Array:
        return (encoder.apply(params, x, mask=mask)[0][0] * along[None]).sum(-1)

    jacobian = jax.jit(jax.jacrev(output))
    for real in (T, REAL):
        slopes = np.abs(jacobian(x, jnp.arange(T)[None] < real)[:, 0]).max(-1)
        assert np.triu(slopes, 1).max() <= 1e-6 * slopes.max()  # rounding of transforms; else it is 0
        assert (
            np.tril(slopes[:real, :real], -1)[1:].max(-1).min() > 1e-4
        )  # each but the first sees one before


@pytest.mark.parametrize("case", CAUSAL)
def test_later_tokens_change_nothing(case: str) -> None:
    """With the embedding and positions; tokens after i are others, fewer, or padding.

    Without transforms the outputs are equal. Two blocks with transforms round by some units in the last place
    of the largest output, and so do programs of another length.
    """
    encoder = network(*CAUSAL[case]).encoder()
    ids, i = jnp.array([[3, 1, 4, 1, 5, 9, 2]]), 3
    params = drawn(encoder, ids)
    apply = jax.jit(lambda ids, mask: encoder.apply(params, ids, mask=mask)[0][:, : i + 1])
    mask = jnp.ones((1, T), bool)
    y = apply(ids, mask)
    rounding = 32 * jnp.finfo(jnp.float32).eps * jnp.abs(y).max()
    transformed = case in TRANSFORMED
    for others, real in ((ids.at[:, i + 1 :].set(8), mask), (ids, jnp.arange(T)[None] <= i)):
        np.testing.assert_allclose(apply(others, real), y, rtol=0, atol=rounding if transformed else 0)
    np.testing.assert_allclose(apply(ids[:, : i + 1], mask[:, : i + 1]), y, rtol=0, atol=rounding)
    assert np.abs(apply(ids.at[:, 0].set(8), mask) - y)[:, i].max() > 1e-4


# Ids: one document, several with the separator 2 between them, and one with padding 0.
WINDOWS = ([3, 1, 4, 5, 9, 6, 7], [3, 1, 2, 5, 2, 6, 2], [3, 2, 4, 5, 9, 0, 0])
UNUSED = 10  # no input, so that its logit depends on the tied table's other rows through the inputs alone


def seen(case: str, **changes: Any) -> np.ndarray:
    """|d logit[w, i] / d E[v]| (w, i, v) of a next-token network, from its token table to its logits."""
    name, fields = CAUSAL[case]
    net, ids = network(name, fields | changes, head="lm", norm_position="pre"), jnp.array(WINDOWS)
    params = drawn(net, ids)
    mask = ids != 0

    def logit(table: jax.Array) -> jax.Array:
        rest = params["params"]
        encoder = rest["encoder"] | {"tokens": {"embedding": table}}
        return net.apply({"params": rest | {"encoder": encoder}}, ids, mask=mask)[..., UNUSED]

    slopes = jax.jit(jax.jacrev(logit))(params["params"]["encoder"]["tokens"]["embedding"])
    return np.abs(slopes).max(-1)


def leak(slopes: np.ndarray) -> float:
    """The largest slope towards a token that comes only later, of any logit of a real token."""
    first = np.full(slopes.shape[::2], T)
    for row, ids in zip(first, WINDOWS, strict=True):
        for place, token in reversed(list(enumerate(ids))):
            row[token] = place
    later = first[:, None] > np.arange(T)[:, None]
    real = (np.array(WINDOWS) != 0)[..., None]
    return float((slopes * (later & real))[..., :UNUSED].max() / slopes.max())


@pytest.mark.parametrize("case", CAUSAL)
def test_no_logit_sees_a_later_token(case: str) -> None:
    """From the embedding to the logits; with padding, and across documents, whose earlier tokens count."""
    slopes = seen(case)
    assert leak(slopes) <= 1e-6  # rounding of transforms; else it is 0
    for w, i in ((0, 1), (0, 6), (1, 3), (1, 5), (2, 4)):
        assert slopes[w, i, list(dict.fromkeys(WINDOWS[w][:i]))].max() > 1e-4


def test_the_gradient_shows_a_mixer_that_is_not_causal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NextToken, "causal", False)  # or the network would be refused
    assert leak(seen("attention", causal=False)) > 1e-3


def oracle(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """One query at a time in float64; where it sees padding alone, the plain average of that."""
    y = np.zeros((*q.shape[:3], v.shape[-1]))
    for b, i, h in np.ndindex(q.shape[:3]):
        scores, real = k[b, : i + 1, h] @ q[b, i, h] / np.sqrt(q.shape[-1]), mask[b, : i + 1]
        weights = np.where(real, np.exp(scores), 0.0) if real.any() else np.ones(i + 1)
        y[b, i, h] = weights / weights.sum() @ v[b, : i + 1, h]
    return y


@pytest.mark.parametrize("t", [1, 6, 520])
def test_causal_attention_is_the_definition(t: int) -> None:
    """Padding at either end; 520 tokens are two parts of the form in blocks."""
    q, k, v = (normal(2, t, 2, 3, seed=i) for i in range(3))
    mask = np.stack([np.arange(t) < max(1, t - 2), np.arange(t) >= t // 2])
    q64, k64, v64 = (np.asarray(x, np.float64) for x in (q, k, v))
    expected = oracle(q64, k64, v64, mask)
    options = {"mask": jnp.asarray(mask), "causal": True}
    y = jax.jit(partial(attention, **options))(q, k, v)
    np.testing.assert_allclose(y, expected, atol=3e-6)  # float32 rounding of values near 1
    weights = softmax_weights(q, k, **options)
    np.testing.assert_allclose(jnp.einsum("bhts,bshk->bthk", weights, v), expected, atol=3e-6)


@pytest.mark.parametrize("t", [6, 520])
def test_its_gradient_is_that_of_the_weights_written_out(t: int) -> None:
    tokens = tuple(normal(2, t, 1, 3, seed=i) for i in range(3))
    mask = jnp.stack([jnp.arange(t) < t - 2, jnp.arange(t) >= t // 2])

    def blocks(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return attention(q, k, v, mask=mask, causal=True)

    def whole(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.einsum("bhts,bshk->bthk", softmax_weights(q, k, mask=mask, causal=True), v)

    def slopes(function: Any) -> Any:
        return jax.grad(lambda *a: jnp.sum(jnp.sin(function(*a))), (0, 1, 2))(*tokens)

    found, expected = jax.jit(lambda: (slopes(blocks), slopes(whole)))()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)  # sums of float32 numbers near 1


@pytest.mark.parametrize("t", [6, 520])
def test_fused_causal_attention_is_the_literal_one(t: int) -> None:
    """Values and derivatives; 8 x 520 x 520 scores are computed in blocks on CPUs."""
    x, h = normal(1, t, 4), 8
    query, key, value = kernels = [normal(4, h, 4, seed=i) / 2 for i in range(3)]
    out, mask = normal(h, 4, 4, seed=3), jnp.arange(t)[None] < t - 2

    def literal(x: jax.Array) -> jax.Array:
        q, k, v = (jnp.einsum("btd,dhk->bthk", x, kernel) for kernel in kernels)
        return jnp.einsum("bthk,hkc->btc", attention(q, k, v, mask=mask, causal=True), out)

    def fused(x: jax.Array) -> jax.Array:
        return fused_attention(x, x, query, key, value, out, mask=mask, causal=True)

    def both(function: Any) -> Any:
        return function(x), jax.grad(lambda x: jnp.mean(jnp.sin(function(x))))(x)

    found, expected = jax.jit(lambda: (both(fused), both(literal)))()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), found, expected)


def test_dropped_weights_of_causal_attention_belong_to_their_tokens() -> None:
    """One-hot values show the weights; the two parts of a sequence have draws of their own."""
    t = 512
    q, v = jnp.zeros((1, t, 1, t)), jnp.eye(t)[None, :, None]
    y = attention(q, q, v, causal=True, dropout=0.5, dropout_key=jax.random.key(0))
    kept = np.asarray(y)[0, :, 0] > 0
    assert not np.triu(kept, 1).any()
    assert np.tril(kept).sum() / (t * (t + 1) / 2) == pytest.approx(0.5, abs=0.02)
    seen, half = np.tri(t, dtype=bool), t // 2
    draws, shown = (np.stack([x[:half, :half].ravel(), x[half:].ravel()[: half**2]]) for x in (kept, seen))
    assert (draws[0] == draws[1])[shown.all(0)].mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("t", "r"), [(1, 1), (5, 2), (5, 3), (4, 9)])
def test_causal_token_convolution_is_the_definition(t: int, r: int) -> None:
    x, w, expected = normal(2, t, 3), normal(r, seed=1), np.zeros((2, t, 3))
    for i in range(t):
        for k in range(min(r, i + 1)):
            expected[:, i] += np.float64(w[k]) * np.asarray(x[:, i - k], np.float64)
    np.testing.assert_allclose(token_convolve(x, w, causal=True), expected, atol=2e-6)  # float32


@pytest.mark.parametrize(
    "layer",
    [
        Attention(heads=2, causal=True),
        CircularAttention(heads=2, causal=True),
        Linear(length=T, use_features=False, causal=True),
        TokenConvolution(causal=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_weights_of_causal_layers_have_no_later_tokens(layer: nn.Module) -> None:
    assert type(layer) in WEIGHTS
    x = normal(1, T, D)
    weights = np.asarray(attention_weights(layer, drawn(layer, x), x))
    assert not np.triu(weights, 1).any()
    assert np.tril(weights, -1).any()


def test_a_causal_token_convolution_begins_as_the_identity() -> None:
    layer, x = TokenConvolution(taps=4, causal=True), normal(1, T, D)
    np.testing.assert_allclose(layer.init_with_output(jax.random.key(0), x)[0], x, atol=0.4)


def test_mixers_say_whether_they_are_causal() -> None:
    never = {"fourier", "global_filter", "afno"}
    for name in model.MIXERS:
        fields = dict(config.default(name).model.mixer)
        assert model.is_causal(fields) == (name == "identity")
        if name in never:
            with pytest.raises(
                ValueError, match=f"mixer '{name}' has no option causal; choose one of attention"
            ):
                model.is_causal(fields | {"causal": True})
        elif name != "identity":
            assert model.is_causal(fields | {"causal": True})
    assert {name for name, _ in CAUSAL.values()} | {"identity"} | never == set(model.MIXERS)


def test_a_causal_head_needs_causal_mixers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Causal(Head):
        causal = True

    monkeypatch.setitem(HEADS, "tokens", Causal)
    network("attention", {}, head="tokens")
    c = config.default("identity")
    c.model.head = "tokens"
    model.build(c.model)
    for name, cure in (("attention", "set model.mixer.causal=True"), ("fourier", "choose one of attention")):
        c = config.default(name)
        c.model.head = "tokens"
        with pytest.raises(
            ValueError, match=f"model.head='tokens' needs causal mixers, not '{name}'; {cure}"
        ):
            model.build(c.model)


def test_answers_in_the_input_need_causal_mixers() -> None:
    """Of every block: one that sees the next token would read the answer there."""
    c = config.default("attention", "recall", others=("token_conv",))
    c.model.layout = ("token_conv", "attention")
    c.data.causal = True
    for part, cure in ((c.model.others.token_conv, "others.token_conv"), (c.model.mixer, "mixer")):
        with pytest.raises(ValueError, match=rf"data.causal=True needs .*; set model.{cure}.causal=True"):
            config.check(c)
        part.causal = True
    config.check(c)
    with pytest.raises(ValueError, match=r"data.causal=True needs causal mixers, not 'fourier'; choose one"):
        config.check(config.with_values(config.default("fourier", "recall"), {"data.causal": True}))


@pytest.mark.parametrize("name", ["attention", "lambda", "long_conv", "token_conv"])
def test_a_grid_has_no_order(name: str) -> None:
    with pytest.raises(ValueError, match=r"causal=True needs a sequence, not grid=\(2, 3\)"):
        model.MIXERS[name](causal=True, grid=(2, 3)).init(jax.random.key(0), normal(1, 6, 8))


def test_patches_have_no_order() -> None:
    c = config.default("circular", "shapes")
    c.model.update({"inputs": "patches", "image": (8, 8, 1)})
    c.model.mixer.causal = True
    with pytest.raises(ValueError, match="causal=True of mixer 'circular' needs a sequence, not patches"):
        model.build(c.model)


def test_what_causal_does_not_go_with() -> None:
    x = normal(1, 4, 8)
    with pytest.raises(ValueError, match="causal=True knows no order of x and a source"):
        Attention(causal=True).init(jax.random.key(0), x, source=normal(1, 3, 8))
    with pytest.raises(ValueError, match="causal=True has no optical form; use engine=None"):
        check_causal(CircularAttention(causal=True, engine=Engine()))
    q = normal(1, 4, 1, 2)
    with pytest.raises(
        ValueError, match="causal=True needs as many source tokens as queries, not s=3 for t=4"
    ):
        attention(q, q[:, :3], q[:, :3], causal=True)
