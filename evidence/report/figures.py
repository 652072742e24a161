"""Plots the figures of the report."""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from evidence.report.comparisons import MARGIN, Verdict
from evidence.suite import statistics
from evidence.suite.ledger import (
    NAMES,
    Finding,
    best,
    core_hours,
    interval,
    least_core_hours,
    number,
    score,
    scored,
    validation,
    validation_examples,
    without_failures,
)
from fourier_attn import style
from fourier_attn.studies.intervals import plot_band

ACROSS = 4  # panels of curves
Groups = Mapping[str, Sequence[Finding]]


@style.styled()
def curves(groups: Groups) -> Figure:
    """Plots validation over epochs with bands over seeds, each model in a panel, the others in grey.

    What is seen is where the seeds are; wider bands are cut.
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
        plot_band(axes, epochs, values, color=style.BLUE, marker="o")
        axes.set_title(textwrap.fill(f"{name} ({len(groups[name])})", 24), fontsize=style.SMALL)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    every = [100 * value for _, values in by_model.values() for each in values for value in each]
    panels[0].set_ylim(*limits(every))  # of all, which share it
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    for axes in panels[max(len(groups) - across, 0) : len(groups)]:
        axes.xaxis.set_tick_params(labelbottom=True)
    figure.supxlabel("epoch", fontsize=style.SMALL + 1)
    metrics = {findings[0]["metric"] for findings in groups.values()}
    metric = metrics.pop() if len(metrics) == 1 else "score"
    figure.supylabel(f"validation {NAMES.get(metric, metric)}, %", fontsize=style.SMALL + 1)
    return figure


def limits(values: Sequence[float]) -> tuple[float, float]:
    """Returns the limits of an axis in percent that shows all values; failures count as missing."""
    kept = [value for value in values if not math.isnan(value)] or [0.0, 100.0]
    low, high = min(kept), max(kept)
    room = max(0.15 * (high - low), 0.5)
    return max(low - room, 0.0), min(high + room, 100.0)


@style.styled()
def pairs(groups: Groups, couples: Sequence[tuple[str, str]]) -> Figure:
    """Plots accuracy over epochs of two models in a panel: validation with bands over seeds, training dashed.

    What is seen is where the seeds are; wider bands are cut.
    """
    across = min(3, len(couples))
    lines = -(-len(couples) // across)
    figure = style.figure((style.COLUMN, style.COLUMN * 1.6, style.PAGE)[across - 1], 1.8 * lines + 0.2)
    panels = figure.subplots(lines, across, squeeze=False).ravel()
    for axes, couple in zip(panels, couples, strict=False):
        every = []
        for name, color, marker in zip(couple, style.COLOURS, style.MARKERS, strict=False):
            epochs, values = validation(groups[name])
            trained = training(groups[name])[: len(epochs)]
            label = f"{name} ({len(groups[name])})"
            plot_band(axes, epochs, values, color=color, marker=marker, label=label)
            axes.plot(epochs, [100 * np.mean(each) for each in trained], "--", color=color, linewidth=0.8)
            every += [100 * value for each in (*values, *trained) for value in each]
        axes.set_ylim(*limits(every))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.legend(loc="lower right")
    for axes in panels[len(couples) :]:
        axes.set_axis_off()
    figure.supxlabel("epoch; solid: validation, dashed: training", fontsize=style.SMALL + 1)
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
    """Plots the score of each model, the best on top, and over core-hours, parameters and joules.

    The first panel has the score of each seed, small, their mean, and its 95 % interval, with an arrow if it
    extends beyond all seeds. In the other panels models are numbered.

    Args:
      joules: energy of an example, of models on engines.
    """
    seeds = {name: [100 * score(finding) for finding in findings] for name, findings in groups.items()}
    order = sorted(groups, key=lambda name: np.mean(without_failures(seeds[name]) or [-math.inf]))
    places = {
        "core-hours of a seed, at least": {name: least_core_hours(groups[name]) for name in order},
        "parameters, millions": {name: groups[name][0]["parameters"] / 1e6 for name in order},
        "engine, J an example": joules,
    }
    shown = {label: values for label, values in places.items() if any(values.values())}
    figure = style.figure(height=max(0.2 * len(order) + 0.7, 2.2))
    scores, *over = figure.subplots(1, 1 + len(shown), width_ratios=[1.2, *[1] * len(shown)])
    ends = limits([x for each in seeds.values() for x in each])
    mean = {name: float(np.mean(without_failures(seeds[name]) or [math.nan])) for name in order}
    for row, name in enumerate(order):
        low, high = (100 * end for end in interval(groups[name]))
        style.interval(scores, mean[name], low, high, row, ends, style.BLUE)
        scores.plot(seeds[name], [row] * len(seeds[name]), "|", color=style.VERMILION, markersize=6)
    metrics = {scored(findings[0]) for findings in groups.values()}
    title = metrics.pop() if len(metrics) == 1 else "score"
    means = limits(list(mean.values()))
    intervals = ": seeds, 95 %" if any(len(each) > 1 for each in seeds.values()) else ""
    scores.set(xlabel=f"{title}, %{intervals}", xlim=ends, ylim=(-0.5, len(order) - 0.5))
    scores.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    scores.set_yticks(range(len(order)), [f"{name}  {len(order) - row}" for row, name in enumerate(order)])
    for axes, label in zip(over, shown, strict=True):
        axes.set(xlabel=label, ylim=means)
        if label.startswith("engine"):
            axes.set_xscale("log")
            axes.margins(x=0.2)
        else:
            axes.set_xlim(0, 1.1 * max(value for value in shown[label].values() if value))
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    over[0].set_ylabel(f"{title}, %")
    for axes, values in zip(over, shown.values(), strict=True):
        numbered = [(str(n), name) for n, name in enumerate(reversed(order), 1) if not math.isnan(mean[name])]
        places = {n: (value, mean[name]) for n, name in numbered if (value := values.get(name))}
        style.number_points(axes, places, style.BLUE)
    return figure


@style.styled()
def forest(verdicts: Sequence[Verdict]) -> Figure:
    """Plots each comparison's difference with its interval, and the bound that its claim must exceed."""
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
def expected(groups: Groups) -> Figure:
    """Plots the expected best validation accuracy of each mixer over hours of trials.

    Bars are one standard error of the validation examples, the same for all trials.
    """
    figure = style.figure(height=3.0)
    axes = figure.subplots()
    trials: dict[str, list[Finding]] = {}
    for name, findings in groups.items():
        trials.setdefault(name.partition("-rate-")[0], []).extend(findings)
    for marker, (name, findings) in zip(itertools.cycle(style.MARKERS), trials.items(), strict=False):
        likely = statistics.expected_best(without_failures([best(finding) for finding in findings]))
        spent = [taken for finding in findings if (taken := core_hours(finding))]
        cost = np.mean(spent) if spent else np.nan
        places = cost * np.arange(1, len(likely) + 1)
        error = 100 * np.sqrt(likely * (1 - likely) / validation_examples(findings[0]))
        label = f"{name} ({len(likely)} trials)"
        axes.errorbar(places, 100 * likely, error, marker=marker, elinewidth=0.6, label=label)
    axes.set(xlabel="core-hours of trials; bars: one standard error of the validation examples")
    axes.set(ylabel="expected best validation accuracy, %")
    style.label_ends(axes)
    return figure
