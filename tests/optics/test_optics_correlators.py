"""Correlators with an intensity read-out, against sums and theory in double precision."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import array, normal
from jax.test_util import check_grads
from optical import KEY, decibel, exact, made, snr, waves

from fourier_attn.optics import (
    Engine,
    Modulator,
    correlators,
    cost,
    joint_transform,
    joint_transform_correlate,
    matched_filter,
    optical_4f,
    optical_4f_correlate,
    plan,
    preset,
)
from fourier_attn.optics.correlator_plan import joint_plane
from fourier_attn.optics.modulator import chirp
from fourier_attn.optics.presets import PRESETS

CAMERA = made(shape=(5, 6), detection="intensity")
JOINT = made(shape=(6, 40), detection="intensity")


def uniform(*shape: int, seed: int = 0) -> jax.Array:
    return array(np.random.default_rng(seed).random(shape), np.float32)


def transmissions(*shape: int, seed: int = 7) -> jax.Array:
    h = np.asarray(waves(*shape, seed=seed))
    return array(h / np.abs(h).max(), np.complex64)


def correlated(x: Any, w: Any) -> np.ndarray:
    """y[i] = sum_a conj(w[a]) x[i + a] for all i at which both meet, by its definition."""
    x, w = np.asarray(x, np.complex128), np.asarray(w, np.complex128)
    (n1, n2), (r1, r2) = x.shape, w.shape
    wide = np.pad(x, [(r1 - 1, r1 - 1), (r2 - 1, r2 - 1)])
    y = np.zeros((n1 + r1 - 1, n2 + r2 - 1), complex)
    for a in range(r1):
        for b in range(r2):
            y += np.conj(w[a, b]) * wide[a : a + n1 + r1 - 1, b : b + n2 + r2 - 1]
    return y


def on_circle(x: Any, w: Any) -> np.ndarray:
    """y[n] = sum_m conj(w[m]) x[n + m] on a circle, by its definition."""
    w = np.asarray(w, np.complex128)
    y = np.zeros(np.broadcast_shapes(np.shape(x), (*w.shape[:-2], 1, 1)), complex)
    for a in range(w.shape[-2]):
        for b in range(w.shape[-1]):
            y += np.conj(w[..., a, b, None, None]) * np.roll(np.asarray(x), (-a, -b), (-2, -1))
    return y


# 4f


@pytest.mark.parametrize(("lens", "centered"), [("2d", False), ("2d", True), ("1d", False), ("1d", True)])
def test_a_4f_correlator_is_the_convolution_theorem(lens: str, centered: bool) -> None:
    """Two forward transforms with H between them, read backwards, are F^-1 H F; odd and even sizes."""
    axes = (-2, -1) if lens == "2d" else (-1,)
    x, h = waves(3, 5, 6), transmissions(5, 6)
    engine = CAMERA.replace(lens=lens, centered=centered)
    found = optical_4f(x, h, engine)
    if centered:
        x, h = (np.fft.ifftshift(np.asarray(part), axes) for part in (x, h))
    expected = (
        np.abs(np.fft.ifftn(np.fft.fftn(np.asarray(x, complex), axes=axes) * np.asarray(h), axes=axes)) ** 2
    )
    camera = np.abs(exact(np.asarray(h) * exact(x, axes), axes)) ** 2
    for axis in axes:
        camera = np.roll(np.flip(camera, axis), 1, axis)
    np.testing.assert_allclose(camera, expected, atol=1e-12)
    expected = np.fft.fftshift(expected, axes) if centered else expected
    np.testing.assert_allclose(found, expected, atol=1e-5)  # float32
    field = optical_4f(waves(3, 5, 6), transmissions(5, 6), engine.replace(detection="field"))
    np.testing.assert_allclose(jnp.abs(field) ** 2, expected, atol=1e-5)


def test_light_is_kept_and_never_gained() -> None:
    """Phases keep the power of the aperture, whatever couplers and losses do; amplitudes take some away."""
    x = waves(4, 5, 6)
    total = np.sum(np.abs(x) ** 2, axis=(-2, -1))
    phases = Modulator(encode="phase")
    for engine in (CAMERA, CAMERA.replace(crosstalk_db=-15.0, static_phase_rms=0.3, insertion_loss_db=6.0)):
        kept = optical_4f(x, transmissions(5, 6), engine, filter_plane=phases)
        np.testing.assert_allclose(np.sum(kept, axis=(-2, -1)), total, rtol=1e-5)
        dimmed = optical_4f(x, transmissions(5, 6), engine)
        assert np.all(np.sum(dimmed, axis=(-2, -1)) < total)
    gain = jax.jit(partial(optical_4f, engine=CAMERA))(x, 3 * jnp.ones((5, 6)))  # traced: clipped
    np.testing.assert_allclose(gain, np.abs(x) ** 2, rtol=2e-5, atol=1e-5)


def test_the_full_scale_is_the_power_of_the_aperture() -> None:
    """A filter that focuses puts all of it, N units, into one pixel: no pixel has more."""
    x = array(chirp((5, 6)), np.complex64)
    h = np.conj(exact(x))  # a chirp's spectrum has one modulus
    engine = CAMERA.replace(adc_range="fixed", adc_bits=12)
    focus = optical_4f(x, array(h / np.abs(h).max(), np.complex64), engine)
    assert float(focus[0, 0]) == pytest.approx(30.0)
    assert float(jnp.sum(focus)) == pytest.approx(30.0, rel=1e-5)
    well = engine.replace(detection="intensity", adc_bits=None).with_photons(1e12).replace(well_depth_e=5e12)
    np.testing.assert_allclose(optical_4f(x, array(h, np.complex64), well, KEY)[0, 0], 5.0, rtol=1e-5)


def test_filters_without_phases_and_without_amplitudes() -> None:
    """Mirrors that are on or off, phases of two bits, and the matched filter of each kind."""
    x, h = waves(2, 5, 6), uniform(5, 6)
    spectrum = np.fft.fft2(np.asarray(x, complex))

    def expected(filtered: Any) -> np.ndarray:
        return np.abs(np.fft.ifft2(spectrum * np.asarray(filtered))) ** 2

    mirrors = Modulator(encode="amplitude", dac_bits_amp=1)
    found = optical_4f(x, h, CAMERA, filter_plane=mirrors)
    np.testing.assert_allclose(found, expected(np.round(h)), atol=1e-5)
    turned = transmissions(5, 6)
    found = optical_4f(x, turned, CAMERA, filter_plane=Modulator(encode="phase", dac_bits_phase=2))
    quarter = np.exp(0.5j * np.pi * np.round(np.angle(turned) / (np.pi / 2)))
    np.testing.assert_allclose(found, expected(quarter), atol=1e-5)
    w = normal(2, 3)
    whole = np.conj(np.fft.fft2(np.asarray(w, float), (5, 6)))
    for kind, filtered in (
        ("complex", whole / np.abs(whole).max()),
        ("phase", whole / np.abs(whole)),
        ("amplitude", np.abs(whole) / np.abs(whole).max()),
    ):
        matched = matched_filter(w, (5, 6), kind=kind)
        np.testing.assert_allclose(matched, filtered, atol=1e-6)
        np.testing.assert_allclose(optical_4f(x, matched, CAMERA), expected(filtered), atol=1e-5)


def test_a_bit_of_the_filter_is_six_decibels() -> None:
    """Levels are 1 / (2^b - 1) apart, H is even on [0, 1]: power 1/3 over the step squared by 12."""
    x, h = waves(20, 32, 32), uniform(32, 32)
    engine, right = made(shape=(32, 32)), np.fft.ifft2(np.fft.fft2(np.asarray(x, complex)) * np.asarray(h))
    for bits in (4, 6, 8):
        y = optical_4f(x, h, engine, filter_plane=Modulator(encode="amplitude", dac_bits_amp=bits))
        assert abs(snr(y, right) - decibel(12 / 3 * (2**bits - 1) ** 2)) < 0.4  # 1,024 levels: 0.2 dB


@pytest.mark.parametrize("statistics", ["gaussian", "poisson"])
def test_shot_noise_of_the_camera_is_poissons(statistics: str) -> None:
    """n I electrons have the variance n I: an SNR of n I, of the light that the filter lets through."""
    engine = made(
        shape=(4, 4), detection="intensity", statistics=statistics, photons=400.0, insertion_loss_db=9.0
    )
    x = jnp.ones((3_000, 4, 4))
    for amplitude in (1.0, 0.5):
        y = np.asarray(optical_4f(x, jnp.full((4, 4), amplitude), engine, KEY))
        assert abs(y.mean() / amplitude**2 - 1) < 1e-3  # 48,000 numbers: 2e-4
        assert abs(decibel(amplitude**4 / y.var()) - decibel(400 * amplitude**2)) < 0.1  # 0.03 dB


def test_each_lens_has_its_own_errors() -> None:
    """Phases of s rad in each lens, before and after it: 2 s^2 of the power is error, half of it with one."""
    x = waves(50, 16, 16)
    engine = made(shape=(16, 16), static_phase_rms=0.02)
    y = optical_4f(x, jnp.ones((16, 16)), engine)
    assert abs(snr(y, np.asarray(x)) + decibel(2 * 0.02**2)) < 0.6  # 1,024 phases
    off = optical_4f(x, jnp.ones((16, 16)), engine.replace(static_phase_rms=1e-9))
    np.testing.assert_allclose(off, x, atol=2e-5)


# Joint transform


@pytest.mark.parametrize("centered", [False, True])
def test_the_cross_term_is_the_correlation(centered: bool) -> None:
    x, w = waves(4, 5), waves(3, 4, seed=3)
    engine = JOINT.replace(centered=centered, detection="field")
    full = correlated(x, w)
    places = {"full": np.s_[:, :], "valid": np.s_[2:4, 3:5], "zero": np.s_[1:5, 1:6]}
    for boundary, place in places.items():
        found = joint_transform_correlate(x, w, engine, boundary=boundary)
        np.testing.assert_allclose(found, full[place], atol=2e-5)
        power = joint_transform_correlate(x, w, engine.replace(detection="intensity"), boundary=boundary)
        np.testing.assert_allclose(power, np.abs(full[place]) ** 2, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="auto-correlations of 4 rows overlap themselves on 6 rows; use 7"):
        joint_transform(x, w, engine)
    auto = joint_transform(x, w, engine.replace(shape=(7, 41))).auto
    lit = [np.asarray(part) / np.abs(part).max() for part in (x, w)]
    both = correlated(lit[0], lit[0]).astype(complex)  # 7 x 9
    both[1:6, 1:8] += correlated(lit[1], lit[1])
    np.testing.assert_allclose(auto, np.conj(both), atol=2e-5)  # forward transforms mirror it


def test_a_cylindrical_lens_correlates_rows() -> None:
    x, w = waves(2, 3, 5), waves(3, 4, seed=3)
    engine = made(shape=(3, 29), lens="1d")
    found = joint_transform_correlate(x, w, engine, boundary="full")
    for b in range(2):
        for row in range(3):
            right = correlated(x[b, row : row + 1], w[row : row + 1])[0]
            np.testing.assert_allclose(found[b, row], right, atol=2e-5)


@pytest.mark.parametrize(("n", "r"), [(5, 4), (4, 5), (1, 1), (6, 2)])
def test_terms_do_not_overlap_on_the_least_aperture(n: int, r: int) -> None:
    """The places of both auto-correlations, the correlation and its mirror image are apart, just so."""
    least = 2 * (n + max(n, r) + r) - 3
    engine = made(shape=(3, least))
    plane = joint_plane((3, n), (1, r), engine)
    j = np.zeros((2, least))
    j[0, :n], j[1, plane.offset : plane.offset + r] = 1, 1
    spectrum = np.fft.fft(j)
    auto = np.fft.fft(np.sum(np.abs(spectrum) ** 2, axis=0)).real > 0.5 * least
    cross = np.fft.fft(spectrum[0] * np.conj(spectrum[1])).real > 0.5 * least
    mirror = np.fft.fft(spectrum[1] * np.conj(spectrum[0])).real > 0.5 * least
    assert np.max(auto.astype(int) + cross + mirror) == 1
    assert set(np.flatnonzero(auto)) == set(plane.auto()[1])
    assert set(np.flatnonzero(cross)) == set(plane.cross("full")[1])
    with pytest.raises(ValueError, match=rf"terms of the output overlap.* at least \(3, {least}\)"):
        joint_plane((3, n), (1, r), made(shape=(3, least - 1)))


def test_the_joint_spectrum_has_the_levels_of_its_modulators() -> None:
    """Noise of levels that are max J / (2^b - 1) apart: step squared by 12 in each pixel, N times in y."""
    x, w = uniform(300, 1, 16), uniform(1, 8, seed=1)
    engine = made(shape=(1, 90), lens="1d", encode="amplitude")
    right = np.stack([correlated(part, w) for part in x]).real
    assert snr(joint_transform_correlate(x, w, engine, boundary="full").real, right) > 80
    scales = np.max(x, axis=(1, 2)), np.max(w)
    joint = np.zeros((300, 90))
    joint[:, :16] = np.asarray(x[:, 0]) / scales[0][:, None]
    joint[:, 31:39] = np.asarray(w) / scales[1]
    largest = np.max(np.abs(exact(joint, (-1,))) ** 2, axis=1)
    step = largest / (2**12 - 1) * math.sqrt(90) * scales[0] * scales[1]
    y = joint_transform_correlate(x, w, engine.replace(dac_bits_amp=12), boundary="full")
    error = np.asarray(y.real) - right
    # x and w have 12 bits of their own, which adds 5 % to the noise.
    assert abs(decibel(np.mean(error**2) / np.mean(step**2 / 12))) < 0.8


def test_heat_leaks_in_the_first_plane_of_a_joint_transform_alone() -> None:
    """The second plane writes amplitudes: positive numbers have no phases that could leak in either."""
    x, kernel = jnp.abs(normal(6, 6)), jnp.abs(normal(2, 2, seed=1))
    engine = made(shape=(26, 26), detection="intensity")
    hot = engine.replace(thermal_crosstalk=0.2)
    exact_result = joint_transform_correlate(x, kernel, engine)
    np.testing.assert_allclose(joint_transform_correlate(x, kernel, hot), exact_result, atol=1e-5)
    signed = [joint_transform_correlate(x - 1.0, kernel, one, encoding="two_rail") for one in (engine, hot)]
    np.testing.assert_allclose(*signed, atol=1e-4)  # rails are positive, too


def test_detectors_of_a_joint_transform_have_their_own_gains() -> None:
    """Gains of 1 % change the correlation by about 1 %, and every device has its own."""
    x, w = uniform(1, 16), uniform(1, 8, seed=1)
    engine = made(shape=(1, 90), lens="1d", encode="amplitude", detection="intensity")
    exactly = joint_transform_correlate(x, w, engine, boundary="full")
    found = joint_transform_correlate(x, w, engine.replace(prnu_rms=0.01), boundary="full")
    other = joint_transform_correlate(x, w, engine.replace(prnu_rms=0.01, seed=1), boundary="full")
    bent = joint_transform_correlate(
        x,
        w,
        engine.replace(dac_bits_amp=8, dac_inl_lsb=1.0, adc_bits=8, adc_inl_lsb=1.0),
        KEY,
        boundary="full",
    )
    for y in (found, other, bent):
        bright = np.asarray(exactly) > 0.1 * np.max(exactly)
        apart = np.std((np.asarray(y) / exactly)[bright])
        assert 0.005 < apart < 0.1
    assert np.any(np.abs(np.asarray(found / other) - 1) > 0.005)


# Rails


@pytest.mark.parametrize("encoding", ["two_rail", "bias"])
def test_rails_give_the_signed_linear_result(encoding: str) -> None:
    """From intensities alone: real and complex numbers, modulators that write from 0, both correlators."""
    engine = JOINT.replace(encode="amplitude")
    x, w, z = normal(4, 5), normal(3, 4, seed=1), waves(4, 5)
    for inputs, kernel in ((x, w), (z, w), (x, waves(3, 4, seed=5))):
        y = joint_transform_correlate(inputs, kernel, engine, boundary="full", encoding=encoding)
        np.testing.assert_allclose(y, correlated(inputs, kernel), atol=1e-4)
        assert jnp.iscomplexobj(y) == (inputs is z or kernel is not w)
    kernels = jnp.stack([w, 2 * w])[:, None]
    inputs = normal(3, 5, 6)
    y = optical_4f_correlate(
        inputs, kernels, CAMERA.replace(encode="amplitude"), filter_plane=Modulator(), encoding=encoding
    )
    assert y.shape == (2, 3, 5, 6)
    np.testing.assert_allclose(y, on_circle(inputs, kernels).real, atol=1e-4)
    lit = jnp.abs(inputs)
    y = optical_4f_correlate(lit, w, CAMERA, encoding=encoding, signed="kernel")
    np.testing.assert_allclose(y, on_circle(lit, w).real, atol=1e-4)


def test_plans_count_the_frames_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    for name in ("four_f", "joint_planes"):
        run = getattr(correlators, name)

        def counted(x: jax.Array, w: jax.Array, *rest: Any, run: Any = run, **more: Any) -> Any:
            y = run(x, w, *rest, **more)
            sent.append(math.prod(jnp.broadcast_shapes(x.shape[:-2], w.shape[:-2])))
            return y

        monkeypatch.setattr(correlators, name, counted)
    x, w, lit = normal(3, 5, 6), normal(2, 1, 2, 3), uniform(3, 4, 5)
    optical_4f(x, transmissions(5, 6), CAMERA)
    optical_4f_correlate(x, w, CAMERA, encoding="two_rail")
    optical_4f_correlate(waves(3, 5, 6), waves(2, 1, 2, 3), CAMERA, encoding="bias")
    joint_transform_correlate(lit, w, JOINT, encoding="two_rail", signed="kernel")
    plans = [
        plan("4f", (3, 5, 6), CAMERA, kernel=(5, 6)),
        plan("4f_correlate", (3, 5, 6), CAMERA, kernel=w.shape, encoding="two_rail"),
        plan("4f_correlate", (3, 5, 6), CAMERA, kernel=w.shape, encoding="bias", real=False),
        plan(
            "joint_transform_correlate",
            (3, 4, 5),
            JOINT,
            kernel=w.shape,
            encoding="two_rail",
            signed="kernel",
        ),
    ]
    assert [planned.frames for planned in plans] == [*sent[:3], 2 * sent[3]]
    assert sent == [3, 24, 54, 12]
    mixed = plan("4f_correlate", (5, 6), CAMERA, kernel=(2, 3), encoding="two_rail", real=(True, False))
    optical_4f_correlate(x[0], waves(2, 3), CAMERA, encoding="two_rail")
    assert mixed.frames == sent[-1] == 8
    averaged = CAMERA.replace(averages=3)
    planned = plan("4f_correlate", (3, 5, 6), averaged, kernel=w.shape, encoding="two_rail")
    assert (planned.passes, planned.stages, planned.factors, planned.factor_arrays) == (72, 1, 24, 4)


def test_time_and_energy_follow_the_passes() -> None:
    """A pass of a 4f correlator writes two planes and reads one; a joint transform has two passes."""
    e = made(shape=(4, 30), detection="intensity", dac_bits_amp=8, dac_bits_phase=8, adc_bits=8)
    one = plan("4f", (4, 30), e, kernel=(4, 30))
    four = plan("4f_correlate", (4, 30), e, kernel=(2, 2), encoding="two_rail")
    two = plan("joint_transform_correlate", (2, 5), e, kernel=(2, 4))
    assert [cost.seconds(e, **p.load(), stages=p.stages).optics for p in (one, four, two)] == pytest.approx(
        [1e-9, 4e-9, 2e-9]
    )
    used, plain = cost.energy(e, **one.load()), cost.energy(e, 1)
    assert (used.dac, used.adc, used.laser) == pytest.approx((2 * plain.dac, plain.adc, plain.laser))
    rails, both = cost.energy(e, **four.load()), cost.energy(e, **two.load())
    assert (rails.dac, rails.adc) == pytest.approx((8 * plain.dac, 4 * plain.adc))
    assert (both.dac, both.adc) == pytest.approx((2 * plain.dac, 2 * plain.adc))
    assert rails.digital > 0
    rows = plan("4f_correlate", (4, 30), e.replace(lens="1d"), kernel=(4, 2)).digital_flops
    assert rows == pytest.approx(4 * 5 * 30 * math.log2(30))  # a spectrum of each row


# Derivatives and transformations


@pytest.mark.slow
def test_derivatives_are_those_of_finite_differences() -> None:
    x, h, w = normal(5, 6), transmissions(5, 6) * 0.9, normal(2, 3)
    engine = CAMERA.replace(static_phase_rms=0.1, crosstalk_db=-20.0)
    check = partial(check_grads, order=1, modes=["rev"], rtol=2e-2, atol=2e-2)
    check(partial(optical_4f, engine=engine), (x, h))
    check(partial(optical_4f_correlate, engine=engine, encoding="two_rail"), (x, w))
    weak = made(shape=(2, 30), detection="amplitude", lens="1d")
    check(partial(joint_transform_correlate, engine=weak), (uniform(2, 5) + 0.5, uniform(2, 4) + 0.5))


def slopes(correlate: Any, weights: Any, x: Any, w: Any) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of a weighted sum of a bilinear correlation: what each unit gives with the other array."""

    def unit(like: Any, place: tuple[int, ...]) -> np.ndarray:
        one = np.zeros(like.shape)
        one[place] = 1.0
        return one

    by_x = [np.sum(weights * correlate(unit(x, place), w).real) for place in np.ndindex(x.shape)]
    by_w = [np.sum(weights * correlate(x, unit(w, place)).real) for place in np.ndindex(w.shape)]
    return np.reshape(by_x, x.shape), np.reshape(by_w, w.shape)


