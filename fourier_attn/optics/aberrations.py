"""What the optics before the lens do to the field at each pixel: a stop, vignetting, Zernike's aberrations.

Places are counted from the middle of the aperture, in units of half of its longer side.

Source: R. J. Noll, "Zernike polynomials and atmospheric turbulence", J. Opt. Soc. Am. 66, 207 (1976).
"""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Complex

from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.phases import phasor
from fourier_attn.optics.sampling import half_side, places, squared_radius

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

        a = h 10^(-v r^2 / 20) exp(i p),    r^2 = x^2 + y^2,    p = sum_j c_j Z_j(x / R, y / R)
        h = min(1, max(0, q - d + 1 / 2))

    Here h is the share of a pixel inside the stop, as if its edge were straight and along a side of the
    pixel. q is the radius of the stop and d the distance of the pixel, both in pixels. The light's zero order
    has this share of the pixel's amplitude. v is the vignetting in dB at the distance 1. The circle of
    Zernike's polynomials has the radius R and goes through the corners of the aperture. A shift c of the
    detectors adds the phase $-2 pi m c lambda0 / (N lambda)$.

    Args:
      field: the field before the lens.
      engine: the engine.
    """
    device, real = engine.device, field.real.dtype
    if device.stop_radius is not None:
        away = half_side(engine.shape) * jnp.sqrt(squared_radius(engine, real))
        edge = half_side(engine.shape) * jnp.asarray(device.stop_radius, real)
        field = field * jnp.clip(edge - away + 0.5, 0.0, 1.0).astype(field.dtype)[None]
    if device.vignetting_db is not None:
        loss = device.vignetting_db / 20 * squared_radius(engine, real)
        field = field * (10.0**-loss).astype(field.dtype)[None]
    rows, cols = (places(n, real, centred=True) for n in engine.shape)
    if device.zernike_rad is not None:
        corner = max(1.0, math.hypot(*(n // 2 for n in engine.shape)))
        phase = jnp.zeros(engine.shape, real)
        for size, term in zip(device.zernike_rad, ZERNIKE, strict=False):
            phase = phase + size * term(cols[None] / corner, rows[:, None] / corner)
        field = field * phasor(phase)[None]
    if device.output_shift_pitch is not None:
        detuned = 1.0 if engine.laser.detuning is None else 1 + engine.laser.detuning
        down, right = (-2 * math.pi * shift / detuned for shift in device.output_shift_pitch)
        field = field * phasor(right / engine.shape[1] * cols)[None, None]
        if engine.lens == "2d":
            field = field * phasor(down / engine.shape[0] * rows)[None, :, None]
    return field
