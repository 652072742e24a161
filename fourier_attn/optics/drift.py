"""A device that ages: its phases and gains drift after calibration, and calibrating it again takes passes.

Each pixel's errors follow a stationary Gaussian process z (Ornstein-Uhlenbeck) of variance 1, and calibration
takes off what there is at its time t0:

    mean(z(s) z(t)) = exp(-|t - s| / tau),    drift(t) = rms (z(t) - z(t0)),    t0 = t - t mod interval

so that its variance is $2 rms^2 (1 - exp(-(t - t0) / tau))$. Pixels drift independently, or correlate over a
length, by `neighbours`. A device's seed has one path, of which every age
sees its point, in whatever order ages are asked for: values at whole multiples of tau are a moving average of
normal numbers that are counted in time, and between them those in the middle of two known ones are drawn, as
the two determine them (a bridge), again and again.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fourier_attn.optics.checks import is_number
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.parts import Device
from fourier_attn.optics.random import Key, device_key, stream

MEMORY = 18  # correlation times, after which a float32 has forgotten
HALVINGS = 22  # of a correlation time; a float32 has few more
LONGEST = 2**20  # correlation times, after which the path begins anew


class Moments(NamedTuple):
    """Holds a device's age and its last calibration, (2,) each, in correlation times.

    Args:
      whole: so many of them, counted from where the path begins.
      place: the rest, from 0 to 1.
    """

    whole: Any
    place: Any


def drifts(device: Device) -> bool:
    """Says whether anything changes with age."""
    return device.phase_drift_rms is not None or device.gain_drift_rms is not None


def drift(device: Device, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Returns z(t) - z(t0) of independent paths at the device's age t, with its last calibration at t0.

    Ages that are numbers are exact, see `timed`. A traced one is of single precision, which from $2^24$ times
    the interval of calibrations on no longer resolves the time since the last.

    Args:
      device: the device, with age, interval of calibrations and seed.
      shape: of the paths.
      dtype: of the result.
    """
    key = stream(device_key(device.seed), "drift")
    age: Any = timed(device).age_s
    if isinstance(age, Moments):
        whole, place = jnp.asarray(age.whole, jnp.int32), jnp.asarray(age.place, dtype)
    else:
        age = jnp.asarray(age, dtype)
        since = jnp.zeros_like(age)
        if device.recalibrate_s is not None:
            since = age - jax.lax.rem(age, jnp.asarray(device.recalibrate_s, dtype))
        whole, place = _parts(jnp.stack([age, since]) / jnp.asarray(device.drift_time_s, dtype))
    now, then = jax.lax.map(lambda time: _point(key, time[0], time[1], shape), (whole, place))
    if device.drift_length_pitch is None:
        return now - then
    length = jnp.asarray(device.drift_length_pitch, dtype)
    rows, cols = (neighbours(n, length) for n in shape[-2:])
    return jnp.matmul(jnp.matmul(rows, now - then, precision="highest"), cols.T, precision="highest")


def neighbours(n: int, length: Float[Array, ""]) -> Float[Array, "n n"]:
    """Returns the matrix L that correlates n independent numbers of variance 1.

        L L^T = exp(-|i - j| / l),    L[i, j] = exp(-(i - j) / l) sqrt(1 - exp(-2 / l)) for i >= j > 0

    The first column is $exp(-i / l)$, without the root.

    Args:
      n: how many.
      length: l, the correlation length.
    """
    place = jnp.arange(n, dtype=length.dtype)
    distance = place[:, None] - place[None]
    weights = jnp.where(distance < 0, 0.0, jnp.exp(-jnp.maximum(distance, 0.0) / length))
    return weights * jnp.where(place == 0, 1.0, jnp.sqrt(-jnp.expm1(-2 / length)))[None]


