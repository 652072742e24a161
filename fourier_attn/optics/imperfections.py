"""Imperfections of detectors and converters: unequal gains, flicker (1/f) noise, converters that are off.

Gains and bends are static. They belong to the device's seed, and each detector and converter has its own.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.quantise import steps_of
from fourier_attn.optics.random import Key, compute_normal, device_key, normal, sample, stream

# Legendre's polynomials of a smooth bend: bow, S and W. None has an offset or a slope.
BENDS: tuple[Callable[[Array], Array], ...] = (
    lambda v: (3 * v**2 - 1) / 2,
    lambda v: (5 * v**3 - 3 * v) / 2,
    lambda v: (35 * v**4 - 30 * v**2 + 3) / 8,
)


def gains(detectors: int, engine: Engine, like: Array) -> Array | float:
    """Returns the gain of each detector, (detectors, 1, .., rows, columns), whose mean over many is 1.

    Args:
      detectors: number for each pixel.
      engine: the engine, with its seed and `prnu_rms`.
      like: light, with as many axes as the result.
    """
    if engine.receiver.prnu_rms is None:
        return 1.0
    key = stream(device_key(engine.device.seed), "responses")
    pixels = like.shape[-2:]  # a correlator reads a part of its output plane
    errors = compute_normal("plain", key, (detectors, *pixels), jnp.float32).astype(like.real.dtype)
    return 1 + engine.receiver.prnu_rms * errors.reshape(detectors, *(1,) * (like.ndim - 3), *pixels)


def flicker_share(lowest: Any, highest: Any, corner: Any, bandwidth: Any) -> Array:
    """Returns the power of flicker noise in a band over that of the white noise in the whole bandwidth.

        r = (f_c / B) ln(f_2 / f_1),    the density is 1 + f_c / f times that of the white noise

        >>> round(float(flicker_share(1.0, 1e6, 1e5, 1e6)), 3)
        1.382

    Args:
      lowest, highest: ends $f_1$ and $f_2$ of the band, Hz. It is empty where $f_2$ is not above $f_1$.
      corner: $f_c$, at which both densities are equal, Hz.
      bandwidth: B, Hz.
    """
    return corner / bandwidth * jnp.log(jnp.maximum(highest / jnp.asarray(lowest), 1.0))


def between_hz(engine: Engine) -> Any:
    """Returns the frequency in Hz below which flicker noise is the same in all passes of a transform."""
    return jnp.maximum(engine.frame_rate_hz / engine.passes, engine.receiver.flicker_lowest_hz)


def fast_flicker(engine: Engine) -> Any:
    """Returns what an amplifier's flicker noise adds to its white noise within a pass, a share of power."""
    corner = engine.receiver.flicker_corner_hz
    if corner is None:
        return 0.0
    return flicker_share(between_hz(engine), engine.bandwidth, corner, engine.bandwidth)


def slow_flicker(shape: tuple[int, ...], engine: Engine, key: Key, dtype: Any) -> Array | float:
    """Returns flicker noise that all passes of a transform share, for one detector, in unit intensity.

    Args:
      shape: of the signals.
      engine: the engine, with its amplifiers.
      key: PRNG key, the same for all passes of a transform.
      dtype: float type of the result.
    """
    receiver = engine.receiver
    if receiver.flicker_corner_hz is None:
        return 0.0
    lowest, white = receiver.flicker_lowest_hz, engine.bandwidth
    share = flicker_share(lowest, between_hz(engine), receiver.flicker_corner_hz, white)
    amplifiers = receiver.amplifiers_per_pixel / engine.detector.detectors
    rms = receiver.tia_noise / engine.current * jnp.sqrt(jnp.asarray(white * amplifiers * share, dtype))
    return rms * sample(normal, key, shape, dtype)


def convert_roughly(u: Array, engine: Engine, key: Key) -> Array:
    """Returns signals as converters see them: with noise of their own, and with thresholds that are off.

    Args:
      u: signals over full scale, (m, ..., rows, columns).
      engine: the engine, with its converters.
      key: PRNG key of the noise.
    """
    receiver, balanced = engine.receiver, engine.detector.balanced
    if receiver.adc_bits is None:
        return u
    off: Any = 0.0
    if receiver.adc_noise_lsb is not None:
        noise = sample(normal, stream(key, "converter"), u.shape, u.dtype)
        off = receiver.adc_noise_lsb / steps_of(receiver.adc_bits, balanced) * noise
    converters = u.shape[0] if balanced else 1  # steps of the phase use the same one
    shape = (converters, *(1,) * (u.ndim - 3), *u.shape[-2:])
    device = stream(device_key(engine.device.seed), "reading converters")
    off += bend(
        jax.lax.stop_gradient(u),
        receiver.adc_bits,
        balanced,
        (receiver.adc_inl_lsb, receiver.adc_dnl_lsb),
        shape,
        device,
        between=True,
    )
    return u + jax.lax.stop_gradient(off)


def bend(
    u: Array,
    bits: int,
    signed: bool,
    strengths: tuple[Any, Any],
    shape: tuple[int, ...],
    device: Key,
    *,
    between: bool = False,
) -> Array | float:
    """Returns by how much the level at u is off, or the threshold between two levels, over full scale.

        e(u) = (inl sum_{k = 2, 3, 4} a_k sqrt(2 k + 1) P_k(v) + dnl / sqrt(2) n_c) / steps

    v is u, or $2 u - 1$ of one sign, $P_k$ are Legendre's polynomials and c is the code of u. The $a_k$ of a
    converter are random, and their squares add up to 1. So each converter is off by `inl` from the line that
    fits best, as converters are specified. Neighbouring levels are off by independent normal $n_c$, so that
    their distance is off by `dnl`, which is exact for each device. Converters share one row of $n_c$, each
    from another place on. A seed gives one device in single and in double precision.

    Args:
      u: signals over full scale.
      bits: of the converter.
      signed: whether u has both signs.
      strengths: rms of the integral and of the differential nonlinearity, LSB; None is off.
      shape: of the converters, which broadcasts against u.
      device: key of the device's converters.
      between: whether c is the level below u, whose upper threshold is off; else that next to it.
    """
    inl, dnl = strengths
    steps, off = steps_of(bits, signed), 0.0
    if inl is not None:
        sizes = jax.random.normal(stream(device, "bends"), (len(BENDS), *shape), jnp.float32)
        sizes = (sizes / jnp.linalg.norm(sizes, axis=0, keepdims=True)).astype(u.dtype)
        v = jnp.clip(u if signed else 2 * u - 1, -1.0, 1.0)
        terms = [a * math.sqrt(2 * k + 1) * bow(v) for k, a, bow in zip((2, 3, 4), sizes, BENDS, strict=True)]
        off = off + inl / steps * sum(terms)
    if dnl is not None:
        row = jax.random.normal(stream(device, "steps"), (2**bits,), jnp.float32).astype(u.dtype)
        row = row / jnp.sqrt(jnp.mean((row - jnp.roll(row, 1)) ** 2) / 2)
        place = jax.random.randint(stream(device, "places"), shape, 0, 2**bits, jnp.int32)
        code = jnp.floor(jnp.clip(u, -1.0, 1.0) * steps + (0.0 if between else 0.5)).astype(jnp.int32)
        off = off + dnl / math.sqrt(2) / steps * row[(code + place) % 2**bits]
    return off
