"""Results that could be wrong without a message: gradients, engines that are equal, numbers that are NaN."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fourier_attn.layers import GlobalFilter
from fourier_attn.optics import (
    Engine,
    calibrate_ranges,
    error_budget,
    matched_filter,
    measure_data,
    optical_dft2,
    optical_fourier_mix,
    preset,
    through,
)
from fourier_attn.optics.calibration import transfer_matrix
from fourier_attn.optics.programs.errors import site_errors

RNG, KEY = np.random.default_rng(0), jax.random.key(0)
BITS = Engine(shape=(4, 4)).replace(dac_bits_amp=8, dac_bits_phase=8, detection="hybrid90", adc_bits=8)


def test_examples_without_a_label_add_no_noise_to_the_gradient() -> None:
    """With backward="optical", the noise of a cotangent goes with its size, also if the size is zero."""
    chip = preset("chip_11x11").replace(backward="optical")
    layers = [GlobalFilter(length=121, engine=engine) for engine in (chip, None)]
    x = jnp.asarray(RNG.normal(size=(4, 121, 4)), jnp.float32)
    params = layers[1].init(KEY, x)

    def slope(layer: GlobalFilter, params: Any) -> jax.Array:
        def loss(params: Any) -> jax.Array:
            y = jnp.asarray(layer.apply(params, x, rngs={"noise": KEY}))
            return jnp.mean(jnp.square(y[:2]))

        return jax.grad(loss)(params)["params"]["filter"]

    light, exact = (slope(layer, params) for layer in layers)
    assert jnp.linalg.norm(light - exact) < 0.3 * jnp.linalg.norm(exact)


@pytest.mark.parametrize(
    "changes",
    [
        {"extinction_db": 20.0, "compensated": True},
        {"extinction_db": 20.0},
        {"v_pi": 2.0, "drive_v": 1.9},
    ],
    ids=str,
)
def test_second_derivatives_are_finite_differences_of_first_ones(changes: dict[str, Any]) -> None:
    with jax.enable_x64(True):
        x, v = (jnp.asarray(RNG.uniform(0.2, 0.9, size=(4, 4))) for _ in range(2))
        engine = Engine(shape=(4, 4)).replace(dac_range=1.0, **changes)
        slope = jax.jit(jax.grad(lambda x: jnp.sum(jnp.abs(optical_dft2(x, engine)) ** 4)))
        found, step = jax.jvp(slope, (x,), (v,))[1], 1e-5
        expected = (slope(x + step * v) - slope(x - step * v)) / (2 * step)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def measured(seed: int) -> Engine:
    transform = np.fft.fft2(np.eye(16).reshape(16, 4, 4), norm="ortho").reshape(16, 16)
    phases = np.random.default_rng(seed).normal(size=16)
    return Engine.with_transfer(np.diag(np.exp(0.8j * phases)) @ transform)


def test_engines_are_equal_if_their_measured_arrays_are() -> None:
    one, other, x = measured(1), measured(2), jnp.asarray(RNG.normal(size=(3, 4, 4)), jnp.float32)
    assert one != other
    assert one != Engine(shape=(4, 4))
    assert (one, hash(one)) == (measured(1), hash(measured(1)))
    copy = jax.tree.map(jnp.asarray, preset("chip_11x11"))  # with numbers of JAX
    assert copy == preset("chip_11x11")
    assert error_budget(RNG.normal(size=(2, 11, 11)), copy)
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), Engine().replace(shift_pitch=(0.1, 0.2)))
    assert batch == jax.tree.map(jnp.array, batch)
    run = jax.jit(optical_dft2, static_argnums=1)
    for engine in (one, other):
        np.testing.assert_allclose(run(x, engine), optical_dft2(x, engine), atol=1e-5)


PHASES = BITS.replace(encode="phase", dac_bits_amp=None)


@pytest.mark.parametrize(
    "engine", [BITS, BITS.replace(dac_range=2.0), PHASES], ids=["auto", "fixed", "phase"]
)
def test_nan_stays_nan(engine: Engine) -> None:
    x = jnp.ones((2, 4, 4)).at[0, 1, 2].set(jnp.nan)
    assert jnp.isnan(optical_fourier_mix(x, engine)[0]).all()
    assert jnp.isnan(jnp.abs(optical_dft2(x, engine)[0])).all()
    y = jnp.abs(optical_dft2(x.astype(jnp.complex64), engine))
    assert jnp.isnan(y[0]).all()
    assert jnp.isfinite(y[1]).all()
    kernel = jnp.full((2, 2), jnp.nan)
    for kind in ("complex", "phase", "amplitude"):
        assert jnp.isnan(jnp.abs(matched_filter(kernel, shape=(4, 4), kind=kind))).any()
    assert np.isnan(list(site_errors(jnp.fft.fft2, (x * jnp.nan,), BITS).values())).all()


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
def test_calibrated_ranges_do_not_depend_on_the_unit(unit: float) -> None:
    image = unit * jnp.asarray(RNG.uniform(0, 1, size=(2, 16, 16)), jnp.float32)
    engine = Engine(shape=(16, 16)).replace(dac_bits_amp=10, dac_bits_phase=10, dac_range="calibrated")

    def blur(x: jax.Array) -> jax.Array:
        return jnp.fft.ifft2(jnp.fft.fft2(x)).real

    ranges = calibrate_ranges(blur, [(image,)], engine)
    y = through(blur, engine, ranges=ranges)(image)
    assert jnp.linalg.norm(y - image) < 0.02 * jnp.linalg.norm(image)


def test_arrays_of_numpy_are_checked_as_numbers_are() -> None:
    for name, value in (("power_w", -1e-5), ("fill_factor", 5.0)):
        for given in (value, np.array(value)):
            with pytest.raises(ValueError, match=f"{name}={value} must be"):
                BITS.replace(**{name: given})
    for name, values in (("zernike_rad", np.full(12, 0.1)), ("shift_pitch", np.array([0.1, 0.2, 0.3]))):
        with pytest.raises(ValueError, match=f"{name}=.* must be"):
            BITS.replace(**{name: values})
    Engine().replace(shift_pitch=np.array([0.1, 0.2]))
    assert BITS.replace(power_w=np.array(1e-5)) == BITS.replace(power_w=1e-5)


def test_a_budget_names_a_measured_array_that_it_lacks() -> None:
    with pytest.raises(ValueError, match="transfer=an array is not in the error budget"):
        error_budget(RNG.normal(size=(4, 4, 4)), measured(1))


def test_data_are_measured_for_converters_that_bend() -> None:
    x = jnp.asarray(RNG.normal(size=(4, 4, 4)))
    bent = BITS.replace(dac_bits_amp=6, dac_inl_lsb=0.3, dac_dnl_lsb=0.1)
    assert measure_data(x, bent).phase_turns == measure_data(x, BITS.replace(dac_bits_amp=6)).phase_turns


def test_a_seed_is_one_device_for_every_generator() -> None:
    engine = Engine(shape=(4, 4)).replace(static_phase_rms=0.3)
    expected = transfer_matrix(engine)
    with jax.default_prng_impl("rbg"):
        np.testing.assert_array_equal(transfer_matrix(engine), expected)
