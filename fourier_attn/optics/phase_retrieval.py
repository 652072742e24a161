"""Phase retrieval: the transfer matrix of a device from the intensities of known probes.

A detector k reads $I[j, k]$ in shot j, and the phase of its field y is lost:

    y[j, k] = sum_m p[j, m] T[m, k],    I[j, k] = |y[j, k]|^2

Each detector is a problem of its own, with a column of T as unknowns. Two projections alternate: one gives y
the measured modulus, the other one makes y a superposition of the probes.

    y'[j, k] = sqrt(I[j, k]) y[j, k] / |y[j, k]|,    T = (P^H P)^-1 P^H y'
"""

import numpy as np
from jaxtyping import Complex, Float

RELAXED = 100  # iterations of relaxed reflections, which leave the places where plain projections stagnate
RELAXATION = 0.9
PLAIN = 1000  # iterations of plain projections at most
STEADY = 1e-9  # relative change of the matrix at which they end
POWERS = 30  # iterations for the leading eigenvector
LARGEST_WEIGHT = 9.0  # of a shot in the first guess, in units of the mean
STARTS = 4  # at most, for detectors that fit worse than the others
WORSE = 2.0  # so many times the median misfit


def retrieve_phases(
    probes: Complex[np.ndarray, "j n"],
    intensities: Float[np.ndarray, "j k"],
    *,
    reference: int | None = None,
    seed: int = 0,
) -> Complex[np.ndarray, "n k"]:
    """Finds the transfer matrix of a device from the intensities of known probes.

    The first guess is the field that bright shots have in common. Relaxed averaged alternating reflections
    follow, which leave the places where plain projections stagnate. Then plain alternating projections
    (Gerchberg-Saxton, error reduction) minimise the misfit

        L[k] = sum_j (|y[j, k]| - sqrt(I[j, k]))^2

    Under shot noise all terms have the same variance. A column whose misfit is large starts again from
    another guess.

        >>> rng = np.random.default_rng(0)
        >>> probes, transfer = np.exp(2j * np.pi * rng.random((40, 4))), rng.normal(size=(4, 3)) + 0j
        >>> found = retrieve_phases(probes, np.abs(probes @ transfer) ** 2)
        >>> bool(np.allclose(np.abs(found), np.abs(transfer)))
        True

    Args:
      probes: written fields (shots, pixels). Random phases serve, and four shots per unknown.
      intensities: readings (shots, detectors); what noise brings below 0 counts as 0.
      reference: number of the pixel to which each detector responds with a positive number; None: phases of
        columns are arbitrary. A reference beam is one more pixel of the probes, and fixes the phases between
        detectors in this way.
      seed: of the first guesses; default 0.
    Source: Gerchberg and Saxton (1972); for transfer matrices Huang et al., Photonics Research 9, 34 (2021);
      the first guess is that of Netrapalli, Jain and Sanghavi, NIPS 2013.
    """
    amplitudes, rng = np.sqrt(np.maximum(intensities, 0)), np.random.default_rng(seed)
    found = _solve(probes, amplitudes, rng)
    misfit = _misfit(probes, amplitudes, found)
    for _ in range(STARTS - 1):
        again = np.flatnonzero(misfit > WORSE * np.median(misfit) + STEADY)
        if not again.size:
            break
        other = _solve(probes, amplitudes[:, again], rng)
        better = _misfit(probes, amplitudes[:, again], other)
        won = better < misfit[again]
        found[:, again[won]], misfit[again[won]] = other[:, won], better[won]
    return found if reference is None else found * _phase(found[reference]).conj()


def _solve(probes: np.ndarray, amplitudes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the matrix after relaxed and plain projections from one guess."""
    basis, triangle = np.linalg.qr(probes)
    back = basis.conj().T
    y = basis @ (triangle @ _guess(probes, amplitudes, rng))
    for _ in range(RELAXED):
        measured = amplitudes * _phase(y)
        reflected = 2 * measured - y
        again = 2 * (basis @ (back @ reflected)) - reflected
        y = RELAXATION / 2 * (again + y) + (1 - RELAXATION) * measured
    inside = back @ y  # coordinates of y among the probes' superpositions
    for _ in range(PLAIN):
        before, inside = inside, back @ (amplitudes * _phase(basis @ inside))
        if np.linalg.norm(inside - before) <= STEADY * np.linalg.norm(inside):
            break
    return np.linalg.solve(triangle, inside)


def _guess(probes: np.ndarray, amplitudes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns for each detector the field that its bright probes have in common, by power iteration."""
    power = np.mean(amplitudes**2, axis=0)
    weights = np.minimum(amplitudes**2 / power, LARGEST_WEIGHT)
    size = (probes.shape[1], amplitudes.shape[1])
    guess = rng.standard_normal(size) + 1j * rng.standard_normal(size)
    for _ in range(POWERS):
        guess = probes.conj().T @ ((probes @ guess) * weights)
        guess /= np.linalg.norm(guess, axis=0)
    return guess * np.sqrt(power / np.mean(np.abs(probes @ guess) ** 2, axis=0))


def _phase(y: np.ndarray) -> np.ndarray:
    """Returns y / |y|, and 1 for 0."""
    size = np.abs(y)
    return np.where(size > 0, y / np.where(size > 0, size, 1.0), 1.0)


def _misfit(probes: np.ndarray, amplitudes: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Returns for each detector the relative error of its amplitudes."""
    error = np.sum((np.abs(probes @ found) - amplitudes) ** 2, axis=0)
    return np.sqrt(error / np.sum(amplitudes**2, axis=0))
