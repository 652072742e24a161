"""Tabulates how much networks on IMDb and on ListOps gain from self-pretraining."""

from collections.abc import Mapping, Sequence

from evidence.pages.claims import points
from evidence.pages.markdown import NOT_RUN, Results, mean_cell, table
from evidence.pages.skill_predictions import verdict
from evidence.suite import cells
from evidence.suite.ledger import Finding, number, published, score
from evidence.suite.statistics import Interval, welch_interval
from fourier_attn.studies.intervals import band

# tier -> tier of the same networks from random weights
SCRATCH = {"self_pretrained": "1", "self_pretrained_listops": "listops"}
SEEDS = {model.name: model.seeds for model in cells.MODELS["self_pretrained"]}  # of both tiers
COMPARED = {"fnet": "FNet", "circular-1d": "circular attention", "lambda": "lambda layers"}
Groups = Mapping[str, Sequence[Finding]]
Accuracies = Mapping[int, float]  # by seed


def gains_table(results: Results, tier: str) -> str:
    """Tabulates the accuracies of each mixer of a tier from random weights and after self-pretraining."""
    return format_gains(published(results.root, SCRATCH[tier]), published(results.root, tier))


def format_gains(scratch: Groups, pretrained: Groups) -> str:
    """Tabulates accuracies of each mixer, its gain with a 95 % interval, and its masked model's perplexity.

    Only the seeds that are finished on both sides count. Mixers without such a seed are left out.

    Args:
      scratch: the findings of each mixer from random weights.
      pretrained: the findings of each mixer after self-pretraining.
    """
    lines = []
    for model, (before, after) in accuracies(scratch, pretrained).items():
        shared = sorted(before.keys() & after.keys())
        if not shared:
            continue
        shown = [mean_cell([100 * side[seed] for seed in shared]) for side in (before, after)]
        gained = mean_gain(gains_by_seed(before, after))
        perplexities = [perplexity(found) for found in pretrained[model] if found["seed"] in shared]
        masked = mean_cell(perplexities, digits=0 if min(perplexities) > 100 else 2)
        lines.append([f"`{model}`", *shown, points(*gained) if gained else "", masked])
    if not lines:
        return table(["mixer"], [[NOT_RUN]])
    title = ["mixer", "from random weights, %", "self-pretrained, %", "gain (95 % interval)"]
    return table([*title, "perplexity of the masked model"], lines)


def perplexity(finding: Finding) -> float:
    """Returns the perplexity of the masked model that a network was self-pretrained as, on test."""
    return number(finding["self_pretrained"]["perplexity"])


def verdicts_table(results: Results, tier: str) -> str:
    """Tabulates the predictions of self_pretraining.md, next to the report of a tier, with their verdicts."""
    return format_verdicts(published(results.root, SCRATCH[tier]), published(results.root, tier))


def format_verdicts(scratch: Groups, pretrained: Groups) -> str:
    """Tabulates the predictions with their verdicts, which are open until all seeds are finished.

    Args:
      scratch, pretrained: see `format_gains`.
    """
    every = {model: gains_by_seed(*sides) for model, sides in accuracies(scratch, pretrained).items()}
    gained = {model: each if len(each) == SEEDS[model] else [] for model, each in every.items()}
    lines = [["Attention gains from self-pretraining.", *_verdict_cells(mean_gain(gained["attention"]))]]
    for model, words in COMPARED.items():
        difference = gain_difference(gained["attention"], gained[model])
        lines.append([f"Attention gains more than {words}.", *_verdict_cells(difference)])
    numbered = [[str(number), *line] for number, line in enumerate(lines, start=1)]
    return table(["", "prediction", "verdict", "difference (95 % interval)"], numbered)


def accuracies(scratch: Groups, pretrained: Groups) -> dict[str, tuple[Accuracies, Accuracies]]:
    """Returns, for each mixer, the accuracy of each seed from random weights and after self-pretraining.

    Args:
      scratch, pretrained: see `format_gains`.
    """
    return {
        model: (
            {each["seed"]: score(each) for each in scratch.get(model, ()) if each["seed"] < seeds},
            {each["seed"]: score(each) for each in pretrained.get(model, ())},
        )
        for model, seeds in SEEDS.items()
    }


def gains_by_seed(before: Accuracies, after: Accuracies) -> list[float]:
    """Returns the gains of the seeds that have both accuracies."""
    return [after[seed] - before[seed] for seed in sorted(before.keys() & after.keys())]


def mean_gain(gained: Sequence[float]) -> Interval | None:
    """Returns the mean of the gains of seeds with its 95 % interval, None for fewer than two seeds.

    The interval is $m ± t_{0.975, S - 1} s / sqrt(S)$, with the mean m and the deviation s of S gains.
    """
    if len(gained) < 2:
        return None
    mean, half = band(gained)
    return Interval(mean, mean - half, mean + half)


def gain_difference(ours: Sequence[float], theirs: Sequence[float]) -> Interval | None:
    """Returns by how much the gain of a mixer exceeds that of another, with Welch's 95 % interval over seeds.

    Args:
      ours, theirs: the gains of each seed. With fewer than two, the result is None.
    """
    return None if min(len(ours), len(theirs)) < 2 else welch_interval(ours, theirs)


def _verdict_cells(found: Interval | None) -> tuple[str, str]:
    """Returns the verdict on whether a difference is above zero, and its interval.

    The prediction fails if the interval contains zero.
    """
    return (verdict(None), "") if found is None else (verdict(found.low > 0), points(*found))
