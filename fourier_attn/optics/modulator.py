"""Modulators: what field they make of an array, with their levels, their leak and their noise.

A Mach-Zehnder modulator of finite extinction, $delta = 10^(-dB / 20)$, that is driven for the amplitude b and
followed by a phase shifter at p writes

    E = (b + i delta sqrt(1 - b^2)) exp(i p),   |E|^2 = delta^2 + (1 - delta^2) b^2

so that light leaks through where $b = 0$. The leak is known; with `compensated` the drives are those whose E
is the wanted number u itself: $b^2 = (|u|^2 - delta^2) / (1 - delta^2)$, and p without the angle that the
leak adds. Of numbers below delta the phase is right and the amplitude delta; of 0 no phase is, so that zeros
get those of a chirp, whose light is spread over all outputs instead of adding up in one. Without phase
shifter ("signed", "amplitude") the nearest that can be written is at $b = u / (1 - delta^2)$.
"""

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Inexact

from fourier_attn.optics.coupling import leak_heat, settle
from fourier_attn.optics.imperfections import bend
from fourier_attn.optics.parts import Modulator
from fourier_attn.optics.phases import angle, modulus, phasor
from fourier_attn.optics.quantise import quantise, quantise_phase
from fourier_attn.optics.random import Key, normal, sample, stream

DARK = 1e-6  # of full scale: the direction of what is below is rounding, and has no derivative
STEEPEST = 1e3  # slope of sqrt(1 - b^2), which has no end at b = 1


class Keys(NamedTuple):
    """Keys of what a bank of modulators draws: as it rounds, in each pass, and once for its converters."""

    amplitude: Key = None
    phase: Key = None
    noise: Key = None
    device: Key = None


class Written(NamedTuple):
    """Holds what a bank of modulators makes of an array.

    Args:
      scale: of each aperture; the array is about scale times the field.
      field: that is written.
      swing: what a unit of noise of the drive adds to the field, None without such noise.
    """

    scale: Array
    field: Array
    swing: Array | None = None


def write(x: Inexact[Array, "*b n1 n2"], modulator: Modulator, keys: Keys, *, plain: bool = False) -> Written:
    """Returns the field that is written for an array; each aperture has its own scale.

    The derivative is that of the encoding without its levels, clips included.

    Args:
      x: arrays to write, (..., n1, n2), real or complex.
      modulator: the modulators.
      keys: PRNG keys of stochastic rounding.
      plain: whether nothing depends on the scale, so that the array itself is the field.
    """
    if plain:
        return Written(jnp.ones((1,) * x.ndim, x.real.dtype), _heated(as_complex(x), modulator))
    reach = _reach(modulator, x.real.dtype)
    if modulator.dac_range == "auto":
        scale = jax.lax.stop_gradient(jnp.max(jnp.abs(x), axis=(-2, -1), keepdims=True))
        tiny = jnp.finfo(x.dtype).tiny  # less has no reciprocal
        scale = jnp.where(scale >= tiny, scale, 1.0).astype(x.real.dtype)
    else:
        full = modulator.dac_full_scale if modulator.dac_range == "calibrated" else modulator.dac_range
        full = jnp.asarray(full * reach, x.real.dtype)
        scale = jnp.broadcast_to(full, (*x.shape[:-2], 1, 1))
    u = _bound(x * (1 / scale).astype(x.dtype), modulator)  # complex numbers are slow to divide
    field, swing = _modulate(u, modulator, reach, keys)
    return Written(scale / reach, _heated(field, modulator), swing)


def _heated(field: Array, modulator: Modulator) -> Array:
    share = modulator.thermal_crosstalk
    return field if share is None else leak_heat(field, share)


def disturb(
    written: Written,
    modulator: Modulator,
    passes: int,
    key: Key,
    kept: Array | None = None,
    *,
    channels: bool = False,
    jitter: Any = None,
) -> Array:
    """Returns one field for each pass, (passes, ...), with the modulators' memory and noise of that pass.

    Args:
      written: the field without noise.
      modulator: the modulators, with their noise.
      passes: number of passes.
      key: PRNG key of the noise.
      kept: share of the last field that is left after a pass, None for modulators that settle at once.
      channels: whether several share a pass; the field is (groups, A, W, ...) then.
      jitter: noise of the drive by its converters' jitter, over the drive; None: it has none.
    """
    shape = (passes, *written.field.shape)
    field = written.field if jitter is None else _jittered(written.field, modulator.encode, jitter, key)
    field = jnp.broadcast_to(field, shape)
    if kept is not None:
        field = settle(field, kept, channels=channels)
    strengths = (modulator.drive_noise_rms, modulator.amp_noise_rms, modulator.phase_noise_rms)
    kinds = sum(rms is not None for rms in strengths)
    if kinds == 0:
        return field
    noise = jnp.split(sample(normal, key, (kinds * passes, *shape[1:]), field.real.dtype), kinds)
    if modulator.drive_noise_rms is not None and written.swing is not None:
        field = field + written.swing[None] * (modulator.drive_noise_rms * noise[0]).astype(field.dtype)
    if modulator.amp_noise_rms is not None:
        place = kinds - 1 - (modulator.phase_noise_rms is not None)
        field = field * (1 + modulator.amp_noise_rms * noise[place]).astype(field.dtype)
    if modulator.phase_noise_rms is not None:
        field = field * phasor(modulator.phase_noise_rms * noise[-1])
    return field


