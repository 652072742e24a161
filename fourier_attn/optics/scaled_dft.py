"""The transform of a lens whose scale is not that of the design: another wavelength, focal length or pitch.

A lens of focal length f sends the frequency nu to the place $lambda f nu$. The pixels are at the right places
for one wavelength only.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex

from fourier_attn.optics.phases import phasor


def scaled_dft(
    x: Complex[Array, "*b n"], scale: Any, *, axis: int = -1, centered: bool = False
) -> Complex[Array, "*b n"]:
    """Computes the transform of one axis at multiples of a scaled frequency.

        y[k] = sqrt(s / N) sum_m x[m] exp(-2 pi sqrt(-1) (s - 1) p[m] q[k] / N) exp(-2 pi sqrt(-1) m k / N)

    Here $p[m] = m - floor(N / 2)$ is the place of pixel m, counted from the optical axis. The frequency q of
    a detector has a sign, from $-N / 2$ to $N / 2$. So s = 1 is the orthonormal transform. The factor
    $sqrt(s)$ keeps the power, which spreads over more or fewer pixels.

        >>> scaled_dft(jnp.ones((1, 4), jnp.complex64), 1.0).real
        Array([[2., 0., 0., 0.]], dtype=float32)

    Args:
      x: the field, with N points along `axis`.
      scale: s, a number that may be traced: frequencies are s k / N. It is lambda0 / lambda for a wavelength
        lambda, and p / p0 for pixels of pitch p.
      axis: that is transformed; default the last one.
      centered: whether the output's optical axis is in the middle of the array, and k is counted from there
        as m is; default False.
    """
    x = jnp.moveaxis(x, axis, -1)
    y = jnp.matmul(x, kernel(x.shape[-1], scale, x.dtype, centered=centered), precision="highest")
    return jnp.moveaxis(y, -1, axis)


def kernel(n: int, scale: Any, dtype: Any, *, centered: bool) -> Complex[Array, "n n"]:
    """Returns the matrix of `scaled_dft`, a row for each input: exact turns, times what the scale adds.

    Args:
      n: points of the axis.
      scale: s, may be traced.
      dtype: of the matrix, complex.
      centered: as in `scaled_dft`.
    """
    place = np.arange(n) - n // 2
    frequency = place if centered else (np.arange(n) + n // 2) % n - n // 2
    turns = np.outer(place if centered else np.arange(n), frequency) % n
    design = jnp.asarray(np.exp(-2j * np.pi * turns / n) / n**0.5, dtype)
    real = design.real.dtype
    scale = jnp.asarray(scale, real)
    added = phasor(-2 * np.pi / n * (scale - 1) * jnp.asarray(np.outer(place, frequency), real))
    return design * added * jnp.sqrt(scale).astype(dtype)
