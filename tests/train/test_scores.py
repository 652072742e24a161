import math

import numpy as np
import pytest

from fourier_attn.train.scores import CORRELATIONS, ERRORS, NUMBER_SCORES, SCORES, per_class, why_undefined


def ranks(x: np.ndarray) -> np.ndarray:
    """The mean place of each value among all, from its definition."""
    return np.array([(x < y).sum() + ((x == y).sum() - 1) / 2 for y in x])


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x - x.mean(), y - y.mean()
    return (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())


ORACLES = {
    "accuracy": lambda x, y: sum(a == b for a, b in zip(x, y, strict=True)) / len(x),
    "f1": lambda x, y: 2 * ((x == 1) & (y == 1)).sum() / ((x == 1).sum() + (y == 1).sum()),
    "matthews": correlation,  # of two classes; for more it is the same with one column per class
    "macro_f1": lambda x, y: np.mean(
        [2 * ((x == c) & (y == c)).sum() / ((x == c).sum() + (y == c).sum()) for c in (0, 1)]
    ),
    "mae": lambda x, y: sum(abs(float(a) - float(b)) for a, b in zip(x, y, strict=True)) / len(x),
    "rmse": lambda x, y: (sum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)) / len(x)) ** 0.5,
    "pearson": correlation,
    "spearman": lambda x, y: correlation(ranks(x), ranks(y)),
    "mean_iou": lambda x, y: np.mean(
        [((x == c) & (y == c)).sum() / ((x == c) | (y == c)).sum() for c in (0, 1)]
    ),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("size", [2, 7, 100])
def test_is_the_definition(name: str, size: int) -> None:
    draw = np.random.default_rng(size)
    label, prediction = draw.integers(0, 2, size), draw.integers(0, 2, size)
    if name in NUMBER_SCORES:  # with ties, as STS-B has
        label, prediction = draw.integers(0, 26, size) / 5, draw.standard_normal(size).astype(np.float32)
    label[:2], prediction[:2] = (0, 1), (1, 0)
    assert SCORES[name](prediction, label) == pytest.approx(ORACLES[name](prediction, label), abs=1e-7)


@pytest.mark.parametrize("name", SCORES)
def test_the_best_is_one_or_no_error(name: str) -> None:
    best = 0.0 if name in ERRORS else 1.0
    assert SCORES[name]([0, 1, 1, 0, 1], [0, 1, 1, 0, 1]) == pytest.approx(best)


@pytest.mark.parametrize("name", CORRELATIONS)
def test_a_constant_side_has_no_correlation(name: str) -> None:
    mixed = [0, 1, 0, 1]
    for value in (0, 1):
        for sides, why in ((([value] * 4, mixed), "predictions"), ((mixed, [value] * 4), "labels")):
            assert math.isnan(SCORES[name](*sides))
            assert why_undefined(name, *sides) == f"all {why} are equal"
    assert math.isnan(SCORES[name]([1], [1]))
    assert why_undefined(name, mixed, mixed) == ""


@pytest.mark.parametrize("name", SCORES)
def test_labels_that_are_not_numbers_have_no_score(name: str) -> None:
    assert math.isnan(SCORES[name]([0, 1, 0], [0, 1, math.nan]))
    assert why_undefined(name, [0, 1, 0], [0, 1, math.nan]) == "a label is not a number"


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_nearly_constant_predictions_are_none(name: str) -> None:
    near = np.float32(2.7) + np.arange(4, dtype=np.float32) * np.float32(2.5e-7)
    assert SCORES[name](near, np.arange(4, dtype=np.float32)) > 0.9


@pytest.mark.parametrize(("prediction", "label"), [([0, 0], [0, 1]), ([1, 0], [0, 0])])
def test_f1_without_a_hit_is_zero(prediction: list, label: list) -> None:
    assert SCORES["f1"](prediction, label) == 0.0


def test_f1_without_its_class_is_none() -> None:
    assert math.isnan(SCORES["f1"]([0, 0], [0, 0]))
    assert why_undefined("f1", [0, 0], [0, 0]) == "class 1 neither exists nor is predicted"


def test_macro_f1_leaves_out_a_class_that_is_not_there() -> None:
    """Class 1 of three neither exists nor is predicted; class 4 is predicted only."""
    assert SCORES["macro_f1"]([0, 0, 2, 4], [0, 2, 2, 2]) == pytest.approx((2 / 3 + 2 / 4 + 0) / 3)


def test_matthews_of_three_classes() -> None:
    label, prediction = np.array([0, 1, 2, 2, 1, 0]), np.array([0, 1, 2, 1, 1, 2])
    x, y = np.eye(3)[prediction], np.eye(3)[label]
    x, y = x - x.mean(0), y - y.mean(0)
    expected = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    assert SCORES["matthews"](prediction, label) == pytest.approx(expected)


@pytest.mark.parametrize("name", SCORES)
def test_what_has_no_score(name: str) -> None:
    nested = [] if name == "mean_iou" else [([[1]], [[1]])]  # patches are counted, row after row
    for prediction, label in (([1, 0], [1]), ([], []), *nested):
        with pytest.raises(ValueError, match="give two lists of the same length"):
            SCORES[name](prediction, label)
    with pytest.raises(ValueError, match="a prediction is not finite"):
        SCORES[name]([1.0, float("nan")], [1, 0])


def test_scores_of_each_class_are_the_definitions() -> None:
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    draw = np.random.default_rng(0)
    label, prediction = draw.integers(0, 4, 200), draw.integers(0, 4, 200)
    found = per_class(prediction, label, "abcd")
    columns = precision_recall_fscore_support(label, prediction)
    for i, each in enumerate(found["classes"].values()):
        assert list(each.values()) == pytest.approx([column[i] for column in columns])
    np.testing.assert_array_equal(found["confusion"], confusion_matrix(label, prediction))
    assert found["accuracy"] == pytest.approx(np.mean(label == prediction))
    for kind in ("macro", "weighted"):
        peer = precision_recall_fscore_support(label, prediction, average=kind)
        means = [found[f"{kind}_{score}"] for score in ("precision", "recall", "f1")]
        assert means == pytest.approx(peer[:3])
    assert found["examples"] == 200


def test_a_class_that_is_not_there_has_no_scores() -> None:
    """None, as nothing is divided by nothing; it does not change the mean of the others."""
    found = per_class([0, 1, 1], [0, 1, 0], "abcd")
    assert list(found["classes"]["d"].values()) == [None, None, None, 0]
    assert found["classes"]["a"]["precision"] == 1.0
    assert found["macro_f1"] == found["weighted_f1"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert found["weighted_recall"] == pytest.approx((2 * 1 / 2 + 1 * 1) / 3)
    assert per_class([2], [0], "abcd")["classes"]["c"] == {
        "precision": 0.0,
        "recall": None,
        "f1": 0.0,
        "examples": 0,
    }