def _jittered(field: Array, encode: str, jitter: Any, key: Key) -> Array:
    """Returns a written field whose amplitudes and phases, from -pi to pi, are off by shares of them."""
    draws = sample(normal, stream(key, "jitter"), (2, *field.shape), field.real.dtype)
    phases = jax.lax.stop_gradient(angle(field))
    if encode != "phase":
        field = field * (1 + jitter * draws[0]).astype(field.dtype)
    return field * phasor(jitter * phases * draws[1]) if encode in ("complex", "phase") else field


def coarse(modulator: Modulator) -> Modulator:
    """Returns the modulators without noise and chance, so that their output is known.

    A leak that is compensated is a part of it, so that the next slice can make up for it.
    """
    known = modulator.compensated and modulator.encode == "complex"
    quiet = dict.fromkeys(("phase_noise_rms", "amp_noise_rms", "drive_noise_rms"))
    return dataclasses.replace(
        modulator,
        dac_rounding="nearest",
        extinction_db=modulator.extinction_db if known else None,
        thermal_crosstalk=None,
        compensated=known,
        **quiet,
    )


def as_complex(x: Array) -> Array:
    return x if jnp.iscomplexobj(x) else jax.lax.complex(x, jnp.zeros_like(x))


def _reach(modulator: Modulator, dtype: Any) -> Any:
    """Returns the largest amplitude that the drivers' voltage writes."""
    if modulator.drive_table is not None:
        return jnp.abs(jnp.asarray(modulator.drive_table)[-1]).astype(dtype)
    if modulator.drive_v is None or modulator.encode == "phase":
        return 1.0
    return jnp.sin(math.pi / 2 * _share_of_pi(modulator, dtype))


def _share_of_pi(modulator: Modulator, dtype: Any) -> Array:
    """Returns the phase that the drivers' voltage reaches, in units of pi."""
    return jnp.minimum(jnp.asarray(modulator.drive_v, dtype) / jnp.asarray(modulator.v_pi, dtype), 1.0)


def _most(modulator: Modulator, dtype: Any) -> Array | None:
    """Returns the largest phase that the drivers' voltage reaches; None for no limit."""
    return None if modulator.drive_v is None else math.pi * _share_of_pi(modulator, dtype)


def _bound(u: Array, modulator: Modulator) -> Array:
    """Clips numbers to full scale.

    The clip u / |u| of a complex number keeps its phase, so that its derivative is 0 along u and
    1 / |u| across; that of a real one is 0.
    """
    if modulator.encode in ("signed", "amplitude"):
        return quantise(u, None, signed=modulator.encode == "signed")
    if modulator.encode == "phase" or modulator.dac_range == "auto":
        return u
    if not jnp.iscomplexobj(u):
        return quantise(u, None, signed=True)
    size, direction = _polar(u)
    return jnp.where(size <= 1, u, direction)


def _modulate(u: Array, modulator: Modulator, reach: Any, keys: Keys) -> tuple[Array, Array | None]:
    """Returns the field for u, $|u| <= 1$, and its swing."""
    if modulator.drive_table is not None:
        return _by_table(u, modulator, reach, keys)
    delta = None
    if modulator.extinction_db is not None:
        delta = 10.0 ** (-jnp.asarray(modulator.extinction_db, u.real.dtype) / 20)
    swings = modulator.drive_noise_rms is not None and modulator.encode != "phase"
    limited = modulator.drive_v is not None
    levels = modulator.dac_bits_amp is not None or modulator.dac_bits_phase is not None
    if modulator.encode == "complex" and delta is None and not (levels or limited or swings):
        return as_complex(u), None
    still = jax.lax.stop_gradient(u)
    drive, level = _drive(still, modulator, delta, reach, keys)
    rest = jnp.sqrt(jnp.maximum(1 - level**2, 0.0))
    written = as_complex(level) if delta is None else jax.lax.complex(level, delta * rest)
    if modulator.encode in ("signed", "amplitude"):
        swing = as_complex(rest)
    else:
        direction = _direction(still, drive, modulator, delta, keys.phase)
        written, swing = written * direction, as_complex(rest) * direction
    smooth = partial(_smooth, modulator.encode, modulator.compensated)
    field = _follow(smooth, jax.lax.stop_gradient(written), u, delta, reach, _most(modulator, u.real.dtype))
    return field, jax.lax.stop_gradient(swing) if swings else None


