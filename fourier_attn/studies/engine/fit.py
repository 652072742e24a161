"""Fits a device to the recordings of a laboratory, and judges the fit on held-out probes.

    python -m fourier_attn.studies.engine.fit --recording=shots.csv --shape=8,8 --out=device

--recording has probes and the readings of detectors, intensities or fields. --drive has the table of a
modulator, and --frames repeated frames of one pattern. The last two are optional. docs/optics/laboratory.md
has the formats. With --frame_rate_hz and --frames the device has the light and the noise of the recording.

Writes the device OUT.npz, which every option for an engine takes, and the judgement in OUT.json and OUT.png;
files of an earlier fit are not overwritten. A fit that is not sound is not written unless --keep is given.
"""

import math
import sys
from typing import Any

import numpy as np
from absl import flags
from matplotlib.figure import Figure

from fourier_attn import atomic, command, paths, provenance, style
from fourier_attn.choices import check_choice
from fourier_attn.optics import Engine
from fourier_attn.optics.camera import PhotonTransfer, photon_transfer
from fourier_attn.optics.device_fit import DeviceFit, device_arrays, fit_device
from fourier_attn.optics.parts import DETECTIONS
from fourier_attn.optics.recordings import Recording, read_drives, read_frames, read_recording
from fourier_attn.studies import runs

POINTS = 2000  # readings in the figure, at most


def define_flags() -> None:
    flags.DEFINE_string("recording", None, "file of probes and readings, .csv or .npz")
    flags.DEFINE_list("shape", None, "rows and columns of the aperture, like 8,8; without it square")
    flags.DEFINE_string("drive", None, "file of the modulators' drive table, .csv")
    flags.DEFINE_string("frames", None, "file of repeated frames of one pattern, .csv or .npy")
    flags.DEFINE_float("black_level", 0.0, "counts of the camera without light")
    flags.DEFINE_float(
        "full_scale", None, "largest count of the camera; without it a common one that repeats"
    )
    flags.DEFINE_float("frame_rate_hz", None, "passes per second; with it the device has light and noise")
    flags.DEFINE_string("detection", None, "detection of the device; without it that of the recording")
    flags.DEFINE_float("share", 0.2, "share of the probes that are held out")
    flags.DEFINE_integer("seed", 0, "seed of the held-out probes and of first guesses", lower_bound=0)
    flags.DEFINE_bool("keep", False, "write a device that does not predict the held-out probes")
    flags.DEFINE_string(
        "out", "device", "path of the results without a suffix; .npz, .json and .png are added"
    )


def main() -> None:
    """Reads the files, fits and judges the device, and writes it."""
    options = flags.FLAGS
    if options.recording is None:
        raise ValueError(
            "--recording is needed: a file of probes and readings, see docs/optics/laboratory.md"
        )
    _check_options()
    out = paths.stem(options.out, "--out")
    report, picture = runs.new_files(out)
    device = out.with_name(f"{out.name}.npz")
    paths.check_new(device, f"move it away, or name this fit, --out={out.name}-2")
    camera = {"black_level": options.black_level, "full_scale": options.full_scale}
    recording = read_recording(options.recording, **camera)
    table = None if options.drive is None else read_drives(options.drive)
    noise = None
    if options.frames is not None:
        noise = photon_transfer(read_frames(options.frames), name=options.frames, **camera)
    shape = _shape(recording)
    fit = fit_device(recording, shape, noise=noise, share=options.share, seed=options.seed)
    print("\n".join(described(recording, fit, noise)))
    if not (fit.sound or options.keep):
        raise ValueError(f"{fit.verdict().partition('. ')[2]}; --keep writes the device nevertheless")
    arrays = device_arrays(
        fit,
        shape,
        options.detection or _detection(recording),
        drive_table=table,
        noise=noise,
        frame_rate_hz=options.frame_rate_hz,
        well_counts=None if options.full_scale is None else options.full_scale - options.black_level,
    )
    atomic.make_folder(device.parent)
    with atomic.writing(device) as opened:
        np.savez(opened, **arrays)
    Engine.from_file(device)  # says how well the matrix fits the exact transform
    document = provenance.record() | facts(recording, shape, fit, noise)
    provenance.write(report, document)
    style.save(plot(document), picture)
    print(f"written to {device}, {report.name} and {picture.name}")


def _check_options() -> None:
    """Checks options before anything is read. Raises: ValueError."""
    options = flags.FLAGS
    if options.detection is not None:
        check_choice("--detection", options.detection, DETECTIONS)
    if options.frame_rate_hz is not None and not 0 < options.frame_rate_hz < math.inf:
        raise ValueError(
            f"--frame_rate_hz={options.frame_rate_hz:g} must be positive; give passes per second"
        )
    if options.frame_rate_hz is not None and options.frames is None:
        raise ValueError(
            "--frame_rate_hz gives the device light only together with --frames; record repeated frames, or "
            "leave it out and set power_w in the configuration"
        )
    if not math.isfinite(options.black_level):
        raise ValueError(f"--black_level={options.black_level} must be a number of counts")


