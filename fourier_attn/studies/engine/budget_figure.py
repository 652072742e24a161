"""Plots the budget of engines: power along the link, signal over noise, and the stages of a frame."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourier_attn import style
from fourier_attn.studies.engine.tornado import number

ROW = 2.6  # inches of an engine
MOST = 3  # engines in a figure
WEAK_DB = 40  # below the sum of all noise: such noise is left out


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots three panels for each of the first three engines, at typical components.

    Args:
      document: a file of results of `fourier_attn.studies.engine.budget`.
    """
    rows = [row for row in document["rows"] if row["part"] == "engine"][:MOST]
    figure = style.figure(height=ROW * len(rows) + 0.2)
    panels = figure.subplots(len(rows), 3, squeeze=False, width_ratios=(1.1, 0.9, 1.1))
    for row, (light, noise, time) in zip(rows, panels, strict=True):
        _plot_link(light, row)
        _plot_noise(noise, row["typical"])
        _plot_time(time, row["typical"])
    return figure


def _plot_link(axes: Axes, row: Mapping[str, Any]) -> None:
    """Plots the mean power after each part, from the laser at the top to a detector's electrons."""
    link = row["typical"]["link"]
    laser, *parts = link
    _label(axes, [laser[0], *(f"{name} {gain:+.1f}" for name, gain, _ in parts)])
    axes.plot([dbm for _, _, dbm in link], range(len(link)), "o-", color=style.BLUE)
    axes.set(xlabel="mean power, dBm; gains in dB")
    axes.set_title(f"{row['engine']}: light", loc="right")


def _plot_noise(axes: Axes, typical: Mapping[str, Any]) -> None:
    """Plots signal over each noise that matters."""
    ratios = typical["snr_db"]
    most = ratios["all"] + WEAK_DB
    known = {name: value for name, value in ratios.items() if value is not None and value <= most}
    _label(axes, [f"{name} {value:.1f}" for name, value in known.items()])
    colours = [style.VERMILION if name == "all" else style.SKY for name in known]
    axes.barh(range(len(known)), list(known.values()), color=colours, height=0.7)
    axes.set(xlabel="signal over noise, dB")


def _plot_time(axes: Axes, typical: Mapping[str, Any]) -> None:
    """Plots the time of each stage; the line is the period of overlapping frames."""
    stages = [stage for stage in typical["stages"] if stage["seconds"] > 0]
    period, latency = (number(typical[name], "s") for name in ("period_s", "latency_s"))
    _label(axes, [f"{stage['name']} {number(stage['seconds'], 's')}" for stage in stages])
    bound = [stage["part"] == typical["bound"] for stage in stages]
    colours = [style.VERMILION if here else style.SKY for here in bound]
    seconds = [stage["seconds"] for stage in stages]
    axes.barh(range(len(stages)), seconds, color=colours, height=0.7)
    axes.axvline(typical["period_s"], color="black", linewidth=0.8)
    axes.set(xscale="log", xlim=(min(seconds) / 3, 2 * max(*seconds, typical["period_s"])))
    axes.set(xlabel="s; line: period")
    axes.set_title(f"latency {latency}\nperiod {period}, bound by: {typical['bound']}", loc="right")


def _label(axes: Axes, names: list[str]) -> None:
    """Names the rows of a panel, the first at its top."""
    axes.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    axes.grid(False, axis="y")
