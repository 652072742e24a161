"""Claims of the sources: verdicts follow from results by a fixed rule, and each comparison is a claim."""

import base64
import json
from functools import partial
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from evidence.pages import claims
from evidence.pages.claim_list import CLAIMS, claim_table, judged
from evidence.pages.markdown import Results, significant
from evidence.report.comparisons import COMPARISONS


class Changed(Results):
    """Results in which one file has other rows."""

    def __init__(self, name: str, rows: list[dict[str, Any]]):
        super().__init__(ROOT)
        self.name, self.rows = name, rows

    def document(self, name: str) -> dict[str, Any]:
        real = super().document(name)
        return real | {"rows": self.rows} if name == self.name else real


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(ROOT)


def accuracy(model: str) -> float:
    """The mean over seeds, from the packed answers and without the code of the suite."""
    rights = []
    for path in (ROOT / "results" / "evidence" / "imdb" / "cells").glob(f"1-{model}-[0-9].json"):
        packed = json.loads(path.read_text())["right"]
        bits = np.frombuffer(base64.b64decode(packed["bits"]), np.uint8)
        rights.append(np.unpackbits(bits)[: packed["examples"]].mean())
    return float(np.mean(rights))


def test_each_comparison_is_a_claim_with_its_verdict(results: Results) -> None:
    found = {claim.text: verdict for claim, verdict in judged(results)}
    asked = {
        (call.keywords["model"], call.keywords["against"]): found[claim.text].result
        for claim in CLAIMS
        if isinstance(call := claim.judge, partial) and call.func is claims.compared
    }
    assert asked.keys() == {(c.model, c.against) for c in COMPARISONS["1"]}
    for (model, against), said in asked.items():
        mean = 100 * (accuracy(model) - accuracy(against))
        assert f"{mean:+.2f} points (" in said, (model, against)


def test_a_verdict_changes_with_the_results() -> None:
    name, rows = (
        "benchmarks/encoder-depth-cpu",
        Results(ROOT).document("benchmarks/encoder-depth-cpu")["rows"],
    )
    what, size = "fnet / bert", "12 layers, d768"
    ours = next(row for row in rows if row["what"] == what and row["size"].startswith(size))
    others = [row for row in rows if row is not ours]

    def verdict(lowest: float, highest: float) -> str:
        changed = ours | {"times_faster": (lowest + highest) / 2, "lowest": lowest, "highest": highest}
        return claims.faster(Changed(name, [*others, changed]), what, size).verdict

    assert verdict(1.1, 1.4) == claims.SUPPORTED
    assert verdict(0.9, 1.4) == claims.UNDECIDED
    assert verdict(0.7, 0.9) == claims.REFUTED


def test_a_claim_with_several_parts_has_the_worst_verdict_and_all_results() -> None:
    good, open_, none = (
        claims.Judged(claims.SUPPORTED, "a"),
        claims.Judged(claims.UNDECIDED, "b"),
        claims.absent("c"),
    )
    assert claims.all_of(good, good) == claims.Judged(claims.SUPPORTED, "a; a")
    assert claims.all_of(good, open_) == claims.Judged(claims.UNDECIDED, "a; b")
    assert claims.all_of(open_, none, good) == claims.Judged(claims.UNTESTED, "b; c; a")


def test_energies_are_those_of_an_example_and_bounds_are_the_extremes(results: Results) -> None:
    document = results.document("studies/speedup-fnet")
    chip = next(r for r in document["rows"] if r.get("preset") == "chip_11x11" and r["part"] == "preset")
    card = next(r for r in document["rows"] if r.get("name") == "A100")
    each = {corner: at["total"] / 32 for corner, at in chip["energy_j"].items()}
    ends = [b / a for a in card["joules"].values() for b in each.values()]
    said = claims.joules_against_gpu(results)
    assert said.verdict == claims.REFUTED
    assert f"({significant(min(ends))} to {significant(max(ends))})" in said.result


def test_a_part_that_fails_refutes_the_whole() -> None:
    assert claims.worst([claims.SUPPORTED, claims.UNDECIDED]) == claims.UNDECIDED
    assert claims.worst([claims.UNDECIDED, claims.REFUTED]) == claims.REFUTED
    assert claims.worst([claims.UNTESTED, claims.REFUTED]) == claims.REFUTED


def test_every_claim_has_a_row(results: Results) -> None:
    lines = claim_table(results).splitlines()[2:]
    assert len(lines) == len(CLAIMS) == len({claim.text for claim in CLAIMS})
    for line, claim in zip(lines, CLAIMS, strict=True):
        assert claim.text in line
        assert any(f"| {verdict} |" in line for verdict in claims.VERDICTS)
