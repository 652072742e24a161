"""Tokens split over devices: the same training, two exchanges each way, and no activation gathered."""

import json
import math
import sys
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import on_devices
from jax.sharding import AbstractMesh, Mesh

from fourier_attn import config, model
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.token_conv import TokenConvolution
from fourier_attn.model import MIXERS
from fourier_attn.ops.fourier_shared import shared_mix
from fourier_attn.ops.token_shares import by_token, exchange
from fourier_attn.train.distributed import sharding, shared_tokens
from fourier_attn.train.distributed.sharding import AXES, Placement
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_eval_step, make_init, make_keys, make_train_step
from fourier_attn.train.target import program

T, BLOCKS, STEPS = 32, 2, 20
CASES = {  # mixer, its fields, all-to-alls of a block in each direction
    "fourier": ("fourier", {}, 2),
    "fourier, not masked": ("fourier", {"padding": "tokens"}, 2),
    "global_filter": ("global_filter", {"length": T}, 2),
    "global_filter, interpolated": ("global_filter", {"length": 8}, 2),
    "lambda": ("lambda", {"heads": 2, "u": 2, "context": 5, "k": 8}, 0),
    "lambda, causal": ("lambda", {"heads": 8, "context": 5, "k": 8, "causal": True}, 0),
    "long_conv": ("long_conv", {"length": T}, 2),
    "long_conv, causal": ("long_conv", {"length": T, "causal": True}, 2),
    "afno": ("afno", {"blocks": 4}, 2),
    "token_conv": ("token_conv", {}, 0),
    "token_conv, causal": ("token_conv", {"taps": 4, "causal": True}, 0),
    "linear": ("linear", {"length": T}, 2),
    "linear, causal": ("linear", {"length": T, "causal": True, "use_bias": True}, 2),
    "random": ("random", {"length": T}, 2),
    "attention": ("attention", {"heads": 4}, 4),
    "attention, causal": ("attention", {"heads": 8, "head_width": "split", "bias": True, "causal": True}, 4),
    "attention, dropout": ("attention", {"heads": 4, "dropout": 0.5}, 4),
    "attention, by rows": ("attention", {"heads": 4, "implementation": "rows"}, 4),
    "circular": ("circular", {"heads": 4}, 4),
    "circular, causal": ("circular", {"heads": 4, "causal": True, "combine_heads": "project"}, 4),
    "identity": ("identity", {}, 0),
}
FAST = ("fourier", "global_filter", "token_conv")


def network(mixer: str, fields: dict[str, Any]) -> Any:
    """The `model` part of a small network of two blocks."""
    c = config.default(mixer=mixer).model
    c.depth, c.d, c.mlp, c.vocab, c.positions, c.activation = BLOCKS, 32, 64, 50, T, "gelu"
    c.mixer.update(fields)
    return c


def trained(mixer: str, fields: dict[str, Any], placement: Placement) -> dict[str, Any]:
    """The losses of a few steps, and what the programs of training and evaluation communicate."""
    c = network(mixer, fields)
    built, optimizer, objective = (
        model.build(c),
        build_optimizer(config.default().optim),
        OBJECTIVES["classes"],
    )
    keys, dropout = make_keys(0, 1, placement)
    init = make_init(built, optimizer, objective, model.example(c), placement=placement)
    step: Any = make_train_step(built, optimizer, objective, placement=placement)
    evaluate: Any = make_eval_step(built, objective, placement=placement)
    random = np.random.default_rng(0)
    lengths = np.array([32, 32, 21, 32, 9, 32, 32, 1])
    batch = {
        "inputs": random.integers(1, 50, (8, T)).astype(np.int32),
        "mask": np.arange(T) < lengths[:, None],
        "label": random.integers(0, 2, 8).astype(np.int32),
        "weight": np.ones(8, np.float32),
    }
    state, batch = init(keys), placement.shard_batch(batch)
    shapes = {",".join(map(str, p.shape)) for p in jax.tree.leaves(state.params)} | {"8,2"}  # answers
    step = step.lower(state, batch, dropout).compile()
    texts = [step.as_text(), evaluate.lower(state.params, batch).compile().as_text()]
    gathered = [
        array["sizes"]
        for found in program.COLLECTIVE.finditer(texts[0] + texts[1])
        if found["kind"] in ("all-gather", "collective-permute", "reduce-scatter")
        for array in program.ARRAY.finditer(found["result"])
    ]
    losses, before = [], 0.0
    for _ in range(STEPS):
        state = step(state, batch, dropout)
        losses.append(float(state.sums["loss"][0]) - before)
        before = float(state.sums["loss"][0])
    exchanges = [program.collectives(text).get("all-to-all", {}).get("count", 0) for text in texts]
    return {"losses": losses, "exchanges": exchanges, "gathered": sorted(set(gathered) - shapes)}


