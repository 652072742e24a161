from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal

from fourier_attn import config
from fourier_attn.layers.embed import TokenEmbedding
from fourier_attn.layers.encoder import Block
from fourier_attn.layers.heads import Head
from fourier_attn.model import MIXERS, build

SOON = ("attention", "fourier", "identity")
SOME = [*SOON, *(pytest.param(name, marks=pytest.mark.slow) for name in MIXERS if name not in SOON)]


def small(mixer: str = "fourier", **changes: object) -> config.Config:
    c = config.default(mixer).model
    c.update({"vocab": 11, "positions": 9, "depth": 2, "d": 8, "mlp": 12, "classes": 3}, **changes)
    return c


def tokens(b: int = 2, t: int = 9) -> jax.Array:
    return jnp.asarray(np.random.default_rng(5).integers(1, 11, (b, t)), jnp.int32)


def filled(network: nn.Module, x: jax.Array) -> dict:
    """Small random parameters, without a program that initialises them."""
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    return jax.tree.map(lambda p: 0.1 * normal(*p.shape, seed=p.size), shapes)


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("name", MIXERS)
@pytest.mark.parametrize(
    ("t", "dtype"),
    [pytest.param(1, "float32", marks=pytest.mark.slow), (6, "float32"), (9, "bfloat16")],
)
def test_mixer_contract(name: str, t: int, dtype: str) -> None:
    """Shape and dtype are kept, with and without a mask; gradients are finite."""
    mixer = MIXERS[name](dtype=jnp.dtype(dtype))
    x = normal(3, t, 8).astype(dtype)
    mask = jnp.arange(t)[None] < jnp.array([[t], [1], [0]])
    params = filled(mixer, x)

    @jax.jit
    def outputs_and_gradients(params: dict, x: jax.Array) -> list:
        def loss(p: dict, x: jax.Array, given: jax.Array | None) -> tuple[jax.Array, jax.Array]:
            y = mixer.apply(p, x, mask=given, train=True)
            return jnp.sum(y.astype(jnp.float32) ** 2), y

        gradient = jax.grad(loss, (0, 1), has_aux=True)
        return [gradient(params, x, given) for given in (None, mask)]

    for grads, y in outputs_and_gradients(params, x):
        assert (y.shape, y.dtype) == (x.shape, x.dtype)
        assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))


@pytest.mark.parametrize("name", MIXERS)
def test_mixer_contract_of_an_empty_batch(name: str) -> None:
    """Nothing in, nothing out, with and without a mask, whatever the shape of the other axes."""
    mixer = MIXERS[name]()
    for t in (5, 6):
        params = jax.tree.map(
            lambda p: jnp.zeros(p.shape, p.dtype),
            jax.eval_shape(mixer.init, jax.random.key(0), normal(1, t, 8)),
        )
        for mask in (None, jnp.ones((0, t), bool)):
            y = jax.eval_shape(partial(mixer.apply, mask=mask), params, jnp.ones((0, t, 8)))
            assert y.shape == (0, t, 8)


