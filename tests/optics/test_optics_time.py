"""Effects of time and neighbours: heat, settling, correlated drift, jitter; each against its formula."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from optical import KEY, QUICK, changed, decibel, dft, exact, made, snr, waves

from fourier_attn.optics import optical_dft2
from fourier_attn.optics.coupling import settle
from fourier_attn.optics.drift import drift, neighbours
from fourier_attn.optics.parts import Device

RATE = 1e3


def heated(x: np.ndarray, share: float) -> np.ndarray:
    """q[i, j] = sum c^(|i - k| + |j - l|) p[k, l], by its definition."""
    phase, result = np.angle(x), np.zeros(x.shape)
    rows, cols = x.shape[-2:]
    for i, j, k, m in np.ndindex(rows, cols, rows, cols):
        result[..., i, j] += share ** (abs(i - k) + abs(j - m)) * phase[..., k, m]
    return np.abs(x) * np.exp(1j * result)


@pytest.mark.parametrize("encode", ["complex", "phase"])
def test_heat_leaks_to_neighbours(encode: str) -> None:
    x, engine = waves(2, 4, 5), made(shape=(4, 5), encode=encode)
    written = np.asarray(x, complex)
    written = written / np.abs(written) if encode == "phase" else written
    scale = np.abs(np.asarray(x)).max((1, 2), keepdims=True) if encode == "phase" else 1.0
    for share in (0.0, 0.03, 0.4):
        found = dft(x, engine.replace(thermal_crosstalk=share))
        np.testing.assert_allclose(found, exact(scale * heated(written, share)), atol=1e-4)
    assert np.sum(np.abs(found) ** 2) == pytest.approx(np.sum(np.abs(scale * written) ** 2), rel=1e-5)


def test_leaked_heat_has_a_derivative() -> None:
    """That of finite differences in float64; finite in the dark."""
    rng = np.random.default_rng(0)
    x, v = (rng.standard_normal((2, 3, 4)) + 1j * rng.standard_normal((2, 3, 4)) for _ in range(2))
    with jax.enable_x64(True):
        engine = made(shape=(3, 4), thermal_crosstalk=0.1)
        run = jax.jit(lambda x: optical_dft2(x, engine))
        found = jax.jvp(run, (jnp.asarray(x),), (jnp.asarray(v),))[1]
        h = 1e-6
        expected = np.asarray(run(jnp.asarray(x + h * v)) - run(jnp.asarray(x - h * v))) / (2 * h)
        np.testing.assert_allclose(found, expected, atol=1e-7)
        x[0] = 0
        dark = jax.jvp(run, (jnp.asarray(x),), (jnp.asarray(v),))[1]
        np.testing.assert_allclose(dark[0], exact(v)[0], atol=1e-7)


@pytest.mark.parametrize("detection", ["field", "psi3"])
def test_modulators_remember_the_pass_before(detection: str) -> None:
    """E[t] = (1 - k) D[t] + k E[t - 1] over passes, averages and apertures in this order, dark at first."""
    x = waves(2, 3, 4, 5)
    tau, averages, steps = 0.8e-3, 2, 3 if detection == "psi3" else 1
    kept = math.exp(-1 / (RATE * tau))
    scale = np.abs(np.asarray(x)).max((-2, -1), keepdims=True)
    drive = (np.asarray(x, complex) / scale).reshape(6, 4, 5)
    state, expected, r = np.zeros((4, 5), complex), np.zeros((6, 4, 5), complex), math.sqrt(10.0)
    for aperture in range(6):
        for _ in range(averages):
            for m in range(steps):
                state = (1 - kept) * drive[aperture] + kept * state
                turn = np.exp(2j * np.pi * m / 3)
                seen = np.abs(exact(state) + r * turn) ** 2 * turn / (3 * r)
                expected[aperture] += (exact(state) if detection == "field" else seen) / averages
    engine = made(shape=(4, 5), detection=detection, averages=averages, frame_rate_hz=RATE, settling_s=tau)
    np.testing.assert_allclose(dft(x, engine), expected.reshape(x.shape) * scale, atol=2e-5)
    steps = jnp.eye(12, dtype=jnp.complex64).reshape(12, 12, 1, 1)
    whole = np.asarray(jax.vmap(lambda drive: settle(drive, kept))(steps))
    assert np.linalg.svd(whole.reshape(12, 12), compute_uv=False).max() <= 1  # no gain at any frequency
    for off in (0.0, 1e-6):
        np.testing.assert_allclose(dft(x, engine.replace(settling_s=off)), exact(x), atol=2e-5)


@pytest.mark.parametrize("detection", ["hybrid90", "psi3", "linear3", "intensity"])
def test_detectors_remember_the_pass_before(detection: str) -> None:
    """S[t] = (1 - k) P[t] + k S[t - 1] of each detector, k = exp(-2 pi B T), the reference at first."""
    x, averages, bandwidth, r = waves(2, 3, 4, 5), 2, 0.3e3, math.sqrt(10.0)
    kept = math.exp(-2 * math.pi * bandwidth / RATE)
    scale = np.abs(np.asarray(x)).max((-2, -1), keepdims=True)
    fields = exact(np.asarray(x, complex) / scale).reshape(6, 4, 5)
    turns = np.exp(2j * np.pi * np.arange(3) / 3)
    passes: dict[str, list[Any]] = {  # the reference at each detector in each pass
        "hybrid90": [[r, -r, 1j * r, -1j * r]],
        "psi3": [[r * turn] for turn in turns],
        "linear3": [[0.0], [r], [1j * r]],
        "intensity": [[0.0]],
    }
    detectors = len(passes[detection][0])
    state = np.full((detectors, 4, 5), 0.0 if detection == "intensity" else r**2 / detectors)
    expected = np.zeros((6, 4, 5), complex)
    for aperture in range(6):
        for _ in range(averages):
            seen = []
            for references in passes[detection]:
                light = [np.abs(fields[aperture] + reference) ** 2 / detectors for reference in references]
                state = (1 - kept) * np.array(light) + kept * state
                seen.append(state)
            y = np.array(seen)  # (passes, detectors, ..)
            if detection == "hybrid90":
                found = (y[0, 0] - y[0, 1] + 1j * (y[0, 2] - y[0, 3])) / r
            elif detection == "psi3":
                found = np.tensordot(turns, y[:, 0], 1) / (3 * r)
            elif detection == "linear3":
                found = (y[1, 0] - y[0, 0] - r**2 + 1j * (y[2, 0] - y[0, 0] - r**2)) / (2 * r)
            else:
                found = y[0, 0]
            expected[aperture] += found / averages
    engine = made(shape=(4, 5), detection=detection, averages=averages, frame_rate_hz=RATE)
    slow = engine.replace(memory=True, bandwidth_hz=bandwidth)
    expected = expected.reshape(x.shape) * (scale**2 if detection == "intensity" else scale)
    np.testing.assert_allclose(dft(x, slow), expected, atol=1e-4)
    assert snr(dft(x, slow), np.asarray(dft(x, engine))) < 25
    np.testing.assert_allclose(dft(x, slow.replace(bandwidth_hz=1e6)), dft(x, engine), atol=2e-5)


def test_channels_remember_their_own_light() -> None:
    """Those of the array three apertures back, as three engines with one channel have it; the noise stays."""
    x, slow = waves(9, 4, 4), made(shape=(4, 4), detection="psi3", frame_rate_hz=RATE, memory=True)
    slow = slow.replace(bandwidth_hz=300.0, averages=2)
    shared = dft(x, slow.replace(wavelengths=3))
    for w in range(3):
        np.testing.assert_allclose(shared[w::3], dft(x[w::3], slow), atol=2e-5)
    dark = jnp.zeros((400, 4, 4))
    noise = [
        float(np.std(dft(dark, changed(made(shape=(4, 4), detection="hybrid90"), 1e3, memory=on), KEY)))
        for on in (False, True)
    ]
    assert noise[1] == pytest.approx(noise[0], rel=1e-5)


def test_drift_correlates_over_pixels() -> None:
    """exp(-(m + n) / l) of variance 2 (1 - exp(-t / tau)), to five standard errors; short: independent."""
    number, variance = 1_000, 2 * (1 - math.exp(-0.5))
    at = np.stack(np.meshgrid(np.arange(3), np.arange(4), indexing="ij"), -1).reshape(12, 2)
    apart = np.abs(at[:, None] - at[None]).sum(-1)

    def paths(length: Any) -> jax.Array:
        device = Device(age_s=50.0, drift_time_s=100.0, drift_length_pitch=length, phase_drift_rms=1.0)
        return drift(device, (number, 3, 4), jnp.float32)

    run = jax.jit(paths, compiler_options=QUICK)
    for length in (1e-3, 2.0, 1e6):
        found = np.asarray(run(length), np.float64).reshape(number, 12)
        expected = variance * np.exp(-apart / length)
        np.testing.assert_allclose(
            found.T @ found / number, expected, atol=5 * variance * (2 / number) ** 0.5
        )
    np.testing.assert_allclose(neighbours(4, jnp.float32(1e-3)), np.eye(4), atol=1e-7)


@pytest.mark.parametrize("detection", ["hybrid90", "psi4", "intensity"])
def test_jitter_is_the_noise_of_a_sine_at_half_the_frame_rate(detection: str) -> None:
    """SNR = -20 log10(2 pi f jitter); what a reference adds in all passes alike has no slope."""
    jitter, x = 1e-5, waves(200, 4, 5)
    noise = (2 * math.pi * RATE / 2 * jitter) ** 2
    engine = made(shape=(4, 5), detection=detection, frame_rate_hz=RATE, jitter_s=jitter)
    field = np.asarray(x)
    y, u = exact(field), exact(field / np.abs(field).max((1, 2), keepdims=True))
    if detection == "psi4":  # |E|^2 + 2 R Re(E exp(-i th)) in each of four steps, R^2 = 10
        power = np.abs(u) ** 2
        noise *= np.mean(2 * power / 4 + power**2 / 40) / np.mean(power)
    expected = np.abs(y) ** 2 if detection == "intensity" else y
    clean = np.asarray(dft(x, engine.replace(jitter_s=0.0), KEY))
    np.testing.assert_allclose(clean, expected, atol=2e-3)
    assert abs(snr(dft(x, engine, KEY), clean) + decibel(float(noise))) < 0.5  # 4,000 numbers, and scales


@pytest.mark.parametrize("encode", ["signed", "phase", "complex"])
def test_jitter_of_the_drive_is_that_of_a_sine_at_half_the_rate_of_arrays(encode: str) -> None:
    """SNR = -20 log10(2 pi f jitter) for amplitude and phase; one draw for an array and all of its passes."""
    jitter, averages, x = 1e-4, 5, waves(200, 4, 5)
    x = x.real if encode == "signed" else x
    engine = made(shape=(4, 5), encode=encode, averages=averages, frame_rate_hz=RATE)
    ratio = 2 * math.pi * (RATE / averages / 2) * jitter
    clean = np.asarray(dft(x, engine.replace(dac_jitter_s=0.0), KEY))
    np.testing.assert_allclose(clean, dft(x, engine), atol=2e-5)
    p2 = np.mean(np.angle(np.asarray(x)) ** 2)  # of the phases' drive
    noise = ratio**2 * {"signed": 1.0, "phase": p2, "complex": 1 + p2}[encode]
    assert abs(snr(dft(x, engine.replace(dac_jitter_s=jitter), KEY), clean) + decibel(noise)) < 0.3


def test_strengths_in_time_have_derivatives() -> None:
    x, g = waves(2, 4, 5), normal(2, 4, 5)
    on: dict[str, Any] = {"thermal_crosstalk": 0.1, "settling_s": 5e-4, "jitter_s": 1e-5}
    on |= {"drift_length_pitch": 2.0, "bandwidth_hz": 400.0, "dac_jitter_s": 1e-5}
    engine = changed(made(shape=(4, 5), detection="hybrid90", frame_rate_hz=RATE), phase_drift_rms=0.1)
    engine = engine.replace(memory=True, averages=2)

    def read(strengths: dict[str, Any]) -> jax.Array:
        y = optical_dft2(x, engine.replace(age_s=5e3, **strengths), KEY)
        return jnp.sum(y.real * g + y.imag * g[::-1])

    for strengths in (on, on | {"thermal_crosstalk": 0.0, "jitter_s": 0.0}):
        for name, slope in jax.jit(jax.grad(read), compiler_options=QUICK)(strengths).items():
            assert np.isfinite(slope), name
            assert slope != 0, name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"thermal_crosstalk": 0.1, "encode": "signed"}, "thermal_crosstalk=0.1 is of phases"),
        ({"thermal_crosstalk": 0.6}, "thermal_crosstalk=0.6 must be at least 0 and at most 0.5"),
        ({"settling_s": -1.0}, "settling_s=-1.0 must be at least 0"),
        ({"jitter_s": 1e-12}, "detection='field' has no converters"),
        ({"dac_jitter_s": -1e-12}, "dac_jitter_s=-1e-12 must be at least 0"),
        ({"memory": True}, "detection='field' is not a detector, so that memory=True does nothing"),
        (
            {"detection": "hybrid90", "bandwidth_hz": 1e8},
            "mix a pass with the one before; set memory=True, raise it",
        ),
        ({"drift_length_pitch": 0.0}, "drift_length_pitch=0.0 must be positive"),
        ({"drift_length_pitch": 2.0}, "drift_length_pitch=2.0 correlates a drift, which is off"),
    ],
)
def test_impossible_times_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**fields)
