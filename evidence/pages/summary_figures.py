"""Plots the small figures of the results page: time over tokens, and joules of processors and engines."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from evidence.pages.optics_values import cheapest_engine
from fourier_attn import style
from fourier_attn.studies.engine import frontier, robustness_sweep

MIXERS = ("attention", "circular", "attention, 8 heads of 16", "lambda, context 3", "fourier")
ENGINES = {  # study of accuracy and energy: network, and the pixels of its engine
    "pareto-fnet": ("FNet", "8 x 8"),
    "pareto-circular": ("circular attention", "5 x 5"),
}
RECALL_ON_ENGINES = {  # studies of recall on engines: network and engine
    "robustness-recall-circular": "circular attention on chip_11x11",
    "robustness-recall-circular-3x3": "circular attention, 3 x 3 kernels, on demonstrator_5x5",
    "robustness-recall-hybrid": "long convolution on chip_11x11, exact attention",
}


@style.styled()
def time_over_tokens(document: dict[str, Any]) -> Figure:
    """Plots the time of some mixers over the number of tokens.

    Args:
      document: the file of `benchmarks.growth`.
    """
    figure = style.figure(height=2.6)
    axes = figure.subplots()
    for mixer, marker in zip(MIXERS, style.MARKERS, strict=False):
        rows = [row for row in document["rows"] if row["mixer"] == mixer]
        axes.plot([row["t"] for row in rows], [row["ms"] for row in rows], marker=marker, label=mixer)
    tokens = sorted({row["t"] for row in document["rows"]})
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="time, ms")
    axes.set_xticks(tokens, [f"{count:,}" for count in tokens])
    axes.minorticks_off()
    style.label_ends(axes)
    return figure


@style.styled()
def joules(documents: Mapping[str, dict[str, Any]]) -> Figure:
    """Plots the energy of an example's transforms on the processor and on the cheapest accurate engine.

    Args:
      documents: the files of the studies in `ENGINES`.
    """
    lines = []
    for name, (network, pixels) in ENGINES.items():
        rows = documents[name]["rows"]
        [processor] = frontier.part(rows, "electronic")
        lines.append((f"{network}, processor", processor, style.VERMILION, "s"))
        lines.append(
            (f"{network}, emulated engine of {pixels} pixels", cheapest_engine(rows), style.BLUE, "o")
        )
    figure = style.figure(height=0.3 * len(lines) + 0.7)
    axes = figure.subplots()
    for place, (_, row, colour, marker) in enumerate(lines):
        low, typical, high = (row["joules"][corner] for corner in ("low", "typical", "high"))
        axes.errorbar(typical, place, xerr=[[typical - low], [high - typical]], fmt=marker, color=colour)
    labels = [f"{label} ({100 * row['accuracy']:.1f} %)" for label, row, *_ in lines]
    axes.set(yticks=range(len(lines)), yticklabels=labels, ylim=(len(lines) - 0.5, -0.5))
    axes.set(xscale="log", xlabel="J per review, typical, and low to high (in brackets: test accuracy)")
    return figure


@style.styled()
def recall_over_bits(documents: Mapping[str, dict[str, Any]]) -> Figure:
    """Plots the accuracy of recall over the bits of the converters, with the noise of each engine.

    Args:
      documents: the files of the studies in `RECALL_ON_ENGINES`.
    """
    figure = style.figure(height=2.4)
    axes = figure.subplots()
    swept = {name: [row for row in documents[name]["rows"] if row.get("noise") == 1.0] for name in documents}
    bits = sorted({row["bits"] for rows in swept.values() for row in rows})
    for (name, label), marker in zip(RECALL_ON_ENGINES.items(), style.MARKERS, strict=False):
        _, [accuracy] = robustness_sweep.percentages(swept[name], swept[name][0]["run"], bits, [1.0])
        axes.plot(bits, accuracy.mean(axis=1), marker=marker, label=label)
    axes.set(xlabel="bits of all converters", ylabel="test accuracy, %", xticks=bits, ylim=(0, 103))
    axes.legend(loc="lower right")
    return figure
