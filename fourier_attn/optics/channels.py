"""Channels that share a pass: wavelengths through one lens, and apertures side by side.

Apertures are taken in the order of the array, W wavelengths for each of A places. Wavelength w is
$lambda0 (1 + spacing (w - (W - 1) / 2))$, and the lens transforms it at its own scale, see
`fourier_attn.optics.sampling`. Detectors of a wavelength receive the share kappa of its neighbours' light:

    y'[w] = y[w] + kappa (y[w - 1] - y[w]) + kappa (y[w + 1] - y[w])

with y the power, or the field that interferes with the reference. At the ends one term is missing. Light
between apertures of one wavelength is coherent, so that there the fields add, with kappa their power.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact

from fourier_attn.optics import device
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.phases import phasor
from fourier_attn.optics.random import device_key, stream, uniform
from fourier_attn.optics.sampling import resampling


def group(x: Inexact[Array, "..."], engine: Engine) -> Inexact[Array, "g a w n1 n2"]:
    """Returns apertures in the groups that share a pass, (groups, A, W, N1, N2); the last ones may be dark.

    Args:
      x: apertures, (..., N1, N2).
      engine: the engine, with its channels.
    """
    channels, apertures = engine.channels, x.reshape(-1, *x.shape[-2:])
    groups = -(-len(apertures) // channels.count)
    dark = groups * channels.count - len(apertures)
    apertures = jnp.pad(apertures, ((0, dark), (0, 0), (0, 0)))
    return apertures.reshape(groups, channels.apertures, channels.wavelengths, *x.shape[-2:])


def ungroup(y: Inexact[Array, "g a w n1 n2"], shape: tuple[int, ...]) -> Inexact[Array, "..."]:
    """Returns apertures from their groups, without dark ones, in an array of this shape."""
    return y.reshape(-1, *y.shape[-2:])[: math.prod(shape[:-2])].reshape(shape)


def detuned(engine: Engine, offset: Array) -> Engine:
    """Returns the engine with another wavelength, by a relative offset."""
    already = 0.0 if engine.laser.detuning is None else engine.laser.detuning
    return dataclasses.replace(engine, laser=dataclasses.replace(engine.laser, detuning=already + offset))


def offsets(engine: Engine) -> np.ndarray:
    """Returns the distance of each wavelength from the design, in units of `channel_spacing`."""
    return np.arange(engine.channels.wavelengths) - (engine.channels.wavelengths - 1) / 2


def propagate(
    field: Complex[Array, "m *b n1 n2"], engine: Engine, place: Float[Array, " 2"] | None = None
) -> Complex[Array, "m *b n1 n2"]:
    """Returns the field at the detectors, each wavelength through the lens at its own scale.

    Args:
      field: that leaves the modulators; (m, groups, A, W, ..., N1, N2) where several channels share a pass.
      engine: the engine, with its channels.
      place: image of the source at the detectors, (rows, columns) in pixels; None: on the axis.
    """
    channels = engine.channels
    if channels.channel_spacing is None:
        field = _through(field, engine, place)
    else:
        relative = channels.channel_spacing * jnp.asarray(offsets(engine), field.real.dtype)
        each = jax.vmap(lambda x, offset: _through(x, detuned(engine, offset), place), (3, 0), 3)
        field = each(field, relative)
    return field if channels.aperture_crosstalk_db is None else _couple(field, engine)


def _through(field: Array, engine: Engine, place: Array | None) -> Array:
    """Sends one wavelength through the device, lit by a wave that is tilted as its source's place asks."""
    if place is None:
        return device.propagate(field, engine)
    if engine.laser.detuning is not None:
        place = place / (1 + jnp.asarray(engine.laser.detuning, place.dtype))
    rows, columns = (jnp.asarray((np.arange(n) - n // 2) / n, place.dtype) for n in engine.shape)
    wave = phasor(2 * jnp.pi * (place[0] * rows[:, None] + place[1] * columns[None]))
    return device.propagate(field * wave.reshape((1,) * (field.ndim - 2) + engine.shape), engine)


def _couple(field: Array, engine: Engine) -> Array:
    """Couples each aperture to its neighbours by lossless couplers, pair after pair."""
    kappa = 10.0 ** (jnp.asarray(engine.channels.aperture_crosstalk_db, field.real.dtype) / 10)
    root = stream(device_key(engine.device.seed), "coupling of apertures")
    shape = (*engine.shape, engine.channels.apertures)
    phases = 2 * jnp.pi * uniform(root, shape, jnp.float32).astype(field.real.dtype)
    last = jnp.moveaxis(field, 2, -1)
    straight, across = (jnp.sqrt(share).astype(field.dtype) for share in (1 - kappa, kappa))
    for first in (0, 1):
        coupled = device.couple(last.reshape(-1, *shape), phases, first, straight, across)
        last = coupled.reshape(last.shape)
    return jnp.moveaxis(last, -1, 2)


def mix(y: Inexact[Array, "m g a w *b n1 n2"], engine: Engine) -> Inexact[Array, "m g a w *b n1 n2"]:
    """Returns powers, or fields that interfere with the reference, with the crosstalk of wavelengths.

    Args:
      y: of each wavelength alone.
      engine: the engine, with its channels.
    """
    kappa = 10.0 ** (jnp.asarray(engine.channels.channel_crosstalk_db, y.real.dtype) / 10)
    flow = kappa.astype(y.dtype) * jnp.diff(y, axis=3)
    end = jnp.zeros_like(y[:, :, :, :1])
    return y + jnp.concatenate([flow, end], axis=3) - jnp.concatenate([end, flow], axis=3)


def detuning_error(detuning: float, shape: tuple[int, int], lens: str = "2d") -> float:
    """Returns the relative error power of a transform at another wavelength, for an array of white noise.

        e = 1 + prod_i r[i] - 2 prod_i t[i]
        r[i] = (1 / N[i]) sum_{m, n} R[i, m, n]^2,   t[i] = (1 / N[i]) sum_m R[i, m, m]

    The products are over the axes that the lens transforms. R moves the pixels of an axis by the scale
    $s = lambda0 / lambda$, see `fourier_attn.optics.sampling`. The error grows as the square of N times the
    detuning.

        >>> round(10 * math.log10(detuning_error(0.001, (11, 11))), 1)  # one part in a thousand, dB
        -43.5

    Args:
      detuning: $lambda / lambda0 - 1$.
      shape: (rows, columns) of the aperture.
      lens: "2d" (default), or "1d", which transforms the columns' axis alone.
    """
    power = overlap = 1.0
    for n in shape if lens == "2d" else shape[1:]:
        moved = np.asarray(resampling(n, jnp.asarray(1 / (1 + detuning))), float)
        power *= np.sum(moved**2) / n
        overlap *= np.trace(moved) / n
    return float(1 + power - 2 * overlap)
