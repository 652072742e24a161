"""Puts an engine under a JAX function: its transforms and convolutions are computed optically."""

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array

from fourier_attn.choices import check_choice
from fourier_attn.optics.engine_spec import SCOPE, Engine
from fourier_attn.optics.programs.call_sites import (
    EMPTY,
    POINT,
    TRANSPARENT,
    Address,
    body,
    find,
    manual_axes,
    platform_branch,
    scanned,
    solution,
)
from fourier_attn.optics.programs.derivatives import Values, exact, with_cotangents, with_tangents
from fourier_attn.optics.programs.rules import Choice, Rule, as_rules, choose
from fourier_attn.optics.programs.transforms import run_site
from fourier_attn.optics.random import Key, stream
from fourier_attn.optics.ranges import uncalibrated, with_full_scales

DERIVATIVES = ("keep", "inline")
Ranges = Mapping[str, Mapping[str, Any]]
Watch = Callable[..., None]  # gets a call site, its operands, its exact result and its optical one


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
    `custom_jvp`, `custom_vjp`, `custom_linear_solve`, `custom_vmap` and `custom_partitioning`. Of the
    branches of `platform_dependent` the one with most call sites is taken on all platforms. Each call site
    has noise of its own, in every step of a loop. Under `vmap` all examples share it. Pass keys through
    `vmap` for others: `jax.vmap(lambda key, x: through(f, engine, key=key)(x))`.

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
    """Returns numbers of arguments as a set; None: all arguments.

    Raises: ValueError for something that is not a whole number.
    """
    if argnums is None:
        return None
    numbers = argnums if isinstance(argnums, Iterable) and np.ndim(argnums) else (argnums,)
    try:
        return frozenset(operator.index(number) for number in numbers)
    except TypeError:
        raise ValueError(f"argnums={argnums!r} must be a whole number, or several of them") from None


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
    if jnp.issubdtype(getattr(key, "dtype", None), jax.dtypes.prng_key):
        return key.ndim == 0
    return getattr(key, "dtype", None) == jnp.uint32 and key.ndim == 1


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


