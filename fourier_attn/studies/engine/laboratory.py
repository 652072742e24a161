"""Fits a model to the files of an emulated bench, and trains a network through the model for the bench.

    python -m fourier_attn.studies.engine.laboratory [--out=NAME]

The bench is synthetic: an engine with static errors, the hidden device, and a camera. The fit reads its files
alone. A network for images of digits is trained with exact transforms, and trained further through the fitted
model. Its accuracy is that on the test images, with the noise of the device. docs/optics/laboratory.md has
the results, and notebooks/laboratory.ipynb shows the steps. --out=NAME writes NAME.json.
"""

import functools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import flags

from fourier_attn import command, paths, provenance
from fourier_attn.columns import aligned
from fourier_attn.layers import FourierMixing
from fourier_attn.optics import Engine
from fourier_attn.optics.calibration import transfer_matrix
from fourier_attn.optics.camera import PhotonTransfer, photon_transfer
from fourier_attn.optics.device_fit import DeviceFit, device_arrays, fit_device
from fourier_attn.optics.recordings import read_drives, read_frames, read_recording
from fourier_attn.studies.intervals import percent_range, wilson_interval

SHAPE, PIXELS = (8, 8), 64
PHOTONS, READ_NOISE_E, EXTINCTION_DB = 1e4, 6.0, 25.0
LO_RATIO = 2.0  # power of the reference beam over that of a pixel at full transmission
GAIN, BLACK_LEVEL = 2.0, 100.0  # electrons per count of the camera; counts without light
SHOTS, FRAMES = 400, 200
TRAINED, BATCH, STEPS = 1400, 100, 300  # images, images of a step, steps
DRAWS = 5  # of the device's noise, over which an accuracy is the mean
RATE, TUNING_RATE = 3e-3, 1e-3  # learning rates of the first and the further training


def hidden_device() -> Engine:
    """Returns the device of the bench, with errors that the fit never sees."""
    device = Engine(SHAPE).replace(frame_rate_hz=1e3, detection="linear3", lo_ratio=LO_RATIO)
    device = device.with_photons(PHOTONS).replace(read_noise_e=READ_NOISE_E, extinction_db=EXTINCTION_DB)
    return device.replace(static_phase_rms=0.8, static_gain_rms=0.05, crosstalk_db=-20.0, seed=7)


class Bench:
    """Emulates a bench that writes the files of a laboratory.

    Args:
      folder: of the files.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._transfer = transfer_matrix(hidden_device())
        self._rng = np.random.default_rng(0)

    def record(self, name: str, *, reference: bool) -> Path:
        """Writes a recording of random phases on all pixels, and returns its path.

        Args:
          name: of the file.
          reference: whether a reference beam is added, with one of four phases in each shot.
        """
        rng, columns = self._rng, {}
        probes: Any = np.exp(2j * np.pi * rng.random((SHOTS, PIXELS)))
        beam: Any = np.exp(0.5j * np.pi * rng.integers(0, 4, SHOTS)) if reference else np.zeros(SHOTS)
        light = probes @ self._transfer + np.sqrt(LO_RATIO) * beam[:, None]
        counts = self._counts(np.abs(light) ** 2)
        for m in range(PIXELS):
            columns |= {f"probe_{m}_re": probes[:, m].real, f"probe_{m}_im": probes[:, m].imag}
        if reference:
            columns |= {"reference_re": beam.real, "reference_im": beam.imag}
        return self._write(name, columns | {f"intensity_{k}": counts[:, k] for k in range(PIXELS)})

    def repeat(self, name: str) -> Path:
        """Writes repeated frames of a ramp from dark to twice full transmission, and returns their path."""
        counts = self._counts(np.tile(np.linspace(0, 2, PIXELS), (FRAMES, 1)))
        return self._write(name, {f"pixel_{n}": column for n, column in enumerate(counts.T)})

    def drive(self, name: str) -> Path:
        """Writes the transmission of a modulator over its drive, and returns the path of the table."""
        drives = np.linspace(0, 5, 65)
        sine = np.sin(np.pi / 2 * drives / 5)
        field = sine + 1j * 10 ** (-EXTINCTION_DB / 20) * np.sqrt(1 - sine**2)
        columns = {"drive": drives, "amplitude": np.abs(field), "phase_rad": np.angle(field)}
        return self._write(name, columns)

    def _counts(self, power: np.ndarray) -> np.ndarray:
        """Returns the camera's counts of light, in units of a pixel at full transmission."""
        electrons = self._rng.poisson(PHOTONS * power)
        electrons = electrons + READ_NOISE_E * self._rng.standard_normal(power.shape)
        return np.round(electrons / GAIN + BLACK_LEVEL)

    def _write(self, name: str, columns: Mapping[str, np.ndarray]) -> Path:
        rows = zip(*columns.values(), strict=True)
        text = "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)])
        (self.folder / name).write_text(f"{text}\n")
        return self.folder / name


