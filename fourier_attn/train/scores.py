"""Scores predictions of classes, of numbers, and of labels of patches.

An undefined score is NaN, because a number could be mistaken for a poor result. `why_undefined` returns the
reason. scikit-learn and SciPy are imported inside functions, since they would double the import time.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Score = Callable[[Any, Any], float]


def accuracy(prediction: Any, label: Any) -> float:
    """Returns the share of correct predictions."""
    prediction, label = _checked(prediction, label)
    return math.nan if _why("accuracy", prediction, label) else float(np.mean(prediction == label))


def f1(prediction: Any, label: Any) -> float:
    """Returns the harmonic mean of precision and recall of class 1.

    It is NaN if class 1 neither exists nor is predicted.
    """
    from sklearn.metrics import f1_score

    prediction, label = _checked(prediction, label)
    return math.nan if _why("f1", prediction, label) else float(f1_score(label == 1, prediction == 1))


def macro_f1(prediction: Any, label: Any) -> float:
    """Returns the mean over classes of F1 = 2 |predicted and true| / (|predicted| + |true|).

    Classes that neither exist nor are predicted are left out.
    """
    prediction, label = _checked(prediction, label)
    if _why("macro_f1", prediction, label):
        return math.nan
    known, counts = np.unique(np.concatenate([prediction, label]), return_counts=True)
    right = prediction[prediction == label]
    return float(
        np.mean([2 * np.sum(right == one) / count for one, count in zip(known, counts, strict=True)])
    )


def matthews(prediction: Any, label: Any) -> float:
    """Returns Matthews' correlation of predicted and true classes; NaN if either is constant."""
    from sklearn.metrics import matthews_corrcoef

    prediction, label = _checked(prediction, label)
    return math.nan if _why("matthews", prediction, label) else float(matthews_corrcoef(label, prediction))


def pearson(prediction: Any, label: Any) -> float:
    """Returns Pearson's linear correlation; NaN if either side is constant."""
    from scipy.stats import pearsonr

    return _correlation("pearson", pearsonr, prediction, label)


def spearman(prediction: Any, label: Any) -> float:
    """Returns Spearman's rank correlation, where equal values share their rank; NaN if a side is constant."""
    from scipy.stats import spearmanr

    return _correlation("spearman", spearmanr, prediction, label)


def mae(prediction: Any, label: Any) -> float:
    """Returns the mean absolute error, mean |prediction - label|."""
    return _error("mae", prediction, label, np.abs)


def rmse(prediction: Any, label: Any) -> float:
    """Returns the root of the mean squared error, $sqrt(mean (prediction - label)^2)$."""
    return math.sqrt(_error("rmse", prediction, label, np.square))


def mean_iou(prediction: Any, label: Any) -> float:
    """Returns the mean over classes of |predicted and true| / |predicted or true|, counted in patches.

    Classes that neither exist nor are predicted are left out.
    """
    prediction, label = _checked(np.ravel(prediction), np.ravel(label))
    if _why("mean_iou", prediction, label):
        return math.nan
    shares = []
    for known in np.union1d(prediction, label):
        predicted, true = prediction == known, label == known
        shares.append(np.sum(predicted & true) / np.sum(predicted | true))
    return float(np.mean(shares))


SCORES: dict[str, Score] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "mae": mae,
    "rmse": rmse,
    "mean_iou": mean_iou,
}
ERRORS = ("mae", "rmse")  # scores whose best value is 0
NUMBER_SCORES = ("spearman", "pearson", *ERRORS)  # scores of labels that are numbers
CLASS_SCORES = tuple(name for name in SCORES if name not in NUMBER_SCORES)


OF_CLASS = ("precision", "recall", "f1")


