"""Detection: what photodiodes and converters make of the field, and how the field is recovered from it.

Light of the field E meets a reference (local oscillator) of amplitude R and phase th_m, and detectors count
y_m = |E + R exp(i th_m)|^2. With M >= 3 equal phase steps, E = (1 / (M R)) sum_m y_m exp(i th_m), exactly.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Inexact

from fourier_attn.optics.draws import Key, draw, normal, uniform
from fourier_attn.optics.phases import turn
from fourier_attn.optics.quantise import quantise

ELECTRON_C, BOLTZMANN_J_K = 1.602176634e-19, 1.380649e-23
MOST_POISSON = 1e5  # above, jax.random.poisson in float32 has a wrong variance


class Detection(NamedTuple):
    """A way to detect: passes of one frame, detectors of one pixel, converters of one pixel and pass."""

    passes: int
    detectors: int
    converters: int
    balanced: bool  # pairs of detectors are subtracted before they are converted


DETECTIONS = {
    "field": Detection(1, 0, 0, True),  # E itself: for debugging, and for the ideal engine
    "intensity": Detection(1, 1, 1, False),  # |E|^2
    "amplitude": Detection(1, 1, 1, False),  # |E|, biased where photons are few
    "psi3": Detection(3, 1, 1, False),  # E from three phase steps, one pass each
    "psi4": Detection(4, 1, 1, False),  # E from four
    "psi5": Detection(5, 1, 1, False),  # E from five
    "hybrid90": Detection(1, 4, 2, True),  # E from four detectors at once, two balanced pairs
    "homodyne_re": Detection(1, 2, 1, True),  # Re E from one balanced pair
    "linear3": Detection(3, 1, 1, False),  # E from |E|^2, |E + R|^2 and |E + i R|^2
}


def detect(
    field: Complex[Array, "m *b n1 n2"], laser: Float[Array, "m *b 1 1"], engine: Any, keys: Any
) -> Inexact[Array, "*b n1 n2"]:
    """What the engine's detection gives for the field in its m passes: E, Re E, |E| or |E|^2.

    The laser's power in each pass lights signal and reference. Every detector has shot noise (variance =
    mean) and electrical noise, then its signal is converted. The noise's size is no path for derivatives, its
    sum with the signal is. `keys` are four, or Nones.
    """
    turning, light, electric, digit = keys
    if engine.rin_db_hz is not None or engine.power_drift_rms is not None:
        field = field * jnp.sqrt(laser).astype(field.dtype)
    name = engine.detection
    if name == "field":
        return field[0]
    if engine.lo_drift is not None:
        noise = draw(normal, turning, (*field.shape[:-2], 1, 1), field.real.dtype)
        field = field * turn(engine.lo_drift * noise)
    if name in ("intensity", "amplitude"):
        power = _convert(_count(_power(field), engine, light, electric), engine, digit, 0.0)[0]
        return power if name == "intensity" else _root(power)
    r = jnp.sqrt(jnp.asarray(engine.lo_ratio, field.real.dtype))
    if name in ("hybrid90", "homodyne_re"):
        return _balanced(field[0], laser[0], engine, r, keys)
    ideal, phases = _phases(engine, len(field), r.dtype)
    references = r * jnp.stack([jnp.cos(phases), jnp.sin(phases)])
    if name == "linear3":
        references = references * jnp.array([[0.0, 1.0, 1.0]], r.dtype)
    shape = (-1,) + (1,) * (field.ndim - 1)
    reference = jax.lax.complex(*references).reshape(shape) * jnp.sqrt(laser).astype(field.dtype)
    power = _power(field + reference)
    power = _convert(_count(power, engine, light, electric), engine, digit, r)
    if name == "linear3":
        re, im = ((power[i] - power[0] - r**2) / (2 * r) for i in (1, 2))
        return jax.lax.complex(re, im)
    weights = jnp.stack([jnp.cos(ideal), jnp.sin(ideal)]) / (len(field) * r)
    return jax.lax.complex(*(jnp.tensordot(w, power, 1, precision="highest") for w in weights))


def _phases(engine: Any, steps: int, dtype: Any) -> tuple[Array, Array]:
    """Phases of the reference in each pass, as they are meant and as they are."""
    place = jnp.arange(steps, dtype=dtype)
    if engine.detection == "linear3":  # the first pass has no reference
        ideal, place = jnp.array([0.0, 0.0, jnp.pi / 2], dtype), jnp.array([0.0, 0.0, 1.0], dtype)
    else:
        ideal = 2 * jnp.pi / steps * place
    return ideal, ideal if engine.lo_phase_err is None else ideal + engine.lo_phase_err * place


def _power(field: Array) -> Array:
    return field.real**2 + field.imag**2


@jax.custom_jvp
def _root(power: Array) -> Array:
    return jnp.sqrt(jnp.maximum(power, 0.0))


@_root.defjvp
def _root_jvp(primals, tangents):  # finite in the dark, where the derivative of the root is not
    root = _root(primals[0])
    return root, jnp.where(root > 0, tangents[0] / jnp.where(root > 0, 2 * root, 1.0), 0.0)


def _balanced(field: Array, laser: Array, engine: Any, r: Array, keys: Any) -> Array:
    """Differences of two detectors each, in units of Re E or Im E: sum of both noises, one draw."""
    _, light, electric, digit = keys
    share = 0.25 if engine.detection == "hybrid90" else 0.5  # of the light, for each detector
    parts = (field.real, field.imag) if share == 0.25 else (field.real,)
    if len(parts) == 2 and engine.lo_phase_err is not None:  # the second pair is off by it
        error = engine.lo_phase_err
        parts = (parts[0], parts[1] * jnp.cos(error) - parts[0] * jnp.sin(error))
    signal = jnp.stack(parts) * jnp.sqrt(laser)[None]
    if engine.photons_fs is not None:
        sum_, gain = _power(field) + r**2 * laser, 4 * share * r  # of the difference over the signal
        if engine.statistics == "poisson":
            difference = 2 * r * signal
            pairs = share * jnp.concatenate([sum_[None] + difference, sum_[None] - difference])
            counts = _count(pairs, engine, light, electric)
            first, second = jnp.split(counts, 2)
            noise = jax.lax.stop_gradient((first - second) / gain - signal)
        else:
            variance = 2 * share * sum_ / engine.photons_fs + 2 * _electrical_variance(engine, r.dtype)
            std = jax.lax.stop_gradient(jnp.sqrt(variance) / gain)
            noise = std[None] * draw(normal, light, signal.shape, signal.dtype)
        signal = signal + noise
    signal = _convert(signal, engine, digit, r)
    return jax.lax.complex(*signal) if len(parts) == 2 else signal[0]


def _electrical_variance(engine: Any, dtype: Any) -> Array:
    """Of one detector, in units of unit intensity squared: n_e / photons^2, electrons squared of one pass.

        n_e = (tia^2 + 4 k T / R) B / (q f)^2 + I_dark / (q f)        f the frame rate, B the bandwidth

    The dark current is counted like light, variance = mean, which is 2 q I B for the B = f / 2 of a detector
    that integrates over its pass.
    """
    bandwidth = engine.frame_rate_hz if engine.bandwidth_hz is None else engine.bandwidth_hz
    per_hz = 0.0  # electrons squared: the charge is divided out first, its square is below float32
    if engine.tia_noise is not None:
        per_hz += (engine.tia_noise / ELECTRON_C) ** 2
    if engine.load_ohm is not None:
        per_hz += 4 * BOLTZMANN_J_K / ELECTRON_C * engine.temperature / engine.load_ohm / ELECTRON_C
    electrons = per_hz / engine.frame_rate_hz * (bandwidth / engine.frame_rate_hz)
    if engine.dark_current is not None:
        electrons += engine.dark_current / ELECTRON_C / engine.frame_rate_hz
    return jnp.asarray(electrons / engine.photons_fs / engine.photons_fs, dtype)


def _count(power: Array, engine: Any, key: Key, electric: Key) -> Array:
    """Powers as detectors report them: with shot and electrical noise."""
    if engine.photons_fs is None:
        return power
    electrical = _electrical_variance(engine, power.dtype)
    if engine.statistics == "gaussian":
        variance = power / engine.photons_fs + electrical
        noise = draw(normal, key, power.shape, power.dtype)
        return power + jax.lax.stop_gradient(jnp.sqrt(variance)) * noise
    mean = jax.lax.stop_gradient(jnp.maximum(power * engine.photons_fs, 0.0))
    few = _poisson(key, jnp.minimum(mean, MOST_POISSON)).astype(power.dtype) - mean
    draws = jnp.split(draw(normal, electric, (2 * len(power), *power.shape[1:]), power.dtype), 2)
    shot = jnp.where(mean <= MOST_POISSON, few, jnp.sqrt(mean) * draws[0]) / engine.photons_fs
    shot = jnp.where(jnp.isfinite(mean), shot, 0.0)  # photons without end have no noise
    return power + jax.lax.stop_gradient(shot + jnp.sqrt(electrical) * draws[1])


def _poisson(key: Key, mean: Array) -> Array:
    """Poisson's numbers, a key for each aperture: jax.random.poisson draws until the last is accepted."""
    rows = jnp.moveaxis(mean, 0, -1)
    apertures = rows.reshape(-1, *rows.shape[-3:])
    counts = jax.vmap(jax.random.poisson)(jax.random.split(key, len(apertures)), apertures)
    return jnp.moveaxis(counts.reshape(rows.shape), -1, 0)


def _convert(signal: Array, engine: Any, key: Key, r: Any) -> Array:
    """The analog-to-digital converter: full scale, clip, levels."""
    if engine.adc_bits is None and engine.adc_range == "auto":
        return signal
    balanced = DETECTIONS[engine.detection].balanced
    if engine.adc_range == "auto":
        highest = jnp.abs(signal) if balanced else signal
        axes = (0, -2, -1) if balanced else (-2, -1)
        full = jax.lax.stop_gradient(jnp.max(highest, axis=axes, keepdims=True))
        full = jnp.where(full > 0, full, 1.0)
    else:
        largest = math.prod(engine.shape if engine.lens == "2d" else engine.shape[1:]) ** 0.5
        amplitude = largest if engine.adc_range == "fixed" else engine.adc_range
        full = amplitude if balanced else (amplitude + r) ** 2
    rounding, sample = engine.adc_rounding, partial(draw, uniform)
    return full * quantise(
        signal / full, engine.adc_bits, signed=balanced, rounding=rounding, key=key, sample=sample
    )
