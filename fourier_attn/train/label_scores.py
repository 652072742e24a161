"""Scores examples with any number of labels; predictions and labels are 0 or 1 of each class (n, c)."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fourier_attn.train.scores import of_counts

THRESHOLD = 0.5  # smallest probability of a predicted label
NONE = "no label exists or is predicted"


def chosen(probabilities: np.ndarray) -> np.ndarray:
    """Returns 1 where a probability is at least `THRESHOLD`, else 0."""
    return (probabilities >= THRESHOLD).astype(np.int32)


def micro_f1(prediction: np.ndarray, label: np.ndarray) -> float:
    """Returns F1 of all classes together, 2 |predicted and true| / (|predicted| + |true|); NaN for 0/0."""
    both, one, other = (each.sum() for each in _counts(prediction, label))
    return float(2 * both / (one + other)) if one + other else math.nan


def macro_f1(prediction: np.ndarray, label: np.ndarray) -> float:
    """Returns the mean of F1 over classes that exist or are predicted; NaN without such classes."""
    both, one, other = _counts(prediction, label)
    known = one + other > 0
    return float(np.mean(2 * both[known] / (one + other)[known])) if known.any() else math.nan


def subset_accuracy(prediction: np.ndarray, label: np.ndarray) -> float:
    """Returns the share of examples whose labels are all correct; NaN without examples."""
    return float((prediction == label).all(axis=-1).mean()) if len(label) else math.nan


LABEL_SCORES: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    "subset_accuracy": subset_accuracy,
}


def per_label(prediction: np.ndarray, label: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Returns `LABEL_SCORES`, and precision, recall and F1 of each class, as `scores.per_class` does.

    The result has no confusion matrix, because one label does not exclude another.

    Args:
      prediction, label: 0 or 1 of each class (n, c).
      names: names of the classes.
    """
    both, predicted, true = _counts(prediction, label)
    found = {name: score(prediction, label) for name, score in LABEL_SCORES.items()}
    return {
        "examples": len(label),
        **{name: None if math.isnan(value) else value for name, value in found.items()},
        "classes": of_counts(names, both, predicted, true),
        "undefined": {name: NONE for name, value in found.items() if math.isnan(value)},
    }


def _counts(prediction: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns how often each class is both predicted and true, predicted, and true (c,)."""
    return (prediction * label).sum(axis=0), prediction.sum(axis=0), label.sum(axis=0)
