import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from optical import KEY, QUICK, changed, dft, exact, made, snr, waves

from fourier_attn.optics import Engine, optical_dft2, random
from fourier_attn.optics.device import matrix, propagate
from fourier_attn.optics.quantise import quantise

SMALL = Engine(shape=(4, 5))
NOISY = changed(
    SMALL,  # everything that is drawn in a pass, several passes
    phase_noise_rms=0.1,
    amp_noise_rms=0.1,
    rin_db_hz=-110.0,
    detection="psi3",
    lo_drift=0.1,
    photons=1e3,
)
POISSON = changed(SMALL, detection="intensity", photons=100.0, statistics="poisson")


def uniform(low: float, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(1).uniform(low, 1, shape), jnp.float32)


def close(y: jax.Array, expected: np.ndarray, tolerance: float = 2e-6) -> None:
    """2e-6: some 7 times what float32 transforms of this size miss, relative to the rms."""
    rms = np.sqrt(np.mean(np.abs(expected) ** 2))
    np.testing.assert_allclose(y, expected, rtol=0, atol=tolerance * rms)


@pytest.mark.parametrize("shape", [(11, 11), (4, 6), (5, 8), (1, 7), (6, 1), (1, 1)])
def test_without_errors_it_is_the_transform(shape: tuple) -> None:
    x, engine = waves(2, 3, *shape), Engine(shape=shape)
    close(optical_dft2(x, engine), exact(x))
    close(optical_dft2(x[0, 0].real, engine), exact(x[0, 0].real))


def test_jit_and_vmap_and_low_precision() -> None:
    x = waves(3, 4, 5)
    exactly = partial(optical_dft2, engine=SMALL)
    for y in (jax.jit(exactly)(x), jax.vmap(exactly)(x), jnp.stack([exactly(image) for image in x])):
        close(y, exact(x))
    low = x.real.astype(jnp.bfloat16)
    close(exactly(low), exact(low.astype(jnp.float32)))


def test_double_precision() -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 4, 5)) * (1 + 2j))
        for engine in (SMALL, SMALL.replace(detection="psi3"), SMALL.replace(detection="hybrid90")):
            y = dft(x, engine)
            assert y.dtype == jnp.complex128
            close(y, exact(x), 2e-14 if engine is SMALL else 1e-13)


@pytest.mark.parametrize("lens", ["2d", "1d"])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("dc_block", [False, True])
def test_lens_axis_and_mean(lens: str, centered: bool, dc_block: bool) -> None:
    x, axes = waves(2, 4, 5) + 3, (-2, -1) if lens == "2d" else (-1,)
    y = dft(x, SMALL.replace(lens=lens, centered=centered, dc_block=dc_block))
    expected = exact(x, axes)
    if centered:
        expected = np.fft.fftshift(exact(np.fft.ifftshift(x, axes), axes), axes)
    close(y, expected)


def test_analytic_inputs() -> None:
    psi = partial(dft, engine=made(shape=(5, 8), detection="psi4"))
    delta, m, n = np.zeros((5, 8), np.float32), *np.ogrid[:5, :8]
    delta[2, 3] = 1
    np.testing.assert_allclose(np.abs(psi(jnp.asarray(delta))), 1 / math.sqrt(40), atol=1e-6)
    wave = np.exp(2j * np.pi * (2 * m / 5 + 3 * n / 8))
    np.testing.assert_allclose(psi(jnp.asarray(wave, jnp.complex64)), delta * math.sqrt(40), atol=1e-5)
    x = waves(5, 8)
    turn = np.exp(-2j * np.pi * (m / 5 + 2 * n / 8))
    close(psi(jnp.roll(x, (1, 2), (0, 1))), np.asarray(psi(x)) * turn, 5e-6)
    y = np.asarray(psi(x.real))
    close(y, np.conj(np.roll(y[::-1, ::-1], (1, 1), (0, 1))), 5e-6)


DEVICE = {"crosstalk_db": -20.0, "defocus_rad": 0.5, "shift_pitch": (0.2, -0.1)}


@pytest.mark.parametrize(("detection", "linear"), [("field", True), ("psi3", True), ("intensity", False)])
def test_linearity(detection: str, linear: bool) -> None:
    engine = SMALL.replace(detection=detection, fill_factor=0.9, shift_pitch=(0.2, -0.1))
    a, b = waves(2, 4, 5), waves(2, 4, 5, seed=1)
    whole = dft(2 * a - 3j * b, engine)
    parts = 2 * np.asarray(dft(a, engine)) - 3j * np.asarray(dft(b, engine))
    assert (snr(whole, parts) > 100) == linear


