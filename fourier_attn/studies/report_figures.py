"""The figures of the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fourier_attn.studies import statistics
from fourier_attn.studies.bands import draw_band
from fourier_attn.studies.comparisons import MARGIN, Verdict
from fourier_attn.studies.ledger import Finding, interval, score

HOUR = 3600.0
Groups = Mapping[str, Sequence[Finding]]


def curves(groups: Groups, directory: Path, tier: str) -> str:
    """Validation accuracy over epochs, with bands over seeds; returns the file's name."""
    figure = Figure((8, 5), layout="constrained")
    axes = figure.subplots()
    lines, marks = ("-", "--", ":"), "os^"
    for i, (name, findings) in enumerate(groups.items()):
        length = min(len(found["validation"]) for found in findings)
        epochs = [float(entry["epoch"]) for entry in findings[0]["epochs"][:length]]
        values = [[found["validation"][epoch] for found in findings] for epoch in range(length)]
        style = {"linestyle": lines[i // 10 % 3], "marker": marks[i // 10 % 3]}
        draw_band(axes, epochs, values, label=f"{name} ({len(findings)})", **style)
    axes.set(xlabel="epoch", ylabel="validation accuracy, %")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5), title="model (seeds)")
    axes.grid(alpha=0.3)
    return save(figure, directory, f"curves-{tier}.png")


def costs(groups: Groups, directory: Path, tier: str) -> str:
    """Test accuracy over core-hours, and over parameters, with 95 % intervals."""
    figure = Figure((11, 4.5), layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    for axes, label in zip(both, ("core-hours of a seed", "parameters"), strict=True):
        for i, (name, findings) in enumerate(groups.items()):
            low, high = interval(findings)
            place = np.mean([found["cpu_seconds"] or np.nan for found in findings]) / HOUR
            place = findings[0]["parameters"] if label == "parameters" else place
            mean = 100 * np.mean([score(found) for found in findings])
            bars = [[mean - 100 * low], [100 * high - mean]]
            color = f"C{i % 10}"
            axes.errorbar(
                [place], [mean], bars, fmt="o" if i < 10 else "s", capsize=3, label=name, color=color
            )
        axes.set(xlabel=label, xscale="log")
        axes.grid(alpha=0.3)
    both[0].set_ylabel("test accuracy, %")
    both[1].legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return save(figure, directory, f"costs-{tier}.png")


def forest(verdicts: Sequence[Verdict], directory: Path, tier: str) -> str:
    """Each comparison's difference with its interval, and the bound that its claim needs to stay above."""
    figure = Figure((8, 0.5 * len(verdicts) + 1.5), layout="constrained")
    axes = figure.subplots()
    for row, v in enumerate(verdicts):
        mean, low, high = (100 * x for x in (v.difference.mean, v.difference.low, v.difference.high))
        axes.errorbar([mean], [row], xerr=[[mean - low], [high - mean]], fmt="o", capsize=3, color="C0")
        axes.plot([100 * v.comparison.bound] * 2, [row - 0.3, row + 0.3], color="C3", linewidth=2)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set_yticks(range(len(verdicts)), [f"{v.comparison.name}: {v.words}" for v in verdicts])
    axes.invert_yaxis()
    axes.set_xlabel(f"difference of test accuracy, points (red: the bound; margin {100 * MARGIN:g} point)")
    return save(figure, directory, f"forest-{tier}.png")


def expected(groups: Groups, directory: Path) -> str:
    """The best validation accuracy to be expected after some hours of trials, for each mixer."""
    figure = Figure((6, 4), layout="constrained")
    axes = figure.subplots()
    trials: dict[str, list[Finding]] = {}
    for name, findings in groups.items():
        trials.setdefault(name.partition("-rate-")[0], []).extend(findings)
    for name, findings in trials.items():
        best = statistics.expected_best([max(found["validation"]) for found in findings])
        cost = np.mean([found["cpu_seconds"] or np.nan for found in findings]) / HOUR
        axes.plot(cost * np.arange(1, len(best) + 1), 100 * best, "o-", label=f"{name} ({len(best)} trials)")
    axes.set(xlabel="core-hours of trials", ylabel="expected best validation accuracy, %")
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    return save(figure, directory, "expected-best.png")


def save(figure: Figure, directory: Path, name: str) -> str:
    figure.savefig(directory / name, dpi=110)
    return name
