"""A device that ages: its phases and gains drift after calibration, and calibrating it again takes passes.

Each pixel's errors follow a stationary Gaussian process z (Ornstein-Uhlenbeck) of variance 1, and calibration
takes off what there is at its time t0:

    E[z(s) z(t)] = exp(-|t - s| / tau),    drift(t) = rms (z(t) - z(t0)),    t0 = t - t mod interval

so that its variance is 2 rms^2 (1 - exp(-(t - t0) / tau)). A device's seed has one path, of which every age
sees its point, in whatever order ages are asked for: values at whole multiples of tau are a moving average of
normal numbers that are counted in time, and between them those in the middle of two known ones are drawn, as
the two determine them (a bridge), again and again.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fourier_attn.optics.draws import Key, stream
from fourier_attn.optics.groups import Device
from fourier_attn.optics.parameters import Engine

MEMORY = 18  # correlation times, after which a float32 has forgotten
HALVINGS = 22  # of a correlation time; a float32 has few more
LONGEST = 2**20  # correlation times, after which the path begins anew


def drifts(device: Device) -> bool:
    """Whether anything changes with age."""
    return device.phase_drift_rms is not None or device.gain_drift_rms is not None


def drift(device: Device, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """z(t) - z(t0) of independent paths, at the device's age t, with its last calibration at t0.

    Args:
      shape: of the paths.
    """
    key = stream(jax.random.key(device.seed), "drift")
    age = jnp.asarray(device.age_s, dtype)
    since = jnp.zeros_like(age)
    if device.recalibrate_s is not None:
        since = age - jax.lax.rem(age, jnp.asarray(device.recalibrate_s, dtype))
    times = jnp.stack([age, since]) / jnp.asarray(device.drift_time_s, dtype)
    now, then = jax.lax.map(lambda time: path(key, time, shape), times)
    return now - then


def path(key: Key, time: Float[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """z at a time in units of the correlation time, from 0 up.

    With ends of variance 1 at a distance h, the middle has the mean (left + right) / (2 cosh(h / 2)) and the
    variance tanh(h / 2).
    """
    whole, coarse, fine = _whole(time), stream(key, "multiples"), stream(key, "between")
    dtype, place = time.dtype, jax.lax.rem(time, jnp.ones_like(time))
    ago = jnp.arange(MEMORY + 1)
    draws = jax.vmap(lambda n: _normal(coarse, n, shape, dtype))(whole + 1 - ago)
    weights = jnp.exp(-jnp.arange(MEMORY, dtype=dtype)) * math.sqrt(1 - math.exp(-2))
    right, left = (jnp.tensordot(weights, part, 1) for part in (draws[:-1], draws[1:]))
    inside = jax.random.fold_in(fine, whole)

    def halve(level: Array, found: tuple[Array, ...]) -> tuple[Array, ...]:
        left, right, place, cell = found
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


def _whole(time: Array) -> Array:
    """Multiple of the correlation time before a time."""
    return jax.lax.rem(time, jnp.full_like(time, LONGEST)).astype(jnp.int32)


def _normal(key: Key, number: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Normal numbers, counted."""
    return jax.random.normal(jax.random.fold_in(key, number), (math.prod(shape),), dtype).reshape(shape)


def recalibration(engine: Engine, pass_s: float | None = None) -> float:
    """Passes of calibration for each pass of work: 0 where the device is never calibrated again.

        o = C / (T / t - C),    C = probes M K

    of an engine that is always at work, whose time and energy are 1 + o times as large. A calibration writes
    so many probes (`calibration_probes`, or two for each pixel), each detected in M steps of the reference's
    phase and K averages; T is the interval, t a pass.

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
