"""The Fourier transform in each mixer: its computation, and its cost on an engine."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fourier_attn import model
from fourier_attn.config import Config, tokens
from fourier_attn.ops.circular import circular_correlate
from fourier_attn.ops.fourier import fourier_mix, fourier_mix_grid
from fourier_attn.ops.lambdas import lambda_layer
from fourier_attn.ops.transforms import irfftn, rfftn
from fourier_attn.optics import Engine, Plan, Rule, plan
from fourier_attn.optics.programs.report import call_sites, plan_program


class Work(NamedTuple):
    """Describes the transform of one layer, for one batch.

    Args:
      title: the transform in words.
      compute, arrays: the transform on the present device and its arguments' shapes.
      without: the rest of `compute`, on the same arguments; its time is subtracted.
      after, after_arrays: electronic work that follows an optical transform.
      plan: engine -> its plan for the transform.
      values: number of real numbers in and out.
      explicit: fields with which the mixer calls the transform as such, if it does not by default.
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


def transforms(config: Config, batch: int, **changes: Any) -> Work | None:
    """Returns the transform of each of a network's `layers`, for a batch of examples; None if it has none.

    Args:
      config: the configuration of the network.
      batch: number of examples.
      changes: changed fields of the mixer.
    """
    return work(config.model.mixer.to_dict() | changes, batch, tokens(config), config.model.d)


def layers(config: Config) -> int:
    """Counts the blocks with the configuration's mixer; the others of a layout are not counted."""
    return model.layout(config.model).count(config.model.mixer.name)


def work(fields: dict[str, Any], b: int, t: int, d: int) -> Work | None:
    """Returns the transform of a mixer with these fields on (b, t, d); None if it has none."""
    makers = {"fourier": _fourier, "circular": _circular, "lambda": _lambda}
    makers |= dict.fromkeys(("global_filter", "afno", "long_conv"), _spectral)
    return makers[fields["name"]](fields, b, t, d) if fields["name"] in makers else None


def _fourier(fields: dict[str, Any], b: int, t: int, d: int) -> Work:
    grid = tuple(fields["grid"])
    compute = partial(fourier_mix, method=fields["method"])
    if grid:
        compute = partial(fourier_mix_grid, grid=grid, features=fields["features"])

    def planned(engine: Engine) -> Plan:
        if grid:
            raise ValueError(f"grid={grid} has no optical form; use grid=()")
        return plan("fourier_mix", (b, t, d), engine, prefer=fields["prefer"])

    axes = "F_rows F_columns" if grid else "F_t"
    return Work(
        title=f"Re {axes}{' F_d' if fields['features'] else ''} of {b} x {(*(grid or (t,)), d)}",
        compute=compute,
        arrays=[(b, t, d)],
        plan=planned,
        values=2 * b * t * d,
    )


def _circular(fields: dict[str, Any], b: int, t: int, d: int) -> Work:
    shape = tuple(fields["shape"] or ()) or None
    taps = tuple(fields["kernel"] or shape or (d,))
    kernel = (3 * fields["heads"], *taps)  # of queries, keys and values
    options = {"shape": shape, "boundary": fields["boundary"]}
    compute = partial(circular_correlate, **options)
    tokens = jax.ShapeDtypeStruct((b, t, d), jnp.float32)
    out = jax.eval_shape(compute, tokens, jax.ShapeDtypeStruct(kernel, jnp.float32))
    return Work(
        title=f"correlations of {b * t} tokens with {kernel[0]} kernels of {_product(taps)} taps",
        compute=compute,
        arrays=[(b, t, d), kernel],
        plan=lambda engine: plan(
            "circular_correlate", (b, t, d), engine, kernel=kernel, prefer=fields["prefer"], **options
        ),
        values=b * t * d + out.size,
        explicit=(("method", "literal"),),
    )


def _lambda(fields: dict[str, Any], b: int, t: int, d: int) -> Work:
    h, k, u = fields["heads"], fields["k"], fields["u"]
    v = d // h
    grid = tuple(fields["grid"]) or None
    causal = fields["causal"]
    taps = _lambda_taps(fields, t)
    position = (*taps, k, u)
    apply = partial(lambda_layer, grid=grid, causal=causal, method=fields["method"])

    def planned(engine: Engine) -> Plan:
        if causal:
            raise ValueError("causal=True has no optical form; use causal=False")
        shapes = {"kernel": position, "shape": grid}
        return plan("position_lambda", (b, t, v, u), engine, prefer=fields["prefer"], **shapes)

    return Work(
        title=f"lambdas: {b * v * u} signals of {t} with {k} kernels of {_product(taps)} taps",
        compute=apply,
        arrays=[(b, t, h, k), (b, t, k, u), (b, t, v, u), position],
        plan=planned,
        values=b * t * v * (u + k),
        without=lambda query, key, value, position: apply(query, key, value, None),
        after=partial(jnp.einsum, "bthk,bvktu->bthv"),
        after_arrays=[(b, t, h, k), (b, v, k, t, u)],
    )


def _spectral(fields: dict[str, Any], b: int, t: int, d: int) -> Work:
    """Describes the transforms of a mixer that `fourier_attn.optics.through` puts on an engine."""
    exact = {name: value for name, value in fields.items() if name not in model.engine_fields(fields["name"])}
    layer = model.mixer_factory(exact)()
    tokens = jax.ShapeDtypeStruct((b, t, d), jnp.float32)
    weights = jax.eval_shape(layer.init, jax.random.key(0), tokens)

    def apply(x: jax.Array, weights: Any) -> Any:
        return layer.apply(weights, x)

    def planned(engine: Engine) -> Plan:
        if exact.get("causal"):
            raise ValueError("causal=True has no optical form; use causal=False")
        rules = (Rule(engine, prefer=fields["prefer"]),)
        return plan_program(apply, (tokens, weights), engine, rules=rules, argnums=0)

    sites = call_sites(apply, (tokens, weights), argnums=0)
    sizes = sites[0].sizes

    def compute(x: jax.Array) -> jax.Array:
        return irfftn(rfftn(x, sizes), sizes)

    return Work(
        title=f"F and F^-1 of {b * d} signals of {_product(sizes)}",
        compute=compute,
        arrays=[(b, d, *sizes)],
        plan=planned,
        values=4 * b * d * math.prod(sizes),
    )


def _lambda_taps(fields: dict[str, Any], t: int) -> tuple[int, ...]:
    """Returns the taps of the table of positions that `LambdaLayer` uses for t tokens."""
    grid, context, length = tuple(fields["grid"]), fields["context"], fields["length"]
    if fields["causal"]:
        return (min(context or length, t),)
    if context:
        return (context,) * len(grid or (t,))
    if grid:
        return tuple(2 * n - 1 for n in grid)
    return (2 * length - 1,)


def _product(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))
