"""Ranges of converters, from what they were given before.

A converter's full scale is fixed before it converts. What stood before it in some batches is counted, in
steps of $2^(1/64)$, and the full scale is the one with the least mean squared error over those numbers s:

    e(FS) = mean over s of  (s - FS)^2  where s > FS,  else min(s^2, step^2 / 12)

The largest of them, or a high quantile, are what it comes to where levels are many, or few.
"""

import dataclasses
import math
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from fourier_attn.optics.engine_spec import Engine

OCTAVES, STEPS = 64, 64  # on either side of 1, and in each
BINS = 2 * OCTAVES * STEPS
EDGES = 2.0 ** (np.arange(BINS + 1) / STEPS - OCTAVES)
SEARCHED = 10  # octaves below the largest in which a full scale is looked for


class Converter(NamedTuple):
    """Names the parameters of a kind of converter."""

    group: str
    range: str
    full_scale: str


CONVERTERS = {
    "dac": Converter("modulator", "dac_range", "dac_full_scale"),
    "adc": Converter("receiver", "adc_range", "adc_full_scale"),
}


# The converters that use the range "auto" while each converter is calibrated. When those of the detectors are
# calibrated, the modulators have their new ranges.
ORACLES = {"dac": ("dac", "adc"), "adc": ("adc",)}


def uncalibrated(engine: Engine) -> tuple[str, ...]:
    """Returns the converters with the range "calibrated" that have no full scale yet."""
    names = []
    for name, at in CONVERTERS.items():
        group = getattr(engine, at.group)
        if getattr(group, at.range) == "calibrated" and getattr(group, at.full_scale) is None:
            names.append(name)
    return tuple(names)


def check_ranges(engine: Engine) -> None:
    """Checks that each calibrated range has its full scale.

    Raises: ValueError.
    """
    for name in uncalibrated(engine):
        at = CONVERTERS[name]
        raise ValueError(
            f"{at.range}='calibrated' has no {at.full_scale}; calibrate it, as a run of a network does for "
            "each of its layers, or set it"
        )


def watched(engine: Engine, monitor: Any, oracles: Collection[str] = tuple(CONVERTERS)) -> Engine:
    """Returns the engine with a `monitor` that gets what its converters get.

    Args:
      oracles: converters that are "auto" where they are not calibrated yet. What enters detectors'
        converters hangs on the modulators' range, so that these come first.
    """
    changes = {CONVERTERS[name].range: "auto" for name in uncalibrated(engine) if name in oracles}
    return engine.replace(monitor=monitor, **changes)


def report(engine: Engine, converter: str, signal: Array) -> None:
    """Gives the engine's monitor a histogram of the values that enter a converter.

    Args:
      engine: the engine, with its monitor.
      converter: "dac" or "adc".
      signal: the values, in units of the amplitude.
    """
    if engine.monitor is None:
        return
    size = jnp.abs(jax.lax.stop_gradient(signal)).astype(jnp.float32).reshape(-1)
    place = jnp.floor(jnp.log2(jnp.maximum(size, EDGES[0])) * STEPS) + OCTAVES * STEPS
    place = jnp.clip(place, 0, BINS - 1).astype(jnp.int32)
    counts: Int[Array, " bins"] = jnp.zeros(BINS, jnp.int32).at[place].add(1)
    jax.debug.callback(partial(engine.monitor, converter), counts)


def full_scale(engine: Engine, converter: str, counts: np.ndarray) -> float:
    """Returns the full scale with the least error for the values counted before a converter, as an amplitude.

    Args:
      engine: the engine, with its converters.
      converter: "dac" or "adc".
      counts: histogram of the values.
    Raises: ValueError where nothing was counted.
    """
    modulator, receiver = engine.modulator, engine.receiver
    if converter == "dac":
        signed = modulator.encode == "signed"
        return _least_error(counts, modulator.dac_bits_amp, signed=signed)
    balanced = engine.detector.balanced
    amplitude = _least_error(counts, receiver.adc_bits, signed=balanced)
    if balanced:
        return amplitude
    reference = math.sqrt(receiver.lo_ratio) if engine.detector.referenced else 0.0
    return max(math.sqrt(amplitude) - reference, 1e-3)


def clipped(engine: Engine, converter: str, counts: np.ndarray, amplitude: float) -> float:
    """Returns the share of conversions above full scale.

    Args:
      engine: the engine, with its converters.
      converter: "dac" or "adc".
      counts: histogram of the values.
      amplitude: full scale.
    """
    most = amplitude
    if converter == "adc" and not engine.detector.balanced:
        reference = math.sqrt(engine.receiver.lo_ratio) if engine.detector.referenced else 0.0
        most = (amplitude + reference) ** 2
    return float(counts[EDGES[:-1] >= most].sum() / max(counts.sum(), 1))


def _least_error(counts: np.ndarray, bits: int | None, *, signed: bool) -> float:
    if not counts.any():
        raise ValueError("no conversion was seen, from which a range could be calibrated; give batches")
    last = int(np.flatnonzero(counts)[-1])
    first = max(0, last - SEARCHED * STEPS)
    candidates = EDGES[first + 1 : last + 2]
    if bits is None:
        return float(candidates[-1])
    size = np.sqrt(EDGES[:-1] * EDGES[1:])
    step = candidates / (2.0 ** (bits - 1) - 1 if signed else 2.0**bits - 1)
    errors = []
    for full, cell in zip(candidates, step, strict=True):
        inside = np.minimum(size**2, cell**2 / 12)
        errors.append(np.dot(counts, np.where(size > full, (size - full) ** 2, inside)))
    return float(candidates[int(np.argmin(errors))])


def with_full_scales(engine: Engine, values: dict[str, Any]) -> Engine:
    """Returns the engine with a full scale for each named converter; 0 gives none.

    Values may be traced.
    """
    for name, value in values.items():
        at = CONVERTERS[name]
        value = jax.lax.stop_gradient(jnp.where(value > 0, value, jnp.nan))
        group = dataclasses.replace(getattr(engine, at.group), **{at.full_scale: value})
        engine = dataclasses.replace(engine, **{at.group: group})
    return engine
