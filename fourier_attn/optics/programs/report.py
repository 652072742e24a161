"""Reports what an engine would take for a JAX function: call site by call site, in seconds and joules."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.extend import core

from fourier_attn.columns import aligned
from fourier_attn.optics import components, cost
from fourier_attn.optics.components import CORNERS, Library
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.frame import frame
from fourier_attn.optics.planner import Plan
from fourier_attn.optics.programs.call_sites import CallSite, body, convolved_places, platform_branch, shards
from fourier_attn.optics.programs.rules import Choice, Rule, as_rules
from fourier_attn.optics.programs.through import as_argnums, check_optical, trace
from fourier_attn.optics.programs.transforms import add

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BYTES = {"fft": 16, "ifft": 16, "rfft": 8, "irfft": 8}  # of a point that is read and written once
Range = Mapping[str, float]  # at the corners "low", "typical" and "high" of the component library


@dataclasses.dataclass(frozen=True)
class Row:
    """Describes one call site in a report.

    Args:
      site: the call site.
      passes: passes through the engine, of all its runs; 0: it is exact.
      stages: rounds of passes that wait for each other, of all its runs.
      seconds, joules: on the engine at the corners of the component library. {} where it is exact;
        `joules` is {} too for an engine without converters, which has no energy.
      electronic_s, electronic_j: of the reference GPU, typical.
      why: reason for which it is exact; "" if it is optical.
    """

    site: CallSite
    passes: int
    stages: int
    seconds: Range
    joules: Range
    electronic_s: float
    electronic_j: float
    why: str


@dataclasses.dataclass(frozen=True)
class Report:
    """Describes a function on an engine. `print(report)` shows a table, `report.plot()` a figure.

    Args:
      rows: the call sites, in the order of the program.
      share: share of the function's time on the reference GPU that optical call sites take.
      measured: whether the share was given; otherwise it is an estimate from operations and bytes.
    """

    rows: tuple[Row, ...]
    share: float
    measured: bool

    @property
    def optical(self) -> tuple[Row, ...]:
        """Returns the rows of call sites on the engine."""
        return tuple(row for row in self.rows if row.seconds)

    def total(self, quantity: str) -> dict[str, float]:
        """Returns the time or the energy of all optical call sites together, at each corner.

        Args:
          quantity: "seconds" or "joules".
        """
        values = [getattr(row, quantity) for row in self.optical]
        return (
            {corner: sum((value[corner] for value in values), 0.0) for corner in CORNERS}
            if all(values)
            else {}
        )

    @property
    def bound(self) -> float:
        """Returns the largest speed-up of the whole, $1 / (1 - f)$, where optics takes no time."""
        return cost.speedup(self.share, math.inf)

    def speedup(self, corner: str = "typical") -> float:
        """Returns the speed-up of the whole: $1 / (1 - f + f t_optical / t_electronic)$, f the share.

        Args:
          corner: "low", "typical" or "high" prices of the engine's components. Default "typical".
        """
        if not self.optical:
            return 1.0
        electronic = sum(row.electronic_s for row in self.optical)
        return cost.speedup(self.share, electronic / self.total("seconds")[corner])

    def to_dict(self) -> dict[str, Any]:
        """Returns all numbers, for a JSON file."""
        rows = []
        for row in self.rows:
            numbers = {name: getattr(row, name) for name in Row.__dataclass_fields__ if name != "site"}
            site = {name: getattr(row.site, name) for name in ("label", "kind", "line", "scope", "repeats")}
            rows.append(site | {"sizes": list(row.site.sizes)} | numbers)
        facts = {"share": self.share, "share_is_measured": self.measured, "bound": self.bound}
        facts |= {name: self.total(name) for name in ("seconds", "joules")}
        return facts | {"speedup": {corner: self.speedup(corner) for corner in CORNERS}, "rows": rows}

    def __str__(self) -> str:
        heads = [
            "call site",
            "runs",
            "arrays",
            "passes",
            "stages",
            "seconds",
            "joules",
            "GPU s",
            "GPU J",
            "line",
        ]
        cells = [heads, *(_cells(row) for row in self.rows)]
        joules = self.total("joules")
        source = "given" if self.measured else "estimated from operations and bytes"
        lines = [
            *aligned(cells),
            f"all optical call sites: {_range(self.total('seconds'))} s, {_range(joules)} J"
            if joules
            else f"all optical call sites: {_range(self.total('seconds'))} s; no energy without converters",
            f"their share of the time on a GPU: {100 * self.share:.3g} % ({source})",
            f"speed-up of the whole: at most {self.bound:.3g} (no time for optics), "
            f"{self.speedup():.3g} with this engine",
        ]
        return "\n".join(lines)

    def plot(self) -> "Figure":
        """Returns a figure: seconds and joules of each optical call site, with those of the GPU."""
        from fourier_attn import style

        return style.styled()(self._draw)(style.figure(height=1.6 + 0.3 * len(self.optical)))

    def _draw(self, figure: "Figure") -> "Figure":
        panels = figure.subplots(1, 2, sharey=True)
        for axes, quantity, name in zip(panels, ("seconds", "joules"), ("Time, s", "Energy, J"), strict=True):
            self._panel(axes, quantity, name)
        panels[0].set_yticks(range(len(self.optical)), [row.site.label for row in self.optical])
        panels[0].invert_yaxis()
        panels[0].set_ylabel("Call site")
        panels[1].legend(loc="best")
        return figure

    def _panel(self, axes: Any, quantity: str, name: str) -> None:
        places = np.arange(len(self.optical))
        ends = [getattr(row, quantity) for row in self.optical]
        if all(ends):
            low, middle, high = ([end[corner] for end in ends] for corner in CORNERS)
            errors = np.abs(np.array([np.subtract(middle, low), np.subtract(high, middle)]))
            axes.errorbar(middle, places, xerr=errors, fmt="o", label="Engine (low to high)")
        gpu = [getattr(row, f"electronic_{quantity[0]}") for row in self.optical]
        axes.plot(gpu, places, "x", label="GPU, estimate")
        axes.set_xscale("log")
        axes.set_xlabel(name)


def report(
    f: Callable[..., Any],
    args: Sequence[Any],
    engine: Engine | str,
    *,
    kwargs: Mapping[str, Any] | None = None,
    rules: Iterable[Any] = (),
    argnums: int | Sequence[int] | None = None,
    share: float | None = None,
    library: str | Path | None = None,
) -> Report:
    """Reports call sites, passes, seconds and joules of a function on an engine. Nothing is computed.

        >>> x = jnp.ones((8, 11, 11))
        >>> report(jnp.fft.fft2, (x,), "chip_11x11").rows[0].passes
        8

    Without `share`, the time of the function on a GPU is estimated: each product, convolution and transform
    takes as long as its operations or the bytes of its operands and results, whichever is longer; everything
    else takes no time. The share of the transforms is then too large, and `Report.bound` is an upper bound.
    Give a measured share for a better one.

    Args:
      f: the function, as in `fourier_attn.optics.through`.
      args: its arguments, arrays or `jax.ShapeDtypeStruct`.
      engine: engine or name of a preset.
      kwargs: its keyword arguments. Default none.
      rules, argnums: as in `fourier_attn.optics.through`.
      share: measured share of the function's time that its optical call sites take, 0 to 1. Default None,
        an estimate.
      library: TOML file that changes components, see `fourier_attn.optics.components`. Default None.
    Raises: ValueError for a function without a transform, for rules that name no call site, and for a share
      outside 0 to 1.
    """
    if share is not None:
        cost.check("share", share, 0, 1)
    traced = trace(f, args, kwargs or {}, as_rules(engine, rules), as_argnums(argnums))
    if not traced.choices:
        raise ValueError("the function has no transform and no convolution; there is nothing to report")
    parts = components.library(None if library is None else Path(library))
    rows = tuple(_row(choice, parts) for choice in traced.choices)
    if share is not None:
        return Report(rows, share, True)
    prices = components.prices("typical", parts)
    whole = sum(cost.electronic_seconds(moved, flop, prices) for moved, flop in products(traced.program))
    whole += sum(row.electronic_s for row in rows if row.site.kind != "matrix")  # which is a product
    optical = sum(row.electronic_s for row in rows if row.seconds)
    return Report(rows, min(1.0, optical / whole) if whole else 0.0, False)


def call_sites(
    f: Callable[..., Any], args: Sequence[Any], *, argnums: int | Sequence[int] | None = None
) -> list[CallSite]:
    """Returns the call sites of a function that depend on its data.

    Args:
      f: the function.
      args: its arguments, arrays or `jax.ShapeDtypeStruct`.
      argnums: numbers of the arguments that are data. Default None, all.
    """
    traced, data = trace(f, args, {}, (Rule(None),)), as_argnums(argnums)
    sites = [choice.site for choice in traced.choices]
    return [site for site in sites if data is None or data & site.arguments]


def plan_program(
    f: Callable[..., Any],
    args: Sequence[Any],
    engine: Engine | str,
    *,
    rules: Iterable[Any] = (),
    argnums: int | Sequence[int] | None = None,
) -> Plan:
    """Returns what all optical call sites of a function take together, see `fourier_attn.optics.plan`.

    Args:
      f: the function.
      args: its arguments, arrays or `jax.ShapeDtypeStruct`.
      engine: engine or name of a preset.
      rules, argnums: as in `fourier_attn.optics.through`.
    Raises: ValueError for a function without a call site for the engine.
    """
    traced = trace(f, args, {}, as_rules(engine, rules), as_argnums(argnums))
    check_optical(traced)
    plans = []
    for site, _, plan, _ in traced.choices:
        if plan is not None:
            plans += [plan] * (1 if site.repeats is None else site.repeats)
    return functools.reduce(add, plans) if plans else Plan(0, 0, 0, "")


def _row(choice: Choice, library: Library) -> Row:
    site, prices = choice.site, components.prices("typical", library)
    moved, flop = site_work(site)
    times = 1 if site.repeats is None else site.repeats
    electronic = {
        "electronic_s": times * cost.electronic_seconds(moved, flop, prices),
        "electronic_j": times * cost.electronic_energy(moved, flop, prices),
    }
    if choice.light is None or choice.plan is None:
        return Row(site, 0, 0, {}, {}, **electronic, why=choice.why)
    engine, load = choice.light.engine, choice.plan.load(times)
    stages = times * choice.plan.stages
    seconds, joules = {}, {}
    for corner in CORNERS:
        prices = components.prices(corner, library)
        seconds[corner] = cost.seconds(engine, stages=stages, prices=prices, **load).total
        if _priced(engine):
            joules[corner] = cost.energy(engine, prices=prices, **load).total
    return Row(site, times * choice.plan.passes, stages, seconds, joules, **electronic, why="")


def _priced(engine: Engine) -> bool:
    """Says whether an engine has the converters and detectors that an energy is made of."""
    return not cost.no_energy(frame(engine))


def site_work(site: CallSite) -> tuple[float, float]:
    """Returns the bytes and the real operations of one run of a call site on electronics."""
    points = site.arrays * math.prod(site.sizes)
    if site.kind == "matrix":
        return 16.0 * points + 8 * math.prod(site.kernel), 8.0 * points * site.sizes[0]
    if site.kind != "conv":
        real = 0.5 if site.kind in ("rfft", "irfft") else 1.0
        return float(BYTES[site.kind] * points), real * 5 * points * math.log2(max(2, math.prod(site.sizes)))
    outputs = site.params["dimension_numbers"].rhs_spec[0]
    results = site.shape[site.params["dimension_numbers"].lhs_spec[0]] * site.kernel[outputs]
    results *= math.prod(convolved_places(site.sizes, site.kernel, site.params))
    taps = math.prod(site.kernel) / site.kernel[outputs]
    return 4.0 * (math.prod(site.shape) + math.prod(site.kernel) + results), 2.0 * results * taps


def products(program: core.ClosedJaxpr) -> list[tuple[float, float]]:
    """Returns bytes and real operations of each product of matrices in a traced function.

    What a `while_loop` repeats counts once, and so does each branch of a condition.

    Args:
      program: the traced function.
    """
    return list(_products(program.jaxpr, 1))


def _products(jaxpr: Any, times: int) -> Iterator[tuple[float, float]]:
    for equation in jaxpr.eqns:
        name, shapes = equation.primitive.name, [atom.aval for atom in (*equation.invars, *equation.outvars)]
        moved = float(sum(math.prod(a.shape) * a.dtype.itemsize for a in shapes if hasattr(a, "shape")))
        if name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            summed = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            yield times * moved, times * 2.0 * summed * math.prod(equation.outvars[0].aval.shape)
        elif name == "cond":
            only = platform_branch(equation)
            branches = equation.params["branches"]
            for branch in branches if only is None else branches[only : only + 1]:
                yield from _products(branch.jaxpr, times)
        elif name == "shard_map":
            yield from _products(body(equation).jaxpr, times * shards(equation))
        elif name == "scan":
            yield from _products(body(equation).jaxpr, times * equation.params["length"])
        elif name in ("custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "custom_partitioning"):
            yield from _products(body(equation).jaxpr, times)
        else:
            for inner in core.jaxprs_in_params(equation.params):
                yield from _products(inner, times)


def _cells(row: Row) -> list[str]:
    site = row.site
    runs = "?" if site.repeats is None else str(site.repeats)
    optical = [f"{row.passes:,}", f"{row.stages:,}", f"{_range(row.seconds)}", f"{_range(row.joules)}"]
    cells = optical if row.seconds else [f"exact: {row.why}", "", "", ""]
    electronic = [f"{row.electronic_s:.3g}", f"{row.electronic_j:.3g}"]
    return [site.label, runs, f"{site.arrays:,}", *cells, *electronic, site.line]


def _range(values: Range) -> str:
    if not values:
        return "-"
    return f"{values['typical']:.3g} ({values['low']:.3g} to {values['high']:.3g})"
