"""The report of finished cells: what it states, and what it does not pass over."""

import json
from pathlib import Path

import numpy as np
import pytest
from cells import finding, written
from conftest import ROOT, run_here

from configs import imdb_small
from evidence.report import figures, variance, write
from evidence.report.comparisons import COMPARISONS
from evidence.report.glue import glue_table
from evidence.report.tables import accuracy_table
from evidence.suite import cells, ledger
from evidence.suite.ledger import Ledger
from fourier_attn import provenance, style
from fourier_attn.data import TASKS
from fourier_attn.optics import components, cost, plan, presets
from fourier_attn.studies.engine import projection
from fourier_attn.train import metrics
from fourier_attn.train.evaluate import compute_metrics, reasons, summary
from fourier_attn.train.rundir.metrics_log import Writer, read_lines


def test_every_tier_has_a_title_and_a_line_of_the_page() -> None:
    page = (ROOT / "docs" / "suite.md").read_text()
    for tier in cells.MODELS:
        assert tier in write.TITLES
        assert f"`{tier}`" in page


FOLDERS = sorted(path.parent.name for path in (ROOT / "results" / "evidence").glob("*/cells"))


@pytest.mark.parametrize("name", FOLDERS)
def test_all_results_are_of_the_configurations_of_today(name: str) -> None:
    ledger = Ledger(ROOT / "results" / "evidence" / name)
    assert ledger.findings
    assert not ledger.unlike()
    assert not ledger.aside
    assert {cells.folder(found["tier"]) for found in ledger.findings.values()} == {name}


@pytest.mark.parametrize("name", FOLDERS)
def test_reports_say_what_their_cells_do(name: str) -> None:
    directory = ROOT / "results" / "evidence" / name
    assert write.report(Ledger(directory)) == (directory / "report.md").read_text()


def test_comparisons_are_written_down() -> None:
    """The text that was committed before any test set was read says what the code compares."""
    text = (ROOT / "results" / "evidence" / "imdb" / "comparisons.md").read_text()
    assert all(f"{claim}" in text for claim in COMPARISONS["1"])


def test_a_report_names_first_what_cannot_be_used(tmp_path: Path) -> None:
    written(tmp_path)
    path = written(tmp_path, "toy-identity-0")
    path.write_text(path.read_text().replace("0.5", "0.9"))
    first, second = write.cautions(Ledger(tmp_path))
    assert first.startswith("`toy-identity-0.json` was changed after it was written")
    assert second.startswith("Tier toy is not complete")


def test_a_report_does_not_pass_over_what_is_missing(tmp_path: Path) -> None:
    code, _, error = run_here(write, f"--results={tmp_path}")
    assert (code, "has no finished cell" in error) == (2, True)
    path = written(tmp_path)
    whole = path.read_text()
    path.write_text(whole.replace("0.", "0.1"))
    code, _, error = run_here(write, f"--results={tmp_path}")
    assert (code, f"({path.name} was changed after it was written" in error) == (2, True)
    path.write_text(whole)
    code, _, error = run_here(write, f"--results={tmp_path}")
    assert code == 2
    assert "3 of 4 cells are not yet run (identity 2, fnet 1)" in error


def test_a_report_does_not_pass_over_different_code() -> None:
    def found(cell: str, source: str, rows: str = "z", drift: tuple[str, ...] = ()) -> ledger.Finding:
        prints = {"code": {"source": source}, "data": {"test": rows}}
        facts = {"cell": cell, "tier": "1", "task": "imdb", "fingerprints": prints, "split_seed": 0}
        facts |= {"knobs": {"data.vocab": 9, "model.d": 8}}
        return facts | {"allowed_drift": [{"what": list(drift)}] if drift else []}

    assert not list(write.mixed([found("a", "x"), found("b", "x")]))
    (said,) = write.mixed([found("a", "x"), found("b", "y"), found("c", "x")])
    assert "2 versions of the code (a, c: source x; b: source y)" in said
    (said,) = write.mixed([found("a", "x"), *(found(f"b{i}", "y") for i in range(30))])
    assert "2 versions of the code (a: source x; 30 cells, for example b0: source y)" in said
    (said,) = write.mixed([found("a", "x"), found("b", "x", rows="other")])
    assert "2 test sets of imdb, split 0, data.vocab=9 (a: z; b: other)" in said
    (said,) = write.mixed([found("a", "x", drift=("device",))])
    assert said == "`a` was resumed with other device."


def test_only_cells_of_the_same_start_have_the_same_rows() -> None:
    """Weights bring their tokenizer, so that rows of ids are others than from scratch."""

    def found(cell: str, rows: str, start: str = "", weights: str | None = None) -> ledger.Finding:
        facts = {"cell": cell, "tier": "glue", "task": "rte", "split_seed": 0, "allowed_drift": []}
        knobs = {"data.vocab": 8000} | ({"init_from": start} if start else {})
        prints = {"code": {"source": "x"}, "data": {"test": rows}}
        return facts | {"knobs": knobs, "fingerprints": prints, "weights": weights}

    scratch, first = found("a", "own"), found("b", "theirs", "pretrain", "0a")
    assert not list(write.mixed([scratch, first]))
    (said,) = write.mixed([scratch, first, found("c", "other", "pretrain", "0a")])
    assert "2 test sets of rte from pretrain, split 0, data.vocab=8000 (b: theirs; c: other)" in said
    (said,) = write.mixed([scratch, first, found("c", "theirs", "pretrain", "0b")])
    assert said == "Tier glue has 2 weights of pretrain (b: 0a; c: 0b)."


