"""What the chapter on transformers says, as tests named by its equations.

Torralba, Isola and Freeman, Foundations of Computer Vision. Tokens are rows, Z (t, d), as in eq. 1.3.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal

from fourier_attn import config, model
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.attention_weights import attention_weights
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.controls import Identity, Linear
from fourier_attn.layers.encoder import Block
from fourier_attn.layers.heads import mean
from fourier_attn.layers.token_conv import TokenConvolution
from fourier_attn.ops.attention import attention
from fourier_attn.ops.patches import fold, patches
from fourier_attn.ops.positions import places, sines
from fourier_attn.studies.inside.matrix_layers import LAYERS, convolution

ORDER = np.array([3, 0, 5, 1, 4, 2])
ROUNDING = 2e-6  # float32, of values near 1


def made(layer, x: jax.Array, **options) -> tuple[dict, Callable[..., jax.Array]]:
    """A layer's parameters, every one of them random, and what it computes with them."""
    params = drawn(layer, x, **options)
    leaves, tree = jax.tree.flatten(params)
    leaves = [normal(*leaf.shape, seed=seed) * 0.5 for seed, leaf in enumerate(leaves)]
    params = jax.tree.unflatten(tree, leaves)
    apply = jax.jit(layer.apply)
    return params, lambda *inputs, **more: apply(params, *inputs, **more)


def test_eq_1_1_and_1_2_a_combination_of_tokens_weights_whole_vectors() -> None:
    """With tokens of one neuron each it is a combination of neurons, and with more that of each neuron."""
    layer, x = Linear(length=6, use_features=False), normal(1, 6, 3)
    params, apply = made(layer, x)
    w = np.asarray(params["params"]["tokens"], np.float64)
    expected = [sum(w[i, j] * np.asarray(x[0, j], np.float64) for j in range(6)) for i in range(6)]
    np.testing.assert_allclose(apply(x)[0], expected, atol=ROUNDING)
    np.testing.assert_allclose(apply(x)[..., 1:2], apply(x[..., 1:2]), atol=ROUNDING)


def test_eq_1_3_and_1_4_fc_over_token_codes() -> None:
    """Tokens are stacked as rows; a shorter stack uses the first rows and columns of W."""
    layer, x = Linear(length=6, use_features=False, use_bias=True), normal(2, 6, 3)
    params, apply = made(layer, x)
    w, b = (np.asarray(params["params"][name], np.float64) for name in ("tokens", "bias"))
    np.testing.assert_allclose(apply(x), [w @ np.asarray(z, np.float64) + b for z in x], atol=ROUNDING)
    short = [w[:4, :4] @ np.asarray(z[:4], np.float64) + b[:4] for z in x]
    np.testing.assert_allclose(apply(x[:, :4]), short, atol=ROUNDING)


def test_eq_1_5_and_1_6_convolution_over_token_codes() -> None:
    """Each neuron of the codes by itself is convolved with the one filter."""
    x = normal(1, 6, 3)
    params, apply = made(TokenConvolution(taps=3), x)
    w = np.asarray(params["params"]["filter"], np.float64)
    expected = [np.convolve(np.asarray(x[0, :, m], np.float64), w, "same") for m in range(3)]
    np.testing.assert_allclose(apply(x)[0].T, expected, atol=ROUNDING)


def test_eq_1_8_relu_is_the_token_wise_layer_for_tokens_of_one_neuron() -> None:
    x = normal(2, 6, 3)
    params = {"w1": jnp.ones((1, 1)), "b1": jnp.zeros(1), "w2": jnp.ones((1, 1)), "b2": jnp.zeros(1)}
    neurons = LAYERS["MLP"](18).apply(params, x.reshape(2, 18, 1))
    np.testing.assert_array_equal(neurons.reshape(x.shape), jax.nn.relu(x))


