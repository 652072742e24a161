import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fourier_attn import config
from fourier_attn.train import optimizer
from fourier_attn.train.optimizer import build_optimizer

pytestmark = pytest.mark.usefixtures("standard_promotion")


def settings(**changes: object) -> dict:
    return (
        config.default().optim.to_dict() | {"steps": 100, "warmup_steps": 10, "learning_rate": 1.0} | changes
    )


@pytest.mark.parametrize(
    ("step", "cosine", "constant"),
    [
        (0, 0.1, 0.1),
        (4, 0.5, 0.5),
        (9, 1.0, 1.0),
        (10, 1.0, 1.0),
        (55, 0.5, 1.0),
        (100, 0.0, 1.0),
        (300, 0.0, 1.0),
    ],
)
def test_schedule(step: int, cosine: float, constant: float) -> None:
    for name, expected in (("cosine", cosine), ("constant", constant)):
        assert float(optimizer.schedule(name, 1.0, 10, 100)(step)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["cosine", "linear"])
def test_the_rate_never_rises_again(name: str) -> None:
    """Not even long after its end, where it is 0."""
    rates = np.array([float(optimizer.schedule(name, 1.0, 10, 50)(i)) for i in range(0, 200, 3)])
    after = rates[4:]
    assert (np.diff(after) <= 0).all()
    assert after[0] > 0.9
    assert (rates[17:] == 0).all()
    assert name == "cosine" or float(optimizer.schedule(name, 1.0, 10, 50)(30)) == pytest.approx(0.5)


def test_no_warmup_starts_at_the_peak() -> None:
    assert float(optimizer.schedule("cosine", 1.0, 0, 100)(0)) == 1.0


def step(params: dict, grads: dict, **changes: object) -> dict:
    optimizer = build_optimizer(settings(warmup_steps=0, schedule="constant", **changes))
    return optimizer.update(grads, optimizer.init(params), params)[0]


@pytest.mark.slow
def test_decay_spares_vectors_and_adam() -> None:
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2), "query": {"bias": jnp.ones((2, 3))}}
    params["in_bias"] = jnp.ones((2, 3, 2))
    grads = jax.tree.map(jnp.zeros_like, params)
    updates = step(params, grads, weight_decay=0.1)
    np.testing.assert_allclose(updates["kernel"], -0.1, rtol=1e-6)
    for bias in (updates["bias"], updates["query"]["bias"], updates["in_bias"]):
        np.testing.assert_array_equal(bias, 0.0)
    np.testing.assert_array_equal(step(params, grads, name="adam", weight_decay=0.1)["kernel"], 0.0)


def test_clipping_scales_the_global_norm() -> None:
    params, big = {"kernel": jnp.zeros((1, 2))}, {"kernel": jnp.array([[300.0, 400.0]])}
    # eps as large as the clipped gradient shows its size through Adam's normalisation
    clipped = step(params, big, clip_norm=1.0, eps=1.0)["kernel"]
    np.testing.assert_allclose(clipped, [[-0.6 / 1.6, -0.8 / 1.8]], rtol=1e-5)
    assert np.abs(step(params, big, clip_norm=0.0, eps=1.0)["kernel"]).min() > 0.99


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "sgd"}, "optim.name='sgd' is unknown"),
        ({"schedule": "step"}, "optim.schedule='step' is unknown"),
        ({"learning_rate": 0.0}, "optim.learning_rate=0.0 must be positive"),
        ({"clip_norm": -1.0}, "optim.clip_norm=-1.0 must not be negative"),
    ],
)
def test_bad_settings(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_optimizer(settings(**changes))
