"""Misplaced and finite optics: each effect against its formula, its limit, its light and derivative."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from optical import KEY, QUICK, dft, exact, made, snr, waves
from scipy import special

from fourier_attn.optics import Engine, optical_dft2
from fourier_attn.optics.calibration import corrections
from fourier_attn.optics.device import is_exact, matrix

FRESNEL = {"wavelength_m": 2e-6, "pixel_pitch_m": 1e-5}
OFF: dict[str, Any] = {
    **{"vignetting_db": 0.0, "pupil_radius": math.inf, "pitch_error": 0.0, "rotation_rad": 0.0},
    **{"stop_radius": math.inf},
    **{"output_shift_pitch": (0.0, 0.0), "zernike_rad": (0.0,) * 10, "defocus_m": 0.0},
}
ON: dict[str, Any] = {
    **{"vignetting_db": 1.0, "pupil_radius": 4.0, "pitch_error": 0.02, "rotation_rad": 0.02},
    **{"stop_radius": 0.9},
    **{"output_shift_pitch": (0.1, -0.1), "zernike_rad": (0.0,) * 9 + (0.1,), "defocus_m": 1e-4},
}


def axis(n: int) -> np.ndarray:
    """Places from the middle, where physical optics has its axis."""
    return np.arange(n) - n // 2


def turns(f: np.ndarray, m: np.ndarray) -> np.ndarray:
    return np.exp(-2j * np.pi * np.multiply.outer(f, m))


@pytest.mark.parametrize("shape", [(4, 5), pytest.param((1, 6), marks=pytest.mark.slow)])
def test_each_effect_ends_in_the_ideal_engine(shape: tuple[int, int]) -> None:
    x, off = waves(2, *shape), made(shape=shape, **FRESNEL, **OFF)
    np.testing.assert_allclose(dft(x, off), exact(x), atol=1e-5)
    for name, strength in ON.items():
        assert snr(dft(x, off.replace(**{name: strength})), exact(x)) < 60, name
        assert not is_exact(made(**FRESNEL, **{name: strength})), name


def test_vignetting_loses_light_and_keeps_the_noise() -> None:
    """v dB at half of the longer side, on a circle; dark apertures have the noise that they had."""
    x = waves(3, 7, 5)
    radius = (axis(7)[:, None] / 3) ** 2 + (axis(5) / 3) ** 2
    expected = exact(np.asarray(x) * 10 ** (-2.0 / 20 * radius))
    np.testing.assert_allclose(dft(x, made(shape=(7, 5), vignetting_db=2.0)), expected, atol=1e-5)
    engine, dark = made(shape=(7, 5), detection="hybrid90", photons=1e3), jnp.zeros((2, 7, 5))
    falling = dft(dark, engine.replace(vignetting_db=20.0), KEY)
    np.testing.assert_allclose(falling, dft(dark, engine, KEY), atol=1e-6)


def test_a_round_stop_makes_airys_pattern() -> None:
    """pi r^2 2 J1(z) / z, z = 2 pi r f, of even light; the share pi r^2 / N^2 of it passes."""
    n, r = 64, 20.0
    engine = made(shape=(n, n), centered=True, stop_radius=r / (n / 2))
    y = np.asarray(dft(jnp.ones((1, n, n)), engine))[0]
    f = np.hypot(axis(n)[:, None], axis(n)) / n
    z = 2 * math.pi * r * np.where(f == 0, 1e-9, f)
    airy = math.pi * r**2 * 2 * special.j1(z) / z / n
    low = f < 0.2  # beyond, the sum over pixels is no integral
    assert snr(y[low], airy[low]) > 25
    assert np.sum(np.abs(y) ** 2) == pytest.approx(math.pi * r**2, rel=0.03)
    x = waves(2, 4, 7)
    away = np.hypot(axis(4)[:, None], axis(7))
    inside = np.clip(1.6 - away + 0.5, 0, 1)
    found = dft(x, made(shape=(4, 7), stop_radius=1.6 / 3))
    np.testing.assert_allclose(found, exact(np.asarray(x) * inside), atol=1e-5)
    np.testing.assert_allclose(dft(x, made(shape=(4, 7), stop_radius=1.7)), exact(x), atol=1e-5)


@pytest.mark.parametrize("centered", [False, True])
def test_a_pupil_is_fresnels_integral_over_it(centered: bool) -> None:
    """Free space, lens and pupil on a fine grid, free space; lambda f is N squares of the pitch."""
    n, radius = 9, 1.3
    x = np.asarray(waves(2, 1, n), complex)
    at = np.linspace(-40, 40, 80_001)
    step = at[1] - at[0]
    spread = np.exp(1j * np.pi * (at[:, None] - axis(n)) ** 2 / n) / np.sqrt(1j * n)
    pupil = np.exp(-((at / (radius * (n // 2))) ** 2)) * np.exp(-1j * np.pi * at**2 / n)
    whole = (spread.T * pupil) @ spread * step * np.sqrt(1j)
    expected = x @ whole
    if not centered:  # frequencies in the order of an FFT, without the phase of the offset
        expected = np.fft.ifftshift(expected * np.exp(-2j * np.pi * axis(n) * (n // 2) / n), -1)
    engine = made(shape=(1, n), pupil_radius=radius, lens="1d", centered=centered)
    np.testing.assert_allclose(dft(jnp.asarray(x, jnp.complex64), engine), expected, atol=2e-5)
    assert np.sum(np.abs(expected) ** 2) < 0.8 * np.sum(np.abs(x) ** 2)  # light of the edges is lost


def test_a_pupil_is_round() -> None:
    """One lens has one focal length: L squares of the pitch over lambda, L the longer side."""
    rows, cols, radius = 3, 8, 0.9 * 4
    c = 1 / (1 + 1j * 8 / (math.pi * radius**2))
    down = axis(rows)[:, None] + axis(rows) * 8 / 3  # light of a pixel on its way to a detector
    right = axis(cols)[:, None] + axis(cols)
    first, second = (
        turns(axis(n), axis(n) / n) / math.sqrt(n) * np.sqrt(c) * np.exp(-c * (at / radius) ** 2)
        for n, at in ((rows, down), (cols, right))
    )
    x = waves(2, rows, cols)
    engine = made(shape=(rows, cols), centered=True, pupil_radius=0.9)
    np.testing.assert_allclose(dft(x, engine), first.T @ np.asarray(x, complex) @ second, atol=1e-5)


@pytest.mark.parametrize(
    "misplaced",
    [{"detuning": 0.04}, {"pitch_error": -0.03}, {"output_shift_pitch": (0.0, 3.0)}],
    ids=str,
)
def test_light_passes_a_pupil_at_its_true_place(misplaced: dict[str, Any]) -> None:
    """Free space, lens and pupil on a fine grid, to the true detectors, at the true wavelength."""
    n, radius, shift = 33, 0.35, (0.0, 1.0)
    longer = 1 + misplaced.get("detuning", 0.0)
    at = np.linspace(-60, 60, 60_001)
    detectors = (1 + misplaced.get("pitch_error", 0.0)) * axis(n)
    detectors = detectors + misplaced.get("output_shift_pitch", (0.0, 0.0))[1]
    pixels = axis(n)[12:21] + shift[1]
    first, second = (np.exp(1j * np.pi * (at[:, None] - p) ** 2 / n / longer) for p in (pixels, detectors))
    pupil = np.exp(-((at / (radius * (n // 2))) ** 2)) * np.exp(-1j * np.pi * at**2 / n / longer)
    whole = (first.T * pupil) @ second * (at[1] - at[0]) / (n * longer) / np.sqrt(1j)
    x = np.zeros((2, 1, n), complex)
    x[..., 12:21] = np.asarray(waves(2, 1, 9))
    size = math.sqrt(n * longer) / math.sqrt(n) * math.sqrt((detectors[1] - detectors[0]) / longer)
    engine = made(shape=(1, n), lens="1d", centered=True, pupil_radius=radius, shift_pitch=shift, **misplaced)
    inside = np.abs(detectors / n / longer) < 0.4
    found = np.asarray(dft(jnp.asarray(x, jnp.complex64), engine))[..., inside]
    assert snr(found, (x[..., 12:21] @ whole * size)[..., inside]) > 30


@pytest.mark.parametrize("error", [-0.07, 0.04])
def test_a_pitch_error_is_the_overlap_of_modes(error: float) -> None:
    """Bands |f| < 1/2 of pixels and (1 + e) / 2 of detectors, integrated; in the middle the plain sum."""
    n, s = 33, 1 + error
    f = (np.arange(10_000) + 0.5) / 10_000 - 0.5
    f = f * min(1, s)
    step = f[1] - f[0]
    overlap = turns(f, axis(n)).T @ np.conj(turns(f, axis(n) / s)) * step / math.sqrt(s)  # pixel, detector
    x = np.asarray(waves(2, 1, n), complex)
    engine = made(shape=(1, n), lens="1d", centered=True, pitch_error=error)
    ideal = turns(axis(n), axis(n) / n) / math.sqrt(n)
    found = dft(jnp.asarray(x, jnp.complex64), engine)
    np.testing.assert_allclose(found, x @ overlap @ ideal, atol=2e-5)
    middle = np.zeros_like(x)
    middle[..., n // 2 - 2 : n // 2 + 3] = x[..., n // 2 - 2 : n // 2 + 3]
    plain = middle @ turns(axis(n), s * axis(n) / n) * math.sqrt(s / n)
    k = np.abs(s * axis(n)) < n / 2  # detectors beyond see another order
    near = np.asarray(dft(jnp.asarray(middle, jnp.complex64), engine))
    assert snr(near[..., k], plain[..., k]) > 25


def test_detectors_are_rotated() -> None:
    """Light in the middle is read at the frequencies Rot k; rotated there and back it is itself."""
    rows, cols, angle = 24, 31, 0.15
    x = np.zeros((1, rows, cols), complex)
    x[:, 9:16, 12:19] = np.asarray(waves(1, 7, 7))
    engine = made(shape=(rows, cols), centered=True, rotation_rad=angle)
    down, right = axis(rows)[:, None] / rows, axis(cols)[None] / cols
    first = math.cos(angle) * down - math.sin(angle) * right
    second = math.sin(angle) * down + math.cos(angle) * right
    expected = np.einsum("klm,kln,bmn->bkl", turns(first, axis(rows)), turns(second, axis(cols)), x)
    inside = (np.abs(down) < 0.4) & (np.abs(right) < 0.4)
    found = np.asarray(dft(jnp.asarray(x, jnp.complex64), engine))
    assert snr(found[:, inside], expected[:, inside] / math.sqrt(rows * cols)) > 25
    assert snr(found[:, inside], exact(x)[:, inside]) < 0


def test_detectors_are_shifted() -> None:
    x, n = waves(2, 5, 8), (5, 8)
    down, right = axis(5) + 0.3, axis(8) - 1.2
    first, second = (turns(f / size, axis(size)) for f, size in zip((down, right), n, strict=True))
    expected = first @ np.asarray(x, complex) @ second.T / math.sqrt(40)
    engine = made(shape=n, centered=True, output_shift_pitch=(0.3, -1.2))
    np.testing.assert_allclose(dft(x, engine), expected, atol=1e-5)
    whole = made(shape=n, output_shift_pitch=(0.0, 1.0))  # the next detector, but for the known phase
    np.testing.assert_allclose(np.abs(dft(x, whole)), np.abs(np.roll(exact(x), -1, -1)), atol=1e-5)


def test_a_shift_of_detectors_is_a_length() -> None:
    """At a longer wavelength it is less of a frequency: (k + d) lambda0 / (N lambda)."""
    n, s = 31, 1 / 1.1
    x = np.zeros((1, 1, n), complex)
    x[..., 12:19] = np.asarray(waves(1, 1, 7))
    engine = made(shape=(1, n), lens="1d", centered=True, detuning=0.1, output_shift_pitch=(0.0, -3.0))
    plain = x @ turns(axis(n), s * (axis(n) - 3.0) / n) * math.sqrt(s / n)
    assert snr(np.asarray(dft(jnp.asarray(x, jnp.complex64), engine))[..., 5:27], plain[..., 5:27]) > 30


def test_higher_frequencies_have_the_shape_of_their_own_place() -> None:
    """The zero order falls with the frequency that a detector sees, not with its number."""
    shape, x = (1, 7), waves(2, 1, 7)
    places: dict[str, Any] = {
        "lens": "1d",
        "centered": True,
        "output_shift_pitch": (0.0, 0.4),
        "shift_pitch": (0, 0.2),
    }
    f = (axis(7) + 0.4) / 7
    expected = np.asarray(x, complex) @ turns(axis(7), f) / math.sqrt(7)
    expected = expected * np.sinc(0.6 * f) * np.exp(-2j * np.pi * f * 0.2)
    np.testing.assert_allclose(dft(x, made(shape=shape, fill_factor=0.6, **places)), expected, atol=1e-5)


def noll(j: int, rho: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Zernike's polynomial by its radial sum (Noll 1976), normalised to an rms of 1 on the disc."""
    n = math.ceil((-3 + math.sqrt(1 + 8 * j)) / 2)
    rest = j - n * (n + 1) // 2 - 1
    m = n % 2 + 2 * ((rest + (n + 1) % 2) // 2)
    radial = np.zeros_like(rho)
    for k in range((n - m) // 2 + 1):
        size = (-1) ** k * math.comb(n - k, k) * math.comb(n - 2 * k, (n - m) // 2 - k)
        radial = radial + size * rho ** (n - 2 * k)
    if m == 0:
        return math.sqrt(n + 1) * radial
    return math.sqrt(2 * n + 2) * radial * (np.cos(m * theta) if j % 2 == 0 else np.sin(m * theta))


def test_aberrations_are_zernikes_in_nolls_order() -> None:
    rho = np.sqrt((np.arange(2000) + 0.5) / 2000)[:, None]  # equal areas
    theta = 2 * np.pi * np.arange(64) / 64
    terms = np.stack([(noll(j, rho, theta) + 0 * theta).ravel() for j in range(2, 12)])
    np.testing.assert_allclose(terms @ terms.T / terms.shape[1], np.eye(10), atol=2e-3)
    sizes = tuple(0.02 * j for j in range(2, 12))
    y, x = np.meshgrid(axis(7) / 5, axis(9) / 5, indexing="ij")  # the corner is 3 and 4 pixels away
    phase = sum(c * noll(j, np.hypot(x, y), np.arctan2(y, x)) for j, c in enumerate(sizes, 2))
    field = waves(2, 7, 9)
    expected = exact(np.asarray(field) * np.exp(1j * phase))
    np.testing.assert_allclose(dft(field, made(shape=(7, 9), zernike_rad=sizes)), expected, atol=2e-5)


def test_a_distance_from_the_focal_plane_is_fresnels() -> None:
    """After the length of Talbot, 2 (N p)^2 / lambda, light is itself again."""
    x, n = waves(2, 6, 6), 6
    f = np.fft.fftfreq(n) / 1e-5  # 1/m
    phase = np.exp(-1j * np.pi * 2e-6 * 3e-4 * (f[:, None] ** 2 + f**2))
    engine = made(shape=(n, n), **FRESNEL, defocus_m=3e-4)
    np.testing.assert_allclose(dft(x, engine), exact(x) * phase, atol=1e-5)
    talbot = 2 * (n * 1e-5) ** 2 / 2e-6
    np.testing.assert_allclose(dft(x, engine.replace(defocus_m=talbot)), exact(x), atol=1e-4)
    assert snr(dft(x, engine.replace(defocus_m=talbot / 2)), exact(x)) < 20


def sheared(x: np.ndarray, slope: float) -> np.ndarray:
    """Moves the pixels of each column by the slope times its place, one after another."""
    result = np.zeros_like(x)
    for col, place in enumerate(axis(x.shape[1])):
        for row, from_row in enumerate(axis(x.shape[0])):
            result[:, col] += x[row, col] * np.sinc(axis(x.shape[0]) - from_row - slope * place)
    return result


@pytest.mark.parametrize("batch", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_all_effects_act_in_the_order_of_the_light(batch: int) -> None:
    """Aberrations, misplaced detectors, lens, effects of a detector's place: by stages, or as one matrix."""
    n, s, angle, radius = 6, 0.97, 0.1, 2.0
    effects: dict[str, Any] = {
        **{"vignetting_db": 1.0, "zernike_rad": (0.0, 0.0, 0.0, 0.0, 0.2), "output_shift_pitch": (0.2, -0.1)},
        **{"rotation_rad": angle, "pitch_error": s - 1, "pupil_radius": radius, "fill_factor": 0.8},
        **{"shift_pitch": (0.1, 0.3), "defocus_m": 1e-4, "defocus_rad": 0.3, "insertion_loss_db": 3.0},
    }
    x = np.asarray(waves(n, n), complex)
    y, rho = axis(n)[:, None] / 3, ((axis(n)[:, None] / 3) ** 2 + (axis(n) / 3) ** 2)
    place = (y / math.sqrt(2), axis(n) / 3 / math.sqrt(2))
    field = x * np.exp(0.3j * rho) * 10 ** (-rho / 20)
    field = field * np.exp(0.2j * math.sqrt(6) * (place[1] ** 2 - place[0] ** 2))
    field = field * np.exp(-2j * np.pi * (0.2 * axis(n)[:, None] - 0.1 * axis(n)) / n)
    field = sheared(field, math.tan(angle / 2))
    field = sheared(sheared(field.T, -math.sin(angle)).T, math.tan(angle / 2))
    resampled = math.sqrt(s) * np.sinc(axis(n) - s * axis(n)[:, None])
    c = 1 / (1 + 1j * n / (math.pi * (3 * radius) ** 2))
    down, right = 0.1 + 0.2, 0.3 - 0.1  # offsets of modulators and detectors, seen by rotated pixels
    away = (
        math.cos(angle) * down + math.sin(angle) * right,
        math.cos(angle) * right - math.sin(angle) * down,
    )
    rows, cols = (
        resampled
        @ (
            turns(axis(n), axis(n) / n)
            / math.sqrt(n)
            * np.sqrt(c)
            * np.exp(-c * ((np.add.outer(axis(n) / s, s * axis(n)) + a) / (3 * radius)) ** 2)
        )
        for a in away
    )
    field = rows.T @ field @ cols
    down, right = axis(n)[:, None] / n, axis(n) / n
    first = s * (math.cos(angle) * down - math.sin(angle) * right) + 0.2 / n
    second = s * (math.sin(angle) * down + math.cos(angle) * right) - 0.1 / n
    field = (
        field
        * np.exp(-2j * np.pi * (0.1 * first + 0.3 * second))
        * np.sinc(0.8 * first)
        * np.sinc(0.8 * second)
    )
    field = field * np.exp(-1j * np.pi * 2e-6 * 1e-4 / 1e-10 * (first**2 + second**2))
    engine = made(shape=(n, n), centered=True, **FRESNEL, **effects)
    found = dft(jnp.tile(jnp.asarray(x, jnp.complex64), (batch, 1, 1)), engine)
    np.testing.assert_allclose(found, np.tile(field, (batch, 1, 1)), atol=2e-5)


def drawn(rng: np.random.Generator, engine: Engine) -> Engine:
    """About half of all linear effects at random strengths, the others at their limits."""
    strengths = {
        **{"crosstalk_db": -float(rng.uniform(8, 30)), "shift_pitch": tuple(rng.normal(size=2))},
        **{"defocus_rad": float(rng.normal()), "defocus_m": float(rng.normal(0, 1e-3))},
        **{"static_phase_rms": 0.3, "phase_drift_rms": 0.3, "fill_factor": float(rng.uniform(0.1, 1))},
        **{"vignetting_db": float(rng.exponential(3)), "pupil_radius": float(rng.exponential(2) + 0.3)},
        **{"zernike_rad": tuple(rng.normal(size=10)), "output_shift_pitch": tuple(rng.normal(size=2))},
        **{"stop_radius": float(rng.uniform(0.1, 2.0))},
        **{"pitch_error": float(rng.uniform(-0.3, 0.5)), "rotation_rad": float(rng.uniform(-0.7, 0.7))},
    }
    off: dict[str, Any] = OFF | {"crosstalk_db": -math.inf, "shift_pitch": (0.0, 0.0), "fill_factor": 1.0}
    chosen = {name: value if rng.random() < 0.5 else off.get(name, 0.0) for name, value in strengths.items()}
    if engine.lens == "1d":
        chosen.pop("rotation_rad")
    return engine.replace(age_s=5e3, seed=int(rng.integers(100)), **chosen)


@pytest.mark.parametrize(
    "fields",
    [{}, *(pytest.param(f, marks=pytest.mark.slow) for f in ({"centered": True}, {"lens": "1d"}))],
)
def test_no_optics_amplify(fields: dict[str, Any]) -> None:
    rng, read = np.random.default_rng(0), jax.jit(matrix, compiler_options=QUICK)
    for _ in range(24):
        engine = drawn(rng, made(shape=(4, 5), **FRESNEL, **fields))
        whole = np.asarray(read(engine))
        assert np.linalg.svd(whole, compute_uv=False).max() <= 1 + 2e-6, engine.device


@pytest.mark.slow
def test_digital_factors_undo_what_is_of_single_pixels() -> None:
    """Vignetting, aberrations and a shift; misplaced detectors mix pixels, so that an error stays."""
    x, read = waves(5, 4, 5), jax.jit(matrix, compiler_options=QUICK)
    off = made(shape=(4, 5), **FRESNEL, **OFF)
    single = {name: ON[name] for name in ("vignetting_db", "zernike_rad", "output_shift_pitch", "defocus_m")}
    for changes, least, most in ((single, 90, 200), ({"pitch_error": 0.02}, 15, 50)):
        device = off.replace(**changes)
        measured = Engine.from_measured(read(device), like=made(shape=(4, 5)))
        assert least < snr(dft(x, corrections(device, measured)), exact(x)) < most
        assert snr(dft(x, device), exact(x)) < 40


def test_strengths_have_derivatives() -> None:
    """Finite at 0 as well, where the effect begins."""
    x = normal(2, 4, 5)
    g = normal(2, 4, 5, seed=1)

    def read(strengths: dict[str, Any]) -> jax.Array:
        y = optical_dft2(x, made(shape=(4, 5), **FRESNEL).replace(**strengths))
        return jnp.sum(y.real * g + y.imag * g[::-1])

    for strengths in (ON, OFF | {"pupil_radius": 3.0, "stop_radius": 1.0}):
        found = jax.jit(jax.grad(read), compiler_options=QUICK)(strengths)
        for name, slopes in found.items():
            assert np.all(np.isfinite(np.asarray(slopes))), name
            assert np.any(np.asarray(slopes) != 0), name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rotation_rad": 0.1, "lens": "1d"}, "rotation_rad=0.1 needs lens='2d'"),
        ({"rotation_rad": 1.0}, "rotation_rad=1.0 must be at most 0.78"),
        ({"defocus_m": 1e-3}, "defocus_m=0.001 needs pixel_pitch_m=None and wavelength_m=None"),
        ({"zernike_rad": (0.1,) * 11}, "zernike_rad=.*at most 10 numbers"),
        ({"zernike_rad": 0.1}, "zernike_rad=0.1 must be a tuple"),
        ({"transfer": np.eye(121), "pitch_error": 0.1}, "pitch_error=0.1 is a part of the measured transfer"),
        ({"vignetting_db": -1.0}, "vignetting_db=-1.0 must be at least 0"),
    ],
)
def test_impossible_places_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**fields)
