"""Detection: what photodiodes and converters make of the field, and how the field is recovered from it.

Light of the field E meets a reference (local oscillator) of amplitude R and phase th_m, and detectors count
$y_m = |E + R exp(i th_m)|^2$. With $M >= 3$ equal phase steps, exactly

    E = (1 / (M R)) sum_m y_m exp(i th_m)
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Inexact

from fourier_attn.optics.coupling import kept_share, settle
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.imperfections import convert_roughly, fast_flicker, gains, slow_flicker
from fourier_attn.optics.phases import phasor
from fourier_attn.optics.quantise import quantise
from fourier_attn.optics.random import Key, normal, sample, stream, uniform
from fourier_attn.optics.ranges import report

BOLTZMANN_J_K = 1.380649e-23  # exact, SI
AVERAGES = "averages"  # axis over which passes are repeated
MOST_POISSON = 1e5  # above, jax.random.poisson in float32 has a wrong variance


class Keys(NamedTuple):
    """Keys of what a detection draws: phase of the reference, shot, electrical, rounding, flicker."""

    reference: Key = None
    shot: Key = None
    electrical: Key = None
    rounding: Key = None
    slow: Key = None  # shared by all passes of a transform


class Light(NamedTuple):
    """Holds the light at the detectors in each of m passes.

    Args:
      field: that interferes with the reference, (m, ..., n1, n2).
      laser: relative power of the laser in each pass, (m, ..., 1, 1).
      excess: power beyond $|field|^2$, which does not interfere; None: there is none.
    """

    field: Array
    laser: Array
    excess: Array | None = None

    @property
    def power(self) -> Array:
        """Returns the power without a reference."""
        power = _square(self.field)
        return power if self.excess is None else power + self.excess


def detect(light: Light, engine: Engine, keys: Keys) -> Inexact[Array, "*b n1 n2"]:
    """Returns what the engine's detection gives for the field in its m passes: E, Re E, |E| or |E|^2.

    The laser's power in each pass lights signal and reference. Every detector has shot noise (variance =
    mean) and electrical noise, then its signal is converted. Derivatives go through the sum of
    noise and signal, but not through the noise's size.

    Args:
      light: at the detectors, in each of m passes.
      engine: the engine, with its receiver.
      keys: PRNG keys of the noise.
    """
    field, laser, excess = light
    if engine.laser.rin_db_hz is not None or engine.laser.power_drift_rms is not None:
        field = field * jnp.sqrt(laser).astype(field.dtype)
        excess = None if excess is None else excess * laser
    if engine.receiver.detection == "field":
        return field[0]
    if engine.receiver.lo_drift is not None:
        noise = sample(normal, keys.reference, (*field.shape[:-2], 1, 1), field.real.dtype)
        field = field * phasor(engine.receiver.lo_drift * noise)
    light = Light(field, laser, excess)
    if engine.receiver.detection == "intensity":
        return _detect_power(light, engine, keys)
    if engine.receiver.detection == "amplitude":
        return _root(_detect_power(light, engine, keys))
    r = jnp.sqrt(jnp.asarray(engine.receiver.lo_ratio, field.real.dtype))
    if engine.receiver.detection == "homodyne_re":
        return _detect_pairs(field.real[None, 0], light, engine, r, keys)[0]
    if engine.receiver.detection == "hybrid90":
        return _detect_both_parts(light, engine, r, keys)
    return _detect_steps(light, engine, r, keys)


def _square(field: Array) -> Array:
    return field.real**2 + field.imag**2


def _detect_power(light: Light, engine: Engine, keys: Keys) -> Array:
    """Detects |E|^2 in one pass, without a reference."""
    power = gains(1, engine, light.field) * _seen(light.power, engine)
    return _convert(_count(power, engine, keys), engine, keys.rounding, 0.0)[0]


@jax.custom_jvp
def _root(power: Array) -> Array:
    return jnp.sqrt(jnp.maximum(power, 0.0))


@_root.defjvp
def _root_jvp(primals, tangents):  # finite in the dark, where the derivative of the root is not
    root = _root(primals[0])
    return root, jnp.where(root > 0, tangents[0] / jnp.where(root > 0, 2 * root, 1.0), 0.0)


def _detect_steps(light: Light, engine: Engine, r: Array, keys: Keys) -> Array:
    """Detects E from several passes, each with another phase of the reference."""
    field, laser, excess = light
    three_powers = engine.receiver.detection == "linear3"
    steps = len(field)
    if three_powers:  # the first pass has no reference
        place = jnp.array([0.0, 0.0, 1.0], r.dtype)
        ideal = jnp.array([0.0, 0.0, jnp.pi / 2], r.dtype)
    else:
        place = jnp.arange(steps, dtype=r.dtype)
        ideal = 2 * jnp.pi / steps * place
    actual = ideal if engine.receiver.lo_phase_err is None else ideal + engine.receiver.lo_phase_err * place
    references = r * jnp.stack([jnp.cos(actual), jnp.sin(actual)])
    if three_powers:
        references = references * jnp.array([[0.0, 1.0, 1.0]], r.dtype)
    one_for_each_pass = (-1,) + (1,) * (field.ndim - 1)
    reference = jax.lax.complex(references[0], references[1]).reshape(one_for_each_pass)
    power = _square(field + reference * jnp.sqrt(laser).astype(field.dtype))
    response = gains(1, engine, field)
    power = response * _seen(power if excess is None else power + excess, engine, r**2)
    still = response * _square(reference)
    power = _convert(_count(power, engine, keys), engine, keys.rounding, r, still)
    if three_powers:
        known = (response * jnp.full((1,) * field.ndim, r**2))[0]
        re, im = ((step - power[0] - known) / (2 * r) for step in power[1:])
    else:
        weights = jnp.stack([jnp.cos(ideal), jnp.sin(ideal)]) / (steps * r)
        re = jnp.tensordot(weights[0], power, 1, precision="highest")
        im = jnp.tensordot(weights[1], power, 1, precision="highest")
    return jax.lax.complex(re, im)


def _detect_both_parts(light: Light, engine: Engine, r: Array, keys: Keys) -> Array:
    """Detects E from two balanced pairs at once; the phase between them is off by `lo_phase_err`."""
    re, im = light.field.real[0], light.field.imag[0]
    if engine.receiver.lo_phase_err is not None:
        im = im * jnp.cos(engine.receiver.lo_phase_err) - re * jnp.sin(engine.receiver.lo_phase_err)
    re, im = _detect_pairs(jnp.stack([re, im]), light, engine, r, keys)
    return jax.lax.complex(re, im)


def _detect_pairs(parts: Array, light: Light, engine: Engine, r: Array, keys: Keys) -> Array:
    """Parts of E, a balanced pair of detectors for each, in units of E: sum of both noises, one draw."""
    laser = light.laser[0]
    signal = parts * jnp.sqrt(laser)[None]
    share = 1 / engine.detector.detectors  # of the light, for each detector
    gain = 4 * share * r  # of the difference over the signal
    total = 2 * share * (light.power[0] + r**2 * laser)[None]  # of the light on both
    signal = jax.vmap(lambda part: _seen(part[None], engine)[0])(signal)
    total = _seen(total, engine, 2 * share * r**2)
    known: Any = 0.0  # what the reference alone gives
    if engine.capacities or engine.receiver.prnu_rms is not None:
        both = jnp.stack([total + gain * signal, total - gain * signal]) / 2
        response = _responses(engine, both)
        first, second = _limit(response * both, engine)
        known = share * r**2 * (response[0] - response[1]) / gain
        signal, total = (first - second) / gain, first + second
    if engine.photons is not None:
        noise = _pair_noise(signal, total, engine, gain, keys)
        noise = noise + math.sqrt(2) / gain * slow_flicker(signal.shape, engine, keys.slow, signal.dtype)
        signal = signal + jax.lax.stop_gradient(noise)
    if engine.receiver.cmrr_db is not None:
        leak = 10.0 ** (-jnp.asarray(engine.receiver.cmrr_db, r.dtype) / 20)
        signal = signal + leak * (total - 2 * share * r**2) / gain
    return _convert(signal - known, engine, keys.rounding, r)


def _pair_noise(signal: Array, total: Array, engine: Engine, gain: Array, keys: Keys) -> Array:
    """Returns shot and electronic noise of balanced pairs, in units of E."""
    if engine.receiver.statistics == "poisson":
        pairs = jnp.concatenate([total + gain * signal, total - gain * signal]) / 2
        first, second = jnp.split(_count(pairs, engine, keys), 2)
        return (first - second) / gain - signal
    variance = total / engine.photons + 2 * _electrical_variance(engine, total.dtype)
    return jnp.sqrt(variance) / gain * sample(normal, keys.shot, signal.shape, signal.dtype)


def _responses(engine: Engine, both: Array) -> Array:
    """Returns gains of the first and of the second detectors of pairs, as `both` has them."""
    if engine.receiver.prnu_rms is None:
        return jnp.ones((2,) + (1,) * (both.ndim - 1), both.dtype)
    gain: Any = gains(engine.detector.detectors, engine, both[0])
    return gain.reshape(-1, 2, *gain.shape[1:]).swapaxes(0, 1)  # pairs of neighbours


def _electrical_variance(engine: Engine, dtype: Any) -> Array:
    """Returns the variance of one detector in a pass, in unit intensity squared, whose current is n q f.

        v = a ((1 + r) tia^2 + 4 k T / R) B / I^2 + I_dark / (I n) + (read / n)^2    n photons, bandwidth B

    r is the share of flicker noise that is faster than the transform, see `flicker_share`. a is 1, or $1 / 2$
    where two detectors share an amplifier: half of its noise for each.

    The dark current is counted like light: its variance is its mean, which is $2 q I B$ for the
    $B = f / 2$ of a detector that integrates over its pass.
    """
    receiver, current, photons = engine.receiver, engine.current, engine.photons
    root = jnp.sqrt(
        jnp.asarray(engine.bandwidth * receiver.amplifiers_per_pixel / engine.detector.detectors, dtype)
    )
    variance = jnp.zeros((), dtype)
    if receiver.tia_noise is not None:
        variance += (receiver.tia_noise / current * root) ** 2 * (1 + fast_flicker(engine))
    if receiver.load_ohm is not None:  # its square is below float32
        thermal = jnp.sqrt(jnp.asarray(4 * BOLTZMANN_J_K * receiver.temperature / receiver.load_ohm, dtype))
        variance += (thermal / current * root) ** 2
    if receiver.dark_current is not None:
        variance += receiver.dark_current / current / photons
    if receiver.read_noise_e is not None:
        variance += (receiver.read_noise_e / photons) ** 2
    return variance


def _seen(power: Array, engine: Engine, before: Any = 0.0) -> Array:
    """Returns the light in each pass as slow detectors see it, with a share of that in the pass before.

        S[t] = (1 - k) P[t] + k S[t - 1],   k = exp(-2 pi B T)

    Passes follow each other as those of slow modulators do, see `coupling.settle`. Averages are passes, too.

    Args:
      power: P, (passes, ...), of one of the averages.
      engine: the engine, with its receiver.
      before: light before the first pass.
    """
    if not engine.receiver.memory:
        return power
    kept = kept_share(1 / (2 * math.pi * engine.bandwidth), engine.frame_rate_hz)
    several = engine.channels.count > 1
    if engine.averages == 1:
        return before + settle(power - before, kept, channels=several)
    whole = jax.lax.all_gather(power - before, AVERAGES)
    settled = settle(whole.reshape(-1, *power.shape[1:]), kept, channels=several)
    return before + settled.reshape(whole.shape)[jax.lax.axis_index(AVERAGES)]


def _limit(power: Array, engine: Engine) -> Array:
    """Powers up to what a detector takes in a pass."""
    for capacity in engine.capacities:
        most = jnp.asarray(capacity / engine.photons, power.dtype)
        power = jnp.where(power > most, most, power)
    return power


def _count(power: Array, engine: Engine, keys: Keys) -> Array:
    """Powers as detectors report them: with shot and electrical noise, up to what they take."""
    photons = engine.photons
    if photons is None:
        return power
    electrical = _electrical_variance(engine, power.dtype)
    if engine.receiver.statistics == "gaussian":
        variance = power / photons + electrical
        noise = jax.lax.stop_gradient(jnp.sqrt(variance)) * sample(
            normal, keys.shot, power.shape, power.dtype
        )
        return _limit(power + noise + _slow(power, engine, keys), engine)
    mean = jax.lax.stop_gradient(jnp.maximum(power * photons, 0.0))
    few = _poisson(keys.shot, jnp.minimum(mean, MOST_POISSON)).astype(power.dtype) - mean
    draws = jnp.split(sample(normal, keys.electrical, (2 * len(power), *power.shape[1:]), power.dtype), 2)
    shot = jnp.where(mean <= MOST_POISSON, few, jnp.sqrt(mean) * draws[0]) / photons
    shot = jnp.where(jnp.isfinite(mean), shot, 0.0)  # photons without end have no noise
    noise = jax.lax.stop_gradient(shot + jnp.sqrt(electrical) * draws[1])
    return _limit(power + noise + _slow(power, engine, keys), engine)


def _slow(power: Array, engine: Engine, keys: Keys) -> Any:
    """Returns flicker noise that the passes share; that of balanced pairs is added to their difference."""
    if engine.detector.balanced:
        return 0.0
    noise = slow_flicker((1, *power.shape[1:]), engine, keys.slow, power.dtype)
    return jax.lax.stop_gradient(noise)


def _poisson(key: Key, mean: Array) -> Array:
    """Poisson's numbers, a key for each aperture: jax.random.poisson draws until the last is accepted."""
    rows = jnp.moveaxis(mean, 0, -1)
    apertures = rows.reshape(-1, *rows.shape[-3:])
    counts = jax.vmap(jax.random.poisson)(jax.random.split(key, len(apertures)), apertures)
    return jnp.moveaxis(counts.reshape(rows.shape), -1, 0)


