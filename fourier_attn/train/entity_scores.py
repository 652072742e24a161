"""Scores of tagged words, counted in entities: one is right if its type, first and last word are right."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.inference.classify import entities

TagRows = Sequence[Sequence[str]]


class Counts(NamedTuple):
    """Counts entities: those predicted with their type, first and last word; all predicted; all true ones."""

    right: int
    predicted: int
    true: int

    def scores(self) -> dict[str, float]:
        """Returns precision = right / predicted, recall = right / true and F1 = 2 right / (predicted + true).

        What divides by 0 is NaN.
        """
        return {
            "entity_f1": _ratio(2 * self.right, self.predicted + self.true),
            "entity_precision": _ratio(self.right, self.predicted),
            "entity_recall": _ratio(self.right, self.true),
        }


# The names of the scores, and why each may be undefined.
WHY = {
    "entity_f1": "no entity is there or predicted",
    "entity_precision": "no entity is predicted",
    "entity_recall": "no entity is there",
}
NAMES = tuple(WHY)


def count(prediction: TagRows, label: TagRows) -> dict[str, Counts]:
    """Returns the counts of each type of entity, from the tags of the words of each sentence."""
    right, predicted, true = Counter[str](), Counter[str](), Counter[str]()
    for ours, theirs in zip(prediction, label, strict=True):
        found, known = set(entities(ours)), set(entities(theirs))
        for counter, each in ((right, found & known), (predicted, found), (true, known)):
            counter.update(kind for kind, _, _ in each)
    return {kind: Counts(right[kind], predicted[kind], true[kind]) for kind in sorted(predicted | true)}


def total(counts: Mapping[str, Counts]) -> Counts:
    """Returns the counts of all types together."""
    return Counts(*(sum(each) for each in zip(*counts.values(), strict=True))) if counts else Counts(0, 0, 0)


def scored(prediction: Any, label: Any, names: Sequence[str]) -> dict[str, float]:
    """Returns the scores of all entities.

    Args:
      prediction, label: numbers of classes (n, p); places with a label below 0 are no words.
      names: of the classes.
    """
    label = np.asarray(label)

    def tags(rows: Any) -> list[list[str]]:
        pairs = zip(np.asarray(rows), label, strict=True)
        return [[str(names[number]) for number in row[known >= 0]] for row, known in pairs]

    return total(count(tags(prediction), tags(label))).scores()


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