def described(recording: Recording, fit: DeviceFit, noise: PhotonTransfer | None) -> list[str]:
    """Returns the lines that the command prints.

    Args:
      recording: that was fitted.
      fit: of the device.
      noise: of the camera, or None.
    """
    kind = "intensities" if recording.intensities_only else "fields"
    beam = " and a reference" if recording.reference is not None else ""
    shots, pixels = recording.probes.shape
    lines = [
        f"recording   {shots} shots of {pixels} pixels, {kind}{beam}",
        f"fitted      {fit.fitted_db:.1f} dB of signal over error on {shots - len(fit.measured)} shots",
    ]
    if recording.intensities_only and not beam:
        lines.append(
            "phases      of detectors are not in the recording; they are set to the exact transform's"
        )
    if noise is not None:
        lines += [
            f"camera      {noise.gain:.4g} +- {noise.gain_error:.2g} electrons per count, read noise "
            f"{noise.read_noise:.3g} +- {noise.read_noise_error:.2g} electrons",
            f"laser       {100 * noise.laser_rms:.3g} +- {100 * noise.laser_rms_error:.2g} % rms",
        ]
    if fit.floor_db is not None:
        lines.append(f"noise       leaves {fit.floor_db:.1f} dB on held-out shots")
    elif recording.intensities_only:
        lines.append("noise       unknown; record --frames to tell it from errors that all probes share")
    return [*lines, fit.verdict()]


def facts(
    recording: Recording, shape: tuple[int, int], fit: DeviceFit, noise: PhotonTransfer | None
) -> dict[str, Any]:
    """Returns the document of a fit.

    Args:
      recording: that was fitted.
      shape: of the aperture.
      fit: of the device.
      noise: of the camera, or None.
    """
    points = np.linspace(0, fit.measured.size - 1, min(POINTS, fit.measured.size)).astype(int)
    numbers = (
        "fitted_db",
        "held_out_db",
        "held_out_error_db",
        "floor_db",
        "expected_db",
        "sound",
        "unit",
        "lo_ratio",
        "change",
        "change_error",
    )
    document: dict[str, Any] = {name: getattr(fit, name) for name in numbers}
    document |= {"shape": shape, "shots": len(recording.probes), "held_out_shots": len(fit.measured)}
    document |= {
        "measured": np.abs(fit.measured).reshape(-1)[points].tolist(),
        "predicted": np.abs(fit.predicted).reshape(-1)[points].tolist(),
        "camera": None,
    }
    if noise is not None:
        values = {name: np.asarray(value).tolist() for name, value in noise._asdict().items()}
        document["camera"] = values
    return document


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots predicted over measured readings of held-out shots, and the camera's variances over means.

    Args:
      document: a file of results of this study.
    """
    known = document["camera"] is not None
    figure = style.figure(height=2.8)
    left, *others = np.atleast_1d(figure.subplots(1, 2 if known else 1))
    measured = document["measured"]
    left.plot(measured, document["predicted"], ".", markersize=2, color=style.BLUE)
    ends = [min(measured), max(measured)]
    left.plot(ends, ends, color="black", linewidth=0.6, linestyle=":")
    left.locator_params(nbins=5)
    title = f"held-out probes: {document['held_out_db']:.1f} dB, expected {document['expected_db']:.1f} dB"
    left.set(xlabel="measured reading", ylabel="predicted reading", title=title)
    if known:
        _plot_camera(others[0], document["camera"])
    return figure


def _plot_camera(axes: Any, camera: dict[str, Any]) -> None:
    """Plots variances over means, and the fitted line."""
    axes.plot(camera["means"], camera["variances"], ".", markersize=3, color=style.BLUE)
    means = np.sort(camera["means"])
    line = (camera["read_noise"] / camera["gain"]) ** 2 + means / camera["gain"]
    axes.plot(means, line, color="black", linewidth=0.8)
    title = f"camera: {camera['gain']:.3g} electrons per count, read noise {camera['read_noise']:.2g}"
    axes.set(xlabel="mean, counts", ylabel="variance, counts squared", title=title)


def _shape(recording: Recording) -> tuple[int, int]:
    """Returns the aperture of --shape, or a square one."""
    pixels = recording.probes.shape[1]
    if flags.FLAGS.shape is None:
        side = round(pixels**0.5)
        if side * side != pixels:
            raise ValueError(f"{pixels} pixels are not a square; give --shape=ROWS,COLUMNS")
        return side, side
    words = flags.FLAGS.shape
    if len(words) != 2 or not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise ValueError(f"--shape={','.join(words)} must be two whole numbers, like 8,8")
    return int(words[0]), int(words[1])


def _detection(recording: Recording) -> str:
    """Returns the detection that has the readings of a recording."""
    if not recording.intensities_only:
        return "hybrid90"
    return "intensity" if recording.reference is None else "linear3"


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
