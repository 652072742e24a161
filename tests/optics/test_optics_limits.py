"""The engine at its limits: effects of no strength, noise and nothing else, inputs that cannot be."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from optical import KEY, QUICK, changed, dft, waves
from scipy.stats import kstest

from fourier_attn.optics import (
    Engine,
    optical_circular_correlate,
    optical_dft,
    optical_dft2,
    optical_fourier_mix,
    optical_position_lambda,
)
from fourier_attn.optics.presets import preset, scaled

SMALL = Engine(shape=(4, 5))


def error(y: jax.Array, x: jax.Array) -> float:
    """Largest error of the transform, relative to its rms."""
    expected = np.fft.fft2(np.asarray(x, np.complex128), norm="ortho")
    return np.abs(y - expected).max() / np.sqrt(np.mean(np.abs(expected) ** 2))


OFF = {  # strengths at which an effect is there and does nothing, by detection
    "field": {
        **dict.fromkeys(("phase_noise_rms", "amp_noise_rms", "static_phase_rms", "static_gain_rms"), 0.0),
        **{"extinction_db": math.inf, "crosstalk_db": -math.inf, "shift_pitch": (0.0, 0.0)},
        **{"defocus_rad": 0.0, "rin_db_hz": -math.inf, "power_drift_rms": 0.0},
    },
    "psi3": {"lo_phase_err": 0.0, "lo_drift": 0.0, "photons": 1e15, "tia_noise": 0.0, "dark_current": 0.0},
    "linear3": {"lo_phase_err": 0.0, "photons": 1e15},
    "hybrid90": {"lo_phase_err": 0.0, "photons": 1e15, "load_ohm": 1e10},
}
ON = {
    **{"phase_noise_rms": 0.1, "amp_noise_rms": 0.1, "static_phase_rms": 0.1, "static_gain_rms": 0.1},
    **{"extinction_db": 20.0, "crosstalk_db": -20.0, "shift_pitch": (0.0, 0.1), "defocus_rad": 0.3},
    **{"rin_db_hz": -110.0, "power_drift_rms": 0.1, "lo_phase_err": 0.1, "lo_drift": 0.1},
    **{"photons": 1e3, "tia_noise": 0.05, "dark_current": 1e18, "load_ohm": 1e-18},
}


@pytest.mark.parametrize("detection", OFF)
def test_every_effect_can_be_turned_off(detection: str) -> None:
    x, engine = waves(2, 4, 5), changed(SMALL, detection=detection, **OFF[detection])
    assert error(dft(x, engine, KEY), x) < 2e-5  # float32 beside a reference of 10
    for name in OFF[detection]:
        y = dft(x, changed(engine, **{name: ON[name]}), KEY)
        assert error(y, x) > 5e-3, name


@pytest.mark.parametrize(
    ("fields", "name", "off", "on"),
    [
        ({}, "dac_bits_amp", 24, 3),
        ({}, "dac_bits_phase", 24, 3),
        ({"dac_rounding": "stochastic"}, "dac_bits_amp", 24, 3),
        ({}, "dac_range", 100.0, 0.5),
        ({"detection": "hybrid90"}, "adc_bits", 24, 4),
        ({"detection": "linear3", "adc_rounding": "stochastic"}, "adc_bits", 24, 4),
        ({"detection": "hybrid90"}, "adc_range", "fixed", 0.5),
    ],
)
def test_converters_can_be_turned_off(fields: dict, name: str, off: Any, on: Any) -> None:
    x, engine = waves(2, 4, 5), SMALL.replace(**fields)
    assert error(dft(x, engine.replace(**{name: off}), KEY), x) < 2e-5
    assert error(dft(x, engine.replace(**{name: on}), KEY), x) > 5e-3


def test_a_loss_is_undone() -> None:
    x = waves(2, 4, 5)
    assert error(dft(x, SMALL.replace(insertion_loss_db=15.0)), x) < 2e-6


@pytest.mark.slow
def test_averages_of_one_device_keep_its_error() -> None:
    """Noise falls by the root of the passes until the fixed pattern is left."""
    x, expected = waves(100, 4, 5), np.fft.fft2(np.asarray(waves(100, 4, 5)), norm="ortho")
    once = changed(SMALL, detection="hybrid90", photons=100.0, static_phase_rms=0.0)
    often = once.replace(averages=25)
    noise = np.std(dft(x, once, KEY) - expected)
    np.testing.assert_allclose(np.std(dft(x, often, KEY) - expected), noise / 5, rtol=0.1)
    fixed, bright = often.replace(static_phase_rms=0.1), changed(often, static_phase_rms=0.1, photons=1e9)
    pattern = dft(x, bright, KEY) - expected
    assert np.std(pattern) > noise / 5
    left = dft(x, fixed, KEY) - expected - pattern  # 4,000 numbers: 1 % is a standard error
    np.testing.assert_allclose(np.std(left), noise / 5, rtol=0.1)


@pytest.mark.parametrize("detection", ["psi3", "hybrid90"])
def test_shot_noise_is_white_and_normal(detection: str) -> None:
    """A lit pixel gives the same power everywhere, so that all residuals are of one distribution."""
    delta = np.zeros((500, 4, 5), np.float32)
    delta[:, 1, 2] = 1
    engine = changed(SMALL, detection=detection, photons=1e4)
    noise = dft(jnp.asarray(delta), engine, KEY) - np.fft.fft2(delta, norm="ortho")
    passes = engine.passes  # SNR = N / (1 + |E|^2 / R^2), N photons of the signal in all passes
    variance = (1 + 0.05 / engine.receiver.lo_ratio) / (passes * engine.photons)
    residual = np.stack([noise.real, noise.imag]) / math.sqrt(variance / 2)
    assert kstest(residual.ravel(), "norm").pvalue > 1e-4
    limit = 4.5 / math.sqrt(residual.size)  # of a correlation of independent numbers
    for axis, lag in ((0, 1), (1, 1), (2, 1), (3, 1), (3, 2)):
        assert abs(np.mean(residual * np.roll(residual, lag, axis))) < limit * math.sqrt(2)


@pytest.mark.parametrize("statistics", ["gaussian", pytest.param("poisson", marks=pytest.mark.slow)])
def test_infinite_and_zero_strengths_are_off(statistics: str) -> None:
    """What the command line can say, which has no None."""
    off = {"photons": math.inf, "load_ohm": math.inf, "extinction_db": math.inf, "crosstalk_db": -math.inf}
    off |= {"rin_db_hz": -math.inf, "drift_corr": math.inf, "power_drift_rms": 0.1, "phase_noise_rms": 0.0}
    off |= {"statistics": statistics}
    off |= {"tia_noise": 0.0, "dark_current": 0.0, "static_phase_rms": 0.0, "shift_pitch": (0.0, 0.0)}
    x = waves(2, 4, 5)
    expected = np.fft.fft2(np.asarray(x), norm="ortho")
    constant = dft(x, changed(SMALL, detection="hybrid90", **off), KEY) / expected  # one drift for all
    np.testing.assert_allclose(constant, np.broadcast_to(np.mean(constant), x.shape), rtol=1e-4)
    still = changed(SMALL, detection="hybrid90", **{**off, "power_drift_rms": 0.0})
    assert error(dft(x, still, KEY), x) < 2e-6


def test_one_compilation_for_a_sweep() -> None:
    traces = []

    @partial(jax.jit, compiler_options=QUICK)
    def run(x: jax.Array, engine: Engine, key: jax.Array) -> jax.Array:
        traces.append(engine)
        return optical_dft2(x, engine, key)

    x, engine = waves(2, 4, 5), SMALL.replace(detection="hybrid90", static_phase_rms=1e-3)
    errors = [
        error(run(x, changed(engine, phase_noise_rms=rms, photons=1e6 / rms, seed=seed), KEY), x)
        for seed, rms in enumerate((0.01, 0.1, 1.0))
    ]
    assert len(traces) == 1
    assert errors == sorted(errors)
    chip, before = scaled(preset("chip_11x11"), 8, 0.5, 0), len(traces)
    for k in range(20):
        run(jnp.zeros((1, 11, 11)), scaled(chip, 8, 0.9 + 0.1 * k, k), KEY)
    assert len(traces) == before + 1
    strengths = jnp.array([0.01, 0.1, 1.0])
    swept = jax.vmap(lambda rms: optical_dft2(x, SMALL.replace(phase_noise_rms=rms), KEY))(strengths)
    alone = dft(x, SMALL.replace(phase_noise_rms=0.1), KEY)
    np.testing.assert_allclose(swept[1], alone, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("detection", ["hybrid90", "linear3", "amplitude"])
def test_no_aperture_spoils_another(detection: str) -> None:
    engine = SMALL.replace(detection=detection, dac_bits_amp=6, dac_bits_phase=6, adc_bits=6)
    engine = changed(engine, dc_block=detection != "amplitude", extinction_db=20.0, photons=1e3)
    x = np.array(waves(5, 4, 5))
    clean = np.asarray(dft(jnp.asarray(x), engine, KEY))
    x[1], x[2, 1, 1], x[3, 0, 0] = 0, np.nan, np.inf
    y = np.asarray(dft(jnp.asarray(x), engine, KEY))
    np.testing.assert_allclose(y[[0, 4]], clean[[0, 4]], atol=1e-5)
    assert np.all(np.isfinite(y[1]))
    assert np.all(np.isnan(y[2:4]))
    dark = dft(jnp.zeros((4, 5)), SMALL.replace(detection=detection, adc_bits=24))
    np.testing.assert_allclose(dark, 0, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": (0, 5)}, "shape=.*each at least 1"),
        ({"lens": "3d"}, "lens='3d' is unknown; choose one of 2d, 1d"),
        ({"encode": "polar"}, "encode='polar' is unknown"),
        ({"detection": "psi6"}, "detection='psi6' is unknown"),
        ({"backward": "none"}, "backward='none' is unknown"),
        ({"statistics": "bose"}, "statistics='bose' is unknown"),
        ({"averages": 0}, "averages=0 must be at least 1"),
        ({"dac_bits_amp": 0}, "dac_bits_amp=0 must be from 1 to 24"),
        ({"dac_bits_amp": 1, "encode": "signed"}, "dac_bits_amp=1 must be from 2 to 24"),
        ({"adc_bits": 25, "detection": "hybrid90"}, "adc_bits=25 must be from 2 to 24"),
        ({"dac_range": 0.0}, "dac_range=0.0 must be positive or one of auto"),
        ({"adc_range": "full"}, "adc_range='full' must be positive or one of auto, fixed"),
        ({"phase_noise_rms": -0.1}, "phase_noise_rms=-0.1 must be at least 0"),
        ({"amp_noise_rms": math.nan}, "amp_noise_rms=nan must be at least 0"),
        ({"power_w": 0.0}, "power_w=0.0 must be positive"),
        ({"fill_factor": 1.1}, "fill_factor=1.1 must be positive and at most 1"),
        ({"fill_factor": 0.0}, "fill_factor=0.0 must be positive and at most 1"),
        ({"responsivity": 12.0}, "responsivity=12.0 must be positive and at most 2.1"),
        (
            {"responsivity": 1.26, "wavelength_m": 1.55e-6},
            "responsivity=1.26 A/W is above one electron per photon, 1.25 A/W at wavelength_m=1.55e-06",
        ),
        ({"wavelength_m": 1550.0}, "wavelength_m=1550.0 must be positive and at most 0.001"),
        (
            {"bandwidth_hz": 4.9e8},
            "bandwidth_hz=4.9e.08 is below half of frame_rate_hz=1e.09: such detectors",
        ),
        ({"bandwidth_hz": 1e3, "frame_rate_hz": 2.1e3}, "is below half of frame_rate_hz=2100"),
        ({"amplifiers": "pair", "detection": "psi3"}, "amplifiers='pair' needs balanced pairs, which"),
        ({"crosstalk_db": 0.0}, "crosstalk_db=0.0 must be at most -6.1"),
        ({"tia_noise": 1e-11, "detection": "psi3"}, "tia_noise needs power_w"),
        ({"detection": "intensity", "dc_block": True}, "loses the phase"),
        ({"detection": "intensity", "backward": "optical"}, "loses the phase"),
        ({"encode": "amplitude", "dc_block": True}, "writes no negative numbers"),
        ({"backward": "surrogate"}, "'surrogate' needs one"),
        ({"bits": 8}, "an engine has no bits; it has shape"),
        ({"extinction_db": 0.0, "compensated": True}, "extinction_db=0.0 lets all light through, which no"),
        ({"shape": [4, 5]}, r"shape=\[4, 5\] must be"),
        ({"shift_pitch": 0.1}, "shift_pitch=0.1 must be"),
        ({"shift_pitch": (math.nan, 0.0)}, "shift_pitch=.*must be"),
        ({"averages": 2.5}, "averages=2.5 must be at least 1, and whole"),
        ({"averages": None}, "averages=None must be at least 1, and whole"),
        ({"frame_rate_hz": None}, "frame_rate_hz=None must be positive$"),
        ({"seed": 1.5}, "seed=1.5 must be a whole number"),
        ({"seed": 2**31}, "seed=2147483648 must lie from -2147483648 to 2147483647"),
        ({"seed": -(2**31) - 1}, "seed=-2147483649 must lie from"),
        ({"phase_noise_rms": np.float32(-1.0)}, "phase_noise_rms=-1.0 must be at least 0"),
        ({"phase_noise_rms": np.float32(math.nan)}, "phase_noise_rms=nan must be at least 0"),
        ({"shift_pitch": (np.float32(math.nan), 0.0)}, "shift_pitch=.*must be"),
        ({"dac_bits_amp": np.int64(25)}, "dac_bits_amp=25 must be from 1 to 24"),
        ({"seed": np.int64(2**31)}, "seed=2147483648 must lie from"),
        (
            {"power_w": "1e-5", "detection": "psi3"},
            "power_w='1e-5' must be positive, or None, which is off",
        ),
        ({"rin_db_hz": math.nan}, "rin_db_hz=nan must be a number, or None"),
        ({"phase_noise_rms": math.inf}, "phase_noise_rms=inf must be at least 0 and finite"),
        ({"dac_bits_amp": True}, "dac_bits_amp=True must be from 1 to 24"),
        ({"adc_bits": 8}, "'field' is not a detector, so that adc_bits=8 does nothing"),
        ({"lo_drift": 0.1}, "'field' has no reference, so that lo_drift=0.1 does nothing"),
        ({"lo_drift": 0.1, "detection": "intensity"}, "'intensity' has no reference, so that lo_drift=0.1"),
        ({"shift_pitch": (None, 0.1)}, "shift_pitch=.*must be"),
        ({"slices": True}, "slices=True must be at least 1, and whole"),
    ],
)
def test_bad_parameters(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SMALL.replace(**fields)


def test_numbers_of_numpy_are_pythons() -> None:
    """In every kind of parameter, with the same programs."""
    given = {
        "shape": (np.int64(4), np.int32(5)),
        "dac_bits_amp": np.int64(4),
        "averages": np.uint8(2),
        "dac_range": np.float32(2.0),
        "compensated": np.bool_(True),
        "shift_pitch": (np.float32(0.5), np.float64(0.25)),
        "defocus_rad": np.float32(0.5),
        "seed": np.int64(3),
    }
    engine, plain = Engine().replace(**given), Engine().replace(**jax.tree.map(lambda x: x.item(), given))
    assert engine == plain
    assert repr(engine) == repr(plain)
    assert jax.tree.structure(engine) == jax.tree.structure(plain)
    highest = SMALL.replace(static_phase_rms=0.1, seed=2**31 - 1)
    assert np.isfinite(dft(waves(4, 5), highest)).all()


def test_bad_calls() -> None:
    x = waves(4, 5)
    with pytest.raises(ValueError, match=r"x of shape \(5, 4\) must end in the aperture \(4, 5\)"):
        dft(x.T, SMALL)
    with pytest.raises(ValueError, match="must end in the aperture"):
        dft(x[0], SMALL)
    with pytest.raises(ValueError, match=r"x of shape \(0, 4, 5\) is empty"):
        dft(jnp.zeros((0, 4, 5)), SMALL)
    stochastic = {"adc_bits": 4, "adc_rounding": "stochastic"}
    phases = {"dac_bits_phase": 4, "dac_rounding": "stochastic"}
    for fields in ({"photons": 10.0}, stochastic, phases, {"lo_drift": 0.1}):
        with pytest.raises(ValueError, match="pass key=jax.random.key"):
            dft(x, changed(SMALL, detection="psi3", **fields))
    for encode in ("signed", "amplitude"):
        with pytest.raises(ValueError, match=f"encode='{encode}' writes real numbers only"):
            dft(x, SMALL.replace(encode=encode))
    with pytest.raises(ValueError, match="factor needs encode='complex'"):
        dft(x.real, SMALL.replace(encode="signed"), factor=x)
    with pytest.raises(ValueError, match="preset='chip' is unknown; choose one of ideal"):
        preset("chip")


def test_arguments_are_numbers_of_any_kind() -> None:
    """Integers, lists and arrays of NumPy are promoted; complex ones are refused where they do not fit."""
    four, numbers = Engine(shape=(4, 4)), np.arange(32).reshape(2, 4, 4) - 9
    expected = np.fft.fft2(numbers)
    for x in (numbers, numbers.tolist(), numbers.astype(np.float16)):
        np.testing.assert_allclose(optical_dft2(x, four), expected / 4, atol=1e-4)
        np.testing.assert_allclose(optical_dft(x, four), expected / 4, atol=1e-4)
        mixed = optical_fourier_mix(x, four)
        np.testing.assert_allclose(mixed, expected.real, atol=0.2 if mixed.dtype == np.float16 else 1e-3)
    found = optical_circular_correlate(numbers.reshape(2, 16), np.ones((1, 1, 3), int), four, shape=[4, 4])
    wanted = sum(np.roll(numbers, -j, axis=2) for j in range(3))
    np.testing.assert_allclose(found, wanted.reshape(2, 1, 16), atol=1e-3)
    for call in (
        lambda: optical_fourier_mix(numbers * 1j, four),
        lambda: optical_circular_correlate(numbers * 1j, np.ones((1, 3)), four),
        lambda: optical_circular_correlate(numbers, np.ones((1, 3)) * 1j, four),
    ):
        with pytest.raises(ValueError, match=r"(x|kernel) must not be complex \(complex128\); use "):
            call()
    query, value, table = np.ones((0, 5, 2, 3)), np.ones((0, 5, 4, 2)), np.ones((3, 3, 2))
    assert optical_position_lambda(query, value, table, four).shape == (0, 5, 2, 4)
