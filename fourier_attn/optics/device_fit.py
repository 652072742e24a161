"""Fits a device to the recording of a bench, and judges the fit on probes that it has not seen.

Some probes are held out. The transfer matrix that the other probes give predicts their readings, and

    signal over error = (sum |reading|^2) / (sum |reading - predicted|^2)

is compared with what noise alone would leave.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Complex, Inexact

from fourier_attn.optics import conventions
from fourier_attn.optics.camera import PhotonTransfer
from fourier_attn.optics.engine_spec import watts
from fourier_attn.optics.phase_retrieval import retrieve_phases
from fourier_attn.optics.recordings import Recording, check_recording

SHORT_DB = 3.0  # held-out probes may fit worse than expected by this
LEAST_DB = 6.0  # a residual of a quarter of the power; more is refused where the noise is unknown
EXACT_DB = 100.0  # ratio at which iterations end, without noise
LARGEST_CHANGE, SIGNIFICANT = 0.1, 5.0  # of the light over the recording, relative and in standard errors
ALIKE = (
    0.99  # conventions that fit the best one so well are alike, and the one with the fewest words is taken
)


class DeviceFit(NamedTuple):
    """Holds a fitted transfer matrix, and how well it predicts.

    Args:
      transfer: (pixels, pixels), of power 1 in the mean of the columns.
      unit: intensity of a pixel that is written with 1 and arrives whole, in units of the readings.
      lo_ratio: power of the reference, at its largest, over unit intensity; None without a reference.
      fitted_db: signal over error of the probes that were fitted.
      held_out_db: signal over error of the held-out probes.
      held_out_error_db: standard error of it, from the scatter over probes; None for one probe.
      floor_db: signal over error that noise alone leaves; None if the noise is unknown.
      expected_db: signal over error to be expected on held-out probes, with the noise and its effect on the
        matrix. The noise is that of `floor_db`, or what `fitted_db` shows if it is unknown.
      change, change_error: relative change of the light from the first shot to the last, with its standard
        error; a part of it is hidden in the matrix.
      measured, predicted: readings of the held-out shots (shots, detectors).
    """

    transfer: Complex[np.ndarray, "n n"]
    unit: float
    lo_ratio: float | None
    fitted_db: float
    held_out_db: float
    held_out_error_db: float | None
    floor_db: float | None
    expected_db: float
    change: float
    change_error: float
    measured: Inexact[np.ndarray, "j n"]
    predicted: Inexact[np.ndarray, "j n"]

    @property
    def sound(self) -> bool:
        """Says whether held-out probes fit about as well as expected."""
        explains = self.floor_db is not None or self.held_out_db > LEAST_DB
        return explains and self.steady and self.held_out_db > min(self.expected_db - SHORT_DB, EXACT_DB)

    @property
    def steady(self) -> bool:
        """Says whether the light did not change during the recording, as far as can be seen."""
        return abs(self.change) < max(LARGEST_CHANGE, SIGNIFICANT * self.change_error)

    def verdict(self) -> str:
        """Describes the judgement in a sentence, with the cure if the fit is not sound."""
        source = "the noise" if self.floor_db is not None else "the fitted probes"
        spread = "" if self.held_out_error_db is None else f" +- {self.held_out_error_db:.1f}"
        expected = f"expected from {source}: {self.expected_db:.1f} dB"
        line = f"held out    {self.held_out_db:.1f}{spread} dB ({expected})"
        if self.sound:
            return line
        if self.floor_db is None and self.held_out_db <= LEAST_DB:
            return (
                f"{line}. The matrix does not explain the readings; check the order of probes and pixels, "
                "and record intensities if the phase of measured fields drifts from shot to shot"
            )
        if not self.steady:
            light = f"{100 * self.change:.0f} +- {100 * self.change_error:.0f} %"
            return (
                f"{line}. The light changed by {light} from the first shot to the last; let the laser "
                "warm up, or divide the readings by its monitored power, and record again"
            )
        return (
            f"{line}. The device is not the matrix that was fitted; check the order of probes and pixels, "
            "saturation, black level, and drift during the recording, and record more probes"
        )


def fit_device(
    recording: Recording,
    shape: tuple[int, int],
    *,
    noise: PhotonTransfer | None = None,
    share: float = 0.2,
    seed: int = 0,
) -> DeviceFit:
    """Fits a transfer matrix to a recording, and judges it on held-out probes.

    Fields are fitted by least squares, intensities by `retrieve_phases`. Shots of one probe are held out
    together. Phases of detectors are relative to the reference beam, if there is one in the recording. For
    intensities alone they are free, and set to those of the exact transform, see `aligned`.

    Args:
      recording: probes and readings.
      shape: (rows, columns) of the aperture.
      noise: of the camera, if the readings are its counts; None (default): unknown.
      share: of the different probes that are held out, as far as enough are left to fit; default 0.2.
      seed: chooses the held-out probes, and first guesses; default 0.
    Raises: ValueError for a recording that cannot be fitted.
    """
    check_recording(recording)
    probes, readings, reference = recording
    if math.prod(shape) != probes.shape[1]:
        raise ValueError(
            f"shape={shape} has {math.prod(shape)} pixels, the probes have {probes.shape[1]}; change either"
        )
    if not 0 < share < 1:
        raise ValueError(f"share={share} of held-out probes must be between 0 and 1; give 0.2")
    out = _held_out(recording, share, seed)
    known = _matrix(recording, ~out, shape, seed)
    transfer, beam = known[: probes.shape[1]], known[probes.shape[1] :]
    unit = float(np.sum(np.abs(transfer) ** 2)) / len(transfer)
    lit = beam if reference is None else beam * np.max(np.abs(reference))
    predicted = recording.written @ known
    predicted = np.abs(predicted) ** 2 if recording.intensities_only else predicted
    signal, errors = np.abs(readings) ** 2, np.abs(readings - predicted) ** 2
    fitted, held = (conventions.decibel(signal[part].sum(), errors[part].sum()) for part in (~out, out))
    shots, unknowns = int(np.sum(~out)), len(known)
    if recording.intensities_only:  # real numbers, whose common phase is not seen
        unknowns = 2 * unknowns - 1
    if noise is not None and recording.intensities_only:
        floor = conventions.decibel(signal[out].sum(), noise.variance(predicted[out]).sum())
        expected = floor - 10 * math.log10(1 + unknowns / (shots - unknowns))
    else:
        floor, expected = None, fitted - 10 * math.log10((shots + unknowns) / (shots - unknowns))
    change, change_error = _change(readings, predicted)
    return DeviceFit(
        transfer=transfer / math.sqrt(unit),
        unit=unit,
        lo_ratio=float(np.mean(np.abs(lit) ** 2)) / unit if len(beam) else None,
        fitted_db=fitted,
        held_out_db=held,
        held_out_error_db=_scatter_db(errors[out].sum(axis=1), recording.numbers()[out]),
        floor_db=floor,
        expected_db=expected,
        change=change,
        change_error=change_error,
        measured=readings[out],
        predicted=predicted[out],
    )


def _scatter_db(errors: np.ndarray, probes: np.ndarray) -> float | None:
    """Returns the standard error of the mean error in dB, from its scatter over probes; None for one.

    Args:
      errors: power of the error of each shot.
      probes: number of its probe.
    """
    _, number = np.unique(probes, return_inverse=True)
    means = np.bincount(number, errors) / np.bincount(number)
    if len(means) < 2 or means.sum() == 0:
        return None
    return float(10 / math.log(10) * means.std(ddof=1) / math.sqrt(len(means)) / means.mean())


def _change(readings: np.ndarray, predicted: np.ndarray) -> tuple[float, float]:
    """Returns the relative change of the light from the first shot to the last, with its standard error.

    Each shot has the scale that fits its prediction to its readings best. The change is the slope of a line
    through these scales. It is an underestimate, because the fitted matrix takes up a part of the change.
    """
    power = np.sum(np.abs(predicted) ** 2, axis=1)
    scales = np.sum(predicted.conj() * readings, axis=1).real / np.where(power > 0, power, 1.0)
    time = np.linspace(-0.5, 0.5, len(scales))
    spread, mean = float(np.sum(time**2)), float(scales.mean())
    slope = float(np.sum(time * scales)) / spread
    rest = scales - mean - slope * time
    error = math.sqrt(float(np.sum(rest**2)) / (len(scales) - 2) / spread)
    return slope / mean, error / abs(mean)


def aligned(transfer: Complex[np.ndarray, "n n"], shape: tuple[int, int]) -> Complex[np.ndarray, "n n"]:
    """Returns a matrix with the phase of each column as the exact transform has it.

    The convention with the largest sum of $|inner(F, T)|$ over the columns is taken for the exact transform.

    Args:
      transfer: (pixels, detectors).
      shape: (rows, columns) of the aperture.
    """
    exact, found = conventions.ideal(np.arange(len(transfer)), shape, "2d", False).conj(), []
    for reading in conventions.readings():
        matrix = conventions.standard(transfer, shape, reading)
        products = np.empty(len(transfer), complex)
        products[reading.places(shape, read=True)] = np.sum(exact * matrix, axis=0)
        phases = np.angle(products) * (-1 if reading.conjugate else 1)
        found.append((float(np.sum(np.abs(products))), sum(reading), phases))
    near = ALIKE * max(score for score, _, _ in found)
    _, _, phases = min((one for one in found if one[0] >= near), key=lambda one: one[1])
    return transfer * np.exp(-1j * phases)


def device_arrays(
    fit: DeviceFit,
    shape: tuple[int, int],
    detection: str,
    *,
    drive_table: Complex[np.ndarray, " d"] | None = None,
    noise: PhotonTransfer | None = None,
    frame_rate_hz: float | None = None,
    well_counts: float | None = None,
) -> dict[str, Any]:
    """Returns the arrays of a device's file, which `Engine.from_file` reads.

    A matrix that amplifies some input, as errors of gains do, gets the smallest insertion loss that makes it
    passive.

    Args:
      fit: of the device.
      shape: (rows, columns) of the aperture.
      detection: detection method of the engine.
      drive_table: transmissions at equally spaced drives; None: modulators are ideal.
      noise: of the camera, if the readings are its counts. With the frame rate it gives the light of the
        recording, the read noise and the noise of the laser.
      frame_rate_hz: passes per second; None: without light and noise.
      well_counts: largest count above the black level; None: unlimited.
    """
    arrays: dict[str, Any] = {"transfer": fit.transfer, "shape": shape, "detection": detection}
    loss = max(0.0, 20 * math.log10(float(np.linalg.norm(fit.transfer, 2))))
    if loss > 0:
        arrays["insertion_loss_db"] = loss
    if drive_table is not None:
        arrays["drive_table"] = drive_table
    if fit.lo_ratio is not None:
        arrays["lo_ratio"] = fit.lo_ratio
    if noise is None or frame_rate_hz is None:
        return arrays
    light = watts(noise.gain * fit.unit, frame_rate_hz, 1.0, 10 ** (-loss / 10))
    arrays |= {"frame_rate_hz": frame_rate_hz, "power_w": light, "read_noise_e": noise.read_noise}
    if (rin := noise.rin_db_hz(frame_rate_hz)) is not None:
        arrays["rin_db_hz"] = rin
    if well_counts is not None:
        arrays["well_depth_e"] = noise.gain * well_counts
    return arrays


def _matrix(recording: Recording, part: np.ndarray, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Returns the matrix that some shots give, with the response to the reference as a last row."""
    written, readings = recording.written[part], recording.readings[part]
    if not recording.intensities_only:
        return np.linalg.lstsq(written, readings, rcond=None)[0]
    if recording.reference is None:
        return aligned(retrieve_phases(written, readings, seed=seed), shape)
    return retrieve_phases(written, readings, reference=-1, seed=seed)


def _held_out(recording: Recording, share: float, seed: int) -> np.ndarray:
    """Returns which shots are held out: all shots of some probes, as far as enough probes are left."""
    number = recording.numbers()
    probes = int(number.max()) + 1
    count = min(max(1, round(share * probes)), probes - recording.probes_needed)
    return np.isin(number, np.random.default_rng(seed).permutation(probes)[:count])