class Run:
    """Runs a program, with its optical call sites on their engines.

    Args:
      optical: optical call sites by their addresses.
      keep: whether functions keep their own rules of derivatives.
      watch: gets each optical call site with its operands, its exact result and its optical one; None: no.
    """

    def __init__(self, optical: Mapping[Address, Choice], keep: bool, watch: Watch | None = None):
        self.optical = optical
        self.keep = keep
        self.watch = watch
        self.around = {address[:n] for address in optical for n in range(1, len(address))}

    def program(self, program: core.ClosedJaxpr, values: Values, address: Address, key: Key) -> list[Any]:
        """Runs a program that contains optical call sites.

        Args:
          program, values: the traced function, and the arrays of its arguments.
          address, key: place in the nested programs, () for the outermost; PRNG key of the noise.
        """
        jaxpr = program.jaxpr
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
        known.update(zip(jaxpr.invars, values, strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, core.Literal) else known[atom]

        for number, equation in enumerate(jaxpr.eqns):
            inputs = [read(atom) for atom in equation.invars]
            results = self._equation(equation, inputs, (*address, number), key)
            known.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        if address in self.optical:
            site, light = self.optical[address].site, self.optical[address].light
            assert light is not None
            own = None if key is None else jax.random.fold_in(stream(key, "call site"), site.index)
            with jax.named_scope(f"{SCOPE}_{site.kind}_{site.index}"):
                y = run_site(site, [jnp.asarray(x) for x in inputs], light, own)
            y = y.astype(equation.outvars[0].aval.dtype)
            if self.watch is not None:
                self.watch(site, inputs, exact(equation, inputs)[0], y)
            return [y]
        if address not in self.around:
            return exact(equation, inputs)
        return getattr(self, _RUNS[equation.primitive.name])(equation, inputs, address, key)

    def _inline(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        return self.program(body(equation), inputs, (*address, 0), key)

    def _checkpoint(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        params = equation.params
        again = jax.checkpoint(
            lambda *values: self._inline(equation, values, address, key),
            prevent_cse=params["prevent_cse"],
            policy=params["policy"],
        )
        return again(*inputs)

    def _shard_map(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        params = equation.params
        mapped = jax.shard_map(
            lambda *values: self._inline(equation, values, address, key),
            mesh=params["mesh"],
            in_specs=tuple(params["in_specs"]),
            out_specs=list(params["out_specs"]),
            axis_names=manual_axes(equation),
            check_vma=params["check_vma"],
        )
        return mapped(*inputs)

    def _custom_jvp(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        if not self.keep:
            return self._inline(equation, inputs, address, key)
        return with_tangents(equation, lambda key, *x: self._inline(equation, x, address, key), key, inputs)

    def _custom_vjp(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        if not self.keep:
            return self._inline(equation, inputs, address, key)
        return with_cotangents(equation, lambda key, *x: self._inline(equation, x, address, key), key, inputs)

    def _solve(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        def light(key: Key, *inputs: Any) -> Values:
            program, consts, operands = solution(equation, inputs)
            return self.program(program, [*consts, *operands], (*address, 0), key)

        return with_tangents(equation, light, key, inputs)

    def _cond(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        def branch(number: int) -> Callable[..., Values]:
            program = equation.params["branches"][number]
            return lambda *values: self.program(program, values, (*address, number), key)

        which, *operands = inputs
        only = platform_branch(equation)
        if only is not None:
            return branch(only)(*operands)
        branches = [branch(number) for number in range(len(equation.params["branches"]))]
        return jax.lax.switch(jnp.asarray(which, jnp.int32), branches, *operands)

    def _scan(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        params, (program, first, last) = equation.params, scanned(equation)
        consts, carry, rows = inputs[:first], inputs[first:last], inputs[last:]

        def step(carry: Values, numbered: tuple[Array, Values]) -> tuple[Values, Values]:
            number, row = numbered
            values, own = [*consts, *carry, *row], _step_key(key, number)
            results = self.program(program, values, (*address, 0), own)
            return results[: last - first], results[last - first :]

        numbers = jnp.arange(params["length"])
        carry, rows = jax.lax.scan(
            step,
            list(carry),
            (numbers, list(rows)),
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        return [*carry, *rows]

    def _while(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        params = equation.params
        tests, first = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

        def run(number: int, consts: Values, state: tuple[Array, Values]) -> Values:
            step, values = state
            program = params["body_jaxpr" if number else "cond_jaxpr"]
            own = _step_key(key, 2 * step + number)
            return self.program(program, [*consts, *values], (*address, number), own)

        def condition(state: tuple[Array, Values]) -> Array:
            return run(0, inputs[:tests], state)[0]

        def step(state: tuple[Array, Values]) -> tuple[Array, Values]:
            values = run(1, inputs[tests:first], state)
            if params["cond_jaxpr"].out_avals[0].ndim:  # under `vmap`: finished examples keep their values
                values = _selected(condition(state), values, state[1])
            return state[0] + 1, values

        state = (jnp.zeros((), jnp.int32), list(inputs[first:]))
        return jax.lax.while_loop(lambda state: jnp.any(condition(state)), step, state)[1]


def _selected(flags: Array, new: Values, old: Values) -> Values:
    """Returns the new values of examples whose flag is set, and the old values of the others."""
    select = jax.lax.select
    for _ in range(flags.ndim):
        select = jax.vmap(select)
    return [select(flags, one, other) for one, other in zip(new, old, strict=True)]


# The method that runs each kind of equation with programs of its own.
_RUNS = dict.fromkeys(TRANSPARENT, "_inline") | {
    "checkpoint": "_checkpoint",
    "remat2": "_checkpoint",
    "custom_jvp_call": "_custom_jvp",
    "custom_vjp_call": "_custom_vjp",
    "custom_linear_solve": "_solve",
    "cond": "_cond",
    "scan": "_scan",
    "while": "_while",
    "shard_map": "_shard_map",
}


def _step_key(key: Key, step: Array) -> Key:
    """Returns the key of a step of a loop."""
    return None if key is None else jax.random.fold_in(stream(key, "step"), step)
