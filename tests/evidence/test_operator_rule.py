"""The guess on ListOps from the outermost operator."""

import math

import numpy as np
import pytest

from evidence.pages.operator_guess import format_comparison, significant_z
from evidence.suite.ledger import pack
from evidence.suite.operator_rule import frequencies, guess, loss, outermost


def test_values_are_counted_by_the_outermost_operator() -> None:
    texts = ["[MAX 1 9 ]", "[MAX 8 [MIN 9 ] ]", "[MAX 9 2 ]", "[MIN 0 [MAX 9 ] ]"]
    assert outermost(texts[1]) == "MAX"
    known = frequencies(texts, [9, 8, 9, 0])
    assert known == {"MAX": {9: pytest.approx(2 / 3), 8: pytest.approx(1 / 3)}, "MIN": {0: 1.0}}


def test_the_guess_is_the_most_frequent_value_or_the_smallest_of_several() -> None:
    assert guess({8: 1 / 3, 9: 2 / 3}) == 9
    assert guess({5: 0.4, 2: 0.4, 9: 0.2}) == 2


def test_the_loss_is_the_cross_entropy_of_the_frequencies() -> None:
    known = {"MAX": {9: 0.75, 8: 0.25}, "SM": {1: 0.5, 2: 0.5}}
    texts = ["[MAX 9 ]", "[MAX 8 ]", "[SM 1 ]"]
    assert loss(texts, [9, 8, 1], known) == pytest.approx(-math.log(0.75 * 0.25 * 0.5) / 3)
    assert loss(["[MAX 7 ]"], [7], known) == math.inf


def test_networks_are_compared_with_the_guess_list_by_list() -> None:
    guess = np.array([True, True, False, False, False, False])
    other = np.array([True, False, True, True, True, False])
    findings = [
        {"model": "fnet", "seed": 0, "right": pack(guess), "test": {"loss": 1.85}},
        {"model": "lambda", "seed": 2, "right": pack(other), "test": {"loss": 1.7}},
    ]
    lines = format_comparison(findings, guess, 1.8).splitlines()[2:]
    assert lines == [
        "| `lambda` | 2 | 66.67 | 3 | 1 | 1.00 | 1.700 | -0.100 |",
        "| `fnet` | 0 | 33.33 | 0 | 0 | 0.00 | 1.850 | +0.050 |",
    ]


def test_more_comparisons_need_a_larger_z() -> None:
    """Tables of the normal distribution have two-sided p of 0.05 at 1.960, and of 0.05 / 10 at 2.807."""
    assert [round(significant_z(n), 3) for n in (1, 10)] == [1.960, 2.807]
