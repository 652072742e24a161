"""Calibration: what an engine's static device is, found by sending known fields through its noisy passes.

Probes are the rows of a discrete Fourier transform times random phases, new ones in each round: all light
is in use, all inputs and all outputs are lit alike, and rows of a round are orthogonal. With E what is known
to be written, levels and leak included, and Y what is read, the transfer matrix is that of least squares:

    T = (sum_r E_r^H E_r)^-1 sum_r E_r^H Y_r

The noise of passes and converters averages out as $1 / sqrt(rounds)$. Shot noise also falls as
$1 / sqrt(photons)$, and noise of the electronics as $1 / photons$.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex

from fourier_attn.optics import device as static
from fourier_attn.optics import modulator
from fourier_attn.optics.engine import optical_dft2
from fourier_attn.optics.engine_rules import MOST_PIXELS
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.random import Key, uniform

PROBE_RANGE = 3.0  # amplitude, where converters await theirs: four deviations of what probes give
SWEEPS = 50  # of alternating least squares


def calibrate(
    device: Engine,
    key: Key = None,
    *,
    photons: float | None = None,
    probes: int = 16,
    corrected: bool = False,
) -> Engine:
    """Returns an engine like `device` with the static device that was found from its noisy passes.

    What modulators, receiver and light are is taken as known; errors of the reference's phase steps count as
    a part of the device.

    Args:
      device: the engine to be probed; emulated, or with `hardware`.
      key: draws the probes and the noise.
      photons: photo-electrons of unit intensity in a pass while it is probed; None: those of the engine.
      probes: rounds, each of as many arrays as the aperture has pixels; see `passes`.
      corrected: also finds digital factors of each pixel, before writing and after reading, with which the
        device is nearest to the exact transform. `corrections` gives them to the device.
    Raises: ValueError for an engine whose fields cannot be written or read, or too large an aperture.
    """
    _check(device, probes)
    if key is None:
        raise ValueError("calibrate draws probes: pass key=jax.random.key(...)")
    probe = _probing(device, photons)
    known = dataclasses.replace(
        probe.modulator,
        dac_rounding="nearest",
        phase_noise_rms=None,
        amp_noise_rms=None,
        drive_noise_rms=None,
    )
    pixels = math.prod(device.shape)
    gram, crossed = np.zeros((pixels, pixels), complex), np.zeros((pixels, pixels), complex)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(pixels), np.arange(pixels)) / pixels)
    for one in jax.random.split(key, probes):
        phases, noise = jax.random.split(one)
        turns = np.exp(2j * np.pi * np.asarray(uniform(phases, (pixels,), jnp.float32), float))
        x = jnp.asarray((waves * turns).reshape(pixels, *device.shape), jnp.complex64)
        written = modulator.write(x, known, modulator.Keys())
        fields = np.asarray(written.field * written.scale.astype(x.dtype), complex).reshape(pixels, pixels)
        read = np.asarray(optical_dft2(x, probe, noise), complex).reshape(pixels, pixels)
        gram += fields.conj().T @ fields
        crossed += fields.conj().T @ read
    measured = Engine.with_transfer(np.linalg.solve(gram, crossed), like=_plain(device))
    return corrections(measured, measured) if corrected else measured


def passes(device: Engine, probes: int = 16) -> int:
    """Returns the number of passes that `calibrate` takes."""
    return probes * math.prod(device.shape) * device.replace(slices=1).passes


def corrections(engine: Engine, measured: Engine) -> Engine:
    """Returns the engine with the digital factors that bring a measured device nearest to the exact one.

        a, b = argmin sum_{m, k} |a[m] T[m, k] b[k] - F[m, k]|^2

    It is found by alternating least squares.
    """
    transfer = transfer_matrix(measured)
    exact = transfer_matrix(measured.ideal())
    before, after = np.ones(len(exact), complex), np.ones(len(exact), complex)
    for _ in range(SWEEPS):
        before = _factors(transfer * after, exact)
        after = _factors((before[:, None] * transfer).T, exact.T)
    size = np.mean(np.abs(before)) or 1.0  # what one has more, the other has less
    factors = {"input_factors": before / size, "output_factors": after * size}
    return engine.replace(**{name: values.reshape(engine.shape) for name, values in factors.items()})


def transfer_matrix(engine: Engine) -> Complex[np.ndarray, "p p"]:
    """Returns the matrix of an emulated engine's static device, without its insertion loss."""
    return np.asarray(static.matrix(engine), complex) / math.sqrt(engine.device.transmission)


def residual_db(measured: Engine, device: Engine) -> float:
    """Returns the power of the error of a measured transfer matrix over that of the matrix, in dB."""
    exact = transfer_matrix(device)
    error = np.sum(np.abs(transfer_matrix(measured) - exact) ** 2)
    return 10 * math.log10(max(error / np.sum(np.abs(exact) ** 2), 1e-30))


def _factors(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns for each row the factor that brings it nearest to the wanted one; 0 for a dark row."""
    power = np.sum(np.abs(rows) ** 2, axis=1)
    return np.sum(rows.conj() * wanted, axis=1) / np.where(power > 0, power, 1.0)


def _check(device: Engine, probes: int) -> None:
    if probes < 1:
        raise ValueError(f"probes={probes} must be at least 1")
    if device.channels.count > 1:
        raise ValueError(
            f"wavelengths={device.channels.wavelengths} and apertures={device.channels.apertures}: "
            "calibration finds one matrix; calibrate each channel alone, with wavelengths=1 and apertures=1"
        )
    pixels = math.prod(device.shape)
    if pixels > MOST_PIXELS:
        raise ValueError(
            f"an aperture {device.shape} is too large to be measured; at most {MOST_PIXELS} pixels"
        )
    if device.modulator.encode != "complex" or not device.linear:
        raise ValueError(
            f"encode={device.modulator.encode!r} and detection={device.receiver.detection!r}: calibration "
            "writes phases and reads the field; use 'complex' and 'hybrid90'"
        )


def _probing(device: Engine, photons: float | None) -> Engine:
    """Returns the engine as it is probed: whole fields, without digital corrections."""
    engine = device.whole_field().replace(
        dc_block=False, slices=1, input_factors=None, output_factors=None, monitor=None
    )
    changes: dict[str, Any] = {}
    if engine.modulator.dac_range == "calibrated":
        changes["dac_range"] = "auto"  # probes have amplitude 1 everywhere
    if engine.receiver.adc_range == "calibrated":
        changes |= {"adc_range": PROBE_RANGE, "adc_full_scale": None}
    return engine.replace(**changes) if photons is None else engine.replace(**changes).with_photons(photons)


def _plain(device: Engine) -> Engine:
    """Returns the part of the engine that a model of it keeps."""
    backward = "model" if device.backward == "surrogate" else device.backward
    without = {"lo_phase_err": None, "input_factors": None, "output_factors": None, "file": None}
    return device.replace(backward=backward, hardware=None, **without)