def test_eq_1_7_to_1_15_a_per_token_mlp_is_a_cnn_with_kernels_of_size_one() -> None:
    mlp, x = LAYERS["MLP"](6), normal(2, 6, 4)
    params, apply = made(mlp, x)
    first, second = ({"kernel": params[f"w{n}"][None], "bias": params[f"b{n}"]} for n in (1, 2))
    hidden = jax.nn.relu(convolution(1).apply(first, x))
    np.testing.assert_allclose(apply(x), convolution(1).apply(second, hidden), atol=1e-5)  # sums of 16
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    for b, i in np.ndindex(2, 6):  # eq. 1.10-1.12
        a = np.asarray(x[b, i], np.float64) @ p["w1"] + p["b1"]
        np.testing.assert_allclose(apply(x)[b, i], np.maximum(a, 0) @ p["w2"] + p["b2"], atol=1e-5)


def test_eq_1_7_to_1_15_so_is_that_of_a_block() -> None:
    block, x = Block(mixer=Identity, mlp=16, norm_position="pre"), normal(2, 6, 4)
    params, _ = made(block, x)
    _, seen = block.apply(params, x, capture_intermediates=True, mutable=["intermediates"])
    found = {
        name: values["__call__"][0] for name, values in seen["intermediates"].items() if name != "__call__"
    }
    hidden = jax.nn.relu(found["mlp_in"])
    for name, tokens in (("mlp_in", found["mlp_norm"]), ("mlp_out", hidden)):
        p = params["params"][name]
        weights = {"kernel": p["kernel"][None], "bias": p["bias"]}
        np.testing.assert_allclose(found[name], convolution(1).apply(weights, tokens), atol=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_section_1_3_3_patches_are_a_convolution_whose_filters_pick_out_one_pixel(k: int) -> None:
    """Filters k x k x 3 with one 1 each, stride k."""
    images = normal(2, 6, 12, 3)
    b, height, width, channels = images.shape
    tokens = patches(images, k).reshape(b, -1, channels * k * k)
    filters = np.eye(channels * k * k, dtype=np.float32).reshape(k, k, channels, -1)
    axes = ("NHWC", "HWIO", "NHWC")
    convolved = jax.lax.conv_general_dilated(images, filters, (k, k), "VALID", dimension_numbers=axes)
    np.testing.assert_array_equal(convolved.reshape(tokens.shape), tokens)
    assert tokens.shape[1] == height * width // k**2


def test_eq_1_16_and_1_17_attention_is_a_combination_whose_weights_depend_on_the_data() -> None:
    """Those of the fully connected layer do not."""
    x, other = normal(2, 1, 6, 4)
    weights = {}
    for name, layer in (("attention", Attention(heads=1)), ("fc", Linear(length=6, use_features=False))):
        params, apply = made(layer, x)
        weights[name] = [attention_weights(layer, params, z) for z in (x, other)]
    assert np.abs(weights["attention"][0] - weights["attention"][1]).max() > 0.1
    np.testing.assert_array_equal(*weights["fc"])
    np.testing.assert_allclose(apply(x)[0], weights["fc"][0][0, 0] @ x[0], atol=ROUNDING)


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_eq_1_18_to_1_20_query_key_and_value_are_convolutions_of_size_one(name: str) -> None:
    """The exercise of section 1.6.2."""
    layer, x = Attention(heads=2, head_width="split", bias=True), normal(2, 6, 4)
    params, _ = made(layer, x)
    _, seen = layer.apply(params, x, capture_intermediates=True, mutable=["intermediates"])
    projected = seen["intermediates"][name]["__call__"][0].reshape(2, 6, 4)
    p = params["params"][name]
    weights = {"kernel": p["kernel"].reshape(1, 4, 4), "bias": p["bias"].reshape(4)}
    np.testing.assert_allclose(projected, convolution(1).apply(weights, x), atol=ROUNDING)


def test_eq_1_22_to_1_24_a_question_takes_a_weighted_sum_of_the_patches_values() -> None:
    """Another question takes another sum of the values; the order of the patches is nothing to it."""
    layer, question, patches = Attention(heads=1), normal(1, 1, 4), normal(1, 6, 5, seed=1)
    params, apply = made(layer, question, source=patches)
    p = params["params"]
    values = patches[0] @ p["value"]["kernel"][:, 0]
    answers = []
    for asked in (question, -question):
        a = attention_weights(layer, params, asked, source=patches)
        assert a.shape == (1, 1, 1, 6)
        assert float(a.sum()) == pytest.approx(1, abs=1e-6)  # eq. 1.23
        answers.append(apply(asked, source=patches))
        z = a[0, 0] @ values  # eq. 1.24
        expected = z @ p["out"]["kernel"][0] + p["out"]["bias"][None]
        np.testing.assert_allclose(answers[-1][0], expected, atol=1e-5)
    assert np.abs(answers[0] - answers[1]).max() > 0.01
    np.testing.assert_allclose(apply(question, source=patches[:, ORDER]), answers[0], atol=1e-5)


def test_eq_1_21_and_1_25_to_1_29_self_attention() -> None:
    """Queries, keys and values are stacked as rows, as the tokens are."""
    layer, x = Attention(heads=1), normal(1, 6, 4)
    params, apply = made(layer, x)
    p, z = jax.tree.map(lambda a: np.asarray(a, np.float64), params["params"]), np.asarray(x[0], np.float64)
    q, k, v = (z @ p[name]["kernel"][:, 0] for name in ("query", "key", "value"))
    a = np.exp(q @ k.T / np.sqrt(4))
    a /= a.sum(axis=1, keepdims=True)
    expected = a @ v @ p["out"]["kernel"][0] + p["out"]["bias"]
    np.testing.assert_allclose(apply(x)[0], expected, atol=1e-5)


EQUIVARIANT = {
    "attention": Attention(heads=2),
    "circular": CircularAttention(heads=2),
    "MLP": LAYERS["MLP"](6),
    "conv 1": convolution(1),
}
OTHERS = {
    "fc": Linear(length=6, use_features=False),
    "conv 3": convolution(3),
    "token_conv": TokenConvolution(taps=3),
}


@pytest.mark.parametrize("name", [*EQUIVARIANT, *OTHERS])
def test_eq_1_30_layers_that_commute_with_permutations_and_those_that_do_not(name: str) -> None:
    """A translation that wraps is a permutation, so what commutes with all of these commutes with it."""
    x = normal(2, 6, 4)
    _, apply = made((EQUIVARIANT | OTHERS)[name], x)
    deviation = np.abs(apply(x[:, ORDER]) - apply(x)[:, ORDER]).max()
    if name in OTHERS:
        assert deviation > 0.1
    else:
        assert deviation < 1e-5
        np.testing.assert_allclose(apply(jnp.roll(x, 2, 1)), jnp.roll(apply(x), 2, 1), atol=1e-5)


@pytest.mark.parametrize("name", ["conv 3", "token_conv", "fc"])
def test_section_1_5_2_convolutions_commute_with_translations_and_fc_does_not(name: str) -> None:
    """Of a signal with nothing at its ends."""
    x = normal(1, 6, 4) * jnp.array([0.0, 1, 1, 0, 0, 0])[None, :, None]
    _, apply = made(OTHERS[name], x)
    deviation = np.abs(apply(jnp.roll(x, 2, 1)) - jnp.roll(apply(x), 2, 1)).max()
    assert (deviation < ROUNDING) == (name != "fc")


def test_section_1_5_2_pooling_is_invariant_and_relu_equivariant() -> None:
    x = normal(2, 6, 4)
    np.testing.assert_allclose(mean(x[:, ORDER], None), mean(x, None), atol=1e-6)
    np.testing.assert_array_equal(jax.nn.relu(x[:, ORDER]), jax.nn.relu(x)[:, ORDER])


def test_eq_1_31_several_heads_are_attention_layers_side_by_side_and_one_map() -> None:
    layer, x = Attention(heads=3, head_width="split"), normal(2, 5, 6)
    params, apply = made(layer, x)
    p, heads = params["params"], []
    for head in range(3):
        one = [x @ p[name]["kernel"][:, head] for name in ("query", "key", "value")]
        heads.append(attention(*(projected[:, :, None] for projected in one))[:, :, 0])
    z = jnp.concatenate(heads, axis=-1)  # (t, k M_1)
    expected = z @ p["out"]["kernel"].reshape(6, 6) + p["out"]["bias"][None, None]
    np.testing.assert_allclose(apply(x), expected, atol=1e-5)


@pytest.mark.parametrize(("heads", "d"), [(1, 6), (2, 6), (3, 6), (8, 128)])
def test_eq_1_32_split_heads_have_k_m1_equal_to_m2(heads: int, d: int) -> None:
    """W is then square, and as many parameters as one head of full width has are enough for all heads."""

    def shapes(layer: Attention) -> dict:
        return jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros((1, 2, d)))["params"]

    split, one = shapes(Attention(heads=heads, head_width="split")), shapes(Attention(heads=1))
    k, m1, m2 = split["out"]["kernel"].shape
    assert (k, k * m1, m2) == (heads, m2, d)
    assert sum(p.size for p in jax.tree.leaves(split)) == sum(p.size for p in jax.tree.leaves(one))
    full = shapes(Attention(heads=heads, head_width="full"))["out"]["kernel"].shape
    assert full[0] * full[1] == heads * d


