import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from optical import KEY, changed, decibel, dft, exact, made, snr, waves

from fourier_attn.optics import Engine, optical_dft2
from fourier_attn.optics.engine_spec import ELECTRON_C

SMALL = Engine(shape=(4, 5))
SCALE, PHOTONS = 10.0, 1000.0
# unit power is a hundredth of the largest pixel's, 1,000 photons in a pass
ENGINE = made(shape=(4, 5), detection="hybrid90", dac_range=SCALE, photons=PHOTONS * SCALE**2)


@pytest.mark.parametrize("detection", ["psi3", "psi4", "psi5", "hybrid90", "linear3", "homodyne_re"])
def test_recovery_is_exact(detection: str) -> None:
    x = waves(3, 4, 5) / math.sqrt(2)
    expected = exact(x).real if detection == "homodyne_re" else exact(x)
    for lo_ratio in (1.0, 10.0):
        y = dft(x, made(shape=(4, 5), detection=detection, lo_ratio=lo_ratio))
        np.testing.assert_allclose(y, expected, atol=2e-5)  # float32 beside a reference of 10


def test_powers_and_amplitudes() -> None:
    x = waves(3, 4, 5) / math.sqrt(2) * 7
    for detection, power in (("intensity", 2), ("amplitude", 1)):
        y = dft(x, made(shape=(4, 5), detection=detection))
        assert not jnp.iscomplexobj(y)
        np.testing.assert_allclose(y, np.abs(exact(x)) ** power, rtol=1e-5, atol=1e-4)


GOLDEN = [  # the amplitude R of the reference, dB at 1,000 photons per pass; unit power without a lens' gain
    ("psi3", {1: 31.71, 3: 34.32, 10: 34.65}),
    ("psi4", {1: 33.00, 3: 35.57, 10: 35.94}),
    ("psi5", {1: 34.03, 3: 36.48, 10: 36.87}),
    ("linear3", {1 / 11: 9.19, 0.3: 19.42, 1: 28.17, 3: 32.15, 10: 32.84}),
    ("hybrid90", {r: decibel(PHOTONS / (1 + 1 / r**2)) for r in (1, 3, 10)}),
    ("homodyne_re", {r: decibel(2 * PHOTONS / (1 + 1 / r**2)) for r in (1, 3, 10)}),
]


@pytest.mark.parametrize(("detection", "golden"), GOLDEN)
def test_shot_noise_of_each_detection(detection: str, golden: dict) -> None:
    """40,000 numbers know a ratio to 0.03 dB; golden values were measured, with an error of their own."""
    x = waves(2000, 4, 5) / math.sqrt(2)
    expected = exact(x).real if detection == "homodyne_re" else exact(x)
    for r, value in golden.items():
        engine = ENGINE.replace(detection=detection, lo_ratio=(r / SCALE) ** 2)
        y = dft(x, engine, KEY)
        assert abs(snr(y, expected) - value) < 0.2, r
    for factor in (0.1, 10.0):  # 10 dB for each decade of power
        more = dft(x, changed(engine, photons=engine.photons * factor), KEY)
        assert abs(snr(more, expected) - snr(y, expected) - decibel(factor)) < 0.3
    same = jnp.broadcast_to(x[:1], x.shape)
    noise = np.asarray(dft(same, engine, KEY)) - (expected[:1])
    error = np.std(noise, axis=0) / math.sqrt(len(x))
    assert np.all(np.abs(noise.mean(axis=0)) < 4.5 * error)  # unbiased


@pytest.mark.slow
def test_balanced_counting_has_the_noise_of_its_formula() -> None:
    x = waves(500, 4, 5) / math.sqrt(2)
    engine = ENGINE.replace(detection="hybrid90", statistics="poisson", lo_ratio=1 / SCALE**2)
    y = dft(x, engine, KEY)
    assert abs(snr(y, exact(x)) - decibel(PHOTONS / 2)) < 0.3  # 20,000 numbers: 0.06 dB


