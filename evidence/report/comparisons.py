"""Defines the comparisons as written down before any test set was read: models and margins."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evidence.suite.statistics import Difference, difference, holm

MARGIN, LEVEL = 0.01, 0.05


@dataclass(frozen=True)
class Comparison:
    """Claims that `model` is not worse than `against`, or that it is better.

    Args:
      better: True: it is better; False: it loses less than `MARGIN`.
    """

    claim: int
    model: str
    against: str
    better: bool = False

    @property
    def name(self) -> str:
        return f"{self.model} against {self.against}"

    @property
    def bound(self) -> float:
        """Returns the bound of the tested hypothesis: model - against is at most this."""
        return 0.0 if self.better else -MARGIN

    def __str__(self) -> str:
        said = "is better than" if self.better else f"loses less than {100 * MARGIN:g} point against"
        return f"`{self.model}` {said} `{self.against}`"


# By tier. A claim with several parts holds where all of them do.
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
      p, adjusted: of its hypothesis, alone and among all comparisons (Holm).
      words: "better", "not worse", "worse" or "undecided".
    """

    comparison: Comparison
    difference: Difference
    p: float
    adjusted: float
    words: str


def decide(comparisons: tuple[Comparison, ...], right: Mapping[str, np.ndarray]) -> list[Verdict]:
    """Returns the verdict on each comparison, with p-values adjusted for all of them.

    Args:
      right: of each model, whether its answers are right (bool), seeds x examples. All comparisons count for
        the adjustment; those whose models are not there yet are left out of what is returned.
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
    """Returns the verdict in words; "worse" if the whole 95 % interval is below the bound."""
    if adjusted[comparison.name] < LEVEL:
        return "better" if comparison.better or difference.low > 0 else "not worse"
    return "worse" if difference.high < comparison.bound else "undecided"
