"""Prints the best learning rates of skills and of language models: python -m evidence.suite.rates."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evidence.suite import language, skills
from evidence.suite.ledger import number, published
from fourier_attn import command, paths
from fourier_attn.data.skills import SKILLS

Rates = dict[str, dict[str, str]]  # by group, such as a skill, and by network


def skill_rates(root: Path) -> Rates:
    """Returns the rate with the best accuracy on validation, for each network on each skill.

    Args:
      root: the directory that contains results/evidence.
    """
    return _best_rates(
        root, "skill_rates", dict.fromkeys(SKILLS, skills.NETWORKS), skills.TRIED, higher_is_better=True
    )


def hybrid_rates(root: Path) -> Rates:
    """Returns the rate with the best accuracy on validation, for each hybrid on each of its tasks.

    Args:
      root: the directory that contains results/evidence.
    """
    groups = dict.fromkeys(skills.HYBRID_TASKS, skills.HYBRIDS)
    return _best_rates(root, "hybrid_rates", groups, skills.TRIED, higher_is_better=True)


def trial_accuracies(root: Path) -> dict[str, float]:
    """Returns the validation accuracy after the last step of each trial, by "TASK-NETWORK-rate-RATE".

    Args:
      root: the directory that contains results/evidence.
    """
    tiers = ("skill_rates", "hybrid_rates", "higher_rates")
    return {
        name: number(trial["validation"][-1])
        for tier in tiers
        for name, (trial,) in published(root, tier).items()
    }


def better(root: Path) -> dict[str, tuple[str, ...]]:
    """Returns the networks of each skill with a better trial at the higher rate than at the highest of TRIED.

    A network without a trial at the higher rate is left out, and so is a skill without such a network.

    Args:
      root: the directory that contains results/evidence.
    """
    accuracies = trial_accuracies(root)
    found: dict[str, tuple[str, ...]] = {}
    for task, networks in skills.AT_HIGHEST.items():
        for name in networks:
            trial = f"{task}-{name}-rate-"
            higher = accuracies.get(f"{trial}{skills.HIGHER}", -math.inf)
            if higher > accuracies[f"{trial}{skills.TRIED[-1]}"]:
                found[task] = (*found.get(task, ()), name)
    return found


def language_rates(root: Path) -> Rates:
    """Returns the rate with the lowest perplexity on validation, for each causal and masked network.

    Args:
      root: the directory that contains results/evidence.
    """
    return _best_rates(root, "lm_rates", language.NETWORKS, language.TRIED, higher_is_better=False)


def _best_rates(
    root: Path, tier: str, networks: Mapping[str, Iterable[str]], rates: Sequence[str], higher_is_better: bool
) -> Rates:
    """Returns the learning rate of each network with the best validation score after the last epoch.

    Ties go to the lower rate, and a diverged trial ranks last. A group is left out until all of its trials
    are finished.

    Args:
      root: the directory that contains results/evidence.
      tier: the tier of the trials, whose models are named GROUP-NETWORK-rate-RATE.
      networks: the networks of each group.
      rates: the learning rates.
      higher_is_better: whether higher scores are better.
    """
    finished, sign = published(root, tier), -1 if higher_is_better else 1

    def rank_key(name: str) -> float:
        value = number(finished[name][0]["validation"][-1])
        return math.inf if math.isnan(value) else sign * value

    best: Rates = {}
    for group, members in networks.items():
        trials = {network: {rate: f"{group}-{network}-rate-{rate}" for rate in rates} for network in members}
        if all(name in finished for each in trials.values() for name in each.values()):
            best[group] = {
                network: min(rates, key=lambda rate, each=each: rank_key(each[rate]))
                for network, each in trials.items()
            }
    return best


def main() -> None:
    """Prints the best learning rates of all groups whose trials are finished, and what a higher one helps."""
    root = paths.given(".")
    for found in (skill_rates(root), hybrid_rates(root), language_rates(root)):
        for group, best in found.items():
            print(f"{group}:", *(f"{network}={rate}" for network, rate in best.items()))
    for group, networks in better(root).items():
        print(f"{group}, better at {skills.HIGHER}:", *networks)


if __name__ == "__main__":
    sys.exit(command.run(main))