def _by_table(u: Array, modulator: Modulator, reach: Any, keys: Keys) -> tuple[Array, Array | None]:
    """Returns the field for u of modulators with a measured transmission, and its swing."""
    table = jnp.asarray(modulator.drive_table, as_complex(u).dtype)
    still = jax.lax.stop_gradient(u)
    drive = _table_drive(reach * (modulus(u) if modulator.encode == "complex" else u.real), table)
    level = _convert(jax.lax.stop_gradient(drive), modulator, False, keys)
    written, direction = _transmission(level, table), None
    if modulator.encode == "complex":
        wanted = jnp.where(modulus(still) > 0, as_complex(still), chirp(still.shape[-2:]).astype(table.dtype))
        direction = _direction(wanted * jnp.conj(written), level, modulator, None, keys.phase)
        written = written * direction
    smooth = partial(_smooth_by_table, modulator.encode)
    field = _follow(smooth, jax.lax.stop_gradient(written), u, table, reach, None)
    if modulator.drive_noise_rms is None:
        return field, None
    half = 0.5 / (len(table) - 1)
    low, high = jnp.maximum(level - half, 0.0), jnp.minimum(level + half, 1.0)
    rise = (_transmission(high, table) - _transmission(low, table)) / (high - low).astype(table.dtype)
    swing = 2 / math.pi * rise  # the full drive is a quarter of a turn
    return field, jax.lax.stop_gradient(swing if direction is None else swing * direction)


def _table_drive(size: Array, table: Array) -> Array:
    """Returns the drive, from 0 to 1, that transmits an amplitude, or the nearest possible."""
    return jnp.interp(size, jnp.abs(table), jnp.linspace(0.0, 1.0, len(table), dtype=size.dtype))


def _transmission(drive: Array, table: Array) -> Array:
    """Returns the complex transmission at a drive."""
    drives = jnp.linspace(0.0, 1.0, len(table), dtype=drive.dtype)
    return jax.lax.complex(jnp.interp(drive, drives, table.real), jnp.interp(drive, drives, table.imag))


def _smooth_by_table(encode: str, u: Array, table: Array, reach: Any, most: None) -> Array:
    """Returns the field for u without levels."""
    if encode == "complex":
        return _smooth(encode, True, u, jnp.abs(table[0]), reach, most)
    return _transmission(_table_drive(reach * u, table), table)


def _drive(
    u: Array, modulator: Modulator, delta: Array | None, reach: Any, keys: Keys
) -> tuple[Array, Array]:
    """Returns the amplitude b that a modulator is driven for, and the level next to it."""
    signed = modulator.encode == "signed"
    if modulator.encode == "phase":
        wanted = jnp.ones_like(u.real)
    else:
        wanted = reach * (u.real if signed or modulator.encode == "amplitude" else modulus(u))
    if not modulator.compensated or delta is None:
        drive = wanted
    elif modulator.encode in ("signed", "amplitude"):
        drive = jnp.clip(wanted / (1 - delta**2), -reach, reach)
    else:
        drive = jnp.sqrt(jnp.maximum(wanted**2 - delta**2, 0.0) / (1 - delta**2))
    return drive, reach * _convert(drive / reach, modulator, signed, keys)


def _convert(drive: Array, modulator: Modulator, signed: bool, keys: Keys) -> Array:
    """Returns the level of a drive over full scale, with the converter's own bend."""
    bits = modulator.dac_bits_amp
    level = quantise(drive, bits, signed=signed, rounding=modulator.dac_rounding, key=keys.amplitude)
    if bits is None or keys.device is None:  # no converter, or one that nobody knows better
        return level
    strengths = modulator.dac_inl_lsb, modulator.dac_dnl_lsb
    shape = (1,) * (drive.ndim - 2) + drive.shape[-2:]
    return level + bend(level, bits, signed, strengths, shape, keys.device)


