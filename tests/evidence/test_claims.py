"""Claims of the sources: verdicts follow from results by a fixed rule, and each comparison is a claim."""

import base64
import json
import re
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
from agreement import page
from conftest import ROOT

from evidence.pages import claims
from evidence.pages.claim_list import CLAIMS, claim_table, judged
from evidence.pages.markdown import Results, significant
from evidence.pages.optics_values import electronic_share, free_engine_speed
from evidence.report.comparisons import COMPARISONS
from fourier_attn.optics import plan, preset


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


def test_one_engine_can_support_a_claim_but_not_refute_it(results: Results) -> None:
    rows = results.document("studies/pareto-circular")["rows"]
    assert claims.joules_of_circular(results).verdict == claims.UNDECIDED

    def scaled(factor: float) -> str:
        changed = [
            row | {"joules": {corner: factor * value for corner, value in row["joules"].items()}}
            if row["part"] == "judged"
            else row
            for row in rows
        ]
        return claims.joules_of_circular(Changed("studies/pareto-circular", changed)).verdict

    assert scaled(1e-8) == claims.SUPPORTED
    assert scaled(1e3) == claims.UNDECIDED


def test_no_preset_is_100_times_as_efficient_as_an_a100(results: Results) -> None:
    document = results.document("studies/speedup-fnet")
    card = next(row["joules"]["high"] for row in document["rows"] if row.get("name") == "A100")
    found = [row["energy_j"] for row in document["rows"] if row["part"] == "preset" and "energy_j" in row]
    assert len(found) == 4
    assert min(energy["low"]["total"] / document["batch"] for energy in found) > card / 100
    assert "Claim 20 is false on every preset whose energy can be computed." in page("docs/claims.md")
    better = [
        row | {"energy_j": {corner: {"total": 1e-9} for corner in row["energy_j"]}}
        if row.get("preset") == "chip_11x11_4bit" and "energy_j" in row
        else row
        for row in document["rows"]
    ]
    judged = claims.joules_against_gpu(Changed("studies/speedup-fnet", better))
    assert judged.verdict == claims.SUPPORTED  # by another engine than that of the text


def test_even_a_free_engine_cannot_show_the_claimed_speed_up_here(results: Results) -> None:
    document = results.document("studies/speedup-fnet")["rows"]
    inference = next(row for row in document if row["part"] == "measured" and row["mode"] == "inference")
    free = inference["step"] / (inference["step"] - inference["transform"])
    assert free_engine_speed(results) == pytest.approx(free)
    assert free < 1.4
    judged = claims.gain_of_light(results)
    assert judged.verdict == claims.UNTESTED
    with_chip = "on a CPU 1.03 times (0.91 to 1.11) with `chip_11x11`"
    assert (
        judged.result == f"not measured on a GPU; {with_chip}, and at most {free:.2f} times with any engine"
    )
    slow = [row | {"transform": 0.3 * row["step"]} if row["part"] == "measured" else row for row in document]
    judged = claims.gain_of_light(Changed("studies/speedup-fnet", slow))
    assert judged == (claims.REFUTED, with_chip)


def test_digital_work_takes_most_of_the_energy_on_the_chip(results: Results) -> None:
    rows = results.document("studies/speedup-fnet")["rows"]
    chip = next(row["energy_j"] for row in rows if row.get("preset") == "chip_11x11" and "energy_j" in row)
    share = chip["typical"]["digital"] / chip["typical"]["total"]
    assert electronic_share(results) == share > 0.5
    said = "this work takes most of the engine's energy, for example <!-- value: electronic-share"
    assert said in page("docs/evidence.md")


def test_verdicts_are_counted_alike_on_all_pages() -> None:
    rows = re.findall(r"\| \d+ \| [^|]+ \| [^|]+ \| ([a-z ]+) \|", page("docs/claims.md"))
    counts = Counter(rows)
    *most, last = (f"{counts[verdict]} {verdict}" for verdict in claims.VERDICTS)
    assert len(rows) == len(CLAIMS)
    for name in ("claims", "evidence"):
        assert f"{', '.join(most)} and {last}<!-- /value -->" in page(f"docs/{name}.md")


def test_growth_is_measured_over_the_range_that_the_page_states(results: Results) -> None:
    said = "if the exponent between 1,024 and 8,192 tokens differs from the claimed one by less than 0.25."
    assert said in page("docs/claims.md")
    rows = results.document("benchmarks/growth-cpu")["rows"]
    judges = [claim.judge for claim in CLAIMS if isinstance(claim.judge, partial)]
    growing = [judge for judge in judges if judge.func is claims.growing]
    assert len(growing) == 4
    for judge in growing:
        mixers, of, exponent = (judge.keywords[name] for name in ("mixers", "of", "exponent"))
        found = judge(results)
        near = []
        for width, mixer in mixers.items():
            at = {row["t"]: row[of] for row in rows if row["mixer"] == mixer}
            power = np.log2(at[8192] / at[1024]) / 3
            assert f"{power:.2f} (d = {width})" in found.result
            near.append(abs(power - exponent) < 0.25)
        assert (found.verdict == claims.SUPPORTED) == all(near)
        assert (found.verdict == claims.REFUTED) == (not any(near))


def test_widths_that_disagree_leave_the_growth_undecided(results: Results) -> None:
    """Fourier mixing grows more slowly in a narrow network than the claim says."""
    (judge,) = (claim.judge for claim in CLAIMS if claim.text.startswith("Fourier mixing takes time"))
    assert judge(results).verdict == claims.UNDECIDED


def test_initial_weights_cannot_contradict_a_low_rank(results: Results) -> None:
    assert claims.rank(results).verdict == claims.UNDECIDED
    rows = [row | {"rank": row["rows"] // 4} for row in results.document("studies/matrices")["rows"]]
    assert claims.rank(Changed("studies/matrices", rows)).verdict == claims.SUPPORTED


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


def test_passes_of_a_large_input_are_those_of_its_plan(results: Results) -> None:
    said = claims.passes(results)
    size = re.search(r"([\d,]+) for (\d+) x (\d+)$", said.result)
    assert size
    planned = plan("dft", (int(size[2]), int(size[3])), preset("chip_11x11"), prefer="passes")
    assert size[1] == f"{planned.passes:,}"
    assert said.verdict == claims.REFUTED
