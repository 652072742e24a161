"""Conventions of a measured transfer matrix: how well it fits the ideal transform, and under which reading.

The engine wants T with $y = E T$: a row for each pixel that is written and a column for each that is read,
both row by row from the corner, $exp(-2 pi i ..)$, power preserved. Others keep zero frequency in the middle,
the conjugate, F without $1 / sqrt(N1 N2)$, pixels column by column, or a mirrored camera. Each reading is
tried, with the complex factor that fits best:

    c = inner(F, T') / inner(T', T'),    signal over error = |F|^2 / |F - c T'|^2
"""

import itertools
import math
import weakref
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Complex

ROWS = 256  # of the matrix that are compared; more say nothing new
BETTER_DB = 3.0  # another reading has to be so much better to be named
FITS_DB = 6.0  # a reading that fits no better is not recommended
SAME_DB = 0.01  # readings that fit alike, of which the one with the fewest words is named
UNIT = 0.05  # the factor that fits is named where it is further from 1


class Reading(NamedTuple):
    """Describes how a matrix may have been written down.

    Args:
      written_centred, read_centred: whether zero is in the middle of the pixels that are written, or read.
      written_columns, read_columns: whether pixels follow each other column by column.
      conjugate: whether the sign of the exponent is +.
      written_upside_down, read_upside_down: whether rows follow each other from the last to the first.
      written_mirrored, read_mirrored: whether columns do.
    """

    written_centred: bool = False
    read_centred: bool = False
    written_columns: bool = False
    read_columns: bool = False
    conjugate: bool = False
    written_upside_down: bool = False
    read_upside_down: bool = False
    written_mirrored: bool = False
    read_mirrored: bool = False

    def places(self, shape: tuple[int, int], *, read: bool) -> np.ndarray:
        """Returns, for each pixel of the engine, its index in the matrix."""
        side = "read" if read else "written"
        centred, columns, upside_down, mirrored = (getattr(self, f"{side}_{name}") for name in LAYOUTS)
        number = np.arange(math.prod(shape))
        number = number.reshape(shape[::-1]).T if columns else number.reshape(shape)
        number = number[:: -1 if upside_down else 1, :: -1 if mirrored else 1]
        return (np.fft.ifftshift(number) if centred else number).reshape(-1)

    def cure(self) -> str:
        """Describes the reading in words."""
        words = []
        for side in ("written", "read"):
            layouts = LAYOUTS.items()
            words += [f"{side} pixels {text}" for name, text in layouts if getattr(self, f"{side}_{name}")]
        words += ["the conjugate"] if self.conjugate else []
        return ", ".join(words)


LAYOUTS = {
    "centred": "with zero in the middle",
    "columns": "column by column",
    "upside_down": "with rows from the last to the first",
    "mirrored": "with columns from the last to the first",
}


def readings() -> Iterator[Reading]:
    """Yields every reading, the matrix as it is first."""
    for flags in itertools.product((False, True), repeat=len(Reading._fields)):
        yield Reading(*flags)


class Fit(NamedTuple):
    """Says how well a matrix fits the ideal transform under a reading.

    Args:
      plain_db: signal over error of the matrix as it is.
      reading, factor: the reading that fits best, and the factor that it then needs.
      best_db: signal over error of that reading, times the factor.
      points: of one transform; without the transform's normalisation the factor has the size of their root.
    """

    plain_db: float
    reading: Reading
    factor: complex
    best_db: float
    points: int


def standard(
    transfer: Complex[np.ndarray, "p p"],
    shape: tuple[int, int],
    reading: Reading,
    factor: complex | float = 1.0,
) -> Complex[np.ndarray, "p p"]:
    """Converts a matrix from another convention to that of the engine.

    Args:
      transfer: the measured matrix, a row for each written pixel.
      shape: (rows, columns) of the aperture.
      reading: the convention of the matrix.
      factor: by which the matrix is multiplied, such as 1/N for a transform without normalisation; default
        1.
    """
    matrix = np.asarray(transfer, complex)[reading.places(shape, read=False)]
    matrix = matrix[:, reading.places(shape, read=True)]
    return factor * (matrix.conj() if reading.conjugate else matrix)


