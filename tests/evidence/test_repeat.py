"""Cells that were trained again are compared with the published ones."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from agreement import agree, page
from conftest import ROOT, run_here

from evidence.pages.markdown import Results
from evidence.pages.repeats import REPEATED, largest_change, repeats, repeats_table
from evidence.report import repeat
from evidence.suite import ledger

CELL = ROOT / "results/evidence/listops/cells/self_pretrained_listops-identity-0.json"


def test_a_second_training_is_compared_in_all_but_its_times() -> None:
    first = ledger.read(CELL)
    second = copy.deepcopy(first) | {"seconds": 1.0, "cpu_seconds": 2.0, "commit": "other"}
    second["epochs"][0]["train"] |= {"examples_per_s": 1.0, "memory_gib": 1.0}
    second["self_pretrained"]["seconds"] = 1.0
    row = repeat.compare(first, second)
    each_epoch = 6 + 2  # the metrics of train and validation
    assert row["metrics"] == 3 + 4 * each_epoch + 2
    assert (row["metrics_different"], row["answers"], row["answers_different"]) == (0, 2000, 0)
    assert (row["metric"], row["first"]["score"], row["second"]["score"]) == ("test accuracy", 0.206, 0.206)
    assert (row["first"]["commit"], row["second"]["commit"]) == (first["commit"], "other")
    second["epochs"][1]["validation"]["loss"] += 1e-12
    del second["test"]["loss"]
    right = ledger.unpack(first["right"])
    right[:3] ^= True
    second["right"] = ledger.pack(np.array(right))
    row = repeat.compare(first, second)
    assert (row["metrics_different"], row["answers_different"]) == (2, 3)
    second["right"] = ledger.pack(right[:7])
    with pytest.raises(ValueError, match="has 2000 test answers and again 7; use the same data"):
        repeat.compare(first, second)
    second |= {"right": None, "test": {"accuracy": None}}
    with pytest.raises(ValueError, match="has 2000 test answers and again None"):
        repeat.compare(first, second)
    row = repeat.compare(second, second)
    assert (row["answers"], row["first"]["score"]) == (0, None)


def test_rows_are_added_to_the_file(tmp_path: Path) -> None:
    published = ledger.Ledger(tmp_path / "published", by_task=True)
    again = ledger.Ledger(tmp_path / "again", by_task=True)
    words = (f"--again={tmp_path}/again", f"--results={tmp_path}/published")
    code, out, err = run_here(repeat, *words)
    assert (code, out) == (2, "")
    assert err == f"error: again={tmp_path}/again has no finished cells; train some with --results there\n"
    finding = {key: value for key, value in ledger.read(CELL).items() if key != "sha256"}
    again.write(finding)
    code, _, err = run_here(repeat, *words)
    assert (code, f"has no cell {finding['cell']}" in err) == (2, True)
    published.write(finding)
    code, _, err = run_here(repeat, *words)
    assert (code, f"has the published file of {finding['cell']}; train" in err) == (2, True)
    again.path(finding["cell"]).unlink()
    again.write(finding | {"date": "2027-01-01T00:00:00Z"})
    (tmp_path / "published" / repeat.FILE).write_text('{"rows": [{"cell": "another"}]}')
    code, out, err = run_here(repeat, *words)
    assert (code, err) == (0, "")
    assert out.startswith(f"{finding['cell']}: 0 of 37 metrics and 0 of 2000 answers differ\n")
    rows = json.loads((tmp_path / "published" / repeat.FILE).read_text())["rows"]
    assert [row["cell"] for row in rows] == ["another", finding["cell"]]
    published.path(finding["cell"]).write_text("{}")
    code, _, err = run_here(repeat, *words)
    assert (code, "is not a file of a finished cell" in err) == (2, True)


def test_the_page_counts_the_cells_that_are_the_same(tmp_path: Path) -> None:
    first = ledger.read(CELL)
    (tmp_path / "results/evidence").mkdir(parents=True)
    rows = [repeat.compare(first, first) for _ in range(3)]
    rows[1] |= {"cell": "another", "tier": "skills", "answers": 0}
    rows[1] |= {"metrics_different": 2, "second": rows[1]["second"] | {"score": 0.2097}}
    rows[2] |= {"cell": "third", "answers_different": 1234}
    document = {key: first[key] for key in (*repeat.FACTS, "command")} | {"rows": rows}
    (tmp_path / "results/evidence" / repeat.FILE).write_text(json.dumps(document))
    results = Results(tmp_path)
    assert repeats(results) == "1 of 3 cells in 2 tiers"
    assert largest_change(results) == "0.37"
    lines = repeats_table(results).splitlines()
    trained = "4576a4d0f, 2026-11-29"
    same = f"| {trained} | {trained} | 2, 2 | test accuracy | 0.206"
    assert lines[2] == f"| `{first['cell']}` {same} | 0.206 | 37 (0) | 2,000 (0) |"
    assert lines[3] == f"| `another` {same} | 0.2097 | 37 (2) |  |"
    assert lines[4] == f"| `third` {same} | 0.206 | 37 (0) | 2,000 (1,234) |"


def test_sentences_on_cells_that_were_trained_again_agree_with_the_results() -> None:
    rows = Results(ROOT).document(REPEATED)["rows"]
    both = [(row["first"], row["second"]) for row in rows]
    accuracies = [row for row in rows if row["metric"] == "test accuracy"]
    change = {row["cell"]: abs(row["first"]["score"] - row["second"]["score"]) for row in accuracies}
    most = max(accuracies, key=lambda row: change[row["cell"]])
    shapes = [row for row in rows if row["tier"] == "shapes"]
    agree(
        page("docs/evidence.md"),
        {
            "With the same number of cores,": all(
                first["hardware"]["cores"] == second["hardware"]["cores"] for first, second in both
            ),
            "for a network that does not solve its task (`recall_equal`).": most["tier"] == "recall_equal"
            and most["first"]["score"] < 0.2,
            "The metrics of `shapes` differ because": all(row["metrics_different"] for row in shapes),
            'report only the kind "AMD EPYC"': {each["hardware"]["cpu"] for pair in both for each in pair}
            == {"AMD EPYC"},
        },
    )
