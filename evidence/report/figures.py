"""Plots the figures of the report."""

import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evidence.report.comparisons import MARGIN, Verdict
from evidence.report.stability import accuracies
from evidence.suite.ledger import (
    NAMES,
    Finding,
    interval,
    least_core_hours,
    number,
    score,
    scored,
    validation,
    without_failures,
)
from evidence.suite.pretraining import TRAINED
from evidence.suite.skills import NETWORKS
from fourier_attn import style
from fourier_attn.data.skills import SKILLS

ACROSS = 4  # panels of curves
Groups = Mapping[str, Sequence[Finding]]


@style.styled()
def curves(groups: Groups) -> Figure:
    """Plots validation scores over epochs: a thin line per seed and a thick one for their mean.

    Each model has a panel, in which the means of the other models are grey.

    Args:
      groups: the findings of each model, one for each seed.
    """
    across = min(ACROSS, len(groups))
    lines = -(-len(groups) // across)
    figure = style.figure(height=1.4 * lines + 0.4)
    panels = figure.subplots(lines, across, sharex=True, sharey=True, squeeze=False).ravel()
    by_model = {name: validation(findings) for name, findings in groups.items()}
    for axes, (name, (epochs, values)) in zip(panels, by_model.items(), strict=False):
        for other, (places, numbers) in by_model.items():
            if other != name:
                axes.plot(places, 100 * np.mean(numbers, axis=1), color=style.PALE, linewidth=0.6)
        plot_seeds(axes, epochs, values, style.BLUE, "o")
        axes.set_title(textwrap.fill(f"{name} ({len(groups[name])})", 24), fontsize=style.SMALL)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    every = [100 * value for _, values in by_model.values() for each in values for value in each]
    panels[0].set_ylim(*limits(every))  # all panels share it
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    for axes in panels[max(len(groups) - across, 0) : len(groups)]:
        axes.xaxis.set_tick_params(labelbottom=True)
    figure.supxlabel("epoch; thin: seeds, thick: their mean, grey: other models", fontsize=style.SMALL + 1)
    metrics = {findings[0]["metric"] for findings in groups.values()}
    metric = metrics.pop() if len(metrics) == 1 else "score"
    figure.supylabel(f"validation {NAMES.get(metric, metric)}, %", fontsize=style.SMALL + 1)
    return figure


def plot_seeds(
    axes: Axes,
    epochs: Sequence[float],
    values: Sequence[Sequence[float]],
    colour: str,
    marker: str,
    label: str | None = None,
) -> None:
    """Plots a thin line for each seed and a thick one for their mean.

    Args:
      axes: the panel.
      epochs: places on the x-axis.
      values: scores from 0 to 1 (epochs x seeds).
      colour, marker, label: of the mean.
    """
    scores = 100 * np.asarray(values, float)
    if scores.shape[1] > 1:
        axes.plot(epochs, scores, color=colour, linewidth=0.5, alpha=0.6)
    axes.plot(epochs, scores.mean(axis=1), color=colour, marker=marker, label=label)


def limits(values: Sequence[float]) -> tuple[float, float]:
    """Returns the limits of an axis in percent that shows all values; failures count as missing.

    The axis goes a little beyond 0 and 100, so that a mark at its end is whole.
    """
    kept = [value for value in values if not math.isnan(value)] or [0.0, 100.0]
    low, high = min(kept), max(kept)
    room = max(0.15 * (high - low), 0.5)
    beyond = 0.04 * (min(high + room, 100.0) - max(low - room, 0.0))
    return max(low - room, -beyond), min(high + room, 100.0 + beyond)


@style.styled()
def pairs(groups: Groups, couples: Sequence[tuple[str, str]]) -> Figure:
    """Plots accuracy over epochs, two models in a panel.

    Validation has a thin line per seed and a thick one for their mean. Training has a dashed line of means.

    Args:
      groups: the findings of each model, one for each seed.
      couples: the names of the two models of each panel.
    """
    across = min(3, len(couples))
    lines = -(-len(couples) // across)
    figure = style.figure((style.COLUMN, style.COLUMN * 1.6, style.PAGE)[across - 1], 1.8 * lines + 0.2)
    panels = figure.subplots(lines, across, squeeze=False).ravel()
    for axes, couple in zip(panels, couples, strict=False):
        every = []
        for name, colour, marker in zip(couple, style.COLOURS, style.MARKERS, strict=False):
            epochs, values = validation(groups[name])
            trained = training(groups[name])[: len(epochs)]
            plot_seeds(axes, epochs, values, colour, marker, f"{name} ({len(groups[name])})")
            axes.plot(epochs, [100 * np.mean(each) for each in trained], "--", color=colour, linewidth=0.8)
            every += [100 * value for each in (*values, *trained) for value in each]
        axes.set_ylim(*limits(every))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.legend(loc="lower right")
    for axes in panels[len(couples) :]:
        axes.set_axis_off()
    words = "epoch; solid: validation (thin: seeds), dashed: training"
    figure.supxlabel(words, fontsize=style.SMALL + 1)
    figure.supylabel("accuracy, %", fontsize=style.SMALL + 1)
    return figure


def training(findings: Sequence[Finding]) -> list[list[float]]:
    """Returns the metric in training of all seeds after each epoch."""
    metric, length = findings[0]["metric"], min(len(finding["epochs"]) for finding in findings)
    return [
        [number(finding["epochs"][epoch]["train"].get(metric)) for finding in findings]
        for epoch in range(length)
    ]


@style.styled()
def costs(groups: Groups, joules: Mapping[str, float]) -> Figure:
    """Plots score, core-hours, parameters and joules of each model in one row, the best model on top.

    The panel of scores has a red tick per seed, the mean, and its 95 % interval with an arrow if it is wider
    than the axis.

    Args:
      groups: the findings of each model, one for each seed.
      joules: energy of an example for models on engines.
    """
    seeds = {name: [100 * score(finding) for finding in findings] for name, findings in groups.items()}
    order = sorted(groups, key=lambda name: np.mean(without_failures(seeds[name]) or [-math.inf]))
    places = {
        "core-hours, least": {name: least_core_hours(groups[name]) for name in order},
        "parameters, millions": {name: groups[name][0]["parameters"] / 1e6 for name in order},
        "energy per example, J": joules,
    }
    shown = {label: values for label, values in places.items() if any(values.values())}
    figure = style.figure(height=max(0.2 * len(order) + 0.7, 1.6))
    ratios = [1.4, *[1] * len(shown)]
    scores, *over = figure.subplots(1, len(ratios), sharey=True, width_ratios=ratios)
    ends = limits([x for each in seeds.values() for x in each])
    mean = {name: float(np.mean(without_failures(seeds[name]) or [math.nan])) for name in order}
    for row, name in enumerate(order):
        low, high = (100 * end for end in interval(groups[name]))
        style.interval(scores, mean[name], low, high, row, ends, style.BLUE)
        scores.plot(seeds[name], [row] * len(seeds[name]), "|", color=style.VERMILION, markersize=6)
    metrics = {scored(findings[0]) for findings in groups.values()}
    title = metrics.pop() if len(metrics) == 1 else "score"
    words = "\n(mean, 95 %, seeds)" if any(len(each) > 1 for each in seeds.values()) else ""
    scores.set(xlabel=f"{title}, %{words}", xlim=ends, ylim=(-0.5, len(order) - 0.5))
    scores.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    scores.set_yticks(range(len(order)), order)
    for axes, (label, values) in zip(over, shown.items(), strict=True):
        known = {row: value for row, name in enumerate(order) if (value := values.get(name))}
        axes.set_xlabel(label)
        if label.startswith("core-hours"):
            for row in set(range(len(order))) - known.keys():
                axes.text(0, row, " unknown", color=style.GREY, va="center")
        if label.startswith("energy"):
            axes.set_xscale("log")
            axes.plot(known.values(), known.keys(), "o", color=style.BLUE)
            axes.margins(x=0.2)
        else:
            axes.hlines(known.keys(), 0, known.values(), color=style.PALE, linewidth=2)
            axes.plot(known.values(), known.keys(), "o", color=style.BLUE)
            axes.set_xlim(0, 1.1 * max(known.values()))
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    return figure


@style.styled()
def forest(verdicts: Sequence[Verdict]) -> Figure:
    """Plots the difference of each comparison with its 95 % interval, and the bound that it must exceed.

    Args:
      verdicts: the comparisons, one in each row.
    """
    figure = style.figure(height=0.3 * len(verdicts) + 0.8)
    axes = figure.subplots()
    for row, v in enumerate(verdicts):
        mean, low, high = (100 * x for x in (v.difference.mean, v.difference.low, v.difference.high))
        axes.errorbar([mean], [row], xerr=[[mean - low], [high - mean]], fmt="o", color=style.BLUE)
        bound = 100 * v.comparison.bound
        axes.plot([bound] * 2, [row - 0.3, row + 0.3], color=style.VERMILION, linewidth=2)
    axes.axvline(0, color=style.GREY, linewidth=0.8)
    axes.set_yticks(range(len(verdicts)), [f"{v.comparison.name}: {v.words}" for v in verdicts])
    axes.invert_yaxis()
    axes.set_xlabel(f"difference of test accuracy, points (red: the bound; margin {100 * MARGIN:g} point)")
    return figure


@style.styled()
def task_map(groups: Groups) -> Figure:
    """Plots the mean test accuracy of each network on each skill as a map, in percent.

    Skills on which not all networks have been trained are left out.

    Args:
      groups: the findings of each "TASK-NETWORK", one for each seed.
    """
    networks = [network for network in NETWORKS if any(name.endswith(f"-{network}") for name in groups)]
    tasks = [task for task in SKILLS if all(f"{task}-{network}" in groups for network in networks)]
    figure = style.figure(height=0.22 * len(networks) + 1.0)
    axes = figure.subplots()
    scores = [
        [[score(each) for each in groups[f"{task}-{network}"]] for task in tasks] for network in networks
    ]
    means = np.array([[100 * np.mean(seeds) for seeds in row] for row in scores])
    for (row, column), mean in np.ndenumerate(means):
        colour = "white" if mean < 60 else "black"
        axes.text(column, row, f"{mean:.0f}", ha="center", va="center", color=colour)
    axes.imshow(means, vmin=0, vmax=100, cmap=style.SEQUENTIAL, aspect="auto")
    axes.set_xticks(range(len(tasks)), [task.replace("_", "\n") for task in tasks])
    axes.set_yticks(range(len(networks)), networks)
    axes.grid(visible=False)
    axes.set_xlabel("mean test accuracy over seeds, %")
    return figure


@style.styled()
def pair_curves(groups: Groups) -> Figure:
    """Plots test accuracy over the number of pairs: a panel for each network, a thin line for each seed.

    Args:
      groups: the findings of each "PAIRS-NETWORK", one for each seed.
    """
    by_network: dict[str, dict[int, list[float]]] = {}
    for name, findings in groups.items():
        pairs, _, network = name.partition("-")
        by_network.setdefault(network, {})[int(pairs)] = [score(finding) for finding in findings]
    lines = -(-len(by_network) // ACROSS)
    figure = style.figure(height=1.4 * lines + 0.4)
    panels = figure.subplots(lines, ACROSS, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (network, scores) in zip(panels, by_network.items(), strict=False):
        counts = sorted(scores)
        seeds = min(map(len, scores.values()))
        plot_seeds(axes, counts, [scores[count][:seeds] for count in counts], style.BLUE, "o")
        axes.set_title(f"{network} ({seeds})", fontsize=style.SMALL)
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, [str(count) for count in counts])
    panels[0].set_ylim(0, 103)
    for axes in panels[len(by_network) :]:
        axes.set_axis_off()
    for axes in panels[max(len(by_network) - ACROSS, 0) : len(by_network)]:
        axes.xaxis.set_tick_params(labelbottom=True)
    figure.supxlabel("pairs; thin: seeds, thick: their mean", fontsize=style.SMALL + 1)
    figure.supylabel("test accuracy, %", fontsize=style.SMALL + 1)
    return figure


def rate_curves(groups: Groups) -> Figure:
    """Plots accuracy on masked tokens over the learning rate, with a panel for each architecture.

    Args:
      groups: the findings of each "ARCHITECTURE-rate-RATE", one for each seed.
    """
    found = {name: by_rate for name, by_rate in accuracies(groups).items() if by_rate}
    figure = style.figure(height=1.9)
    panels = figure.subplots(1, len(found), sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (name, by_rate) in zip(panels, found.items(), strict=True):
        seeds = min(map(len, by_rate.values()))
        rates = [float(rate) for rate in by_rate]
        plot_seeds(axes, rates, [values[:seeds] for values in by_rate.values()], style.BLUE, "o")
        axes.axhline(100 * TRAINED, color=style.GREY, linestyle="dashed", linewidth=0.8)
        axes.set_title(f"{name} ({seeds})", fontsize=style.SMALL)
        axes.set_xscale("log")
        axes.set_xticks(rates, [f"{1e3 * rate:g}" for rate in rates])
        axes.minorticks_off()
    panels[0].set_ylim(bottom=0)
    figure.supxlabel("learning rate, 0.001; thin: seeds, thick: their mean", fontsize=style.SMALL + 1)
    figure.supylabel("masked tokens, %", fontsize=style.SMALL + 1)
    return figure
