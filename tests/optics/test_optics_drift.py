"""Drift of a device: the law of its variance, one path for all ages, calibration and what it costs."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from optical import KEY, dft, exact, waves

from fourier_attn.optics import Engine, optical_dft2
from fourier_attn.optics.drift import drift, path, recalibration, timed
from fourier_attn.optics.parts import Device
from fourier_attn.optics.presets import preset

PATHS = 40_000
TAU = 100.0
SMALL = Engine(shape=(4, 4)).replace(phase_drift_rms=0.3, gain_drift_rms=0.1, drift_time_s=TAU)


@pytest.fixture(scope="module")
def paths() -> dict[float, np.ndarray]:
    """Many paths at some times, in correlation times."""
    times = (0.0, 1e-4, 0.01, 0.3, 0.5, 0.9, 1.0, 1.3, 3.0, 3.1, 40.0, 1000.25)
    one = jax.jit(lambda time: path(KEY, time, (PATHS,)))
    return {time: np.asarray(one(jnp.float32(time)), np.float64) for time in times}


def test_paths_are_stationary_and_forget_exponentially(paths: dict[float, np.ndarray]) -> None:
    """E[z(s) z(t)] = exp(-|t - s|), to five standard errors of so many paths."""
    for s, first in paths.items():
        assert abs(first.mean()) < 5 / math.sqrt(PATHS)
        for t, second in paths.items():
            expected = math.exp(-abs(t - s))
            assert abs(np.mean(first * second) - expected) < 5 * math.sqrt((1 + expected**2) / PATHS), (s, t)


def test_small_changes_have_the_variance_of_the_process(paths: dict[float, np.ndarray]) -> None:
    """2 (1 - exp(-t)), relative, where the covariance itself says nothing; normal numbers, not jumps."""
    for s, t in ((0.0, 1e-4), (0.0, 0.01), (0.9, 1.0), (3.0, 3.1), (1.0, 1.3)):
        change = paths[t] - paths[s]
        variance = 2 * (1 - math.exp(-(t - s)))
        assert np.mean(change**2) == pytest.approx(variance, rel=5 * math.sqrt(2 / PATHS)), (s, t)
        kurtosis = np.mean(change**4) / np.mean(change**2) ** 2
        assert kurtosis == pytest.approx(3, abs=5 * math.sqrt(96 / PATHS)), (s, t)


def test_ages_of_a_device_are_points_of_one_continuous_path() -> None:
    one = jax.jit(lambda age: drift(Device(age_s=age, drift_time_s=TAU), (500,), jnp.float32))
    ages = np.linspace(0, 2 * TAU, 81)
    found = np.stack([np.asarray(one(jnp.float32(age))) for age in ages])
    steps = np.mean(np.diff(found, axis=0) ** 2, axis=1)
    expected = 2 * (1 - math.exp(-1 / 40))
    np.testing.assert_allclose(steps, expected, rtol=5 * math.sqrt(2 / 500))
    np.testing.assert_array_equal(one(jnp.float32(ages[40])), found[40])
    other = drift(Device(age_s=TAU, drift_time_s=TAU, seed=1), (500,), jnp.float32)
    assert abs(np.mean(other * found[40])) < 0.3  # 5 standard errors


def test_an_old_device_drifts_like_a_young_one() -> None:
    """9 s after its latest calibration, three years after the first, which single precision does not tell."""
    for age in (9.0, 99_999_999.0):
        device = Device(gain_drift_rms=1.0, age_s=age, recalibrate_s=10.0, drift_time_s=TAU)
        found = np.mean(np.asarray(drift(device, (20_000,), jnp.float32), np.float64) ** 2)
        assert found == pytest.approx(2 * (1 - math.exp(-9 / TAU)), rel=5 * math.sqrt(2 / 20_000))
        x, engine = waves(2, 4, 4), SMALL.replace(age_s=age, recalibrate_s=10.0)
        y = np.asarray(jax.jit(lambda x, engine=engine: optical_dft2(x, engine))(x))  # as in a network
        assert np.abs(y - exact(x)).max() > 0.05
    moments = timed(device).age_s
    np.testing.assert_array_equal(moments.whole, [999_999, 999_999])
    np.testing.assert_allclose(moments.place, [0.99, 0.9], atol=1e-9)


def test_after_a_calibration_the_drift_begins_at_nothing() -> None:
    """It is the change since then, of the same path; before the first one it is the change since age 0."""

    drawn = jax.jit(partial(drift, shape=(2000,), dtype=jnp.float32))

    def of(age: float, interval: float | None) -> np.ndarray:
        return np.asarray(drawn(Device(age_s=age, recalibrate_s=interval, drift_time_s=TAU)), np.float64)

    assert np.abs(of(0.0, None)).max() == 0
    # two programs, in single precision
    np.testing.assert_allclose(of(40.0, 64.0), of(40.0, None), atol=1e-6)
    np.testing.assert_allclose(of(40.0, math.inf), of(40.0, None), atol=1e-6)
    np.testing.assert_allclose(of(80.0, 64.0), of(80.0, None) - of(64.0, None), atol=1e-6)
    assert np.abs(of(64.0, 64.0)).max() == 0
    for interval in (10.0, 1.0, 0.01):
        late = of(200.0 - interval / 4, interval)
        expected = 2 * (1 - math.exp(-0.75 * interval / TAU))
        assert np.mean(late**2) == pytest.approx(expected, rel=5 * math.sqrt(2 / 2000))


def test_the_engine_of_an_age_differs_by_its_drift_alone() -> None:
    """Small phases and gains, half of their variance before the lens and half after: relative error s^2."""
    x = waves(64, 4, 4)
    exact = np.fft.fft2(np.asarray(x, np.complex128), norm="ortho")
    assert np.abs(dft(x, SMALL) - exact).max() < 1e-5
    assert np.abs(dft(x, SMALL.replace(age_s=50.0, recalibrate_s=1e-6)) - exact).max() < 0.01
    weak = SMALL.replace(phase_drift_rms=0.02, gain_drift_rms=0.01, age_s=TAU / 2)
    errors = []
    for seed in range(20):
        y = np.asarray(dft(x, weak.replace(seed=seed)), np.complex128)
        errors.append(np.mean(np.abs(y - exact) ** 2) / np.mean(np.abs(exact) ** 2))
    variance = 2 * (1 - math.exp(-0.5)) * (0.02**2 + 0.01**2)
    assert np.mean(errors) == pytest.approx(variance, rel=0.2)  # 20 x 64 draws


def test_a_device_that_has_not_aged_is_the_calibrated_one() -> None:
    """With its static pattern, which has draws of its own."""
    static = Engine(shape=(4, 4)).replace(static_phase_rms=0.1, static_gain_rms=0.1)
    x = waves(2, 4, 4)
    young = static.replace(phase_drift_rms=0.3, gain_drift_rms=0.1)
    np.testing.assert_allclose(dft(x, young), dft(x, static), atol=1e-6)


def test_further_ages_compile_nothing() -> None:
    x, traced = waves(2, 4, 4), []

    @jax.jit
    def transform(engine: Engine) -> jax.Array:
        traced.append(engine)
        return optical_dft2(x, engine)

    for age in range(21):
        transform(SMALL.replace(age_s=10.0 * age, recalibrate_s=30.0 + age, seed=age))
    assert len(traced) == 1


def test_calibration_takes_its_share_of_the_passes() -> None:
    """2 p probes, in psi4's four steps each; work and calibration together are all passes there are."""
    engine = preset("demonstrator_5x5").replace(recalibrate_s=10.0)
    calibration, all_passes = 2 * 25 * 4, 10.0 * engine.frame_rate_hz
    share = recalibration(engine)
    work = all_passes / (1 + share)
    assert work + calibration == pytest.approx(all_passes)
    assert recalibration(engine.replace(calibration_probes=100.0, averages=2)) == pytest.approx(
        800 / (all_passes - 800)
    )
    assert recalibration(engine.replace(recalibrate_s=None)) == 0
    assert recalibration(engine.replace(recalibrate_s=math.inf)) == 0
    with pytest.raises(ValueError, match=r"recalibrate_s=0.2 has 200 passes, and a calibration takes 200"):
        recalibration(engine.replace(recalibrate_s=0.2))


@pytest.mark.parametrize(
    "name", ["phase_drift_rms", "gain_drift_rms", "age_s", "recalibrate_s", "drift_time_s"]
)
def test_times_and_strengths_are_not_negative(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=-1 must be"):
        SMALL.replace(**{name: -1})