class Fitted(NamedTuple):
    """Holds what the files of a bench give.

    Args:
      fit: of a recording with the reference beam.
      without: fit of a recording without it.
      noise: of the camera.
      model: engine of the fit.
      without_phases: engine of the other fit, whose detectors have the phases of the exact transform.
    """

    fit: DeviceFit
    without: DeviceFit
    noise: PhotonTransfer
    model: Engine
    without_phases: Engine


def fit_files(folder: Path) -> Fitted:
    """Writes the files of the bench, and fits a device to them with and without the reference beam.

    Args:
      folder: of the files.
    """
    bench = Bench(folder)
    shots = read_recording(bench.record("shots.csv", reference=True), black_level=BLACK_LEVEL)
    noise = photon_transfer(read_frames(bench.repeat("frames.csv")), black_level=BLACK_LEVEL)
    alone = read_recording(bench.record("alone.csv", reference=False), black_level=BLACK_LEVEL)
    fit, without = (fit_device(recording, SHAPE, noise=noise) for recording in (shots, alone))
    drives = bench.drive("drive.csv")
    model = save(folder / "device.npz", fit, noise, drives)
    return Fitted(fit, without, noise, model, save(folder / "without.npz", without, noise, drives))


def save(file: Path, fit: DeviceFit, noise: PhotonTransfer, drive_table: Path) -> Engine:
    """Writes a fitted device, and returns its engine.

    Args:
      file: the device file to write.
      fit: of the device.
      noise: of the camera.
      drive_table: file of the modulator's transmission.
    """
    arrays: dict[str, Any] = {"lo_ratio": LO_RATIO}  # which a recording without the beam does not have
    arrays |= device_arrays(
        fit, SHAPE, "linear3", drive_table=read_drives(drive_table), noise=noise, frame_rate_hz=1e3
    )
    np.savez(file, **arrays)
    return Engine.from_file(file)


class Digits(NamedTuple):
    """Holds the images of digits with 8 x 8 pixels of scikit-learn, in a random order.

    Args:
      images: (examples, 8, 8).
      labels: digits, 0 to 9.
      test_images, test_labels: those that no training sees.
    """

    images: jax.Array
    labels: jax.Array
    test_images: jax.Array
    test_labels: jax.Array


def digits() -> Digits:
    """Returns the images of digits: `TRAINED` for training, and all others for the test."""
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = jnp.asarray(data.images / 16 - 0.3, jnp.float32)[order]
    labels = jnp.asarray(data.target)[order]
    return Digits(images[:TRAINED], labels[:TRAINED], images[TRAINED:], labels[TRAINED:])


class Network(nn.Module):
    """Classifies digits by two blocks, each with FNet's mixing of 8 x 8 numbers and a dense network.

    Args:
      engine: of the transforms; None (default): exact.
    """

    engine: Engine | None = None

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(2):
            mixed = nn.LayerNorm()(x + FourierMixing(engine=self.engine)(x) / 8)
            wide = nn.gelu(nn.Dense(PIXELS)(mixed.reshape(len(mixed), -1)))
            x = nn.LayerNorm()(mixed + nn.Dense(PIXELS)(wide).reshape(mixed.shape))
        return nn.Dense(10)(x.reshape(len(x), -1))


