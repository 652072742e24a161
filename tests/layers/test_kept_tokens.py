"""A text continued token by token gets what the whole network gives it, for every causal mixer."""

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT, array, drawn, normal

from fourier_attn import config, model
from fourier_attn.layers.cache import Cursor
from fourier_attn.layers.embed import POSITIONS

ROOM, PROMPT, D = 9, 4, 8
COUNTS = (3, 1, 4)  # tokens of each prompt
IDS = np.random.default_rng(0).integers(1, 11, (len(COUNTS), ROOM))
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "attention, full": ("attention", {"heads": 2}),
    "attention, split": ("attention", {"heads": 2, "head_width": "split"}),
    "attention, bias": ("attention", {"heads": 2, "bias": True}),
    "circular": ("circular", {"heads": 2}),
    "circular, image": ("circular", {"heads": 2, "shape": (4, 2), "kernel": (3, 1), "boundary": "zero"}),
    "circular, projected": ("circular", {"heads": 2, "combine_heads": "project"}),
    "lambda": ("lambda", {"heads": 2, "k": 4, "u": 2, "context": 3}),
    "lambda, global": ("lambda", {"k": 4, "context": 0}),
    "long_conv": ("long_conv", {}),
    "long_conv, snake": ("long_conv", {"scan": "snake"}),
    "token_conv": ("token_conv", {"taps": 4}),
    "token_conv, longer than the text": ("token_conv", {"taps": 12}),
    "linear": ("linear", {}),
    "linear, bias": ("linear", {"use_features": False, "use_bias": True}),
    "random": ("random", {}),
    "identity": ("identity", {}),
    "fallback": ("fallback", {}),
}


class Fallback(nn.Module):
    """A causal mixer that knows nothing of continued texts: the mean of the tokens up to each."""

    causal: bool = True

    @nn.compact
    def __call__(self, x: jax.Array, *, mask: jax.Array | None = None, train: bool = False) -> jax.Array:
        real = jnp.ones(x.shape[:2]) if mask is None else mask.astype(x.dtype)
        count = jnp.maximum(jnp.cumsum(real, 1), 1)
        return nn.Dense(x.shape[-1], name="out")(jnp.cumsum(x * real[..., None], 1) / count[..., None])


def network(name: str, fields: dict[str, Any], **options: Any) -> model.Model:
    c = config.default(name, others=options.pop("others", ()))
    sizes = {"depth": 2, "d": D, "mlp": 8, "vocab": 11, "positions": ROOM, "head": "features"}
    c.model.update(sizes | {"position_width": 2} | options)
    for part in (c.model.mixer, *c.model.others.values()):
        part.update({key: value for key, value in (("causal", True), ("length", ROOM)) if key in part})
    c.model.mixer.update(fields)
    return model.build(c.model)


def continued(net: model.Model, params: Any) -> Any:
    """The features of each prompt's last token, and of the tokens after it, one by one: (b, steps, d)."""
    counts = array(COUNTS, np.int32)
    mask = jnp.arange(PROMPT)[None] < counts[:, None]
    given = jnp.where(mask, array(IDS[:, :PROMPT], np.int32), 0)
    seen, state = net.apply(params, given, mask=mask, cursor=Cursor(ROOM), mutable="cache")
    first = jnp.take_along_axis(seen["hidden"], counts[:, None, None] - 1, axis=1)

    def step(carry: Any, _: None) -> Any:
        state, place = carry
        token = jnp.take_along_axis(array(IDS, np.int32), place[:, None], axis=1)
        y, state = net.apply(params | state, token, cursor=Cursor(ROOM, place), mutable="cache")
        return (state, place + 1), y["hidden"][:, 0]

    _, others = jax.lax.scan(step, (state, counts), length=ROOM - PROMPT)
    return jnp.concatenate([first, others.swapaxes(0, 1)], axis=1), state


def check(net: model.Model, atol: float) -> dict:
    """Compares with the whole network; returns its parameters."""
    ids = array(IDS, np.int32)
    params = drawn(net, ids)
    (found, _), whole = jax.jit(lambda: (continued(net, params), net.apply(params, ids)["hidden"]))()
    for row, (values, count) in enumerate(zip(found, COUNTS, strict=True)):
        expected = whole[row, count - 1 : count + ROOM - PROMPT]
        np.testing.assert_allclose(values, expected, atol=atol, err_msg=f"prompt of {count} tokens")
    assert np.ptp(np.asarray(found), axis=1).min() > 1e-4
    return params


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model.MIXERS, "fallback", Fallback)


@pytest.mark.parametrize("case", CASES)
def test_a_continued_text_is_the_whole_one(case: str) -> None:
    """Prompts of several lengths in one batch, padded: float32 sums of values near 1, by other ways."""
    check(network(*CASES[case]), 2e-5)


COSTS: dict[str, tuple[str, dict[str, Any], Callable[..., float]]] = {  # formula on the page -> n, d -> it
    "$2 n h d + 4 h d^2$": ("attention", {"heads": 2}, lambda n, d: 4 * n * d + 8 * d**2),
    "$2 n h k + 4 h d k$": (
        "attention",
        {"heads": 4, "head_width": "split"},
        lambda n, d: 2 * n * d + 4 * d**2,
    ),
    "$d (h k + k u + v u) + 3 k v u + h k (v u + r u) + h r u v$": (
        "lambda",
        {"heads": 2, "k": 8, "u": 2, "context": 5},
        lambda n, d: d * (16 + 16 + d) + 3 * 8 * d + 16 * (d + 10) + 10 * d,  # v u = d
    ),
    "$n d + d^2$": ("linear", {}, lambda n, d: n * d + d**2),
    "| `long_conv` | the tokens | $n d$ | $n d$ |": ("long_conv", {}, lambda n, d: n * d),
    "$r d$ for r taps | $r d$ |": ("token_conv", {"taps": 16}, lambda n, d: 16 * d),
}


