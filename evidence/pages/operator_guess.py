"""Tabulates the guess on ListOps (`evidence.suite.operator_rule`) and compares networks with it."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from evidence.pages.markdown import NOT_RUN, Results, Row, listed, table
from evidence.suite.ledger import Finding, number, published, unpack
from evidence.suite.statistics import mcnemar

OPERATOR_RULE = "evidence/listops/operator_rule"


def guess_by_operator(results: Results) -> str:
    """Lists the guess for each outermost operator, with its accuracy on the test lists."""

    def cells(row: Row) -> list[str]:
        return [row["operator"], str(row["guess"]), str(row["examples"]), f"{100 * row['accuracy']:.1f}"]

    return listed(results, OPERATOR_RULE, ["operator", "guess", "test lists", "accuracy, %"], cells)


def networks_against_guess(results: Results) -> str:
    """Tabulates the networks of tier listops, the lowest loss first, next to the guess."""
    rule = results.document(OPERATOR_RULE)
    return format_comparison(listops_networks(results), unpack(rule["right"]), rule["loss"])


def listops_networks(results: Results) -> list[Finding]:
    """Returns the findings of all networks of tier listops."""
    return [finding for group in published(results.root, "listops").values() for finding in group]


def significant_z(comparisons: int) -> float:
    """Returns the z that is significant at the 5 % level in several comparisons, by Bonferroni's correction.

    Args:
      comparisons: their number.
    """
    return float(norm.ppf(1 - 0.05 / 2 / comparisons))


def format_comparison(findings: Sequence[Finding], guess: np.ndarray, loss: float) -> str:
    """Tabulates networks, the lowest loss first, next to a guess on the same lists.

    Args:
      findings: the networks' findings.
      guess: whether the guess answers each list correctly (bool).
      loss: the loss of the guess in nats.
    """
    lines = []
    for finding in sorted(findings, key=lambda each: number(each["test"]["loss"])):
        right = unpack(finding["right"])
        excess = number(finding["test"]["loss"]) - loss
        lines.append(
            [
                f"`{finding['model']}`",
                str(finding["seed"]),
                f"{100 * right.mean():.2f}",
                str(np.sum(right & ~guess)),
                str(np.sum(guess & ~right)),
                f"{mcnemar(right, guess):.2f}",
                f"{number(finding['test']['loss']):.3f}",
                f"{excess:+.3f}",
            ]
        )
    counts = ["lists only the network answers correctly", "lists only the guess answers correctly", "z"]
    head = ["model", "seed", "accuracy, %", *counts, "loss, nats", "loss minus that of the guess"]
    return table(head, lines or [[NOT_RUN, *[""] * (len(head) - 1)]])
