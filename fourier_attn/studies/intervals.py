"""Computes 95 % intervals of accuracies, over devices and over examples, and plots them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import t as student

Z95 = 1.959964  # 0.975 quantile of the normal distribution


def band(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean and half of its 95 % band, $t_{0.975, n - 1} s / sqrt(n)$; NaN for one value.

    Devices share their examples, so the band does not contain what the choice of examples adds.
    """
    n = len(values)
    if n == 1:
        return float(values[0]), math.nan
    return float(np.mean(values)), float(student.ppf(0.975, n - 1) * np.std(values, ddof=1) / math.sqrt(n))


def wilson_interval(accuracy: float, examples: int) -> tuple[float, float]:
    """Returns Wilson's 95 % interval of an accuracy.

    It is $m - w$ to $m + w$, with

        m = (p + z^2 / (2 n)) / (1 + z^2 / n)
        w = z sqrt((1 - p) p / n + z^2 / (4 n^2)) / (1 + z^2 / n)
    """
    ratio = Z95**2 / examples
    middle = accuracy + ratio / 2
    half = Z95 * math.sqrt(accuracy * (1 - accuracy) / examples + ratio / (4 * examples))
    return max((middle - half) / (1 + ratio), 0.0), min((middle + half) / (1 + ratio), 1.0)  # rounding


def percent_range(low: float, high: float, form: str = ".2f") -> str:
    """Formats an interval of shares in percent.

    Args:
      low, high: ends from 0 to 1.
      form: format of the numbers.
    """
    return f"{100 * low:{form}} to {100 * high:{form}}"


def plot_band(axes: Axes, places: Sequence[float], values: Sequence[Sequence[float]], **style: Any) -> None:
    """Plots a curve of means with its 95 % band, in percent.

    Args:
      axes: the panel.
      places: values on the x-axis.
      values: samples at each place, from 0 to 1.
      style: options of matplotlib's `plot`.
    """
    means, halves = np.array([band(each) for each in values]).T
    (line,) = axes.plot(places, 100 * means, **style)
    low, high = 100 * np.maximum(means - halves, 0), 100 * np.minimum(means + halves, 1)  # NaN stays
    axes.fill_between(places, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
