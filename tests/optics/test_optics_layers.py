"""Layers on an engine: exact in the ideal limit, noise with a stream of its own, knobs that can be set."""

import json
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT, drawn, normal, shrink
from optical import QUICK, frames_sent, made

from fourier_attn import config, model, train
from fourier_attn.inference import evaluation
from fourier_attn.layers.afno import AFNO
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.layers.global_filter import GlobalFilter
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.long_conv import LongConvolution
from fourier_attn.ops.lambdas import lambda_layer
from fourier_attn.optics import Engine, optical_dft2, optical_position_lambda, plan
from fourier_attn.optics.presets import preset, scaled
from fourier_attn.train import init_from
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.step import make_eval_step

LAYERS = {
    "fourier": partial(FourierMixing, norm="tokens", padding="zero"),
    "circular": partial(CircularAttention, heads=2, shape=(3, 4), kernel=(2, 3), boundary="zero"),
    "lambda": partial(LambdaLayer, k=3, u=2, heads=2),
    "global_filter": partial(GlobalFilter, length=6),
    "afno": partial(AFNO, blocks=3, grid=(2, 3)),
    "long_conv": partial(LongConvolution, length=9),
    "lambda, whole length": partial(LambdaLayer, k=3, context=0, length=6),
}


@pytest.mark.parametrize(
    "name", ["circular", *(pytest.param(n, marks=pytest.mark.slow) for n in LAYERS if n != "circular")]
)
def test_ideal_engine_is_exact(name: str) -> None:
    """With a mask, forward and derivatives, on apertures so small that stages and tiles are needed."""
    x, mask = normal(3, 6, 12), jnp.arange(6)[None] < jnp.array([[6], [4], [5]])
    plain, optical = LAYERS[name](), LAYERS[name](engine=Engine(shape=(4, 4)))
    params = drawn(plain, x)

    def loss(layer, params, x):
        y = layer.apply(params, x, mask=mask)
        return jnp.sum(jnp.sin(y)), y

    results = [
        jax.jit(jax.value_and_grad(partial(loss, layer), (0, 1), has_aux=True))(params, x)
        for layer in (plain, optical)
    ]
    ((_, y), grads), ((_, other), others) = results
    np.testing.assert_allclose(other, y, atol=2e-5)  # sums of some 100 products in float32
    jax.tree.map(partial(np.testing.assert_allclose, atol=5e-5), others, grads)


@pytest.mark.parametrize("norm", ["none", "tokens"])
def test_an_engine_transforms_over_the_same_lengths(norm: str) -> None:
    """In training and in evaluation alone, where no mask says that examples are of unlike lengths."""
    x, engine = normal(2, 5, 6), Engine()
    layer = FourierMixing(norm=norm, lengths=(4, 8))
    expected = jax.jit(layer.apply)({}, x)
    for fields in ({"engine": engine}, {"eval_engine": engine}):
        np.testing.assert_allclose(jax.jit(layer.clone(**fields).apply)({}, x), expected, atol=2e-5)


def test_noise_is_a_stream_and_on_in_evaluation() -> None:
    """And training and evaluation may have engines of their own."""
    x, noisy = normal(2, 4, 4), made(shape=(4, 4), detection="hybrid90", photons=100.0)
    layer = FourierMixing(engine=noisy)
    apply = jax.jit(lambda key, train: layer.apply({}, x, train=train, rngs={"noise": key}), static_argnums=1)
    first = apply(jax.random.key(1), False)
    np.testing.assert_array_equal(apply(jax.random.key(1), False), first)
    assert np.abs(apply(jax.random.key(2), False) - first).max() > 0.1
    np.testing.assert_array_equal(apply(jax.random.key(1), True), first)
    layer, exact = FourierMixing(engine=Engine(shape=(4, 4)), eval_engine=noisy), FourierMixing().apply({}, x)
    np.testing.assert_allclose(layer.apply({}, x, train=True), exact, atol=1e-4)
    assert np.abs(layer.apply({}, x, rngs={"noise": jax.random.key(0)}) - exact).max() > 0.1


