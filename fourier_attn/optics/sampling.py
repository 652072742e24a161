"""Detectors that are not where the design has them, another wavelength, and a lens with a finite pupil.

A detector at the frequency $s k / N$ reads what one at $k / N$ would read of pixels that are moved from m to
s m. Pixels and detectors are modes of light here, N an axis. Those of pixels are $sinc(x - m)$, and those of
detectors, seen through the lens, $sqrt(s) sinc(s x - n)$. So the light goes through the lens after

    R[m, n] = sqrt(s) sinc(n - s m) for s <= 1,    R[m, n] = sinc(n / s - m) / sqrt(s) for s > 1

which is the overlap of the two. It never amplifies, and what has no overlap is lost. For light in the middle
of the aperture and detectors with $|s k| < N / 2$, the result is the plain sum:

    y[k] = sqrt(s / N) sum_m x[m] exp(-2 pi i s k m / N)

Detectors further out see another diffraction order and read nearly nothing. For light at the edge of the
aperture the result is another one: that sum can amplify, since it counts light twice where two detectors see
the same frequency.

A wavelength that is not the design's has the same effect, with $s = lambda0 / lambda$.

A rotation moves pixels by three shears. Each of them shifts the pixels of a row by a fraction a of a pixel,
$sinc(n - m - a)$, which never amplifies either.

Source: A. Paeth, "A fast algorithm for general raster rotation", Graphics Interface 1986, for the shears; M.
Unser, P. Thevenaz and L. Yaroslavsky, "Convolution-based interpolation for fast, high-quality rotation of
images", IEEE Trans. Image Process. 4, 1371 (1995), for shifts by interpolation.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from fourier_attn.optics.engine_spec import Engine


def places(n: int, dtype: Any, *, centred: bool) -> Float[Array, " n"]:
    """Returns signed positions (or frequencies) of the n pixels of an axis, in the array's order.

    Args:
      n: pixels of the axis.
      dtype: of the result.
      centred: whether zero is in the middle of the array.
    """
    order = (jnp.arange(n, dtype=dtype) + n // 2) % n - n // 2
    return jnp.fft.fftshift(order) if centred else order


def half_side(shape: tuple[int, ...]) -> int:
    """Returns half of the longer side of an aperture in pixels, rounded down, the unit of distances."""
    return max(1, max(shape) // 2)


def squared_radius(engine: Engine, dtype: Any) -> Float[Array, "n1 n2"]:
    """Returns the squared distance of each pixel from the middle, in units of half of the longer side.

    Pixels are squares, and lenses are round. So it is a circle on an aperture that is not a square, too.

    Args:
      engine: the engine, with its aperture.
      dtype: float type of the result.
    """
    rows, cols = (places(n, dtype, centred=True) / half_side(engine.shape) for n in engine.shape)
    return rows[:, None] ** 2 + cols[None] ** 2


def scale(engine: Engine, dtype: Any) -> Float[Array, ""]:
    """Returns s, the frequencies of the detectors over those of the design.

        s = (1 + e) lambda0 / lambda

    Args:
      engine: the engine, with its pitch error e and its detuning.
      dtype: float type of the result.
    """
    result = jnp.ones((), dtype)
    if engine.device.pitch_error is not None:
        result = 1 + jnp.asarray(engine.device.pitch_error, dtype)
    if engine.laser.detuning is not None:  # the transform grows, so that detectors see lower frequencies
        result = result / (1 + jnp.asarray(engine.laser.detuning, dtype))
    return result


def frequencies(engine: Engine, dtype: Any) -> tuple[Array, Array]:
    """Returns where the detectors are, in cycles per pixel along rows' and columns' axis.

        f = ((1 + e) Rot(theta) k / N + d / N) lambda0 / lambda

    Here e is the pitch error, theta the rotation, d the shift of the detectors, and k counts them. The last
    factor is that of a wavelength that is not the design's.

    Args:
      engine: the engine.
      dtype: float type of the result.
    Returns: two arrays that broadcast to the aperture.
    """
    device = engine.device
    rows, cols = (places(n, dtype, centred=engine.centered) / n for n in engine.shape)
    first, second = rows[:, None], cols[None]
    if device.rotation_rad is not None:
        cosine, sine = jnp.cos(device.rotation_rad), jnp.sin(device.rotation_rad)
        first, second = cosine * first - sine * second, sine * first + cosine * second
    if device.pitch_error is not None:
        first, second = (1 + device.pitch_error) * first, (1 + device.pitch_error) * second
    if device.output_shift_pitch is not None:
        down, right = device.output_shift_pitch
        first, second = first + down / engine.shape[0], second + right / engine.shape[1]
    if engine.laser.detuning is not None:
        first, second = first / (1 + engine.laser.detuning), second / (1 + engine.laser.detuning)
    return first, second


def move(field: Complex[Array, "b n1 n2"], engine: Engine) -> Complex[Array, "b n1 n2"]:
    """Returns the field before a lens whose detectors are right, for one whose detectors are not.

    Args:
      field: the field before the lens.
      engine: the engine, with its pitch error, rotation and detuning.
    """
    device = engine.device
    if device.rotation_rad is not None:
        angle = jnp.asarray(device.rotation_rad, field.real.dtype)
        field = _shear(field, jnp.tan(angle / 2)).swapaxes(-2, -1)
        field = _shear(field, -jnp.sin(angle)).swapaxes(-2, -1)
        field = _shear(field, jnp.tan(angle / 2))
    if device.pitch_error is None and engine.laser.detuning is None:
        return field
    ratio = scale(engine, field.real.dtype)
    for axis in (-2, -1) if engine.lens == "2d" else (-1,):
        field = _along(field, resampling(field.shape[axis], ratio), axis)
    return field


def resampling(n: int, ratio: Float[Array, ""]) -> Float[Array, "n n"]:
    """Returns R, a row for each pixel; its largest singular value is at most 1, and R of scale 1 is 1.

    Args:
      n: pixels of the axis.
      ratio: s, frequencies of the detectors over those of the design.
    """
    place = places(n, ratio.dtype, centred=True)
    before, after = place[:, None], place[None]
    band = jnp.minimum(ratio, 1.0)  # the share that pixels and detectors both have
    return band / jnp.sqrt(ratio) * jnp.sinc(band * (after / ratio - before))


def through_pupil(field: Complex[Array, "b n1 n2"], engine: Engine) -> Complex[Array, "b n1 n2"]:
    """Computes the transform of a lens with a Gaussian pupil, with diffraction at it.

        y[k] = (1 / sqrt(N)) sum_m x[m] W(m + k L / N) exp(-2 pi i m k / N)
        W(q) = sqrt(c) exp(-c q^2 / r^2),   c = 1 / (1 + i e),   e = L / (pi r^2)

    Modulators are in the front focal plane and detectors in the back one. So light of the pixel m on its way
    to the detector k passes the lens at the sum of their places, and the pupil neither cuts the transform nor
    blurs it alone. Its transmission is $exp(-(q / r)^2)$. On the longer side, of L pixels, the detectors'
    pitch is that of the pixels, which is so for a focal length f with $lambda f = L p^2$. Fresnel's integral
    over the pupil then gives W.

    The transform of W has the integral 1 of its size, so W is a mean of phase factors and never amplifies.
    Pixels and detectors that are misplaced send their light through the lens at their true places. At another
    wavelength e is $lambda / lambda0$ times as large.

    Args:
      field: the field before the lens, moved by `move`.
      engine: the engine, with the radius of its pupil.
    """
    real, device = field.real.dtype, engine.device
    axes = (-2, -1) if engine.lens == "2d" else (-1,)
    sides = tuple(field.shape[axis] for axis in axes)
    longer, radius = max(sides), jnp.asarray(device.pupil_radius, real) * half_side(sides)
    detuned = 1.0 if engine.laser.detuning is None else 1 + jnp.asarray(engine.laser.detuning, real)
    turned = 1 / jax.lax.complex(jnp.ones((), real), longer / (math.pi * radius**2) * detuned)
    pitch, away = scale(engine, real) * detuned, _away(engine, longer)
    for axis in axes:
        n = field.shape[axis]
        pixels = places(n, real, centred=True) / scale(engine, real)
        detectors = places(n, real, centred=engine.centered) * (longer / n) * pitch
        at = pixels[:, None] + detectors[None] + away[axis]
        window = jnp.sqrt(turned) * jnp.exp(-turned * ((at / radius) ** 2).astype(turned.dtype))
        ideal = _exact(n, field.dtype, centered=engine.centered)
        field = _along(field, ideal * window, axis)
    return field


def _away(engine: Engine, longer: int) -> tuple[Any, Any]:
    """Returns by how many pixels offsets move light at the lens, in the modulators' directions.

    Args:
      engine: the engine, with the offsets of modulators and of detectors.
      longer: pixels of the longer side, on which both have one pitch.
    """
    device, (rows, cols) = engine.device, engine.shape
    down, right = device.shift_pitch or (0.0, 0.0)
    below, beside = device.output_shift_pitch or (0.0, 0.0)
    down, right = down + below * longer / rows, right + beside * longer / cols
    if device.rotation_rad is None:
        return down, right
    cosine, sine = jnp.cos(device.rotation_rad), jnp.sin(device.rotation_rad)
    return cosine * down + sine * right, cosine * right - sine * down


def _exact(n: int, dtype: Any, *, centered: bool) -> Complex[Array, "n n"]:
    """Returns the matrix of the orthonormal transform, a row for each input, from exact turns."""
    index = np.arange(n) - (n // 2 if centered else 0)
    return jnp.asarray(np.exp(-2j * np.pi * (np.outer(index, index) % n) / n) / n**0.5, dtype)


def _shear(field: Array, slope: Array) -> Array:
    """Shifts the pixels of each column by the slope times its place."""
    rows, cols = (places(n, slope.dtype, centred=True) for n in field.shape[-2:])
    away = rows[None, None] - rows[None, :, None] - slope * cols[:, None, None]
    shifts = jnp.sinc(away).astype(field.dtype)  # (columns, pixels before, pixels after)
    return jnp.einsum("bmc,cmn->bnc", field, shifts, precision="highest")


def _along(field: Array, matrix: Array, axis: int) -> Array:
    """Multiplies an axis by a matrix with a row for each input."""
    moved = jnp.moveaxis(field, axis, -1)
    moved = jnp.matmul(moved, matrix.astype(field.dtype), precision="highest")
    return jnp.moveaxis(moved, -1, axis)