@pytest.mark.slow
def test_power_is_lost_by_losses_only() -> None:
    x = waves(3, 4, 5)
    power = np.sum(np.abs(np.asarray(x)) ** 2)
    engine = SMALL.replace(insertion_loss_db=3.0, **DEVICE)
    y, whole = (
        jax.jit(propagate, compiler_options=QUICK)(x, engine),
        jax.jit(matrix, compiler_options=QUICK)(engine),
    )
    np.testing.assert_allclose(np.sum(np.abs(y) ** 2), power * 10**-0.3, rtol=1e-5)
    np.testing.assert_allclose(whole @ whole.conj().T, np.eye(20) * 10**-0.3, atol=1e-6)
    close(y, (np.asarray(x).reshape(3, 20) @ np.asarray(whole)).reshape(3, 4, 5))
    many = jax.jit(propagate, compiler_options=QUICK)(jnp.tile(x, (7, 1, 1)), engine)  # 21: by the matrix
    close(many, np.tile(y, (7, 1, 1)))
    passive = np.asarray(
        jax.jit(matrix, compiler_options=QUICK)(SMALL.replace(fill_factor=0.8, defocus_rad=0.5))
    )
    assert np.linalg.svd(passive, compute_uv=False).max() <= 1 + 1e-6
    y = dft(x, SMALL.replace(insertion_loss_db=3.0))  # undone digitally
    np.testing.assert_allclose(np.sum(np.abs(y) ** 2), power, rtol=1e-5)


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_bits_of_the_modulators(rounding: str) -> None:
    """Golden numbers for 2^b - 1 levels; 24,200 samples know them to 0.1 dB."""
    sine = jnp.asarray(np.sin(0.7531 * np.arange(200 * 121)).reshape(200, 11, 11), jnp.float32)
    golden = {"uniform": (35.85, 48.10, 60.19), "sine": (37.79, 49.95, 62.0)}
    golden["normal"] = (28.58, 40.81, 52.93)  # full scale at 4 sigma, nothing beyond
    if rounding == "stochastic":
        golden = {"sine": (34.74, 46.92, 58.98)}
    inputs = {"uniform": uniform(-1, 200, 11, 11), "sine": sine, "normal": normal(200, 11, 11) / 4}
    inputs["normal"] = jnp.clip(inputs["normal"], -1, 1)
    for name, expected in golden.items():
        engines = [
            made(encode="signed", dac_bits_amp=bits, dac_range=1.0, dac_rounding=rounding)
            for bits in (6, 8, 10)
        ]
        found = [snr(dft(inputs[name], e, KEY), exact(inputs[name])) for e in engines]
        np.testing.assert_allclose(found, expected, atol=0.3)
        assert abs((found[2] - found[0]) / 4 - 6.02) < 0.1


def test_bits_of_phases_and_amplitudes() -> None:
    x = jnp.exp(1j * np.pi * uniform(-1, 200, 11, 11).astype(jnp.complex64))
    for bits, expected in ((6, 30.95), (8, 43.01)):
        y = dft(x, made(encode="phase", dac_bits_phase=bits))
        assert abs(snr(y, exact(x)) - expected) < 0.3
    y = dft(uniform(0, 200, 11, 11), made(encode="amplitude", dac_bits_amp=8, dac_range=1.0))
    # step^2 / 12 against a third: 10 log10(4 255^2)
    assert abs(snr(y, exact(uniform(0, 200, 11, 11))) - 54.15) < 0.3


def test_stochastic_rounding_is_unbiased() -> None:
    n, step = 20_000, 2 / 14
    x = np.array([-0.97, -0.3, 0.02, 0.5, 0.97])
    y = quantise(
        jnp.asarray(np.repeat(x[:, None], n, 1), jnp.float32), 4, signed=True, rounding="stochastic", key=KEY
    )
    part = x / step - np.floor(x / step)
    spread = step * np.sqrt(part * (1 - part))
    assert np.all(np.abs(np.mean(y, 1) - x) < 4 * spread / np.sqrt(n))
    np.testing.assert_allclose(np.std(y, 1), spread, rtol=0.06)  # 4 standard errors where part is 0.14
    out = quantise(jnp.full(9, 1.3), 4, signed=True, rounding="stochastic", key=KEY)
    np.testing.assert_array_equal(out, np.ones(9, np.float32))


