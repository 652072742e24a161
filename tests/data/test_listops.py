"""ListOps: values by an evaluation of its own, and what is drawn."""

import random
from collections import Counter

import numpy as np
import pytest

from fourier_attn.data.sources.listops import LONGEST, SHORTEST, expression, long_expression


def evaluate(text: str) -> int:
    """The value, by Python's own parser and NumPy's functions."""
    python = text.replace(" ]", "])").replace("[MIN", "low([").replace("[MAX", "high([")
    python = python.replace("[MED", "middle([").replace("[SM", "total([")
    python = python.replace("([ ", "([").replace(" ", ",")
    functions = {
        "low": lambda v: int(np.min(v)),
        "high": lambda v: int(np.max(v)),
        "middle": lambda v: int(np.median(v)),
        "total": lambda v: int(np.sum(v) % 10),
    }
    return eval(python, {"__builtins__": {}}, functions)


@pytest.mark.parametrize(
    ("text", "value"), [("[MAX 4 [SM 7 9 ] 2 ]", 6), ("[MED 1 2 ]", 1), ("[MIN 3 [MED 9 1 5 ] ]", 3)]
)
def test_by_hand(text: str, value: int) -> None:
    assert evaluate(text) == value


def test_values_are_those_of_an_evaluation() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        tokens, value = expression(draw)
        assert evaluate(" ".join(tokens)) == value


def test_lengths_depth_and_classes() -> None:
    draw = random.Random(2)
    drawn = [long_expression(draw) for _ in range(300)]
    assert all(SHORTEST <= len(text.split()) <= LONGEST for text, _ in drawn)
    assert min(Counter(value for _, value in drawn).values()) > 5  # all ten classes
    for text, _ in drawn:
        steps = [1 if token.startswith("[") else -1 if token == "]" else 0 for token in text.split()]
        assert 2 <= np.cumsum(steps).max() <= 9  # a tenth level has digits alone
        assert sum(steps) == 0