def transformer_with(positions: str) -> model.Model:
    """A whole one: embedding, two blocks of attention and MLP, mean, head."""
    c = config.default("attention").model
    c.update({"vocab": 20, "positions": 6, "depth": 2, "d": 8, "mlp": 16, "positions_kind": positions})
    c.mixer.heads = 2
    return model.build(c)


@pytest.fixture(scope="module")
def transformer() -> tuple[model.Model, dict]:
    network = transformer_with("learned")
    params = drawn(network, jnp.zeros((1, 6), jnp.int32))["params"]
    encoder = params["encoder"]
    # Of the size that trained ones have; at the start they are small.
    encoder["positions"], encoder["tokens"]["embedding"] = normal(6, 8), normal(20, 8, seed=1)
    return network, params


@pytest.mark.parametrize("positions", ["none", "learned"])
def test_section_1_5_2_the_transformer_commutes_with_permutations_unless_positions_are_added(
    transformer: tuple, positions: str
) -> None:
    """Without positions: the output of its blocks is permuted with the tokens, and its answer is the same."""
    network, params = transformer
    if positions == "none":
        network = transformer_with("none")
        rest = {name: value for name, value in params["encoder"].items() if name != "positions"}
        params = params | {"encoder": rest}
    ids = jnp.array([[3, 1, 4, 1, 5, 9]])
    blocks, answer = [], []
    for tokens in (ids, ids[:, ORDER]):
        encoded = jax.jit(network.encoder().apply)({"params": params["encoder"]}, tokens)[0]
        blocks.append(np.asarray(encoded[0]))
        answer.append(np.asarray(jax.jit(network.apply)({"params": params}, tokens)))
    deviations = [np.abs(blocks[1] - blocks[0][ORDER]).max(), np.abs(answer[1] - answer[0]).max()]
    assert max(deviations) < 1e-5 if positions == "none" else min(deviations) > 0.01


