"""Conventions of a measured transfer matrix: how well it fits the ideal transform, and under which reading.

The engine wants T with y = E T: a row for each pixel that is written and a column for each that is read, both
row by row from the corner, exp(-2 pi i ..), power preserved. Others keep zero frequency in the middle, the
conjugate, F without 1 / sqrt(N1 N2), or pixels column by column. Each reading is tried, with the complex
factor that fits best:

    c = inner(F, T') / inner(T', T'),    signal over error = |F|^2 / |F - c T'|^2
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Complex

ROWS = 256  # of the matrix that are compared; more say nothing new
BETTER_DB = 3.0  # another reading has to be so much better to be named
UNIT = 0.05  # the factor that fits is named where it is further from 1


class Reading(NamedTuple):
    """How a matrix may have been written down.

    Args:
      written_centred, read_centred: whether zero is in the middle of the pixels that are written, or read.
      written_columns, read_columns: whether pixels follow each other column by column.
      conjugate: whether the sign of the exponent is +.
    """

    written_centred: bool = False
    read_centred: bool = False
    written_columns: bool = False
    read_columns: bool = False
    conjugate: bool = False

    def places(self, shape: tuple[int, int], *, read: bool) -> np.ndarray:
        """Where in the matrix the pixel stands that the engine has at each place."""
        centred = self.read_centred if read else self.written_centred
        columns = self.read_columns if read else self.written_columns
        number = np.arange(math.prod(shape))
        number = number.reshape(shape[::-1]).T if columns else number.reshape(shape)
        return (np.fft.ifftshift(number) if centred else number).reshape(-1)

    def cure(self) -> str:
        """What the reading says, in words."""
        words = []
        for name, centred, columns in (
            ("written", self.written_centred, self.written_columns),
            ("read", self.read_centred, self.read_columns),
        ):
            words += [f"{name} pixels with zero in the middle"] if centred else []
            words += [f"{name} pixels column by column"] if columns else []
        words += ["the conjugate"] if self.conjugate else []
        return ", ".join(words)


class Fit(NamedTuple):
    """How a matrix fits the ideal transform under a reading.

    Args:
      plain_db: signal over error of the matrix as it stands.
      best_db: of the reading that fits best, times the factor.
    """

    plain_db: float
    reading: Reading
    factor: complex
    best_db: float


def standard(
    transfer: Complex[np.ndarray, "p p"], shape: tuple[int, int], reading: Reading, factor: complex = 1.0
) -> Complex[np.ndarray, "p p"]:
    """The matrix as the engine wants it, of one that was written down by another reading."""
    found = np.asarray(transfer, complex)[reading.places(shape, read=False)]
    found = found[:, reading.places(shape, read=True)]
    return factor * (found.conj() if reading.conjugate else found)


def ideal(rows: np.ndarray, shape: tuple[int, int], lens: str, centered: bool) -> Complex[np.ndarray, "r p"]:
    """Rows of the exact transform's matrix."""
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
    """Compares a matrix with that of the exact transform, as it stands and by every reading."""
    rows = np.arange(math.prod(shape))
    if len(rows) > ROWS:
        rows = np.random.default_rng(0).choice(len(rows), ROWS, replace=False)
    wanted = ideal(rows, shape, lens, centered)
    power = np.sum(np.abs(wanted) ** 2)
    plain = _decibel(power, np.sum(np.abs(transfer[rows] - wanted) ** 2))
    best = Fit(plain, Reading(), 1.0, plain)
    for flags in itertools.product((False, True), repeat=len(Reading._fields)):
        reading = Reading(*flags)
        part = transfer[reading.places(shape, read=False)[rows]][:, reading.places(shape, read=True)]
        part = part.conj() if reading.conjugate else part
        factor = complex(np.vdot(part, wanted) / max(np.sum(np.abs(part) ** 2), 1e-300))
        found = _decibel(power, np.sum(np.abs(wanted - factor * part) ** 2))
        if found > best.best_db + 1e-6 * (1 + sum(flags)):  # of equal ones the one with the fewest words
            best = Fit(plain, reading, factor, found)
    return best


def gain(transfer: Complex[np.ndarray, "p p"]) -> float:
    """Largest singular value, by iteration: no more than it, and near it."""
    x = np.random.default_rng(0).standard_normal((len(transfer), min(4, len(transfer)))) + 0j
    for _ in range(30):
        x, _ = np.linalg.qr(transfer.conj().T @ (transfer @ x))
    return float(np.linalg.norm(transfer @ x, 2))


def check_passive(transfer: Complex[np.ndarray, "p p"], transmission: float) -> None:
    """Refuses a matrix that amplifies, with its insertion loss or in the mean without.

    Raises: ValueError.
    """
    largest, mean = gain(transfer), math.sqrt(np.sum(np.abs(transfer) ** 2) / len(transfer))
    passed = largest * math.sqrt(transmission)
    if passed > 1 + UNIT or mean > 1 + UNIT:
        raise ValueError(
            f"transfer has the singular value {largest:.4g}, {mean:.4g} in the mean: more power comes out "
            f"than goes in, and optics are passive; divide it by {max(mean, passed):.4g}, or give the "
            "insertion_loss_db that it leaves out"
        )


def report(file: str, found: Fit) -> str:
    """A line, or two with the cure, about a measured matrix."""
    line = f"device      {file}: signal over error {found.plain_db:.1f} dB against the ideal transform"
    size = abs(found.factor)
    scaled = abs(size - 1) > UNIT
    if found.best_db < found.plain_db + BETTER_DB:
        return line
    said = found.reading.cure()
    how = [f"read as {said}"] if said else []
    if scaled or not said:
        turned = np.angle(found.factor)
        how += [f"times {size:.4g}" + (f" exp({turned:.2f} i)" if abs(turned) > UNIT else "")]
    flags = ", ".join(f"{name}=True" for name, value in found.reading._asdict().items() if value)
    factor = f", {complex(found.factor):.6g}" if scaled or not said else ""
    return (
        f"{line}, and {found.best_db:.1f} dB {' and '.join(how)}. If that is its convention, save "
        f"standard(transfer, shape, Reading({flags}){factor}) of fourier_attn.optics.conventions instead"
    )


def _decibel(signal: float, error: float) -> float:
    return 10 * math.log10(signal / max(error, 1e-30 * signal))
