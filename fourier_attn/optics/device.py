"""The static, linear part of an engine: modulators' fixed pattern, coupling of neighbours, lens, alignment.

    y = sqrt(eta) G_out X F2 R A X G_in E

G is diagonal (gain, phase, defocus before the lens; gain, phase, lateral shift and fill factor after it), X
couples neighbouring waveguides, A is diagonal (vignetting, aberrations), R moves pixels in place of misplaced
detectors, and F2 is the orthonormal transform. All of it is linear and fixed, so that on small apertures it
is one matrix, made once for a whole batch. A measured device is given as that matrix.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex

from fourier_attn.ops.transforms import fftn
from fourier_attn.optics import aberrations, sampling
from fourier_attn.optics.drift import drift, drifts
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.parts.device import STATIC
from fourier_attn.optics.phases import phasor
from fourier_attn.optics.random import compute_normal, device_key, stream, uniform

MATRIX_PIXELS = 256  # up to here all static stages are one product with a matrix


def propagate(field: Complex[Array, "*b n1 n2"], engine: Engine) -> Complex[Array, "*b n1 n2"]:
    """Returns the field at the detectors for the field that leaves the modulators."""
    pixels = engine.shape[0] * engine.shape[1]
    batch = field.size // pixels
    if is_exact(engine):
        return lens(field, engine)
    if engine.device.transfer is not None:
        rows = field.reshape(batch, pixels)
        return jnp.matmul(rows, matrix(engine, field.dtype), precision="highest").reshape(field.shape)
    if pixels <= MATRIX_PIXELS and batch >= pixels:
        rows = field.reshape(batch, pixels)
        return _product(rows, matrix(engine, field.dtype)).reshape(field.shape)
    return stages(field.reshape(batch, *engine.shape), engine).reshape(field.shape)


def matrix(engine: Engine, dtype: Any = jnp.complex64) -> Complex[Array, "p p"]:
    """Returns the matrix T of all static stages: rows are inputs, $y = E T$ for E as a row of pixels."""
    pixels = engine.shape[0] * engine.shape[1]
    if engine.device.transfer is not None:
        eta = jnp.asarray(engine.device.transmission)
        return jnp.asarray(engine.device.transfer, dtype) * jnp.sqrt(eta).astype(dtype)
    unit = jnp.eye(pixels, dtype=dtype).reshape(pixels, *engine.shape)
    return stages(unit, engine).reshape(pixels, pixels)


def _product(rows: Complex[Array, "b p"], transfer: Complex[Array, "p p"]) -> Complex[Array, "b p"]:
    """Computes rows @ transfer by four real products; XLA's complex one takes a quarter longer on a CPU."""
    real = partial(jnp.matmul, precision="highest")
    re, im, a, b = rows.real, rows.imag, transfer.real, transfer.imag
    return jax.lax.complex(real(re, a) - real(im, b), real(re, b) + real(im, a))


def is_exact(engine: Engine) -> bool:
    """Says whether nothing but the lens is in the way."""
    effects = (*STATIC, "phase_drift_rms", "gain_drift_rms", "insertion_loss_db", "transfer")
    return engine.laser.detuning is None and all(getattr(engine.device, name) is None for name in effects)


def lens(field: Array, engine: Engine) -> Array:
    """Computes the orthonormal transform, $exp(-2 pi i ..)$, of the aperture, or of rows for lens "1d"."""
    if engine.device.pupil_radius is not None:
        return sampling.through_pupil(field, engine)
    axes = (-2, -1) if engine.lens == "2d" else (-1,)
    if engine.centered:
        field = jnp.fft.ifftshift(field, axes)
    field = fftn(field, len(axes))
    return jnp.fft.fftshift(field, axes) if engine.centered else field


def stages(field: Complex[Array, "b n1 n2"], engine: Engine) -> Complex[Array, "b n1 n2"]:
    """Applies the static stages one after the other.

    All that is drawn is a single-precision number, in one form on all platforms: a seed is one device.
    """
    root, real = device_key(engine.device.seed), field.real.dtype
    fixed, coupling = stream(root, "static pattern"), stream(root, "coupling")
    before, after = compute_normal("plain", fixed, (2, 2, *engine.shape), jnp.float32).astype(real)
    moved = jnp.zeros((2, 2, 1, 1), real)
    if drifts(engine.device):
        moved = drift(engine.device, (2, 2, *engine.shape), real)
    first, second = 2 * jnp.pi * uniform(coupling, (2, 4, *engine.shape), jnp.float32).astype(real)
    field = field * _pattern(engine, before, moved[0], field.dtype)[None]
    if engine.device.defocus_rad is not None:
        field = field * phasor(engine.device.defocus_rad * sampling.squared_radius(engine, real))[None]
    field = aberrations.before_lens(_crosstalk(field, engine, first), engine)
    field = lens(sampling.move(field, engine), engine)
    field = _crosstalk(field, engine, second)
    field = field * (_pattern(engine, after, moved[1], field.dtype) * _alignment(engine, field.dtype))[None]
    if engine.device.insertion_loss_db is not None:
        field = field * jnp.sqrt(jnp.asarray(engine.device.transmission)).astype(field.dtype)
    return field


