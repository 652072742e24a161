"""Slices: an array written digit by digit, a pass each, raises what the modulators' bits allow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from optical import dft, exact, made
from optical import snr as decibels

from fourier_attn.optics import Engine, optical_dft2, plan
from fourier_attn.optics.engine import _digits
from fourier_attn.optics.presets import preset

COARSE = made(encode="signed", dac_bits_amp=4, detection="hybrid90")


def snr(engine: Engine, x: np.ndarray) -> float:
    return decibels(dft(jnp.asarray(x), engine), exact(x))


@pytest.mark.slow
def test_slices_raise_the_modulators_bits_and_not_the_detectors() -> None:
    """4 bit modulators: golden 22.9 and 45.6 dB with 12 bit detectors, which 4 bit detectors do not allow."""
    x = np.random.default_rng(0).uniform(-1, 1, (200, 11, 11)).astype(np.float32)
    fine, rough = COARSE.replace(adc_bits=12), COARSE.replace(adc_bits=4)
    assert snr(fine, x) == pytest.approx(22.9, abs=0.3)
    assert snr(fine.replace(slices=2), x) == pytest.approx(45.6, abs=0.6)
    assert snr(fine.replace(slices=3), x) > 58
    assert snr(rough.replace(slices=2), x) - snr(rough, x) < 1.5
    x = (x + 1j * x[::-1]).astype(np.complex64)
    both = fine.replace(encode="complex", dac_bits_phase=4)
    assert snr(both.replace(slices=2), x) - snr(both, x) > 15  # phases of 4 bit: 18.9 dB each


@pytest.mark.parametrize("encode", ["signed", "complex"])
def test_slices_add_up_to_the_array_and_the_first_are_levels(encode: str) -> None:
    engine = COARSE.replace(encode=encode, slices=3)
    x = normal(2, 11, 11)
    digits = np.asarray(_digits(x, engine))
    assert digits.shape == (2, 3, 11, 11)
    np.testing.assert_allclose(digits.sum(axis=1), x, atol=1e-6)
    sizes = [np.abs(part).max() for part in np.moveaxis(digits, 1, 0)]
    assert sizes[1] < sizes[0] / 10
    assert sizes[2] < sizes[1] / 10
    steps = digits[:, :2] / np.abs(digits[:, :2]).max(axis=(-2, -1), keepdims=True)
    levels = steps.real * (7 if encode == "signed" else 15)
    np.testing.assert_allclose(levels, np.round(levels), atol=1e-3)


def test_slices_have_the_derivative_of_one_pass() -> None:
    x, weight = normal(2, 11, 11), normal(2, 11, 11, seed=1)

    def loss(x: jax.Array, engine: Engine) -> jax.Array:
        return jnp.sum(optical_dft2(x, engine).real * weight)

    one, three = (jax.grad(loss)(x, COARSE.replace(slices=s)) for s in (1, 3))
    np.testing.assert_allclose(three, one, atol=1e-5)


@pytest.mark.slow
def test_slices_are_passes_and_have_noise_of_their_own() -> None:
    chip = preset("chip_11x11").replace(slices=2, detection="psi4", averages=3)
    assert chip.passes == 24
    planned = plan("dft", (5, 121, 121), chip)
    assert planned.passes == 24 * planned.frames
    x, factor, key = normal(3, 11, 11), normal(3, 11, 11, seed=1), jax.random.key(0)
    y = optical_dft2(x, chip, key, factor=factor)
    assert y.shape == x.shape
    np.testing.assert_allclose(y[:2], optical_dft2(x[:2], chip, key, factor=factor[:2]), atol=1e-5)
    noisy = made(dac_bits_amp=8, detection="hybrid90", photons=1e4)
    zero = jnp.zeros((400, 11, 11))
    spread = [float(jnp.std(optical_dft2(zero, noisy.replace(slices=s), key).real)) for s in (1, 4)]
    assert spread[1] / spread[0] == pytest.approx(2, rel=0.02)  # of four passes, each with scale 1


def test_what_cannot_be_sliced() -> None:
    for fields in ({"dac_bits_amp": None}, {"encode": "amplitude"}):
        with pytest.raises(ValueError, match="slices=2 needs dac_bits_amp, dac_range"):
            COARSE.replace(slices=2, **fields)
    with pytest.raises(ValueError, match="dac_range='auto'"):
        COARSE.replace(slices=2, dac_range=1.0)
    with pytest.raises(ValueError, match="loses the phase, which dc_block, slices"):
        COARSE.replace(slices=2, detection="intensity")
    with pytest.raises(ValueError, match="slices=0 must be at least 1"):
        COARSE.replace(slices=0)
