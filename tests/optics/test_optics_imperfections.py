"""Imperfections of detectors, converters and laser against their formulas."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fourier_attn.optics import Engine, components, cost, optical_dft2, preset
from fourier_attn.optics.imperfections import bend

KEY = jax.random.key(3)
RNG = np.random.default_rng(4)


def made(side: int = 32, **parameters: Any) -> Engine:
    return Engine(shape=(side, side)).replace(**parameters)


def numbers(count: int, side: int) -> Any:
    x = RNG.standard_normal((count, side, side)) + 1j * RNG.standard_normal((count, side, side))
    return x / abs(x).max((1, 2), keepdims=True)  # so that the scale is 1


def read(x: Any, engine: Engine, key: Any = KEY) -> Any:
    return np.asarray(optical_dft2(jnp.asarray(x, jnp.complex64), engine, key), np.complex128)


def exact(x: Any) -> Any:
    return np.fft.fft2(x, norm="ortho")


def power(x: Any) -> float:
    return float(np.mean(abs(x) ** 2))


@pytest.mark.parametrize("detection", ["intensity", "psi4", "linear3", "homodyne_re", "hybrid90"])
def test_unequal_detectors(detection: str) -> None:
    """One detector of error g gives (1 + g) y; a pair its mean, and |E|^2 leaks by its difference."""
    x, g, r = numbers(40, 32), 0.02, 1.5
    e, y = made(detection=detection, prnu_rms=g, lo_ratio=r**2), exact(x)
    wanted = {"intensity": abs(y) ** 2, "homodyne_re": y.real}.get(detection, y)
    error = read(x, e) - wanted
    leak = np.mean(abs(y) ** 4) / (4 * r**2)  # of |E|^2 (g1 - g2) / (4 R), or / (4 R) of a quarter each
    law = {"homodyne_re": (power(y.real) + leak) / 2, "hybrid90": power(y) / 2 + leak}
    assert power(error) == pytest.approx(g**2 * law.get(detection, power(wanted)), rel=0.1)
    again, other = read(x, e, jax.random.key(9)) - wanted, read(x, e.replace(seed=1)) - wanted
    np.testing.assert_allclose(again, error, atol=1e-5)
    assert abs(np.vdot(other, error)) < 0.15 * np.vdot(error, error).real


@pytest.mark.parametrize(("detection", "averages"), [("hybrid90", 1), ("hybrid90", 16), ("psi4", 1)])
def test_flicker_of_amplifiers(detection: str, averages: int) -> None:
    """White noise 1 + f_c / f: averages keep what is slower than the transform, steps of phase cancel it."""
    rate, corner, lowest = 1e6, 3e5, 10.0
    e = made(16, detection=detection, averages=averages, frame_rate_hz=rate)
    e = e.replace(tia_noise=1e-11, power_w=1e-8)
    flicker = e.replace(flicker_corner_hz=corner, flicker_lowest_hz=lowest)
    x = numbers(30, 16)
    white, noisy = (power(read(x, one) - exact(x)) for one in (e, flicker))
    passes = averages * (4 if detection == "psi4" else 1)
    fast = corner / rate * math.log(rate / (rate / passes))
    slow = corner / rate * math.log(rate / passes / lowest) * averages * (detection == "hybrid90")
    shot = power(read(x, e.replace(tia_noise=None)) - exact(x)) / white
    assert noisy / white == pytest.approx(shot + (1 - shot) * (1 + fast + slow), rel=0.04)
    if averages == 1:
        poisson = power(read(x, flicker.replace(statistics="poisson")) - exact(x))
        assert poisson / noisy == pytest.approx(1, rel=0.04)


def test_flicker_of_the_laser() -> None:
    """The spectrum of the power in consecutive passes is that of 1 + f_c / f."""
    rate, corner, lowest, count = 1.0, 0.05, 1e-5, 2**17
    e = made(1, rin_db_hz=-50.0, frame_rate_hz=rate, rin_corner_hz=corner, flicker_lowest_hz=lowest)
    x = np.ones((count, 1, 1))
    relative = abs(read(x, e)[:, 0, 0]) ** 2 - 1
    size = 2**13
    blocks = relative.reshape(-1, size) * np.hanning(size)
    spectrum = np.mean(abs(np.fft.rfft(blocks)) ** 2, axis=0) / np.sum(np.hanning(size) ** 2)
    f = np.fft.rfftfreq(size, 1 / rate)
    for band in ((2e-3, 4e-3), (6e-3, 1.2e-2), (2e-2, 4e-2)):
        inside = (f > band[0]) & (f < band[1])
        law = 1e-5 * (1 + corner / f[inside] / 2)  # white noise up to B = f folds to f / 2
        assert 10 * math.log10(np.mean(spectrum[inside]) / np.mean(law)) == pytest.approx(0, abs=0.6)
    whole = 1e-5 * (1 + corner * math.log(rate / lowest))
    many = [np.var(abs(read(x[: 2**13], e, jax.random.key(k))[:, 0, 0]) ** 2) for k in range(8)]
    assert 0.6 * whole < np.mean(many) <= 1.1 * whole  # the slowest part is in the mean
    white = read(x[:9], e.replace(rin_corner_hz=None))
    np.testing.assert_array_equal(read(x[:9], e.replace(rin_corner_hz=0.0)), white)


def bow(k: int, v: Any) -> Any:
    """Legendre's polynomial with an rms of 1 over the range of a converter."""
    return np.polynomial.Legendre.basis(k)(v) * math.sqrt(2 * k + 1)


