"""Tabulates the verdicts on the predictions of results/evidence/pretraining/predictions.md."""

from collections.abc import Mapping, Sequence
from functools import partial

from evidence.pages import claims
from evidence.pages.claims import SUPPORTED, UNTESTED, Judged
from evidence.pages.markdown import Results, table
from evidence.pages.skill_predictions import contrary, verdict
from evidence.report import stability
from evidence.suite.ledger import published
from evidence.suite.pretraining import TRIED

SEEDS = 3  # of each trial
SHARES: dict[str, claims.Judge] = {  # the predictions from the fourth on
    "FNet reaches 92 % of BERT's score on GLUE.": partial(
        claims.share_of_glue, model="fnet-mini", against="bert-mini", bound=0.92
    ),
    "The hybrid reaches 97 % of BERT's score on GLUE.": partial(
        claims.share_of_glue, model="hybrid-mini", against="bert-mini", bound=0.97
    ),
    "After pre-training on WikiText-2 alone, FNet reaches 92 % of BERT's score on GLUE.": partial(
        claims.share_on_wikitext, model="fnet-wiki-tiny", bound=0.92
    ),
    "After pre-training on WikiText-2 alone, the hybrid reaches 97 % of BERT's score on GLUE.": partial(
        claims.share_on_wikitext, model="hybrid-3-wiki-tiny", bound=0.97
    ),
}
Accuracies = Mapping[str, Mapping[str, Sequence[float]]]  # of the seeds, by architecture and rate


def verdicts_table(results: Results) -> str:
    """Tabulates the predictions with their verdicts and results."""
    lines = [
        judged("FNet trains more stably than BERT.", claims.steadier(results, "fnet", "bert")),
        *of_rates(stability.accuracies(published(results.root, "stability"))),
        *(judged(prediction, judge(results)) for prediction, judge in SHARES.items()),
    ]
    numbered = [[str(number), *line] for number, line in enumerate(lines, start=1)]
    return table(["", "prediction", "verdict", "result"], numbered)


def of_rates(found: Accuracies) -> list[list[str]]:
    """Returns the rows of the second and the third prediction, about learning rates.

    Args:
      found: validation accuracies of the seeds, by architecture and rate.
    """
    high, shown = TRIED[-1], ("bert", "fnet", "linear")
    attention = verdict(
        contrary(any_train(found, "bert", high)),
        all_train(found, "fnet", high),
        all_train(found, "linear", high),
    )
    mixing = verdict(*(contrary(any_train(found, "ff", rate)) for rate in TRIED))
    at_high = ", ".join(counts(found, name, high) for name in shown)
    at_all = ", ".join(f"{counts(found, 'ff', rate)} at {float(rate):g}" for rate in TRIED)
    return [
        [
            "High rates are the problem of attention.",
            attention,
            f"seeds that train at {float(high):g}: {at_high}",
        ],
        ["Without mixing, masked tokens are hard to predict.", mixing, f"seeds that train: {at_all}"],
    ]


def judged(prediction: str, found: Judged) -> list[str]:
    """Returns the row of a prediction that is also a claim. It fails if the interval contains the bound."""
    holds = None if found.verdict == UNTESTED else found.verdict == SUPPORTED
    return [prediction, verdict(holds), found.result]


def any_train(found: Accuracies, name: str, rate: str) -> bool | None:
    """Says whether a seed of an architecture trains at a rate; None if seeds are missing and none does."""
    values = found[name].get(rate, [])
    if stability.trained(values):
        return True
    return False if len(values) >= SEEDS else None


def all_train(found: Accuracies, name: str, rate: str) -> bool | None:
    """Says whether all seeds of an architecture train at a rate; None if seeds are missing and none fails."""
    values = found[name].get(rate, [])
    if stability.trained(values) < len(values):
        return False
    return True if len(values) >= SEEDS else None


def counts(found: Accuracies, name: str, rate: str) -> str:
    """Returns the name of an architecture, and how many of its seeds train at a rate."""
    values = found[name].get(rate, [])
    return f"`{name}` {stability.trained(values)} of {len(values)}"