def _convert(signal: Array, engine: Engine, key: Key, r: Any, still: Any = 0.0) -> Array:
    """Converts signals to digital numbers: jitter, full scale, clip, levels.

    Args:
      signal: at the converters.
      engine: the engine.
      key: PRNG key of jitter and rounding.
      r: amplitude of the reference.
      still: the part of the signal that is the same in all passes, which jitter does not change.
    """
    if engine.receiver.jitter_s is not None:  # slope of a sine at half the frame rate
        slope = jax.lax.stop_gradient(jnp.pi * engine.frame_rate_hz * (signal - still))
        noise = sample(normal, stream(key, "jitter"), signal.shape, signal.dtype)
        signal = signal + engine.receiver.jitter_s * slope * noise
    report(engine, "adc", signal)
    if engine.receiver.adc_bits is None and engine.receiver.adc_range == "auto":
        return signal
    balanced = engine.detector.balanced
    if engine.receiver.adc_range == "auto":
        if balanced:  # both signs; the parts share a scale
            highest = jnp.max(jnp.abs(signal), axis=(0, -2, -1), keepdims=True)
        else:
            highest = jnp.max(signal, axis=(-2, -1), keepdims=True)
        full = jax.lax.stop_gradient(highest)
        full = jnp.where(full > 0, full, 1.0)
    else:
        amplitude = full_scale(engine)
        full = amplitude if balanced else (amplitude + r) ** 2
    levels = quantise(
        convert_roughly(signal / full, engine, key),
        engine.receiver.adc_bits,
        signed=balanced,
        rounding=engine.receiver.adc_rounding,
        key=key,
        sample=partial(sample, uniform),
    )
    return full * levels


def full_scale(engine: Engine) -> Any:
    """Returns the given amplitude, or the largest possible one: of an aperture whose pixels are all 1.

    It is that of the light at the detectors, before digital factors.
    """
    if engine.receiver.adc_range == "calibrated":
        return engine.receiver.adc_full_scale
    if engine.receiver.adc_range != "fixed":
        return engine.receiver.adc_range
    rows, columns = engine.shape
    return engine.zero_order * (math.sqrt(rows * columns) if engine.lens == "2d" else math.sqrt(columns))
