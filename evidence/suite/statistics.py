"""Statistics of a few seeds and one test set: intervals, comparisons, shares of the variance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import root_scalar
from scipy.stats import chi2, norm, t

DRAWS = 10_000


class Interval(NamedTuple):
    """Holds an estimate with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """Holds the difference a - b of two models' accuracies, with its 95 % interval `low` to `high`.

    Its error is $scale T + e$: Student's T with `freedom` degrees of freedom, for the seeds, and one of the
    equally likely samples e, for the examples.

    Args:
      examples: the samples e.
      scale: scale of T; 0 if seeds do not differ.
    """

    mean: float
    examples: np.ndarray
    scale: float
    freedom: float

    def above(self, bound: float) -> float:
        """Returns the p-value of "a - b is at most `bound`", one-sided."""
        rest = self.mean - bound - self.examples
        if not self.scale:
            return float((1 + np.sum(rest <= 0)) / (1 + len(rest)))
        return float(t.sf(rest / self.scale, self.freedom).mean())

    @property
    def low(self) -> float:
        return self.mean - self.quantile(0.975)

    @property
    def high(self) -> float:
        return self.mean - self.quantile(0.025)

    def quantile(self, share: float) -> float:
        """Returns the quantile of the error at this share."""
        if not self.scale:
            return float(np.quantile(self.examples, share))
        middle = self.scale * float(t.ppf(share, self.freedom))
        least, most = middle + self.examples.min(), middle + self.examples.max()
        if least == most:
            return least

        def excess(error: float) -> float:
            return float(t.cdf((error - self.examples) / self.scale, self.freedom).mean()) - share

        return root_scalar(excess, bracket=(least, most)).root


def difference(a: np.ndarray, b: np.ndarray, seed: int = 0, draws: int = DRAWS) -> Difference:
    """Bootstraps a difference over other examples, sampled with replacement, and other seeds.

        sample = a - b + T sqrt(s_a^2 / S_a + s_b^2 / S_b) + f sum_i w_i (a_i - b_i)

    w is how much more often than once an example was drawn, as a share; $a_i$ is the accuracy of example i
    over the seeds, $s_a$ the deviation over the $S_a$ seeds. Examples are paired; seeds are not, which is
    conservative where networks of the same seed resemble each other, such as those on an engine and their
    exact twins.

    Three seeds, drawn with replacement, never lie further out than the worst of them, however small the level
    of the test is. Their part is therefore Student's T, with Welch's degrees of freedom, without draws. What
    a seed does to single examples (`interaction`) is in both parts, and $f^2 = 1 - q$, with its share q of
    the variance of $a_i - b_i$, takes it out of one; networks of the same seed may have that luck in common.

    Args:
      a, b: whether each answer is right (bool), seeds x examples; the first seeds of both are the same.
    Raises: ValueError for a model with fewer than two seeds.
    Source: Sellam et al., The MultiBERTs, arXiv 2106.16163 (without T and f).
    """
    for right in (a, b):
        if len(right) < 2:
            raise ValueError(f"a spread over seeds needs at least 2, not {len(right)}; train another one")
    paired, both = a.mean(0) - b.mean(0), min(len(a), len(b))
    luck = interaction(a, a) / len(a) + interaction(b, b) / len(b)
    luck -= 2 * both / (len(a) * len(b)) * interaction(a[:both], b[:both])
    shared = math.sqrt(max(0.0, 1 - luck / paired.var())) if paired.var() else 0.0
    moved = shared * examples_drawn(paired, np.random.default_rng(seed), draws)
    scale, freedom = welch(a.mean(1), b.mean(1))
    return Difference(float(a.mean() - b.mean()), moved, scale, freedom)


def examples_drawn(values: np.ndarray, rng: np.random.Generator, draws: int) -> np.ndarray:
    """Returns the shifts (draws,) of the mean over resampled examples; equal values are sampled together.

    Args:
      values: a value for each example.
      rng: source of random numbers.
      draws: number of resamples.
    """
    distinct, counts = np.unique(values, return_counts=True)
    n = len(values)
    drawn = rng.multinomial(n, counts / n, size=draws)
    return (drawn - counts) / n @ distinct


