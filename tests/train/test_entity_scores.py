"""Entities and their scores, against the rules of conlleval, written out."""

import itertools
import math

import numpy as np
import pytest

from fourier_attn.inference.classify import entities
from fourier_attn.train import entity_scores

# conlleval.pl's tables for IOB, IOE and BIOES: (tag before, tag) between which an entity ends, or begins
ENDS = {("B", "B"), ("B", "O"), ("B", "S"), ("I", "B"), ("I", "O"), ("I", "S")}
ENDS |= {(before, tag) for before in "ES" for tag in "BIESO"}
BEGINS = {(before, tag) for before in "BIESO" for tag in "BS"}
BEGINS |= {("O", "I"), ("O", "E"), ("E", "I"), ("E", "E"), ("S", "I"), ("S", "E")}


def conlleval(tags: list[str]) -> list[tuple[str, int, int]]:
    """The entities of a sentence, from the ends and the begins between all neighbours."""
    found, begin = [], 0
    padded = [("O", ""), *((tag[0], tag[2:]) for tag in tags), ("O", "")]
    for i, ((before, kind_before), (tag, kind)) in enumerate(itertools.pairwise(padded)):
        other = kind != kind_before
        if before != "O" and ((before, tag) in ENDS or other):
            found.append((kind_before, begin, i - 1))
        if tag != "O" and ((before, tag) in BEGINS or other):
            begin = i
    return found


def drawn(count: int, prefixes: str) -> list[list[str]]:
    random = np.random.default_rng(0)
    tags = ["O", "O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in ("PER", "LOC-X"))]
    return [random.choice(tags, random.integers(1, 12)).tolist() for _ in range(count)]


@pytest.mark.parametrize("prefixes", ["I", "BI", "BIES", "IE"])
def test_entities_are_those_of_conlleval(prefixes: str) -> None:
    for tags in drawn(300, prefixes):
        assert entities(tags) == conlleval(tags), tags


def test_other_names_of_prefixes() -> None:
    for tags in drawn(50, "BIES"):
        other = [{"E": "L", "S": "U", "I": "M"}.get(tag[0], tag[0]) + tag[1:] for tag in tags]
        assert entities(other) == entities(tags)


def test_scores_count_whole_entities() -> None:
    names = ("O", "B-PER", "I-PER", "B-LOC")
    label = np.array([[1, 2, 0, 3], [0, 3, -100, -100], [1, 1, 0, -100]])
    prediction = np.array([[1, 0, 0, 3], [0, 3, 3, 3], [0, 1, 0, 0]])
    rows, found = (
        [[names[n] for n in row[known >= 0]] for row, known in zip(each, label, strict=True)]
        for each in (label, prediction)
    )
    right = predicted = true = 0
    for ours, theirs in zip(found, rows, strict=True):
        a, b = set(conlleval(ours)), set(conlleval(theirs))
        right, predicted, true = right + len(a & b), predicted + len(a), true + len(b)
    assert (right, predicted, true) == (3, 4, 5)
    scores = entity_scores.scored(prediction, label, names)
    assert scores == {"entity_f1": 6 / 9, "entity_precision": 3 / 4, "entity_recall": 3 / 5}
    by_type = entity_scores.count(found, rows)
    assert by_type == {"LOC": (2, 2, 2), "PER": (1, 2, 3)}


def test_what_divides_by_zero_is_undefined() -> None:
    names = ("O", "B-PER")
    nothing, one = np.zeros((1, 2), int), np.array([[1, 0]])
    scores = entity_scores.scored(nothing, one, names)
    assert (scores["entity_f1"], scores["entity_recall"]) == (0, 0)
    assert math.isnan(scores["entity_precision"])
    assert math.isnan(entity_scores.scored(one, nothing, names)["entity_recall"])
    assert all(map(math.isnan, entity_scores.scored(nothing, nothing, names).values()))
    assert set(entity_scores.NAMES) == scores.keys()