def compare(names: list[str]) -> dict[str, Any]:
    """Each case on one device, and on two times four."""
    one = sharding.here()
    eight = Placement(Mesh(np.array(jax.devices()).reshape(1, 2, 1, 4), AXES))
    return {
        name: [trained(CASES[name][0], CASES[name][1], where) for where in (one, eight)] for name in names
    }


@pytest.mark.parametrize(
    "names", [FAST, pytest.param(tuple(set(CASES) - set(FAST)), marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_training_with_split_tokens_is_that_of_one_device(names: tuple[str, ...]) -> None:
    for name, (one, eight) in json.loads(on_devices(__file__, *names)).items():
        assert eight["losses"][:3] == pytest.approx(one["losses"][:3], rel=1e-6), name
        assert eight["losses"] == pytest.approx(one["losses"], rel=5e-6), name  # 6 digits: rounding grows
        a_pass = CASES[name][2] * BLOCKS
        assert (one["exchanges"], eight["exchanges"]) == ([0, 0], [2 * a_pass, a_pass]), name
        # Short filters get up to three tokens of the next device, and lambda layers also sums; nothing else
        # moves but parameters. Sums have fewer numbers than the activations of a device's tokens, and
        # gathered activations 4 times as many.
        allowed = 4 * 3 * 32 if "token_conv" in name else 8 * T * 32 // 8 if "lambda" in name else 0
        moved = [sizes for sizes in eight["gathered"] if math.prod(map(int, sizes.split(","))) > allowed]
        assert moved == [], name


@pytest.mark.parametrize("lengths", [None, [7, 4, 0, 1]])
@pytest.mark.parametrize(("t", "d"), [(7, 6), (8, 2)])
def test_pairs_of_columns_are_the_transform(t: int, d: int, lengths: list[int] | None) -> None:
    x = np.random.default_rng(1).normal(size=(4, t, d))
    expected = np.zeros_like(x)
    for example, n in enumerate(lengths or [t] * 4):
        m, k = np.arange(n), np.arange(d)
        tokens, features = np.outer(m, m) / max(n, 1), np.outer(k, k) / d
        wave = np.exp(-2j * np.pi * tokens) @ x[example, :n] @ np.exp(-2j * np.pi * features)
        expected[example, :n] = wave.real
    y = shared_mix(jnp.asarray(x, jnp.float32), None if lengths is None else jnp.array(lengths))
    np.testing.assert_allclose(y, expected, atol=2e-5)  # float32: 56 terms of size 1


def test_arrays_that_devices_cannot_share() -> None:
    with jax.sharding.use_abstract_mesh(AbstractMesh((4,), ("tokens",))):
        with pytest.raises(ValueError, match="6 features do not divide by tokens=4 of train.mesh"):
            jax.eval_shape(exchange, jnp.ones((1, 8, 6)))
        with pytest.raises(ValueError, match="6 tokens do not divide by tokens=4 of train.mesh"):
            jax.eval_shape(by_token, jnp.ones((1, 6, 8)))
        with pytest.raises(ValueError, match="d=3 is odd; make it even"):
            shared_mix(jnp.ones((1, 8, 3)), None)
    assert by_token(jnp.ones((1, 6, 8))).shape == (1, 6, 8)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Attention(heads=4, method="fused"), "method='fused' .*; use method='auto', or"),
        (CircularAttention(heads=4, method="fused"), "method='fused' .*; use method='auto', or"),
        (LambdaLayer(method="fft"), "method='fft' .*; use method='auto', or"),
        (LambdaLayer(context=7), "a position table with 7 taps .*; use a context of at most 5, or"),
        (LambdaLayer(context=5, causal=True), "a position table with 5 taps .* of at most 3, or"),
        (LambdaLayer(table="pairs", context=0, length=8), "table of pairs .*; use table='relative', or"),
        (TokenConvolution(taps=7), "a filter with 7 taps .*; use taps of at most 5, or"),
        (TokenConvolution(taps=4, causal=True), "a filter with 4 taps .*; use taps of at most 3, or"),
        (TokenConvolution(grid=(2, 4)), r"grid=\(2, 4\) .*; use a sequence, or"),
        (LambdaLayer(grid=(2, 4)), r"grid=\(2, 4\) .*; use a sequence, or"),
    ],
    ids=str,
)
def test_what_needs_whole_sequences_is_refused(layer: nn.Module, message: str) -> None:
    x = jnp.ones((1, 8, 8))
    params = layer.init(jax.random.key(0), x)
    mesh = jax.sharding.use_abstract_mesh(AbstractMesh((4,), ("tokens",)))
    with mesh, pytest.raises(ValueError, match=message) as error:
        jax.eval_shape(layer.apply, params, x)
    assert " needs whole sequences, but train.mesh has tokens=4; " in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("causal", [False, True])
