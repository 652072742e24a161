"""Compares cells that were trained again with the published ones.

    python -m evidence.suite.train --tier=skills --only=sort-identity --results=build/again --runs=build/runs
    python -m evidence.report.repeat --again=build/again

Two trainings of a cell are compared in the metrics of every epoch and of the test, in the loss during
pre-training, and in the correctness of each test answer if the cell has it. Times and memory are not
compared. Each cell gets a row in results/evidence/repeated.json, in which the rows of other cells stay.
"""

import json
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from absl import flags

from evidence.suite.ledger import Finding, Ledger, score, scored, unpack
from fourier_attn import command, paths, provenance

FILE = "repeated.json"
COMPARED = ("self_pretrained", "curve", "epochs", "test", "extra_evals")
SKIPPED = ("seconds", "examples_per_s", "memory_gib", "epoch", "examples", "parameters")  # no metrics
FACTS = ("commit", "date", "hardware", "versions")


def define_flags() -> None:
    flags.DEFINE_string("again", None, "directory of the results of the second trainings", required=True)
    flags.DEFINE_string("results", "results/evidence", "directory of the published results")


def main() -> None:
    """Compares all cells of --again with the published ones. Raises: ValueError for an unpublished cell."""
    options = flags.FLAGS
    published, again = (Ledger(paths.given(each), by_task=True) for each in (options.results, options.again))
    if unusable := published.aside | again.aside:
        path, why = next(iter(unusable.items()))
        raise ValueError(f"{path} {why}; train this cell again, or move the file away")
    if not again.findings:
        raise ValueError(f"again={options.again} has no finished cells; train some with --results there")
    if missing := sorted(again.findings.keys() - published.findings.keys()):
        raise ValueError(f"results={options.results} has no cell {missing[0]}; publish it, or move it away")
    out = published.directory / FILE
    known = json.loads(out.read_text())["rows"] if out.exists() else []
    rows = {row["cell"]: row for row in known}
    for name, second in again.findings.items():
        if second["sha256"] == published.findings[name]["sha256"]:
            raise ValueError(f"again={options.again} has the published file of {name}; train this cell again")
        rows[name] = row = compare(published.findings[name], second)
        different = [f"{row[f'{kind}_different']} of {row[kind]} {kind}" for kind in ("metrics", "answers")]
        print(f"{name}: {' and '.join(different)} differ")
    provenance.write(out, {**provenance.record(), "rows": [rows[name] for name in sorted(rows)]})
    print(f"written to {out}")


def compare(first: Finding, second: Finding) -> dict[str, Any]:
    """Compares two trainings of a cell.

    Args:
      first, second: the findings.
    Returns: how many metrics and answers were compared, how many differ, and the scores and origins of
      both trainings.
    Raises: ValueError if the two trainings have different numbers of test answers.
    """
    ours, theirs = (dict(_values(each)) for each in (first, second))
    names = sorted(ours.keys() | theirs.keys())
    right = [unpack(each["right"]) if each["right"] else None for each in (first, second)]
    counts = [None if each is None else len(each) for each in right]
    if counts[0] != counts[1]:
        raise ValueError(
            f"{first['cell']} has {counts[0]} test answers and again {counts[1]}; use the same data"
        )
    return {
        "cell": first["cell"],
        "tier": first["tier"],
        "metric": scored(first),
        "metrics": len(names),
        "metrics_different": sum(ours.get(name) != theirs.get(name) for name in names),
        "answers": counts[0] or 0,
        "answers_different": int(np.sum(right[0] != right[1])) if counts[0] else 0,
        "first": _side(first),
        "second": _side(second),
    }


def _side(finding: Finding) -> dict[str, Any]:
    """Returns the score of a training, None for a failure, and its origin."""
    value = score(finding)
    return {"score": None if math.isnan(value) else value} | {key: finding[key] for key in FACTS}


def _values(finding: Finding) -> Iterator[tuple[str, Any]]:
    """Yields the values that two trainings must have in common, with their places in the finding."""
    left = [(name, finding.get(name)) for name in COMPARED]
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{name}.{key}", each) for key, each in value.items() if key not in SKIPPED]
        elif isinstance(value, list):
            left += [(f"{name}.{i}", each) for i, each in enumerate(value)]
        elif value is not None or name not in COMPARED:
            yield name, value


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
