"""How well a hidden device is known after calibration.

    python -m fourier_attn.studies.calibrate --engine=chip_11x11 --out=results/calibration

A hidden device, the engine with static errors of its own, is probed through its noisy passes, with more and
more light. For each power: what is left of its transfer matrix, and the ratio of signal to error that the
measured model predicts, beside the one the device has, and the one it has with digital corrections.

With --workdir=RUNS two small networks are trained on the synthetic reviews, one through the measured model,
one through the hidden device; both are then evaluated through the hidden device.

Writes OUT.json and OUT.png; files of an earlier study are not overwritten.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags
from matplotlib.figure import Figure

from fourier_attn import command, provenance, train
from fourier_attn.config import Config, default, set_engine
from fourier_attn.optics import Engine, calibrate, optical_dft2, presets
from fourier_attn.optics.calibration import corrections, passes, residual_db, transfer_matrix

MEASURED = ("static_phase_rms", "static_gain_rms", "crosstalk_db", "shift_pitch", "defocus_rad")
APERTURES = 500  # of random numbers, by which devices are judged


def define_flags() -> None:
    flags.DEFINE_string("engine", "chip_11x11", "preset that the hidden device is like")
    flags.DEFINE_list("photons", ["1e2", "1e3", "1e4", "1e5"], "photo-electrons of unit intensity in a pass")
    flags.DEFINE_integer("probes", 16, "rounds of probing", lower_bound=1)
    flags.DEFINE_float("phase", 0.3, "static phases of the hidden device, rms in rad", lower_bound=0)
    flags.DEFINE_float("gain", 0.1, "static gains of the hidden device, rms", lower_bound=0)
    flags.DEFINE_integer("seed", 1, "of the hidden device", lower_bound=0)
    flags.DEFINE_string("workdir", None, "directory for the runs of two networks; without it none is trained")
    flags.DEFINE_integer("epochs", 8, "of the networks", lower_bound=1)
    flags.DEFINE_string("data_dir", None, "where TFDS keeps its data sets")
    flags.DEFINE_string("out", "calibration", "name of the files, without .json, .png")


def main() -> None:
    """Probes, compares, writes."""
    photons = _photons()
    table, picture = (Path(f"{flags.FLAGS.out}{ending}") for ending in (".json", ".png"))
    for path in (table, picture):
        if path.exists():
            raise ValueError(
                f"{path} is there from an earlier study; move it away, or name this one, --out=..."
            )
    hidden = presets.preset(flags.FLAGS.engine).replace(
        static_phase_rms=flags.FLAGS.phase, static_gain_rms=flags.FLAGS.gain, seed=flags.FLAGS.seed
    )
    print(f"{passes(hidden, flags.FLAGS.probes)} passes of probing; dB")
    print(f"{'photons':>10}{'residual':>10}{'predicted':>11}{'hidden':>8}{'corrected':>11}")
    rows = []
    for power in photons:
        rows.append(compare(hidden, power, flags.FLAGS.probes))
        row = rows[-1]
        print(f"{power:>10.3g}{row['residual_db']:>10.2f}{row['predicted_db']:>11.2f}", end="")
        print(f"{row['hidden_db']:>8.2f}{row['corrected_db']:>11.2f}")
    networks = train_both(hidden, max(photons), Path(flags.FLAGS.workdir)) if flags.FLAGS.workdir else []
    for row in networks:
        print(f"trained on the {row['trained_on']}: {100 * row['accuracy']:.2f} % on the hidden device")
    table.parent.mkdir(parents=True, exist_ok=True)
    provenance.write(table, provenance.record() | {"rows": rows, "networks": networks})
    draw(rows).savefig(picture, dpi=120)
    print(f"written to {table} and {picture.name}")


def compare(hidden: Engine, photons: float, probes: int) -> dict[str, Any]:
    """What calibration with so much light finds."""
    keys = jax.random.split(jax.random.key(0), 4)
    measured = calibrate(hidden, keys[0], photons=photons, probes=probes)
    return {
        "photons": photons,
        "probes": probes,
        "residual_db": residual_db(measured, hidden),
        "predicted_db": signal_to_error(measured, keys[1]),
        "hidden_db": signal_to_error(hidden, keys[2]),
        "corrected_db": signal_to_error(corrections(hidden, measured), keys[3]),
    }


def signal_to_error(engine: Engine, key: Any) -> float:
    """Of random real numbers, against the exact transform, dB."""
    x = jax.random.normal(jax.random.key(1), (APERTURES, *engine.shape))
    exact = np.asarray(optical_dft2(x, engine.ideal()))
    error = np.asarray(optical_dft2(x, engine, key)) - exact
    return float(10 * np.log10(np.sum(np.abs(exact) ** 2) / np.sum(np.abs(error) ** 2)))


def train_both(hidden: Engine, photons: float, directory: Path) -> list[dict[str, Any]]:
    """Accuracy on the hidden device of a network that was trained on it, and of one on its measured model."""
    hidden = hidden.replace(shape=(8, 8))
    measured = calibrate(hidden, jax.random.key(0), photons=photons, probes=flags.FLAGS.probes)
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "measured.npz"
    np.savez(file, transfer=transfer_matrix(measured))
    found = []
    for name in ("measured model", "hidden device"):
        config = network(hidden)
        if name == "measured model":
            with config.unlocked():
                set_engine(config.model.mixer, hidden, "eval_engine")
            device = config.model.mixer.engine.device
            for effect in (
                "static_phase_rms",
                "static_gain_rms",
                "crosstalk_db",
                "shift_pitch",
                "defocus_rad",
            ):
                device[effect] = None
            device.file = str(file)
        result = train.run(config, directory / name.replace(" ", "-"))
        found.append({"trained_on": name, "accuracy": result["accuracy"], "examples": result["examples"]})
    return found


def network(engine: Engine) -> Config:
    """Two blocks of FNet on the synthetic reviews, through the engine."""
    config = default("fourier", "reviews")
    with config.unlocked():
        set_engine(config.model.mixer, engine)
    config.model.mixer.norm = "tokens"
    config.model.update({"depth": 2, "d": 64, "mlp": 128, "positions": 64})
    config.data.length, config.data.buckets = 64, ()
    config.train.epochs = flags.FLAGS.epochs
    if flags.FLAGS.data_dir:
        config.data.dir = flags.FLAGS.data_dir
    return config


def draw(rows: list[dict[str, Any]]) -> Figure:
    """Residual and ratios over the light of probing."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    photons = [row["photons"] for row in rows]
    left.semilogx(photons, [row["residual_db"] for row in rows], "o-")
    left.set(ylabel="residual of the transfer matrix, dB")
    for name, marker in (("predicted", "s--"), ("hidden", "o-"), ("corrected", "^:")):
        right.semilogx(photons, [row[f"{name}_db"] for row in rows], marker, label=name)
    right.set(ylabel="signal over error, dB")
    right.legend()
    for axes in (left, right):
        axes.set_xlabel("photo-electrons of unit intensity in a pass of probing")
        axes.grid(alpha=0.3)
    return figure


def _photons() -> list[float]:
    try:
        found = [float(text) for text in flags.FLAGS.photons]
    except ValueError as error:
        raise ValueError(f"--photons={flags.FLAGS.photons} must be numbers, like 1e3,1e4") from error
    if not found or min(found) <= 0:
        raise ValueError(f"--photons={flags.FLAGS.photons} must be positive, one at least")
    return found


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