def interaction(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the covariance of single answers of two models that neither seed nor example explains.

    It is the mean of the products of $r_si - r_s - r_i + r$, over $(S - 1) (N - 1)$ degrees of freedom.
    """
    rests = [right - right.mean(1, keepdims=True) - right.mean(0) + right.mean() for right in (a, b)]
    seeds, examples = a.shape
    return float((rests[0] * rests[1]).sum() / ((seeds - 1) * (examples - 1)))


def welch(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Returns the standard error of the difference of two means, and Welch's degrees of freedom."""
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    if va + vb == 0:
        return 0.0, len(a) + len(b) - 2
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return math.sqrt(va + vb), float(freedom)


def welch_interval(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> Interval:
    """Returns the difference of the means of two samples, and its 95 % interval, Welch's.

    It is $d - t s$ to $d + t s$, with the difference d, its standard error s, and the quantile
    $t = t_{0.975, v}$ of Student's distribution with Welch's v degrees of freedom.

    Args:
      a, b: independent samples of at least two values each.
    """
    first, second = np.asarray(a), np.asarray(b)
    error, freedom = welch(first, second)
    mean, half = float(first.mean() - second.mean()), float(t.ppf(0.975, freedom)) * error
    return Interval(mean, mean - half, mean + half)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Returns Holm's p-values of several tests, which together reject a true hypothesis as rarely as one.

        a_k = max_{j <= k} min(1, (m - j + 1) p_j)

    Here $p_1$ is the smallest of the m p-values, and $a_k$ takes the place of $p_k$.
    """
    adjusted, worst = {}, 0.0
    for k, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        worst = max(worst, min(1.0, (len(p_values) - k) * p_values[name]))
        adjusted[name] = worst
    return {name: adjusted[name] for name in p_values}


def mcnemar(a: np.ndarray, b: np.ndarray) -> float:
    """Returns McNemar's statistic of two models' answers to the same examples.

    It is $z = (n_a - n_b) / sqrt(n_a + n_b)$, where $n_a$ examples are answered correctly by the first model
    only, and $n_b$ by the second only. Without such examples it is 0. If both models are equally accurate, z
    is approximately standard normal.

    Args:
      a, b: whether each answer is right (bool).
    Source: McNemar, Psychometrika 12 (1947), 153.
    """
    only_a, only_b = int(np.sum(a & ~b)), int(np.sum(b & ~a))
    return (only_a - only_b) / math.sqrt(only_a + only_b) if only_a + only_b else 0.0


def mean_interval(right: np.ndarray) -> tuple[float, float]:
    """Returns the 95 % interval of a model's accuracy over seeds and examples.

    The interval is $r - w$ to $r + w$, with

        w = sqrt(t^2 s^2 / S + (v - q / S) z^2 / N)

    Here $s^2$ is the variance over seeds, v that of the examples' means, and q the `interaction`. The
    quantiles are $t = t_{0.975, S - 1}$ and $z = z_{0.975}$. No accuracy is below 0 or
    above 1, and no end of the interval is.

    Args:
      right: at least two seeds x examples (bool).
    """
    (seeds, examples), mean, quantile = right.shape, float(right.mean()), float(norm.ppf(0.975))
    of_examples = max(0.0, right.mean(0).var() - interaction(right, right) / seeds) / examples
    of_seeds = right.mean(1).var(ddof=1) / seeds
    half = math.sqrt(float(t.ppf(0.975, seeds - 1)) ** 2 * of_seeds + quantile**2 * of_examples)
    return max(0.0, mean - half), min(1.0, mean + half)


def expected_best(values: Sequence[float]) -> np.ndarray:
    """Returns the expected best of n = 1, 2, ... trials, each sampled from these with replacement.

        mean(max of n) = sum_i v_(i) ((i / N)^n - ((i - 1) / N)^n)

    Source: Dodge et al., Show Your Work, arXiv 1909.03004.
    """
    ordered, count = np.sort(values), len(values)
    i = np.arange(1, count + 1)
    powers = np.arange(1, count + 1)[:, None]
    return ((i / count) ** powers - ((i - 1) / count) ** powers) @ ordered


def spread(values: Sequence[float] | np.ndarray) -> float:
    """Returns the standard deviation of a sample; NaN for one value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def spread_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Returns the 95 % interval of a standard deviation s of normal values.

    It is $s sqrt(v / c_{0.975, v})$ to $s sqrt(v / c_{0.025, v})$, with $v = n - 1$ and the quantiles c of
    chi-squared.

    Raises: ValueError for one value.
    """
    freedom = len(values) - 1
    if freedom < 1:
        raise ValueError(f"a spread needs at least 2 values, not {len(values)}; give more")
    low, high = (spread(values) * math.sqrt(freedom / float(chi2.ppf(p, freedom))) for p in (0.975, 0.025))
    return low, high
