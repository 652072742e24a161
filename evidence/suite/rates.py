"""Prints the best learning rates of skills and of language models: python -m evidence.suite.rates."""

import sys
from pathlib import Path

import numpy as np

from evidence.suite import language
from evidence.suite.ledger import number, published
from evidence.suite.skills import NETWORKS, TRIED
from fourier_attn import command, paths
from fourier_attn.data.skills import SKILLS


def best_rates(root: Path) -> dict[str, dict[str, str]]:
    """Returns the rate with the best validation accuracy after training, for tasks with all trials finished.

    Args:
      root: the directory that contains results/evidence.
    """
    groups = published(root, "skill_rates")
    best: dict[str, dict[str, str]] = {}
    for task in SKILLS:
        names = {network: [f"{task}-{network}-rate-{rate}" for rate in TRIED] for network in NETWORKS}
        if all(name in groups for each in names.values() for name in each):
            best[task] = {
                network: TRIED[int(np.argmax([groups[name][0]["validation"][-1] for name in each]))]
                for network, each in names.items()
            }
    return best


def language_rates(root: Path) -> dict[str, dict[str, str]]:
    """Returns the rate with the lowest perplexity on validation, for kinds with all trials finished.

    A run that diverged has no perplexity and is never the best.

    Args:
      root: the directory that contains results/evidence.
    """
    groups = published(root, "lm_rates")
    best: dict[str, dict[str, str]] = {}
    for kind, networks in language.NETWORKS.items():
        names = {
            network: [f"{kind}-{network}-rate-{rate}" for rate in language.TRIED] for network in networks
        }
        if all(name in groups for each in names.values() for name in each):
            ends = {
                network: [number(groups[name][0]["validation"][-1]) for name in each]
                for network, each in names.items()
            }
            best[kind] = {
                network: language.TRIED[int(np.argmin(np.nan_to_num(each, nan=np.inf)))]
                for network, each in ends.items()
            }
    return best


def main() -> None:
    """Prints the rates that the trials favour."""
    root = paths.given(".")
    print(best_rates(root))
    print(language_rates(root))


if __name__ == "__main__":
    sys.exit(command.run(main))
