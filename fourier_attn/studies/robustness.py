"""How a trained run stands bits and noise: python -m fourier_attn.studies.robustness --workdir=RUN [options].

The network is evaluated on its test set through an engine (--engine=PRESET; else the run's own; else the
other run's; else chip_11x11) with every number of bits, strength of noise and device seed in turn, and draws
of its own for each device. Noise is a factor on the engine's strengths, per shot and static, light and
electrical; the bits are those of all converters.
Written into the run's directory: robustness.json, robustness.png.

`--against=OTHER` puts a second run, trained otherwise on the same task, beside the first: one trained exactly
beside one trained through the engine.
"""

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags
from matplotlib.figure import Figure
from tqdm import tqdm

from fourier_attn import command, data, model, predict, provenance
from fourier_attn.config import Config
from fourier_attn.data.batches import Batch, Batches, Split
from fourier_attn.data.text import special
from fourier_attn.optics import presets
from fourier_attn.optics.parameters import Engine
from fourier_attn.train import metrics
from fourier_attn.train.evaluate import evaluate_split
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.step import make_eval_step

WORKDIR = flags.DEFINE_string("workdir", None, "directory of a trained run")
AGAINST = flags.DEFINE_string("against", None, "directory of another run on the same task")
BITS = flags.DEFINE_list("bits", ["2", "3", "4", "5", "6", "8"], "bits of all converters")
NOISE = flags.DEFINE_list("noise", ["0", "1", "4"], "factors on the engine's noise and static errors")
DEVICES = flags.DEFINE_integer("devices", 3, "number of device seeds", lower_bound=1)
PRESET = flags.DEFINE_string("engine", None, "preset to sweep instead of the runs' own engine")
DATA_DIR = flags.DEFINE_string("data_dir", None, "where TFDS keeps its data sets now")
EXAMPLES = flags.DEFINE_integer("examples", 0, "so many test examples only; 0: all", lower_bound=0)


def own_engine(directory: Path, config: Config) -> Engine | None:
    """The engine that a run was trained on, None for the exact transform."""
    if "engine" not in config.model.mixer:
        raise ValueError(
            f"workdir={directory} has the mixer {config.model.mixer.name!r}, without optical form"
        )
    return presets.build(json.loads(config.model.to_json())["mixer"]["engine"])


def accuracies(
    directory: Path, engine: Engine, bits: list[int], noises: list[float]
) -> Iterator[dict[str, Any]]:
    """A row for every combination, and one for the exact transform (bits None): accuracy on the test set."""
    config, _, params = predict.restore(directory)
    fields, seeds = json.loads(config.model.to_json()), config.train.seeds
    test = test_set(config, directory)

    @jax.jit
    def forward(params: Any, batch: Batch, engine: Engine | None, noise: int) -> Any:
        mixer = fields["mixer"] | {"engine": engine, "eval_engine": None}
        network = model.build(fields | {"mixer": mixer})
        return make_eval_step(network, OBJECTIVES["classes"], seeds, noise)(params, batch)

    def accuracy(engine: Engine | None, noise: int = 0) -> float:
        total, _ = evaluate_split(lambda *inputs: forward(*inputs, engine, noise), params, test)
        return metrics.mean(total)["accuracy"]

    yield {"run": directory.name, "accuracy": accuracy(None)}
    for b, noise, device in itertools.product(bits, noises, range(DEVICES.value)):
        row = {"run": directory.name, "bits": b, "noise": noise, "device": device}
        yield row | {"accuracy": accuracy(presets.scaled(engine, b, noise, device), device)}


def test_set(config: Config, directory: Path) -> Split:
    """The run's test set, or the beginning of it."""
    splits = predict.load(config, directory, DATA_DIR.value)
    test, pad = splits.test, special(splits.tokenizer).pad
    if not EXAMPLES.value:
        return test
    rows, labels = test.rows[: EXAMPLES.value], test.labels[: EXAMPLES.value]
    return Batches(rows, labels, buckets=data.padded_lengths(config.data), batch=test.batch, pad=pad)


