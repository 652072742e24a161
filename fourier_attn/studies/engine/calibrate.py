"""Measures how well calibration recovers a hidden device.

    python -m fourier_attn.studies.engine.calibrate --out=results/studies/calibrate

Hidden devices, the preset --engine with additional static errors (--phase and --gain, in pairs), are probed
through their noisy passes, with each kind of detection (--detections), and with increasing light (--photons).
For each the study reports the residual of the transfer matrix, and three ratios of signal to error: that of
the measured model, that of the device, and that of the device with digital corrections.

With --workdir=DIR, networks are fine-tuned on the synthetic reviews from the weights of --init_from=RUN, an
exactly trained run: one through the measured model of the first device, with the most photons, one through
the device, one through the preset without the errors. They and the initial network are then evaluated through
the hidden device.

Writes OUT.json and OUT.png; files of an earlier study are not overwritten.
"""

import math
import sys
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags
from matplotlib.figure import Figure

from fourier_attn import atomic, command, paths, provenance, style, train
from fourier_attn.config import Config, default, set_engine
from fourier_attn.optics import Engine, calibrate, optical_dft2, presets
from fourier_attn.optics.calibration import corrections, passes, residual_db, transfer_matrix
from fourier_attn.studies import runs
from fourier_attn.studies.engine.evaluator import EngineEvaluator

MEASURED = ("static_phase_rms", "static_gain_rms", "crosstalk_db", "shift_pitch", "defocus_rad")
APERTURES = 500  # of random numbers, by which devices are compared
REPEATS = 3  # evaluations of a network, with other random numbers for what changes from pass to pass
PIXELS = (8, 8)  # of the networks' engine


def define_flags() -> None:
    flags.DEFINE_string("engine", "chip_11x11", "preset of the hidden devices")
    flags.DEFINE_list("photons", ["1e3", "1e4", "1e5"], "photo-electrons per pass at unit intensity")
    flags.DEFINE_list("detections", ["hybrid90", "psi4", "linear3"], "kinds of detection")
    flags.DEFINE_integer("probes", 16, "number of rounds of probing", lower_bound=1)
    flags.DEFINE_list("phase", ["0.3", "0.02"], "rms of the static phase errors of the hidden devices, rad")
    flags.DEFINE_list(
        "gain", ["0.1", "0.01"], "rms of the static gain errors of the hidden devices, relative"
    )
    flags.DEFINE_integer("seed", 1, "seed of the hidden devices", lower_bound=0)
    flags.DEFINE_string("workdir", None, "directory for the training runs; without it no network is trained")
    flags.DEFINE_string(
        "init_from", None, "directory of an exactly trained run, which provides the initial weights"
    )
    flags.DEFINE_string("data_dir", None, "directory of the TFDS data sets")
    flags.DEFINE_string("out", "calibrate", "path of the results without a suffix; .json and .png are added")


def main() -> None:
    """Probes hidden devices, compares the measured models with them, and writes the results."""
    options, photons = flags.FLAGS, sorted(_numbers("photons"))
    phases, gains = _numbers("phase"), _numbers("gain")
    if len(phases) != len(gains):
        raise ValueError(f"--phase={phases} and --gain={gains} must be pairs, one for each device")
    if (options.workdir is None) != (options.init_from is None):
        raise ValueError(
            "--workdir and --init_from go together: where networks are trained, and their initial weights"
        )
    report, picture = runs.new_files(paths.stem(options.out, "--out"))
    preset, rows = presets.preset(options.engine), []
    hidden = [
        preset.replace(static_phase_rms=phase, static_gain_rms=gain, seed=options.seed)
        for phase, gain in zip(phases, gains, strict=True)
    ]
    heads = ("phases, rad", "detection", "photons", "passes", "residual", "predicted", "hidden", "corrected")
    print("".join(f"{head:>12}" for head in heads) + "   dB")
    devices = [device.replace(detection=name) for device, name in product(hidden, options.detections)]
    for device, number in [(device, number) for device in devices for number in photons]:
        rows.append(compare(device, number, options.probes))
        cells = list(rows[-1].values())
        print(f"{cells[0]:>12g}{cells[2]:>12}{cells[3]:>12g}{cells[5]:>12}", end="")
        print("".join(f"{cell:>12.2f}" for cell in cells[6:]))
    networks = train_networks(preset, hidden[0], photons[-1]) if options.workdir else []
    for row in networks:
        print(f"tuned through the {row['tuned_through']}: {100 * row['accuracy']:.2f} % on the hidden device")
    atomic.make_folder(report.parent)
    setting = {name: flags.FLAGS[name].value for name in ("engine", "seed", "probes")}
    document = provenance.record() | {"setting": setting, "rows": rows, "networks": networks}
    provenance.write(report, document)
    style.save(plot(document), picture)
    print(f"written to {report} and {picture.name}")


def compare(hidden: Engine, photons: float, probes: int) -> dict[str, Any]:
    """Calibrates a hidden device; returns the row of its residuals and ratios.

    Args:
      hidden: the device.
      photons: photo-electrons of unit intensity in a calibration pass.
      probes: rounds of calibration.
    """
    keys = jax.random.split(jax.random.key(0), 4)
    measured = calibrate(hidden, keys[0], photons=photons, probes=probes)
    return {
        "phase_rms": hidden.device.static_phase_rms,
        "gain_rms": hidden.device.static_gain_rms,
        "detection": hidden.receiver.detection,
        "photons": photons,
        "probes": probes,
        "passes": passes(hidden, probes),
        "residual_db": residual_db(measured, hidden),
        "predicted_db": signal_to_error(measured, keys[1]),
        "hidden_db": signal_to_error(hidden, keys[2]),
        "corrected_db": signal_to_error(corrections(hidden, measured), keys[3]),
    }


