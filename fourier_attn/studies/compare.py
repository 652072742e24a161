"""Compares runs: python -m fourier_attn.studies.compare runs/*

The command prints a table with the options in which the runs differ, the best validation metric and the test
metric. The best run is first. A run with several seeds has their mean and standard deviation (SD). If runs
differ only in their seeds, a second table shows their mean and SD. Unfinished runs are included, and
directories without a run are skipped. --out=NAME writes the tables to NAME.csv and NAME-means.csv, and the
validation curves to NAME.png. Runs are named by the shortest unique end of their path.
"""

import csv
import io
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from absl import flags
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fourier_attn import atomic, command, paths, style
from fourier_attn.columns import aligned
from fourier_attn.studies.runs import labels
from fourier_attn.train.metrics import over_runs
from fourier_attn.train.monitor import sign
from fourier_attn.train.summary import Summary, differing, summary

FACTS = ("validation", "validation_sd", "epoch", "test", "test_sd", "seconds", "parameters", "state")
DEVIATIONS = ("validation_sd", "test_sd")  # known of runs with several seeds
SEEDS = ("seed", "data.split_seed")


def define_flags() -> None:
    flags.DEFINE_string("out", None, "write the table and the figure to OUT.csv and OUT.png")


def main(*directories: str) -> None:
    if not directories:
        raise ValueError("no directories are given; name some, like runs/*")
    out = paths.stem(flags.FLAGS.out, "--out") if flags.FLAGS.out else None
    trained = _trained(directories)
    named = zip(trained, labels(trained), strict=True)
    runs = ordered([replace(summary(directory), run=name) for directory, name in named])
    for attribute in (lambda run: str(run.metric), lambda run: str(run.knobs.get("data.task"))):
        if len(kinds := {attribute(run) for run in runs}) > 1:
            raise ValueError(
                f"the runs have {' and '.join(sorted(kinds))}; compare runs on one task and train.monitor"
            )
    if len({run.rows.get("test") for run in runs if run.rows}) > 1:
        print("note: the runs were tested on different rows, see data.* in config.json", file=sys.stderr)
    rows = table(runs)
    print("\n".join(aligned(rows)))
    averages = mean_table(runs)
    if averages:
        print("\n".join(("", *aligned(averages))))
    if out:
        atomic.make_folder(out.parent)
        tables = {"": rows} | ({"-means": averages} if averages else {})
        for suffix, cells in tables.items():
            written = io.StringIO(newline="")
            csv.writer(written).writerows(cells)
            atomic.write(out.with_name(f"{out.name}{suffix}.csv"), written.getvalue())
        style.save(plot(runs), out.with_name(f"{out.name}.png"))
        print(f"written to {out}.csv{f', {out.name}-means.csv' if averages else ''} and {out.name}.png")


def _trained(directories: Sequence[str]) -> list[Path]:
    """Returns the directories that contain a run.

    Raises: ValueError for a directory that does not exist, and if none contains a run.
    """
    given = dict.fromkeys(paths.given(name).resolve() for name in directories)
    if absent := [directory for directory in given if not directory.exists()]:
        raise ValueError(f"{absent[0]} does not exist; name directories of runs")
    trained = [directory for directory in given if (directory / "config.json").exists()]
    if not trained:
        raise ValueError(f"no run found in {', '.join(directories[:3])} (no config.json); train one first")
    return trained


def ordered(runs: Sequence[Summary]) -> list[Summary]:
    """Sorts runs by validation, the best first; those without one are last."""
    return sorted(runs, key=lambda run: (run.validation is None, -sign(run.metric) * (run.validation or 0.0)))


def table(runs: Sequence[Summary]) -> list[list[str]]:
    """Returns the cells of the table, the header first; unknown values are empty."""
    knobs, metric = differing(runs), runs[0].metric
    heads = {"validation": f"validation {metric}", "test": f"test {metric}"}
    heads |= {"validation_sd": "its SD", "test_sd": "SD of test"}
    known = [name for name in FACTS if name not in DEVIATIONS or any(getattr(run, name) for run in runs)]
    rows = [["run", *(heads.get(name, name) for name in known), *knobs]]
    for run in runs:
        facts = [getattr(run, name) for name in known]
        settings = ["" if name not in run.knobs else str(run.knobs[name]) for name in knobs]
        rows.append([run.run, *map(shown, facts), *settings])
    return rows


