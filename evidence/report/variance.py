"""Writes the section of the report on sources of variance: seeds, splits and devices."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from evidence.pages.markdown import Row, read_document, table
from evidence.suite import cells, statistics
from evidence.suite.ledger import Ledger, score


def components(ledger: Ledger, tier: str) -> Iterator[str]:
    """Yields standard deviations over seeds, splits and both, and over devices of engines.

    Args:
      ledger: the finished cells.
      tier: the tier of the suite.
    """
    if tier not in cells.APART:
        return
    model, _ = cells.APART[tier]
    every = [each for each in ledger.findings.values() if (each["tier"], each["model"]) == (tier, model)]
    kinds = {
        "seed and split together": [f for f in every if f["seed"] == f["split_seed"]],
        "seed alone (split 0)": [f for f in every if f["split_seed"] == 0],
        "split alone (seed 0)": [f for f in every if f["seed"] == 0],
    }
    groups = {f"`{model}`: {kind}": [100 * score(f) for f in chosen] for kind, chosen in kinds.items()}
    for path in sorted(ledger.directory.glob("robustness-*.json")):
        document = read_document(path)
        for run, values in devices(document["rows"]).items():
            if run in ledger.findings and ledger.findings[run]["model"].endswith("-engine"):
                groups[f"`{run}`: device and noise of its engine ([sweep](#{anchor(path)}))"] = values
    lines = [[what, *varied(values)] for what, values in groups.items() if len(values) > 1]
    if not every or not lines:
        return
    examples, accuracy = every[0]["test"]["examples"], np.mean([score(finding) for finding in every])
    error = 100 * math.sqrt(accuracy * (1 - accuracy) / examples)
    yield "\n### Sources of variance\n"
    yield table(["source", "degrees of freedom", "SD of test accuracy, points", "95 % of SD"], lines)
    yield f"\nAll models share one test set of {examples:,} reviews."
    yield f"Its standard error is {error:.2f} points."
    yield "The accuracy of a device is its mean over numbers of bits. There are too few networks and devices"
    yield "to separate these sources.\n"


def varied(values: Sequence[float]) -> list[str]:
    """Formats degrees of freedom, standard deviation and its 95 % interval, for normal `values`."""
    deviation, (low, high) = statistics.spread(values), statistics.spread_interval(values)
    return [str(len(values) - 1), f"{deviation:.2f}", f"{low:.2f} to {high:.2f}"]


def devices(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Returns the accuracy of every device in percent, for each run with the noise of the engine.

    The accuracy of a device is the mean over its numbers of bits.

    Args:
      rows: the rows of a sweep.
    """
    accuracies: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row.get("noise") == 1.0:
            accuracies.setdefault(row["run"], {}).setdefault(row["device"], []).append(100 * row["accuracy"])
    return {run: [float(np.mean(each)) for each in mine.values()] for run, mine in accuracies.items()}


def anchor(path: Path) -> str:
    """Returns the anchor of the report's section on the sweep in the file `path`."""
    return f"accuracy-over-bits-and-noise-{path.stem.removeprefix('robustness-')}"
