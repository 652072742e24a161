"""The weights that layers give to tokens: those with which the layer's output is an average of its values."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal

from fourier_attn.layers.attention import Attention
from fourier_attn.layers.attention_weights import WEIGHTS, attention_weights
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.controls import Identity, Linear, Random
from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.token_conv import TokenConvolution
from fourier_attn.ops.circular import circular_correlate
from fourier_attn.optics.presets import preset

weigh = jax.jit(attention_weights, static_argnums=0)
REAL = np.arange(6)[None] < np.array([[6], [4]])  # two examples of six tokens, the second with padding


def attention_output(weights: np.ndarray, p: dict, x: np.ndarray) -> np.ndarray:
    v = np.einsum("bsd,dhk->bshk", x, p["value"]["kernel"])
    return np.einsum("bhts,bshk,hkd->btd", weights, v, p["out"]["kernel"]) + p["out"]["bias"]


def circular_output(weights: np.ndarray, p: dict, x: np.ndarray) -> np.ndarray:
    v = circular_correlate(jnp.asarray(x, jnp.float32), jnp.asarray(p["value"], jnp.float32))
    return np.einsum("bhts,bshk->btk", weights, v)


def image_output(weights: np.ndarray, p: dict, x: np.ndarray) -> np.ndarray:
    kernel = jnp.asarray(p["value"], jnp.float32)
    v = circular_correlate(jnp.asarray(x, jnp.float32), kernel, shape=(4, 2), boundary="valid")
    return np.einsum("bhts,bshk,hkd->btd", weights, v, p["out"]["kernel"]) + p["out"]["bias"]


def lambda_output(weights: np.ndarray, p: dict, x: np.ndarray) -> np.ndarray:
    """The u matrices of a head stand one after the other; each has values of its own."""
    v = np.einsum("bsd,dvu->bsvu", x, p["value"]["kernel"])
    b, t, width, u = v.shape
    if "value_norm" in p:
        v = v.reshape(b, t, -1)
        v = v - v.mean(-1, keepdims=True)
        v = v / np.sqrt((v**2).mean(-1, keepdims=True) + 1e-5) * p["value_norm"]["scale"]
        v = v.reshape(b, t, width, u)
    y = np.einsum("bhuts,bsvu->bthv", weights.reshape(b, -1, u, t, t), v)
    return y.reshape(b, t, -1)


def linear_output(weights: np.ndarray, p: dict, x: np.ndarray) -> np.ndarray:
    return np.einsum("bhts,bsd,de->bte", weights, x, p["features"])


def random_output(weights: np.ndarray, p: dict, x: np.ndarray) -> np.ndarray:
    return np.einsum("bhts,bsd,de->bte", weights, x, Random(length=8).matrices(0, 8)[1])


def plain_output(weights: np.ndarray, p: dict, x: np.ndarray) -> np.ndarray:
    return np.einsum("bhts,bsd->btd", weights, x)


SOFTMAX = [
    (Attention(heads=2), attention_output),
    (Attention(heads=2, head_width="split"), attention_output),
    (Attention(heads=2, grid=(2, 3), rotary=True), attention_output),
    (CircularAttention(heads=3, kernel=(5,)), circular_output),
    (
        CircularAttention(heads=2, shape=(4, 2), kernel=(2, 1), boundary="valid", combine_heads="project"),
        image_output,
    ),
]
OTHERS = [
    (LambdaLayer(heads=2, k=3), lambda_output),
    (LambdaLayer(heads=2, k=3, context=0, length=9, norm="none"), lambda_output),
    (LambdaLayer(heads=1, k=3, context=0, length=9, table="pairs"), lambda_output),
    (LambdaLayer(heads=2, k=3, context=0, length=9, causal=True), lambda_output),
    (LambdaLayer(heads=2, k=3, context=3, grid=(2, 3)), lambda_output),
    (LambdaLayer(heads=2, k=3, u=3), lambda_output),
    (LambdaLayer(heads=2, k=3, u=2, context=0, length=9, causal=True, norm="none"), lambda_output),
    (LambdaLayer(heads=2, k=3, u=2, context=3, grid=(2, 3)), lambda_output),
    (Linear(length=8), linear_output),
    (Linear(length=8, padding="tokens"), linear_output),
    (Random(length=8), random_output),
    (LambdaLayer(heads=2, k=3, context=3, grid=(4, 6)), lambda_output),  # of a larger image
    (TokenConvolution(taps=3), plain_output),
    (TokenConvolution(taps=3, grid=(2, 3)), plain_output),
    (Identity(), plain_output),
]


@pytest.mark.parametrize(("layer", "output"), SOFTMAX + OTHERS)
def test_applied_to_the_values_they_give_the_output(layer: nn.Module, output) -> None:
    """And rows of a softmax sum to one, and padding has no column where it is left out."""
    x, mask = normal(2, 6, 8), jnp.asarray(REAL)
    variables = drawn(layer, x)
    weights = weigh(layer, variables, x, mask)
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), variables.get("params", {}))
    found = output(np.asarray(weights, np.float64), p, np.asarray(x, np.float64))
    apply = jax.jit(layer.apply)
    np.testing.assert_allclose(found, apply(variables, x, mask=mask), atol=2e-5)  # float32, values to 10
    assert np.abs(found - apply(variables, x[:, ::-1], mask=mask)).max() > 1e-3
    if (layer, output) in SOFTMAX:
        assert weights.shape == (2, layer.heads, 6, 6)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
        assert (weights[1, ..., :4] > 0).all()
        assert (weights[0] > 0).all()
    if getattr(layer, "padding", "zero") == "zero" and not isinstance(layer, Identity):
        assert (weights[1, ..., 4:] == 0).all()
    assert np.abs(weights[0, ..., 4:]).max() > 0


def test_a_question_and_its_source() -> None:
    """One row for each query, one column for each of the source's tokens, the mask being the source's."""
    layer, x, source = Attention(heads=2), normal(2, 1, 8), normal(2, 6, 5, seed=1)
    variables = drawn(layer, x, source=source)
    weights = weigh(layer, variables, x, jnp.asarray(REAL), source)
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), variables["params"])
    q, k = (np.einsum("btd,dhk->bthk", y, p[name]["kernel"]) for name, y in (("query", x), ("key", source)))
    expected = np.where(REAL[:, None, None], np.exp(np.einsum("bthk,bshk->bhts", q, k) / np.sqrt(8)), 0.0)
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    found = attention_output(np.asarray(weights), p, np.asarray(source))
    y = jax.jit(layer.apply)(variables, x, source=source, mask=jnp.asarray(REAL))
    np.testing.assert_allclose(found, y, atol=5e-6)


def test_a_plain_call_computes_no_weights() -> None:
    """Nor does it return any collection besides the parameters."""
    layer, x = Attention(heads=2), normal(1, 3, 4)
    variables = drawn(layer, x)
    assert set(variables) == {"params"}
    plain = str(jax.make_jaxpr(lambda v: layer.apply(v, x))(variables))
    asked = str(jax.make_jaxpr(lambda v: layer.apply(v, x, mutable=["intermediates"]))(variables))
    assert asked.count(" exp ") == plain.count(" exp ") + 1


def test_layers_without_such_a_matrix_are_named() -> None:
    x = normal(1, 4, 8)
    with pytest.raises(ValueError, match="FourierMixing has no matrix of weights over tokens; choose one"):
        attention_weights(FourierMixing(), {}, x)
    with pytest.raises(ValueError, match="Identity has no source"):
        attention_weights(Identity(), {}, x, None, x)


def test_an_engine_is_refused() -> None:
    for layer in (CircularAttention(engine=preset("ideal")), LambdaLayer(eval_engine=preset("ideal"))):
        with pytest.raises(ValueError, match="has an engine; ask the exact layer"):
            attention_weights(layer, {}, normal(1, 4, 8))


def test_every_kind_has_been_tested() -> None:
    assert {type(layer) for layer, _ in SOFTMAX + OTHERS} == set(WEIGHTS)