def timed(device: Device) -> Device:
    """Returns the device with `Moments` as its age, in double precision if all its times are numbers.

    So that a compiled program gets what it would else round to single precision.
    """
    age, interval, tau = device.age_s, device.recalibrate_s, device.drift_time_s
    times = (age, tau) if interval is None else (age, tau, interval)
    if not drifts(device) or not all(map(is_number, times)):
        return device
    since = 0.0 if interval is None else age - math.fmod(age, interval)
    places = [math.fmod(time, tau) for time in (age, since)]
    whole = [round((time - place) / tau) % LONGEST for time, place in zip((age, since), places, strict=True)]
    moments = Moments(np.array(whole, np.int32), np.array(places) / tau)
    return dataclasses.replace(device, age_s=moments)


def path(key: Key, time: Float[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Returns z of independent paths at one time.

    With ends of variance 1 at a distance h, the middle has the mean $(left + right) / (2 cosh(h / 2))$ and
    the variance $tanh(h / 2)$.

    Args:
      key: PRNG key of the paths.
      time: in units of the correlation time, from 0 up.
      shape: of the paths.
    """
    return _point(key, *_parts(time), shape)


def _point(key: Key, whole: Array, place: Array, shape: tuple[int, ...]) -> Array:
    """Returns z from the whole correlation times before a time, and the rest."""
    coarse, fine, dtype = stream(key, "multiples"), stream(key, "between"), place.dtype
    ago = jnp.arange(MEMORY + 1, dtype=whole.dtype)
    draws = jax.vmap(lambda n: _normal(coarse, n, shape, dtype))(whole + 1 - ago)
    weights = jnp.exp(-jnp.arange(MEMORY, dtype=dtype)) * math.sqrt(1 - math.exp(-2))
    right, left = (jnp.tensordot(weights, part, 1) for part in (draws[:-1], draws[1:]))
    inside = jax.random.fold_in(fine, whole)

    def halve(level: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        left, right, place, cell = state
        width = jnp.exp2(-level.astype(dtype))
        fresh = _normal(jax.random.fold_in(inside, level), cell, shape, dtype)
        middle = (left + right) / (2 * jnp.cosh(width / 2)) + jnp.sqrt(jnp.tanh(width / 2)) * fresh
        late = place >= 0.5
        place = 2 * place - late.astype(dtype)
        return (
            jnp.where(late, middle, left),
            jnp.where(late, right, middle),
            place,
            2 * cell + late.astype(cell.dtype),
        )

    start = (left, right, place, jnp.zeros_like(whole))
    left, right, place, _ = jax.lax.fori_loop(0, HALVINGS, halve, start)
    return left + place * (right - left)


def _parts(time: Array) -> tuple[Array, Array]:
    """Returns the whole correlation times before a time, and the rest."""
    whole = jax.lax.rem(time, jnp.full_like(time, LONGEST)).astype(jnp.int32)
    return whole, jax.lax.rem(time, jnp.ones_like(time))


def _normal(key: Key, number: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Draws normal numbers of single precision, counted."""
    draws = jax.random.normal(jax.random.fold_in(key, number), (math.prod(shape),), jnp.float32)
    return draws.astype(dtype).reshape(shape)


def recalibration(engine: Engine, pass_s: float | None = None) -> float:
    """Returns the calibration passes for each working pass; 0 for a device that is never recalibrated.

        o = C / (T / t - C),    C = probes M K

    of an engine that is always at work, whose time and energy are $1 + o$ times as large. A calibration
    writes some probes (`calibration_probes`, or two for each pixel), each detected in M steps of the
    reference's phase and K averages; T is the interval, t a pass.

    Args:
      pass_s: t; None is that of the frame rate.
    Raises: ValueError where a calibration takes longer than the interval.
    """
    device = engine.device
    if device.recalibrate_s is None or math.isinf(device.recalibrate_s):
        return 0.0
    probes = device.calibration_probes
    probes = 2 * math.prod(engine.shape) if probes is None else probes
    passes = probes * engine.detector.passes * engine.averages
    between = device.recalibrate_s * engine.frame_rate_hz if pass_s is None else device.recalibrate_s / pass_s
    if passes >= between:
        raise ValueError(
            f"recalibrate_s={device.recalibrate_s:g} has {between:g} passes, and a calibration takes "
            f"{passes:g}; raise it, or take fewer calibration_probes"
        )
    return passes / (between - passes)
