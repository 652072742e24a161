"""Partially coherent light, against sums over the points of a source in double precision."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from optical import KEY, QUICK, changed, dft, exact, made, snr, waves

from fourier_attn.optics import Engine, optical_dft2
from fourier_attn.optics.coherence import modes, mutual_coherence

N1, N2 = 6, 9
SOURCE = made(shape=(N1, N2), source_pixels=2.5, source_shape="uniform", source_modes=64)
GAUSSIAN = SOURCE.replace(source_pixels=1.0, source_shape="gaussian", source_modes=16)


def visibility(shape: str, size: float | None, separation: np.ndarray, n: int) -> np.ndarray:
    """Fourier transform of the source (van Cittert and Zernike)."""
    turns = (size or 0.0) * separation / n
    return np.sinc(turns) if shape == "uniform" else np.exp(-2 * (np.pi * turns) ** 2)


def places(n: int) -> np.ndarray:
    """Pixels, counted from the middle of the aperture."""
    return np.arange(n) - n // 2


def apodised(x: Any, engine: Engine) -> np.ndarray:
    """The array times the visibility of each pixel and the middle of the beam."""
    laser = engine.laser
    rows, columns = (visibility(laser.source_shape, laser.source_pixels, places(n), n) for n in engine.shape)
    return np.asarray(x, complex) * rows[:, None] * columns


@pytest.mark.parametrize("off", ["one mode", "no size", "one wavelength", "no width", "no path"])
def test_a_limit_of_it_is_coherent(off: str) -> None:
    x = waves(3, N1, N2)
    changes: dict[str, Any] = {
        "one mode": {"source_pixels": 3.0, "source_modes": 1},
        "no size": {"source_pixels": 0.0},
        "one wavelength": {"line_width_rms": 0.01, "line_modes": 1, "path_difference": 5.0},
        "no width": {"line_width_rms": 0.0, "path_difference": 5.0},
        "no path": {"line_width_rms": 1e-9, "path_difference": 0.0},
    }[off]
    for detection in ("hybrid90", "psi3", *(["intensity"] if "path_difference" not in changes else [])):
        engine = made(shape=(N1, N2), detection=detection)
        found, expected = dft(x, engine.replace(**changes)), dft(x, engine)
        if off.startswith("one"):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_allclose(found, expected, atol=5e-5)  # float32 beside a reference of 10


@pytest.mark.parametrize("engine", [SOURCE, GAUSSIAN], ids=["uniform", "gaussian"])
def test_visibility_is_the_transform_of_the_source(engine: Engine) -> None:
    separation = np.stack(np.meshgrid(np.arange(4), np.arange(-4, 5), indexing="ij"), -1)
    found = mutual_coherence(modes(engine), jnp.asarray(separation, jnp.float32), engine)
    expected = np.ones(separation.shape[:-1])
    for axis, n in enumerate(engine.shape):
        expected *= visibility(
            engine.laser.source_shape, engine.laser.source_pixels, separation[..., axis], n
        )
    # 64 points instead of a line have an error of (pi S m / N / 64)^2 / 6
    np.testing.assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize("shape", ["gaussian", "uniform"])
@pytest.mark.parametrize("size", [0.2, 0.5, 1.0, 1.6])
def test_points_that_a_source_needs(shape: str, size: float) -> None:
    """An error of 0.1 % up to half an aperture with a reference, and of the whole one without."""
    few, many = (math.pi * size) ** 2 / 2 + 6, 2 * (math.pi * size) ** 2 + 6
    if shape == "uniform":
        few, many = 16 * math.sqrt(size) + 2, 23 * math.sqrt(size) + 2
    for points, farthest in ((few, 0.5), (many, 1.0)):
        engine = made(
            shape=(1, 100), source_pixels=size, source_shape=shape, source_modes=math.ceil(points), lens="1d"
        )
        pixels = np.arange(int(100 * farthest) + 1)
        separation = jnp.asarray(np.stack([0 * pixels, pixels], -1), jnp.float32)
        found = np.asarray(mutual_coherence(modes(engine), separation, engine))
        assert np.max(np.abs(found - visibility(shape, size, pixels, 100))) < 1e-3


@pytest.mark.parametrize("detection", ["hybrid90", "psi4", "linear3", "homodyne_re"])
def test_a_reference_sees_the_array_times_the_visibility(detection: str) -> None:
    x = waves(2, N1, N2)
    found = dft(x, GAUSSIAN.replace(detection=detection))
    expected = exact(apodised(x, GAUSSIAN))
    expected = np.real(expected) if detection == "homodyne_re" else expected
    np.testing.assert_allclose(found, expected, atol=5e-5)


def test_powers_of_the_sources_points_add() -> None:
    """A uniform source: the mean over its points of the pattern, moved there (read between its pixels)."""
    x, modes_of = waves(N1, N2), 4
    engine = SOURCE.replace(detection="intensity", source_modes=modes_of)
    expected = np.zeros((N1, N2))
    steps = (np.arange(modes_of) + 0.5) / modes_of - 0.5
    for u in 2.5 * steps:
        for v in 2.5 * steps:
            wave = np.exp(2j * np.pi * (u * places(N1)[:, None] / N1 + v * places(N2) / N2))
            expected += np.abs(exact(np.asarray(x) * wave)) ** 2 / modes_of**2
    np.testing.assert_allclose(dft(x, engine), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dft(x, engine.replace(detection="amplitude")), np.sqrt(expected), rtol=1e-4)


def test_many_modes_of_a_wide_source_are_incoherent_light() -> None:
    """The pattern is gone: all detectors see the mean power, and no interference but of the middle pixel."""
    x = waves(2, 5, 5)
    wide = made(shape=(5, 5), source_pixels=5.0, source_shape="uniform", source_modes=5)
    mean = np.mean(np.abs(np.asarray(x)) ** 2, (1, 2))
    np.testing.assert_allclose(
        dft(x, wide.replace(detection="intensity")), np.ones((2, 5, 5)) * mean[:, None, None], rtol=1e-5
    )
    middle = np.zeros((2, 5, 5), complex)
    middle[:, 2, 2] = x[:, 2, 2]
    np.testing.assert_allclose(dft(x, wide.replace(detection="hybrid90")), exact(middle), atol=2e-5)


def test_a_line_loses_visibility_with_the_path() -> None:
    """A Gaussian line of rms w: exp(-2 (pi w L)^2); blur over the aperture is small beside it."""
    x, width = waves(2, 4, 4), 2e-4
    for path in (0.0, 500.0, 1000.0):
        engine = made(shape=(4, 4), detection="hybrid90", line_width_rms=width, line_modes=16)
        found = dft(x, engine.replace(path_difference=path))
        factor = np.vdot(exact(x), found) / np.sum(np.abs(exact(x)) ** 2)
        np.testing.assert_allclose(factor, math.exp(-2 * (math.pi * width * path) ** 2), atol=2e-3)


def test_a_line_blurs_high_frequencies() -> None:
    """A mean over a dense line of wavelengths, each of which moves pixels by its scale."""
    n, width = 16, 0.015
    x, p = waves(1, n), np.arange(n) - n // 2
    z = np.linspace(-6, 6, 601)
    shares = np.exp(-(z**2) / 2) / np.sum(np.exp(-(z**2) / 2))
    mean = np.zeros((n, n))
    for relative, share in zip(width * z, shares, strict=True):
        s = 1 / (1 + relative)
        mean += share * min(s, 1) / np.sqrt(s) * np.sinc(min(s, 1) * (p / s - p[:, None]))
    engine = made(shape=(1, n), lens="1d", detection="hybrid90", line_width_rms=width, line_modes=24)
    found = dft(x, engine)
    assert snr(found, exact(np.asarray(x) @ mean, (-1,))) > 45  # a kink at s = 1 takes many modes
    assert snr(found, exact(x, (-1,))) < 35


@pytest.mark.parametrize(("detection", "passes"), [("hybrid90", 1), ("psi3", 3)])
def test_light_that_does_not_interfere_has_shot_noise(detection: str, passes: int) -> None:
    """Noise is that of all light: without any visibility the array's power is still there."""
    x = np.zeros((2000, 4, 4), np.float32)
    x[:, 0, 0] = 4.0  # a corner, written with 1; a sixteenth of unit intensity everywhere
    engine = made(shape=(4, 4), detection=detection, source_pixels=4.0, source_shape="uniform")
    engine = changed(engine.replace(source_modes=4, lo_ratio=0.05), photons=1e3)
    y = np.asarray(dft(jnp.asarray(x), engine, KEY)) / 4
    assert abs(np.mean(y)) < 1e-3  # no visibility between the corner and the middle
    expected = (1 / 16 + 0.05) / 0.05 / 1e3 / passes  # of a complex number; (1 + |E|^2 / R^2) / n
    np.testing.assert_allclose(np.mean(np.abs(y - np.mean(y)) ** 2), expected, rtol=0.03)