@pytest.mark.parametrize("backward", ["model", "ideal"])
@pytest.mark.parametrize("taps", [[1.0, 0.0, -0.5], [0.0, 0.0, 0.0]])
def test_rails_have_a_derivative_in_the_dark(taps: list[float], backward: str) -> None:
    """That of the sum, also at detectors without light and for a kernel of zeros."""
    x, w = jnp.zeros((5, 6)).at[1, 2].set(1.0).at[3, 3].set(-2.0), jnp.asarray([taps])
    for run, correlate, engine, columns in (
        (optical_4f_correlate, on_circle, CAMERA, 6),
        (partial(joint_transform_correlate, boundary="full"), correlated, JOINT, 8),
    ):
        weights = normal(5, columns, seed=2)
        lossy = engine.replace(backward=backward, insertion_loss_db=6.0)

        def total(x: jax.Array, w: jax.Array, run=run, lossy=lossy, weights=weights) -> jax.Array:
            return jnp.sum(weights * run(x, w, lossy, encoding="two_rail"))

        found = jax.grad(total, (0, 1))(x, w)
        for got, right in zip(found, slopes(correlate, np.asarray(weights), x, w), strict=True):
            np.testing.assert_allclose(got, right, atol=1e-5)


def test_one_laser_lights_all_detectors_of_a_pass() -> None:
    """Fluctuations of the second pass are common to the correlation and the auto-correlations."""
    engine = made(shape=(1, 20), lens="1d", detection="intensity", power_drift_rms=0.05)
    engine = engine.replace(drift_corr=1e-3)
    x = jnp.broadcast_to(uniform(1, 4), (400, 1, 4))
    terms = joint_transform(x, uniform(1, 2, seed=1), engine, KEY)
    cross, auto = (np.asarray(part)[:, 0, 3] for part in (terms.cross, terms.auto))
    assert np.std(cross / cross.mean()) > 0.05
    np.testing.assert_allclose(cross / cross.mean(), auto / auto.mean(), rtol=1e-4)


