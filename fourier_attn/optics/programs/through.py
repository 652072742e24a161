"""Puts an engine under a JAX function: its transforms and convolutions are computed optically."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from fourier_attn.choices import check_choice
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.programs.call_sites import EMPTY, POINT, Address, find
from fourier_attn.optics.programs.rules import Choice, Rule, as_rules, choose
from fourier_attn.optics.programs.run import Run
from fourier_attn.optics.random import Key
from fourier_attn.optics.ranges import uncalibrated, with_full_scales

DERIVATIVES = ("keep", "inline")
Ranges = Mapping[str, Mapping[str, Any]]


class Traced(NamedTuple):
    """Holds a traced function, and how each of its call sites is computed.

    Args:
      program: the traced function.
      values: the arrays of its arguments.
      tree: structure of its results.
      choices: its call sites.
    """

    program: core.ClosedJaxpr
    values: list[Any]
    tree: Any
    choices: list[Choice]


def through(
    f: Callable[..., Any],
    engine: Engine | str,
    *,
    key: Key = None,
    rules: Iterable[Any] = (),
    ranges: Ranges | None = None,
    argnums: int | Sequence[int] | None = None,
    custom_derivatives: str = "keep",
) -> Callable[..., Any]:
    """Returns a function that computes the same as f, with its transforms and convolutions on an engine.

    It is a transformation of functions, as `jax.grad` is: f is any function of arrays, such as
    `network.apply`, and knows nothing of the engine. Everything that is not a transform stays as it is.

        >>> def blur(image, spectrum):
        ...     return jnp.fft.ifft2(jnp.fft.fft2(image) * spectrum).real
        >>> light = through(blur, Engine(shape=(11, 11)))  # without errors: equal to blur
        >>> light(jnp.ones((11, 11)), jnp.ones((11, 11))).shape
        (11, 11)

    The result can be compiled, differentiated and vectorised. Compile it: otherwise each call traces
    f again. Call sites are found inside `jit`, `checkpoint`, `scan`, `while_loop`, `cond`, `switch`,
    `shard_map`, `custom_jvp`, `custom_vjp`, `custom_linear_solve`, `custom_vmap` and `custom_partitioning`.
    Of the branches of `platform_dependent` the one with most call sites is taken on all platforms. Each call
    site has noise of its own, in every step of a loop. Under `vmap` all examples share it, and under
    `shard_map` all shards do. Pass keys through them for others:
    `jax.vmap(lambda key, x: through(f, engine, key=key)(x))`.

    A nested function that contains a call site is inlined: shardings of its `jit`, and rules of `custom_vmap`
    and `custom_partitioning`, are not kept. Differentiate the result, `jax.grad(through(f, engine))`: in
    `through(jax.grad(f), engine)`, what a `checkpoint` computes again is another call site.

    Args:
      f: function of arrays, in any nesting of containers; other arguments are constants.
      engine: engine or name of a preset, for all call sites that no rule names.
      key: PRNG key of the noise. Default None, enough for an engine without noise.
      rules: which engine computes which call sites; the first rule that holds decides. Default (), all on
        `engine`. Products with a constant DFT matrix are call sites only for a rule with kinds=("matrix",).
      ranges: static full scales of the converters by call site, from `optics.calibrate_ranges`. Default None.
      argnums: number or numbers of the arguments that are data. Call sites that depend on none of them, such
        as spectra of a network's kernels, stay exact: hardware computes them once. Default None, all call
        sites.
      custom_derivatives: derivative of a function with a rule of its own (`jax.custom_vjp`, ..) that contains
        call sites. "keep" is that rule, for the exact function at the same inputs. "inline" ignores the rule
        and differentiates through the engine, as `Engine.backward` says. Default "keep".
    Returns: a function with the arguments and results of f. A call site stays exact where no engine can
      compute it: double precision, more than three axes, no plan for its size, a transposed convolution.
      `optics.report` says why.
    Raises: ValueError, when it is called, for a function without a call site for the engine, for a rule that
      names no call site, for a missing key, and for ranges of other call sites.
    """
    check_choice("custom_derivatives", custom_derivatives, DERIVATIVES)
    if not callable(f):
        raise ValueError(f"f={f!r} is not a function; give one, for example network.apply")
    chosen = as_rules(engine, rules)
    data = as_argnums(argnums)

    @functools.wraps(f, updated=())
    def light(*args: Any, **kwargs: Any) -> Any:
        traced = trace(f, args, kwargs, chosen, data)
        check(traced, key)
        optical = ranged([choice for choice in traced.choices if choice.light is not None], ranges)
        run = Run(optical, custom_derivatives == "keep")
        return jax.tree.unflatten(traced.tree, run.program(traced.program, traced.values, (), key))

    return light


def as_argnums(argnums: int | Sequence[int] | None) -> frozenset[int] | None:
    """Returns numbers of arguments as a set; None: all arguments."""
    if argnums is None:
        return None
    return frozenset(int(number) for number in np.atleast_1d(np.asarray(argnums)))


def trace(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    rules: Sequence[Rule],
    data: frozenset[int] | None = None,
) -> Traced:
    """Traces a function and chooses how each of its call sites is computed.

    Args:
      f: the function.
      args, kwargs: its arguments, arrays or their shapes.
      rules: rules, as `as_rules` returns them.
      data: numbers of the arguments that are data; None: all.
    """
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
    places = [place for place, leaf in enumerate(leaves) if _is_array(leaf)]
    numbers, data = _numbers(f, args, kwargs, data)

    def flat(*arrays: Any) -> Any:
        whole = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            whole[place] = array
        args, kwargs = jax.tree.unflatten(tree, whole)
        return f(*args, **kwargs)

    values = [leaves[place] for place in places]
    program, results = jax.make_jaxpr(flat, return_shape=True)(*values)
    sites = find(program, [numbers[place] for place in places])
    return Traced(program, values, jax.tree.structure(results), choose(sites, rules, data))


def _numbers(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], data: frozenset[int] | None
) -> tuple[list[int], frozenset[int] | None]:
    """Returns the number of the argument of each leaf, and the numbers of the data, counted from 0.

    Raises: ValueError for a number that no argument has.
    """
    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):  # of a function in C, for example
        names = []
    named = {name: names.index(name) if name in names else len(names) + len(args) for name in kwargs}
    places = [*enumerate(args), *((named[name], kwargs[name]) for name in sorted(kwargs))]
    numbers = [number for number, arg in places for _ in jax.tree.leaves(arg)]
    if data is None:
        return numbers, None
    known = {*range(len(args)), *named.values()}
    counted = frozenset(number + len(args) if number < 0 else number for number in data)
    if unknown := counted - known:
        raise ValueError(
            f"argnums has {sorted(unknown)}, but the arguments of this call are {sorted(known)}; give some "
            "of these"
        )
    return numbers, counted


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def check(traced: Traced, key: Key) -> None:
    """Checks that a program has something for an engine, and a key where that is noisy.

    Raises: ValueError.
    """
    engines = check_optical(traced)
    if key is not None and not _is_key(key):
        raise ValueError(
            f"key={key!r} is not a PRNG key; pass key=jax.random.key(0), and use jax.vmap for several"
        )
    if key is None and any(engine.noisy for engine in engines):
        raise ValueError("this engine is noisy: pass key=jax.random.key(...)")


def _is_key(key: Any) -> bool:
    """Says whether a value is one key, of `jax.random.key` or of `jax.random.PRNGKey`."""
    if not hasattr(key, "dtype"):
        return False
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return key.ndim == 0 if typed else key.dtype == jnp.uint32 and key.ndim == 1


def check_optical(traced: Traced) -> list[Engine]:
    """Returns the engines of a program's call sites, which are none where all are empty or single points.

    Raises: ValueError where none has one for another reason.
    """
    name = "the function"
    if not traced.choices:
        raise ValueError(f"{name} has no transform and no convolution; call it without an engine")
    engines = [choice.light.engine for choice in traced.choices if choice.light is not None]
    if not engines and any(choice.why not in (EMPTY, POINT) for choice in traced.choices):
        whys = dict.fromkeys(f"{choice.site.label}: {choice.why}" for choice in traced.choices)
        raise ValueError(
            f"no call site of {name} can go to the engine ({'; '.join(whys)}); change these, or the rules"
        )
    return engines


def ranged(choices: Iterable[Choice], ranges: Ranges | None) -> dict[Address, Choice]:
    """Returns optical call sites by their addresses, with the full scales of their converters.

    Args:
      choices: optical call sites.
      ranges: full scales by the labels of call sites; None: the engines have no calibrated ranges.
    Raises: ValueError for ranges of other call sites, and for missing ones.
    """
    if not isinstance(ranges, Mapping | None):
        raise ValueError(f"ranges={ranges!r} must be what optics.calibrate_ranges returns, or None")
    given, optical = dict(ranges or {}), {}
    for choice in choices:
        assert choice.light is not None
        engine, scales = choice.light.engine, given.pop(choice.site.label, {})
        missing = uncalibrated(engine)
        if not set(missing) <= set(scales):
            raise ValueError(
                f"call site {choice.site.label} has no ranges for its converters {', '.join(missing)}; "
                "pass ranges=optics.calibrate_ranges(f, batches, engine)"
            )
        if missing:
            engine = with_full_scales(engine, {name: scales[name] for name in missing})
        if engine.monitor is not None:
            engine = engine.replace(monitor=functools.partial(engine.monitor, choice.site.label))
        light = choice.light._replace(engine=engine)
        optical[choice.site.address] = choice._replace(light=light)
    if given:
        raise ValueError(
            f"ranges has call sites {', '.join(map(repr, given))}, which this function does not have on the "
            "engine; calibrate them for this function, engine and rules"
        )
    return optical
