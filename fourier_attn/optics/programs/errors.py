"""Measures the error of each call site of a JAX function on an engine."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.programs.call_sites import CallSite
from fourier_attn.optics.programs.rules import as_rules
from fourier_attn.optics.programs.through import Ranges, Run, as_argnums, check, ranged, trace
from fourier_attn.optics.random import Key


def site_errors(
    f: Callable[..., Any],
    args: Sequence[Any],
    engine: Engine | str,
    *,
    key: Key = None,
    kwargs: Mapping[str, Any] | None = None,
    rules: Iterable[Any] = (),
    ranges: Ranges | None = None,
    argnums: int | Sequence[int] | None = None,
) -> dict[str, float]:
    """Returns the signal-to-error ratio of each optical call site in dB.

        r = sum_n |y_n|^2 / sum_n |z_n - y_n|^2

    z is the optical result and y the exact result for the same operands. Errors that the operands bring
    from earlier call sites are in both. The sums are over all values and all runs, as in a loop.

        >>> x = jax.random.normal(jax.random.key(1), (8, 11, 11))
        >>> errors = site_errors(jnp.fft.fft2, (x,), "chip_11x11", key=jax.random.key(0))
        >>> 15 < errors["0 fft 11 x 11"] < 30
        True

    Args:
      f: the function, as in `fourier_attn.optics.through`.
      args: its arguments.
      engine: engine or name of a preset.
      key: PRNG key of the noise. Default None, enough for an engine without noise.
      kwargs: its keyword arguments. Default none.
      rules, ranges, argnums: as in `fourier_attn.optics.through`.
    Returns: ratios by the labels of call sites, without those that did not run.
    Raises: ValueError as `fourier_attn.optics.through`.
    """
    traced = trace(f, args, kwargs or {}, as_rules(engine, rules), as_argnums(argnums))
    check(traced, key)
    seen: list[tuple[str, Array, Array]] = []
    optical = ranged([choice for choice in traced.choices if choice.light is not None], ranges)
    run = Run(optical, True, watch=partial(_note, seen))
    light = jax.jit(lambda values, key: run.program(traced.program, values, (), key))
    jax.block_until_ready(light(traced.values, key))
    jax.effects_barrier()
    powers = {choice.site.label: np.zeros(2) for choice in traced.choices}
    for label, *results in seen:
        exact, y = (np.asarray(result).astype(np.complex128) for result in results)
        powers[label] += [np.sum(np.abs(part) ** 2) for part in (exact, y - exact)]
    return {
        label: math.inf if error == 0 else 10 * math.log10(signal / error)
        for label, (signal, error) in powers.items()
        if signal > 0
    }


def _note(seen: list[Any], site: CallSite, _: Sequence[Any], exact: Array, y: Array) -> None:
    """Notes the exact and the optical result of a call site when the program runs."""
    jax.debug.callback(lambda *results: seen.append((site.label, *results)), exact, y)