def ideal(rows: np.ndarray, shape: tuple[int, int], lens: str, centered: bool) -> Complex[np.ndarray, "r p"]:
    """Returns rows of the matrix of the exact transform.

    Args:
      rows: places of the rows, pixels counted row by row.
      shape: (rows, columns) of the aperture.
      lens: "2d" or "1d".
      centered: whether the optical axis is in the middle of the array.
    """
    places, phase = (
        np.unravel_index(np.arange(math.prod(shape)), shape),
        np.zeros((len(rows), math.prod(shape))),
    )
    for axis, n in enumerate(shape):
        place = places[axis] - (n // 2 if centered else 0)
        if axis == 1 or lens == "2d":
            phase += np.outer(place[rows], place) % n / n
    same = np.ones_like(phase) if lens == "2d" else places[0][rows, None] == places[0]
    power = math.prod(shape) if lens == "2d" else shape[1]
    return same * np.exp(-2j * np.pi * phase) / math.sqrt(power)


def fit(
    transfer: Complex[np.ndarray, "p p"], shape: tuple[int, int], lens: str = "2d", centered: bool = False
) -> Fit:
    """Compares a matrix with that of the exact transform, as it is and in every other convention.

    Args:
      transfer: the measured matrix.
      shape: (rows, columns) of the aperture.
      lens: "2d" (default) or "1d".
      centered: whether the optical axis is in the middle of the array; default False.
    """
    rows = _sample(math.prod(shape))
    wanted = ideal(rows, shape, lens, centered)
    power = np.sum(np.abs(wanted) ** 2)
    plain = decibel(power, np.sum(np.abs(transfer[rows] - wanted) ** 2))
    reading = _best_reading(transfer, shape, rows, wanted)
    part = transfer[reading.places(shape, read=False)[rows]][:, reading.places(shape, read=True)]
    part = part.conj() if reading.conjugate else part
    factor = complex(np.vdot(part, wanted) / max(np.sum(np.abs(part) ** 2), 1e-300))
    best_db = decibel(power, np.sum(np.abs(wanted - factor * part) ** 2))
    return Fit(plain, reading, factor, best_db, math.prod(shape) if lens == "2d" else shape[1])


def _sample(count: int) -> np.ndarray:
    """Draws at most `ROWS` places at random from a number of them."""
    if count <= ROWS:
        return np.arange(count)
    return np.random.default_rng(0).choice(count, ROWS, replace=False)


def _best_reading(
    transfer: Complex[np.ndarray, "p p"],
    shape: tuple[int, int],
    rows: np.ndarray,
    wanted: Complex[np.ndarray, "r p"],
) -> Reading:
    """Returns the reading that fits best, from some rows and columns; of equal ones the simplest."""
    columns = _sample(math.prod(shape))
    wanted = wanted[:, columns]
    sides: dict[bool, list[dict[str, bool]]] = {}
    for read in (False, True):
        names = [f"{'read' if read else 'written'}_{layout}" for layout in LAYOUTS]
        choices = itertools.product((False, True), repeat=len(names))
        sides[read] = [dict(zip(names, flags, strict=True)) for flags in choices]
    places = np.stack([Reading(**side).places(shape, read=True)[columns] for side in sides[True]])
    fits = []
    for written in sides[False]:
        parts = transfer[Reading(**written).places(shape, read=False)[rows]][:, places]  # (r, readings, c)
        power = np.maximum(np.sum(np.abs(parts) ** 2, axis=(0, 2)), 1e-300)
        for conjugate in (False, True):
            products = np.einsum("rkc,rc->k", parts if conjugate else parts.conj(), wanted)
            for read, share in zip(sides[True], np.abs(products) ** 2 / power, strict=True):
                fits.append((float(share), Reading(**written, **read, conjugate=conjugate)))
    whole = float(np.sum(np.abs(wanted) ** 2))
    levels = [decibel(whole, max(whole - share, 1e-12 * whole)) for share, _ in fits]
    near = max(levels) - SAME_DB
    return min((fit[1] for fit, level in zip(fits, levels, strict=True) if level >= near), key=sum)


def gain(transfer: Complex[np.ndarray, "p p"]) -> float:
    """Estimates the largest singular value by iteration, from below."""
    x = np.random.default_rng(0).standard_normal((len(transfer), min(4, len(transfer)))) + 0j
    for _ in range(30):
        x, _ = np.linalg.qr(((transfer @ x).conj().T @ transfer).conj().T)  # no copy of the whole matrix
    return float(np.linalg.norm(transfer @ x, 2))


_GAINS: dict[int, tuple[float, float]] = {}  # by the identity of arrays, while they exist


def trust(transfer: Complex[np.ndarray, "p p"]) -> None:
    """Exempts an array from `check_passive`: noise of a calibration may make it amplify a little."""
    _remember(transfer, (0.0, 0.0))


def _gains(transfer: Complex[np.ndarray, "p p"]) -> tuple[float, float]:
    """Returns the largest gain of an amplitude and the mean one, computed once for each array."""
    if id(transfer) not in _GAINS:
        mean = math.sqrt(np.sum(np.abs(transfer) ** 2) / len(transfer))
        _remember(transfer, (gain(transfer), mean))
    return _GAINS[id(transfer)]


def _remember(transfer: np.ndarray, gains: tuple[float, float]) -> None:
    _GAINS[id(transfer)] = gains
    weakref.finalize(transfer, _GAINS.pop, id(transfer), None)


def check_table(table: Complex[np.ndarray, "n"]) -> None:
    """Checks that modulators do not amplify.

    Raises: ValueError.
    """
    if (most := float(np.max(np.abs(table)))) > 1 + UNIT:
        raise ValueError(
            f"drive_table has the amplitude {most:.4g}: modulators pass no more than they are given; "
            f"divide it by {most:.4g}, and set the light with power_w"
        )


def check_passive(transfer: Complex[np.ndarray, "p p"], transmission: float) -> None:
    """Refuses a matrix that amplifies, with its insertion loss or in the mean without.

    Raises: ValueError.
    """
    largest, mean = _gains(transfer)
    passed = largest * math.sqrt(transmission)
    if passed > 1 + UNIT or mean > 1 + UNIT:
        raise ValueError(
            f"transfer amplifies (largest singular value {largest:.4g}, root mean square {mean:.4g}), but "
            f"optics are passive; divide it by {max(mean, passed):.4g}, or set insertion_loss_db if the "
            "matrix does not include that loss"
        )


def report(file: str, best: Fit) -> str:
    """Describes a measured matrix in one line, or in two with the cure."""
    line = f"device      {file}: signal over error {best.plain_db:.1f} dB against the ideal transform"
    if best.best_db <= FITS_DB:
        return f"{line}; no known convention fits, at best {best.best_db:.1f} dB"
    if best.best_db < best.plain_db + BETTER_DB:
        return line
    said = best.reading.cure()
    how = [f"read as {said}"] if said else []
    size = abs(best.factor)
    scaled = abs(size - 1) > UNIT
    if scaled or not said:
        turned = np.angle(best.factor)
        how += [f"times {size:.4g}" + (f" exp({turned:.2f} i)" if abs(turned) > UNIT else "")]
    flags = ", ".join(f"{name}=True" for name, value in best.reading._asdict().items() if value)
    factor = f", {complex(best.factor):.6g}" if scaled or not said else ""
    return (
        f"{line}, but {best.best_db:.1f} dB {' and '.join(how)}. If the matrix has that convention, save "
        f"standard(transfer, shape, Reading({flags}){factor}) instead (fourier_attn.optics.conventions)"
        f"{_loss(best) if size > 1 + UNIT else ''}"
    )


def _loss(best: Fit) -> str:
    """Says whether a factor above 1 is the transform's normalisation or loss that the matrix holds."""
    size = abs(best.factor)
    loss = f"insertion_loss_db={20 * math.log10(size):.4g}"
    if abs(size / math.sqrt(best.points) - 1) < UNIT:
        return (
            f". {size:.4g} is the root of {best.points} points, so it is a transform divided by their "
            f"number; if it is loss instead, also give {loss}"
        )
    return f" and give {loss}: the matrix holds that loss, since {size:.4g} is not a normalisation"


def decibel(signal: float, error: float) -> float:
    """Returns the ratio of two powers in dB, at most 300."""
    return 10 * math.log10(signal / max(error, 1e-30 * signal))
