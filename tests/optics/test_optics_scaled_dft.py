"""The transform of a lens at another scale, against its sum in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from optical import waves

from fourier_attn.optics.scaled_dft import scaled_dft


def oracle(x: np.ndarray, scale: float, centered: bool) -> np.ndarray:
    """Light of pixel m meets that at the frequency s q / N with the phase of the place p, axis in the middle.

    Arrays that begin at the axis read the frequencies in the order of an FFT, and the known phase of the
    offset is taken off.
    """
    n = x.shape[-1]
    y = np.zeros(x.shape, complex)
    for k in range(n):
        q = k - n // 2 if centered else (k if k < n - n // 2 else k - n)
        for m in range(n):
            turns = scale * (m - n // 2) * q / n
            y[..., k] += x[..., m] * np.exp(-2j * np.pi * (turns + (0 if centered else n // 2 * q / n)))
    return y * np.sqrt(scale / n)


@pytest.mark.parametrize("centered", [False, True])
def test_it_is_the_sum_at_scaled_frequencies(centered: bool) -> None:
    for n in (1, 4, 7):
        x = waves(2, 3, n)
        for scale in (1.0, 0.9, 1.3):
            found = scaled_dft(x, scale, centered=centered)
            expected = oracle(np.asarray(x, complex), scale, centered)
            np.testing.assert_allclose(found, expected, atol=3e-6)  # float32
        swapped = scaled_dft(x.swapaxes(0, 2), 1.3, axis=0, centered=centered)
        np.testing.assert_allclose(swapped, found.swapaxes(0, 2), atol=3e-6)


def test_a_plane_wave_lands_where_the_wavelength_sends_it() -> None:
    """A wave of frequency nu has its peak at k = nu / s, so at a scale of 1/2 at twice k."""
    n = 32
    wave = jnp.asarray(np.exp(2j * np.pi * 3 * (np.arange(n) - n // 2) / n)[None], jnp.complex64)
    assert int(jnp.argmax(jnp.abs(scaled_dft(wave, 0.5)))) == 6
    assert int(jnp.argmax(jnp.abs(scaled_dft(wave, 1.5)))) == 2


def test_the_scale_has_a_derivative() -> None:
    x = waves(2, 5)

    def power(scale: jax.Array) -> jax.Array:
        return jnp.abs(scaled_dft(x, scale)) ** 2

    check_grads(power, (1.1,), order=1, modes=["fwd", "rev"], rtol=2e-2, atol=2e-2)
