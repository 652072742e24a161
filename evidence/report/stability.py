"""Tabulates at which learning rates the architectures of the FNet paper train, with all their seeds."""

import statistics
from collections.abc import Mapping, Sequence

from evidence.pages.markdown import NOT_RUN, Results, table
from evidence.suite.ledger import Finding, number, published
from evidence.suite.pretraining import ARCHITECTURES, TRAINED, TRIED

Groups = Mapping[str, Sequence[Finding]]  # findings of each "ARCHITECTURE-rate-RATE"


def stability(results: Results) -> str:
    """Tabulates the published trials."""
    return stability_table(published(results.root, "stability"))


def accuracies(groups: Groups) -> dict[str, dict[str, list[float]]]:
    """Returns the validation accuracy on masked tokens of each seed, by architecture and rate.

    A run that diverged has no accuracy and counts as 0.

    Args:
      groups: the findings of each trial.
    """
    found = {name: {rate: groups.get(f"{name}-rate-{rate}", ()) for rate in TRIED} for name in ARCHITECTURES}
    return {
        name: {
            rate: [number(finding["validation"][-1] or 0.0) for finding in findings]
            for rate, findings in by_rate.items()
            if findings
        }
        for name, by_rate in found.items()
    }


def stability_table(groups: Groups) -> str:
    """Tabulates mean accuracy and the seeds that train, architectures by rates, and the best rate."""
    lines = []
    for name, by_rate in accuracies(groups).items():
        if by_rate:
            cells = [_cell(by_rate.get(rate, [])) for rate in TRIED]
            lines.append([f"`{name}`", *cells, f"{float(best_rate(by_rate)):g}"])
    return table(["architecture", *(f"rate {float(rate):g}" for rate in TRIED), "best rate"], lines)


def best_rate(by_rate: Mapping[str, Sequence[float]]) -> str:
    """Returns the rate with the best mean accuracy; the smallest of equal ones."""
    return max(by_rate, key=lambda rate: (statistics.mean(by_rate[rate]), -float(rate)))


def trained(values: Sequence[float]) -> int:
    """Returns how many seeds train: their accuracy is at least `TRAINED`."""
    return sum(value >= TRAINED for value in values)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return NOT_RUN
    return f"{100 * statistics.mean(values):.1f} ({trained(values)} of {len(values)})"