@pytest.mark.slow
def test_position_lambdas_are_those_of_the_layer() -> None:
    query, value = normal(2, 6, 2, 3), normal(2, 6, 4, 2, seed=1)
    key, position = normal(2, 6, 3, 2, seed=2), normal(5, 3, 2, seed=3)
    whole = lambda_layer(query, key, value, position)
    content = lambda_layer(query, key, value, None)
    with frames_sent() as frames:
        y = optical_position_lambda(query, value, position, Engine(shape=(4, 4)))
    np.testing.assert_allclose(content + y, whole, atol=2e-5)
    planned = plan("circular_correlate", (8, 6), Engine(shape=(4, 4)), kernel=(3, 5), boundary="zero")
    assert sum(frames) == 2 * planned.frames  # u = 2 tables, each for 2 * 4 signals
    whole = plan("position_lambda", value.shape, Engine(shape=(4, 4)), kernel=position.shape)
    assert whole[:3] == tuple(2 * count for count in planned[:3])


def test_position_lambdas_of_low_precision_are_rounded_once() -> None:
    low = normal(2, 6, 2, 3), normal(2, 6, 4, 2, seed=1), normal(5, 3, 2, seed=3)
    low = [x.astype(jnp.bfloat16) for x in low]
    y = optical_position_lambda(*low, Engine(shape=(4, 4)))
    assert y.dtype == jnp.bfloat16
    full = optical_position_lambda(*(x.astype(jnp.float32) for x in low), Engine(shape=(4, 4)))
    np.testing.assert_array_equal(y, full.astype(jnp.bfloat16))


@pytest.mark.parametrize(
    "mixer",
    [
        partial(FourierMixing),
        pytest.param(
            partial(CircularAttention, heads=1, shape=(5, 6), kernel=(5, 6)), marks=pytest.mark.slow
        ),
        pytest.param(partial(LambdaLayer, k=2, grid=(3, 2), context=5), marks=pytest.mark.slow),
    ],
)
def test_a_mixer_takes_the_plan_that_it_prefers(mixer: Any) -> None:
    """Stages of other numbers draw other noise."""
    engine, x = made(shape=(4, 4), amp_noise_rms=0.01), normal(2, 6, 30)
    found = {}
    for prefer in ("error", "passes"):
        layer = mixer(engine=engine, prefer=prefer)
        streams = {"params": jax.random.key(0), "noise": jax.random.key(1)}
        found[prefer] = jax.jit(layer.init_with_output, compiler_options=QUICK)(streams, x)[0]
    assert np.abs(found["error"] - found["passes"]).max() > 1e-4
    np.testing.assert_allclose(found["error"], found["passes"], atol=0.1 * np.abs(found["error"]).max())
    with pytest.raises(ValueError, match="prefer='speed' is unknown"):
        mixer(prefer="speed").init(jax.random.key(0), x)


def test_an_engine_is_configured_parameter_by_parameter() -> None:
    c = config.default("circular", engine="demonstrator_5x5")
    c.model.mixer.engine.receiver.adc_bits = 6
    c.model.mixer.engine.device.shift_pitch = (0.1, 0.0)  # None in the preset
    c.model.mixer.eval_engine = "hostile"
    again = config.from_dict(c.to_dict())  # as it is written with a run
    for built in (model.build(c.model), model.build(again.model)):
        fields = built.encoder.keywords["blocks"][0].keywords["mixer"].keywords
        expected = preset("demonstrator_5x5").replace(adc_bits=6, shift_pitch=(0.1, 0.0))
        assert fields["engine"] == expected
        assert fields["eval_engine"] == preset("hostile")
    with pytest.raises(AttributeError, match="adc_bits"):
        c.model.mixer.engine.receiver.adc_bit = 6
    with pytest.raises(AttributeError, match="adc_bits belongs to the group receiver; set receiver.adc_bits"):
        c.model.mixer.engine.adc_bits = 6
    c.model.mixer.eval_engine = "hostil"
    with pytest.raises(
        ValueError, match="preset='hostil' is unknown; did you mean hostile[?] Choose one of ideal"
    ):
        model.build(c.model)
    c.model.mixer.engine.receiver.adc_bits, c.model.mixer.eval_engine = 0, None
    with pytest.raises(ValueError, match="adc_bits=0 must be from"):
        model.build(c.model)
    with pytest.raises(ValueError, match="mixer='attention' has no transform"):
        config.default("attention", engine="ideal")