MIDDLE = np.linspace(-0.9, 0.9, 10_001)
BEND = float(np.mean([bow(k, MIDDLE) ** 2 for k in (2, 3, 4)]))  # without the ends, where a bend is largest


def code_error(bits: int, **imperfect: Any) -> float:
    """Mean square of the converters' errors in LSB, on intensities that are equally likely."""
    u = RNG.random((200, 16, 16))
    e = made(16, detection="hybrid90", lo_ratio=1.0, adc_bits=bits, adc_range=1.0, dac_range=1.0, **imperfect)
    y = np.fft.ifft2(u * 1.8 - 0.9 + 0j, norm="ortho")
    y = y / 40  # within the modulators' range
    e = e.replace(adc_range=1 / 40)
    error = read(y, e).real - (u * 1.8 - 0.9) / 40
    return float(np.mean(error**2)) * (40 * (2 ** (bits - 1) - 1)) ** 2


@pytest.mark.parametrize(
    ("imperfect", "law"),
    [
        ({}, 1 / 12),
        ({"adc_noise_lsb": 0.7}, 1 / 12 + 0.7**2),
        ({"adc_inl_lsb": 0.8}, 1 / 12 + 0.8**2 * BEND),
        ({"adc_dnl_lsb": 0.6}, 1 / 12 + 0.6**2 / 2),
    ],
)
def test_converters_that_read(imperfect: dict, law: float) -> None:
    """Errors of rounding, noise and thresholds add up, and give the effective bits."""
    assert code_error(7, **imperfect) == pytest.approx(law, rel=0.06)
    if "adc_noise_lsb" in imperfect:
        e = made(detection="hybrid90", adc_bits=7, adc_noise_lsb=0.7)
        assert e.receiver.effective_bits == pytest.approx(7 - math.log2(12 * law) / 2)


@pytest.mark.parametrize("signed", [True, False])
def test_a_bend_is_off_the_line_that_fits_best(signed: bool) -> None:
    """Each converter by its rms; offset and gain, which a calibration removes, are no part of it."""
    u = np.linspace(-1.0 if signed else 0.0, 1.0, 8001)
    column = jnp.asarray(u, jnp.float32)[:, None, None]
    off = np.asarray(bend(column, 8, signed, (0.7, None), (1, 20, 20), KEY), float).reshape(len(u), -1)
    off = off * (127 if signed else 255)
    np.testing.assert_allclose(np.sqrt(np.mean(off**2, 0)), 0.7, rtol=1e-3)
    np.testing.assert_allclose(np.polynomial.polynomial.polyfit(u, off, 1), 0, atol=3e-3)
    parts = np.stack([bow(k, u if signed else 2 * u - 1) for k in (2, 3, 4)])
    np.testing.assert_allclose(np.mean((parts @ off / len(u)) ** 2, 1), 0.7**2 / 3, rtol=0.15)


def test_imperfections_are_those_of_a_device_in_double_precision_too() -> None:
    x = RNG.standard_normal((2, 8, 8))
    for effect in (
        {"detection": "intensity", "prnu_rms": 0.1},
        {"detection": "intensity", "adc_bits": 5, "adc_range": 4.0, "adc_inl_lsb": 2.0, "adc_dnl_lsb": 0.5},
        {"encode": "signed", "dac_bits_amp": 5, "dac_inl_lsb": 2.0, "dac_dnl_lsb": 0.5},
    ):
        found = []
        for double in (False, True):
            with jax.enable_x64(double):
                found.append(np.asarray(optical_dft2(jnp.asarray(x, float), made(8, **effect))))
        assert np.mean(abs(found[1] - found[0]) > 1e-3) < 0.02  # a number next to a threshold may pass it


def test_thresholds_are_unevenly_far_apart() -> None:
    """The width of a code, counted on a ramp, spreads by the differential nonlinearity."""
    bits, dnl, per_code = 6, 0.2, 400
    u = (np.arange(per_code * 62) + 0.5) / per_code / 63 + 0.5 / 63
    widths = []
    for seed in range(8):
        e = made(1, detection="intensity", adc_bits=bits, adc_range=1.0, dac_range=1.0, adc_dnl_lsb=dnl)
        y = read(np.sqrt(u)[:, None, None], e.replace(seed=seed)).real
        codes, counts = np.unique(np.round(y[:, 0, 0] * 63).astype(int), return_counts=True)
        widths += [*(counts[2:-2] / per_code)]
        assert len(codes) >= 60
    assert np.mean(widths) == pytest.approx(1, abs=0.02)
    assert np.std(widths) == pytest.approx(dnl, rel=0.1)


