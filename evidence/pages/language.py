"""Tabulates the perplexities of language models, the lowest first."""

import math
import statistics
from collections.abc import Mapping, Sequence

from evidence.pages.markdown import NOT_RUN, Results, mean_cell, table
from evidence.pages.run_tables import HEADS, Cost
from evidence.pages.skill_predictions import verdict
from evidence.suite.language import NETWORKS, RATES, TASKS, TRIED
from evidence.suite.ledger import Finding, number, published, score, without_failures

# Predictions, and pairs of networks of which the first is to have the lower perplexity with all seeds.
PREDICTIONS = {
    "A long convolution learns to predict the next token faster than any other mixer.": [
        ("causal-long_conv", f"causal-{network}") for network in NETWORKS["causal"] if network != "long_conv"
    ],
    "FNet learns to predict masked tokens faster than attention.": [("masked-fourier", "masked-attention")],
    "Learned matrices that do not depend on the text learn to predict masked tokens faster than attention.": [
        ("masked-linear", "masked-attention")
    ],
    "Circular attention learns more slowly than a long convolution.": [
        (f"{kind}-long_conv", f"{kind}-circular") for kind in NETWORKS
    ],
}


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
        values = without_failures([score(each) for each in found[network]])
        return statistics.mean(values) if values else math.inf

    lines = []
    for network in sorted(found, key=mean):
        scores = [
            mean_cell([of(each) for each in found[network]], digits=1) for of in (best_validation, score)
        ]
        cost = Cost.of(found[network])
        rate = tried_rate(RATES[kind][network]) if found[network] else ""
        lines.append([f"`{network}`", *scores, rate, cost.parameters, cost.core_hours])
    heads = ["validation perplexity", "test perplexity", "learning rate", HEADS.parameters, HEADS.core_hours]
    return table(["mixer", *heads], lines)


def equal_verdicts(results: Results) -> str:
    """Tabulates the predictions of results/evidence/lm_equal/predictions.md with their verdicts."""
    return verdicts(published(results.root, "lm_equal"))


def verdicts(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Tabulates the predictions with their verdicts, and the test perplexities of the networks in them.

    Args:
      groups: the findings of each "KIND-NETWORK", one for each seed.
    """
    scores = {name: [score(each) for each in found] for name, found in groups.items()}
    lines = []
    for i, (words, pairs) in enumerate(PREDICTIONS.items(), start=1):
        held = [lower(scores.get(better, ()), scores.get(worse, ())) for better, worse in pairs]
        named = dict.fromkeys(name for pair in pairs for name in pair)
        shown = [f"`{name}` {mean_cell(scores[name], digits=1)}" for name in named if name in scores]
        lines.append([f"{i}", words, verdict(*held), ", ".join(shown)])
    return table(["", "prediction", "verdict", "test perplexity"], lines)


def lower(better: Sequence[float], worse: Sequence[float], seeds: int = 3) -> bool | None:
    """Says whether all seeds of one network are below all of another; None if missing seeds can decide.

    A seed that failed is worse than all others.
    """
    a, b = ([math.inf if math.isnan(value) else value for value in values] for values in (better, worse))
    if a and b and max(a) >= min(b):
        return False
    return True if len(a) >= seeds and len(b) >= seeds else None


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


def best_validation(finding: Finding) -> float:
    """Returns the perplexity on validation after the best epoch; NaN if none is defined."""
    return min(without_failures(finding["validation"]), default=math.nan)
