import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from test_lambdas import oracle

from fourier_attn.layers.lambdas import LambdaLayer, article_lambda


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


def test_the_articles_preset() -> None:
    layer = article_lambda(k=16)
    params = jax.jit(layer.init)(jax.random.key(0), jnp.ones((1, 4, 128)))["params"]
    assert sum(p.size for p in jax.tree.leaves(params)) == 20_528
    for p in jax.tree.leaves(params):
        assert -0.5 <= p.min() < -0.4
        assert 0.4 < p.max() <= 0.5


def test_a_table_of_pairs_that_depends_on_the_distance_alone_is_a_relative_one() -> None:
    n, t, x = 7, 5, normal(2, 5, 6)
    fields = {"k": 3, "context": 0, "length": n}
    relative, pairs = LambdaLayer(**fields), LambdaLayer(**fields, table="pairs")
    p = jax.jit(relative.init)(jax.random.key(1), x)["params"]
    distance = np.arange(n) - np.arange(n)[:, None] + n - 1  # m - n, from 0 on
    q = p | {"position": p["position"][distance]}
    np.testing.assert_allclose(
        jax.jit(pairs.apply)({"params": q}, x), jax.jit(relative.apply)({"params": p}, x), atol=2e-6
    )  # float32
    free = jax.jit(pairs.init)(jax.random.key(2), x)["params"]
    cut = free | {"position": free["position"].at[t:].set(9.0).at[:, t:].set(9.0)}
    np.testing.assert_array_equal(
        jax.jit(pairs.apply)({"params": cut}, x), jax.jit(pairs.apply)({"params": free}, x)
    )


def test_a_mirrored_image_and_table_mirror_the_result() -> None:
    layer, image = LambdaLayer(grid=(3, 4)), normal(2, 3, 4, 6)
    params, apply = (
        jax.jit(layer.init)(jax.random.key(1), image.reshape(2, 12, 6))["params"],
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
    params, apply = jax.jit(layer.init)(jax.random.key(0), x), jax.jit(layer.apply)
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
