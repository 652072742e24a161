"""Scores predicted tags by entities: an entity is correct if its type, first and last word are correct."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.inference.classify import entities

TagRows = Sequence[Sequence[str]]


class Counts(NamedTuple):
    """Counts entities.

    Args:
      right: number of predicted entities whose type, first and last word are correct.
      predicted: number of predicted entities.
      true: number of true entities.
    """

    right: int
    predicted: int
    true: int

    def scores(self) -> dict[str, float]:
        """Returns precision, recall and F1.

            precision = right / predicted
            recall = right / true
            F1 = 2 right / (predicted + true)

        A score with the divisor 0 is NaN.
        """
        return {
            "entity_f1": _ratio(2 * self.right, self.predicted + self.true),
            "entity_precision": _ratio(self.right, self.predicted),
            "entity_recall": _ratio(self.right, self.true),
        }


# The names of the scores, and the reason why each may be undefined.
WHY = {
    "entity_f1": "no entity exists or is predicted",
    "entity_precision": "no entity is predicted",
    "entity_recall": "no entity exists",
}
NAMES = tuple(WHY)


def count(prediction: TagRows, label: TagRows) -> dict[str, Counts]:
    """Returns the counts of each type of entity, from the tags of each sentence."""
    right, predicted, true = Counter[str](), Counter[str](), Counter[str]()
    for ours, theirs in zip(prediction, label, strict=True):
        found, known = set(entities(ours)), set(entities(theirs))
        for counter, each in ((right, found & known), (predicted, found), (true, known)):
            counter.update(kind for kind, _, _ in each)
    return {kind: Counts(right[kind], predicted[kind], true[kind]) for kind in sorted(predicted | true)}


def total(counts: Mapping[str, Counts]) -> Counts:
    """Returns the sum of the counts of all types."""
    return Counts(*(sum(each) for each in zip(*counts.values(), strict=True))) if counts else Counts(0, 0, 0)


def scored(prediction: Any, label: Any, names: Sequence[str]) -> dict[str, float]:
    """Returns the scores of all entities.

    Args:
      prediction, label: indices of classes (n, p); a label below 0 marks a place without a word.
      names: names of the classes.
    """
    label = np.asarray(label)

    def tags(rows: Any) -> list[list[str]]:
        pairs = zip(np.asarray(rows), label, strict=True)
        return [[str(names[number]) for number in row[known >= 0]] for row, known in pairs]

    return total(count(tags(prediction), tags(label))).scores()


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
