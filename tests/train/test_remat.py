"""Blocks that are computed again for their gradient: the same numbers in less memory."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import assert_same_run, drawn, final_state

from fourier_attn import config, model, train
from fourier_attn.layers.controls import Identity
from fourier_attn.layers.embed import TokenEmbedding
from fourier_attn.layers.encoder import REMAT, Block, Encoder
from fourier_attn.train import memory
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_init, make_keys, make_train_step

pytestmark = pytest.mark.usefixtures("standard_promotion")


def settings(mixer: str, engine: str | None = None) -> config.Config:
    c = config.default(mixer, engine=engine)
    c.model.update({"depth": 2, "d": 8, "mlp": 16, "vocab": 20, "positions": 16})
    c.model.update({"dropout": 0.3, "mixer_dropout": 0.3, "token_dropout": 0.3})
    if engine:
        c.model.mixer.engine.shape, c.model.depth = (32, 32), 1  # one frame: fast to compile
    return config.fit_length(c)


@pytest.mark.parametrize(
    ("mixer", "engine"), [("attention", None), pytest.param("fourier", "chip_11x11", marks=pytest.mark.slow)]
)
def test_loss_and_gradients_are_the_same(mixer: str, engine: str | None) -> None:
    """With dropout of every kind, and with the noise of an engine."""
    c = settings(mixer, engine)
    ids = jnp.arange(32).reshape(2, 16) % 20
    mask = jnp.arange(32).reshape(2, 16) % 16 < 12
    network = model.build(c.model)
    params = drawn(network, ids)["params"]

    def loss(params: Any, network: model.Model, key: jax.Array) -> jax.Array:
        rngs = {"dropout": key, "noise": jax.random.fold_in(key, 0)}
        return jnp.sum(network.apply({"params": params}, ids, mask=mask, train=True, rngs=rngs) ** 2)

    def measured(network: model.Model, key: int) -> tuple[jax.Array, Any]:
        return jax.jit(jax.value_and_grad(loss), static_argnums=1)(params, network, jax.random.key(key))

    again = model.with_remat(network, "block")
    assert jax.tree.structure(params) == jax.tree.structure(drawn(again, ids)["params"])
    (value, slopes), (same, same_slopes) = measured(network, 1), measured(again, 1)
    np.testing.assert_array_equal(value, same)
    # float32: the compiler may add in another order where it computes twice
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), slopes, same_slopes)
    assert measured(again, 2)[0] != same, "the key has an influence"


def test_the_step_needs_less_memory() -> None:
    c = settings("fourier")
    c.model.update({"depth": 4, "d": 32, "mlp": 256, "positions": 64})
    c.model.update({"dropout": 0.0, "mixer_dropout": 0.0, "token_dropout": 0.0})  # faster to compile
    network, optimizer, objective = model.build(c.model), build_optimizer(c.optim), OBJECTIVES["classes"]
    init_key, key = make_keys(0, 1)
    state = jax.eval_shape(make_init(network, optimizer, objective, model.example(c.model)), init_key, {})
    batch = {"inputs": jax.ShapeDtypeStruct((16, 64), np.int32), "mask": jax.ShapeDtypeStruct((16, 64), bool)}
    batch |= {
        "weight": jax.ShapeDtypeStruct((16,), np.float32),
        "label": jax.ShapeDtypeStruct((16,), np.int32),
    }
    temporary = {}
    for remat in REMAT:
        step = make_train_step(network, optimizer, objective, remat=remat)
        temporary[remat] = step.lower(state, batch, key).compile().memory_analysis().temp_size_in_bytes
    assert temporary["block"] < 0.5 * temporary["none"]


def test_the_check_of_memory_counts_what_is_kept() -> None:
    c = config.default()
    [kept] = [size for name, size in memory.cheap(c).items() if "activations" in name]
    c.train.remat = "block"
    [less] = [size for name, size in memory.cheap(c).items() if "activations" in name]
    d, inside = c.model.d, 2 * c.model.d + c.model.mlp
    assert less * c.model.depth * inside == kept * (c.model.depth * d + inside)


@pytest.mark.slow
def test_checkpoints_are_exchanged(toy: config.Config, tmp_path: Path) -> None:
    """A run with it has the state of a run without it, so that it resumes from that one's checkpoints."""
    toy.train.epochs, toy.model.dropout = 1, 0.3
    train.run(toy, tmp_path / "plain")
    toy.train.remat = "block"
    train.run(toy, tmp_path / "again")
    states = [final_state(tmp_path / name) for name in ("plain", "again")]
    assert jax.tree.structure(states[0]) == jax.tree.structure(states[1])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), states[0], states[1])
    train.run(toy, tmp_path / "repeated")
    assert_same_run(tmp_path / "again", tmp_path / "repeated")


def test_another_word_is_refused() -> None:
    c = config.default()
    c.train.remat = "blocks"
    with pytest.raises(
        ValueError, match="train.remat='blocks' is unknown; did you mean block[?] Choose one of none, block"
    ):
        config.check(c)
    embed, block = (lambda **fields: TokenEmbedding(9, 3, 4, **fields)), (lambda **f: Block(Identity, 8, **f))
    encoder = Encoder(embed=embed, blocks=[block], remat="all")
    with pytest.raises(ValueError, match="remat='all' is unknown; choose one of none, block"):
        encoder.init(jax.random.key(0), jnp.array([[1, 2]]))
