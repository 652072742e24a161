"""Correlation by incoherent light, against transfer functions and sums over coherent modes."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.test_util import check_grads
from optical import KEY, QUICK, changed, made, snr

from fourier_attn.optics import Engine, plan
from fourier_attn.optics.device import matrix
from fourier_attn.optics.incoherent import optical_incoherent_correlate

SHAPE = (5, 6)
CAMERA = made(shape=SHAPE, detection="intensity")
correlate = jax.jit(
    optical_incoherent_correlate, static_argnames=("encoding", "signed"), compiler_options=QUICK
)
IMAGES, KERNEL = jnp.abs(normal(3, *SHAPE)), jnp.abs(normal(3, 2, seed=1))


def oracle(x: Any, kernel: Any) -> np.ndarray:
    """sum_m w[m] x[n + m] on a circle, by its definition."""
    y = np.zeros(np.shape(x))
    for place in np.ndindex(np.shape(kernel)):
        y += kernel[place] * np.roll(np.asarray(x, float), [-n for n in place], (-2, -1))
    return y


def filter_of(kernel: Any) -> tuple[np.ndarray, float]:
    """H of a kernel without gain, and what it was divided by."""
    spectrum = np.conj(np.fft.fft2(np.sqrt(np.asarray(kernel, float)), SHAPE))
    return spectrum / np.abs(spectrum).max(), np.abs(spectrum).max()


@pytest.mark.parametrize("signed", ["none", "input", "kernel", "both"])
def test_rails_give_the_correlation(signed: str) -> None:
    x = normal(3, *SHAPE) if signed in ("input", "both") else IMAGES
    kernel = normal(3, 2, seed=1) if signed in ("kernel", "both") else KERNEL
    options: dict[str, Any] = {} if signed == "none" else {"encoding": "two_rail", "signed": signed}
    y = correlate(x, kernel, CAMERA, **options)
    np.testing.assert_allclose(y, oracle(x, kernel), rtol=1e-4, atol=1e-5)
    lossy = correlate(x, kernel, CAMERA.replace(insertion_loss_db=6.0), **options)
    np.testing.assert_allclose(lossy, y, rtol=1e-4, atol=1e-5)
    passes = {"none": 1, "input": 2, "kernel": 2, "both": 4}[signed]
    assert plan("incoherent_correlate", x.shape, CAMERA, kernel=(3, 2), **options).passes == 3 * passes


def test_the_transfer_function_is_the_autocorrelation_of_the_filter() -> None:
    """Of each spatial frequency, with sums over the filter plane; a phase in it can only lower it."""
    h, largest = filter_of(KERNEL)
    y = np.asarray(correlate(IMAGES, KERNEL, CAMERA), float)
    transfer = np.zeros(SHAPE, complex)
    for q in np.ndindex(*SHAPE):
        transfer[q] = np.mean(h * np.conj(np.roll(h, q, (0, 1))))
    found = np.fft.fft2(y) / np.fft.fft2(np.asarray(IMAGES, float)) / largest**2
    np.testing.assert_allclose(found, np.broadcast_to(transfer, found.shape), atol=2e-5)
    assert np.all(np.abs(transfer) <= transfer[0, 0].real + 1e-12)


def test_it_is_the_limit_of_many_coherent_modes() -> None:
    """Tilted waves of a source that fills the aperture's spectrum: their coherent 4f images add in power."""
    h, largest = filter_of(KERNEL)
    amplitude = np.sqrt(np.asarray(IMAGES[0], float))
    y = np.asarray(correlate(IMAGES[0], KERNEL, CAMERA), float)
    rows, columns = (np.arange(n)[:, None] * np.arange(n) / n for n in SHAPE)

    def image(u: int, v: int) -> np.ndarray:
        wave = np.exp(2j * np.pi * (rows[u][:, None] + columns[v]))
        return np.abs(np.fft.ifft2(h * np.fft.fft2(amplitude * wave))) ** 2 * largest**2

    modes = [image(u, v) for u in range(SHAPE[0]) for v in range(SHAPE[1])]
    np.testing.assert_allclose(np.mean(modes, 0), y, rtol=1e-4)
    assert snr(modes[0], y) < 10  # one mode is coherent, and another thing


@pytest.mark.parametrize("centered", [False, True])
def test_a_device_has_a_spot_for_each_pixel(centered: bool) -> None:
    """Errors of two lenses: powers of the coherent images of all pixels, each alone, add."""
    engine = CAMERA.replace(static_phase_rms=0.3, crosstalk_db=-20.0, centered=centered)
    lossy = engine.replace(insertion_loss_db=6.0)
    y = np.asarray(correlate(IMAGES, KERNEL, engine))
    np.testing.assert_allclose(correlate(IMAGES, KERNEL, lossy), y, rtol=1e-4)
    h, largest = filter_of(KERNEL)
    h = np.fft.fftshift(h) if centered else h
    first, second = (np.asarray(matrix(engine.replace(seed=seed))) for seed in (0, 0x2545F491))
    spots = np.abs(first * h.ravel() @ second) ** 2 * largest**2
    image = (np.asarray(IMAGES).reshape(3, -1) @ spots).reshape(IMAGES.shape)
    if centered:
        image = np.fft.ifftshift(image, (-2, -1))
    image = np.roll(image[..., ::-1, ::-1], 1, (-2, -1))
    if centered:
        image = np.fft.fftshift(image, (-2, -1))
    np.testing.assert_allclose(y, image, rtol=1e-4)
    assert 0 < snr(y, oracle(IMAGES, KERNEL)) < 30
    still = CAMERA.replace(static_phase_rms=0.0, centered=centered)
    np.testing.assert_allclose(correlate(IMAGES, KERNEL, still), oracle(IMAGES, KERNEL), rtol=2e-4)