def test_the_ideal_derivative_of_a_noisy_correlator() -> None:
    noisy = CAMERA.replace(dac_bits_amp=3, dac_bits_phase=3).with_photons(50.0)
    x, h = normal(5, 6), transmissions(5, 6)
    follows = noisy.replace(backward="ideal")

    def total(engine: Engine, h: jax.Array) -> jax.Array:
        return jnp.sum(optical_4f(x, h, engine, KEY) * (1 + x))

    np.testing.assert_allclose(total(follows, h), total(noisy, h), rtol=1e-5)
    found, right = (jax.grad(partial(total, engine))(h) for engine in (follows, CAMERA))
    np.testing.assert_allclose(found, right, atol=1e-4)
    w = uniform(3, 4)
    joint = JOINT.replace(dac_bits_amp=3, backward="ideal")
    found, right = (
        jax.grad(lambda w, e=e: jnp.sum(joint_transform_correlate(uniform(4, 5), w, e)))(w)
        for e in (joint, JOINT)
    )
    np.testing.assert_allclose(found, right, rtol=1e-4)


def test_vmap_and_jit_change_nothing() -> None:
    engine = CAMERA.replace(dac_bits_amp=6, dac_bits_phase=6, adc_bits=8).with_photons(1e4)
    x, h, keys = waves(3, 5, 6), transmissions(5, 6), jax.random.split(KEY, 3)
    one = [optical_4f(part, h, engine, key) for part, key in zip(x, keys, strict=True)]
    many = jax.jit(jax.vmap(lambda part, key: optical_4f(part, h, engine, key)))(x, keys)
    np.testing.assert_allclose(many, np.stack(one), rtol=2e-4, atol=2e-4)
    again = optical_4f(x[0], h, engine, keys[0])
    np.testing.assert_array_equal(again, one[0])
    assert np.any(np.asarray(optical_4f(x[0], h, engine, keys[1]) != one[0]))