def trained(params: Any, engine: Engine | None, data: Digits, rate: float, steps: int = STEPS) -> Any:
    """Returns the weights after training by Adam.

    Args:
      params: weights to begin with.
      engine: of the transforms; None: exact.
      data: the images.
      rate: learning rate, which falls to 0 by a cosine.
      steps: of training; default `STEPS`.
    """
    network = Network(engine)
    optimizer = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def loss(params: Any, batch: jax.Array, key: jax.Array) -> jax.Array:
        logits: Any = network.apply(params, data.images[batch], rngs={"noise": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, data.labels[batch]).mean()

    def step(state: Any, number: jax.Array) -> Any:
        params, memory = state
        key = jax.random.fold_in(jax.random.key(1), number)
        batch = jax.random.choice(key, jnp.arange(len(data.images)), (BATCH,))
        updates, memory = optimizer.update(jax.grad(loss)(params, batch, key), memory)
        return (optax.apply_updates(params, updates), memory), None

    start = (params, optimizer.init(params))
    return jax.jit(lambda state: jax.lax.scan(step, state, jnp.arange(steps))[0][0])(start)


def accuracies(params: Any, engine: Engine | None, data: Digits) -> list[float]:
    """Returns the accuracy on the test images for each draw of the noise.

    Args:
      params: the weights.
      engine: of the transforms; None: exact.
      data: the images.
    """
    return [float(_accuracy(params, engine, data, jax.random.key(draw))) for draw in range(DRAWS)]


@jax.jit
def _accuracy(params: Any, engine: Engine | None, data: Digits, key: jax.Array) -> jax.Array:
    logits: Any = Network(engine).apply(params, data.test_images, rngs={"noise": key})
    return (logits.argmax(-1) == data.test_labels).mean()


def train_exactly(data: Digits, steps: int = STEPS) -> Any:
    """Returns the weights of a network that is trained with exact transforms.

    Args:
      data: the images.
      steps: of training; default `STEPS`.
    """
    begun = Network().init(jax.random.key(0), data.images[:2])
    return trained(begun, None, data, RATE, steps)


def networks(exact: Any, fitted: Fitted, data: Digits, steps: int = STEPS) -> list[dict[str, Any]]:
    """Trains a network further through the models, and returns the accuracy of each network.

    Args:
      exact: weights of the network that was trained with exact transforms.
      fitted: models of the bench.
      data: the images.
      steps: of each training; default `STEPS`.
    """
    tune = functools.partial(trained, exact, data=data, rate=TUNING_RATE, steps=steps)
    tuned = [tune(engine=engine) for engine in (fitted.model, fitted.without_phases)]
    hidden = hidden_device()
    cases = [
        ("exact transforms", "exact transforms", exact, None),
        ("exact transforms", "fitted model", exact, fitted.model),
        ("exact transforms", "hidden device", exact, hidden),
        ("fitted model", "hidden device", tuned[0], hidden),
        ("fitted model, no reference beam", "hidden device", tuned[1], hidden),
    ]
    rows = []
    for through, tested, params, engine in cases:
        each = accuracies(params, engine, data)
        rows.append(
            {"trained_through": through, "tested_on": tested, "examples": len(data.test_labels)}
            | {"accuracy": float(np.mean(each)), "each": each}
        )
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats the accuracy of each network, with Wilson's 95 % interval over test images."""
    lines = [["trained through", "tested on", "accuracy %", "95 %"]]
    for row in rows:
        interval = percent_range(*wilson_interval(row["accuracy"], row["examples"]), ".1f")
        accuracy = f"{100 * row['accuracy']:.1f}"
        lines.append([row["trained_through"], row["tested_on"], accuracy, interval])
    return "\n".join(aligned(lines))


def define_flags() -> None:
    flags.DEFINE_string("out", None, "path of the results without a suffix; .json is added")


def main() -> None:
    stem = paths.stem(flags.FLAGS.out, "--out") if flags.FLAGS.out else None
    with tempfile.TemporaryDirectory() as folder:
        fitted, data = fit_files(Path(folder)), digits()
        print(f"with reference beam\n{fitted.fit.verdict()}\nwithout\n{fitted.without.verdict()}\n")
        rows = networks(train_exactly(data), fitted, data)
    print(table(rows))
    if stem:
        fits = [
            {"reference": reference, "held_out_db": fit.held_out_db, "expected_db": fit.expected_db}
            for reference, fit in ((True, fitted.fit), (False, fitted.without))
        ]
        camera = {"gain": fitted.noise.gain, "read_noise_e": fitted.noise.read_noise}
        document = provenance.record() | {"fits": fits, "camera": camera, "rows": rows}
        provenance.write(stem.with_name(f"{stem.name}.json"), document)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
