"""What makes the accuracies of networks differ: seeds, splits, devices; a section of the report."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fourier_attn.studies import statistics, suite
from fourier_attn.studies.ledger import Ledger, score
from fourier_attn.studies.markdown import Row, read_document, table


def components(ledger: Ledger, tier: str) -> Iterator[str]:
    """Standard deviations over seeds and splits, together and apart, and over the devices of engines."""
    if tier not in suite.APART:
        return
    model, _ = suite.APART[tier]
    every = [found for found in ledger.findings.values() if (found["tier"], found["model"]) == (tier, model)]
    kinds = {
        "seed and split together": [f for f in every if f["seed"] == f["split_seed"]],
        "seed alone (split 0)": [f for f in every if f["split_seed"] == 0],
        "split alone (seed 0)": [f for f in every if f["seed"] == 0],
    }
    lines = [
        [f"`{model}`: {kind}", *varied([[100 * score(f) for f in chosen]])]
        for kind, chosen in kinds.items()
        if len(chosen) > 1
    ]
    if not lines:
        return
    for path in sorted(ledger.directory.glob("robustness-*.json")):
        for run, values in devices(read_document(path)["rows"]):
            if run in ledger.findings and run.endswith("-engine-2"):
                lines.append([f"`{run}`: device and its noise, from 3 to 8 bit", *varied(values)])
    examples, accuracy = every[0]["test"]["examples"], np.mean([score(found) for found in every])
    error = 100 * math.sqrt(accuracy * (1 - accuracy) / examples)
    yield "\n### What varies\n"
    yield table(["what differs", "degrees of freedom", "SD of test accuracy, points", "its 95 %"], lines)
    yield f"\nOne standard error of {examples:,} test reviews, the same for all, is {error:.2f} points."
    yield "Devices were compared on 2,000 of them. So few networks do not tell one share from another.\n"


def varied(values: Sequence[Sequence[float]]) -> list[str]:
    """Degrees of freedom, the standard deviation within groups, and its 95 % interval (normal values)."""
    freedom, deviation, low, high = statistics.deviation(values)
    return [str(freedom), f"{deviation:.2f}", f"{low:.2f} to {high:.2f}"]


def devices(rows: Sequence[Row]) -> Iterator[tuple[str, list[list[float]]]]:
    """Of each run with the engine's noise: the accuracy on every device, for each number of bits; percent."""
    for run in dict.fromkeys(row["run"] for row in rows):
        mine = [row for row in rows if (row["run"], row.get("noise")) == (run, 1.0)]
        bits = sorted({row["bits"] for row in mine})
        yield run, [[100 * row["accuracy"] for row in mine if row["bits"] == each] for each in bits]
