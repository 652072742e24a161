"""Pixels smaller than their pitch: what they lose to higher orders, against a simulation."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from optical import KEY, QUICK, changed, dft, exact, made, snr

from fourier_attn.optics import Engine, cost
from fourier_attn.optics.device import matrix
from fourier_attn.optics.presets import build

N, PHOTONS = 11, 1e3
X = np.asarray(normal(200, N, N), float)


def order(fill: float) -> np.ndarray:
    """Amplitude of the zero order of a pixel of width F at frequencies f: sqrt(F) sinc(F f) an axis."""
    axis = math.sqrt(fill) * np.sinc(fill * np.fft.fftfreq(N))
    return axis[:, None] * axis


def simulated(fill: float, rng: np.random.Generator) -> np.ndarray:
    """Four detectors in electrons, the zero order and a reference on them; sqrt(F) is undone digitally."""
    scale = np.abs(X).max(axis=(1, 2), keepdims=True)
    field, reference = exact(X) / scale * order(fill), math.sqrt(10.0)
    counts = []
    for phase in (0, math.pi, math.pi / 2, 3 * math.pi / 2):
        mean = PHOTONS * 0.25 * np.abs(field + reference * np.exp(1j * phase)) ** 2
        counts.append(mean + np.sqrt(mean) * rng.standard_normal(mean.shape))
    read = (counts[0] - counts[1]) + 1j * (counts[2] - counts[3])
    return read / (PHOTONS * reference) * scale / order(fill)


def test_orders_share_a_pixels_light() -> None:
    """Their power adds up to that of the pixel, for any width and any frequency."""
    orders = np.arange(-20_000, 20_001)
    for fill, frequency in ((1.0, 0.1), (0.8, 0.3), (0.3, -0.45), (0.1, 0.0)):
        assert abs(np.sum(fill * np.sinc(fill * (frequency + orders)) ** 2) - 1) < 1e-3


@pytest.mark.parametrize("fill", [1.0, 0.8, 0.5, 0.1])
def test_small_pixels_lose_light(fill: float) -> None:
    """At constant watts the signal falls with the zero order: 18.0, 17.2, 14.2, 0.8 dB, sinc undone."""
    engine = changed(made(shape=(N, N), detection="hybrid90", fill_factor=fill), photons=PHOTONS)
    x = jnp.asarray(X, jnp.float32)
    shape = order(fill) / fill  # which is left in the result
    found = snr(np.asarray(dft(x, engine, KEY)) / shape, exact(X))
    assert abs(found - snr(simulated(fill, np.random.default_rng(1)), exact(X))) < 0.2
    assert abs(snr(np.asarray(dft(x, engine.with_photons(None))) / shape, exact(X)) - 120) < 20


def test_a_cylindrical_lens_loses_it_on_one_axis() -> None:
    """Noise of dark apertures is 1 / sqrt(F) as large, with the lens "2d" 1 / F."""
    for lens, power in (("1d", 0.5), ("2d", 1.0)):
        engine = made(shape=(N, N), detection="hybrid90", lens=lens, photons=PHOTONS)
        dark = jnp.zeros((100, N, N))
        whole, small = (np.std(dft(dark, e, KEY)) for e in (engine, engine.replace(fill_factor=0.25)))
        np.testing.assert_allclose(small / whole, 0.25**-power, rtol=1e-4)


@pytest.mark.parametrize("detection", ["intensity", "amplitude", "psi3", "homodyne_re"])
def test_the_amplitude_is_undone_in_every_detection(detection: str) -> None:
    engine = made(shape=(N, N), detection=detection, fill_factor=0.5)
    y = exact(X) * order(0.5) / 0.5
    expected = {"intensity": np.abs(y) ** 2, "amplitude": np.abs(y), "homodyne_re": y.real}.get(detection, y)
    np.testing.assert_allclose(dft(jnp.asarray(X, jnp.float32), engine), expected, atol=2e-4)


FILLED: dict[str, Any] = {"shape": (4, 4), "detection": "hybrid90", "fill_factor": 0.5, "seed": 3}


def test_a_measured_device_keeps_the_light_of_its_zero_order() -> None:
    """As insertion loss, with a reference and full scales of the same watts: same draws, same numbers."""
    device = made(**FILLED, adc_range=0.8, photons=1e3, insertion_loss_db=3.0, tia_noise=1e-9, cmrr_db=20.0)
    transfer = jax.jit(matrix, compiler_options=QUICK)(device.replace(insertion_loss_db=None))
    measured = Engine.from_measured(transfer, like=device)
    assert measured.device.fill_factor is None
    assert measured.photons == pytest.approx(1e3 / 4)
    x = normal(20, 4, 4)
    np.testing.assert_allclose(dft(x, measured, KEY), dft(x, device, KEY), atol=2e-4)


def test_light_that_shot_noise_asks_for_is_that_of_the_zero_order() -> None:
    bits = {"dac_bits_amp": 8, "dac_bits_phase": 8, "adc_bits": 8}
    whole, small = (cost.energy(made(**FILLED | bits | {"fill_factor": f}), 1) for f in (None, 0.5))
    assert small.laser == pytest.approx(4 * whole.laser)
    assert small.dac == whole.dac


def test_no_light_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="fill_factor=0.0 must be positive and at most 1"):
        build({"device": {"fill_factor": 0.0}})