def draw(rows: list[dict[str, Any]], bits: list[int], noises: list[float]) -> Figure:
    """Curves over bits with the deviation over devices, and a map of bits by noise, for each run."""
    runs = list(dict.fromkeys(row["run"] for row in rows))
    figure = Figure(figsize=(5 * (1 + len(runs)), 4), layout="constrained")
    axes = figure.subplots(1, 1 + len(runs))
    least, most = (end(row["accuracy"] for row in rows) for end in (min, max))
    for number, run in enumerate(runs):
        mine = [row for row in rows if row["run"] == run]
        exact = next(100 * row["accuracy"] for row in mine if "bits" not in row)
        table = np.array(
            [
                [
                    [100 * r["accuracy"] for r in mine if (r.get("bits"), r.get("noise")) == (b, n)]
                    for b in bits
                ]
                for n in noises
            ]
        )  # (noise, bits, device)
        axes[0].axhline(exact, color=f"C{number}", lw=0.6, ls=(0, (9, 3)), label=f"{run}, exact transform")
        for style, noise, values in zip(itertools.cycle(("-", "--", ":", "-.")), noises, table, strict=False):
            curve = {"color": f"C{number}", "ls": style, "label": f"{run}, noise x {noise:g}"}
            spread = values.std(axis=1, ddof=min(1, values.shape[1] - 1))
            axes[0].errorbar(bits, values.mean(axis=1), spread, marker="o", ms=3, capsize=2, **curve)
        limits = {"vmin": 100 * least, "vmax": 100 * most}
        image = axes[1 + number].imshow(table.mean(axis=2), aspect="auto", cmap="viridis", **limits)
        axes[1 + number].set(xticks=range(len(bits)), xticklabels=bits, xlabel="bits", title=run)
        axes[1 + number].set(
            yticks=range(len(noises)), yticklabels=noises, ylabel="noise, times the engine's"
        )
        figure.colorbar(image, label="accuracy, %")
    axes[0].set(xlabel="bits of all converters", ylabel="test accuracy, %", xticks=bits)
    axes[0].legend(fontsize=7)
    return figure


def main() -> None:
    """Sweeps one run, or two."""
    if WORKDIR.value is None:
        raise ValueError("--workdir is needed: the directory of a trained run")
    bits = [number("bits", b, int) for b in BITS.value]
    noises = [number("noise", n, float) for n in NOISE.value]
    if not bits or not noises or min(bits) < 2 or max(bits) > 24 or min(noises) < 0:
        raise ValueError(
            f"--bits={bits} must lie from 2 to 24, --noise={noises} from 0 up, one of each at least"
        )
    directories = [Path(name).resolve() for name in (WORKDIR.value, AGAINST.value) if name]
    if len({directory.name for directory in directories}) < len(directories):
        raise ValueError(f"--against={AGAINST.value} has the name of --workdir; rows could not be told apart")
    given = None if PRESET.value is None else presets.preset(PRESET.value)
    own = {d: own_engine(d, predict.restore(d)[0]) for d in directories}
    other = next(filter(None, own.values()), None) or presets.preset("chip_11x11")
    engines = {d: given or own[d] or other for d in directories}
    rows, total = [], len(directories) * (1 + len(bits) * len(noises) * DEVICES.value)
    for directory in directories:
        pixels = " x ".join(map(str, engines[directory].shape))
        print(f"{directory.name}: on {pixels} pixels, {engines[directory].detection}")
    with tqdm(total=total, unit="engine") as bar:
        for directory in directories:
            for row in accuracies(directory, engines[directory], bits, noises):
                rows.append(row)
                bar.update()
                bar.set_postfix(accuracy=f"{100 * row['accuracy']:.2f} %")
    provenance.write(directories[0] / "robustness.json", provenance.record() | {"rows": rows})
    draw(rows, bits, noises).savefig(directories[0] / "robustness.png", dpi=120)
    print_table(rows, bits, noises)
    print(f"written to {directories[0]}/robustness.json and robustness.png")


def number(option: str, text: str, kind: type) -> Any:
    try:
        return kind(text)
    except ValueError as error:
        raise ValueError(f"--{option}={text} is no number; give some, like --{option}=2,4,8") from error


def print_table(rows: list[dict[str, Any]], bits: list[int], noises: list[float]) -> None:
    """Mean accuracy over devices, in percent."""
    for run in dict.fromkeys(row["run"] for row in rows):
        mine = [row for row in rows if row["run"] == run]
        exact = next(row["accuracy"] for row in mine if "bits" not in row)
        print(f"{run}: test accuracy, %; exact {100 * exact:.2f}")
        print("noise x   " + "".join(f"{f'{b} bit':>9}" for b in bits))
        for noise in noises:
            cells = [
                np.mean([r["accuracy"] for r in mine if (r.get("bits"), r.get("noise")) == (b, noise)])
                for b in bits
            ]
            print(f"{noise:<10g}" + "".join(f"{100 * cell:9.2f}" for cell in cells))


if __name__ == "__main__":
    sys.exit(command.run(main))
