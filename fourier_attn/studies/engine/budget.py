"""Prints, plots and saves the budget of an engine: light, time, energy and area in the units of the field.

    python -m fourier_attn.studies.engine.budget --engine=chip_11x11 [--out=NAME] [options]
    python -m fourier_attn.studies.engine.budget --workdir=RUN [--out=NAME] [options]

--engine takes presets and files of measured devices, like chip_11x11:device.npz, several separated by commas.
--workdir takes the engine of a trained run, or that of --engine, and adds what an example of the run takes.

The link budget goes from the laser to the electrons of a detector in dB, and on to the signal over each
noise. Units are photons and joules per multiply-accumulate, and TOPS, also per W and per square millimetre,
with all components at their low, typical and high values. The pipeline lists the stages of a frame and the
part that bounds the rate. A written pixel has the mean level of numbers that are spread evenly over the
modulators' range, or --level. --components=FILE.toml replaces components.

Writes NAME.json and NAME.png for --out=NAME.
"""

import math
import sys
from collections.abc import Mapping
from typing import Any

from absl import flags

from fourier_attn import command, paths, provenance, style
from fourier_attn.columns import aligned
from fourier_attn.config import Config, fit_grid
from fourier_attn.optics import Budget, Engine, budget, components, presets
from fourier_attn.optics.components import CORNERS, Library
from fourier_attn.studies import runs
from fourier_attn.studies.engine import budget_figure
from fourier_attn.studies.engine.evaluator import run_engine
from fourier_attn.studies.engine.projection import Options, energy_at_corners
from fourier_attn.studies.engine.workload import layers, transforms
from fourier_attn.train.rundir import config_file

DEFAULT = "chip_11x11"
# Name of a unit, its factor from SI, and the words for it.
UNITS = {
    "signal_photons": (1.0, "detected photons per MAC, signal"),
    "reference_photons": (1.0, "detected photons per MAC, reference"),
    "photons_per_product": (1.0, "detected photons per real product, signal"),
    "signal_j": (1e18, "optical aJ per MAC, detected signal"),
    "detected_j": (1e18, "optical aJ per MAC, detected with reference"),
    "laser_j": (1e18, "optical aJ per MAC, at the laser's output"),
    "wall_plug_j": (1e18, "electrical aJ per MAC, laser"),
    "processor_j": (1e15, "electrical fJ per MAC, without link and memory"),
    "electrical_j": (1e15, "electrical fJ per MAC, all"),
    "peak_tops": (1.0, "TOPS, overlapped, without link"),
    "sustained_tops": (1.0, "TOPS, overlapped, with link"),
    "sequential_tops": (1.0, "TOPS, one frame after the other"),
    "processor_tops_per_w": (1.0, "TOPS/W, without link and memory"),
    "tops_per_w": (1.0, "TOPS/W, all"),
    "always_on_tops_per_w": (1.0, "TOPS/W, all, with light and receivers always on"),
    "watts": (1.0, "W, all, with light and receivers always on"),
    "tops_per_mm2": (1.0, "TOPS/mm^2, without link"),
}


def define_flags() -> None:
    runs.define_flags()
    flags.DEFINE_list(
        "engine", [], f"presets or files of measured devices; default: the run's, or {DEFAULT} without a run"
    )
    flags.DEFINE_float(
        "level", None, "mean intensity of a written pixel, 0 to 1; default: numbers spread evenly"
    )
    flags.DEFINE_string("components", None, "TOML file with components that replace those of the library")
    flags.DEFINE_string("out", None, "path of the results without a suffix; .json and .png are added")


def main() -> None:
    """Prints the budget of each engine, and writes it."""
    options = flags.FLAGS
    out = runs.new_files(paths.stem(options.out, "--out")) if options.out else None
    own = None if options.components is None else paths.given(options.components)
    library = components.library(own)
    config = _run_config() if options.workdir else None
    engines = _engines(options.engine, config)
    rows = []
    for name, engine in engines.items():
        rows.append(row(name, engine, library, options.level))
        print(report(rows[-1]), end="\n\n")
        if config is not None:
            rows.append(example(name, engine, fit_grid(config), library, options.level))
            print(example_report(rows[-1]), end="\n\n")
    if out is not None:
        document = provenance.record() | {"level": options.level, "rows": rows}
        provenance.write(out[0], document)
        style.save(budget_figure.plot(document), out[1])
        print(f"written to {out[0]} and {out[1].name}")


def _run_config() -> Config:
    [directory] = runs.directories()
    return config_file.load(directory)


