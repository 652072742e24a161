"""Defines the pre-registered comparisons: models and margins."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evidence.suite.statistics import Difference, difference, holm

MARGIN, LEVEL = 0.01, 0.05


@dataclass(frozen=True)
class Comparison:
    """Holds a claim that `model` is not worse than `against`, or that it is better.

    Args:
      claim: number of the claim in the findings.
      model: name of a model of the tier.
      against: name of the model that it is compared with.
      better: True: the claim is that it is better; False: that it loses less than `MARGIN`.
    """

    claim: int
    model: str
    against: str
    better: bool = False

    @property
    def name(self) -> str:
        """Returns "MODEL against AGAINST"."""
        return f"{self.model} against {self.against}"

    @property
    def bound(self) -> float:
        """Returns the bound of the null hypothesis, which is: accuracy of model - against is at most this."""
        return 0.0 if self.better else -MARGIN

    def __str__(self) -> str:
        said = "is better than" if self.better else f"loses less than {100 * MARGIN:g} point against"
        return f"`{self.model}` {said} `{self.against}`"


# By tier. A claim with several parts holds if all of them do.
COMPARISONS: dict[str, tuple[Comparison, ...]] = {
    "toy": (Comparison(1, "fnet", "identity", better=True),),
    "1": (
        Comparison(1, "circular-1d", "attention"),
        Comparison(2, "circular-16x4", "circular-1d"),
        Comparison(2, "circular-8x8", "circular-1d"),
        Comparison(3, "circular-3x3-engine", "circular-3x3-exact"),
        Comparison(4, "fnet-engine", "fnet-exact"),
        Comparison(5, "lambda-engine", "lambda-exact"),
        Comparison(6, "lambda", "attention"),
        Comparison(7, "hybrid", "fnet", better=True),
    ),
}


@dataclass(frozen=True)
class Verdict:
    """Holds the result of a comparison.

    Args:
      comparison: the claim.
      difference: the difference of accuracies with its interval.
      p: p-value of its null hypothesis.
      adjusted: the p-value after Holm's adjustment for all comparisons.
      words: "better", "not worse", "worse" or "undecided".
    """

    comparison: Comparison
    difference: Difference
    p: float
    adjusted: float
    words: str


def decide(comparisons: tuple[Comparison, ...], right: Mapping[str, np.ndarray]) -> list[Verdict]:
    """Returns the verdict on each comparison, with p-values adjusted for all of them.

    All comparisons count for the adjustment, but only those with results for both models are returned.

    Args:
      comparisons: the claims of a tier.
      right: whether each prediction is correct, by model (bool, seeds x examples).
    """
    ready = [c for c in comparisons if c.model in right and c.against in right]
    differences = {c.name: difference(right[c.model], right[c.against]) for c in ready}
    p_values = {c.name: differences[c.name].above(c.bound) if c in ready else 1.0 for c in comparisons}
    adjusted = holm(p_values)
    return [
        Verdict(
            c,
            differences[c.name],
            p_values[c.name],
            adjusted[c.name],
            verdict(c, differences[c.name], adjusted),
        )
        for c in ready
    ]


def verdict(comparison: Comparison, difference: Difference, adjusted: Mapping[str, float]) -> str:
    """Returns the verdict in words.

    Args:
      comparison: the claim.
      difference: the measured difference. The verdict is "worse" if its 95 % interval is below the bound.
      adjusted: the adjusted p-value of each comparison, by its name.
    """
    if adjusted[comparison.name] < LEVEL:
        return "better" if comparison.better or difference.low > 0 else "not worse"
    return "worse" if difference.high < comparison.bound else "undecided"
