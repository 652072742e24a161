"""Tabulates the perplexities of language models, the lowest first."""

import math
import statistics
from collections.abc import Mapping, Sequence

from evidence.pages.markdown import NOT_RUN, Results, mean_cell, table
from evidence.pages.run_tables import HEADS, Cost
from evidence.suite import cells
from evidence.suite.ledger import Finding, number, published

SPLITS = ("validation", "test")
MEASURES = {"perplexity": "a token", "word_perplexity": "a word"}


def perplexities(results: Results, tier: str) -> str:
    """Tabulates the models of a tier: mean, deviation and (in brackets) number of seeds."""
    found = published(results.root, tier)
    return perplexity_table({model.name: found.get(model.name, []) for model in cells.MODELS[tier]})


def perplexity_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Tabulates models by their findings: perplexities on validation and test, and costs."""

    def mean(model: str) -> float:
        values = [value for each in groups[model] if not math.isnan(value := of(each, "test", "perplexity"))]
        return statistics.mean(values) if values else math.inf

    lines = []
    for model in sorted(groups, key=mean):
        findings = groups[model]
        scores = [
            mean_cell([of(each, split, name) for each in findings], digits=1) if findings else NOT_RUN
            for split in SPLITS
            for name in MEASURES
        ]
        lines.append([f"`{model}`", *scores, *Cost.of(findings)])
    heads = [f"{split}: perplexity of {what}" for split in SPLITS for what in MEASURES.values()]
    return table(["model", *heads, *HEADS], lines)


def of(finding: Finding, split: str, name: str) -> float:
    """Returns the perplexity of a finding on a split.

    Args:
      finding: the results of a cell.
      split: "test" (best weights) or "validation" (best epoch).
      name: "perplexity" (per token) or "word_perplexity".
    """
    if split == "test":
        return number(finding["test"].get(name))
    epochs = [entry["validation"] for entry in finding["epochs"] if "validation" in entry]
    best = min(epochs, key=lambda line: number(line.get("perplexity")), default={})
    return number(best.get(name))