def signal_to_error(engine: Engine, key: Any) -> float:
    """Returns an engine's ratio of signal to error on random real numbers, in dB."""
    x = jax.random.normal(jax.random.key(1), (APERTURES, *engine.shape))
    exact = np.asarray(optical_dft2(x, engine.ideal()))
    error = np.asarray(optical_dft2(x, engine, key)) - exact
    return float(10 * np.log10(np.sum(np.abs(exact) ** 2) / np.sum(np.abs(error) ** 2)))


def train_networks(preset: Engine, hidden: Engine, photons: float) -> list[dict[str, Any]]:
    """Returns accuracies on the hidden device of networks that were fine-tuned through it and through others.

    Args:
      preset: the engine without the device's errors.
      hidden: the device.
      photons: photo-electrons of unit intensity in a calibration pass.
    """
    preset, hidden = preset.replace(shape=PIXELS), hidden.replace(shape=PIXELS)
    measured = calibrate(hidden, jax.random.key(0), photons=photons, probes=flags.FLAGS.probes)
    directory = paths.given(flags.FLAGS.workdir)
    atomic.make_folder(directory)
    file = directory / "measured.npz"
    with atomic.writing(file) as opened:
        np.savez(opened, transfer=transfer_matrix(measured))
    model = hidden.replace(**dict.fromkeys(MEASURED), file=str(file.resolve()))
    accuracies = [evaluated("exact transform", paths.given(flags.FLAGS.init_from), hidden)]
    engines = {"preset without the errors": preset, "measured model": model, "hidden device": hidden}
    for name, engine in engines.items():
        run = directory / name.replace(" ", "-")
        train.run(network(engine), run)
        accuracies.append(evaluated(name, run, hidden))
    return accuracies


def evaluated(name: str, run: Path, hidden: Engine) -> dict[str, Any]:
    """Returns a run's test accuracy through the hidden device, the mean over `REPEATS` draws of the noise.

    Args:
      name: in the result.
      run: directory of the run.
      hidden: the device.
    """
    evaluator = EngineEvaluator(run, flags.FLAGS.data_dir)
    each = [
        float(evaluator.through([hidden], evaluator.public, noise=repeat)[0]) for repeat in range(REPEATS)
    ]
    examples = len(evaluator.splits[evaluator.public].labels)
    return {
        "tuned_through": name,
        "split": evaluator.public,
        "examples": examples,
        "accuracy": float(np.mean(each)),
        "each": each,
    }


def network(engine: Engine) -> Config:
    """Returns the configuration that fine-tunes `--init_from` through the engine for some hundred steps."""
    config = default("fourier", "reviews")
    with config.unlocked():
        set_engine(config.model.mixer, "circular", engine)
    config.init_from, config.init_padding = str(paths.given(flags.FLAGS.init_from).resolve()), "zero"
    config.data.length, config.data.buckets, config.model.positions = 64, (), 64
    config.optim.learning_rate, config.optim.warmup_steps = 1e-4, 30
    config.train.epochs, config.train.patience = 1, 0
    if flags.FLAGS.data_dir:
        config.data.dir = flags.FLAGS.data_dir
    return config


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots the residual, and the error of the model's prediction, over the light of calibration.

    Args:
      document: a file of results of this study.
    """
    figure = style.figure(height=2.8)
    left, right = figure.subplots(1, 2)
    rows = document["rows"]
    phases = list(dict.fromkeys(row["phase_rms"] for row in rows))
    detections = list(dict.fromkeys(row["detection"] for row in rows))
    for phase, detection in product(phases, detections):
        mine = [row for row in rows if (row["phase_rms"], row["detection"]) == (phase, detection)]
        photons, name = [row["photons"] for row in mine], f"{detection}, {phase:g} rad"
        device, kind = phases.index(phase), detections.index(detection)
        look = {"marker": style.MARKERS[device], "linestyle": ("-", "--", ":")[device % 3]}
        look["color"] = style.COLOURS[kind]
        # residuals hardly depend on the device: larger hollow markers let the first one's be seen
        ring = {"markerfacecolor": "none", "markersize": 3.5 + 3 * device} if device else {}
        left.semilogx(
            photons, [row["residual_db"] for row in mine], label=None if device else detection, **look | ring
        )
        right.loglog(photons, [prediction_error_db(row) for row in mine], label=name, **look)
    shapes = ("circles", "squares", "triangles")
    errors = ", ".join(f"{shape}: {phase:g} rad" for shape, phase in zip(shapes, phases, strict=False))
    left.set(title=f"residual of the matrix ({errors})", ylabel="residual, dB")
    right.set(title="error of the predicted signal-to-error ratio", ylabel="prediction error, dB")
    right.axhline(0.3, color="black", linewidth=0.6, linestyle=":")
    for axes in (left, right):
        axes.set_xlabel("photo-electrons per pixel and pass")
    style.label_ends(left, right)
    return figure


def prediction_error_db(row: dict[str, Any]) -> float:
    """Returns how far the measured model's ratio of signal to error is from the device's, in dB."""
    return abs(row["predicted_db"] - row["hidden_db"])


def _numbers(option: str) -> list[float]:
    texts = getattr(flags.FLAGS, option)
    try:
        numbers = [float(text) for text in texts]
    except ValueError as error:
        raise ValueError(f"--{option}={','.join(texts)} must be numbers, like 1,2") from error
    if not numbers or not all(0 < number < math.inf for number in numbers):
        raise ValueError(f"--{option}={','.join(texts)} must be positive, one at least")
    return numbers


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
