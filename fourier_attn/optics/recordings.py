"""Reads and checks the recordings of an optical bench: probes with their readings, drives, repeated frames.

Tables are CSV files with a header. Columns are found by their names, in any order. Pixels are counted row by
row from 0.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float, Inexact

from fourier_attn import paths
from fourier_attn.optics.bench_tables import in_order, read_arrays, read_columns
from fourier_attn.optics.conventions import UNIT

DRIVES = 257  # points of a drive table whose drives are not equally spaced
PER_UNKNOWN = {"intensities": 4, "fields": 2}  # different probes for each unknown number of a detector
COLUMN = re.compile(r"(?:(probe|field)_(\d+)_(re|im)|(intensity)_(\d+)|(reference)(?:_(re|im))?)")
TINY = 1e-6  # amplitudes below are 0
SAME = 1e-5  # relative power, up to which probes differ by their measurement alone
BLOCK = 256  # shots that are compared with all others at once
LARGEST_COUNTS = tuple(2**bits - 1 for bits in (8, 10, 12, 14, 16))
SEEN = 2  # counts that are equal to the largest one of a converter: more than chance
# Least number of counts equal to the largest one, their ratio to other counts, and the width of "near".
CUT, MORE, NEAR = 5, 5.0, 0.02
STEEP = math.pi / 2  # rad between two drives, above which phases cannot be interpolated


class Recording(NamedTuple):
    """Holds probes, one per shot, and the readings of the detectors.

    Args:
      probes: written fields (shots, pixels); 1 is full transmission.
      readings: complex fields or real intensities (shots, detectors).
      reference: field of the reference beam in each shot (shots,), in any unit; None without that beam.
    """

    probes: Complex[np.ndarray, "j n"]
    readings: Inexact[np.ndarray, "j k"]
    reference: Complex[np.ndarray, " j"] | None = None

    @property
    def intensities_only(self) -> bool:
        """Says whether the readings are intensities."""
        return not np.iscomplexobj(self.readings)

    @property
    def written(self) -> Complex[np.ndarray, "j n"]:
        """Returns the probes, with the reference beam as one more pixel."""
        reference = self.reference
        return self.probes if reference is None else np.column_stack([self.probes, reference])

    @property
    def probes_needed(self) -> int:
        """Returns the number of different probes that a fit needs."""
        return PER_UNKNOWN["intensities" if self.intensities_only else "fields"] * self.written.shape[1]

    def numbers(self) -> np.ndarray:
        """Returns for each shot the number of its probe; equal probes have equal numbers.

        Detectors of intensities do not see the common phase of a probe. So the distance of two probes p and
        q is the least one over this phase:

            d^2 = |p|^2 + |q|^2 - 2 |p^H q|

        Probes count as equal if $d^2$ is at most $10^-5 (|p|^2 + |q|^2)$. This allows for errors in measured
        probes.
        """
        written, first = self.written, np.empty(len(self.written), int)
        powers = np.sum(np.abs(written) ** 2, axis=1)
        for begin in range(0, len(written), BLOCK):
            part = slice(begin, begin + BLOCK)
            both = powers[part, None] + powers
            apart = both - 2 * np.abs(written[part].conj() @ written.T)
            first[part] = np.argmax(apart <= SAME * both, axis=1)
        return np.unique(first, return_inverse=True)[1].reshape(-1)


def read_recording(
    path: str | Path, *, black_level: float = 0.0, full_scale: float | None = None
) -> Recording:
    """Reads probes and readings from a file, and checks them.

    Args:
      path: a CSV file with the columns `probe_0_re`, `probe_0_im`, .. and either `intensity_0`, .. or
        `field_0_re`, `field_0_im`, ..; optionally `reference`, or `reference_re` and `reference_im`. Or an
        .npz file with the arrays `probes`, `intensities` or `fields`, and `reference`.
      black_level: counts of the camera without light, which are subtracted from intensities; default 0.
      full_scale: largest count of the camera; None: 255, 1023, 4095, 16383 or 65535, if that is the largest
        intensity and occurs more than once.
    Raises: ValueError for a file that cannot be read or used.
    """
    path = paths.given(path)
    recording = _from_arrays(path) if path.suffix == ".npz" else _from_columns(path)
    check_recording(recording, str(path))
    if recording.intensities_only:
        _check_counts(recording.readings, str(path), full_scale)
        recording = recording._replace(readings=recording.readings - black_level)
        _check_light(recording.readings, str(path))
    return recording


def check_recording(recording: Recording, name: str = "recording") -> None:
    """Checks that a transfer matrix can be found from a recording.

    Raises: ValueError with the cure.
    """
    probes, readings, reference = recording
    if probes.ndim != 2 or readings.ndim != 2 or len(probes) != len(readings):
        raise ValueError(
            f"{name} has probes of shape {probes.shape} and readings of shape {readings.shape}; give one row "
            "of each per shot"
        )
    if probes.shape[1] != readings.shape[1]:
        raise ValueError(
            f"{name} has {probes.shape[1]} written pixels and {readings.shape[1]} detectors; crop or bin the "
            "camera's image to one reading per written pixel"
        )
    if reference is not None and not recording.intensities_only:
        raise ValueError(f"{name} has fields and a reference; fields have their phases, leave reference out")
    given = {"probes": probes, "readings": readings}
    if reference is not None:
        if reference.shape != probes.shape[:1]:
            raise ValueError(f"{name} has a reference of shape {reference.shape}; give one number per shot")
        given["reference"] = reference
    for what, values in given.items():
        if bad := np.argwhere(~np.isfinite(values)).tolist():
            raise ValueError(
                f"{name}: {what} has {len(bad)} numbers that are not finite, the first in shot {bad[0][0]}; "
                "leave out these shots, or record them again"
            )
    if (most := float(np.max(np.abs(probes)))) > 1 + UNIT:
        raise ValueError(
            f"{name}: a probe has the amplitude {most:.4g}, and 1 is full transmission; divide all probes by "
            f"{most:.4g}"
        )
    if recording.intensities_only:
        _check_light(readings, name)
    _check_probes(recording, name)
    _check_stuck(readings, name)


def read_drives(path: str | Path) -> Complex[np.ndarray, " d"]:
    """Reads a drive table, and returns transmissions at equally spaced drives.

    Transmissions between measured drives are interpolated, amplitude and phase apart.

    Args:
      path: a CSV file with the columns `drive`, `amplitude` and `phase_rad`; drives and amplitudes rise.
    Raises: ValueError for a file that cannot be read, or a table that is not monotone.
    """
    path = paths.given(path)
    columns = read_columns(path)
    if set(columns) != {"drive", "amplitude", "phase_rad"}:
        raise ValueError(f"{path} has the columns {', '.join(columns)}; give drive, amplitude, phase_rad")
    drives, amplitudes, angles = (columns[name] for name in ("drive", "amplitude", "phase_rad"))
    if len(drives) < 2:
        raise ValueError(f"{path} has {len(drives)} drive; measure at least two")
    for name, values in (("drive", drives), ("amplitude", amplitudes)):
        if np.any(falls := np.diff(values) <= 0):
            row = int(np.argmax(falls)) + 1
            raise ValueError(
                f"{path} is not monotone: {name}={values[row]:g} in row {row + 1} follows "
                f"{values[row - 1]:g}; sort the rows by drive, and keep the drives where the amplitude rises"
            )
    if amplitudes[0] < 0:
        raise ValueError(f"{path}: amplitude={amplitudes[0]:g} is negative; add pi to phase_rad instead")
    if amplitudes[-1] > 1 + UNIT:
        raise ValueError(
            f"{path}: amplitude={amplitudes[-1]:g}, and 1 is full transmission; divide all amplitudes by "
            f"{amplitudes[-1]:g}"
        )
    angles = np.unwrap(angles)
    if np.any(steep := np.abs(np.diff(angles)) > STEEP):
        row = int(np.argmax(steep))
        turn = abs(angles[row + 1] - angles[row])
        raise ValueError(
            f"{path}: phase_rad turns by {turn:.2g} rad from drive={drives[row]:g} to {drives[row + 1]:g}, "
            "too far to be interpolated; convert degrees to rad, or measure more drives"
        )
    even = np.linspace(drives[0], drives[-1], len(drives))
    if not np.allclose(drives, even, rtol=0, atol=1e-6 * (drives[-1] - drives[0])):
        even = np.linspace(drives[0], drives[-1], max(DRIVES, len(drives)))
    return np.interp(even, drives, amplitudes) * np.exp(1j * np.interp(even, drives, angles))


def read_frames(path: str | Path) -> Float[np.ndarray, "f p"]:
    """Reads repeated frames of one pattern, in counts, (frames, pixels).

    Args:
      path: a CSV file with one frame per row and one pixel per column, named `pixel_0`, `pixel_1`, ..; or an
        .npy file, or an .npz file of one array, (frames, pixels) or (frames, rows, columns).
    Raises: ValueError for a file that cannot be read.
    """
    path = paths.given(path)
    if path.suffix in (".npy", ".npz"):
        arrays = read_arrays(path)
        if len(arrays) != 1:
            raise ValueError(f"{path} has the arrays {', '.join(arrays) or 'none'}; give one array of frames")
        [frames] = arrays.values()
        return np.asarray(frames.reshape(len(frames), -1) if frames.ndim > 1 else frames, float)
    columns = read_columns(path)
    names = [f"pixel_{number}" for number in range(len(columns))]
    return np.stack(in_order(columns, names, path), axis=1)


def check_unsaturated(counts: np.ndarray, name: str, full_scale: float | None) -> None:
    """Refuses counts that a camera has cut off.

    Args:
      counts: of any shape.
      name: of the counts, in messages.
      full_scale: largest count of the camera; None: see `read_recording`.
    Raises: ValueError.
    """
    top = float(np.max(counts))
    if full_scale is None:
        if top not in LARGEST_COUNTS or np.sum(counts == top) < SEEN:
            _check_plateau(counts, name)
            return
        full_scale = top
    if cut := int(np.sum(counts >= full_scale)):
        raise ValueError(
            f"{name}: {cut} counts are at the camera's maximum {full_scale:g}, which cuts off more light; "
            "expose for a shorter time, or lower the laser's power, and record again"
        )


def _check_plateau(counts: np.ndarray, name: str) -> None:
    """Refuses whole counts if the largest one is far more frequent than other counts near it."""
    top, least = float(np.max(counts)), float(np.min(counts))
    width = max(1, round(NEAR * (top - least)))
    same = int(np.sum(counts == top))
    below = int(np.sum(counts >= top - width)) - same
    if same >= CUT and same > MORE * (below / width + 1) and np.all(counts == np.round(counts)):
        raise ValueError(
            f"{name}: {same} counts are equal to the largest one, {top:g}, so that the camera seems to cut "
            "off more light; expose for a shorter time and record again, or give full_scale if its largest "
            "count is higher"
        )


def _check_counts(readings: np.ndarray, name: str, full_scale: float | None) -> None:
    """Refuses intensities that are negative or cut off."""
    if np.any(below := readings < 0):
        shot, pixel = np.argwhere(below)[0]
        raise ValueError(
            f"{name}: intensity_{pixel} is {readings[shot, pixel]:g} in shot {shot}, below 0; save counts as "
            "the camera gives them, and give black_level"
        )
    check_unsaturated(readings, name, full_scale)


def _check_light(readings: np.ndarray, name: str) -> None:
    """Refuses detectors that are dark in all shots."""
    if np.any(dark := readings.sum(axis=0) <= 0):
        raise ValueError(
            f"{name}: intensity_{int(np.argmax(dark))} has no light above the black level in all shots "
            "together; light or remove the detector, or lower black_level"
        )


def _check_stuck(readings: np.ndarray, name: str) -> None:
    """Refuses detectors that read the same in all shots, as stuck pixels do."""
    if np.any(stuck := np.ptp(np.abs(readings), axis=0) == 0):
        number = int(np.argmax(stuck))
        kind = "field" if np.iscomplexobj(readings) else "intensity"
        raise ValueError(
            f"{name}: {kind}_{number} has the size {abs(readings[0, number]):g} in all shots; replace a "
            "pixel that is stuck by its neighbours, or move the image"
        )


def _check_probes(recording: Recording, name: str) -> None:
    """Refuses probes that are too few, or linearly dependent."""
    unknowns, found = recording.written.shape[1], int(recording.numbers().max()) + 1
    if found <= (needed := recording.probes_needed):
        raise ValueError(
            f"{name} has {found} different probes; {unknowns} unknown numbers per detector need at least "
            f"{needed + 1}, {needed // unknowns} for each and one to judge the fit; record "
            f"{needed + 1 - found} more, of random phases"
        )
    if (rank := int(np.linalg.matrix_rank(recording.written))) < unknowns:
        raise ValueError(
            f"{name}: the probes are linearly dependent, of rank {rank} with {unknowns} unknown numbers per "
            "detector; write random phases on all pixels, and give the reference several phases"
        )
    relative = _turned(_turned(recording.written.T).T)
    if recording.intensities_only and np.max(np.abs(np.imag(relative))) < TINY:
        raise ValueError(
            f"{name}: the probes are real, apart from a phase of each pixel, so that a matrix and its "
            "conjugate give the same intensities; write random phases, or add a reference beam with several "
            "phases"
        )


def _turned(values: np.ndarray) -> np.ndarray:
    """Returns complex rows, each times the phase that makes its first number other than 0 positive."""
    first = np.argmax(np.abs(values) > TINY, axis=1)
    lead = np.take_along_axis(values, first[:, None], axis=1)
    return values * np.exp(-1j * np.angle(lead))


def _from_arrays(path: Path) -> Recording:
    """Reads a recording from an .npz file."""
    arrays = read_arrays(path)
    found = [name for name in ("intensities", "fields") if name in arrays]
    unknown = set(arrays) - {"probes", "intensities", "fields", "reference"}
    if "probes" not in arrays or len(found) != 1 or unknown:
        raise ValueError(
            f"{path} has the arrays {', '.join(arrays) or 'none'}; give probes, and either intensities or "
            "fields, and optionally reference"
        )
    readings = arrays[found[0]]
    if found == ["intensities"] and np.iscomplexobj(readings):
        raise ValueError(f"{path}: intensities are complex; name the array fields, or save its real part")
    kind = float if found == ["intensities"] else complex
    reference = arrays["reference"].astype(complex) if "reference" in arrays else None
    return Recording(arrays["probes"].astype(complex), readings.astype(kind), reference)


def _from_columns(path: Path) -> Recording:
    """Reads a recording from a CSV file."""
    columns = read_columns(path)
    if unknown := [name for name in columns if not COLUMN.fullmatch(name)]:
        raise ValueError(
            f"{path} has the column {unknown[0]!r}; columns are probe_0_re, probe_0_im, .., intensity_0, .. "
            "or field_0_re, field_0_im, .., and reference"
        )
    kinds = {kind: [name for name in columns if name.startswith(kind)] for kind in ("intensity", "field")}
    if bool(kinds["intensity"]) == bool(kinds["field"]):
        raise ValueError(f"{path} must have either intensity_0, .. or field_0_re, field_0_im, .. as readings")
    probes = _complex_columns(columns, "probe", path)
    if kinds["field"]:
        readings = _complex_columns(columns, "field", path)
    else:
        names = [f"intensity_{number}" for number in range(len(kinds["intensity"]))]
        readings = np.stack(in_order(columns, names, path), axis=1)
    reference = columns.get("reference")
    if reference is not None:
        return Recording(probes, readings, reference.astype(complex))
    if "reference_re" not in columns and "reference_im" not in columns:
        return Recording(probes, readings)
    real, imaginary = in_order(columns, ["reference_re", "reference_im"], path)
    return Recording(probes, readings, real + 1j * imaginary)


def _complex_columns(columns: Mapping[str, np.ndarray], kind: str, path: Path) -> np.ndarray:
    """Returns the columns `kind`_0_re, `kind`_0_im, .. as complex numbers (rows, pixels)."""
    pixels = -(-sum(name.startswith(f"{kind}_") for name in columns) // 2) or 1
    parts = [in_order(columns, [f"{kind}_{n}_{part}" for n in range(pixels)], path) for part in ("re", "im")]
    return np.stack(parts[0], axis=1) + 1j * np.stack(parts[1], axis=1)