# Presets and refusals


@pytest.mark.slow
def test_the_4f_preset_images_and_filters_at_its_own_size() -> None:
    """A random mask through an open filter has half a well in each pixel, and a low pass is that of NumPy."""
    engine = preset("amplitude_4f")
    x = array(np.random.default_rng(0).random((1000, 1000)) > 0.5, np.float32)
    image = optical_4f(x, jnp.ones((1000, 1000)), engine, KEY)
    assert snr(image, np.asarray(x)) > 25  # two leaks of 30 dB in the amplitude, which interfere
    frequency = np.abs(np.fft.fftfreq(1000))
    low = array((frequency[:, None] < 0.2) & (frequency < 0.2), np.float32)
    found = optical_4f(x, low, engine, KEY)
    right = np.abs(np.fft.ifft2(np.fft.fft2(np.asarray(x, float)) * np.asarray(low))) ** 2
    assert snr(found, right) > 20


def test_presets_of_correlators_state_their_brightest_detector() -> None:
    """An open filter images pixels on pixels; a joint spectrum has all lit pixels at zero frequency."""
    image = optical_4f(jnp.ones((5, 6)), jnp.ones((5, 6)), CAMERA)
    np.testing.assert_allclose(image, PRESETS["amplitude_4f"].brightest, rtol=1e-5)
    sizes = [(n, r) for n in range(1, 128) for r in range(1, n + 1) if 2 * (2 * n + r) - 3 <= 256]
    lit = max(sum(pair) for pair in sizes)
    assert preset("joint_transform").shape == (1, 256)
    assert PRESETS["joint_transform"].brightest == pytest.approx(lit**2 / 256)


