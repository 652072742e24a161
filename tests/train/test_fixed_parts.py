"""The same bits on any number of devices."""

import hashlib
import json
import os
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import optax
import pytest
from conftest import ROOT

from fourier_attn import config, model
from fourier_attn.train import fixed_parts
from fourier_attn.train.distributed import sharding
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_init, make_keys, make_train_step

MIXERS = ("fourier", "attention", "lambda", "circular", "global_filter", "long_conv")
STEPS, B, T = 200, 16, 24


def test_pairs_are_added_in_one_order() -> None:
    """Sums of whole blocks of parts are branches of the same tree."""
    x = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    whole = fixed_parts.in_pairs(jax.numpy.array(x))
    for n in (2, 4, 8):
        own = np.stack([fixed_parts.in_pairs(jax.numpy.array(part)) for part in x.reshape(n, -1, 5)])
        np.testing.assert_array_equal(fixed_parts.in_pairs(jax.numpy.array(own)), whole)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"fixed_parts": 6}, "train.fixed_parts=6 must be a power of two that divides data.batch=32"),
        ({"fixed_parts": 64}, "train.fixed_parts=64 must be a power of two that divides data.batch=32"),
        ({"fixed_parts": 8, "accumulate": 2}, "fixed_parts=8 and train.accumulate=2 exclude each other"),
        ({"fixed_parts": 8, "seeds": 2}, "fixed_parts=8 and train.seeds=2 exclude each other"),
    ],
)
def test_bad_combinations(knobs: dict[str, int], message: str) -> None:
    c = config.default()
    c.train.update(knobs)
    with pytest.raises(ValueError, match=message):
        config.check(c)


@pytest.mark.parametrize(("mesh", "devices"), [("fsdp=2", 2), ("data=2,tokens=2", 4), ("data=16", 16)])
def test_a_mesh_that_does_not_fit(mesh: str, devices: int) -> None:
    c = config.default()
    c.train.update({"fixed_parts": 8, "mesh": mesh})
    with pytest.raises(ValueError, match=f"train.mesh='{mesh}' does not fit train.fixed_parts=8"):
        sharding.place(c.train, 32, jax.devices() * devices)


def batch(i: int) -> dict[str, np.ndarray]:
    """Examples of different lengths and weights."""
    rng = np.random.default_rng(i)
    return {
        "inputs": rng.integers(1, 50, (B, T)).astype(np.int32),
        "mask": np.arange(T)[None] < rng.integers(4, T + 1, B)[:, None],
        "weight": rng.random(B).astype(np.float32),
        "label": rng.integers(0, 2, B).astype(np.int32),
    }


def trained(mixer: str, devices: int, parts: int = 8) -> str:
    """The hash of the parameters and the sums of metrics after all steps."""
    c = config.default(mixer)
    c.model.update({"depth": 1, "d": 16, "mlp": 32, "vocab": 50, "positions": T, "dropout": 0.1})
    c = config.fit_length(c)
    c.train.fixed_parts = parts
    place = sharding.place(c.train, B, jax.devices()[:devices])
    network, optimizer, objective = model.build(c.model), build_optimizer(c.optim), OBJECTIVES["classes"]
    first, key = make_keys(0, 1, place)
    state = make_init(network, optimizer, objective, model.example(c.model), 1, place)(first, {})
    step = make_train_step(network, optimizer, objective, placement=place, fixed_parts=parts)
    for i in range(STEPS):
        # Many queued steps of eight virtual devices would wait for each other's threads.
        state = jax.block_until_ready(step(state, place.shard_batch(batch(i)), key))
    leaves: list[Any] = jax.tree.leaves(sharding.to_host((state.params, state.sums)))
    return hashlib.sha256(b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in leaves)).hexdigest()


def test_the_sum_of_parts_is_the_step_of_the_batch() -> None:
    """Parameters and metrics after a step of SGD, with rows of different weights; float32 rounding."""
    c = config.default("fourier")
    c.model.update({"depth": 1, "d": 16, "mlp": 32, "vocab": 50, "positions": T, "dropout": 0.0})
    c = config.fit_length(c)
    network, optimizer, objective = model.build(c.model), optax.sgd(1.0), OBJECTIVES["classes"]
    first, key = make_keys(0, 1)
    init = make_init(network, optimizer, objective, model.example(c.model))
    rows = jax.tree.map(jax.numpy.asarray, batch(0))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        before, whole, by_parts = (
            init(first),
            *(
                make_train_step(network, optimizer, objective, fixed_parts=parts)(init(first), rows, key)
                for parts in (0, 8)
            ),
        )
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), whole.params, before.params)
    assert max(jax.tree.leaves(moved)) > 0.01
    for a, b in zip(*(jax.tree.leaves((s.params, s.sums)) for s in (whole, by_parts)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_parts_that_are_no_power_of_two() -> None:
    with pytest.raises(ValueError, match="x has 3 parts; give a power of two"):
        fixed_parts.in_pairs(jax.numpy.ones(3))


@pytest.mark.slow
@pytest.mark.parametrize("mixer", MIXERS)
def test_the_same_bits(mixer: str) -> None:
    """On 1 device of a process with one and with eight, which have other threads; and on 2, 4 and 8."""
    found: dict[str, list[str]] = {}
    for present, used in ((1, "1"), (8, "1,2,4,8")):
        environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "JAX_PLATFORMS": "cpu"}
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={present}"
        result = subprocess.run(
            [sys.executable, __file__, mixer, used],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        found |= {f"{present}, {n}": h for n, h in json.loads(result.stdout.splitlines()[-1]).items()}
    assert len(found) == 5
    assert len(set(found.values())) == 1, found


if __name__ == "__main__":
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        print(json.dumps({n: trained(sys.argv[1], int(n)) for n in sys.argv[2].split(",")}))