def _direction(u: Array, drive: Array, modulator: Modulator, delta: Array | None, key: Key) -> Array:
    """Returns the unit phasor that the phase shifter writes."""
    if modulator.compensated and delta is not None:
        u = as_complex(u)
        u = jnp.where(modulus(u) > 0, u, chirp(u.shape[-2:]).astype(u.dtype))
        u = u * jax.lax.complex(drive, -delta * jnp.sqrt(jnp.maximum(1 - drive**2, 0.0)))
    if modulator.dac_bits_phase is None and modulator.drive_v is None and jnp.iscomplexobj(u):
        size = modulus(u)
        return jnp.where(size == 0, 1.0, u * (1 / jnp.where(size == 0, 1.0, size)).astype(u.dtype))
    phase = quantise_phase(angle(u), modulator.dac_bits_phase, modulator.dac_rounding, key)
    phase = jnp.where(jnp.isnan(u), jnp.nan, phase)
    most = _most(modulator, phase.dtype)
    return phasor(phase if most is None else jnp.clip(phase, -most, most))


def chirp(shape: tuple[int, ...]) -> np.ndarray:
    """Returns phasors $exp((pi i / N) n (n + N mod 2))$ along both axes. Their transform has one modulus."""
    rows, cols = (np.exp(1j * np.pi * np.arange(n) * (np.arange(n) + n % 2) / n) for n in shape)
    return rows[:, None] * cols[None]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _follow(
    smooth: Any, written: Array, u: Array, delta: Array | None, reach: Any, most: Array | None
) -> Array:
    """Returns what is written, with the derivative of `smooth`."""
    return written


@_follow.defjvp
def _follow_jvp(smooth, primals, tangents):
    return _follow(smooth, *primals), jax.jvp(smooth, primals[1:], tangents[1:])[1]


def _smooth(
    encode: str, compensated: bool, u: Array, delta: Array | None, reach: Any, most: Array | None
) -> Array:
    """Returns the field for u without levels."""
    if encode == "phase":
        return _within(_polar(u)[1], most)
    if delta is None and encode == "complex" and most is not None:
        size, direction = _polar(u)
        return as_complex(reach * size) * _within(direction, most)
    if delta is None:
        return as_complex(jnp.asarray(reach, u.dtype) * u)
    if encode in ("signed", "amplitude"):
        drive = reach * u
        drive = jnp.clip(drive / (1 - delta**2), -reach, reach) if compensated else drive
        return jax.lax.complex(drive, delta * _rest(drive))
    size, direction = _polar(u)
    wanted = reach * size
    if not compensated:
        return jax.lax.complex(wanted, delta * _rest(wanted)) * _within(direction, most)
    field = jnp.where(wanted >= delta, as_complex(wanted), as_complex(delta)) * direction
    if most is None:
        return field
    return _within_compensated(field, wanted, delta, most)


def _within(direction: Array, most: Array | None) -> Array:
    """Limits directions to an angle; those above it have derivative 0."""
    if most is None:
        return direction
    phase = angle(direction)
    return jnp.where(jnp.abs(phase) > most, phasor(jnp.clip(phase, -most, most)), direction)


def _within_compensated(field: Array, wanted: Array, delta: Array, most: Array) -> Array:
    """Returns a field if the phase shifter reaches it, else that of the drive with the largest phase."""
    light = wanted > delta
    drive = jnp.where(light, jnp.sqrt(jnp.where(light, wanted**2 - delta**2, 1.0) / (1 - delta**2)), 0.0)
    leaking = jax.lax.complex(drive, delta * _rest(drive))
    phase = angle(field * jnp.conj(leaking))
    return jnp.where(jnp.abs(phase) > most, leaking * phasor(jnp.clip(phase, -most, most)), field)


@jax.custom_jvp
def _polar(u: Array) -> tuple[Array, Array]:
    """Returns size and direction of each number."""
    size = modulus(u)
    direction = u * (1 / jnp.where(size == 0, 1.0, size)).astype(u.dtype)
    return size, as_complex(jnp.where(size == 0, 1.0, direction))


@_polar.defjvp
def _polar_jvp(primals, tangents):
    size, direction = _polar(*primals)
    along = as_complex(tangents[0]) * jnp.conj(direction)
    turned = jnp.where(size > DARK, along.imag / jnp.maximum(size, DARK), 0.0)
    turned = direction * jax.lax.complex(jnp.zeros_like(turned), turned)
    return (size, direction), (jnp.where(size > 0, along.real, 0.0), turned)


@jax.custom_jvp
def _rest(b: Array) -> Array:
    return jnp.sqrt(jnp.maximum(1 - b**2, 0.0))


@_rest.defjvp
def _rest_jvp(primals, tangents):
    b, rest = primals[0], _rest(*primals)
    slope = jnp.where(rest > 1 / STEEPEST, -b / jnp.maximum(rest, 1 / STEEPEST), 0.0)
    return rest, slope * tangents[0]
