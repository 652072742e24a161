"""What each mixer leaves to a Fourier transform: how it is computed, and what it takes on an engine."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fourier_attn.ops.circular import circular_correlate
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.ops.lambdas import lambda_layer
from fourier_attn.optics import Engine, Plan, plan


class Work(NamedTuple):
    """What one layer leaves to a transform, for one batch.

    Args:
      title: in words.
      compute, arrays: the transform on the present device and its arguments' shapes.
      without: what `compute` does besides, on the same arguments; its time is subtracted.
      after, after_arrays: what optics leave to be done in addition.
      plan: what it takes on an engine.
      values: real numbers in and out.
      explicit: fields with which the mixer calls the transform as such, where it does not anyway.
    """

    title: str
    compute: Callable[..., Any]
    arrays: list[tuple[int, ...]]
    plan: Callable[[Engine], Plan]
    values: int
    without: Callable[..., Any] | None = None
    after: Callable[..., Any] | None = None
    after_arrays: Sequence[tuple[int, ...]] = ()
    explicit: tuple[tuple[str, Any], ...] = ()


def work(fields: dict[str, Any], b: int, t: int, d: int) -> Work | None:
    """The transform of a mixer with these fields on (b, t, d); None where it has none."""
    makers = {"fourier": _fourier, "circular": _circular, "lambda": _lambda}
    return makers[fields["name"]](fields, b, t, d) if fields["name"] in makers else None


def _fourier(fields: dict[str, Any], b: int, t: int, d: int) -> Work:
    return Work(
        f"Re F_t F_d of {b} x ({t}, {d})",
        partial(fourier_mix, method=fields["method"]),
        [(b, t, d)],
        lambda engine: plan("fourier_mix", (b, t, d), engine),
        2 * b * t * d,
    )


def _circular(fields: dict[str, Any], b: int, t: int, d: int) -> Work:
    shape = tuple(fields["shape"] or ()) or None
    kernel = (3 * fields["heads"], *(fields["kernel"] or shape or (d,)))
    options = {"shape": shape, "boundary": fields["boundary"]}
    compute = partial(circular_correlate, **options)
    out = jax.eval_shape(compute, *(jax.ShapeDtypeStruct(s, jnp.float32) for s in ((b, t, d), kernel)))
    return Work(
        f"correlations of {b * t} tokens with {kernel[0]} kernels of {' x '.join(map(str, kernel[1:]))} taps",
        compute,
        [(b, t, d), kernel],
        values=b * t * d + out.size,
        explicit=(("method", "literal"),),
        plan=lambda engine: plan("circular_correlate", (b, t, d), engine, kernel=kernel, **options),
    )


def _lambda(fields: dict[str, Any], b: int, t: int, d: int) -> Work:
    h, k, u, grid = fields["heads"], fields["k"], fields["u"], tuple(fields["grid"])
    reach = fields["length"] if fields["causal"] else 2 * fields["length"] - 1
    taps = (fields["context"],) * len(grid or (t,)) if fields["context"] else (reach,)
    if not fields["context"] and grid:
        taps = tuple(2 * n - 1 for n in grid)
    if fields["causal"]:
        taps = (min(taps[0], t),)
    v, position = d // h, (*taps, k, u)
    apply = partial(lambda_layer, grid=grid or None, causal=fields["causal"], method=fields["method"])

    def planned(engine: Engine) -> Plan:
        if fields["causal"]:
            raise ValueError("causal=True has no optical form")
        return plan("position_lambda", (b, t, v, u), engine, kernel=position, shape=grid or None)

    return Work(
        f"lambdas: {b * v * u} signals of {t} with {k} kernels of {' x '.join(map(str, taps))} taps",
        apply,
        [(b, t, h, k), (b, t, k, u), (b, t, v, u), position],
        without=lambda query, key, value, position: apply(query, key, value, None),
        after=partial(jnp.einsum, "bthk,bvktu->bthv"),
        after_arrays=[(b, t, h, k), (b, v, k, t, u)],
        values=b * t * v * (u + k),
        plan=planned,
    )
