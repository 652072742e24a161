"""Ranges of converters: calibrated from batches, stored with the weights, and nearly the best there are."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import assert_same_run, final_state, shrink
from ml_collections import ConfigDict
from optical import KEY, QUICK, dft, exact, made, snr, waves

from fourier_attn import config, model, train
from fourier_attn.inference import evaluation
from fourier_attn.optics import Engine
from fourier_attn.optics.ranges import BINS, EDGES, clipped, full_scale, watched
from fourier_attn.train.ranges import Watcher, calibrate_ranges
from fourier_attn.train.rundir.metrics_log import read_lines


def seen(engine: Engine, x: jax.Array, converter: str) -> np.ndarray:
    """What stands before its converters."""
    found = []
    dft(x, watched(engine, lambda *seen: found.append(seen)), KEY).block_until_ready()
    jax.effects_barrier()
    return sum((np.asarray(counts, int) for name, counts in found if name == converter), np.zeros(BINS, int))


@pytest.mark.parametrize(
    ("detection", "bits"),
    [("hybrid90", 4), pytest.param("hybrid90", 8, marks=pytest.mark.slow), ("psi4", 5)],
)
def test_within_three_tenths_of_a_decibel_of_the_best_static_range(detection: str, bits: int) -> None:
    """Found on some apertures, judged on others, against a search over full scales."""
    engine = made(shape=(8, 8), detection=detection, adc_bits=bits, adc_range="calibrated", photons=1e5)
    found = full_scale(engine, "adc", seen(engine, waves(200, 8, 8), "adc"))
    x = waves(200, 8, 8, seed=1)

    def judged(amplitude: float) -> float:
        return snr(dft(x, engine.replace(adc_full_scale=amplitude), KEY), exact(x))

    best = max(judged(float(amplitude)) for amplitude in np.geomspace(found / 3, found * 3, 41))
    assert judged(found) > best - 0.3
    assert max(judged(found / 2), judged(found * 2)) < best - 0.3


def test_modulators_have_ranges_too() -> None:
    engine = made(shape=(8, 8), dac_bits_amp=5, dac_range="calibrated")
    found = full_scale(engine, "dac", seen(engine, waves(200, 8, 8), "dac"))
    x = waves(200, 8, 8, seed=1)
    levels = [
        snr(dft(x, engine.replace(dac_full_scale=float(found * k)), None), exact(x))
        for k in (1, *np.geomspace(1 / 3, 3, 41))
    ]
    assert levels[0] > max(levels) - 0.3


def test_counts_and_clip_rates() -> None:
    """Every conversion once, at its size."""
    engine = made(shape=(4, 4), detection="hybrid90", adc_bits=8, adc_range="calibrated")
    counts = seen(engine, waves(50, 4, 4), "adc")
    assert counts.sum() == 50 * 2 * 16
    alone = np.zeros(BINS, int)
    alone[np.searchsorted(EDGES, 0.5) : np.searchsorted(EDGES, 2.0)] = 1  # two octaves, alike
    assert clipped(engine, "adc", alone, 1.0) == 0.5
    assert clipped(engine, "adc", alone, 2.0) == 0.0
    np.testing.assert_allclose(full_scale(engine.replace(adc_bits=None), "adc", alone), 2.0)
    with pytest.raises(ValueError, match="no conversion was seen"):
        full_scale(engine, "adc", np.zeros(BINS, int))


def test_a_missing_range_is_named() -> None:
    for converter, other in (("adc", {"adc_bits": 8}), ("dac", {"dac_bits_amp": 8})):
        engine = made(shape=(4, 4), detection="hybrid90", **other, **{f"{converter}_range": "calibrated"})
        message = f"{converter}_range='calibrated' has no {converter}_full_scale; calibrate it"
        with pytest.raises(ValueError, match=message):
            dft(jnp.ones((4, 4)), engine)


def calibrated(few_reviews: str, mixer: str = "fourier", engine: str = "chip_11x11") -> ConfigDict:
    """A run on a small engine whose converters have calibrated ranges."""
    c = shrink(config.default(mixer, engine=engine), few_reviews)
    c.model.mixer.engine.receiver.adc_range = c.model.mixer.engine.modulator.dac_range = "calibrated"
    c.model.mixer.engine.dc_block = False
    c.train.epochs = 2
    return c


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_stopped_in_its_validation_says_the_same(
    few_reviews: str, tmp_path: Path, stopped_at: Callable[[ConfigDict, Path, int], None]
) -> None:
    """The shares that the ranges clip are those before calibration; no step was made that could be timed."""
    c = shrink(config.default("fourier", engine="ideal"), few_reviews)
    c.model.mixer.engine.modulator.dac_bits_amp, c.model.mixer.engine.modulator.dac_range = 3, "calibrated"
    c.train.epochs = 1
    train.run(c, tmp_path / "whole")
    stopped_at(c, tmp_path / "stopped", 6)
    train.run(c, tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
    ends = [
        next(line for line in read_lines(tmp_path / name) if "dac_clip_rate" in line)
        for name in ("whole", "stopped")
    ]
    assert ends[0]["dac_clip_rate"] > 0
    assert ends[0]["examples_per_s"] > 0
    assert "examples_per_s" not in ends[1]


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("seeds", [1, 2])
def test_a_run_stores_ranges_with_its_weights(seeds: int, few_reviews: str, tmp_path) -> None:
    """They survive the checkpoint, no optimiser touches them, and what they clip is said."""
    c = calibrated(few_reviews)
    c.train.seeds, c.optim.weight_decay = seeds, 0.5
    train.run(c, tmp_path)
    state = final_state(tmp_path)
    mixer = state.params["encoder"]["block_0"]["mixer"]
    assert set(mixer) == {"adc_full_scale", "dac_full_scale"}
    assert mixer["adc_full_scale"].shape == (() if seeds == 1 else (2,))
    assert np.all(mixer["adc_full_scale"] > 0.5)
    rates = [line["adc_clip_rate"] for line in read_lines(tmp_path) if "adc_clip_rate" in line]
    assert len(rates) == 2
    assert all(0 <= rate < 0.05 for rate in rates)
    accuracy = evaluation.evaluate(tmp_path)["test"]["accuracy"]
    assert abs(accuracy - read_lines(tmp_path)[-1]["accuracy"]) < 1e-6


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.slow
@pytest.mark.parametrize("mixer", ["fourier", "circular", "lambda"])
def test_each_layer_has_its_own(mixer: str, few_reviews: str) -> None:
    c = calibrated(few_reviews, mixer, "ideal")  # the chip's other errors take long to compile
    engine = c.model.mixer.engine
    engine.receiver.detection, engine.receiver.adc_bits, engine.modulator.dac_bits_amp = "hybrid90", 8, 8
    c.model.depth = 2
    network = model.build(c.model)
    batch = {"inputs": jnp.arange(96).reshape(2, 48) % 50, "mask": jnp.ones((2, 48), bool)}
    keys = {"params": jax.random.key(0), "noise": jax.random.key(1)}
    params = jax.jit(network.init, compiler_options=QUICK)(keys, batch["inputs"])["params"]

    @partial(jax.jit, compiler_options=QUICK)
    def applied(params):
        return network.apply({"params": params}, batch["inputs"], rngs={"noise": KEY})

    assert np.isnan(applied(params)).all()  # before they are calibrated
    watcher, other = Watcher(network), batch | {"inputs": batch["inputs"][:, :1] + 0 * batch["inputs"]}
    ranges = [watcher.full_scales(params, order)[0] for order in ([batch, other], [other, batch], [other])]
    assert ranges[0] == ranges[1]  # all batches count
    assert ranges[0] != ranges[2]
    params = watcher.calibrate(params, [batch])[0]
    blocks = [params["encoder"][f"block_{i}"]["mixer"]["adc_full_scale"] for i in (0, 1)]
    assert blocks[0] != blocks[1]
    assert np.isfinite(applied(params)).all()

    def loss(params):
        return jnp.sum(
            network.apply({"params": params}, batch["inputs"], train=True, rngs={"noise": KEY}) ** 2
        )

    grads = jax.jit(jax.grad(loss), compiler_options=QUICK)(params)["encoder"]["block_0"]["mixer"]
    assert (grads["adc_full_scale"], grads["dac_full_scale"]) == (0, 0)
    del params["encoder"]["block_1"]["mixer"]["adc_full_scale"]
    with pytest.raises(ValueError, match="encoder/block_1/mixer has no adc_full_scale, which adc_range="):
        network.apply({"params": params}, batch["inputs"], rngs={"noise": KEY})


INPUTS = {"inputs": jnp.arange(96).reshape(2, 48) % 50}
COARSE = made(shape=(4, 4), dac_bits_amp=2, dac_range="calibrated")
FINE = made(shape=(4, 4), dac_bits_amp=8, dac_range="calibrated", detection="hybrid90")
FINE = FINE.replace(adc_bits=8, adc_range="calibrated")


def started(toy: ConfigDict, engine: Engine, eval_engine: Engine | None = None) -> tuple[model.Model, dict]:
    """A network of one layer, and its parameters before they are calibrated."""
    mixer = {"name": "fourier", "padding": "zero", "engine": engine, "eval_engine": eval_engine}
    network = model.build(toy.model.to_dict() | {"mixer": mixer})
    keys = {"params": jax.random.key(0), "noise": KEY}
    return network, jax.jit(network.init, compiler_options=QUICK)(keys, INPUTS["inputs"])["params"]


def found_ranges(toy: ConfigDict, engine: Engine, eval_engine: Engine | None = None) -> dict[str, float]:
    """What calibration finds for it."""
    network, params = started(toy, engine, eval_engine)
    params = calibrate_ranges(network, params, [INPUTS])
    applied = jax.jit(network.apply, compiler_options=QUICK)
    assert np.isfinite(applied({"params": params}, INPUTS["inputs"], rngs={"noise": KEY})).all()
    return {name: float(value) for name, value in params["encoder"]["block_0"]["mixer"].items()}


@pytest.mark.usefixtures("standard_promotion")
def test_an_engine_of_evaluation_alone_has_ranges(toy: ConfigDict) -> None:
    """Counted where they are used; one that training asks for, too, is training's."""
    ranges = partial(found_ranges, toy)
    assert ranges(made(shape=(4, 4)), FINE) == ranges(FINE)
    coarse, both = ranges(COARSE), ranges(COARSE, FINE)
    behind = FINE.replace(dac_range=coarse["dac_full_scale"])  # training's, with which FINE evaluates
    assert both == ranges(behind) | coarse
    assert coarse["dac_full_scale"] != ranges(FINE)["dac_full_scale"]


