"""Measures accuracy over photons: the least light that a trained network needs.

    python -m fourier_attn.studies.engine.photons --workdir=RUN --against=OTHER [options]

A trained network is evaluated on its test split (validation, where labels of test are not public) through an
engine whose laser gives a pixel of value 1 this many photo-electrons in a pass (--photons), on --devices
devices. The report also has the signal's photons per complex multiply-accumulate, for numbers that are spread
evenly over the modulators' range. Electronic noise is off, so that few photons only bring shot noise;
--electronics keeps it on. The engine is --engine=PRESET, or else the run's own, or else the other run's, or
else chip_11x11.
--against=OTHER compares a second run with the first: one trained exactly with one that was trained, or
fine-tuned, through an engine with little light.

Writes NAME.json, a row for each evaluation, and NAME.png with 95 % bands of the mean over devices, into the
run's directory, for --out=NAME.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from absl import flags
from matplotlib.figure import Figure
from tqdm import tqdm

from fourier_attn import command, paths, provenance, style
from fourier_attn.data import TASKS
from fourier_attn.optics import Engine, presets
from fourier_attn.optics.coherence import is_coherent
from fourier_attn.optics.field_units import photons_per_mac
from fourier_attn.studies import runs
from fourier_attn.studies.engine.evaluator import EngineEvaluator
from fourier_attn.studies.engine.robustness import choose_engines, number
from fourier_attn.studies.intervals import band, plot_band

Rows = Sequence[dict[str, Any]]
ELECTRONICS = ("dark_current", "tia_noise", "load_ohm", "read_noise_e")


def define_flags() -> None:
    runs.define_flags(against=True)
    flags.DEFINE_list(
        "photons", ["0.1", "1", "10", "100", "1000"], "photo-electrons per pixel and pass to evaluate"
    )
    flags.DEFINE_integer("devices", 10, "number of device seeds; 1 for a measured device", lower_bound=1)
    flags.DEFINE_bool("electronics", False, "keep the noise of the engine's electronics")
    flags.DEFINE_string(
        "engine", None, "preset, or file of a measured device, to use instead of the runs' own engine"
    )
    flags.DEFINE_string(
        "data_dir", None, "directory of the TFDS data sets; default: that of the run's configuration"
    )
    flags.DEFINE_integer("examples", 0, "limit the number of test examples (0: all)", lower_bound=0)
    flags.DEFINE_string(
        "out", "photons", "name of the results in the run's directory; .json and .png are added"
    )


def main() -> None:
    """Evaluates one run, or two."""
    options = flags.FLAGS
    photons = [number("photons", text, float) for text in options.photons]
    if not photons or not all(0 < n < math.inf for n in photons):
        raise ValueError(f"--photons={photons} must be positive, and one at least")
    directories = runs.directories()
    table, picture = runs.new_files(directories[0] / paths.stem(options.out, "--out"))
    evaluators = [
        EngineEvaluator(directory, options.data_dir, options.examples, name)
        for directory, name in zip(directories, runs.labels(directories), strict=True)
    ]
    rows, engines = [], choose_engines(evaluators)
    for engine in engines:
        presets.check_variants(engine, options.devices)
    with tqdm(total=len(evaluators) * (1 + len(photons))) as bar:
        for evaluator, engine in zip(evaluators, engines, strict=True):
            for part in accuracies(evaluator, engine, sorted(set(photons)), options.devices):
                rows += part
                bar.update()
    document = provenance.record() | {
        "networks": [evaluator.facts() for evaluator in evaluators],
        "rows": rows,
    }
    provenance.write(table, document)
    style.save(plot(document), picture)
    print_table(rows)
    print(f"written to {table} and {picture.name}")


def starved(engine: Engine, photons: float) -> Engine:
    """Returns the engine with this many photons, without electronic noise unless the flag keeps it."""
    off = {} if flags.FLAGS.electronics else dict.fromkeys(ELECTRONICS)
    return engine.replace(**off).with_photons(photons)


def accuracies(
    evaluator: EngineEvaluator, engine: Engine, photons: Sequence[float], devices: int
) -> Iterator[list[dict[str, Any]]]:
    """Yields accuracies: the exact transform, then all devices for each number of photons, in one program.

    Args:
      evaluator: evaluates one run through engines.
      engine: the engine.
      photons: photo-electrons of unit intensity in a pass.
      devices: how many are drawn.
    """
    row = {
        "run": evaluator.name,
        "split": evaluator.public,
        "dataset": TASKS[evaluator.config.data.task].dataset,
    }
    row |= {"examples": len(evaluator.splits[evaluator.public].labels)}
    yield [row | {"accuracy": evaluator.exact(evaluator.public)}]
    for n in photons:
        dim = starved(engine, n)
        values = evaluator.through([dim.replace(seed=seed) for seed in range(devices)], evaluator.public)
        light = {"photons": n, "photons_per_mac": photons_per_mac(dim)[0] if is_coherent(dim) else None}
        yield [
            row | light | {"device": seed, "accuracy": float(accuracy)}
            for seed, accuracy in enumerate(values)
        ]


def curves(rows: Rows) -> dict[str, dict[float, list[float]]]:
    """Accuracies of the devices by run and photons."""
    by_run: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        if "photons" in row:
            by_run.setdefault(row["run"], {}).setdefault(row["photons"], []).append(row["accuracy"])
    return by_run


def exact(rows: Rows, run: str) -> float:
    return next(row["accuracy"] for row in rows if row["run"] == run and "photons" not in row)


def per_mac(rows: Rows, run: str, photons: float) -> str:
    """Returns words for the signal's photons per complex multiply-accumulate; "" where they are not known.

    Args:
      rows: of the results.
      run: name of the run.
      photons: photo-electrons of unit intensity in a pass.
    """
    found = next(row for row in rows if row["run"] == run and row.get("photons") == photons)
    value = found.get("photons_per_mac")
    return "" if value is None else f", {value:.3g} per MAC"


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots accuracy over photons, a curve for each run."""
    figure = style.figure(height=3.4)
    axes, rows = figure.subplots(), document["rows"]
    for i, (run, by_photons) in enumerate(curves(rows).items()):
        look = {"color": style.COLOURS[i], "marker": style.MARKERS[i]}
        plot_band(axes, list(by_photons), list(by_photons.values()), label=run, **look)
        axes.plot(
            [min(by_photons), max(by_photons)],
            [100 * exact(rows, run)] * 2,
            color=style.COLOURS[i],
            linewidth=0.8,
            linestyle=":",
        )
    axes.set(
        xscale="log",
        xlabel="photo-electrons of a pixel written with 1, in a pass",
        ylabel=f"{rows[0]['split']} accuracy, %",
        title=f"{rows[0]['dataset']}: means of devices with 95 % bands; dotted: exact transform",
    )
    style.label_ends(axes)
    return figure


def print_table(rows: Rows) -> None:
    """Prints the mean and half of the 95 % band, in percent."""
    for run, by_photons in curves(rows).items():
        print(f"{run}: {rows[0]['split']} accuracy, %; exact {100 * exact(rows, run):.2f}")
        for n, values in by_photons.items():
            mean, half = band(values)
            sure = "" if math.isnan(half) else f" ± {100 * half:.2f}"
            print(f"{n:>10g} photons{per_mac(rows, run, n)}  {100 * mean:6.2f}{sure}")


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
