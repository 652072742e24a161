"""Plots the learning curves of a run: loss and metric by epoch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fourier_attn import style
from fourier_attn.train import monitor
from fourier_attn.train.rundir.metrics_log import read_lines

Lines = Sequence[Mapping[str, Any]]
NARROWEST = 0.1  # smallest range of an axis of accuracy or loss, so that small changes look small


def plot_curves(workdir: Path, name: str = "accuracy", chance: float | None = None) -> None:
    """Writes a run's curves.png.

    Args:
      workdir: directory of the run.
      name, chance: see `plot`.
    """
    style.save(plot(read_lines(workdir), name, chance, workdir.name), workdir / "curves.png")


@style.styled()
def plot(lines: Lines, name: str = "accuracy", chance: float | None = None, title: str = "") -> Figure:
    """Plots a metric and the loss of training and validation by epoch.

    Args:
      lines: lines of metrics.jsonl.
      name: the metric that chooses the best epoch, which is marked; default "accuracy".
      chance: value of the metric for random guesses; default None: not shown.
      title: title of the figure; default none.
    """
    epochs = [line for line in lines if line["epoch"] == int(line["epoch"])]
    losses = [key for key in epochs[0] if key.endswith("loss")] if epochs else []
    shown = [name, *(loss for loss in losses[:1] if loss != name)]
    figure = style.figure(style.PAGE / 2 * len(shown), 2.8)
    for axes, metric in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        _plot_metric(axes, metric, epochs)
        _plot_test(axes, metric, lines)
        if metric == name:
            _mark_best(axes, metric, epochs)
        if metric == name and chance is not None:
            axes.axhline(chance, color=style.GREY, lw=1, ls="--", label="chance")
        _set_axes(axes, metric)
    figure.suptitle(title)
    style.label_ends(*figure.axes)
    return figure


def _points(metric: str, split: str, lines: Lines) -> list[tuple[float, float, float]]:
    """Returns epoch, value and deviation over seeds for each line that has the metric.

    Args:
      metric: name of the metric.
      split: name of the split.
      lines: lines of metrics.jsonl.
    """
    return [
        (float(line["epoch"]), float(line[metric]), float(line.get(f"{metric}_std", 0.0)))
        for line in lines
        if line["split"] == split and line.get(metric) is not None
    ]


def _plot_metric(axes: Axes, metric: str, epochs: Lines) -> None:
    """Plots the `metric` of training and validation, from the lines at the end of `epochs`, into `axes`."""
    for split in ("train", "validation"):
        if points := _points(metric, split, epochs):
            epoch, value, deviation = np.array(points).T
            bars = deviation if deviation.any() else None
            axes.errorbar(epoch, value, bars, marker="o", label=split)


def _plot_test(axes: Axes, metric: str, lines: Lines) -> None:
    """Plots the `metric` of the test, from all `lines`, into `axes`."""
    for epoch, value, _ in _points(metric, "test", lines):
        shown = f"{100 * value:.2f} %" if metric == "accuracy" else f"{value:.3g}"
        axes.plot(epoch, value, "k*", ms=8, label=f"test, {shown}")


def _mark_best(axes: Axes, metric: str, epochs: Lines) -> None:
    """Marks the epoch with the best `metric`, from the lines at the end of `epochs`, in `axes`."""
    points = _points(metric, "validation", epochs)
    if points:
        best = monitor.best([point[:2] for point in points], metric)[0]
        axes.axvline(
            best,
            color=style.GREY,
            lw=1,
            ls=":",
        )
        axes.annotate(
            f"best epoch, {best:g}",
            (best, 1),
            (0, 3),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            ha="center",
        )


def _set_axes(axes: Axes, metric: str) -> None:
    axes.margins(x=0.05, y=0.1)
    axes.autoscale_view()
    low, high = axes.get_ylim()
    if metric == "accuracy" or metric.endswith("loss"):
        lack = max(0.0, NARROWEST - (high - low))
        low, high = max(low - lack / 2, 0.0), high + lack / 2
    if metric == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        high = min(high, 1.02)
    axes.set_ylim(low, high)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.set(xlabel="epoch", ylabel=metric.replace("_", " "))
