"""The figures of the report."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fourier_attn import style
from fourier_attn.studies import statistics
from fourier_attn.studies.bands import draw_band
from fourier_attn.studies.comparisons import MARGIN, Verdict
from fourier_attn.studies.ledger import NAMES, Finding, core_hours, interval, score, scored, validation

ACROSS = 4  # panels of curves
Groups = Mapping[str, Sequence[Finding]]


@style.styled()
def curves(groups: Groups) -> Figure:
    """The metric on validation over epochs with bands over seeds: each model in a panel, the others in grey.

    What is seen is where the seeds are; wider bands are cut.
    """
    across = min(ACROSS, len(groups))
    lines = -(-len(groups) // across)
    figure = style.figure(height=1.4 * lines + 0.4)
    panels = figure.subplots(lines, across, sharex=True, sharey=True, squeeze=False).ravel()
    found = {name: validation(findings) for name, findings in groups.items()}
    for axes, (name, (epochs, values)) in zip(panels, found.items(), strict=False):
        for other, (places, numbers) in found.items():
            if other != name:
                axes.plot(places, 100 * np.mean(numbers, axis=1), color=style.PALE, linewidth=0.6)
        draw_band(axes, epochs, values, color=style.BLUE, marker="o")
        axes.set_title(f"{name} ({len(groups[name])})", fontsize=style.SMALL)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    every = [100 * value for _, values in found.values() for each in values for value in each]
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
    """Of an axis in percent on which all values are seen."""
    low, high = min(values), max(values)
    room = max(0.15 * (high - low), 0.5)
    return max(low - room, 0.0), min(high + room, 100.0)


@style.styled()
def costs(groups: Groups) -> Figure:
    """Score, core-hours and parameters of each model, the best on top.

    The score of each seed, small, their mean, and its 95 % interval, cut where no seed is any more.
    """
    seeds = {name: [100 * score(found) for found in findings] for name, findings in groups.items()}
    order = sorted(groups, key=lambda name: float(np.mean(seeds[name])))
    figure = style.figure(height=0.2 * len(order) + 0.7)
    scores, hours, parameters = figure.subplots(1, 3, sharey=True)
    for row, name in enumerate(order):
        findings, mean = groups[name], np.mean(seeds[name])
        low, high = interval(findings)
        scores.errorbar(
            [mean], [row], xerr=[[mean - 100 * low], [100 * high - mean]], fmt="o", color=style.BLUE
        )
        scores.plot(seeds[name], [row] * len(findings), "|", color=style.VERMILION, markersize=6)
        spent = [taken for found in findings if (taken := core_hours(found))]
        hours.plot([np.mean(spent) if spent else np.nan], [row], "o", color=style.BLUE)
        parameters.plot([findings[0]["parameters"] / 1e6], [row], "o", color=style.BLUE)
    for axes in (scores, hours, parameters):
        axes.margins(x=0.1)
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    metrics = {scored(findings[0]) for findings in groups.values()}
    title = metrics.pop() if len(metrics) == 1 else "score"
    scores.set(xlabel=f"{title}, %: seeds, 95 %", xlim=limits([x for each in seeds.values() for x in each]))
    scores.set_yticks(range(len(order)), order)
    scores.set_ylim(-0.5, len(order) - 0.5)
    hours.set(xlabel="core-hours of a seed", xlim=(0, None))
    parameters.set(xlabel="parameters, millions", xlim=(0, None))
    return figure


@style.styled()
def forest(verdicts: Sequence[Verdict]) -> Figure:
    """Each comparison's difference with its interval, and the bound that its claim needs to stay above."""
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
    """The best validation accuracy to be expected after some hours of trials, for each mixer."""
    figure = style.figure(height=3.0)
    axes = figure.subplots()
    trials: dict[str, list[Finding]] = {}
    for name, findings in groups.items():
        trials.setdefault(name.partition("-rate-")[0], []).extend(findings)
    for marker, (name, findings) in zip(style.MARKERS, trials.items(), strict=False):
        best = statistics.expected_best([max(found["validation"]) for found in findings])
        spent = [taken for found in findings if (taken := core_hours(found))]
        cost = np.mean(spent) if spent else np.nan
        places = cost * np.arange(1, len(best) + 1)
        axes.plot(places, 100 * best, marker=marker, label=f"{name} ({len(best)} trials)")
    axes.set(xlabel="core-hours of trials", ylabel="expected best validation accuracy, %")
    style.label_ends(axes)
    return figure
