"""Searches engines for the best accuracy of a trained network at each energy.

    python -m fourier_attn.studies.engine.pareto --workdir=RUN [options]

Searched together: bits of all converters, slices, averages, optical power and plan. Every combination is
evaluated on the first --search_examples of the validation split. The best --keep of them are then evaluated
on the test split, on --devices devices each, so no reported accuracy has been used to choose. The engine is
--engine=PRESET, or else the run's own, or else chip_11x11.

Joules are those of an example's transforms in the batches in which they are evaluated, where two examples may
share a pass, with the prices of the component library (all low, typical, all high). For comparison, the same
transforms are timed on this machine's processor, whose watts are read by RAPL if possible, or else cited. All
else that the network computes is electronic in either case.

Writes NAME.json and NAME.png into the run's directory, for --out=NAME.

    python -m fourier_attn.studies.engine.pareto --measured=FILE --config=FILE[:task] --out=NAME [options]

computes the joules of an earlier result again, with today's plans and prices. Accuracies and the processor's
joules stay as they were measured. The configuration is the network's.
"""

import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags
from tqdm import tqdm

from fourier_attn import command, config_flag, model, paths, provenance, style
from fourier_attn.choices import check_choices
from fourier_attn.config import Config, fit_grid, tokens
from fourier_attn.optics import Engine, components, presets
from fourier_attn.optics.coherence import is_coherent
from fourier_attn.optics.field_units import photons_per_mac
from fourier_attn.optics.transform_plan import PREFER
from fourier_attn.studies import runs
from fourier_attn.studies.engine import frontier
from fourier_attn.studies.engine.evaluator import EngineEvaluator
from fourier_attn.studies.engine.projection import Options, energy_at_corners
from fourier_attn.studies.engine.robustness import number
from fourier_attn.studies.engine.step_timing import measure
from fourier_attn.studies.engine.workload import Work, layers, transforms


class Choice(NamedTuple):
    """Holds the settings of an engine that the study searches over.

    Args:
      prefer: the plan with fewer passes, or with less error.
      bits: bits of all converters.
      slices, averages: passes for the digits of a number, and passes whose mean is taken.
      power: times the engine's optical power.
    """

    prefer: str
    bits: int
    slices: int
    averages: int
    power: float

    def engine(self, base: Engine, device: int = 0) -> Engine:
        """Returns the engine with these settings, as its device of that number."""
        changed = presets.scaled(base, self.bits, 1.0, device)
        changed = changed.replace(slices=self.slices, averages=self.averages)
        return changed.with_photons(changed.photons * self.power)


def define_flags() -> None:
    runs.define_flags()
    flags.DEFINE_string(
        "engine", None, "preset, or file of a measured device, to start from instead of the run's engine"
    )
    flags.DEFINE_list("shape", [], "ROWS,COLUMNS of the aperture; default: those of the engine")
    flags.DEFINE_list(
        "prefer", list(PREFER), "plans to search: passes (fewest passes) and error (smallest error)"
    )
    flags.DEFINE_list("bits", ["4", "6", "8"], "bits of all converters to search")
    flags.DEFINE_list("slices", ["1", "2"], "numbers of slices to search: passes for the digits of a number")
    flags.DEFINE_list("averages", ["1", "4"], "numbers of averaged passes to search")
    flags.DEFINE_list(
        "power", ["0.01", "0.1", "1", "10"], "factors on the optical power of the engine to search"
    )
    flags.DEFINE_integer("search_examples", 500, "number of validation examples to search on", lower_bound=1)
    flags.DEFINE_integer("examples", 2000, "limit the number of test examples (0: all)", lower_bound=0)
    flags.DEFINE_integer("keep", 12, "number of engines to evaluate on the test split", lower_bound=1)
    flags.DEFINE_integer("devices", 3, "number of device seeds per engine", lower_bound=1)
    flags.DEFINE_float(
        "seconds", 5.0, "duration of the timing of the electronic transforms, s", lower_bound=0
    )
    flags.DEFINE_string("components", None, "TOML file with components that replace those of the library")
    config_flag.define_flag("with --measured: the network's configuration")
    flags.DEFINE_string("measured", None, "JSON file of an earlier result, to compute its energies again")
    flags.DEFINE_string(
        "data_dir", None, "directory of the TFDS data sets; default: that of the run's configuration"
    )
    flags.DEFINE_string(
        "out", "pareto", "name of the results in the run's directory; .json and .png are added"
    )