@pytest.mark.parametrize(
    ("imperfect", "law"), [({"dac_inl_lsb": 0.5}, 0.5**2), ({"dac_dnl_lsb": 0.6}, 0.6**2 / 2)], ids=str
)
def test_converters_that_write(imperfect: dict, law: float) -> None:
    """Levels are off by amounts of the converter, static and different for each pixel."""
    bits = 8
    x = RNG.uniform(-1, 1, (200, 16, 16))
    x[:, 0, 0] = 1.0
    e = made(16, encode="signed", dac_bits_amp=bits, **imperfect)
    plain = np.asarray(optical_dft2(jnp.asarray(x, jnp.float32), made(16, encode="signed")))
    devices = [np.asarray(optical_dft2(jnp.asarray(x, jnp.float32), e.replace(seed=k))) for k in range(6)]
    error = np.mean([power(one - plain) for one in devices]) * (2 ** (bits - 1) - 1) ** 2
    assert error == pytest.approx(1 / 12 + law, rel=0.05)
    bent, other = devices[:2]
    levels = np.fft.ifft2(bent, norm="ortho").real
    for pixel in ((2, 3), (5, 1)):
        assert len(np.unique(np.round(levels[:, *pixel], 4))) < 0.8 * len(x)
    assert np.unique(np.round(levels[:, 1:], 5)).size > 50 * 2**bits
    assert power(other - bent) > 1.5 * law / (2 ** (bits - 1) - 1) ** 2


def strong() -> dict[str, float]:
    receiver = {"prnu_rms": 0.02, "flicker_corner_hz": 1e7, "adc_noise_lsb": 0.5, "adc_inl_lsb": 0.5}
    return receiver | {"adc_dnl_lsb": 0.3, "dac_inl_lsb": 0.5, "dac_dnl_lsb": 0.3, "rin_corner_hz": 1e7}


def test_nothing_is_as_before_and_derivatives_are_finite() -> None:
    """Strengths of 0 change no number, and the derivative goes through all of them."""
    e, x = preset("chip_11x11"), jnp.asarray(RNG.standard_normal((4, 11, 11)), jnp.float32)
    for detection in ("hybrid90", "linear3"):
        way = e.replace(detection=detection, cmrr_db=None, averages=2)
        none = way.replace(**dict.fromkeys(strong(), 0.0))
        with_it, without = (optical_dft2(x, one, KEY) for one in (none, way))
        np.testing.assert_allclose(with_it, without, atol=2e-6)  # another program, which rounds differently

    def loss(x: Any, strengths: dict) -> Any:
        y = optical_dft2(x, e.replace(**strengths, averages=2), KEY)
        return jnp.sum(jnp.abs(y) ** 2)

    slopes = jax.grad(loss, (0, 1))(x, strong())
    assert all(bool(jnp.isfinite(slope).all()) for slope in jax.tree.leaves(slopes))
    assert float(abs(slopes[1]["prnu_rms"])) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: made(adc_inl_lsb=0.5, detection="hybrid90"), "adc_bits=None lacks; give adc_bits"),
        (lambda: made(dac_dnl_lsb=0.5), "dac_bits_amp=None lacks"),
        (lambda: made(dac_dnl_lsb=0.5, dac_bits_amp=17), "more than 2.16; lower dac_bits_amp"),
        (lambda: made(detection="hybrid90", flicker_corner_hz=1e3), "equals tia_noise=None; give tia_noise"),
        (lambda: made(rin_corner_hz=1e3), "rin_db_hz, which is None"),
        (lambda: made(prnu_rms=0.1), "prnu_rms=0.1 does nothing"),
        (lambda: made(detection="psi4", prnu_rms=-0.1), "prnu_rms=-0.1 must be at least 0"),
    ],
)
def test_what_cannot_be(call: Callable[[], Engine], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_conversions_cost_by_effective_bits_and_rate() -> None:
    """Schreier's figure of merit falls by 10 dB for each decade above the corner; half an LSB takes a bit."""
    p = components.prices()
    merit = [
        (6.02 * b + 1.76) + 10 * math.log10(0.5 / cost.conversion_j("adc", b, p, rate))
        for b, rate in ((18, 1e3), (18, 5.1e7), (18, 5.1e9))
    ]
    assert merit[0] - merit[1] == pytest.approx(10 * math.log10(2**0.5), abs=1e-6)
    assert merit[0] - merit[2] == pytest.approx(20, abs=0.01)
    assert cost.conversion_j("adc", 8, p, 1e9) == 2**8 * p["adc.level_j"]  # Walden's
    e = preset("chip_11x11")
    clean, noisy = (cost.energy(e.replace(adc_noise_lsb=x), 1).adc for x in (None, 0.5))
    assert clean / noisy == pytest.approx(2)  # sqrt(1 + 12 / 4)
    fine = e.replace(adc_bits=16)
    slow, fast = (cost.energy(fine.replace(frame_rate_hz=f), 1).adc for f in (1e7, 1e10))
    assert fast / slow == pytest.approx(math.hypot(1, 1e10 / 5.1e7) / math.hypot(1, 1e7 / 5.1e7), rel=1e-6)