@pytest.mark.parametrize("positions", ["none", "sinusoidal"])
def test_section_1_5_2_the_transformer_of_images_commutes_with_permutations_of_its_patches(
    positions: str,
) -> None:
    """Patches that change places in the image: without positions the blocks' tokens do, too."""
    c = config.default("attention").model
    c.update({"inputs": "patches", "image": (8, 12, 3), "patch": 4, "depth": 2, "d": 8, "mlp": 16})
    c.positions_kind, c.mixer.heads = positions, 2
    network = model.build(c)
    pixels = jnp.asarray(np.random.default_rng(0).integers(0, 256, (2, 8, 12, 3), np.uint8))
    cut = patches(pixels, 4)
    permuted = jnp.rint(fold(cut[:, ORDER].astype(jnp.float32), (8, 12), 4)).astype(jnp.uint8)
    np.testing.assert_array_equal(patches(permuted, 4), cut[:, ORDER])
    params = drawn(network, pixels)["params"]
    encode, answer = jax.jit(network.encoder().apply), jax.jit(network.apply)
    blocks = [encode({"params": params["encoder"]}, images)[0] for images in (pixels, permuted)]
    answers = [answer({"params": params}, images) for images in (pixels, permuted)]
    deviations = [np.abs(blocks[1] - blocks[0][:, ORDER]).max(), np.abs(answers[1] - answers[0]).max()]
    assert max(deviations) < 1e-5 if positions == "none" else min(deviations) > 0.01