def test_shot_noise_is_that_of_the_image() -> None:
    """Variance = mean electrons: of each rail, so that signed kernels have the noise of both."""
    x = jnp.ones((2000, *SHAPE))
    kernel = jnp.asarray([[1.0, -0.5]])
    engine = changed(CAMERA, photons=1e4)
    y = np.asarray(correlate(x, kernel, engine, KEY, encoding="two_rail", signed="kernel"))
    np.testing.assert_allclose(y.mean(), 0.5, rtol=1e-2)
    scales = [filter_of(np.array([[1.0]]))[1] ** 2, filter_of(np.array([[0.5]]))[1] ** 2]
    expected = (1.0 * scales[0] + 0.5 * scales[1]) / 1e4  # scale^2 times mean / (n scale)
    np.testing.assert_allclose(y.var(), expected, rtol=0.03)


def test_derivatives_are_those_of_a_bilinear_map() -> None:
    """With respect to images and kernels, also in the dark, and through a device with errors."""
    dark = IMAGES[0].at[0, 0].set(0.0)
    for engine in (CAMERA, CAMERA.replace(static_phase_rms=0.3)):
        run = partial(optical_incoherent_correlate, engine=engine, encoding="two_rail")
        with jax.enable_x64(True):
            arrays = [jnp.asarray(np.asarray(part, float)) for part in (dark, KERNEL)]
            check_grads(jax.jit(run), arrays, order=1, modes=["fwd", "rev"], rtol=1e-4, atol=1e-4)
        by = jax.jit(jax.grad(lambda x, w, run=run: jnp.sum(run(x, w)), argnums=(0, 1)))
        assert all(np.all(np.isfinite(g)) for g in by(jnp.zeros(SHAPE), jnp.zeros((2, 2))))
        empty = by(jnp.zeros(SHAPE).at[2, 3].set(1.0), jnp.zeros((2, 2)))[1]
        if engine is CAMERA:  # where rounding is below zero
            np.testing.assert_allclose(empty, np.ones((2, 2)), rtol=1e-5)
    pixels = jax.jit(jax.grad(lambda x: jnp.sum(optical_incoherent_correlate(x, KERNEL, CAMERA))))(dark)
    np.testing.assert_allclose(pixels, np.full(SHAPE, float(KERNEL.sum())), rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "encoding", "message"),
    [
        ({"detection": "hybrid90"}, None, "detection='hybrid90' does not read the intensity"),
        ({"encode": "phase"}, None, "encode='phase' and lens='2d' must write amplitudes"),
        ({"source_pixels": 1.0}, None, "incoherent light has no modes, .* set source_pixels=None"),
        ({"wavelengths": 2}, None, "emulated in one channel; .* wavelengths=1 and apertures=1"),
        ({"shape": (4, 4)}, None, r"x of shape \(3, 5, 6\) must end in the aperture \(4, 4\)"),
        ({}, "bias", "encoding='bias' is unknown; choose one of two_rail, or None"),
    ],
)
def test_what_cannot_be_incoherent(changes: dict, encoding: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        optical_incoherent_correlate(IMAGES, KERNEL, CAMERA.replace(**changes), encoding=encoding)


def test_numbers_that_are_not_finite_are_not_hidden() -> None:
    for x, w in ((IMAGES[0].at[1, 2].set(jnp.nan), KERNEL), (IMAGES[0], KERNEL.at[0, 0].set(jnp.nan))):
        for options in ({}, {"encoding": "two_rail"}):
            for engine in (CAMERA, CAMERA.replace(static_phase_rms=0.3)):
                assert np.any(np.isnan(correlate(x, w, engine, **options)))


def test_light_has_no_sign() -> None:
    for x, w, name in ((-IMAGES, KERNEL, "input"), (IMAGES, -KERNEL, "kernel")):
        with pytest.raises(ValueError, match=f"the {name} reaches -.*, but light has no sign; use encoding"):
            optical_incoherent_correlate(x, w, CAMERA)
    with pytest.raises(ValueError, match=r"kernel of shape \(6, 2\) must be"):
        optical_incoherent_correlate(IMAGES, jnp.ones((6, 2)), CAMERA)
    with pytest.raises(ValueError, match=r"x of shape \(0, 5, 6\) must .* have no empty axis"):
        optical_incoherent_correlate(IMAGES[:0], KERNEL, CAMERA)
    with pytest.raises(ValueError, match="signed='kernel' needs an encoding"):
        optical_incoherent_correlate(IMAGES, KERNEL, CAMERA, signed="kernel")
    large = Engine().replace(shape=(100, 100), static_phase_rms=0.1, detection="intensity")
    with pytest.raises(ValueError, match="too many pixels for its matrix"):
        optical_incoherent_correlate(jnp.ones((100, 100)), KERNEL, large)
    with pytest.raises(ValueError, match="this engine is noisy: pass key"):
        optical_incoherent_correlate(IMAGES, KERNEL, changed(CAMERA, photons=1e3))
