"""Runs side by side: python -m fourier_attn.studies.compare runs/*

A table of the knobs in which they differ, the best validation and the test, the best run first, and their
validation curves in one picture; of a run with several seeds their mean and standard deviation (SD). Finished
runs and those under way; directories without a run are left out. With --out=NAME the table is written to
NAME.csv and the picture to NAME.png. A run's name is the end of its path that no other has.
"""

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import replace

from absl import flags
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fourier_attn import atomic, command, paths, style
from fourier_attn.columns import aligned
from fourier_attn.studies.runs import labels
from fourier_attn.train.summary import Summary, differing, summary

FACTS = ("validation", "validation_sd", "epoch", "test", "test_sd", "seconds", "parameters", "state")
SEEDS = ("validation_sd", "test_sd")  # known of runs with several seeds


def define_flags() -> None:
    flags.DEFINE_string("out", None, "write the table and the picture to NAME.csv and NAME.png")


def main(*directories: str) -> None:
    if not directories:
        raise ValueError("no directories are given; name some, like runs/*")
    given = dict.fromkeys(paths.given(name).resolve() for name in directories)
    trained = [directory for directory in given if (directory / "config.json").exists()]
    if not trained:
        raise ValueError(f"no run found in {', '.join(directories[:3])} (no config.json); train one first")
    named = zip(trained, labels(trained), strict=True)
    runs = ordered([replace(summary(directory), run=name) for directory, name in named])
    for attribute in (lambda run: str(run.metric), lambda run: str(run.knobs.get("data.task"))):
        if len(kinds := {attribute(run) for run in runs}) > 1:
            raise ValueError(f"the runs have {' and '.join(sorted(kinds))}; compare runs on one task")
    if len({run.rows.get("test") for run in runs if run.rows}) > 1:
        print("note: the runs were tested on different rows, see data.* in config.json", file=sys.stderr)
    rows = table(runs)
    print("\n".join(aligned(rows)))
    if flags.FLAGS.out:
        out = paths.given(flags.FLAGS.out)
        written = io.StringIO(newline="")
        csv.writer(written).writerows(rows)
        atomic.make_folder(out.parent)
        atomic.write(out.with_name(f"{out.name}.csv"), written.getvalue())
        style.save(plot(runs), out.with_name(f"{out.name}.png"))
        print(f"written to {out}.csv and {out.name}.png")


def ordered(runs: Sequence[Summary]) -> list[Summary]:
    """Sorts runs by validation, the best first; those without one are last."""
    return sorted(runs, key=lambda run: (run.validation is None, -(run.validation or 0.0)))


def table(runs: Sequence[Summary]) -> list[list[str]]:
    """Cells of the table, the head first; what is not known is empty."""
    knobs, metric = differing(runs), runs[0].metric
    heads = {"validation": f"validation {metric}", "test": f"test {metric}"}
    heads |= {"validation_sd": "its SD", "test_sd": "SD of test"}
    known = [name for name in FACTS if name not in SEEDS or any(getattr(run, name) for run in runs)]
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


@style.styled()
def plot(runs: Sequence[Summary]) -> Figure:
    """Plots each run's metric on validation over epochs; stars: on test, with the best weights."""
    figure = style.figure(height=4.0)
    axes = figure.subplots()
    colours = len(style.COLOURS)
    for i, run in enumerate(runs):
        if not run.curve:
            continue
        dashes = ("-", "--", ":")[i // colours % 3]
        (line,) = axes.plot(*zip(*run.curve, strict=True), dashes, marker="o", label=run.run)
        if run.test is not None:
            axes.plot([run.curve[-1][0]], [run.test], "*", markersize=8, color=line.get_color())
    axes.set(xlabel="epoch", ylabel=f"validation {runs[0].metric} (stars: test)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.label_ends(axes)
    return figure


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main, arguments=True))