def per_class(prediction: Any, label: Any, names: Sequence[str]) -> dict[str, Any]:
    """Returns precision, recall and F1 of each class, their means, the accuracy, and the confusion matrix.

    "macro" is the mean over classes, and "weighted" is the mean weighted by their numbers of examples. The
    precision of a class that is never predicted is None, and so is the recall of a class without examples,
    and F1 if both hold. The means leave such classes out.

    Args:
      prediction, label: indices of classes (n,).
      names: names of the classes.
    """
    confusion = np.zeros((len(names), len(names)), np.int64)  # rows: labels; columns: predictions
    np.add.at(confusion, (np.asarray(label), np.asarray(prediction)), 1)
    right, predicted, true = confusion.diagonal(), confusion.sum(0), confusion.sum(1)
    classes = of_counts(names, right, predicted, true)
    equal, weights = np.ones(len(names)), true
    return {
        "examples": int(confusion.sum()),
        "accuracy": _ratio(right.sum(), confusion.sum()),
        **{f"macro_{score}": _mean(score, classes, equal) for score in OF_CLASS},
        **{f"weighted_{score}": _mean(score, classes, weights) for score in OF_CLASS},
        "classes": classes,
        "confusion": confusion.tolist(),
    }


def of_counts(
    names: Sequence[str], right: np.ndarray, predicted: np.ndarray, true: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Returns precision, recall and F1 of each class; None for 0/0.

    Args:
      names: names of the classes.
      right, predicted, true: how often each class is predicted correctly, predicted, and true (c,).
    """
    return {
        name: {
            "precision": _ratio(right[i], predicted[i]),
            "recall": _ratio(right[i], true[i]),
            "f1": _ratio(2 * right[i], predicted[i] + true[i]),
            "examples": int(true[i]),
        }
        for i, name in enumerate(names)
    }


def _mean(score: str, classes: Mapping[str, Mapping[str, Any]], weights: np.ndarray) -> float | None:
    """Returns the weighted mean of a score over the classes for which it is defined.

    Args:
      score: "precision", "recall" or "f1".
      classes: scores of each class.
      weights: weights of the classes (c,).
    """
    pairs = [(each[score], w) for each, w in zip(classes.values(), weights, strict=True)]
    known = [(value, weight) for value, weight in pairs if value is not None]
    return _ratio(sum(value * weight for value, weight in known), sum(weight for _, weight in known))


def _ratio(part: Any, whole: Any) -> float | None:
    return float(part / whole) if whole else None


CORRELATIONS = ("matthews", "pearson", "spearman")


def why_undefined(name: str, prediction: Any, label: Any) -> str:
    """Returns why a score is undefined; "" if it is defined.

    Args:
      name: a key of `SCORES`.
      prediction, label: as for the score.
    """
    return _why(name, *_checked(np.ravel(prediction), np.ravel(label)))


def _why(name: str, prediction: np.ndarray, label: np.ndarray) -> str:
    """Returns why the score `name` of `prediction` and `label` is undefined; "" if it is defined."""
    if np.isnan(label).any():
        return "a label is not a number"
    if name in CORRELATIONS and _constant(label):
        return "all labels are equal"
    if name in CORRELATIONS and _constant(prediction):
        return "all predictions are equal"
    if name == "f1" and not ((prediction == 1) | (label == 1)).any():
        return "class 1 neither exists nor is predicted"
    return ""


def _checked(prediction: Any, label: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns both as float64, because float32 would make close predictions equal. Raises: ValueError."""
    prediction, label = np.asarray(prediction, np.float64), np.asarray(label, np.float64)
    if prediction.shape != label.shape or label.ndim != 1 or not label.size:
        raise ValueError(
            f"prediction has shape {prediction.shape} and label {label.shape}; give two lists of the same "
            "length with at least one example"
        )
    if not np.isfinite(prediction).all():
        raise ValueError(
            "a prediction is not finite because the run has diverged; lower optim.learning_rate, or set "
            "a smaller optim.clip_norm (0: no clipping)"
        )
    return prediction, label


def _correlation(name: str, of: Callable[..., Any], prediction: Any, label: Any) -> float:
    """Returns a correlation of `prediction` and `label`, from its `name` and SciPy's function `of`."""
    prediction, label = _checked(prediction, label)
    return math.nan if _why(name, prediction, label) else float(of(prediction, label).statistic)


def _error(name: str, prediction: Any, label: Any, of: Callable[[np.ndarray], np.ndarray]) -> float:
    """Returns the mean of a function `of` (prediction - label); `name` is a key of `SCORES`."""
    prediction, label = _checked(prediction, label)
    return math.nan if _why(name, prediction, label) else float(np.mean(of(prediction - label)))


def _constant(values: np.ndarray) -> bool:
    return bool((values == values[0]).all())
