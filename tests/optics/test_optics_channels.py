"""Channels that share a pass: scales and crosstalk by their formulas, frames counted, energy and time."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from optical import KEY, QUICK, changed, decibel, dft, exact, frames_sent, made, waves

from fourier_attn.ops.circular import circular_correlate
from fourier_attn.optics import (
    Engine,
    cost,
    optical_circular_correlate,
    optical_dft,
    optical_dft2,
    optical_fourier_mix,
    plan,
    preset,
)
from fourier_attn.optics.channels import detuning_error

N = 6


def moved(n: int, relative: float) -> np.ndarray:
    """Overlap of pixels and of detectors at the frequencies k lambda0 / lambda, see test_optics_pixels."""
    scale, p = 1 / (1 + relative), np.arange(n) - n // 2
    if scale > 1:
        return np.sinc(p / scale - p[:, None]) / np.sqrt(scale)
    return np.sinc(p - scale * p[:, None]) * np.sqrt(scale)


def detuned(x: Any, relative: float) -> np.ndarray:
    """The transform of both axes at another wavelength."""
    rows, columns = (moved(n, relative) for n in x.shape[-2:])
    return exact(np.einsum("...mn,mk,nl->...kl", np.asarray(x, complex), rows, columns))


@pytest.mark.parametrize("detection", ["hybrid90", "intensity"])
def test_channels_without_spacing_and_crosstalk_are_the_engine(detection: str) -> None:
    """Seven apertures in two groups of 2 x 3 channels, of which five stay dark."""
    x = waves(7, N, N)
    engine = made(shape=(N, N), detection=detection)
    shared = engine.replace(wavelengths=3, apertures=2)
    np.testing.assert_array_equal(dft(x, shared), dft(x, engine))
    off = {"channel_spacing": 0.0, "channel_crosstalk_db": -math.inf, "aperture_crosstalk_db": -math.inf}
    np.testing.assert_allclose(dft(x, shared.replace(**off)), dft(x, engine), rtol=1e-4, atol=5e-5)


def test_each_wavelength_has_its_scale() -> None:
    x = waves(2, 5, N, N + 1)  # two passes of five wavelengths
    engine = made(shape=(N, N + 1), wavelengths=5, channel_spacing=0.03)
    y = dft(x, engine)
    for w in range(5):
        np.testing.assert_allclose(y[:, w], detuned(x[:, w], 0.03 * (w - 2)), atol=1e-5)
    alone = dft(x[:, 4], made(shape=(N, N + 1), detuning=0.06))
    np.testing.assert_allclose(y[:, 4], alone, atol=1e-6)


@pytest.mark.parametrize("lens", ["2d", "1d"])
def test_the_error_of_a_channel_is_predicted(lens: str) -> None:
    """White noise of 11 x 11: error over signal of each of 31 wavelengths, 0.8 nm apart at 1550 nm."""
    w, spacing = 31, 0.8 / 1550
    x = waves(300, w, 11, 11)
    engine = made(shape=(11, 11), wavelengths=w, channel_spacing=spacing, lens=lens)
    wanted = exact(x) if lens == "2d" else exact(x, (-1,))
    error = np.mean(np.abs(dft(x, engine) - wanted) ** 2, (0, 2, 3)) / 2  # of a power of 2
    expected = [detuning_error(spacing * (i - 15), (11, 11), lens) for i in range(w)]
    outer = np.abs(np.arange(w) - 15) > 1  # float32 hides less
    np.testing.assert_allclose(error[outer], np.array(expected)[outer], rtol=0.05)
    assert expected[15] == pytest.approx(0, abs=1e-12)
    p = np.arange(11) - 5
    away = np.subtract.outer(p, p) + np.eye(11)
    slope = (np.sum((p / away) ** 2) - np.sum(p**2)) / 11 + 1 / 4  # of sqrt(s) sinc(n - s m), squared
    found = detuning_error(spacing * 3, (1, 11), "1d")
    assert found == pytest.approx(slope * (spacing * 3) ** 2, rel=0.02)


@pytest.mark.parametrize("detection", ["hybrid90", "psi3", "intensity"])
def test_readings_of_neighbouring_wavelengths_add(detection: str) -> None:
    """Power kappa of each neighbour: fields of a reference, or powers, whose sum over channels stays."""
    x, kappa = waves(2, 4, N, N), 0.05
    engine = made(shape=(N, N), detection=detection, wavelengths=4, channel_crosstalk_db=decibel(kappa))
    engine = engine.replace(dac_range=8.0)  # of all channels
    y = exact(x) if detection != "intensity" else np.abs(exact(x)) ** 2
    shares = np.eye(4) * (1 - 2 * kappa) + kappa * (np.eye(4, k=1) + np.eye(4, k=-1))
    shares[0, 0] = shares[3, 3] = 1 - kappa
    np.testing.assert_allclose(dft(x, engine), np.einsum("vw,bwkl->bvkl", shares, y), rtol=1e-4, atol=5e-5)


def test_it_is_light_that_leaks() -> None:
    """Each array is written with its largest number as 1, and read in its own unit."""
    x = np.zeros((2, N, N), np.float32)
    x[0, 0, 0], x[1, 0, 0] = 100.0, 1.0  # flat spectra
    engine = made(shape=(N, N), detection="hybrid90", wavelengths=2, channel_crosstalk_db=-20.0)
    y = jnp.real(dft(jnp.asarray(x), engine))[:, 0, 0] * N
    np.testing.assert_allclose(y, (100.0, 1.0), rtol=1e-5)
    same = jnp.real(dft(jnp.asarray(x), engine.replace(dac_range=100.0)))[:, 0, 0] * N
    np.testing.assert_allclose(same, (99.01, 1.99), rtol=1e-4)


def test_crosstalk_between_apertures_is_coherent() -> None:
    """Power kappa goes over each boundary, none is lost, and fields add: 20 dB a decade against 10."""
    x, kappa = np.zeros((4, N, N), np.float32), 0.01
    x[1] = np.asarray(waves(N, N).real)
    engine = made(shape=(N, N), apertures=4, aperture_crosstalk_db=decibel(kappa), dac_range=8.0)
    power = np.abs(dft(jnp.asarray(x), engine)) ** 2
    total = np.abs(exact(x[1])) ** 2
    np.testing.assert_allclose(power.sum(0), total, rtol=1e-4)
    np.testing.assert_allclose(power[0], kappa * total, rtol=1e-3)
    np.testing.assert_allclose(power[2], kappa * (1 - kappa) * total, rtol=1e-3)
    other = engine.replace(seed=1)
    full = waves(4, N, N)
    assert np.std(np.abs(dft(full, engine) - dft(full, other))) > 0.05  # phases are those of a device


def test_an_average_signal_to_crosstalk_ratio() -> None:
    """Equal channels of white noise: error 2 kappa and 2 kappa^2 + (2 kappa)^2 within, by the two laws."""
    x, kappa = waves(200, 5, 8, 8), 1e-3
    inner = slice(1, 4)
    for changes, expected in (
        ({"wavelengths": 5, "channel_crosstalk_db": -30.0}, 6 * kappa**2),
        ({"apertures": 5, "aperture_crosstalk_db": -30.0}, 2 * kappa),
    ):
        y = dft(x, made(shape=(8, 8), dac_range=8.0, **changes))
        error = np.mean(np.abs(y - exact(x))[:, inner] ** 2) / 2
        np.testing.assert_allclose(error, expected, rtol=0.05)


def test_channels_have_noise_of_their_own_and_share_the_laser() -> None:
    engine = changed(made(shape=(4, 4), detection="hybrid90", wavelengths=3, apertures=2), photons=1e3)
    x = jnp.ones((12, 4, 4))
    noise = np.asarray(dft(x, engine, KEY) - dft(x, made(shape=(4, 4)))).reshape(12, -1)
    similar = np.abs(np.corrcoef(noise) - np.eye(12))
    assert similar.max() < 0.999
    bright = made(shape=(4, 4), detection="hybrid90", wavelengths=3, apertures=2, rin_db_hz=-110.0)
    relative = jnp.real(dft(x, bright, KEY))[:, 0, 0] / 4
    np.testing.assert_allclose(relative[:6], relative[0], rtol=1e-5)
    np.testing.assert_allclose(relative[6:], relative[6], rtol=1e-5)
    assert abs(relative[0] - relative[6]) > 1e-3


def test_a_second_bank_and_slices_stay_in_their_channels() -> None:
    x, factor = waves(5, 4, 4), waves(5, 4, 4, seed=7)
    engine = made(shape=(4, 4), dac_bits_amp=8, dac_bits_phase=8, slices=2)
    shared = engine.replace(wavelengths=2, apertures=2)
    np.testing.assert_array_equal(dft(x, shared, factor=factor), dft(x, engine, factor=factor))


def test_slow_modulators_remember_their_own_channel() -> None:
    """Those of the array three apertures back, as three engines with one channel have it."""
    x = waves(9, 4, 4)
    slow = made(shape=(4, 4), settling_s=1e-9, frame_rate_hz=1e9, detection="psi3")
    shared = dft(x, slow.replace(wavelengths=3))
    for w in range(3):
        np.testing.assert_allclose(shared[w::3], dft(x[w::3], slow), atol=1e-5)


def test_lots_of_frames_are_those_that_run() -> None:
    """Every round fills its channels by itself: 12 transforms of 16 x 16 on 4 x 4, and a correlation."""
    engine = made(shape=(4, 4), wavelengths=5, apertures=2, detection="psi3")
    x, kernel = waves(3, 16, 16), waves(2, 3, 3).real
    runs: dict[str, tuple[Any, Any]] = {
        "dft": (partial(optical_dft, engine=engine), (x,)),
        "fourier_mix": (partial(optical_fourier_mix, engine=engine), (x.real,)),
        "circular_correlate": (
            partial(optical_circular_correlate, engine=engine, shape=(16, 16)),
            (x.real.reshape(3, 256), kernel),
        ),
    }
    for operation, (function, arrays) in runs.items():
        with frames_sent() as sent:
            y = jax.jit(function, compiler_options=QUICK)(*arrays)
        options: dict[str, Any] = {}
        if operation == "circular_correlate":
            options = {"kernel": kernel.shape, "shape": (16, 16)}
            expected = circular_correlate(*arrays, shape=(16, 16))
            np.testing.assert_allclose(y, expected, atol=1e-3)
        planned = plan(operation, arrays[0].shape, engine, **options)
        assert planned.frames == sum(sent)
        assert planned.lots == sum(-(-frames // 10) for frames in sent)
        assert planned.passes == 3 * planned.lots


def test_time_is_shared_and_energy_is_not() -> None:
    """Ten channels take a tenth of the time; only what is always on takes a tenth of the energy."""
    chip = preset("chip_11x11")
    many = chip.replace(wavelengths=5, apertures=2)
    one, ten = (cost.seconds(e, 1000, stages=3) for e in (chip, many))
    assert ten.optics == pytest.approx(one.optics / 10)
    assert (ten.transfer, ten.turnaround) == pytest.approx((one.transfer, one.turnaround))
    spent, shared = (cost.energy(e, 1000, static_w=1.0) for e in (chip, many))
    assert shared.static == pytest.approx(spent.static / 10)
    assert shared.total - shared.static == pytest.approx(spent.total - spent.static)
    dark = cost.energy(many, 1001, lots=101)  # nine channels of the last pass carry nothing
    assert dark.laser == pytest.approx(1010 / 1000 * spent.laser)
    assert dark.receiver == pytest.approx(1010 / 1000 * spent.receiver)
    assert dark.adc == pytest.approx(1001 / 1000 * spent.adc)


@pytest.mark.parametrize("detection", ["intensity", "hybrid90"])
def test_derivatives_through_channels(detection: str) -> None:
    engine = made(shape=(3, 3), detection=detection, wavelengths=2, apertures=2, dac_range=8.0)
    with jax.enable_x64(True):

        def total(x: jax.Array, spacing: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
            crosstalk = {"channel_crosstalk_db": first, "aperture_crosstalk_db": second}
            y = optical_dft2(x, engine.replace(channel_spacing=spacing, **crosstalk))
            return jnp.real(jnp.sum(jnp.abs(y) ** 2 * jnp.arange(27.0).reshape(3, 3, 3)))

        x = jnp.asarray(np.asarray(waves(3, 3, 3).real, np.float64))
        check_grads(
            jax.jit(total), (x, 0.02, -20.0, -15.0), order=1, modes=["fwd", "rev"], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"wavelengths": 0}, "wavelengths=0 must be at least 1, and whole"),
        ({"channel_spacing": 1e-3}, "channel_spacing=0.001 needs neighbours, but wavelengths=1"),
        ({"channel_crosstalk_db": -30.0}, "channel_crosstalk_db=-30.0 needs neighbours, but wavelengths=1"),
        ({"aperture_crosstalk_db": -30.0}, "aperture_crosstalk_db=-30.0 needs neighbours, but apertures=1"),
        ({"wavelengths": 2, "channel_crosstalk_db": 0.0}, "channel_crosstalk_db=0.0 must be at most -3.1"),
        (
            {"wavelengths": 32, "channel_spacing": 0.02},
            "channel_spacing=0.02 times 31 is more than half of the design wavelength",
        ),
        ({"detuning": -0.5}, "detuning=-0.5 must be"),
    ],
)
def test_channels_that_cannot_be(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine().replace(**fields)
    measured = Engine.from_measured(np.eye(4, dtype=complex)).replace(wavelengths=2)
    with pytest.raises(ValueError, match="channel_spacing=0.01: a measured transfer is that of one"):
        measured.replace(channel_spacing=0.01)