def test_glue_is_averaged_as_the_paper_does() -> None:
    def found(task: str, **metrics: float | None) -> ledger.Finding:
        return {"task": task, "epochs": [{"epoch": 1, "validation": {}}, {"epoch": 2, "validation": metrics}]}

    groups = {
        "mrpc-a": [found("mrpc", accuracy=0.7, f1=0.8), found("mrpc", accuracy=0.72, f1=0.8)],
        "cola-a": [found("cola", accuracy=0.68, matthews=0.1), found("cola", accuracy=0.69, matthews=None)],
        "stsb-a": [found("stsb", spearman=None, pearson=None)],
        "stsb-b": [found("stsb", spearman=0.8, pearson=0.1), found("stsb", spearman=None, pearson=0.1)],
    }
    lines = glue_table(groups).splitlines()
    assert lines[2] == "| a | 75.5 ± 0.7 (2) | 68.0 (1, 1 failed) | failed | 71.8 (2 tasks) |"
    assert lines[3] == "| b | not yet run | not yet run | 80.0 (1, 1 failed) | 80.0 (1 tasks) |"


@pytest.mark.parametrize("kind", ["constant", "labels", "one of two seeds"])
def test_a_failure_is_one_from_the_answers_to_the_table(kind: str, tmp_path: Path) -> None:
    labels = np.linspace(0, 5, 40).astype(np.float32)
    answers = {
        "constant": np.full(40, 2.5),
        "labels": labels,
        "one of two seeds": np.stack([labels, 0 * labels]),
    }
    given = labels if kind != "labels" else np.where(labels == 5, np.nan, labels)
    task, total = TASKS["stsb"], {"loss": np.ones((2, 2) if kind == "one of two seeds" else 2)}
    judged = compute_metrics(task, total, answers[kind], given)
    values = metrics.over_seeds(judged) | reasons(task, judged, answers[kind], given)
    assert "spearman undefined (" in summary(values)
    writer = Writer(tmp_path, 0)
    writer.write("validation", 5, 1, values)
    writer.close()
    (line,) = read_lines(tmp_path)
    assert line["spearman"] is None
    assert "spearman undefined (" in summary(line)
    name = next(cell for cell in cells.EVERY if cell.startswith("glue-stsb"))
    facts = {
        "metric": "spearman",
        "validation": [line["spearman"]],
        "epochs": [{"epoch": 1, "validation": line}],
    }
    Ledger(tmp_path).write(finding(name, **facts, parameters=1))
    found = Ledger(tmp_path).findings[name]
    assert np.isnan([ledger.score(found), ledger.best(found), *ledger.interval([found, found])]).all()
    groups = {"stsb-a": [found], "sst2-a": [{"task": "sst2", "epochs": [{"validation": {"accuracy": 0.8}}]}]}
    assert glue_table(groups).splitlines()[2] == "| a | failed | 80.0 (1) | 80.0 (1 tasks) |"
    two = {"a": [found, found | {"validation": [0.5]}], "b": [found]}
    assert "| failed, 50.00 | 50.00 |" in accuracy_table(two)
    for draw in (figures.curves, figures.costs):
        style.png(draw(two, *[{}] * (draw is figures.costs)))


def test_what_varies(tmp_path: Path) -> None:
    """By hand: seeds of 80 and 82 %; a device of 71 and 73 at two numbers of bits, another of 74 and 74."""
    for name, accuracy in (("1-fnet-0", 0.80), ("1-fnet-1", 0.82), ("1-fnet-engine-2", 0.75)):
        found = finding(name, test={"accuracy": accuracy, "examples": 100})
        Ledger(tmp_path).write(found)
    points = ((4, 0, 0.71), (8, 0, 0.73), (4, 1, 0.74), (8, 1, 0.74))
    rows = [
        {"run": "1-fnet-engine-2", "bits": bits, "noise": 1.0, "device": device, "accuracy": accuracy}
        for bits, device, accuracy in points
    ]
    rows += [{**row, "run": "1-fnet-exact-2"} for row in rows] + [{**rows[0], "noise": 4.0, "accuracy": 0.1}]
    document = {"command": "c", "rows": rows}
    (tmp_path / "robustness-fnet.json").write_text(json.dumps(provenance.record() | document))
    lines = "\n".join(variance.components(Ledger(tmp_path), "1"))
    assert "| `fnet`: seed and split together | 1 | 1.41 | 0.63 to 45.13 |" in lines
    assert "(#accuracy-over-bits-and-noise-fnet)) | 1 | 1.41 |" in lines  # of 72 and 74
    assert "seed alone" not in lines  # of one network
    assert "fnet-exact" not in lines
    assert list(variance.components(Ledger(tmp_path), "2")) == []
    rows[2:4] = []  # one device tells nothing
    (tmp_path / "robustness-fnet.json").write_text(json.dumps(provenance.record() | document))
    assert "its engine's device" not in "\n".join(variance.components(Ledger(tmp_path), "1"))


def test_joules_of_an_example_are_those_of_its_transforms() -> None:
    """Two layers of FNet on 4 x 8^2 tokens of 8^2 features, two examples in a pass; exactly, none."""
    found = projection.example_joules(imdb_small.get_config("fnet-engine"), projection.Options())
    engine = presets.preset("chip_11x11").replace(shape=(8, 8))
    load = plan("fourier_mix", (2, 256, 64), engine).load(2)
    for corner in ("low", "typical", "high"):
        spent = cost.energy(engine, **load, prices=components.prices(corner, components.library()))
        assert found[corner] == pytest.approx(spent.total / 2, rel=1e-6)
    assert projection.example_joules(imdb_small.get_config("fnet"), projection.Options()) is None
