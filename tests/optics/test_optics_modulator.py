"""Modulators: drives that know the leak, noise of the drive, voltages that do not reach, kinds."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from optical import KEY, changed, dft, exact, made, snr, waves

from fourier_attn.optics import Engine, optical_dft2
from fourier_attn.optics.modulator import Keys, chirp, write
from fourier_attn.optics.parts import MODULATOR_TYPES, Modulator

SMALL = Engine(shape=(4, 5))
DELTA = 10 ** (-20 / 20)
LEAKY = Modulator(extinction_db=20.0, compensated=True)


def field(x: jnp.ndarray, modulator: Modulator) -> np.ndarray:
    written = write(x, modulator, Keys())
    return np.asarray(written.field), np.asarray(written.scale)


def test_what_the_leak_leaves_is_written_exactly() -> None:
    x = waves(200, 4, 5)
    found, scale = field(x, LEAKY)
    u = np.asarray(x) / scale
    above = np.abs(u) >= DELTA
    assert 0.01 < np.mean(~above) < 0.2
    np.testing.assert_allclose(found[above], u[above], atol=2e-6)
    below = DELTA * u / np.abs(u)  # the nearest of those that are no darker than the leak
    np.testing.assert_allclose(found[~above], below[~above], atol=2e-6)
    leaky = dft(x, changed(SMALL, extinction_db=20.0))
    driven = dft(x, changed(SMALL, extinction_db=20.0, compensated=True))
    assert snr(driven, exact(x)) > snr(leaky, exact(x)) + 8


@pytest.mark.parametrize("encode", ["signed", "amplitude"])
def test_without_a_phase_shifter_the_nearest_is_written(encode: str) -> None:
    """Of all b + i delta sqrt(1 - b^2), by trying them."""
    u = jnp.linspace(-1 if encode == "signed" else 0, 1, 20, dtype=jnp.float32).reshape(4, 5)
    modulator = Modulator(encode=encode, extinction_db=20.0, compensated=True)
    found, _ = field(u, modulator)
    b = np.linspace(-1, 1, 20_001)
    possible = b + 1j * DELTA * np.sqrt(1 - b**2)
    best = possible[np.abs(possible - np.asarray(u)[..., None]).argmin(axis=-1)]
    np.testing.assert_allclose(found, best, atol=2e-3)  # sqrt(1 - b^2) is steep where b is 1
    plain, _ = field(u, Modulator(encode=encode, extinction_db=20.0))
    assert np.all(np.abs(found - np.asarray(u)) <= np.abs(plain - np.asarray(u)) + 1e-6)


@pytest.mark.parametrize("bits", [None, 8])
def test_dark_pixels_do_not_add_up(bits: int | None) -> None:
    """One bright pixel of 121 at 30 dB: the others' light, delta each, is spread over all outputs."""
    x = jnp.zeros((1, 11, 11)).at[0, 3, 4].set(1.0)
    engine = made(extinction_db=30.0, dac_bits_amp=bits, dac_bits_phase=bits)
    delta = 10 ** (-30 / 20)
    coherent = abs(1 + 1j * delta * 120) / 11
    np.testing.assert_allclose(abs(np.asarray(dft(x, engine))[0, 0, 0]), coherent, rtol=0.01)
    error = np.abs(np.asarray(dft(x, engine.replace(compensated=True))) - exact(x))
    assert error.max() < delta * (1.1 if bits is None else 1.25)
    for shape in ((11, 11), (4, 5), (1, 6)):
        np.testing.assert_allclose(np.abs(exact(chirp(shape))), 1, atol=1e-12)


def test_slices_make_up_for_what_the_leak_covers() -> None:
    x = waves(50, 11, 11)
    engine = made(dac_bits_amp=8, dac_bits_phase=8, extinction_db=20.0, compensated=True)
    once, twice = (snr(dft(x, engine.replace(slices=s)), exact(x)) for s in (1, 2))
    assert once < 35
    assert twice > once + 5  # a digit has dark numbers of its own


