from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import assert_same_run
from optax import contrib

from fourier_attn import config, train
from fourier_attn.train import optimizer
from fourier_attn.train.optimizer import OPTIMIZERS, build_optimizer, updates_made
from fourier_attn.train.rundir.metrics_log import read_lines

pytestmark = pytest.mark.usefixtures("standard_promotion")


def settings(**changes: object) -> config.OptimConfig:
    usual = {"steps": 100, "warmup_steps": 10, "learning_rate": 1.0}
    return config.with_values(config.default().optim, usual | changes)


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
        ({"name": "sgdm"}, "optim.name='sgdm' is unknown; did you mean sgd. Choose one of adam, adamw, lion"),
        ({"momentum": 1.0}, "optim.momentum=1.0 must lie between 0 and 0.99999"),
        ({"schedule": "step"}, "optim.schedule='step' is unknown"),
        ({"learning_rate": 0.0}, "optim.learning_rate=0.0 must be positive"),
        ({"clip_norm": -1.0}, "optim.clip_norm=-1.0 must not be negative"),
    ],
)
def test_bad_settings(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_optimizer(settings(**changes))


SLOPES = np.random.default_rng(0).normal(size=(4, 3, 2))  # of four steps


def lion(c: dict) -> Iterator[np.ndarray]:
    mean = np.zeros((3, 2))
    for g in SLOPES:
        yield np.sign(c["b1"] * mean + (1 - c["b1"]) * g)
        mean = c["b2"] * mean + (1 - c["b2"]) * g


def sgd(c: dict) -> Iterator[np.ndarray]:
    total = np.zeros((3, 2))
    for g in SLOPES:
        total = c["momentum"] * total + g
        yield total


def adam(c: dict) -> Iterator[np.ndarray]:
    mean, square = np.zeros((3, 2)), np.zeros((3, 2))
    for n, g in enumerate(SLOPES, 1):
        mean = c["b1"] * mean + (1 - c["b1"]) * g
        square = c["b2"] * square + (1 - c["b2"]) * g**2
        yield mean / (1 - c["b1"] ** n) / (np.sqrt(square / (1 - c["b2"] ** n)) + c["eps"])


def adafactor(c: dict) -> Iterator[np.ndarray]:
    """Of a small array, which is not factored: its mean of squares forgets less and less."""
    square = np.zeros((3, 2))
    for n, g in enumerate(SLOPES):
        new = (n + 1) ** -0.8
        square = (1 - new) * square + new * (g**2 + c["eps"] ** 2)
        update = g / np.sqrt(square)
        yield update / max(1, np.sqrt(np.mean(update**2)))


WRITTEN_OUT = {"adam": adam, "adamw": adam, "lion": lion, "sgd": sgd, "adafactor": adafactor}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_an_optimizer_is_its_equation(name: str) -> None:
    changes = {"b1": 0.8, "b2": 0.9, "eps": 1e-3, "momentum": 0.7, "weight_decay": 0.1, "clip_norm": 0.0}
    c = settings(name=name, learning_rate=0.05, warmup_steps=2, schedule="linear", steps=6, **changes)
    transformation, decay = build_optimizer(c), 0.0 if name == "adam" else 0.1
    params = {"kernel": jnp.ones((3, 2)), "bias": jnp.ones((3, 2))}
    expected = {part: np.ones((3, 2)) for part in params}
    state = transformation.init(params)
    for n, direction in enumerate(WRITTEN_OUT[name](c)):
        assert updates_made(state) == n
        grads = dict.fromkeys(params, jnp.asarray(SLOPES[n], jnp.float32))
        updates, state = transformation.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        rate = 0.05 * (0.5, 1, 1, 0.75)[n]
        expected["kernel"] = expected["kernel"] - rate * (direction + decay * expected["kernel"])
        expected["bias"] = expected["bias"] - rate * direction
    for part, value in params.items():
        np.testing.assert_allclose(value, expected[part], rtol=2e-5)  # float32, roots


def test_large_kernels_are_factored_by_adafactor() -> None:
    """A square of an outer product is that of its rows' and columns' means."""
    rows, columns = np.random.default_rng(1).uniform(0.5, 2, (2, 130))
    grads = {"kernel": jnp.asarray(np.outer(rows, columns), jnp.float32)}
    c = settings(name="adafactor", warmup_steps=0, clip_norm=0.0, weight_decay=0.0)
    transformation = build_optimizer(c)
    state = transformation.init(grads)
    assert sum(leaf.size for leaf in jax.tree.leaves(state)) < 4 * 130
    np.testing.assert_allclose(transformation.update(grads, state, grads)[0]["kernel"], -1.0, rtol=1e-5)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_is_as_it_was(name: str) -> None:
    """The same updates bit for bit and the same state: checkpoints of earlier runs are read."""
    c = settings(name=name, weight_decay=0.1, schedule="constant")
    decay = 0.1 if name == "adamw" else 0.0
    rate = optimizer.build_schedule(c)
    before = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(rate, 0.9, 0.999, 1e-8, weight_decay=decay, mask=optimizer._matrices),
    )
    params = {"kernel": jnp.ones((3, 2)), "bias": jnp.ones(2)}
    now, states = build_optimizer(c), [t.init(params) for t in (before, build_optimizer(c))]
    assert jax.tree.structure(states[0]) == jax.tree.structure(states[1])
    for g in SLOPES:
        grads = {"kernel": jnp.asarray(g, jnp.float32), "bias": jnp.asarray(g[0], jnp.float32)}
        (old, states[0]), (new, states[1]) = (
            before.update(grads, states[0], params),
            now.update(grads, states[1], params),
        )
        jax.tree.map(np.testing.assert_array_equal, (old, states[0]), (new, states[1]))