def test_the_joint_transform_preset_correlates() -> None:
    """Levels in dB, as measured: errors may change, but not silently. Half of the noise is of a dark rail."""
    engine, x = preset("joint_transform"), uniform(100, 1, 48)
    for taps, level in ((9, 10.6), (25, 17.7)):
        w = uniform(1, taps, seed=1)
        y = joint_transform_correlate(
            x, w, engine, KEY, boundary="valid", encoding="two_rail", signed="kernel"
        )
        right = np.stack([correlated(part, w)[:, taps - 1 : 48] for part in x]).real
        assert abs(snr(y, right) - level) < 1


X, H, W = np.ones((5, 6), np.float32), np.ones((5, 6), np.float32), np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: optical_4f(X, 1.5 * H, CAMERA), r"h reaches \|h\|=1.5, and a filter plane has no gain"),
        (lambda: optical_4f(X, W, CAMERA), r"h of shape \(2, 3\) must end in the aperture \(5, 6\)"),
        (lambda: optical_4f(W, H, CAMERA), r"x of shape \(2, 3\) must end in the aperture"),
        (
            lambda: optical_4f(X, -H, CAMERA, filter_plane=Modulator(encode="amplitude")),
            "h reaches -1, and encode='amplitude' writes no negative numbers",
        ),
        (lambda: optical_4f(-X, H, CAMERA.replace(encode="amplitude")), "x reaches -1, .*two_rail"),
        (
            lambda: optical_4f(X, H * 1j, CAMERA.replace(encode="signed")),
            "h is complex64, and encode='signed'",
        ),
        (lambda: optical_4f(X, H, CAMERA.with_photons(5.0)), "this engine is noisy: pass key"),
        (
            lambda: optical_4f(X, H, CAMERA, filter_plane=Modulator(phase_noise_rms=0.1)),
            "this engine is noisy: pass key",
        ),
        (
            lambda: optical_4f(X, H, Engine((5, 6)).replace(dc_block=True)),
            "dc_block=True needs the field behind",
        ),
        (
            lambda: optical_4f(X, H, Engine.from_measured(np.eye(30), like=Engine((5, 6)))),
            "a measured device is of one lens",
        ),
        (
            lambda: optical_4f(X, H, Engine((5, 6)).replace(backward="optical")),
            "backward='optical' is for one",
        ),
        (
            lambda: optical_4f_correlate(X, W, CAMERA.replace(encode="amplitude")),
            "encode='amplitude' of the filter plane does not write the spectrum",
        ),
        (lambda: optical_4f(X, H, CAMERA.replace(source_pixels=1.0)), "a correlator needs coherent light"),
        (lambda: optical_4f(X, H, CAMERA.replace(wavelengths=2)), "coherent light in one channel"),
        (lambda: optical_4f_correlate(X, W, CAMERA, encoding="rails"), "encoding='rails' is unknown; choose"),
        (
            lambda: optical_4f_correlate(-X, W, CAMERA, encoding="two_rail", signed="kernel"),
            "the input reaches -1, and has one rail; use signed='both'",
        ),
        (
            lambda: optical_4f_correlate(X * 1j, W, CAMERA, encoding="bias", signed="kernel"),
            "signed='kernel' says that the input is not negative, but it is complex",
        ),
        (
            lambda: optical_4f_correlate(
                X, W, CAMERA.replace(encode="phase"), filter_plane=Modulator(), encoding="bias"
            ),
            "encode='phase' writes no amplitudes, and encoding='bias' has no phases; use encode='amplitude'",
        ),
        (lambda: optical_4f_correlate(X, W, CAMERA, signed="kernel"), "signed='kernel' needs an encoding"),
        (
            lambda: plan("4f", X.shape, CAMERA, kernel=X.shape, encoding="bias"),
            "encoding='bias' has no meaning for '4f'",
        ),
        (lambda: plan("4f", X.shape, CAMERA, kernel=W.shape), r"are transmissions and must end in \(5, 6\)"),
        (lambda: plan("4f", X.shape, CAMERA.replace(wavelengths=2), kernel=X.shape), "light in one channel"),
        (lambda: joint_transform_correlate(X, W, CAMERA), "terms of the output overlap"),
        (lambda: joint_transform_correlate(X, W, JOINT.replace(detection="psi4")), "psi4' takes 4 passes"),
        (lambda: joint_transform_correlate(W, X, JOINT, boundary="valid"), "fits nowhere"),
        (lambda: joint_transform_correlate(X, W, JOINT.replace(lens="1d")), "x has 5 rows and the kernel 2"),
        (
            lambda: optical_4f(np.ones((2, 5, 6), np.float32), np.ones((3, 5, 6), np.float32), CAMERA),
            r"batches \(2,\) of x and \(3,\) of the kernel do not broadcast",
        ),
    ],
)
def test_what_cannot_be_is_refused(run: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run()
