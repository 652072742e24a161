"""Measures rank, distinct entries and structure of a matrix between tokens, each by a residual.

A matrix here has four axes (t, d, t, d): output token and feature, input token and feature. Residuals are the
largest deviation over the largest entry.
"""

from collections.abc import Callable, Mapping

import numpy as np

SAME = 1e-5  # of the largest: float32 rounding of sums of some hundred products


def residual(a: np.ndarray, b: np.ndarray, scale: np.ndarray) -> float:
    """Returns the largest difference of a and b, as a share of the largest entry of `scale`."""
    return float(np.max(np.abs(a - b), initial=0.0) / np.abs(scale).max())


def toeplitz(matrix: np.ndarray) -> float:
    """Returns the residual of $J[i + 1, j + 1] = J[i, j]$, for all pairs of tokens inside."""
    return residual(matrix[1:, :, 1:], matrix[:-1, :, :-1], matrix)


def circulant(matrix: np.ndarray) -> float:
    """Returns the residual of $J[i + 1, j + 1] = J[i, j]$, where the first token follows the last."""
    return residual(np.roll(matrix, (1, 1), (0, 2)), matrix, matrix)


def diagonal(matrix: np.ndarray) -> float:
    """Returns the residual of $J[i, j] = 0$ for i != j: tokens are not mixed."""
    others = ~np.eye(len(matrix), dtype=bool)[:, None, :, None]
    return residual(matrix * others, np.zeros(()), matrix)


def symmetric(matrix: np.ndarray) -> float:
    """Returns the residual of $J^T = J$, features included."""
    return residual(matrix.transpose(2, 3, 0, 1), matrix, matrix)


def permutation(matrix: np.ndarray) -> float:
    """Returns the residual of a permutation: one entry of each row and column is 1, all others are 0."""
    flat = square(matrix)
    ones = np.zeros_like(flat)
    ones[np.arange(len(flat)), np.abs(flat).argmax(axis=1)] = 1
    missing = float(np.any(ones.sum(axis=0) != 1))
    return max(missing, residual(flat, ones, ones))


STRUCTURES: Mapping[str, Callable[[np.ndarray], float]] = {
    "Toeplitz": toeplitz,
    "circulant": circulant,
    "block-diagonal": diagonal,
    "symmetric": symmetric,
    "permutation": permutation,
}


def square(matrix: np.ndarray) -> np.ndarray:
    """Returns the matrix (t d, t d) whose rows are outputs, token by token."""
    rows = matrix.shape[0] * matrix.shape[1]
    return matrix.reshape(rows, -1)


def rank(flat: np.ndarray) -> int:
    """Counts the singular values above `SAME` times the largest."""
    values = np.linalg.svd(flat, compute_uv=False)
    return int(np.sum(values > SAME * values[0]))


def products(matrix: np.ndarray) -> int:
    """Returns the least number of products of a matrix T over tokens and a matrix F over features.

    J is the sum of their Kronecker products.

    It is the rank of J with its axes in the order (i, j), (p, q); 1 for a matrix over tokens as in
    $y = T x F$.
    """
    t, d = matrix.shape[:2]
    return rank(matrix.swapaxes(1, 2).reshape(t * t, d * d))


def distinct(matrix: np.ndarray) -> int:
    """Counts the different entries; those closer than `SAME` / 10 of the largest count as one."""
    values = np.sort(matrix.ravel())
    return 1 + int(np.sum(np.diff(values) > SAME / 10 * np.abs(values).max()))