def test_sizes_of_static_errors() -> None:
    x = uniform(-1, 100, 11, 11)
    for decibel in (20.0, 25.0, 30.0, 40.0):  # leaks delta^2 (1 - a^2), two thirds, against one third
        y = dft(x, made(encode="signed", dac_range=1.0, extinction_db=decibel))
        assert abs(snr(y, exact(x)) - (decibel - 3.01)) < 0.3
    for shift, expected in ((0.01, 34.9), (0.05, 20.9), (0.1, 14.9)):
        assert abs(snr(dft(x, made(shift_pitch=(0.0, shift))), exact(x)) - expected) < 0.3
    for name in ("static_phase_rms", "static_gain_rms"):
        for rms in (0.01, 0.03, 0.1):  # 8 devices of 242 numbers: 0.14 dB is a standard error
            devices = [made(seed=seed).replace(**{name: rms}) for seed in range(8)]
            noise = np.mean([10 ** (-snr(dft(x, e), exact(x)) / 10) for e in devices])
            assert abs(10 * math.log10(noise * rms**-2)) < 0.7


def test_a_lens_off_focus_and_pixels_that_are_not_full() -> None:
    x, (rows, cols) = uniform(-1, 3, 7, 11), (np.arange(-3, 4), np.arange(-5, 6))
    radius = (rows[:, None] / 5) ** 2 + (cols / 5) ** 2  # in units of half of the longer side
    blurred = dft(x, made(shape=(7, 11), defocus_rad=0.4))
    np.testing.assert_allclose(blurred, exact(np.asarray(x) * np.exp(0.4j * radius)), atol=1e-5)
    dimmed = dft(x, made(shape=(7, 11), fill_factor=0.8))
    sinc = np.sinc(0.8 * np.fft.fftfreq(7))[:, None] * np.sinc(0.8 * np.fft.fftfreq(11))
    np.testing.assert_allclose(dimmed, exact(x) * sinc, atol=1e-5)


def test_sizes_of_noise() -> None:
    x = waves(2000, 4, 5)
    power = np.abs(exact(x)) ** 2
    y = dft(x, SMALL.replace(detection="intensity", rin_db_hz=-145.0), KEY)
    error = np.sum(y, (1, 2)) / np.sum(power, (1, 2)) - 1  # one number for each pass
    assert abs(-20 * math.log10(np.std(error)) - 55.0) < 0.6  # 4 standard errors of 2,000 numbers
    np.testing.assert_allclose(y / power - 1, np.broadcast_to(error[:, None, None], y.shape), atol=2e-4)
    for name in ("phase_noise_rms", "amp_noise_rms"):
        y = dft(x, SMALL.replace(**{name: 0.03}), KEY)
        assert abs(snr(y, exact(x)) + 20 * math.log10(0.03)) < 0.2


def test_drift_is_slow() -> None:
    engine = SMALL.replace(detection="intensity", power_drift_rms=0.05, drift_corr=100.0)
    x = jnp.broadcast_to(waves(4, 5)[None], (20_000, 4, 5))
    drift = np.sum(dft(x, engine, KEY), (1, 2)) / np.sum(np.abs(exact(x[0])) ** 2) - 1
    assert 0.04 < np.std(drift) < 0.06  # some 100 independent stretches: 7 % is a standard error
    for lag in (1, 20):
        found = np.corrcoef(drift[lag:], drift[:-lag])[0, 1]
        assert abs(found - math.exp(-lag / 100)) < 0.1


def test_static_errors_repeat_and_noise_does_not() -> None:
    x = jnp.broadcast_to(waves(4, 5)[None], (400, 4, 5))
    engine = SMALL.replace(static_phase_rms=0.1, phase_noise_rms=0.1)
    shots = {
        draw: np.asarray(dft(x, engine.replace(seed=draw[1]), jax.random.key(draw[0])))
        for draw in ((0, 0), (1, 0), (0, 1))
    }
    means = {draw: y.mean(axis=0) - exact(x[0]) for draw, y in shots.items()}
    size = np.linalg.norm(means[0, 0])
    assert np.linalg.norm(means[1, 0] - means[0, 0]) < 0.2 * size  # sqrt(2 / 400) = 0.07 is left
    assert np.linalg.norm(means[0, 1] - means[0, 0]) > 0.7 * size  # sqrt(2) for independent ones
    calibrated = np.std(shots[1, 0] - means[0, 0] - exact(x))
    dynamic = dft(x, SMALL.replace(phase_noise_rms=0.1), KEY)
    np.testing.assert_allclose(calibrated, np.std(np.asarray(dynamic) - exact(x)), rtol=0.05)


