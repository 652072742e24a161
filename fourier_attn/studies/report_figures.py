"""The figures of the report."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fourier_attn import style
from fourier_attn.studies import statistics
from fourier_attn.studies.bands import draw_band
from fourier_attn.studies.comparisons import MARGIN, Verdict
from fourier_attn.studies.ledger import Finding, core_hours, interval, score

ACROSS = 4  # panels of curves
Groups = Mapping[str, Sequence[Finding]]


@style.styled()
def curves(groups: Groups) -> Figure:
    """Validation accuracy over epochs with bands over seeds: each model in a panel, the others in grey."""
    across = min(ACROSS, len(groups))
    lines = -(-len(groups) // across)
    figure = style.figure(height=1.4 * lines + 0.4)
    panels = figure.subplots(lines, across, sharex=True, sharey=True, squeeze=False).ravel()
    found = {name: _validation(findings) for name, findings in groups.items()}
    for axes, (name, (epochs, values)) in zip(panels, found.items(), strict=False):
        for other, (places, numbers) in found.items():
            if other != name:
                axes.plot(places, 100 * np.mean(numbers, axis=1), color=style.PALE, linewidth=0.6)
        draw_band(axes, epochs, values, color=style.BLUE, marker="o")
        axes.set_title(f"{name} ({len(groups[name])})", fontsize=style.SMALL)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    for axes in panels[max(len(groups) - across, 0) : len(groups)]:
        axes.xaxis.set_tick_params(labelbottom=True)
    figure.supxlabel("epoch", fontsize=style.SMALL + 1)
    figure.supylabel("validation accuracy, %", fontsize=style.SMALL + 1)
    return figure


def _validation(findings: Sequence[Finding]) -> tuple[list[float], list[list[float]]]:
    """Epochs, and the accuracies of all seeds after each."""
    length = min(len(found["validation"]) for found in findings)
    epochs = [float(entry["epoch"]) for entry in findings[0]["epochs"][:length]]
    return epochs, [[found["validation"][epoch] for found in findings] for epoch in range(length)]


@style.styled()
def costs(groups: Groups) -> Figure:
    """Test accuracy with 95 % intervals, core-hours and parameters of each model, the best on top."""
    order = sorted(groups, key=lambda name: float(np.mean([score(found) for found in groups[name]])))
    figure = style.figure(height=0.2 * len(order) + 0.7)
    accuracy, hours, parameters = figure.subplots(1, 3, sharey=True)
    for row, name in enumerate(order):
        findings = groups[name]
        low, high = interval(findings)
        mean = 100 * np.mean([score(found) for found in findings])
        bars = [[mean - 100 * low], [100 * high - mean]]
        accuracy.errorbar([mean], [row], xerr=bars, fmt="o", color=style.BLUE)
        spent = [taken for found in findings if (taken := core_hours(found))]
        hours.plot([np.mean(spent) if spent else np.nan], [row], "o", color=style.BLUE)
        parameters.plot([findings[0]["parameters"] / 1e6], [row], "o", color=style.BLUE)
    for axes in (accuracy, hours, parameters):
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    accuracy.set_yticks(range(len(order)), order)
    accuracy.set_xlabel("test accuracy, %, with 95 %")
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