def test_a_causal_lambda_has_no_optical_form() -> None:
    with pytest.raises(ValueError, match="causal=True has no optical form"):
        LambdaLayer(causal=True, engine=Engine()).init(jax.random.key(0), normal(1, 6, 4))
    with pytest.raises(ValueError, match="causal=True has no optical form"):
        LongConvolution(length=6, causal=True, engine=Engine()).init(jax.random.key(0), normal(1, 6, 4))


@pytest.mark.slow
def test_sweeping_scales_amplitudes_of_noise() -> None:
    chip = preset("chip_11x11")
    twice = scaled(chip, 6, 2.0, 5)
    assert (twice.modulator.dac_bits_amp, twice.modulator.dac_bits_phase) == (6, 6)
    assert (twice.receiver.adc_bits, twice.device.seed) == (6, 5)
    assert twice.photons == chip.photons / 4
    assert twice.modulator.phase_noise_rms == 2 * chip.modulator.phase_noise_rms
    np.testing.assert_allclose(twice.device.crosstalk_db, chip.device.crosstalk_db + 6.02, atol=0.01)
    np.testing.assert_allclose(twice.receiver.cmrr_db, chip.receiver.cmrr_db - 6.02, atol=0.01)
    x = jnp.zeros((400, 11, 11))
    bare = chip.replace(detection="intensity", dc_block=False)
    dark = [scaled(bare, 24, n, 0).replace(extinction_db=None, compensated=False) for n in (1.0, 2.0)]
    spread = [float(jnp.std(optical_dft2(x, e.replace(adc_bits=None), jax.random.key(0)))) for e in dark]
    np.testing.assert_allclose(spread[1], 2 * spread[0], rtol=1e-4)  # electrical noise alone, the same draws
    assert scaled(chip, 8, 1.0, 0) == chip
    assert not scaled(chip, 8, 0.0, 0).noisy


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_run_on_an_engine_trains_and_is_evaluated_and_swept(few_reviews: str, tmp_path: Path) -> None:
    c = shrink(config.default("fourier", engine="chip_11x11"), few_reviews)
    c.model.mixer.engine.shape, c.train.epochs = (8, 8), 1
    result = train.run(c, tmp_path / "run")
    assert np.isfinite(result["loss"])
    test = evaluation.evaluate(tmp_path / "run")["test"]
    assert test["loss"] == result["loss"]  # a fixed key: the same noise
    _, network, params = init_from.restore(tmp_path / "run")
    batch = evaluation.load_splits(c, tmp_path / "run", None).test[0]
    again, first, other = (
        make_eval_step(network, OBJECTIVES["classes"], noise=seed)(params, batch)[1] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0
    c = shrink(config.default("fourier"), few_reviews)
    c.train.epochs, c.model.mixer.padding = 1, "zero"
    train.run(c, tmp_path / "exact")
    options = [
        f"--workdir={tmp_path / 'exact'}",
        f"--against={tmp_path / 'run'}",
        "--bits=24",
        "--noise=0.01",
        "--devices=2",
        "--examples=64",
    ]
    command = [sys.executable, "-m", "fourier_attn.studies.engine.robustness", *options]
    swept = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert swept.returncode == 0, swept.stderr
    assert "exact: on 8 x 8 pixels, hybrid90" in swept.stdout  # it takes the other's engine
    rows = json.loads((tmp_path / "exact" / "robustness.json").read_text())["rows"]
    assert [(row["run"], row.get("bits")) for row in rows] == list(product(("exact", "run"), (None, 24, 24)))
    for whole, fine in ((rows[0], rows[1]), (rows[3], rows[4])):  # of 64 reviews; the extinction is left
        assert abs(whole["accuracy"] - fine["accuracy"]) < 0.1
    assert (tmp_path / "exact" / "robustness.png").stat().st_size > 1000
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "robustness.json exists and is not overwritten; move it away, or name this study" in again.stderr
