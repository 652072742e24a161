"""What the optics before the lens do to the field at each pixel: vignetting, and Zernike's aberrations.

Places are counted from the middle of the aperture, in units of half its width on each axis.

Source: R. J. Noll, "Zernike polynomials and atmospheric turbulence", J. Opt. Soc. Am. 66, 207 (1976).
"""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Complex

from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.phases import phasor
from fourier_attn.optics.sampling import places

# Zernike's polynomials in Noll's order from the second one, x along columns and y along rows.
ZERNIKE: tuple[Callable[[Array, Array], Array], ...] = (
    lambda x, y: 2 * x,
    lambda x, y: 2 * y,
    lambda x, y: math.sqrt(3) * (2 * (x**2 + y**2) - 1),
    lambda x, y: 2 * math.sqrt(6) * x * y,
    lambda x, y: math.sqrt(6) * (x**2 - y**2),
    lambda x, y: math.sqrt(8) * (3 * (x**2 + y**2) - 2) * y,
    lambda x, y: math.sqrt(8) * (3 * (x**2 + y**2) - 2) * x,
    lambda x, y: math.sqrt(8) * (3 * x**2 * y - y**3),
    lambda x, y: math.sqrt(8) * (x**3 - 3 * x * y**2),
    lambda x, y: math.sqrt(5) * (6 * (x**2 + y**2) ** 2 - 6 * (x**2 + y**2) + 1),
)


def before_lens(field: Complex[Array, "b n1 n2"], engine: Engine) -> Complex[Array, "b n1 n2"]:
    """Returns the field times the factor of each pixel before the lens.

        a = 10^(-v r^2 / 20) exp(i p),    r^2 = x^2 + y^2,    p = sum_j c_j Z_j(x / sqrt(2), y / sqrt(2))

    Here v is the vignetting in dB at the middle of an edge. The circle of Zernike's polynomials goes through
    the corners of the aperture. A shift d of the detectors adds the phase $-2 pi m d / N$.

    Args:
      field: the field before the lens.
      engine: the engine.
    """
    device, real = engine.device, field.real.dtype
    rows, cols = (places(n, real, centred=True) for n in engine.shape)
    y, x = (rows / max(1, engine.shape[0] // 2))[:, None], (cols / max(1, engine.shape[1] // 2))[None]
    if device.vignetting_db is not None:
        field = field * (10.0 ** (-device.vignetting_db / 20 * (x**2 + y**2))).astype(field.dtype)[None]
    if device.zernike_rad is not None:
        phase = jnp.zeros(engine.shape, real)
        for size, term in zip(device.zernike_rad, ZERNIKE, strict=False):
            phase = phase + size * term(x / math.sqrt(2), y / math.sqrt(2))
        field = field * phasor(phase)[None]
    if device.output_shift_pitch is not None:
        down, right = device.output_shift_pitch
        field = field * phasor(-2 * math.pi / engine.shape[1] * right * cols)[None, None]
        if engine.lens == "2d":
            field = field * phasor(-2 * math.pi / engine.shape[0] * down * rows)[None, :, None]
    return field