@pytest.mark.usefixtures("standard_promotion")
def test_detectors_are_calibrated_behind_calibrated_modulators(toy: ConfigDict) -> None:
    """As they work; so that calibrating again changes nothing, and what clips is what clips at work."""
    engine = FINE.replace(dac_bits_amp=4, adc_bits=4)
    network, params = started(toy, engine)
    watcher = Watcher(network)
    first, none = watcher.calibrate(params, [INPUTS])
    again, rates = watcher.calibrate(first, [INPUTS])
    dac, adc = (float(first["encoder"]["block_0"]["mixer"][f"{name}_full_scale"]) for name in ("dac", "adc"))
    given = engine.replace(dac_range=dac)
    assert found_ranges(toy, given) == {"adc_full_scale": adc}
    jax.tree.map(np.testing.assert_array_equal, again, first)
    counts = {"dac": np.zeros(BINS, int), "adc": np.zeros(BINS, int)}

    def count(layer: tuple[str, ...], converter: str, found: jax.Array) -> None:
        counts[converter] += np.asarray(found)

    working, weights = started(toy, given.replace(adc_range=adc, monitor=count))
    for name in counts:
        counts[name][:] = 0
    working.apply({"params": weights}, INPUTS["inputs"], rngs={"noise": KEY})
    jax.effects_barrier()
    for name, scale in (("dac", dac), ("adc", adc)):
        assert rates[f"{name}_clip_rate"] == pytest.approx(clipped(engine, name, counts[name], scale))
    assert (none, rates["dac_clip_rate"] > 0, rates["adc_clip_rate"] > 0) == ({}, True, True)


def test_ranges_are_asked_for_by_no_layer() -> None:
    network = model.build(config.default("fourier").model)
    with pytest.raises(ValueError, match="no layer has an engine with a calibrated range"):
        calibrate_ranges(network, {}, [])
