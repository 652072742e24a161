"""The report on classes: scores as JSON, the confusion matrix as JSON, CSV and picture."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import run_here

from fourier_attn import main
from fourier_attn.data import TASKS
from fourier_attn.train import report
from fourier_attn.train.evaluate import chosen_of_all, class_report

COUNTS = [[3, 1, 0], [0, 0, 0], [2, 0, 998]]
NAMES = ("a", "b, c", "a class with a very long name")


def read(folder: Path, end: str = "") -> tuple[dict, list[list[str]]]:
    with (folder / f"confusion{end}.csv").open(newline="") as file:
        return json.loads((folder / f"report{end}.json").read_text()), list(csv.reader(file))


def test_a_run_has_the_report_of_its_predictions(toy_run: Path) -> None:
    found, table = read(toy_run)
    rows = [json.loads(line) for line in (toy_run / "predictions.jsonl").read_text().splitlines()]
    counts = np.zeros((2, 2), int)
    for row in rows:
        counts[row["label"], row["prediction"]] += 1
    assert found["confusion"] == counts.tolist()
    assert table == [
        ["label, predicted as", "negative", "positive"],
        *([name, *map(str, row)] for name, row in zip(("negative", "positive"), counts, strict=True)),
    ]
    assert found["classes"]["positive"]["examples"] == counts[1].sum()
    assert found["accuracy"] == pytest.approx(np.trace(counts) / len(rows))
    assert (toy_run / "confusion.png").exists()


@pytest.mark.usefixtures("standard_promotion")
def test_an_evaluation_writes_reports_where_it_is_asked(toy_run: Path, tmp_path: Path) -> None:
    """Of each split, without touching the run; the same numbers as the training wrote."""
    words, out = ("--mode=eval", f"--workdir={toy_run}"), tmp_path / "reports"
    before = {path: path.stat().st_mtime_ns for path in toy_run.rglob("*")}
    code, _, error = run_here(main, *words, f"--output={out}")
    assert code == 0, error
    assert {path.name for path in out.iterdir()} == {
        f"{kind}{end}" for kind, end in (("report", ".json"), ("confusion", ".csv"), ("confusion", ".png"))
    } | {"report-validation.json", "confusion-validation.csv", "confusion-validation.png"}
    assert read(out) == read(toy_run)
    assert {path: path.stat().st_mtime_ns for path in toy_run.rglob("*")} == before
    (tmp_path / "file").touch()
    code, _, error = run_here(main, *words, f"--output={tmp_path / 'file'}")
    assert (code, error.count("\n")) == (2, 1)
    assert "is a file; name a folder for the report" in error


def test_seeds_answer_by_their_mean_and_hidden_places_do_not_count() -> None:
    task, labels = TASKS["shapes_patches"], np.array([[0, 1, -1]])
    answers = np.zeros((2, 1, 3, len(task.labels)))
    answers[0, 0, :, 0], answers[1, 0, :, 1] = 0.6, (0.5, 0.7, 0.9)  # the mean says classes 0, 1, 1
    chosen = chosen_of_all(task, answers, labels)
    assert chosen.tolist() == [[0, 1, 1]]
    found = class_report(task, chosen, labels)
    assert found is not None
    assert (found["examples"], found["accuracy"]) == (2, 1.0)
    assert class_report(task, chosen, np.full((1, 3), -1)) is None
    assert class_report(TASKS["stsb"], np.array([0.5]), np.array([1.0])) is None


def test_the_picture_has_counts_and_shares() -> None:
    figure = report.plot(COUNTS, NAMES, "run, test")
    axes = figure.axes[0]
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): "3\n75 %", (1, 0): "1\n25 %", (0, 2): "2\n0 %", (2, 2): "998\n100 %"}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b, c", "a class with a ver.."]
    shares = axes.images[0].get_array()
    np.testing.assert_allclose(np.asarray(shares)[1], 0)  # no example
    assert axes.get_ylabel() == "label"


def test_many_classes_have_no_numbers() -> None:
    for count, named in ((report.MOST, True), (report.MOST + 1, False)):
        axes = report.plot(np.eye(count, dtype=int).tolist(), [str(i) for i in range(count)]).axes[0]
        assert len(axes.texts) == (count if named else 0)