def test_a_lambda_layer_refuses_tokens_that_devices_cannot_share(causal: bool) -> None:
    layer, x = LambdaLayer(causal=causal), jnp.ones((1, 6, 8))
    params = layer.init(jax.random.key(0), x)
    mesh = jax.sharding.use_abstract_mesh(AbstractMesh((4,), ("tokens",)))
    with mesh, pytest.raises(ValueError, match="6 tokens do not divide by tokens=4 of train.mesh"):
        jax.eval_shape(layer.apply, params, x)


def test_a_mixer_that_does_not_say_what_devices_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(nn.Module):
        @nn.compact
        def __call__(self, x: Any, *, mask: Any = None, train: bool = False) -> Any:
            return x

    monkeypatch.setitem(MIXERS, "own", Own)
    with pytest.raises(
        ValueError, match="mixer 'own' cannot have its tokens split; choose one of attention,"
    ):
        shared_tokens.check(config.default(mixer="own"), dict.fromkeys(AXES, 1) | {"tokens": 4})


@pytest.mark.parametrize(
    ("mixer", "change", "message"),
    [
        ("fourier", {"model.d": 12}, "tokens=4 must divide d / 2=6 of mixer 'fourier'"),
        ("global_filter", {"model.d": 6}, "tokens=4 must divide d=6 of mixer 'global_filter'"),
        ("afno", {"model.mixer.blocks": 2}, "tokens=4 must divide blocks=2 of mixer 'afno'"),
        ("attention", {"model.mixer.heads": 2}, "tokens=4 must divide heads=2 of mixer 'attention'; change"),
        ("fourier", {"data.length": 510}, "must divide the padded lengths, but not 510; change data.length"),
        ("fourier", {"data.buckets": (30,)}, "the padded lengths, but not 30; change"),
    ],
)
def test_what_cannot_be_split_is_refused(mixer: str, change: dict[str, Any], message: str) -> None:
    c = config.default(mixer=mixer)
    c.update_from_flattened_dict(change)
    mesh: dict[str, int] = dict.fromkeys(AXES, 1)
    shared_tokens.check(c, mesh)
    with pytest.raises(ValueError, match=message) as error:
        shared_tokens.check(c, mesh | {"tokens": 4})
    assert "\n" not in str(error.value)


def test_an_engine_with_split_tokens_is_refused() -> None:
    c = config.default(mixer="fourier", engine="chip_11x11")
    with pytest.raises(
        ValueError, match="the engine of mixer 'fourier' needs whole sequences; set engine=None"
    ):
        shared_tokens.check(c, dict.fromkeys(AXES, 1) | {"tokens": 4})


def test_a_mixer_says_what_devices_share() -> None:
    assert {mixer for mixer, *_ in CASES.values()} == set(MIXERS)
    assert set(shared_tokens.can_be_shared()) == set(MIXERS)


if __name__ == "__main__":
    with jax.numpy_dtype_promotion("standard"):  # as in a run
        print(json.dumps(compare(sys.argv[1:])))