@pytest.mark.parametrize("name", SOME)
def test_order_of_tokens_and_jit(name: str) -> None:
    """Only attention and identity do not know the order of tokens; jit changes nothing."""
    mixer, x, order = MIXERS[name](), normal(2, 5, 8), np.array([3, 0, 4, 2, 1])
    params = drawn(mixer, x)
    apply = jax.jit(mixer.apply)
    y = apply(params, x)
    np.testing.assert_allclose(y, mixer.apply(params, x), atol=1e-5)
    changed = np.abs(np.asarray(apply(params, x[:, order])) - np.asarray(y)[:, order]).max()
    assert (changed < 1e-5) == (name in ("attention", "circular", "identity"))


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("name", MIXERS)
def test_low_precision_keeps_parameters_and_logits_in_float32(name: str) -> None:
    low = build(small(name, dtype="bfloat16", depth=1))
    params = jax.eval_shape(low.init, jax.random.key(0), tokens())
    assert {p.dtype for p in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    assert jax.eval_shape(low.apply, params, tokens()).dtype == jnp.float32


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("name", MIXERS)
def test_low_precision_is_near(name: str) -> None:
    low, full = build(small(name, dtype="bfloat16", depth=1)), build(small(name, depth=1))
    params = drawn(full, tokens())
    y, exact = (jax.jit(network.apply)(params, tokens()) for network in (low, full))
    np.testing.assert_allclose(y, exact, atol=0.1)  # bfloat16 has 8 bits


def test_the_articles_classifier_has_their_parameters() -> None:
    """10,405,634 by the arithmetic of the articles' listing, with 512 instead of 50,000 positions."""
    c = config.default("attention")
    with c.unlocked():
        c.model.update({"depth": 6, "d": 128, "mlp": 512, "positions": 512})
    params = jax.eval_shape(build(c.model).init, jax.random.key(0), jnp.zeros((1, 4), jnp.int32))
    assert sum(p.size for p in jax.tree.leaves(params)) == 10_405_634


def test_classifier_is_the_equations() -> None:
    """Embedding, post-norm blocks, mean over real tokens and head, in NumPy and float64."""
    network, ids = build(small("identity", activation="relu")), tokens()
    mask = jnp.arange(9)[None] < jnp.array([[9], [4]])
    params = drawn(network, ids)
    params = jax.tree.map(lambda p: p + 0.1 * np.asarray(normal(*p.shape, seed=2)), params)
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), params["params"])

    def norm(x: np.ndarray, weights: dict) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weights["scale"] + weights["bias"]

    x = p["encoder"]["tokens"]["embedding"][np.asarray(ids)] + p["encoder"]["positions"]
    for block in (p["encoder"]["block_0"], p["encoder"]["block_1"]):
        x = norm(x + x, block["mixer_norm"])
        hidden = np.maximum(x @ block["mlp_in"]["kernel"] + block["mlp_in"]["bias"], 0)
        x = norm(x + hidden @ block["mlp_out"]["kernel"] + block["mlp_out"]["bias"], block["mlp_norm"])
    mean = np.stack([x[0].mean(0), x[1, :4].mean(0)])
    expected = mean @ p["head"]["output"]["kernel"] + p["head"]["output"]["bias"]
    y = jax.jit(network.apply)(params, ids, mask=mask)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_without_masks_the_mean_is_over_all_positions() -> None:
    network, ids = build(small("attention", masked=False)), tokens()
    params, mask = filled(network, ids), jnp.arange(9)[None] < jnp.array([[5], [4]])
    apply = jax.jit(network.apply)
    np.testing.assert_array_equal(apply(params, ids, mask=mask), apply(params, ids))
    masked = jax.jit(build(small("attention")).apply)
    np.testing.assert_array_equal(apply(params, ids), masked(params, ids))
    assert np.abs(apply(params, ids, mask=mask) - masked(params, ids, mask=mask)).max() > 1e-3


def test_initial_values_of_pytorch() -> None:
    """Tables N(0, 1); weights and biases U(-b, b), b^2 = 1 / inputs, so of variance b^2 / 3."""
    c = config.default("attention")
    with c.unlocked():
        c.model.update(
            {"depth": 1, "d": 64, "mlp": 256, "positions": 512, "vocab": 2000, "initializer": "torch"}
        )
        c.model.mixer.heads, c.model.mixer.initializer = 4, "torch"
    params = jax.jit(build(c.model).init)(jax.random.key(0), jnp.zeros((1, 4), jnp.int32))["params"]
    encoder = params["encoder"]
    np.testing.assert_allclose(encoder["tokens"]["embedding"].std(), 1, rtol=0.02)
    np.testing.assert_allclose(encoder["positions"].std(), 1, rtol=0.02)
    block = encoder["block_0"]
    dense = {"mlp_in": (block["mlp_in"], 64), "mlp_out": (block["mlp_out"], 256)}
    dense |= {name: (block["mixer"][name], 64) for name in ("query", "key", "value")}
    dense |= {"out": (block["mixer"]["out"], 256), "head": (params["head"]["output"], 64)}
    for name, (layer, inputs) in dense.items():
        kernel, bound = np.asarray(layer["kernel"]), inputs**-0.5
        assert 0.9 * bound < np.abs(kernel).max() <= bound, name
        np.testing.assert_allclose(kernel.std(), bound / 3**0.5, rtol=0.02 if kernel.size > 1000 else 0.15)
        if "bias" in layer:
            assert 0 < np.abs(layer["bias"]).max() <= bound, name


