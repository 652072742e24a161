"""The same bits on any number of devices."""

import hashlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest
from conftest import array, numbers, on_devices
from distributed_runs import Runs

from fourier_attn import config, model
from fourier_attn.train import fixed_parts
from fourier_attn.train.distributed import sharding
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_eval_step, make_init, make_keys, make_train_step

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


def small(mixer: str, dropout: float) -> config.Config:
    """A network of one block."""
    c = config.default(mixer)
    c.model.update({"depth": 1, "d": 16, "mlp": 32, "vocab": 50, "positions": T, "dropout": dropout})
    return config.fit_length(c)


def trained(mixer: str, devices: int, parts: int = 8) -> str:
    """The hash of the parameters, the sums of metrics, and a validation, after all steps."""
    c = small(mixer, dropout=0.1)
    c.train.fixed_parts = parts
    place = sharding.place(c.train, B, jax.devices()[:devices])
    network, optimizer, objective = model.build(c.model), build_optimizer(c.optim), OBJECTIVES["classes"]
    first, key = make_keys(0, 1, place)
    state = make_init(network, optimizer, objective, model.example(c.model), 1, place)(first, {})
    step = make_train_step(network, optimizer, objective, placement=place, fixed_parts=parts)
    for i in range(STEPS):
        # Many queued steps of eight virtual devices would wait for each other's threads.
        state = jax.block_until_ready(step(state, place.shard_batch(batch(i)), key))
    evaluate = make_eval_step(network, objective, placement=place, fixed_parts=parts)
    evaluated = evaluate(state.params, place.shard_batch(batch(STEPS)))
    leaves: list[Any] = jax.tree.leaves(sharding.to_host((state.params, state.sums, evaluated)))
    return hashlib.sha256(b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in leaves)).hexdigest()


def one_step() -> tuple[Any, Any, Any, dict[str, jax.Array], jax.Array]:
    """A network, its objective, a new state of SGD, a batch and a key."""
    c = small("fourier", dropout=0.0)
    network, objective = model.build(c.model), OBJECTIVES["classes"]
    first, key = make_keys(0, 1)
    state = make_init(network, optax.sgd(1.0), objective, model.example(c.model))(first)
    return network, objective, state, jax.tree.map(jax.numpy.asarray, batch(0)), key


@pytest.mark.usefixtures("standard_promotion")
def test_the_sum_of_parts_is_the_step_of_the_batch() -> None:
    """Parameters and metrics after a step of SGD, and a validation, with rows of different weights."""
    network, objective, before, rows, key = one_step()
    with jax.numpy_rank_promotion("allow"):
        whole, by_parts = (
            make_train_step(network, optax.sgd(1.0), objective, fixed_parts=parts)(
                jax.tree.map(jax.numpy.copy, before), rows, key
            )
            for parts in (0, 8)
        )
        validations = [
            make_eval_step(network, objective, fixed_parts=parts)(before.params, rows) for parts in (0, 8)
        ]
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), *validations)  # float32 rounding
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), whole.params, before.params)
    assert max(jax.tree.leaves(moved)) > 0.01
    for a, b in zip(*(jax.tree.leaves((s.params, s.sums)) for s in (whole, by_parts)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("standard_promotion")
def test_weights_that_are_not_finite() -> None:
    """A part with such a weight, in its first row or another, gives NaN sums, and the step is skipped."""
    network, objective, state, rows, key = one_step()
    kept = jax.tree.map(np.array, state.params)
    evaluate = make_eval_step(network, objective, fixed_parts=8)
    step = make_train_step(network, optax.sgd(1.0), objective, fixed_parts=8)
    for i, (row, weight) in enumerate(((6, np.nan), (6, np.inf), (7, np.nan), (7, np.inf))):
        bad = rows | {"weight": array(np.where(np.arange(B) == row, weight, 1.0), np.float32)}
        with jax.numpy_rank_promotion("allow"):
            sums, _ = evaluate(state.params, bad)
            state = step(state, bad, key)
        assert not np.isfinite(sums["loss"]).any()
        jax.tree.map(np.testing.assert_array_equal, kept, state.params)
        assert (int(state.step), int(state.skipped)) == (i + 1, i + 1)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.sums))


def test_rows_of_answers() -> None:
    """They are in the order of the batch; the answers of language models have no columns."""
    batch = {"weight": jax.numpy.ones(8), "number": jax.numpy.arange(8.0)}
    in_parts = fixed_parts.make_in_parts(4, sharding.here())

    def compute(_: Any, rows: Any, key: Any) -> Any:
        return rows["number"].sum(), (rows["number"], jax.numpy.zeros((2, 0)))

    total, (numbers, empty) = in_parts(compute, (), batch, jax.random.key(0))
    assert total == 28
    np.testing.assert_array_equal(numbers, np.arange(8))
    assert empty.shape == (8, 0)


def test_parts_that_are_no_power_of_two() -> None:
    with pytest.raises(ValueError, match="x has 3 parts; give a power of two"):
        fixed_parts.in_pairs(jax.numpy.ones(3))


@pytest.mark.slow
@pytest.mark.parametrize("mixer", MIXERS)
def test_the_same_bits(mixer: str) -> None:
    """On one device of a process with one and with eight, which have other threads; and on all eight.

    Fourier mixing is also compared on two and four.
    """
    between = ",2,4" if mixer == "fourier" else ""
    found: dict[str, list[str]] = {}
    for present, used in ((1, "1"), (8, f"1{between},8")):
        hashes = json.loads(on_devices(__file__, mixer, used, devices=present))
        found |= {f"{present}, {n}": h for n, h in hashes.items()}
    assert len(found) == (5 if between else 3)
    assert len(set(found.values())) == 1, found


@pytest.mark.slow
def test_runs_on_one_device_on_eight_and_in_two_processes(few_reviews: str, tmp_path: Path) -> None:
    """All runs have the same parameters, metrics of training and validation, and answers, bit for bit."""
    runs = Runs(tmp_path, few_reviews)
    knobs = {"train.fixed_parts": 8, "train.epochs": 1, "data.batch": 16}
    made = [runs.whole(devices, count, **knobs) for devices, count in ((1, 1), (8, 1), (4, 2))]
    [wanted], places = {facts["hash"] for _, found in made for facts in found}, [where for where, _ in made]
    assert wanted
    for where in places[1:]:
        assert numbers(where) == numbers(places[0])
        assert (where / "predictions.jsonl").read_text() == (places[0] / "predictions.jsonl").read_text()


if __name__ == "__main__":
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        print(json.dumps({n: trained(sys.argv[1], int(n)) for n in sys.argv[2].split(",")}))
