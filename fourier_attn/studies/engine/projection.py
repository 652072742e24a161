"""Projects the time, the energy and the speed-up of a network with an engine in place of its transforms.

Each with all components at their low, typical and high values; and with one of them changed at a time.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from fourier_attn import model
from fourier_attn.config import Config, fit_grid
from fourier_attn.optics import Engine, Plan, components, cost
from fourier_attn.optics.components import CORNERS, Component, Prices
from fourier_attn.studies.engine.step_timing import MODES, Taken
from fourier_attn.studies.engine.workload import Work, layers, transforms

ANSWERS = ("joules", "seconds", "speedup")
MOVES = 0.005  # a component that moves no answer by more than this share is left out


class Options(NamedTuple):
    """Holds the options that are not part of a configuration.

    Args:
      engines: number of engines in parallel.
      static_w: power of an engine that is always on, W.
      library: library of components.
    """

    engines: int = 1
    static_w: float = 0.0
    library: components.Library = components.library()


class Case(NamedTuple):
    """Holds a network on an engine: the plan of its layers, and the present device's times."""

    engine: Engine
    plan: Plan
    depth: int
    batch: int
    taken: Mapping[str, Taken]
    options: Options

    def times(self, mode: str, prices: Prices) -> dict[str, float]:
        """Returns a batch's time in s, line by line and in total, and its speed-up over this device."""
        took, layers = self.taken[mode], self.depth * MODES[mode]
        spent = cost.seconds(
            self.engine,
            **self.plan.load(layers),
            prices=prices,
            engines=self.options.engines,
            stages=layers * self.plan.stages,
        )
        total = spent.total + took.after
        added = total / took.explicit  # f / a + o, also where f is 0
        faster = cost.speedup(took.share, math.inf, added) * took.step / took.explicit
        digital = spent.digital + took.after
        return {**spent._asdict(), "digital": digital, "total": total, "speedup": faster}

    def energy(self, prices: Prices) -> cost.Energy:
        """Returns the energy of a batch's inference."""
        load = self.plan.load(self.depth)
        return cost.energy(self.engine, **load, prices=prices, static_w=self.options.static_w)

    def answers(self, prices: Prices) -> dict[str, float]:
        """Returns joules and seconds of an example's inference, and the speed-up."""
        times = self.times("inference", prices)
        joules, seconds = self.energy(prices).total / self.batch, times["total"] / self.batch
        return {"joules": joules, "seconds": seconds, "speedup": times["speedup"]}


def make_case(
    config: Config, job: Work, engine: Engine, taken: Mapping[str, Taken], options: Options
) -> Case:
    """Returns the configured network on an engine.

    Args:
      config: of the network.
      job: transforms of the network.
      engine: the engine.
      taken: measured time by mode.
      options: of the study.
    Raises: ValueError if the engine has no plan for it.
    """
    return Case(engine, job.plan(engine), layers(config), config.data.batch, taken, options)


def project(case: Case) -> dict[str, Any]:
    """Returns seconds and joules of a batch at each corner, or the reason why there are no joules."""
    result: dict[str, Any] = {
        "method": case.plan.method,
        "passes_per_example": case.depth * case.plan.passes / case.batch,
    }
    at = {corner: components.prices(corner, case.options.library) for corner in CORNERS}
    for mode in MODES:
        result[mode] = {corner: case.times(mode, prices) for corner, prices in at.items()}
    try:
        result["energy_j"] = energy_at_corners(case.engine, case.plan.load(case.depth), case.options)
    except ValueError as error:
        result["no_energy"] = str(error)
    return result


def energy_at_corners(
    engine: Engine, load: Mapping[str, Any], options: Options
) -> dict[str, dict[str, float]]:
    """Returns the energy in J of a plan, line by line and in total, at low, typical and high prices.

    Args:
      engine: the engine.
      load: arguments of `cost.energy`, from `Plan.load`.
      options: with the component library.
    Raises: ValueError for an engine without energy.
    """
    energies = {}
    for corner in CORNERS:
        prices = components.prices(corner, options.library)
        used = cost.energy(engine, **load, prices=prices, static_w=options.static_w)
        energies[corner] = {**used._asdict(), "total": used.total}
    return energies


def example_joules(config: Config, options: Options) -> dict[str, float] | None:
    """Returns the joules of one example's transforms on a configuration's engine, at each corner.

    It is an example's share of a batch, in which two examples may share a pass. None if all is exact.
    """
    config = fit_grid(config)
    engine = model.engine_of(config.model.mixer)
    job = None if engine is None else transforms(config, config.data.batch)
    if engine is None or job is None:
        return None
    plan = job.plan(engine)
    energies = energy_at_corners(engine, plan.load(layers(config)), options)
    return {corner: lines["total"] / config.data.batch for corner, lines in energies.items()}


def sensitivity(case: Case) -> list[dict[str, Any]]:
    """Returns the answers with one component at its low and at its high value, all others typical.

    Components that move nothing are left out.

    Raises: ValueError for an engine without energy.
    """
    library = case.options.library
    typical = components.prices("typical", library)
    middle = case.answers(typical)
    rows = []
    for name, part in library.items():
        changed = ({**typical, name: value} for value in (part.low, part.high))
        ends = [case.answers(components.CornerPrices(prices, typical)) for prices in changed]
        if any(abs(end[key] - middle[key]) > MOVES * middle[key] for end in ends for key in ANSWERS):
            rows.append({"component": name, **_range(part), "typical_answers": middle, "answers": ends})
    return rows


def _range(part: Component) -> dict[str, Any]:
    return {
        "what": part.what,
        "unit": part.unit,
        "values": [part.low, part.typical, part.high],
        "marks": list(part.marks),
    }


def gpu_joules(values: int, library: components.Library) -> dict[str, float]:
    """Returns the joules by which this many 4-byte numbers cross an A100's memory once, and nothing else."""
    return {
        corner: cost.electronic_energy(4 * values, prices=components.prices(corner, library))
        for corner in CORNERS
    }
