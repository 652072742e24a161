"""Runs a traced function, with its optical call sites on their engines."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array

from fourier_attn.optics.engine_spec import SCOPE
from fourier_attn.optics.programs.call_sites import (
    TRANSPARENT,
    Address,
    body,
    manual_axes,
    platform_branch,
    scanned,
    solution,
)
from fourier_attn.optics.programs.derivatives import Values, exact, with_derivatives
from fourier_attn.optics.programs.rules import Choice
from fourier_attn.optics.programs.transforms import run_site
from fourier_attn.optics.random import Key, stream

Watch = Callable[..., None]  # gets a call site, its operands, its exact result and its optical one


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

    def _custom_rule(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        if not self.keep:
            return self._inline(equation, inputs, address, key)
        forward = equation.primitive.name != "custom_vjp_call"

        def light(key: Key, *inputs: Any) -> Values:
            return self._inline(equation, inputs, address, key)

        return with_derivatives(equation, light, key, inputs, forward=forward)

    def _solve(self, equation: Any, inputs: Values, address: Address, key: Key) -> Values:
        def light(key: Key, *inputs: Any) -> Values:
            program, consts, operands = solution(equation, inputs)
            return self.program(program, [*consts, *operands], (*address, 0), key)

        return with_derivatives(equation, light, key, inputs, forward=True)

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
    "custom_jvp_call": "_custom_rule",
    "linear_map": "_custom_rule",
    "custom_vjp_call": "_custom_rule",
    "custom_linear_solve": "_solve",
    "cond": "_cond",
    "scan": "_scan",
    "while": "_while",
    "shard_map": "_shard_map",
}


def _step_key(key: Key, step: Array) -> Key:
    """Returns the key of a step of a loop."""
    return None if key is None else jax.random.fold_in(stream(key, "step"), step)
