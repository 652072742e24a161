"""Tabulates the perplexities of language models, the lowest first."""

import math
import statistics
from collections.abc import Mapping, Sequence

from evidence.pages.markdown import NOT_RUN, Results, mean_cell, table
from evidence.pages.run_tables import HEADS, Cost
from evidence.suite import cells
from evidence.suite.language import NETWORKS, RATES, TASKS, TRIED
from evidence.suite.ledger import Finding, number, published, without_failures

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


def equal_sizes(results: Results, kind: str) -> str:
    """Tabulates the networks of a kind that have equally many parameters, the lowest perplexity first.

    Args:
      results: the files of results.
      kind: "causal" or "masked".
    """
    return equal_table(published(results.root, "lm_equal"), kind)


def equal_tables(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Tabulates the networks of both kinds, one table for each.

    Args:
      groups: the findings of each "KIND-NETWORK", one for each seed.
    """
    return "\n".join(f"{kind.capitalize()} networks:\n\n{equal_table(groups, kind)}" for kind in TASKS)


def equal_table(groups: Mapping[str, Sequence[Finding]], kind: str) -> str:
    """Tabulates the networks of a kind: perplexity of a token, and costs.

    Args:
      groups: the findings of each "KIND-NETWORK", one for each seed.
      kind: "causal" or "masked".
    """
    found = {network: groups.get(f"{kind}-{network}", ()) for network in NETWORKS[kind]}

    def mean(network: str) -> float:
        values = without_failures([of(each, "test", "perplexity") for each in found[network]])
        return statistics.mean(values) if values else math.inf

    lines = []
    for network in sorted(found, key=mean):
        scores = [
            mean_cell([of(each, split, "perplexity") for each in found[network]], digits=1)
            if found[network]
            else NOT_RUN
            for split in SPLITS
        ]
        cost = Cost.of(found[network])
        rate = tried_rate(RATES[kind][network]) if found[network] else ""
        lines.append([f"`{network}`", *scores, rate, cost.parameters, cost.core_hours])
    heads = [*(f"{split} perplexity" for split in SPLITS), "learning rate", HEADS.parameters]
    return table(["mixer", *heads, HEADS.core_hours], lines)


def tried_rate(rate: str) -> str:
    """Returns a learning rate, and whether it is the lowest or the highest that was tried."""
    edges = {TRIED[0]: " (lowest tried)", TRIED[-1]: " (highest tried)"}
    return f"{float(rate):g}{edges.get(rate, '')}"


def trials_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Tabulates the validation perplexity of the trials after training, by learning rate.

    Args:
      groups: the findings of each "KIND-NETWORK-rate-RATE".
    """
    lines = []
    for kind, networks in NETWORKS.items():
        for network in networks:
            found = [groups.get(f"{kind}-{network}-rate-{rate}", ()) for rate in TRIED]
            ends = [
                mean_cell([number(each[0]["validation"][-1])], digits=1) if each else NOT_RUN
                for each in found
            ]
            lines.append([kind, f"`{network}`", *ends])
    return table(["predicts", "mixer", *(f"rate {float(rate):g}" for rate in TRIED)], lines)


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