def test_a_seed_is_one_device_on_all_platforms_and_in_both_precisions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pattern, its coupling and its drift; other platforms draw in the plain form."""
    static = {"static_phase_rms": 0.3, "static_gain_rms": 0.1, "crosstalk_db": -20.0}
    drifting = {"phase_drift_rms": 0.3, "drift_time_s": 100.0, "age_s": 150.0, "recalibrate_s": 40.0}
    engine = made(shape=(3, 4), **static, **drifting)
    with monkeypatch.context() as patch:
        patch.setattr(random, "choose", lambda platform: "plain")
        elsewhere = [np.asarray(matrix(engine.replace(seed=seed))) for seed in (7, -7)]
    for seed, other in zip((7, -7), elsewhere, strict=True):
        one = engine.replace(seed=seed)
        np.testing.assert_allclose(matrix(one), other, atol=1e-6)
        with jax.enable_x64(True):
            double = jax.jit(lambda engine: matrix(engine, jnp.complex128))(one)
        # an age of single precision is off by 6e-8 of tau, a drift by the root of it
        np.testing.assert_allclose(double, other, atol=5e-4)


@pytest.mark.slow
def test_crosstalk_couples_neighbours_and_keeps_power() -> None:
    engine, unit = SMALL.replace(crosstalk_db=-20.0), jnp.eye(20, dtype=jnp.complex64)
    whole = jax.jit(matrix, compiler_options=QUICK)(engine)
    probed = dft(unit.reshape(20, 4, 5), engine)
    np.testing.assert_allclose(probed.reshape(20, 20), whole, atol=1e-6)
    np.testing.assert_allclose(whole @ whole.conj().T, np.eye(20), atol=1e-6)
    column = made(shape=(6, 1), lens="1d", crosstalk_db=-40.0)  # no lens: what is left is X X
    devices = jax.jit(jax.vmap(lambda seed: matrix(column.replace(seed=seed))), compiler_options=QUICK)(
        jnp.arange(200)
    )
    power = np.mean(np.abs(devices) ** 2, axis=0)
    np.testing.assert_allclose(np.diag(power, 1), 2e-4, rtol=0.3)  # twice 10^-4; 200 devices: 7 %
    np.testing.assert_allclose(np.diag(power, -1), 2e-4, rtol=0.3)
    assert max(np.diag(power, d).max() for d in (2, 3, 4, 5)) < 1e-6


@pytest.mark.parametrize("engine", [NOISY, pytest.param(POISSON, marks=pytest.mark.slow)])
def test_draws_belong_to_the_key_and_the_place(engine: Engine) -> None:
    x = waves(6, 4, 5)
    y = dft(x, engine, KEY)
    np.testing.assert_array_equal(y, dft(x, engine, KEY))
    other = dft(x, engine, jax.random.key(1))
    assert np.mean(np.asarray(y) == np.asarray(other)) < 0.2  # counts may be equal
    few = dft(x[:2], engine, KEY)  # a larger batch changes nothing; other fusions round otherwise
    np.testing.assert_allclose(few, y[:2], atol=1e-5)


def test_vmap_is_a_loop() -> None:
    x, keys, engine = (
        waves(3, 4, 5),
        jax.random.split(jax.random.key(0), 3),
        SMALL.replace(phase_noise_rms=0.1),
    )
    mapped = jax.vmap(lambda x, key: optical_dft2(x, engine, key))(x, keys)
    loop = [dft(x[i], engine, keys[i]) for i in range(3)]
    np.testing.assert_allclose(mapped, jnp.stack(loop), atol=1e-6)


def test_the_mean_of_images_takes_the_converters_range() -> None:
    x = uniform(0, 50, 11, 11)
    engine = made(detection="hybrid90", adc_bits=6)
    lit = np.ones((11, 11), bool)
    lit[0, 0] = False
    engines = engine, engine.replace(dc_block=True)
    raw, blocked = (snr(dft(x, e)[:, lit], exact(x)[:, lit]) for e in engines)
    assert abs(raw - 12.0) < 1.0  # which images is not told
    assert abs(blocked - 31.6) < 1.0