@pytest.mark.parametrize("name", MIXERS)
def test_content_of_padding_has_no_influence(name: str) -> None:
    network, ids = build(small(name)), tokens()
    params = filled(network, ids)
    mask = np.arange(9)[None] < np.array([[5], [4]])
    other, apply = jnp.asarray(np.where(mask, ids, 0)), jax.jit(network.apply)
    y = apply(params, ids, mask=jnp.asarray(mask))
    np.testing.assert_allclose(y, apply(params, other, mask=jnp.asarray(mask)), atol=1e-5)


def test_blocks_do_not_share_weights() -> None:
    network = build(small("attention"))
    params = jax.jit(network.init)(jax.random.key(0), tokens())["params"]["encoder"]
    first, second = (params[f"block_{i}"]["mixer"]["query"]["kernel"] for i in range(2))
    assert np.abs(first - second).max() > 0.1


def test_dropout_is_for_training() -> None:
    network = build(small(dropout=0.5))
    params = drawn(network, tokens())
    apply = jax.jit(network.apply, static_argnames="train")
    still = [apply(params, tokens()) for _ in range(2)]
    np.testing.assert_array_equal(*still)
    moving = [apply(params, tokens(), train=True, rngs={"dropout": jax.random.key(i)}) for i in range(2)]
    assert np.abs(moving[0] - moving[1]).max() > 1e-3


def test_a_block_takes_a_factory() -> None:
    block, x = Block(MIXERS["identity"], mlp=4), jnp.ones((1, 2, 3))
    assert block.init_with_output(jax.random.key(0), x)[0].shape == x.shape


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": 0}, "model.depth=0 must be at least 1"),
        ({"activation": "swish"}, "model.activation='swish' is unknown"),
        ({"dropout": 1.0}, r"model.dropout=1.0 must lie in \[0, 1\)"),
        ({"dtype": "float16"}, "model.dtype='float16' is unknown"),
        ({"mixer": {"name": "conv"}}, "model.mixer.name='conv' is unknown; choose one of attention"),
        ({"mixer": {"name": "identity", "heads": 2}}, "mixer 'identity' has no heads"),
    ],
)
def test_bad_settings(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(small().to_dict() | changes)


BAD = {"norm_position": "Pre", "activation": "swish", "initializer": "lecun"}


def test_layers_by_themselves_refuse_unknown_options() -> None:
    """A configuration never gets that far; a model of one's own may."""
    key, x, ids = jax.random.key(0), jnp.ones((1, 3, 4)), tokens(1, 3)
    embedding = TokenEmbedding(vocab=11, positions=6, d=8)
    attempts = [
        *((Block(MIXERS["identity"], mlp=4, **{name: bad}), (x,), name, bad) for name, bad in BAD.items()),
        (MIXERS["attention"](initializer="lecun"), (x,), "initializer", "lecun"),
        (Head(2, of="token"), (x, x[:, 0]), "of", "token"),
        (Head(2, initializer="x"), (x, x[:, 0]), "initializer", "x"),
        (embedding.clone(positions_kind="sinusoid"), (ids,), "positions_kind", "sinusoid"),
        (embedding.clone(initializer="x"), (ids,), "initializer", "x"),
        (build(small()).clone(pooling="last"), (ids,), "pooling", "last"),
    ]
    for layer, given, name, bad in attempts:
        with pytest.raises(ValueError, match=f"{name}='{bad}' is unknown; (choose|did you mean)"):
            layer.init(key, *given)


def test_a_sequence_longer_than_the_positions() -> None:
    network = build(small())
    with pytest.raises(ValueError, match="a sequence of 10 tokens exceeds positions=9"):
        network.init(jax.random.key(0), tokens(t=10))