def test_noise_of_the_drive_is_largest_where_nothing_is_written() -> None:
    """An arm's phase t writes cos t: d cos t = -sqrt(1 - a^2) dt, where noise of the amplitude would be 0."""
    x = jnp.broadcast_to(jnp.linspace(0, 1, 6, dtype=jnp.float32)[None, :, None], (8000, 6, 1))
    engine = made(shape=(6, 1), lens="1d", dac_range=1.0)  # no lens: what is written comes out
    a = np.asarray(x[0])
    for name, slope in (("drive_noise_rms", np.sqrt(1 - a**2)), ("amp_noise_rms", a)):
        y = np.asarray(dft(x, engine.replace(**{name: 0.02}), KEY))
        np.testing.assert_allclose(np.std(y, axis=0), 0.02 * slope, rtol=0.04, atol=1e-6)  # 8,000: 0.8 %
        np.testing.assert_allclose(np.mean(y, axis=0), a, atol=0.001)
    np.testing.assert_allclose(dft(x, engine.replace(drive_noise_rms=0.0), KEY), x, atol=1e-6)


def test_each_bank_of_modulators_has_its_own_noise() -> None:
    ones = jnp.ones((4000, 4, 5))
    engine = changed(SMALL, amp_noise_rms=0.02)
    one = np.asarray(dft(ones, engine, KEY)) - exact(ones)
    two = np.asarray(optical_dft2(ones, engine, KEY, factor=ones)) - exact(ones)
    np.testing.assert_allclose(np.std(two) / np.std(one), 2**0.5, rtol=0.03)


def test_voltages_that_do_not_reach_cost_light_and_phases() -> None:
    """sin(pi V / (2 V_pi)) of the amplitude is left at half of V_pi, and phases up to a quarter turn."""
    x = jnp.abs(normal(2000, 4, 5))
    engine = changed(SMALL, encode="amplitude", detection="hybrid90", photons=1e5)
    full, half = (engine.replace(v_pi=4.0, drive_v=volts) for volts in (4.0, 2.0))
    np.testing.assert_allclose(dft(x, full, KEY), dft(x, engine, KEY), atol=1e-5)
    lost = snr(dft(x, full, KEY), exact(x)) - snr(dft(x, half, KEY), exact(x))
    assert abs(lost + 20 * math.log10(math.sin(math.pi / 4))) < 0.2
    quiet = half.replace(power_w=None, detection="field")
    np.testing.assert_allclose(dft(x, quiet), exact(x), atol=2e-5)  # a smaller field is no error of its own
    turns = jnp.exp(1j * jnp.linspace(-3, 3, 20).astype(jnp.complex64)).reshape(1, 4, 5)
    found, _ = field(turns, Modulator(encode="phase", v_pi=4.0, drive_v=2.0))
    bounded = np.exp(1j * np.clip(np.angle(turns), -np.pi / 2, np.pi / 2))
    np.testing.assert_allclose(found, bounded, atol=1e-6)
    alone = made(shape=(4, 5), v_pi=4.0, drive_v=2.0)  # nothing else is wrong with it
    np.testing.assert_allclose(dft(turns, alone), exact(bounded), atol=1e-5)


def test_kinds_have_a_fastest_frame_and_say_where_it_comes_from() -> None:
    for name, kind in MODULATOR_TYPES.items():
        assert kind.source.startswith(("published", "recalled"))
        encode = "amplitude" if kind.binary else "complex"
        engine = made(kind=name, encode=encode, frame_rate_hz=kind.speed_hz)
        with pytest.raises(ValueError, match=f"Hz that modulators of kind='{name}' follow; lower it"):
            engine.replace(frame_rate_hz=1.01 * kind.speed_hz)
    for bits in (1, 8):  # a frame of 8 bit takes 255 patterns, for which the cost gives the time
        made(kind="micromirror", encode="amplitude", dac_bits_amp=bits, frame_rate_hz=1e4)
