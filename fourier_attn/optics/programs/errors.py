"""Measures and predicts the error of each call site of a JAX function on an engine."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.pass_errors import budgeted
from fourier_attn.optics.presets import preset
from fourier_attn.optics.programs.call_sites import CallSite
from fourier_attn.optics.programs.rules import as_rules
from fourier_attn.optics.programs.run import Run
from fourier_attn.optics.programs.through import Ranges, as_argnums, check, ranged, trace
from fourier_attn.optics.programs.transforms import plan_site
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
        if signal != 0
    }


def _note(seen: list[Any], site: CallSite, _: Sequence[Any], exact: Array, y: Array) -> None:
    """Notes the exact and the optical result of a call site when the program runs."""
    jax.debug.callback(lambda *results: seen.append((site.label, *results)), exact, y)


class Band(NamedTuple):
    """Holds the signal-to-error ratios in dB between which a call site is predicted to be.

    Args:
      low: with static errors that add up over the stages.
      high: with errors of the stages that are independent.
    """

    low: float
    high: float

    def holds(self, ratio_db: float, within_db: float = 1.5) -> bool:
        """Says whether a measured ratio agrees.

        Args:
          ratio_db: measured, dB.
          within_db: tolerance on either side; default 1.5 dB.
        """
        return self.low - within_db < ratio_db < self.high + within_db


def predicted_errors(
    f: Callable[..., Any],
    args: Sequence[Any],
    engine: Engine | str,
    *,
    kwargs: Mapping[str, Any] | None = None,
    argnums: int | Sequence[int] | None = None,
) -> dict[str, Band]:
    """Predicts the signal-to-error ratios of `site_errors` without the emulation of a pass.

    Every pass is an exact transform plus white noise, whose power is that of
    `fourier_attn.optics.pass_errors`. The digital work between passes is the call site's own. Independent
    errors of s stages add up as powers. Static errors, a share q of them, may add up as amplitudes:

        e = sum_s e_s,   e_most = e + (s - 1) q e

        >>> x = jax.random.normal(jax.random.key(1), (8, 11, 11))
        >>> band = predicted_errors(jnp.fft.fft2, (x,), "chip_11x11")["0 fft 11 x 11"]
        >>> band.holds(site_errors(jnp.fft.fft2, (x,), "chip_11x11", key=jax.random.key(0))["0 fft 11 x 11"])
        True

    Args:
      f: the function, as in `fourier_attn.optics.through`.
      args: its arguments.
      engine: engine or name of a preset.
      kwargs: its keyword arguments. Default none.
      argnums: as in `fourier_attn.optics.through`.
    Returns: bands by the labels of call sites.
    Raises: ValueError as `site_errors`, and for an engine with effects that are not in the budget.
    """
    engine = preset(engine) if isinstance(engine, str) else engine
    more: Any = {"kwargs": kwargs, "argnums": argnums}
    all_, static = (site_errors(f, args, budgeted(engine, static=static), **more) for static in (False, True))
    traced = trace(f, args, kwargs or {}, as_rules(engine, ()), as_argnums(argnums))
    bands = {}
    for choice in traced.choices:
        label = choice.site.label
        if choice.light is None or label not in all_:
            continue
        independent, fixed = (10 ** (-ratios[label] / 10) for ratios in (all_, static))
        most = independent + (plan_site(choice.site, choice.light).stages - 1) * fixed
        bands[label] = Band(-10 * math.log10(most), all_[label])
    return bands
