"""Angles, phasors and the table of normal numbers that a pass draws from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fourier_attn.optics import phases, random


@pytest.mark.parametrize(("double", "atol"), [(False, 5e-7), (True, 2e-15)])
def test_phasors_and_angles_are_those_of_numpy(double: bool, atol: float) -> None:
    with jax.enable_x64(double):
        angles = np.random.default_rng(0).uniform(-9, 9, 20_000).astype(jnp.float64 if double else np.float32)
        angles[:6] = [0, np.pi / 2, -np.pi / 2, np.pi, 3 * np.pi / 2, 1e-8]
        found = phases.phasor(jnp.asarray(angles))
        np.testing.assert_allclose(found, np.exp(1j * angles.astype(float)), atol=atol)
        z = np.exp(1j * angles.astype(float)) * np.geomspace(1e-8, 1e8, len(angles))
        z[:5] = [0, 1, -1, 1j, -1j]
        z = z.astype(np.complex128 if double else np.complex64)
        np.testing.assert_allclose(phases.angle(jnp.asarray(z)), np.angle(z), atol=atol)
        np.testing.assert_allclose(phases.modulus(jnp.asarray(z)), np.abs(z), rtol=2e-7)


def test_real_numbers_have_an_angle_too() -> None:
    np.testing.assert_allclose(phases.angle(jnp.array([2.0, -2.0, 0.0])), [0, np.pi, 0], atol=3e-7)


def test_products_are_held_against_the_plain_form() -> None:
    """The forms for CPUs and for all other platforms: one phasor, one angle, one distribution."""
    assert [phases.choose(platform) for platform in ("cpu", "cuda", "tpu")] == ["products", "plain", "plain"]
    assert [random.choose(platform) for platform in ("cpu", "cuda", "tpu")] == ["table", "plain", "plain"]
    angles = jnp.asarray(np.random.default_rng(0).uniform(-9, 9, 5000), jnp.float32)
    turned = [phases.compute_phasor(form, angles) for form in ("products", "plain")]
    np.testing.assert_allclose(*turned, atol=5e-7)
    measured = [phases.compute_angle(form, turned[0]) for form in ("products", "plain")]
    np.testing.assert_allclose(*measured, atol=1e-6)
    key, shape = jax.random.key(5), (40, 400, 5, 5)
    table, plain = (
        np.asarray(random.compute_normal(form, key, shape, jnp.float32)).ravel()
        for form in ("table", "plain")
    )
    assert stats.ks_2samp(table, plain).pvalue > 1e-4
    assert abs(table.std() - plain.std()) < 5 / table.size**0.5
    few = random.compute_normal("plain", key, (10, *shape[1:]), jnp.float32)
    np.testing.assert_array_equal(plain[: few.size], np.asarray(few).ravel())


def test_derivatives_of_phasors() -> None:
    """d exp(i a) = i exp(i a) da."""
    angles = jnp.linspace(-4, 4, 9)
    value, slope = jax.jvp(phases.phasor, (angles,), (jnp.ones(9),))
    np.testing.assert_allclose(slope, 1j * np.asarray(value), atol=1e-6)


def test_values_of_normal_numbers_have_mean_0_variance_1_and_the_normal_distribution() -> None:
    values = random.VALUES.astype(float)
    assert abs(values.mean()) < 1e-7
    assert abs(values.var() - 1) < 1e-6
    assert abs(stats.kurtosis(values)) < 0.01
    assert stats.kstest(values, "norm").statistic < 1e-4


@pytest.mark.parametrize("shape", [(2, 5, 3, 3), (3, 4, 2, 6)])
def test_numbers_of_an_aperture_do_not_depend_on_how_many_follow(shape: tuple[int, ...]) -> None:
    key = jax.random.key(3)
    m, batch, rows, cols = shape
    many = random.sample(random.normal, key, shape, jnp.float32)
    few = random.sample(random.normal, key, (m, batch - 2, rows, cols), jnp.float32)
    np.testing.assert_array_equal(many[:, : batch - 2], few)
    assert len(np.unique(many)) > many.size - 3  # and no two draws of a pixel are the same


def test_neighbouring_numbers_are_independent() -> None:
    numbers = np.asarray(random.sample(random.normal, jax.random.key(4), (4, 4000, 5, 5), jnp.float32))
    flat = np.moveaxis(numbers, 1, 0).reshape(4000, -1)
    correlations = np.corrcoef(flat.T) - np.eye(flat.shape[1])
    assert abs(correlations).max() < 5 / np.sqrt(4000)
    assert stats.kstest(flat.ravel(), "norm").pvalue > 1e-4


def test_normal_numbers_are_the_same_in_double_precision() -> None:
    """Words of 64 bits would leave the table: their upper parts are not places in it."""
    draws = []
    for double in (False, True):
        with jax.enable_x64(double):
            draws.append(random.compute_normal("table", jax.random.key(1), (50, 7, 9), jnp.float32))
    np.testing.assert_array_equal(*draws)
    assert abs(np.std(draws[1]) - 1) < 0.02