def main() -> None:
    """Searches, evaluates, and writes the results; or computes joules again."""
    options, choices = flags.FLAGS, grid()
    network = config_flag.given()
    own = None if options.components is None else paths.given(options.components)
    prices = Options(library=components.library(own))
    if options.measured is not None:
        if network is None:
            raise ValueError(f"--measured={options.measured} needs the network, --config=FILE[:task]")
        out = paths.stem(options.out, "--out")
        config = fit_grid(network)
        base = base_engine(model.engine_of(config.model.mixer))
        document = again(paths.given(options.measured), config, base, prices)
        write(document, out.with_name(f"{out.name}.json"), out.with_name(f"{out.name}.png"))
        return
    [directory] = runs.directories()
    table, picture = runs.new_files(directory / paths.stem(options.out, "--out"))
    finder = EngineEvaluator(directory, options.data_dir, options.search_examples)
    if finder.public != "test":
        raise ValueError(
            f"workdir={directory} has a task whose test labels are not public, so that nothing would be left "
            "to evaluate what was chosen; name a run on another task"
        )
    base = base_engine(finder.engine)
    presets.check_variants(base, options.devices)
    if base.photons is None:
        raise ValueError("this engine has no optical power to choose; name another one, --engine=chip_11x11")
    evaluator = EngineEvaluator(directory, options.data_dir, options.examples)
    here = electronic(evaluator, options.seconds, prices)
    rows = [
        row | {"part": "searched"} for row in search(finder, base, distinct(finder, base, choices), prices)
    ]
    chosen = frontier.nearest(rows, options.keep)
    count = len(evaluator.splits["test"].labels)
    exact = evaluator.exact("test")
    rows += [{"part": "exact", "accuracy": exact, "examples": count}]
    for row in tqdm(chosen, unit="engine"):
        tested = on_devices(evaluator, base, Choice(*(row[name] for name in Choice._fields)), options.devices)
        rows.append(row | tested | {"part": frontier.TESTED, "examples": count})
    rows.append(here | {"accuracy": exact})
    config = evaluator.config
    setting = (
        f"{evaluator.name}: {layers(config)} layers of {config.model.mixer.name}, {tokens(config)} tokens, "
        f"d = {config.model.d}, on "
        f"{base.shape[0]} x {base.shape[1]} pixels"
    )
    document = provenance.record() | {"setting": setting, "networks": [evaluator.facts()], "rows": rows}
    write(document, table, picture)


def write(document: dict[str, Any], table: Path, picture: Path) -> None:
    """Writes the numbers and the figure, and prints the table.

    Args:
      document: the results.
      table: path of the JSON file.
      picture: path of the figure.
    """
    provenance.write(table, document)
    style.save(frontier.plot(document), picture)
    print(frontier.table(document["rows"]))
    print(f"written to {table} and {picture.name}")


def base_engine(own: Engine | None) -> Engine:
    """Returns the engine of --engine, else the run's own or chip_11x11, with the aperture of --shape."""
    options = flags.FLAGS
    base = own or presets.preset("chip_11x11")
    base = base if options.engine is None else presets.preset(options.engine)
    if options.shape:
        base = base.replace(shape=tuple(int(number("shape", side, int)) for side in options.shape))
    return base


def again(file: Path, config: Config, base: Engine, prices: Options) -> dict[str, Any]:
    """Returns an earlier result with the energy of today's plans and prices.

    Args:
      file: the earlier result.
      config: of the network.
      base: the engine of that result.
      prices: options with the component library.
    Raises: ValueError for a file that is not such a result, or is one of another network or engine.
    """
    try:
        document = json.loads(file.read_text())
        measured = document.get("measured") or {
            k: v for k, v in document.items() if k not in ("setting", "rows")
        }
        for row in document["rows"]:
            if row["part"] in ("searched", frontier.TESTED):
                costs = spent(config, base, Choice(*(row[name] for name in Choice._fields)), prices)
                if not all(
                    math.isclose(costs[name], row[name], rel_tol=1e-6) for name in ("passes", "photons")
                ):
                    raise ValueError(f"today {costs['passes']:g} passes with {costs['photons']:g} photons")
                row |= costs
        setting = document["setting"].split(";")[0]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"--measured={file} is not a result of this network and engine ({error})") from error
    setting += f"; joules of engines computed again, all else of {measured['date'][:10]}"
    return document | provenance.record() | {"setting": setting, "measured": measured}


