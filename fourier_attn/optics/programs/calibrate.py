"""Finds static ranges of the converters of each call site of a JAX function."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.programs.rules import Rule, as_rules
from fourier_attn.optics.programs.through import as_argnums, check, through, trace
from fourier_attn.optics.random import Key
from fourier_attn.optics.ranges import CONVERTERS, ORACLES, full_scale, uncalibrated, watched


def calibrate_ranges(
    f: Callable[..., Any],
    batches: Iterable[Sequence[Any]],
    engine: Engine | str,
    *,
    key: Key = None,
    rules: Iterable[Any] = (),
    argnums: int | Sequence[int] | None = None,
) -> dict[str, dict[str, float]]:
    """Returns full scales of the converters of each call site, for `through(f, engine, ranges=...)`.

    A converter has them if its range in the engine is "calibrated", for example
    `engine.replace(adc_range="calibrated")`. Each full scale has the least mean squared error over the values
    that the converter saw, see `fourier_attn.optics.ranges`. Modulators are calibrated first, then detectors.

        >>> engine = Engine(shape=(4, 4)).replace(adc_bits=8, detection="hybrid90", adc_range="calibrated")
        >>> ranges = calibrate_ranges(jnp.fft.fft2, [(jnp.ones((1, 4, 4)),)], engine)
        >>> list(ranges), round(ranges["0 fft 4 x 4"]["adc"], 1)
        (['0 fft 4 x 4'], 4.0)

    Args:
      f: the function, as in `through`.
      batches: arguments of f, one sequence of them for each batch, all of the same shapes.
      engine: engine or name of a preset.
      key: PRNG key of the noise. Default None, enough for an engine without noise.
      rules, argnums: as in `through`.
    Returns: full scales by the labels of call sites, then by converter, "dac" or "adc".
    Raises: ValueError without batches, and if no converter has the range "calibrated".
    """
    batches, chosen = list(batches), as_rules(engine, rules)
    if not batches:
        raise ValueError("batches is empty; give the arguments of at least one call")
    traced = trace(f, batches[0], {}, chosen, as_argnums(argnums))
    check(traced, key)
    engines = {choice.site.label: choice.light.engine for choice in traced.choices if choice.light}
    ranges: dict[str, dict[str, float]] = {}
    for look, oracles in ORACLES.items():
        asking = [label for label, own in engines.items() if look in uncalibrated(own)]
        if not asking:
            continue
        seen: list[tuple[Any, ...]] = []
        *watching, rest = [_watched(rule, partial(_count, seen), oracles) for rule in chosen]
        assert rest.engine is not None
        light = jax.jit(through(f, rest.engine, key=key, rules=watching, ranges=ranges, argnums=argnums))
        for batch in batches:
            jax.block_until_ready(light(*batch))
        jax.effects_barrier()
        for label in asking:
            counts = np.sum([count for name, at, count in seen if (name, at) == (label, look)], axis=0)
            ranges.setdefault(label, {})[look] = full_scale(engines[label], look, counts)
    if not ranges:
        names = " or ".join(f"{at.range}='calibrated'" for at in CONVERTERS.values())
        raise ValueError(f"no converter of the engine has a calibrated range; set {names}")
    return ranges


def _count(seen: list[tuple[Any, ...]], *counts: Any) -> None:
    seen.append(counts)  # to read the counts here would be a deadlock: the program waits for this callback


def _watched(rule: Rule, monitor: Callable[..., None], oracles: Iterable[str]) -> Rule:
    """Returns a rule with an engine that gives what its converters see to a monitor."""
    if rule.engine is None:
        return rule
    assert isinstance(rule.engine, Engine)
    return dataclasses.replace(rule, engine=watched(rule.engine, monitor, tuple(oracles)))
