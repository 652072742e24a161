"""Measured numbers inside sentences, by the names under which pages have them; see evidence/pages/fill.py."""

import math
from collections.abc import Callable

import numpy as np

from evidence.pages.markdown import Results
from evidence.pages.optics_values import OPTICS_VALUES
from evidence.report.comparisons import COMPARISONS, decide
from evidence.report.write import answers
from evidence.suite.ledger import Finding, core_hours, least_core_hours, published, score, without_failures

TEXTS = ("settings", "1", "2", "sst2", "listops")  # tiers of the page on texts


def other_days(results: Results) -> str:
    """Returns the largest ratio of the CPU seconds of two seeds of a model."""
    ratios = [1.0]
    for tier in TEXTS:
        for findings in published(results.root, tier).values():
            hours = without_failures([core_hours(finding) for finding in findings])
            ratios += [max(hours) / min(hours)] if hours else []
    return f"{max(ratios):.1f}"


def sst2_error(results: Results) -> str:
    """Returns one standard error of the best model's accuracy on SST-2's test sentences, in points."""
    findings = [finding for group in published(results.root, "sst2").values() for finding in group]
    best = max(findings, key=score)
    return f"{100 * math.sqrt(score(best) * (1 - score(best)) / best['test']['examples']):.1f}"


def first_p(results: Results) -> str:
    """Returns Holm's p-value of the first comparison, convolutional attention against attention."""
    verdicts = decide(COMPARISONS["1"], answers(published(results.root, "1")))
    return f"{verdicts[0].adjusted:.3f}"


def seed_difference_after_one_epoch(results: Results) -> str:
    """Returns the largest difference of a model's seeds on validation after one epoch, in points."""
    groups = published(results.root, "1").values()
    return (
        f"{max(100 * np.ptp([finding['validation'][0] for finding in findings]) for findings in groups):.1f}"
    )


def circular_parameters(results: Results) -> str:
    """Parameters of the articles' network with circular attention, in percent of those with attention."""
    groups = published(results.root, "2")
    circular, attention = (groups[name][0]["parameters"] for name in ("circular-1d", "attention"))
    return f"{100 * circular / attention:.0f}"


def attention_hours(results: Results) -> str:
    """Returns the ratio of core-hours of the articles' network with attention to those with lambda layers."""
    groups = published(results.root, "2")
    attention, other = (least_core_hours(groups[name]) or math.nan for name in ("attention", "lambda"))
    return f"{attention / other:.1f}"


def batch_5(name: str, sign: int) -> Callable[[Results], str]:
    """Returns a function of the points by which a model is above `identity` on CIFAR-10's fifth batch.

    Args:
      sign: 1, or -1 for the points below `identity`.
    """

    def difference(results: Results) -> str:
        groups = published(results.root, "cifar10")
        pairs = zip(groups[name], groups["identity"], strict=True)
        points = [100 * sign * (_fifth(a) - _fifth(b)) for a, b in pairs]
        return f"{min(points):.1f} to {max(points):.1f}"

    return difference


def _fifth(finding: Finding) -> float:
    return finding["extra_evals"]["batch_5"]["accuracy"]


def pointing(results: Results) -> str:
    """Returns how many times as often as by chance the largest weight lies on the shape in question."""
    rows = results.document("studies/attended")["rows"]
    mine = [row for row in rows if row["network"].endswith("attention")]
    return f"{np.mean([row['pointing'] for row in mine]) / np.mean([row['chance'] for row in mine]):.1f}"


VALUES: dict[str, Callable[[Results], str]] = {
    "other-days": other_days,
    "sst2-error": sst2_error,
    "first-p": first_p,
    "apart-at-first": seed_difference_after_one_epoch,
    "circular-parameters": circular_parameters,
    "attention-hours": attention_hours,
    "batch-5-above": batch_5("global_filter", 1),
    "batch-5-below": batch_5("fourier", -1),
    "pointing": pointing,
    **OPTICS_VALUES,
}