def _pattern(engine: Engine, draws: Array, moved: Array, dtype: Any) -> Array:
    """Returns $(1 + g) exp(i psi)$ of each pixel; half of the variance is before the lens, half after it."""
    device = engine.device
    gains, phases = draws / 2**0.5
    gains_moved, phases_moved = moved / 2**0.5
    pattern = jnp.ones(engine.shape, dtype)
    if device.static_gain_rms is not None:
        pattern = pattern * (1 + device.static_gain_rms * gains).astype(dtype)
    if device.gain_drift_rms is not None:
        pattern = pattern * (1 + device.gain_drift_rms * gains_moved).astype(dtype)
    if device.static_phase_rms is not None:
        pattern = pattern * phasor(device.static_phase_rms * phases)
    if device.phase_drift_rms is not None:
        pattern = pattern * phasor(device.phase_drift_rms * phases_moved)
    return pattern


def _alignment(engine: Engine, dtype: Any) -> Array:
    """Returns the phases of the modulators' place at the output, and the sinc shape of the zero order.

        a = exp(-2 pi i f d) exp(-pi i w z f^2 / p^2) sinc(F f)

    Here f is the frequency of a detector, w the wavelength, p the pitch, d the lateral shift of the
    modulators and z their distance from the focal plane. How much light the zero order has is not static: it
    is a matter of noise, see `Engine.zero_order`.
    """
    result, device = jnp.ones(engine.shape, dtype), engine.device
    pitch, wavelength = device.pixel_pitch_m, engine.laser.wavelength_m
    for axis, frequency in enumerate(sampling.frequencies(engine, jnp.finfo(dtype).dtype)):
        if axis == 0 and engine.lens == "1d":  # a cylindrical lens leaves the rows where they are
            continue
        if device.shift_pitch is not None:
            result = result * phasor(-2 * jnp.pi * frequency * device.shift_pitch[axis])
        if device.defocus_m is not None and pitch is not None and wavelength is not None:
            turns = device.defocus_m / pitch * (wavelength / pitch)
            result = result * phasor(-jnp.pi * turns * frequency**2)
        if device.fill_factor is not None:
            result = result * jnp.sinc(frequency * device.fill_factor).astype(dtype)
    return result


def _crosstalk(field: Array, engine: Engine, phases: Array) -> Array:
    """Couples each pixel to its neighbours by lossless couplers, pair after pair: unitary by construction.

    Power $kappa = 10^(dB / 10)$ goes over each edge of the grid, with a static random phase. Edges of one
    direction are two layers of disjoint pairs; (a, b) becomes $(c a + i s e^{i t} b, i s e^{-i t} a + c b)$.
    """
    if engine.device.crosstalk_db is None:
        return field
    kappa = 10.0 ** (jnp.asarray(engine.device.crosstalk_db, field.real.dtype) / 10)
    through = jnp.sqrt(1 - kappa).astype(field.dtype)
    across = jnp.sqrt(kappa).astype(field.dtype)
    for layer in range(4):
        swap = partial(jnp.swapaxes, axis1=-1, axis2=-2 + layer // 2)
        field = swap(couple(swap(field), swap(phases[layer]), layer % 2, through, across))
    return field


def couple(field: Array, phases: Array, first: int, through: Array, across: Array) -> Array:
    """Applies one layer of couplers along the last axis, starting at the pixel `first`.

    Args:
      field: (b, ..., n).
      phases: of the couplers, (..., n); that of a pair is at its first pixel.
      first: 0 or 1.
      through, across: amplitudes that stay and that cross.
    """
    last = first + (field.shape[-1] - first) // 2 * 2
    before, body, after = jnp.split(field, [first, last], axis=-1)
    a, b = body[..., 0::2], body[..., 1::2]
    mix = (1j * across * phasor(phases[..., first:last:2]))[None]
    paired = jnp.stack([through * a + mix * b, through * b - jnp.conj(mix) * a], axis=-1)
    return jnp.concatenate([before, paired.reshape(body.shape), after], axis=-1)