@pytest.mark.parametrize("formula", COSTS)
def test_the_page_says_how_much_a_step_costs(formula: str) -> None:
    """Multiply-adds are half of the compiler's operations, up to its softmax, norms and sums."""
    assert formula in (ROOT / "docs" / "mixers.md").read_text()
    name, fields, cost = COSTS[formula]
    n, d = 256, 64
    if name in ("lambda", "linear", "long_conv"):
        fields = fields | {"length": n}
    layer = model.MIXERS[name](causal=True, **fields)
    x, prompt = normal(1, 1, d), Cursor(n)
    params = layer.init(jax.random.key(0), x)
    _, cache = layer.apply(params, x, cursor=prompt, mutable="cache")

    def step(cache: Any, x: jax.Array) -> Any:
        return layer.apply({**params, **cache}, x, cursor=Cursor(n, jnp.array([7])), mutable="cache")

    found = jax.jit(step).lower(cache, x).compile().cost_analysis()["flops"] / 2
    assert 0.9 < found / cost(n, d) < 1.3


def test_every_causal_mixer_is_tried() -> None:
    causal = {name for name, layer in model.MIXERS.items() if hasattr(layer, "causal")}
    assert {name for name, _ in CASES.values()} == causal


@pytest.mark.parametrize("position", ["pre", "post"])
@pytest.mark.parametrize("kind", POSITIONS)
def test_positions_are_those_of_the_text(kind: str, position: str) -> None:
    check(network("attention", {"heads": 2}, positions_kind=kind, norm_position=position), 2e-5)


def test_blocks_of_several_mixers() -> None:
    others, layout = ("lambda", "token_conv", "linear"), ("lambda", "attention", "token_conv", "linear")
    options = {"others": others, "layout": layout, "depth": 4, "emb": 6, "types": 2, "norm_position": "pre"}
    check(network("attention", {"heads": 2}, **options), 2e-5)


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("name", ["attention", "lambda"])
def test_bfloat16(name: str) -> None:
    check(network(name, {}, dtype="bfloat16"), 0.1)  # 8 bits of values near 1, over two blocks


@pytest.mark.parametrize("case", CASES)
def test_parameters_are_the_same_with_and_without_a_cursor(case: str) -> None:
    """Initialisation makes nothing but parameters, and a call without a cursor keeps nothing."""
    net, ids = network(*CASES[case]), array(IDS, np.int32)
    variables = jax.eval_shape(net.init, jax.random.key(0), ids)
    assert variables.keys() == {"params"}
    with_cursor = jax.eval_shape(partial(net.init, cursor=Cursor(ROOM)), jax.random.key(0), ids)
    assert with_cursor["params"] == variables["params"]
    _, kept = jax.eval_shape(partial(net.apply, mutable="cache"), variables, ids)
    assert not kept


def test_what_is_kept_has_the_stated_size() -> None:
    """Of full heads the tokens; of a lambda layer and a short filter no more for a longer text."""

    def kept(case: str) -> dict:
        net = network(*CASES[case], depth=1)
        variables = jax.eval_shape(net.init, jax.random.key(0), IDS)
        call = partial(net.apply, cursor=Cursor(ROOM), mutable="cache")
        return jax.eval_shape(call, variables, jnp.ones((2, PROMPT), int))[1]["cache"]["encoder"]["block_0"]

    assert kept("attention, full")["mixer"]["tokens"].shape == (2, ROOM, D)
    assert kept("attention, split")["mixer"]["keys"].shape == (2, ROOM, 2, D // 2)
    assert kept("lambda")["mixer"]["last"].shape == (2, 3, 2, D // 2)
    assert [x.shape for x in kept("lambda")["mixer"]["sums"]] == [(2, 4, 2, D // 2), (2, 4, 2), (2, 4, 2)]
    assert kept("token_conv")["mixer"]["last"].shape == (2, 4, D)
    assert kept("fallback")["tokens"].shape == (2, ROOM, D)


def test_a_mixer_that_is_not_causal_is_refused() -> None:
    net, ids = network("fourier", {}), array(IDS, np.int32)
    variables = drawn(net, ids)
    with pytest.raises(ValueError, match="continues a text, which FourierMixing cannot; use a causal mixer"):
        net.apply(variables, ids, cursor=Cursor(ROOM), mutable="cache")


def test_a_text_longer_than_the_mixer_is_refused() -> None:
    net, ids = network("linear", {"length": ROOM - 1}), array(IDS[:, :PROMPT], np.int32)
    variables = drawn(net, ids)
    with pytest.raises(ValueError, match=f"a sequence of {ROOM} tokens exceeds length={ROOM - 1}"):
        net.apply(variables, ids, cursor=Cursor(ROOM), mutable="cache")


def test_steps_of_the_layers_alone() -> None:
    """A layer takes a cursor by itself, as in a program of one's own."""
    layer, x = model.MIXERS["attention"](heads=2, causal=True), normal(1, 5, D)
    params = drawn(layer, x)
    _, cache = layer.apply(params, x[:, :4], cursor=Cursor(5), mutable="cache")
    place = jnp.array([4])
    y, _ = layer.apply(params | cache, x[:, 4:], cursor=Cursor(5, place), mutable="cache")
    np.testing.assert_allclose(y[:, 0], layer.apply(params, x)[:, 4], atol=2e-6)  # float32