def _engines(names: list[str], config: Config | None) -> dict[str, Engine]:
    """Returns the engines of the flags by name."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"--engine={twice} is named twice; name each engine once")
    if names or config is None:
        return {name: presets.preset(name) for name in names or [DEFAULT]}
    [directory] = runs.directories()
    engine = run_engine(directory, config)
    if engine is None:
        raise ValueError(
            f"--workdir={flags.FLAGS.workdir} was trained without an engine; add --engine={DEFAULT}"
        )
    return {"the run's engine": engine}


def row(name: str, engine: Engine, library: Library, level: float | None = None) -> dict[str, Any]:
    """Returns the budget of an engine at each corner, as files of results have it.

    Args:
      name: of the engine, for error messages too.
      engine: the engine.
      library: the component library.
      level: mean intensity of a written pixel; None: numbers that are spread evenly.
    Raises: ValueError for an engine without a budget.
    """
    try:
        at = {corner: budget(engine, components.prices(corner, library), level) for corner in CORNERS}
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return {"part": "engine", "engine": name, **{corner: as_plain(at[corner]) for corner in CORNERS}}


def as_plain(b: Budget) -> dict[str, Any]:
    """Returns a budget as JSON has it: infinite numbers are None.

    Args:
      b: the budget.
    """
    time = b.pipeline
    return {
        "link": [list(link) for link in b.link.rows],
        "laser_w": b.link.laser_w,
        "signal_e": b.link.signal_e,
        "reference_e": b.link.reference_e,
        "snr_db": {noise: value if value < math.inf else None for noise, value in b.link.snr_db.items()},
        "macs": b.macs,
        "operations_per_mac": b.operations_per_mac,
        "fft_share": b.fft_operations / b.operations,
        **{unit: getattr(b, unit) for unit in UNITS},
        "energy_j": None if b.energy is None else {**b.energy._asdict(), "total": b.energy.total},
        "no_energy": b.no_energy,
        "area_m2": {**b.area._asdict(), "total": b.area.total},
        "stages": [stage._asdict() for stage in time.stages],
        "busy_s": time.busy_s,
        "bound": time.bound,
        "latency_s": time.latency_s,
        "period_s": time.period_s,
    }


def example(
    name: str, engine: Engine, config: Config, library: Library, level: float | None = None
) -> dict[str, Any]:
    """Returns what the inference of one example of a network takes on an engine.

    Args:
      name: of the engine.
      engine: the engine.
      config: the run's configuration.
      library: the component library.
      level: mean intensity of a written pixel; None: numbers that are spread evenly.
    Raises: ValueError for a network without transforms, or without a plan on the engine.
    """
    batch = config.data.batch
    job = transforms(config, batch)
    if job is None:
        raise ValueError(
            f"mixer {config.model.mixer.name!r} has no transforms; choose a run with one, or no --workdir"
        )
    load = job.plan(engine).load(layers(config) / batch)
    one = budget(engine, components.prices("typical", library), level)
    work = 1 + one.more_passes
    found: dict[str, Any] = {
        "part": "example",
        "engine": name,
        "transform": job.title,
        "frames": load["frames"],
        "passes": load["frames"] * engine.passes,
        "macs": load["frames"] * one.macs,
        "signal_photons": load["frames"] * one.macs * one.signal_photons,
        "seconds": load["lots"] * one.pipeline.period_s * work,
        "joules": None,
        "no_energy": one.no_energy,
    }
    if not one.no_energy:
        used = energy_at_corners(engine, load, Options(library=library))
        found["joules"] = {corner: lines["total"] for corner, lines in used.items()}
    return found


def report(found: Mapping[str, Any]) -> str:
    """Formats a row of `row` for the terminal.

    Args:
      found: the row.
    """
    typical = found["typical"]
    link = [["link budget", "gain, dB", "dBm"]]
    link += [[name, f"{gain:.2f}", f"{dbm:.2f}"] for name, gain, dbm in typical["link"]]
    noises = [["signal over noise", "dB"]]
    noises += [
        [noise, "none" if value is None else f"{value:.1f}"] for noise, value in typical["snr_db"].items()
    ]
    units = [["unit", *CORNERS]]
    for unit, (factor, words) in UNITS.items():
        values = [found[corner][unit] for corner in CORNERS]
        units.append([words, *("none" if value is None else f"{factor * value:.3g}" for value in values)])
    units.append(["area, mm^2", *(f"{1e6 * found[corner]['area_m2']['total']:.3g}" for corner in CORNERS)])
    units.append(["bound by", *(found[corner]["bound"] for corner in CORNERS)])
    stages = [["stage", "part", "ns", "busy, ns"]]
    for stage in typical["stages"]:
        times = (stage["seconds"], stage["busy_s"])
        stages.append([stage["name"], stage["part"], *(f"{1e9 * seconds:.3g}" for seconds in times)])
    lines = [
        f"{found['engine']}",
        *aligned(link, right=True),
        "",
        f"electrons per pixel and pass: signal {typical['signal_e']:,.4g}, "
        f"reference {typical['reference_e']:,.4g}",
        *aligned(noises, right=True),
        "",
        *aligned(units, right=True),
        f"A MAC is complex and has {typical['operations_per_mac']} real operations; a frame has "
        f"{typical['macs']:,.0f} MACs. An FFT needs {100 * typical['fft_share']:.3g} % of the operations,",
        "so that its TOPS are this share of those above.",
        *([f"no energy: {typical['no_energy']}"] if typical["no_energy"] else []),
        "",
        *aligned(stages),
        f"a frame takes {1e9 * typical['latency_s']:.4g} ns; overlapping frames follow each other every "
        f"{1e9 * typical['period_s']:.4g} ns, bound by: {typical['bound']}",
    ]
    return "\n".join(lines)


def example_report(found: Mapping[str, Any]) -> str:
    """Formats a row of `example` for the terminal.

    Args:
      found: the row.
    """
    joules = found["joules"]
    energy = "none" if joules is None else "{typical:.3g} ({low:.3g} to {high:.3g})".format(**joules)
    return (
        f"an example of the run ({found['transform']}): {found['frames']:,.5g} frames, "
        f"{found['passes']:,.5g} passes, {found['macs']:.3g} MACs\n{found['signal_photons']:.3g} detected "
        f"photons of the signal, {found['seconds']:.3g} s if frames overlap, {energy} J"
    )


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