def test_eq_1_33_and_1_34_with_sinusoids_of_the_place_attention_is_not_equivariant() -> None:
    """Codes of y and x stand behind the tokens of a 2 x 3 grid, and stay where they are."""
    code = sines(places(6, (2, 3)), 6, base=100.0)
    waves = 10.0 ** -np.arange(3)  # 1 / B^p, B = 10, P = 2
    axes = np.divmod(np.arange(6), 3)
    np.testing.assert_allclose(
        code, np.concatenate([np.sin(axis[:, None] * waves) for axis in axes], axis=1), atol=1e-6
    )
    assert np.unique(code.round(6), axis=0).shape == (6, 6)  # no two places share one
    tokens = normal(1, 6, 4)
    layer = Attention(heads=1)

    def placed(z: jax.Array) -> jax.Array:
        return jnp.concatenate([z, jnp.asarray(code, jnp.float32)[None]], axis=-1)

    _, apply = made(layer, placed(tokens))
    deviation = apply(placed(tokens[:, ORDER])) - apply(placed(tokens))[:, ORDER]
    assert np.abs(deviation).max() > 0.1
    moved = apply(placed(tokens)[:, ORDER])  # the codes with them: a permutation again
    np.testing.assert_allclose(moved, apply(placed(tokens))[:, ORDER], atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "parameters", "any_length"),
    [
        (Linear(length=9, use_features=False), 9**2, False),
        (TokenConvolution(taps=5), 5, True),
        (Attention(heads=1), 3 * 4**2 + 4**2 + 4, True),  # query, key, value; and the output map and bias
    ],
)
def test_table_1_8_parameters_and_lengths(layer, parameters: int, any_length: bool) -> None:
    params, apply = made(layer, normal(1, 9, 4))
    assert sum(p.size for p in jax.tree.leaves(params)) == parameters
    if any_length:
        assert apply(normal(1, 13, 4)).shape == (1, 13, 4)
    else:
        with pytest.raises(ValueError, match="a sequence of 13 tokens exceeds length=9"):
            apply(normal(1, 13, 4))


@pytest.mark.parametrize("name", ["fc", "conv 3", "token_conv"])
def test_section_1_8_fc_and_convolution_are_one_matrix_and_a_bias_for_all_inputs(name: str) -> None:
    x, other = normal(2, 1, 6, 4)
    _, apply = made(OTHERS[name], x)
    bias = apply(jnp.zeros_like(x))
    matrix = jax.jacobian(lambda z: apply(z).ravel())(x).reshape(24, 24)
    for z in (x, other):
        expected = matrix @ z.ravel() + bias.ravel()
        np.testing.assert_allclose(apply(z).ravel(), expected, atol=1e-5)
