import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal

from fourier_attn.layers.controls import Linear, Random


def test_linear_is_two_matrices() -> None:
    layer, x = Linear(length=7), normal(2, 5, 4)
    p = drawn(layer, x)["params"]
    assert {name: value.shape for name, value in p.items()} == {"tokens": (7, 7), "features": (4, 4)}
    mask = jnp.array([[True] * 5, [True] * 3 + [False] * 2])
    real = np.asarray(x, np.float64) * np.asarray(mask)[..., None]
    expected = np.einsum("ij,bjd,de->bie", p["tokens"][:5, :5], real, p["features"])
    np.testing.assert_allclose(jax.jit(layer.apply)({"params": p}, x, mask=mask), expected, atol=1e-6)


def test_the_fully_connected_layer_over_tokens() -> None:
    """y[i] = sum_j T[i, j] x[j] + b[i], of the places that there are; padding has no influence."""
    layer, x = Linear(length=7, use_features=False, use_bias=True), normal(2, 5, 4)
    p = jax.jit(layer.init)(jax.random.key(1), x)["params"]
    assert {name: value.shape for name, value in p.items()} == {"tokens": (7, 7), "bias": (7, 4)}
    assert not p["bias"].any()
    p, expected = {"tokens": p["tokens"], "bias": normal(7, 4, seed=1)}, np.zeros((2, 5, 4))
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    for b, i in np.ndindex(2, 5):
        expected[b, i] = p["bias"][i]
        for j in np.flatnonzero(mask[b]):
            expected[b, i] += np.float64(p["tokens"][i, j]) * np.asarray(x[b, j], np.float64)
    y = jax.jit(layer.apply)({"params": p}, x, mask=jnp.asarray(mask))
    np.testing.assert_allclose(y, expected, atol=1e-6)


def test_random_matrices_are_fixed_and_no_parameters() -> None:
    x = jnp.eye(6)[None]
    assert jax.jit(Random(length=6).init)(jax.random.key(0), x) == {}
    y = jax.jit(Random(length=6).apply)({}, x)
    np.testing.assert_array_equal(jax.jit(Random(length=6).apply)({}, x), y)
    assert np.abs(Random(length=6, seed=1).apply({}, x) - y).max() > 0.1
    long = jax.jit(Random(length=400).apply)({}, jnp.eye(400)[None])
    assert float(long.std()) == pytest.approx(400**-0.5, rel=0.02)  # variance 1 / length of T F


@pytest.mark.parametrize("layer", [Linear(length=4), Random(length=4)])
def test_a_longer_sequence_is_refused(layer: Linear | Random) -> None:
    with pytest.raises(ValueError, match="a sequence of 5 tokens exceeds length=4"):
        layer.init(jax.random.key(0), normal(1, 5, 2))


def test_random_matrices_are_drawn_as_the_papers_code_draws_them() -> None:
    """Written out: old keys, one split for each block, whatever JAX's present default of threefry is."""
    with jax.threefry_partitionable(False):
        key = jax.random.PRNGKey(3)
        for _ in range(3):
            key, mixing = jax.random.split(key)
        hidden, sequence = jax.random.split(mixing)
        draw = jax.nn.initializers.lecun_normal()
        tokens, features = draw(sequence, (5, 5)), draw(hidden, (4, 4))
    for partitionable in (True, False):
        with jax.threefry_partitionable(partitionable):
            found = jax.jit(lambda: Random(length=5, seed=3).matrices(2, 4))()
            np.testing.assert_array_equal(found[0], tokens)
            np.testing.assert_array_equal(found[1], features)


def test_each_block_has_its_own_random_matrices() -> None:
    class Two(nn.Module):
        @nn.compact
        def __call__(self, x):
            return [Random(length=6, name=f"block_{n}")(x) for n in range(2)]

    first, second = Two().apply({}, normal(1, 6, 4))
    assert np.abs(first - second).max() > 0.1
    np.testing.assert_allclose(first, jax.jit(Random(length=6).apply)({}, normal(1, 6, 4)), atol=1e-6)


def test_random_matrices_in_a_model_of_ones_own_need_a_number() -> None:
    """Without one all layers of such a model would have the same."""

    class Mine(nn.Module):
        numbers: tuple

        @nn.compact
        def __call__(self, x):
            return [Random(length=6, name=f"mix_{i}", block_number=n)(x) for i, n in enumerate(self.numbers)]

    x = normal(1, 6, 4)
    with pytest.raises(ValueError, match="Random at 'mix_0' is in no block_N, .*; give block_number"):
        Mine((None,)).apply({}, x)
    with pytest.raises(ValueError, match="block_number=-1 must not be negative"):
        Mine((-1,)).apply({}, x)
    first, second = Mine((0, 1)).apply({}, x)
    assert np.abs(first - second).max() > 0.1
    np.testing.assert_allclose(first, jax.jit(Random(length=6).apply)({}, x), atol=1e-6)


@pytest.mark.parametrize("layer", [Linear(length=6, padding="tokens"), Random(length=6, padding="tokens")])
def test_padding_may_be_tokens_like_any_other(layer: Linear | Random) -> None:
    x, mask = normal(1, 6, 4), jnp.arange(6)[None] < 4
    params = jax.jit(layer.init)(jax.random.key(0), x)
    np.testing.assert_array_equal(jax.jit(layer.apply)(params, x, mask=mask), jax.jit(layer.apply)(params, x))
    zero = layer.clone(padding="zero")
    assert np.abs(jax.jit(zero.apply)(params, x, mask=mask) - jax.jit(layer.apply)(params, x)).max() > 1e-4
    with pytest.raises(ValueError, match="padding='none' is unknown; choose one of zero, tokens"):
        layer.clone(padding="none").apply(params, x)
