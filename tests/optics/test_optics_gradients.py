from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.test_util import check_grads
from optical import KEY, QUICK, changed, dft, exact, made, waves

from fourier_attn.ops.circular import circular_correlate
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.optics import Engine, optical_circular_correlate, optical_dft2, optical_fourier_mix
from fourier_attn.optics.device import matrix
from fourier_attn.optics.parts import DETECTIONS

SMALL = Engine(shape=(3, 4))
ROUGH = changed(SMALL, dac_bits_amp=4, dac_bits_phase=4, adc_bits=4, photons=100.0, detection="hybrid90")
SOON = ("intensity", "psi3", "hybrid90")
CHOSEN = [*SOON, *(pytest.param(name, marks=pytest.mark.slow) for name in DETECTIONS if name not in SOON)]


@partial(jax.jit, compiler_options=QUICK)
def pull(x: jax.Array, g: jax.Array, engine: Engine, key: Any = KEY, factor: Any = None) -> jax.Array:
    """The cotangent of x for the cotangent g of its transform."""
    return jax.vjp(lambda x: optical_dft2(x, engine, key, factor=factor), x)[1](g)[0]


@pytest.mark.parametrize("detection", CHOSEN)
def test_derivatives_without_errors(detection: str) -> None:
    engine = SMALL.replace(detection=detection)

    def parts(re: jax.Array, im: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = optical_dft2(jax.lax.complex(re, im), engine)
        return jnp.real(y), jnp.imag(y)

    x = waves(2, 3, 4) + 2  # away from zero, where an amplitude has a kink
    check_grads(
        jax.jit(parts),
        (x.real, x.imag),
        order=1,
        modes=["fwd", "rev"],
        rtol=2e-2,
        atol=2e-2,
    )


@pytest.mark.parametrize("backward", ["model", "ideal", "optical"])
@pytest.mark.parametrize("lens", ["2d", "1d"])
def test_the_transform_is_its_own_transpose(backward: str, lens: str) -> None:
    """Of a complex-linear map JAX takes the transpose, not the adjoint."""
    engine = SMALL.replace(backward=backward, lens=lens, centered=True)
    x, g = waves(2, 3, 4), waves(2, 3, 4, seed=1)
    np.testing.assert_allclose(pull(x, g, engine), dft(g, engine), atol=1e-5)
    np.testing.assert_allclose(pull(x.real, g, engine), dft(g, engine).real, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("encode", ["complex", "signed", "amplitude", "phase"])
@pytest.mark.parametrize("leak", ["none", "plain", "compensated"])
@pytest.mark.parametrize("drive_v", [None, 2.0])
def test_derivatives_are_finite_differences(encode: str, leak: str, drive_v: float | None) -> None:
    """Of each detection, in float64, through leak and device; scales are given, quantisers are off."""
    rng, extinction = np.random.default_rng(0), None if leak == "none" else 20.0
    writing = {"encode": encode, "extinction_db": extinction, "compensated": leak == "compensated"}
    writing |= {"drive_v": drive_v, "v_pi": drive_v and 2 * drive_v}
    x, v = rng.uniform(0.75, 2.25, (3, 4)), rng.standard_normal((3, 4))
    if encode == "signed":
        x = x * rng.choice([-1, 1], (3, 4))
    if encode in ("complex", "phase"):
        x, v = x * np.exp(1j * rng.uniform(-3, 3, (3, 4))), v + 1j * rng.standard_normal((3, 4))
        x[0, 0] *= 0.02  # below the leak
    with jax.enable_x64(True):
        for detection in DETECTIONS:
            engine = made(shape=(3, 4), detection=detection, dac_range=3.5, defocus_rad=0.5, **writing)
            run = jax.jit(partial(optical_dft2, engine=engine), compiler_options=QUICK)
            found = jax.jvp(run, (jnp.asarray(x),), (jnp.asarray(v),))[1]
            h = 1e-6
            expected = (run(jnp.asarray(x + h * v)) - run(jnp.asarray(x - h * v))) / (2 * h)
            np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("compensated", [False, True])
def test_a_phase_beyond_the_drivers_has_no_derivative_across(compensated: bool) -> None:
    """Of a size alone: the field stays at the largest angle."""
    modulator = {"v_pi": 4.0, "drive_v": 2.0, "extinction_db": 20.0 if compensated else None}
    engine = made(shape=(1, 1), dac_range=2.0, compensated=compensated, **modulator)
    for phase, moves in ((2.5, False), (-2.5, False), (1.0, True)):
        x = jnp.full((1, 1), np.exp(1j * phase), jnp.complex64)
        value, across = jax.jvp(lambda x: optical_dft2(x, engine), (x,), (1j * x,))
        np.testing.assert_allclose(across, 1j * value if moves else 0 * value, atol=1e-5)
        along = jax.jvp(lambda x: optical_dft2(x, engine), (x,), (x,))[1]
        assert abs(along).item() > 0.5


def test_a_phase_does_not_feel_its_size() -> None:
    """d (x / |x|) is 0 along x, and i Im(conj(x) dx) / |x|^2 times it across."""
    x = jnp.full((1, 1), 0.6 + 0.8j, jnp.complex64) / 4
    engine = Engine(shape=(1, 1)).replace(encode="phase", dac_bits_phase=12)
    along, across = (jax.jvp(lambda x: dft(x, engine), (x,), (v,))[1] for v in (x, 4j * x))
    scale = 0.25  # of the aperture, a constant
    np.testing.assert_allclose(along, 0, atol=1e-6)
    np.testing.assert_allclose(across, scale * 1j * (0.6 + 0.8j) / 0.25, atol=1e-5)
    np.testing.assert_array_equal(pull(0 * x, x, engine), 0 * x)  # a direction that there is not


@pytest.mark.parametrize("encode", ["complex", "signed", "amplitude"])
def test_quantisers_pass_what_they_do_not_clip(encode: str) -> None:
    x = normal(2, 3, 4) if encode != "complex" else waves(2, 3, 4)
    engine = SMALL.replace(encode=encode, dac_bits_amp=4, dac_range=0.8)
    g = waves(2, 3, 4, seed=1)
    inside = np.abs(x) <= 0.8
    if encode == "amplitude":
        inside &= np.asarray(x) >= 0
    assert 0 < inside.mean() < 1
    expected = exact(g) if encode == "complex" else exact(g).real
    clipped = np.zeros_like(expected)
    if encode == "complex":  # 0.8 x / |x| has the derivative v -> 0.8 (v - conj(v) (x / |x|)^2) / (2 |x|)
        direction = np.asarray(x) / np.abs(x)
        clipped = 0.4 * (expected - np.conj(direction**2 * expected)) / np.abs(x)
    np.testing.assert_allclose(pull(x, g, engine), np.where(inside, expected, clipped), atol=1e-5)


def test_a_clipped_complex_number_keeps_its_phase() -> None:
    """Forward and backward derivative in float64 are finite differences, with clipped and dark pixels."""
    rng = np.random.default_rng(0)
    x, v, w = (rng.standard_normal((5, 3, 4)) + 1j * rng.standard_normal((5, 3, 4)) for _ in range(3))
    x[0, 0, 0] = 0
    with jax.enable_x64(True):
        run = jax.jit(partial(optical_dft2, engine=SMALL.replace(dac_range=1.0)))
        assert 0.2 < np.mean(np.abs(x) > 1) < 0.8
        found = jax.jvp(run, (jnp.asarray(x),), (jnp.asarray(v),))[1]
        h = 1e-6
        expected = np.asarray(run(jnp.asarray(x + h * v)) - run(jnp.asarray(x - h * v))) / (2 * h)
        np.testing.assert_allclose(found, expected, atol=1e-8)
        back = jax.vjp(run, jnp.asarray(x))[1](jnp.asarray(w))[0]
        np.testing.assert_allclose(np.sum(back * v).real, np.sum(w * expected).real, rtol=1e-7)


def test_converters_pass_what_they_do_not_clip() -> None:
    x, g = waves(2, 3, 4), waves(2, 3, 4, seed=1)
    y, g = exact(x), np.asarray(g)
    engine = SMALL.replace(detection="hybrid90", dac_range=10.0, adc_bits=4, adc_range=0.08)
    inside = (np.abs(y.real) <= 0.8) * g.real + 1j * (np.abs(y.imag) <= 0.8) * g.imag
    assert 0 < np.mean(inside == g) < 1
    np.testing.assert_allclose(pull(x, jnp.asarray(g), engine), exact(inside), atol=1e-5)


def test_model_goes_through_the_static_device() -> None:
    engine = SMALL.replace(defocus_rad=0.5, fill_factor=0.7, shift_pitch=(0.1, 0.2))
    x, g = waves(2, 3, 4), waves(2, 3, 4, seed=1)
    expected = np.asarray(g).reshape(2, 12) @ np.asarray(jax.jit(matrix, compiler_options=QUICK)(engine)).T
    np.testing.assert_allclose(pull(x, g, engine).reshape(2, 12), expected, atol=1e-5)


@pytest.mark.parametrize("factor", [False, True])
def test_ideal_ignores_all_errors(factor: bool) -> None:
    x, g = waves(2, 3, 4), waves(2, 3, 4, seed=1)
    bank = waves(2, 3, 4, seed=2) if factor else None
    found = pull(x, g, ROUGH.replace(backward="ideal", dac_range=0.5), factor=bank)
    np.testing.assert_allclose(found, exact(g) * (np.asarray(bank) if factor else 1), atol=1e-5)


def test_optical_sends_the_cotangent_through_the_engine() -> None:
    x, g = waves(2, 3, 4), waves(2, 3, 4, seed=1)
    engine = changed(ROUGH, backward="optical", photons=1e4)
    found = pull(x, g, engine)
    error = np.linalg.norm(found - exact(g)) / np.linalg.norm(exact(g))
    assert 0.01 < error < 0.5  # four bits
    np.testing.assert_array_equal(found, pull(x, g, engine))
    assert np.abs(found - pull(x, g, engine, jax.random.key(1))).max() > 0
    bank = waves(2, 3, 4, seed=2)
    quiet = SMALL.replace(backward="optical")
    np.testing.assert_allclose(pull(x, g, quiet, None, bank), exact(g) * np.asarray(bank), atol=1e-5)
    by_factor = jax.grad(lambda w: jnp.abs(optical_dft2(x, quiet, factor=w) ** 2).sum())(bank.real)
    plain = jax.grad(lambda w: jnp.abs(optical_dft2(x, SMALL, factor=w) ** 2).sum())(bank.real)
    np.testing.assert_allclose(by_factor, plain, rtol=1e-4, atol=1e-4)


def test_surrogate_has_the_hardware_forward_and_the_model_backward() -> None:
    def hardware(x: np.ndarray) -> np.ndarray:
        assert isinstance(x, np.ndarray)
        return (1.5 * np.fft.fft2(x, norm="ortho")).astype(np.complex64)

    model = SMALL.replace(shift_pitch=(0.1, 0.2))
    engine = model.replace(backward="surrogate", hardware=hardware)
    x, g = waves(2, 3, 4), waves(2, 3, 4, seed=1)
    np.testing.assert_allclose(dft(x, engine), 1.5 * exact(x), atol=1e-5)
    np.testing.assert_allclose(jax.vmap(partial(optical_dft2, engine=engine))(x), 1.5 * exact(x), atol=1e-5)
    np.testing.assert_allclose(pull(x, g, engine), pull(x, g, model), atol=1e-6)
    bank = waves(2, 3, 4, seed=2)
    product = np.asarray(x) * np.asarray(bank)
    np.testing.assert_allclose(dft(x, engine, factor=bank), 1.5 * exact(product), atol=1e-5)
    np.testing.assert_allclose(pull(x, g, engine, factor=bank), pull(x, g, model, factor=bank), atol=1e-5)


def test_hardware_has_the_digital_help_of_the_engine() -> None:
    """The mean is held back, digits and averages are passes, and factors stand before and after."""
    seen, gain = [], np.linspace(0.5, 2, 12).reshape(3, 4)

    def hardware(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return (2 * gain * np.fft.fft2(x / gain, norm="ortho")).astype(np.complex64)

    x, factors = waves(2, 3, 4) + 3, {"input_factors": gain, "output_factors": 0.5 / gain}
    bare = SMALL.replace(backward="surrogate", hardware=hardware)
    assert np.abs(dft(x, bare) - exact(x)).max() > 1
    np.testing.assert_allclose(dft(x, bare.replace(**factors)), exact(x), atol=1e-5)
    bank = waves(2, 3, 4, seed=2)
    found = dft(x, bare.replace(**factors), factor=bank)
    np.testing.assert_allclose(found, exact(np.asarray(x) * np.asarray(bank)), atol=1e-4)
    del seen[:]
    sliced = bare.replace(**factors, dc_block=True, dac_bits_amp=4, slices=3, averages=5)
    np.testing.assert_allclose(dft(x, sliced), exact(x), atol=1e-5)
    (written,) = seen
    assert np.prod(written.shape[:-2]) == 2 * sliced.passes
    held_back = np.asarray(x) - np.mean(x, (-2, -1), keepdims=True)
    np.testing.assert_allclose(written[0].sum(axis=-3) / gain, held_back, atol=1e-5)


@pytest.mark.parametrize("detection", CHOSEN)
def test_derivatives_in_the_dark_are_finite(detection: str) -> None:
    """An aperture of zeros beside one that is lit, and nothing but zeros."""
    dark = {"adc_bits": None, "power_w": None} if detection == "field" else {}  # which has no detectors
    engine = ROUGH.replace(detection=detection, phase_noise_rms=0.1, extinction_db=20.0, **dark)
    x = np.zeros((2, 3, 4), np.complex64)
    x[1, 1, 1] = 1

    @partial(jax.jit, compiler_options=QUICK)
    def slopes(x: jax.Array, engine: Engine) -> jax.Array:
        return jax.grad(lambda x: jnp.sum(jnp.abs(optical_dft2(x, engine, KEY) - 1)))(x)

    for batch in (x, np.zeros_like(x)):
        for photons in (100.0, 1e30):
            grad = slopes(jnp.asarray(batch), engine if dark else changed(engine, photons=photons))
            assert np.all(np.isfinite(grad))


def test_both_directions_see_one_draw() -> None:
    """Given its noise the map is linear: the derivative along x is its value."""
    engine = SMALL.replace(phase_noise_rms=0.5, amp_noise_rms=0.3, rin_db_hz=-105.0, detection="hybrid90")
    x, g = normal(2, 3, 4), waves(2, 3, 4, seed=1)
    y = np.asarray(dft(x, engine, KEY))
    assert np.abs(y - exact(x)).max() > 0.1
    transposed = np.sum(np.asarray(x) * np.asarray(pull(x, g, engine)))
    np.testing.assert_allclose(transposed, np.sum((np.asarray(g) * y).real), rtol=1e-3)
    clean = SMALL.replace(phase_noise_rms=0.5)
    value, slope = jax.jvp(lambda x: optical_dft2(x, clean, KEY), (x,), (x,))
    np.testing.assert_allclose(value, slope, atol=1e-5)


def test_derivatives_of_mixing() -> None:
    x, g = normal(3, 4, 3), normal(3, 4, 3, seed=1)
    expected = jax.vjp(fourier_mix, x)[1](g)[0]
    for detection in ("field", "homodyne_re"):
        mix = partial(optical_fourier_mix, engine=made(shape=(4, 4), detection=detection))
        np.testing.assert_allclose(
            jax.jit(lambda x, g, f=mix: jax.vjp(f, x)[1](g), compiler_options=QUICK)(x, g)[0],
            expected,
            atol=1e-4,
        )


@pytest.mark.slow
def test_derivatives_of_correlation() -> None:
    x, w = normal(3, 12), normal(2, 2, 3, seed=1)
    for boundary, multiply in (("circular", "digital"), ("valid", "modulator")):
        options = {"shape": (3, 4), "boundary": boundary}
        g = normal(3, 2, 12 if boundary == "circular" else 4, seed=2)
        optical = partial(
            optical_circular_correlate, engine=Engine(shape=(4, 4)), multiply=multiply, **options
        )
        pulls = [
            jax.jit(lambda x, w, g, f=f: jax.vjp(f, x, w)[1](g), compiler_options=QUICK)(x, w, g)
            for f in (optical, partial(circular_correlate, **options))
        ]
        for a, b in zip(*pulls, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