def shown(value: float | int | str | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.10g}"


def grouped(runs: Sequence[Summary]) -> list[tuple[str, list[Summary]]]:
    """Groups finished runs that differ only in their seeds, under the options that distinguish the groups.

    Single runs, unfinished runs and repeated runs form groups under their own names.
    """
    names = [name for name in differing(runs) if name not in SEEDS]
    groups: dict[tuple[str, ...], list[Summary]] = {}
    for run in runs:
        values = tuple(str(run.knobs.get(name, "")) for name in names)
        seeds = [[other.knobs.get(seed) for seed in SEEDS] for other in groups.get(values, ())]
        alone = run.state != "done" or not run.curve or [run.knobs.get(seed) for seed in SEEDS] in seeds
        groups.setdefault((*values, run.run) if alone else values, []).append(run)

    mixers = [group[0].knobs.get("model.mixer.name") for group in groups.values()]
    shown_names = ["model.mixer.name"] if len(set(mixers)) == len(groups) > 1 else names

    def label(values: tuple[str, ...], group: list[Summary]) -> str:
        if len(group) == 1:
            return group[0].run
        known = [f"{n}={v}" for n, v in zip(names, values, strict=False) if v and n in shown_names]
        return f"{', '.join(known) or 'mean'} ({len(group)} seeds)"

    return [(label(values, group), group) for values, group in groups.items()]


def mean_table(runs: Sequence[Summary]) -> list[list[str]]:
    """Returns the cells of the means over seeds, the best first; [] if all groups have a single run."""
    groups = [group for _, group in grouped(runs) if len(group) > 1]
    names, metric = [name for name in differing(runs) if name not in SEEDS], runs[0].metric
    if not groups:
        return []
    rows = [["runs", f"mean validation {metric}", "SD", f"mean test {metric}", "SD", *names]]
    for group in sorted(groups, key=_mean_validation, reverse=True):
        scores = [over_runs([getattr(run, name) for run in group]) for name in ("validation", "test")]
        settings = [str(group[0].knobs.get(name, "")) for name in names]
        rows.append([str(len(group)), *(shown(each) for pair in scores for each in pair), *settings])
    return rows


def _mean_validation(group: Sequence[Summary]) -> float:
    """Returns the mean score, the higher the better."""
    mean, _ = over_runs([run.validation for run in group])
    return -math.inf if mean is None else sign(group[0].metric) * mean


@style.styled()
def plot(runs: Sequence[Summary]) -> Figure:
    """Plots the validation metric of each run over epochs; stars are the test metric of the best weights.

    Runs that differ only in their seeds have one line, their mean, with a band of one SD on either side.
    """
    figure = style.figure(height=4.0)
    axes = figure.subplots()
    colours = len(style.COLOURS)
    for i, (label, group) in enumerate(grouped(runs)):
        curve, low, high = mean_curve(group)
        if not curve:
            continue
        dashes = ("-", "--", ":")[i // colours % 3]
        (line,) = axes.plot(*zip(*curve, strict=True), dashes, marker="o", label=label)
        if len(group) > 1:
            axes.fill_between([x for x, _ in curve], low, high, color=line.get_color(), alpha=0.15, lw=0)
        test, _ = over_runs([run.test for run in group])
        if test is not None:
            axes.plot([curve[-1][0]], [test], "*", markersize=8, color=line.get_color())
    axes.set(xlabel="epoch", ylabel=f"validation {runs[0].metric} (stars: test)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.label_ends(axes)
    return figure


def mean_curve(
    group: Sequence[Summary],
) -> tuple[list[tuple[float, float]], np.ndarray, np.ndarray]:
    """Returns the mean of the runs' curves over the epochs that all of them have, and it -/+ one SD."""
    length = min(len(run.curve) for run in group)
    values = np.array([[value for _, value in run.curve[:length]] for run in group])
    mean = values.mean(axis=0)
    spread = values.std(axis=0, ddof=1) if len(group) > 1 else np.zeros(length)
    epochs = [epoch for epoch, _ in group[0].curve[:length]]
    return list(zip(epochs, mean.tolist(), strict=True)), mean - spread, mean + spread


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main, arguments=True))