def muon_params() -> dict:
    key = jax.random.key(0)
    shapes = {"query": (4, 2, 3), "out": (2, 3, 4), "mlp_in": (4, 6)}
    block = {name: {"kernel": jax.random.normal(key, shape)} for name, shape in shapes.items()}
    block |= {"mixer": {"kernel": jnp.ones((5, 4))}, "norm": {"scale": jnp.ones(4)}}
    return {"encoder": {"block_0": block, "tokens": {"embedding": jnp.ones((7, 4))}}}


def test_muon_makes_dense_kernels_orthogonal_and_leaves_the_rest_to_adam() -> None:
    params, c = muon_params(), settings(name="muon", warmup_steps=0, weight_decay=0.0, clip_norm=0.0)
    transformation, adam = build_optimizer(c), optax.nadam(1.0)
    updates = transformation.update(params, transformation.init(params), params)[0]
    others = adam.update(params, adam.init(params), params)[0]
    block, other = updates["encoder"]["block_0"], others["encoder"]["block_0"]
    for name in ("mixer", "norm"):
        jax.tree.map(np.testing.assert_array_equal, block[name], other[name])
    jax.tree.map(np.testing.assert_array_equal, updates["encoder"]["tokens"], others["encoder"]["tokens"])
    for name, shape in (("query", (4, 6)), ("out", (6, 4)), ("mlp_in", (4, 6))):
        update = np.asarray(block[name]["kernel"])
        values = np.linalg.svd(update.reshape(shape), compute_uv=False)
        assert values.max() < 2 * values.min()  # five steps of Newton and Schulz come near to one value
        assert np.sqrt(np.mean(update**2)) == pytest.approx(0.2, rel=0.2), "as Adam's"


def test_muon_is_that_of_optax() -> None:
    params = muon_params()
    c = settings(name="muon", learning_rate=0.1, warmup_steps=0, schedule="constant", momentum=0.95)
    ours = build_optimizer(c)
    decayed = jax.tree.map(lambda p: p.ndim > 1, params)
    mine = optax.chain(
        optax.clip_by_global_norm(1.0),
        contrib.muon(
            1.0,
            muon_weight_dimension_numbers=optimizer._dense_kernels,
            consistent_rms=0.2,
        ),
        optax.add_decayed_weights(-0.01, decayed),
        optax.scale(0.1),
    )
    states = [ours.init(params), mine.init(params)]
    for scale in (1.0, -0.5, 2.0):
        grads = jax.tree.map(lambda p, scale=scale: scale * p, params)
        new, states[0] = ours.update(grads, states[0], params)
        expected, states[1] = mine.update(grads, states[1], params)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8), new, expected)


def test_an_optax_without_muon_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(contrib, "MuonDimensionNumbers")
    with pytest.raises(ValueError, match="optim.name='muon' is not in optax .*; install a newer optax"):
        build_optimizer(settings(name="muon"))


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [("sgd", OPTIMIZERS["sgd"], "an optimizer 'sgd' exists already"), ("number", 3, "give a function")],
)
def test_an_optimizer_that_cannot_be_registered_is_refused(name: str, make: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        optimizer._add_optimizer(name, make)
    assert OPTIMIZERS.keys() == set(optimizer.BUILT_IN)


@pytest.mark.parametrize(
    "name", ["muon", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lion", "adafactor", "sgd"))]
)
def test_a_run_with_each_resumes_bit_for_bit(
    name: str,
    toy: config.Config,
    tmp_path: Path,
    stopped_at: Callable[[config.Config, Path, int], None],
) -> None:
    toy.optim.name, toy.optim.warmup_steps = name, 0
    toy.optim.learning_rate = {"sgd": 0.3, "lion": 3e-3}.get(name, 1e-2)
    train.run(toy, tmp_path / "whole")
    stopped_at(toy, tmp_path / "stopped", 5)
    train.run(toy, tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
    losses = [line["loss"] for line in read_lines(tmp_path / "whole") if line["split"] == "train"]
    assert losses[-1] < 0.95 * losses[0]
