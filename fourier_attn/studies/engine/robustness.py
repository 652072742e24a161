"""Measures test accuracy over converter bits and noise.

    python -m fourier_attn.studies.engine.robustness --workdir=RUN [options]

A trained network is evaluated on its test split (validation, where labels of test are not public) through an
engine with every number of bits, factor on the noise, and device seed in turn, and with the exact transform.
The bits are those of all converters. The factor multiplies the amplitude of all noise: per shot and static,
light and electrical. Each device has its own static errors and noise samples. A measured device is a single
one, whose errors no factor changes: for it use --devices=1 --noise=1.

The engine is --engine=PRESET, or else the run's own, or else the other run's, or else chip_11x11.
`--against=OTHER` compares a second run on the same task with the first: one trained exactly with one trained
through the engine.

Writes NAME.json, a row for each evaluation, and NAME.png into the run's directory, for --out=NAME. Files of
an earlier sweep are not overwritten.
"""

import sys
from typing import Any

from absl import flags
from tqdm import tqdm

from fourier_attn import command, paths, provenance, style
from fourier_attn.optics import Engine, presets
from fourier_attn.studies import runs
from fourier_attn.studies.engine import robustness_sweep
from fourier_attn.studies.engine.evaluator import EngineEvaluator


def define_flags() -> None:
    runs.define_flags(against=True)
    flags.DEFINE_list("bits", ["2", "3", "4", "5", "6", "8"], "bits of all converters to evaluate")
    flags.DEFINE_list(
        "noise", ["0", "1", "4"], "factors on the noise and the static errors of the engine to evaluate"
    )
    flags.DEFINE_integer("devices", 3, "number of device seeds", lower_bound=1)
    flags.DEFINE_string(
        "engine", None, "preset, or file of a measured device, to sweep instead of the runs' own engine"
    )
    flags.DEFINE_string(
        "data_dir", None, "directory of the TFDS data sets; default: that of the run's configuration"
    )
    flags.DEFINE_integer("examples", 0, "limit the number of test examples (0: all)", lower_bound=0)
    flags.DEFINE_string(
        "out", "robustness", "name of the results in the run's directory; .json and .png are added"
    )


def main() -> None:
    """Sweeps one run, or two."""
    bits, noises = grid()
    directories = runs.directories()
    table, picture = runs.new_files(directories[0] / paths.stem(flags.FLAGS.out, "--out"))
    evaluators = [
        EngineEvaluator(directory, flags.FLAGS.data_dir, flags.FLAGS.examples, name)
        for directory, name in zip(directories, runs.labels(directories), strict=True)
    ]
    engines = choose_engines(evaluators)
    for engine in engines:
        presets.check_variants(engine, flags.FLAGS.devices, noises)
    for evaluator, engine in zip(evaluators, engines, strict=True):
        rows, columns = engine.shape
        print(f"{evaluator.name}: on {rows} x {columns} pixels, {engine.receiver.detection}")
    rows = []
    total = len(directories) * (1 + len(bits) * len(noises) * flags.FLAGS.devices)
    with tqdm(total=total, unit="engine") as bar:
        for evaluator, engine in zip(evaluators, engines, strict=True):
            for row in robustness_sweep.accuracies(evaluator, engine, bits, noises, flags.FLAGS.devices):
                rows.append(row)
                bar.update()
                bar.set_postfix(accuracy=f"{100 * row['accuracy']:.2f} %")
    document = provenance.record() | {
        "networks": [evaluator.facts() for evaluator in evaluators],
        "rows": rows,
    }
    provenance.write(table, document)
    style.save(robustness_sweep.plot(document), picture)
    robustness_sweep.print_table(rows, bits, noises)
    print(f"written to {table} and {picture.name}")


def grid() -> tuple[list[int], list[float]]:
    """Bits and factors on the noise, as given."""
    bits = [number("bits", b, int) for b in flags.FLAGS.bits]
    noises = [number("noise", n, float) for n in flags.FLAGS.noise]
    if not bits or not noises or min(bits) < 2 or max(bits) > 24 or min(noises) < 0:
        raise ValueError(
            f"--bits={bits} must lie from 2 to 24, --noise={noises} from 0 up, one of each at least"
        )
    return bits, noises


def number(option: str, text: str, kind: type) -> Any:
    """Parses one number of a flag. Raises: ValueError for a text that is not a valid number.

    Args:
      option: name of the flag, for the message.
      text: the number as text.
      kind: int or float.
    """
    try:
        return kind(text)
    except ValueError as error:
        raise ValueError(f"--{option}={text} is not a number; give some, like --{option}=2,4,8") from error


def choose_engines(evaluators: list[EngineEvaluator]) -> list[Engine]:
    """Returns the engine that each run is evaluated through."""
    chosen = None if flags.FLAGS.engine is None else presets.preset(flags.FLAGS.engine)
    trained = [evaluator.engine for evaluator in evaluators if evaluator.engine is not None]
    other = trained[0] if trained else presets.preset("chip_11x11")
    return [chosen or evaluator.engine or other for evaluator in evaluators]


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
