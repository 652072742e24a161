"""Plots the figures in results again from their JSON files: python -m evidence.pages.figures [--check]

Nothing is measured. With --check nothing is written, and a figure that differs from its file is an error.
"""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags
from matplotlib.figure import Figure
from PIL import Image

from benchmarks import growth
from evidence.pages import speedups, summary_figures, timings
from evidence.pages.markdown import read_document
from evidence.pages.run_names import renamed
from evidence.report import write
from evidence.suite.ledger import Ledger
from fourier_attn import atomic, command, paths, style
from fourier_attn.inference import explain
from fourier_attn.studies.engine import (
    budget_figure,
    calibrate,
    drift,
    frontier,
    photons,
    programs,
    robustness_sweep,
    tornado,
)
from fourier_attn.studies.inside import matrix_views


def plot_robustness(document: dict[str, Any]) -> Figure:
    """Plots a sweep over bits and noise with its runs named in words."""
    return robustness_sweep.plot(renamed(document))


FIGURES: dict[str, Callable[[dict[str, Any]], Figure]] = {
    "studies/budget": budget_figure.plot,
    "studies/calibrate": calibrate.plot,
    "studies/drift-reviews": drift.plot,
    "studies/explain-attention": explain.plot,
    "studies/explain-shapes": explain.plot,
    "benchmarks/growth-cpu": growth.plot,
    "studies/matrices": matrix_views.plot,
    "studies/pareto-circular": frontier.plot,
    "studies/pareto-fnet": frontier.plot,
    "studies/photons-reviews": lambda document: photons.plot(renamed(document)),
    "studies/programs": programs.plot,
    "studies/robustness-imdb": plot_robustness,
    "studies/speedup-fnet": tornado.plot,
}
LANDING = {  # panels of the landing page
    "attention": "attention",
    "circular": "circular attention",
    "lambda": "lambda layer",
    "fourier": "Fourier mixing (FNet)",
}
ROUNDING = 8  # of 255 levels, by which pixels may differ on another processor
SWEEPS = "robustness-*.json"  # files next to the folder with a report's cells


def pictures(root: Path) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yields the name of each figure in results, without its ending, and the function that plots it.

    Args:
      root: the directory that contains results/.
    Raises: ValueError (from the functions) for a file that is missing.
    """
    for name, from_document in FIGURES.items():
        yield name, partial(_plotted, from_document, root / "results" / f"{name}.json")
    for name in speedups.PLOTTED:
        yield f"benchmarks/{name}", partial(_plotted_speed, root, timings.SPEED[name])

    yield (
        "benchmarks/growth-time",
        partial(
            _plotted, summary_figures.time_over_tokens, root / "results" / "benchmarks" / "growth-cpu.json"
        ),
    )
    yield "studies/joules", partial(_plotted_several, root, summary_figures.joules, summary_figures.ENGINES)
    yield (
        "studies/robustness-recall",
        partial(_plotted_several, root, summary_figures.recall_over_bits, summary_figures.RECALL_ON_ENGINES),
    )
    four = partial(matrix_views.plot_chosen, layers=LANDING)
    yield "studies/matrices-four", partial(_plotted, four, root / "results" / "studies" / "matrices.json")
    for cells in sorted(root.glob("results/evidence/*/cells")):
        directory = cells.parent
        for name, plot in write.pictures(Ledger(directory)).items():
            yield f"evidence/{directory.name}/{Path(name).stem}", plot
        for path in sorted(directory.glob(SWEEPS)):
            yield f"evidence/{directory.name}/{path.stem}", partial(_plotted, plot_robustness, path)


def _plotted_speed(root: Path, files: Sequence[str]) -> Figure:
    """Plots the comparisons in several files of results."""
    return speedups.plot([read_document(root / "results" / f"{file}.json") for file in files])


def _plotted_several(
    root: Path, plot: Callable[[dict[str, dict[str, Any]]], Figure], names: Iterable[str]
) -> Figure:
    """Plots the files of several studies together, by their names."""
    return plot({name: read_document(root / "results" / "studies" / f"{name}.json") for name in names})


def _plotted(plot: Callable[[dict[str, Any]], Figure], path: Path) -> Figure:
    try:
        document = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read ({error}); run the command that writes it") from error
    return plot(document)


def same(a: bytes, b: bytes) -> bool:
    """Returns whether two PNG files `a` and `b` have the same pixels, up to `ROUNDING`."""
    first, second = (np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), int) for data in (a, b))
    return first.shape == second.shape and np.abs(first - second).max() <= ROUNDING


def define_flags() -> None:
    flags.DEFINE_bool("check", False, "write nothing; fail if a figure differs from its file")
    flags.DEFINE_string("root", ".", "directory that contains results/")


def main() -> None:
    root, others = paths.given(flags.FLAGS.root), []
    if not (root / "results").is_dir():
        raise ValueError(f"--root={root} has no results; pass the root of the sources")
    for name, plot in pictures(root):
        path, plotted = root / "results" / f"{name}.png", style.png(plot())
        if path.exists() and same(path.read_bytes(), plotted):
            continue
        others.append(name)
        if not flags.FLAGS.check:
            atomic.write(path, plotted)
            print(f"results/{name}.png")
    if flags.FLAGS.check and others:
        raise RuntimeError(
            f"these figures differ from their files: {', '.join(others)}; run without --check to write them"
        )


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
