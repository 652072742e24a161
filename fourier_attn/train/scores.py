"""What predictions are worth: the metrics that the tasks of GLUE, and labels of patches, are judged by.

scikit-learn and SciPy are imported where they are called: they would double the time of an import.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Score = Callable[[Any, Any], float]


def accuracy(prediction: Any, label: Any) -> float:
    """Share of the classes that are right."""
    prediction, label = _checked(prediction, label)
    return float(np.mean(prediction == label))


def f1(prediction: Any, label: Any) -> float:
    """Harmonic mean of precision and recall of class 1; 0 where class 1 is neither there nor predicted."""
    from sklearn.metrics import f1_score

    prediction, label = _checked(prediction, label)
    predicted, true = prediction == 1, label == 1
    return float(f1_score(true, predicted)) if (predicted | true).any() else 0.0


def matthews(prediction: Any, label: Any) -> float:
    """Correlation of the predicted classes with the true ones; 0 where either is constant (undefined)."""
    from sklearn.metrics import matthews_corrcoef

    prediction, label = _checked(prediction, label)
    return 0.0 if _constant(prediction, label) else float(matthews_corrcoef(label, prediction))


def pearson(prediction: Any, label: Any) -> float:
    """Linear correlation; 0 where either side is constant (undefined)."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, prediction, label)


def spearman(prediction: Any, label: Any) -> float:
    """Correlation of the ranks, equal values sharing theirs; 0 where either side is constant (undefined)."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, prediction, label)


def mean_iou(prediction: Any, label: Any) -> float:
    """The mean over classes of |predicted and true| / |predicted or true|, counted in patches.

    Classes that are neither there nor predicted are left out.
    """
    prediction, label = _checked(np.ravel(prediction), np.ravel(label))
    shares = []
    for known in np.union1d(prediction, label):
        predicted, true = prediction == known, label == known
        shares.append(np.sum(predicted & true) / np.sum(predicted | true))
    return float(np.mean(shares))


SCORES: dict[str, Score] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "mean_iou": mean_iou,
}


def _checked(prediction: Any, label: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both in float64: in float32 predictions close together would pass for constant ones."""
    prediction, label = np.asarray(prediction, np.float64), np.asarray(label, np.float64)
    if prediction.shape != label.shape or label.ndim != 1 or not label.size:
        raise ValueError(
            f"prediction {prediction.shape} and label {label.shape} must be two lists of the same length, "
            "with at least one example"
        )
    if not np.isfinite(prediction).all():
        raise ValueError(
            "a prediction is not finite, the run has diverged; lower optim.learning_rate or clip more"
        )
    return prediction, label


def _correlation(of: Callable[..., Any], prediction: Any, label: Any) -> float:
    prediction, label = _checked(prediction, label)
    return 0.0 if _constant(prediction, label) else float(of(prediction, label).statistic)


def _constant(*values: np.ndarray) -> bool:
    return any((x == x[0]).all() for x in values)