@pytest.mark.slow
def test_counts_and_their_roots() -> None:
    """Golden variance and bias of the root of a Poisson number, and variance over mean at all sizes.

    A lit pixel puts 1 / 20 of its power everywhere. 40,000 counts: 0.7 % of a variance, 4 standard errors of
    the golden values' own table are below 0.015.
    """
    delta = np.zeros((2000, 4, 5), np.float32)
    delta[:, 0, 0] = 1
    engine = made(shape=(4, 5), detection="amplitude", statistics="poisson")
    golden = {1: (0.402, -0.227), 3: (0.340, -0.100), 10: (0.261, -0.041), 100: (0.250, -0.012)}
    golden[1000] = (0.251, -0.005)
    optimized = {"xla_backend_optimization_level": 2}  # at 0 some counts above 1e4 come out as 0
    dft = jax.jit(optical_dft2, compiler_options=optimized)
    for n in (*golden, 1e4, 9e4, 1.1e5, 1e6, 1e8):
        y = dft(jnp.asarray(delta), changed(engine, photons=20.0 * n), KEY)
        roots = np.asarray(y, np.float64) * math.sqrt(20 * n)
        variance, bias = golden.get(n, (0.25, 0.0))
        np.testing.assert_allclose(roots.var(), variance, atol=0.015)
        assert abs(roots.mean() - math.sqrt(n) - bias) < 0.015 + math.sqrt(n) * 1e-6
        counts = roots**2
        np.testing.assert_allclose(counts.var() / n, 1, atol=0.04)
        assert abs(counts.mean() - n) < 5 * math.sqrt(n / counts.size) + n * 1e-6


ELECTRICAL = {"tia_noise": 0.0, "load_ohm": 1e30, "dark_current": 0.0, "bandwidth_hz": 1e9}
PIXEL = made(shape=(1, 1), detection="intensity", frame_rate_hz=1e9, **ELECTRICAL, photons=1.0)


def measured(engine: Engine) -> float:
    """dB; 10,000 numbers know it to 0.06 dB."""
    y = np.asarray(dft(jnp.ones((10_000, 1, 1)), engine, KEY), np.float64)
    assert abs(y.mean() - 1) < 5 * y.std() / 100
    return -20 * math.log10(y.std())


def test_electrical_noise() -> None:
    """Floors at 1 GHz and 1 uW or 10 uW on a detector, against the signal: 20 dB for each decade."""
    floors = {"tia_noise": (1e-11, 10.0), "load_ohm": (50.0, 4.8), "dark_current": (1e-3, 7.96)}
    for name, (value, expected) in floors.items():
        engine = PIXEL.replace(**{name: value})
        assert abs(measured(engine.replace(power_w=1e-6)) - expected) < 0.25
        assert abs(measured(engine.replace(power_w=1e-5)) - expected - 20) < 0.25
        half = engine.replace(bandwidth_hz=5e8)  # the dark current is counted, like light, not filtered
        gain = 0 if name == "dark_current" else 3.01
        assert abs(measured(half.replace(power_w=1e-6)) - expected - gain) < 0.25
    warm = PIXEL.replace(load_ohm=50.0, temperature=600.0)
    assert abs(measured(warm.replace(power_w=1e-6)) - 4.8 + 3.01) < 0.25


def test_shot_noise_takes_over_where_light_is_strong() -> None:
    """Equal at the photocurrent i_n^2 / 2 q, for the bandwidth f / 2 of a detector that integrates."""
    engine = PIXEL.replace(tia_noise=1e-11, bandwidth_hz=5e8)
    assert abs(engine.replace(power_w=1e-6).photons - 6242) < 1
    crossover = 1e-11**2 / (2 * ELECTRON_C)  # A, and W at 1 A/W
    for ratio in (0.1, 1.0, 10.0, 100.0):
        bright = engine.replace(power_w=ratio * crossover)
        assert abs(measured(bright) - decibel(bright.photons / (1 + 1 / ratio))) < 0.25
    light = PIXEL.replace(power_w=1e-6)
    assert abs(measured(light) - measured(light.replace(dark_current=1e-6)) - 3.01) < 0.25
    assert (
        abs(
            measured(changed(engine, photons=2 * 6242.0, responsivity=2.0))
            - measured(changed(engine, photons=2 * 6242.0))
        )
        < 1e-6
    )