def test_loss_and_orders_act_on_all_light() -> None:
    x = waves(2, N1, N2)
    for detection in ("intensity", "hybrid90"):
        engine = GAUSSIAN.replace(detection=detection)
        lossy = engine.replace(insertion_loss_db=7.0)
        np.testing.assert_allclose(dft(x, lossy), dft(x, engine), rtol=1e-3, atol=2e-5)
    dark = GAUSSIAN.replace(detection="intensity", fill_factor=1e-3)  # hardly any sinc
    np.testing.assert_allclose(
        dft(x, dark), dft(x, GAUSSIAN.replace(detection="intensity")), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("detection", ["intensity", "hybrid90"])
def test_derivatives_are_finite_and_right(detection: str) -> None:
    """With respect to the array, the size of the source and the width of the line, also where they are 0."""
    engine = made(shape=(3, 4), detection=detection, source_pixels=0.7, source_modes=3)
    engine = engine.replace(line_width_rms=0.01, line_modes=3)
    with jax.enable_x64(True):

        def total(x: jax.Array, size: jax.Array, width: jax.Array) -> jax.Array:
            light = engine.replace(source_pixels=size, line_width_rms=width)
            return jnp.real(jnp.sum(jnp.abs(optical_dft2(x, light)) ** 2 * jnp.arange(24.0).reshape(2, 3, 4)))

        x = jnp.asarray(np.asarray(waves(2, 3, 4).real, np.float64))
        check_grads(jax.jit(total), (x, 0.7, 0.01), order=1, modes=["fwd", "rev"], rtol=1e-4, atol=1e-4)
        gradients = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(x, 0.0, 0.0)
    assert all(np.all(np.isfinite(g)) for g in gradients)


def test_one_compilation_serves_all_sizes() -> None:
    traces = []

    @partial(jax.jit, compiler_options=QUICK)
    def run(x: jax.Array, engine: Engine) -> jax.Array:
        traces.append(engine)
        return optical_dft2(x, engine)

    x = waves(1, N1, N2)
    engine = GAUSSIAN.replace(detection="hybrid90")
    ratios = [snr(run(x, engine.replace(source_pixels=size)), exact(x)) for size in (0.1, 0.3, 1.0)]
    assert ratios == sorted(ratios, reverse=True)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source_pixels": -1.0}, "source_pixels=-1.0 must be at least 0"),
        ({"source_modes": 0}, "source_modes=0 must be at least 1, and whole"),
        ({"line_modes": 65}, "line_modes=65 must be at most 64"),
        ({"source_shape": "round"}, "source_shape='round' is unknown; choose one of gaussian, uniform"),
        ({"path_difference": 10.0}, "path_difference=10.0 needs line_width_rms"),
        (
            {"path_difference": 10.0, "line_width_rms": 1e-3, "detection": "intensity"},
            "path_difference=10.0 needs a reference, which detection='intensity' does not have",
        ),
    ],
)
def test_light_that_cannot_be(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine().replace(**fields)


def test_a_measured_device_has_one_wavelength() -> None:
    measured = Engine.from_measured(np.eye(4, dtype=complex))
    for name in ("detuning", "line_width_rms"):
        with pytest.raises(ValueError, match=f"{name}=0.001: a measured transfer is that of one wavelength"):
            measured.replace(**{name: 0.001})
    x = waves(2, 2, 2)
    np.testing.assert_allclose(  # a tilt is no matter of the device
        dft(x, measured.replace(source_pixels=1.0, detection="intensity")),
        np.abs(np.asarray(x)) ** 2,
        rtol=1e-5,
    )
