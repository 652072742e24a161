"""Computes metrics as sums over examples, and their means over examples and seeds."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Sums = dict[str, Any]  # name -> (2,): sum and count


def add(a: Sums, b: Sums) -> Sums:
    """Returns the sums over two sets of examples."""
    return jax.tree.map(jnp.add, a, b)


def each(total: Sums) -> dict[str, np.ndarray]:
    """Returns the mean of each sum, with one value per seed."""
    total = {name: np.asarray(value, np.float64) for name, value in total.items()}
    return {name: np.atleast_1d(_mean(value[..., 0], value[..., 1])) for name, value in total.items()}


def _mean(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Divides sums by counts; NaN where the count is 0."""
    return np.where(count > 0, values / np.where(count > 0, count, 1.0), np.nan)


def over_seeds(values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns the mean over seeds of each metric; with several seeds also the deviation and all values.

    The standard deviation over K seeds is that of a sample, with the divisor K - 1.
    """
    result = {}
    for name, value in values.items():
        result[name] = float(value.mean())
        if len(value) > 1:
            result |= {f"{name}_std": float(value.std(ddof=1)), f"{name}_seeds": value.tolist()}
    return result


def mean(total: Sums) -> dict[str, Any]:
    """Returns the mean of each sum over examples and seeds, see `each` and `over_seeds`."""
    return over_seeds(each(total))


def over_runs(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Returns the mean and the standard deviation (divisor n - 1) of the values that are not None.

    Either is None if there are too few values.

    >>> over_runs([1.0, None, 3.0]), over_runs([1.0]), over_runs([])
    ((2.0, 1.4142135623730951), (1.0, None), (None, None))
    """
    known = [value for value in values if value is not None]
    found = over_seeds({"": np.array(known)}) if known else {}
    return found.get(""), found.get("_std")