@pytest.mark.parametrize("detection", ["psi3", "psi4", "psi5", "hybrid90"])
def test_a_wrong_phase_step_turns_the_field_and_adds_its_image(detection: str) -> None:
    """Steps th_m + m e give E mean(exp(-i m e)) + E* mean(exp(i (2 th_m + m e)))."""
    x, error = waves(3, 4, 5) / math.sqrt(2), 0.1
    y = dft(x, SMALL.replace(detection=detection, lo_phase_err=error))
    e = exact(x)
    if detection == "hybrid90":
        expected = e.real + 1j * (e.imag * math.cos(error) - e.real * math.sin(error))
    else:
        place = np.arange(int(detection[-1]))
        step = 2 * np.pi * place / len(place)
        image = np.mean(np.exp(1j * (2 * step + error * place)))
        expected = e * np.mean(np.exp(-1j * error * place)) + np.conj(e) * image
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("detection", ["psi3", "psi5", "hybrid90"])
def test_the_laser_is_noisy_for_signal_and_reference(detection: str) -> None:
    engine = SMALL.replace(detection=detection, rin_db_hz=-145.0 + 30)  # 25 dB at 1 GHz
    dark = np.asarray(dft(jnp.zeros((4000, 4, 5)), engine, KEY))
    expected = 0.0 if detection == "hybrid90" else engine.receiver.lo_ratio * 10**-2.5 / engine.passes
    np.testing.assert_allclose(np.mean(np.abs(dark) ** 2), expected, rtol=0.1)
    if detection == "hybrid90":  # both beat: the signal follows the power, not its root
        x = waves(4000, 4, 5) / math.sqrt(2)
        assert abs(snr(dft(x, engine, KEY), exact(x)) - 25.0) < 0.3
    turned = engine.replace(rin_db_hz=None, lo_drift=0.03)
    if detection == "hybrid90":
        assert abs(snr(dft(x, turned, KEY), exact(x)) + decibel(0.03**2)) < 0.3


@pytest.mark.parametrize(("detection", "steps"), [("hybrid90", 2**8 - 2), ("intensity", 2**8 - 1)])
def test_levels_of_the_converter(detection: str, steps: int) -> None:
    x = waves(20, 4, 5) / math.sqrt(2) / 4  # below 1
    engine = made(shape=(4, 5), detection=detection, adc_bits=8, dac_range=1.0)
    limit = 0.9 if detection == "hybrid90" else 0.81
    y = np.asarray(dft(x, engine.replace(adc_range=0.9)))
    parts = np.stack([y.real, y.imag]) if detection == "hybrid90" else y
    step = 2 * limit / steps if detection == "hybrid90" else limit / steps
    np.testing.assert_allclose(parts / step, np.round(parts / step), atol=1e-3)
    assert np.abs(parts).max() <= limit * (1 + 1e-6)
    clean = exact(x) if detection == "hybrid90" else np.abs(exact(x)) ** 2
    clean = np.stack([clean.real, clean.imag]) if detection == "hybrid90" else clean
    np.testing.assert_allclose(parts, np.clip(clean, -limit, limit), atol=0.501 * step)
    fixed = np.asarray(dft(x, engine.replace(adc_range="fixed")))
    step *= math.sqrt(20) / 0.9 if detection == "hybrid90" else 20 / 0.81
    np.testing.assert_allclose(fixed.real / step, np.round(fixed.real / step), atol=1e-3)
