"""What can be said from a few seeds and one test set: intervals, comparisons, shares of the variance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

DRAWS = 10_000


@dataclass(frozen=True)
class Difference:
    """Of the accuracies of two models, a - b.

    Args:
      low, high: 95 % interval.
      draws: of the multi-bootstrap, around 0.
    """

    mean: float
    low: float
    high: float
    draws: np.ndarray

    def above(self, bound: float) -> float:
        """The p-value of "a - b is at most `bound`", one-sided."""
        return float((1 + np.sum(self.draws >= self.mean - bound)) / (1 + len(self.draws)))


def difference(a: np.ndarray, b: np.ndarray, seed: int = 0, draws: int = DRAWS) -> Difference:
    """The multi-bootstrap of a difference: seeds and examples are drawn again, both, with replacement.

        a - b + g sum_s (u_s A_s - v_s B_s) + f sum_i w_i (a_i - b_i)

    u, v, w are how much more often than once a seed or an example was drawn, as shares; A_s is the accuracy
    of seed s, a_i that of example i over the seeds. Examples are the same for both, seeds are not.

    So few seeds say little of their own spread: g = sqrt(S / (S - 1)) t_{.975, nu} / z_{.975}, with Welch's
    degrees of freedom nu, makes their part as wide as Student's distribution asks. What a seed does to single
    examples is in both sums, and f^2 = 1 - (its share of the variance of a_i - b_i) takes it out of one.

    Args:
      a, b: whether each answer is right (bool), seeds x examples.
    Raises: ValueError for a model with fewer than two seeds.
    Source: Sellam et al., The MultiBERTs, arXiv 2106.16163 (without f and g).
    """
    for right in (a, b):
        if len(right) < 2:
            raise ValueError(f"{len(right)} seed tells nothing of the spread over seeds; train another one")
    rng = np.random.default_rng(seed)
    widened = t.ppf(0.975, welch(a.mean(1), b.mean(1))) / norm.ppf(0.975)
    moved = widened * (seeds_drawn(a.mean(1), rng, draws) - seeds_drawn(b.mean(1), rng, draws))
    paired = a.mean(0) - b.mean(0)
    alone = interaction(a) / len(a) + interaction(b) / len(b)
    shared = math.sqrt(max(0.0, 1 - alone / paired.var())) if paired.any() else 0.0
    moved += shared * examples_drawn(paired, rng, draws)
    mean = float(a.mean() - b.mean())
    low, high = mean + np.quantile(moved, [0.025, 0.975])
    return Difference(mean, float(low), float(high), moved)


def seeds_drawn(values: np.ndarray, rng: np.random.Generator, draws: int) -> np.ndarray:
    """By how much the mean over seeds moves when they are drawn again, with n - 1 in the variance."""
    n = len(values)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=draws)
    return math.sqrt(n / (n - 1)) * (counts / n - 1 / n) @ values


def examples_drawn(values: np.ndarray, rng: np.random.Generator, draws: int) -> np.ndarray:
    """Likewise for the mean over examples; equal ones are drawn together."""
    distinct, counts = np.unique(values, return_counts=True)
    n = len(values)
    drawn = rng.multinomial(n, counts / n, size=draws)
    return (drawn - counts) / n @ distinct


def interaction(right: np.ndarray) -> float:
    """The variance of single answers that neither their seed nor their example explains.

    The mean square of r_si - r_s - r_i + r, over (S - 1) (N - 1) degrees of freedom.
    """
    rest = right - right.mean(1, keepdims=True) - right.mean(0) + right.mean()
    seeds, examples = right.shape
    return float((rest**2).sum() / ((seeds - 1) * (examples - 1)))


def welch(a: np.ndarray, b: np.ndarray) -> float:
    """Welch's degrees of freedom of the difference of two means."""
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    if va + vb == 0:
        return len(a) + len(b) - 2
    return float((va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's p-values of several tests: together they reject a true hypothesis at most as often as one.

    p_(k) -> max_{j <= k} min(1, (m - j + 1) p_(j)), the smallest first.
    """
    found, worst = {}, 0.0
    for k, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        worst = max(worst, min(1.0, (len(p_values) - k) * p_values[name]))
        found[name] = worst
    return {name: found[name] for name in p_values}


def mean_interval(right: np.ndarray) -> tuple[float, float]:
    """95 % interval of a model's accuracy over seeds and examples, or over examples alone for one seed.

    r -+ sqrt(t^2 s^2 / S + z^2 (v - q / S) / N), with the variance s^2 over seeds, v that of the examples'
    means, q the `interaction`, and the quantiles t_{.975, S - 1} and z_{.975}.

    Args:
      right: seeds x examples (bool).
    """
    (seeds, examples), mean, quantile = right.shape, float(right.mean()), float(norm.ppf(0.975))
    if seeds == 1:
        half = quantile * math.sqrt(mean * (1 - mean) / examples)
        return mean - half, mean + half
    of_examples = max(0.0, right.mean(0).var() - interaction(right) / seeds) / examples
    of_seeds = right.mean(1).var(ddof=1) / seeds
    half = math.sqrt(float(t.ppf(0.975, seeds - 1)) ** 2 * of_seeds + quantile**2 * of_examples)
    return mean - half, mean + half


def expected_best(values: Sequence[float]) -> np.ndarray:
    """The best of the first n = 1, 2, ... of so many trials, expected over their order.

        E[max of n] = sum_i v_(i) ((i / N)^n - ((i - 1) / N)^n)

    Source: Dodge et al., Show Your Work, arXiv 1909.03004.
    """
    ordered, count = np.sort(values), len(values)
    i = np.arange(1, count + 1)
    powers = np.arange(1, count + 1)[:, None]
    return ((i / count) ** powers - ((i - 1) / count) ** powers) @ ordered


def spread(values: Sequence[float]) -> float:
    """Standard deviation of a sample; NaN for one value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