def grid() -> list[Choice]:
    """Returns all combinations of the flags' values; those that share a program are consecutive.

    Raises: ValueError.
    """
    options = flags.FLAGS
    check_choices("--prefer", options.prefer, PREFER)
    ranges = {"bits": (2, 24), "slices": (1, 64), "averages": (1, 1_000_000)}
    whole = {name: [number(name, text, int) for text in getattr(options, name)] for name in ranges}
    power = [number("power", text, float) for text in options.power]
    for name, (least, most) in ranges.items():
        if not whole[name] or not all(least <= value <= most for value in whole[name]):
            raise ValueError(f"--{name}={whole[name]} must lie from {least} to {most}, one at least")
    if not power or not all(0 < factor < math.inf for factor in power) or not options.prefer:
        raise ValueError(f"--power={power} must be positive, and --prefer={options.prefer} have one at least")
    return [Choice(*values) for values in itertools.product(options.prefer, *whole.values(), power)]


def distinct(evaluator: EngineEvaluator, base: Engine, choices: Sequence[Choice]) -> list[Choice]:
    """Returns the choices, and only one of two if both values of `prefer` give the same plan.

    Args:
      evaluator: evaluates one run through engines.
      base: the engine to start from.
      choices: combinations to try.
    """
    plans = {
        prefer: job_of(evaluator.config, prefer=prefer).plan(base) for prefer in {c.prefer for c in choices}
    }
    kept = {prefer: next(c.prefer for c in choices if plans[c.prefer] == plans[prefer]) for prefer in plans}
    return [choice for choice in choices if kept[choice.prefer] == choice.prefer]


def search(
    evaluator: EngineEvaluator, base: Engine, choices: Sequence[Choice], prices: Options
) -> Iterator[dict[str, Any]]:
    """Yields energy and validation accuracy of each choice; those that differ in power share a program.

    Args:
      evaluator: evaluates one run through engines.
      base: the engine to start from.
      choices: combinations to try.
      prices: options with the component library.
    """
    groups = [list(group) for _, group in itertools.groupby(choices, lambda choice: choice[:-1])]
    for group in tqdm(groups, unit="program"):
        prefer = group[0].prefer
        engines = [choice.engine(base) for choice in group]
        accuracies = evaluator.through(engines, "validation", prefer=prefer)
        for choice, accuracy in zip(group, accuracies, strict=True):
            costs = spent(evaluator.config, base, choice, prices)
            yield {**choice._asdict(), **costs, "validation_accuracy": float(accuracy)}


def spent(config: Config, base: Engine, choice: Choice, prices: Options) -> dict[str, Any]:
    """Returns the photons, also per MAC, the passes and the energy in J of an example's transforms.

    Args:
      config: of the network.
      base: the engine to start from.
      choice: bits, slices, averages, power and plan.
      prices: options with the component library.
    """
    blocks, batch, engine = layers(config), config.data.batch, choice.engine(base)
    plan = job_of(config, prefer=choice.prefer).plan(engine)
    joules = energy_at_corners(engine, plan.load(blocks), prices)
    return {
        "photons": float(engine.photons),
        "photons_per_mac": photons_per_mac(engine)[0] if is_coherent(engine) else None,
        "passes": blocks * plan.passes / batch,
        "joules": {corner: lines["total"] / batch for corner, lines in joules.items()},
    }


def job_of(config: Config, **changes: Any) -> Work:
    """Returns what a layer of the network leaves to an engine, for a batch."""
    job = transforms(config, config.data.batch, **changes)
    assert job is not None  # a mixer with an engine has transforms
    return job


def on_devices(evaluator: EngineEvaluator, base: Engine, choice: Choice, devices: int) -> dict[str, Any]:
    """Returns the test accuracy on each device and their mean.

    Args:
      evaluator: evaluates one run through engines.
      base: the engine to start from.
      choice: bits, slices, averages, power and plan.
      devices: how many are drawn.
    """
    each = [
        evaluator.through([choice.engine(base, device)], "test", device, choice.prefer)[0]
        for device in range(devices)
    ]
    return {"accuracy": float(sum(each) / devices), "devices": [float(value) for value in each]}


def electronic(evaluator: EngineEvaluator, seconds: float, prices: Options) -> dict[str, Any]:
    """Returns the energy in J of an example's transforms on this machine's processor.

    Args:
      evaluator: evaluates one run through engines.
      seconds: for how long power is measured.
      prices: options with the component library.
    """
    config = evaluator.config
    measured = measure(config, job_of(config), seconds, prices.library)
    if measured.power is None:
        raise ValueError("this process computes on an accelerator; start it with JAX_PLATFORMS=cpu")
    took = measured.taken["inference"]
    each = took.transform / config.data.batch
    joules = {corner: each * getattr(measured.power, corner) for corner in components.CORNERS}
    return {
        "part": "electronic",
        "joules": joules,
        "power": measured.power.text,
        "seconds": each,
        "share": took.share,
    }


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
