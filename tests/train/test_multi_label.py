"""Any number of labels for each example: loss and scores, cells of tables, and a run on one."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal, run_here
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from fourier_attn import config, data, main, train
from fourier_attn.data.batches import Batches
from fourier_attn.data.tables import user_tables
from fourier_attn.data.tables.labels import SETS, labels_of
from fourier_attn.inference import classify, export
from fourier_attn.inference.predictor import Predictor
from fourier_attn.train import class_loss, label_scores, monitor
from fourier_attn.train.evaluate import compute_metrics, reasons, write_predictions
from fourier_attn.train.label_scores import LABEL_SCORES, macro_f1, micro_f1, per_label, subset_accuracy
from fourier_attn.train.losses import OBJECTIVES

random = np.random.default_rng(0)
WORDS = {"bug": "crash", "perf": "slow", "ui": "button"}


def options(**more: Any) -> Any:
    settings = config.default("fourier", "files").data
    settings.update({"multi_label": True, "vocab": 200, **more})
    return settings


def test_the_loss_is_the_definition() -> None:
    """Of each class a binary cross-entropy, place by place; an example of weight 0 does not count."""
    logits, weight = 3 * normal(5, 4), np.array([1, 1, 0, 1, 1], np.float32)
    label = random.integers(0, 2, (5, 4))
    batch = {"label": jnp.asarray(label, jnp.int32), "weight": jnp.asarray(weight)}
    objective = OBJECTIVES["labels"]
    total = 0.0
    for row, known, counts in zip(np.asarray(logits, np.float64), label, weight, strict=True):
        p = 1 / (1 + np.exp(-row))
        total += counts * -np.mean([math.log(q if y else 1 - q) for q, y in zip(p, known, strict=True)])
    sums = objective.sums(logits, batch)
    np.testing.assert_allclose(sums["loss"], [total, 4], rtol=1e-5)
    assert float(objective.loss(sums, objective.counts(batch))) == pytest.approx(total / 4, rel=1e-5)
    expected = 1 / (1 + np.exp(-np.asarray(logits, np.float64)))
    np.testing.assert_allclose(objective.answers(logits), expected, rtol=1e-5)
    large = {**batch, "label": jnp.ones((5, 4), jnp.int32)}
    assert float(objective.sums(jnp.full((5, 4), -1e4), large)["loss"][0]) == pytest.approx(4e4)


def test_scores_are_those_of_scikit_learn() -> None:
    """A class that is neither there nor predicted is left out of the mean, as `zero_division=nan` does."""
    for size in (1, 2, 30):
        label, prediction = random.integers(0, 2, (2, size, 5))
        label[:, 2] = prediction[:, 2] = 0
        label[0, 0] = 1
        rest = {"zero_division": np.nan}
        assert micro_f1(prediction, label) == pytest.approx(f1_score(label, prediction, average="micro"))
        mean = f1_score(label, prediction, average="macro", **rest)
        assert macro_f1(prediction, label) == pytest.approx(mean)
        assert subset_accuracy(prediction, label) == pytest.approx(accuracy_score(label, prediction))
        found = per_label(prediction, label, "abcde")
        peer = np.array(precision_recall_fscore_support(label, prediction, **rest)[:3])
        ours = [
            [math.nan if each[name] is None else each[name] for each in found["classes"].values()]
            for name in ("precision", "recall", "f1")
        ]
        np.testing.assert_allclose(ours, peer)
        assert [each["examples"] for each in found["classes"].values()] == label.sum(axis=0).tolist()
        assert [found[name] for name in LABEL_SCORES] == [s(prediction, label) for s in LABEL_SCORES.values()]


def test_a_label_has_at_least_half_a_probability() -> None:
    task = data.task_of(options(labels=("a", "b")))
    answers = np.array([[[0.5, 0.49], [0.1, 0.2]]], np.float32)
    labels = np.array([[1, 0], [0, 1]])
    values = compute_metrics(task, {"loss": np.ones((1, 2))}, answers, labels)
    assert {name: float(each[0]) for name, each in values.items()} == pytest.approx(
        {"loss": 1.0, "micro_f1": 2 / 3, "macro_f1": 0.5, "subset_accuracy": 0.5}
    )
    nothing = np.zeros((2, 2), int)
    values = compute_metrics(task, {"loss": np.ones((1, 2))}, 0 * answers, nothing)
    why = "no label exists or is predicted"
    assert reasons(task, values, 0 * answers, nothing) == {"undefined": {"micro_f1": why, "macro_f1": why}}
    assert classify.THRESHOLD == label_scores.THRESHOLD


def test_predictions_are_lists_of_classes(tmp_path: Path) -> None:
    """Those of the mean over seeds; -1 where labels are hidden."""
    task = data.task_of(options(labels=("a", "b", "c")))
    rows = [np.zeros(3, np.int32)] * 2
    batches = Batches(rows, np.array([[1, 0, 1], [-1, -1, -1]]), buckets=(4,), batch=2)
    answers = np.array([[[0.9, 0.8, 0.1], [0.1, 0.1, 0.1]], [[0.7, 0.4, 0.3], [0.1, 0.1, 0.95]]])
    write_predictions(tmp_path / "p.jsonl", task, answers, batches)
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [(line["label"], line["prediction"]) for line in lines] == [([0, 2], [0, 1]), (-1, [2])]
    assert lines[0]["probabilities"] == pytest.approx([0.8, 0.6, 0.2])


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("bug;ui", ("bug", "ui")),
        (" ui | bug ", ("ui", "bug")),
        ("ui; bug|ui;", ("ui", "bug")),
        ("", ()),
        (" ; ", ()),
        ([], ()),
        (["a;b", " c", "c", 3, True], ("a;b", "c", "3", "true")),
        (7, ("7",)),
        ("no, never", ("no, never",)),
    ],
)
def test_cells_are_read(cell: Any, expected: tuple[str, ...]) -> None:
    assert labels_of("here", "label", cell) == expected


@pytest.mark.parametrize("cell", [None, math.nan, [""], [None], [["a"]], {"a": 1}])
def test_cells_that_are_no_labels(cell: Any) -> None:
    with pytest.raises(ValueError, match="here: the label topic"):
        labels_of("here", "topic", cell)


def written(path: Path, rows: list[tuple[str, Any]]) -> str:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
    return str(path)


def test_a_table_gives_a_number_for_each_class(tmp_path: Path) -> None:
    """Those of train in the order of their names; lists and cells are the same labels."""
    cells = ["b;a", "", "c", "10 | b", "a"] * 4
    lists = [[name.strip() for name in cell.replace("|", ";").split(";") if name.strip()] for cell in cells]
    found = []
    for name, column in (("a.csv", cells), ("a.jsonl", lists)):
        rows = [(f"text {i}", cell) for i, cell in enumerate(column)]
        file = written(tmp_path / name, rows)
        found.append(user_tables.read(options(train=file, validation=file, test=file, holdout=0.0)))
    for read in found:
        assert read.labels == ("10", "a", "b", "c")
        expected = [[int(one in labels) for one in read.labels] for labels in lists]
        np.testing.assert_array_equal(read.parts["test"].labels, expected)
        order = read.parts["train"].rows
        np.testing.assert_array_equal(read.parts["train"].labels, np.array(expected)[order])
        assert "classes 10 4, a 8, b 8, c 4" in read.notes
        assert "train: 4 of 20 rows have no label" in read.notes
    named = options(train=file, validation=file, test=file, labels=("c", "b", "a", "10", "never"))
    read = user_tables.read(named)
    assert read.labels == ("c", "b", "a", "10", "never")
    assert any("no rows of the class 'never'" in note for note in read.notes)


def test_tables_that_are_refused(tmp_path: Path) -> None:
    rows = [(f"text {i}", cell) for i, cell in enumerate(["a;b", "b", ""] * 10)]
    good = written(tmp_path / "a.csv", rows)

    def refused(match: str, **more: Any) -> None:
        with pytest.raises(ValueError, match=match):
            user_tables.read(options(**{"train": good, **more}))

    other = written(tmp_path / "b.csv", [("one", "a"), ("two", "b; x")])
    refused(r"b.csv, line 3 has the label 'x', but train has only a, b", validation=other)
    empty = written(tmp_path / "c.csv", [("one", ""), ("two", "")])
    refused(r"validation=.*hidden labels \(no row has one\)", validation=empty)
    refused(r"train=.*hidden labels \(no row has one\)", train=empty, labels=("a", "b"))
    assert data.hidden(user_tables.read(options(train=good, test=empty)).parts["test"].labels)
    lines = written(tmp_path / "d.jsonl", [("one", ["a"]), ("two", None)])
    refused("d.jsonl, line 2: the label label is missing", validation=lines)
    alone = written(tmp_path / "e.csv", [(f"text {i}", "a") for i in range(9)])
    refused("give rows of another class", train=alone)
    many = [(f"text {i}", f"l{i % (SETS + 1)}") for i in range(3 * SETS)]
    refused("has 1,001 different labels", train=written(tmp_path / "f.csv", many))


def test_what_is_said_of_joined_labels(tmp_path: Path) -> None:
    """Without the option, how to get it; with it, of commas."""
    rows = [(f"text {i}", cell) for i, cell in enumerate(["a;b", "a", "b"] * 10)]
    settings = options(train=written(tmp_path / "a.csv", rows), multi_label=False)
    assert any("set data.multi_label=True" in note for note in user_tables.read(settings).notes)
    rows = [(text, cell.replace(";", ", ")) for text, cell in rows]
    notes = user_tables.read(options(train=written(tmp_path / "b.csv", rows))).notes
    assert any("'a, b' in label is treated as one class; for several labels, write" in n for n in notes)


@pytest.mark.parametrize("knob", [{"class_weights": "balanced"}, {"label_smoothing": 0.1}])
def test_losses_of_one_class_are_refused(knob: dict[str, Any]) -> None:
    """Before the data are read."""
    c = config.default("fourier", "files")
    c.data.multi_label = True
    c.train.update(knob)
    with pytest.raises(
        ValueError, match=r"needs examples with one class each, .*multi_label=True allows several"
    ):
        class_loss.check(c)
    c.train.monitor = "accuracy"
    with pytest.raises(ValueError, match="choose one of micro_f1, macro_f1, subset_accuracy, loss"):
        monitor.check(c)
    with pytest.raises(ValueError, match="needs the task 'files', not 'tags'"):
        data.check(options(task="tags", train="a.jsonl"))


def labelled_texts(count: int, seed: int) -> list[tuple[str, str]]:
    """Texts whose words say which of the labels they have."""
    draw = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        names = [name for name in WORDS if draw.random() < 0.5]
        rows.append((" ".join(["it", *(WORDS[name] for name in names), f"n{i}"]), ";".join(names)))
    return rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished run on a table."""
    where = tmp_path_factory.mktemp("several")
    c = config.default("fourier", "files")
    c.data.update({"train": written(where / "a.csv", labelled_texts(200, 0)), "multi_label": True})
    c.data.update({"tokenizer": "words", "vocab": 30, "length": 12, "buckets": (), "batch": 16})
    c.model.update({"depth": 1, "d": 16, "mlp": 16, "positions": 12})
    c.train.epochs, c.optim.learning_rate, c.optim.warmup_steps = 12, 0.01, 5
    with jax.numpy_dtype_promotion("standard"):
        train.run(c, where / "run")
    return where / "run"


def test_a_run_learns_and_reports_each_class(run: Path) -> None:
    report = json.loads((run / "report.json").read_text())
    assert report["micro_f1"] > 0.9
    assert list(report["classes"]) == list(WORDS)
    assert not {path.name for path in run.iterdir()} & {"confusion.csv", "confusion.png"}
    rows = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    known = [{(i, n) for i, row in enumerate(rows) for n in row[key]} for key in ("label", "prediction")]
    assert report["micro_f1"] == pytest.approx(2 * len(known[0] & known[1]) / (len(known[0]) + len(known[1])))
    for row in rows:
        assert row["prediction"] == [i for i, p in enumerate(row["probabilities"]) if p >= 0.5]


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_answers_and_is_scored_on_a_new_file(run: Path, tmp_path: Path) -> None:
    [answer, none] = Predictor.load(run)(["it crash button n5", "it n5"])
    assert (answer["labels"], none["labels"]) == (["bug", "ui"], [])
    assert list(answer["probabilities"]) == list(WORDS)
    [whole] = Predictor.load(run, long="windows")(["it crash " * 20])
    assert whole["windows"] > 1
    assert whole["labels"] == [name for name, p in whole["probabilities"].items() if p >= 0.5]
    rows = [*labelled_texts(20, 1), ("it is", "poem; bug")]
    source, out = written(tmp_path / "new.csv", rows), tmp_path / "out.jsonl"
    words = (f"--workdir={run}", f"--input={source}")
    code, said, error = run_here(main, "--mode=predict", *words, f"--output={out}")
    assert code == 0, error
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [";".join(line["true"]) for line in lines[:-1]] == [label for _, label in rows[:-1]]
    assert "true" not in lines[-1]
    assert "note: 1 rows have a label that is not one of bug, perf, ui" in error
    scored = json.loads((tmp_path / "out.metrics.json").read_text())
    table = [[[int(n in line[key]) for n in WORDS] for line in lines[:-1]] for key in ("true", "labels")]
    assert scored["micro_f1"] == pytest.approx(f1_score(*np.array(table), average="micro"))
    code, said, error = run_here(main, "--mode=eval", *words, f"--output={tmp_path / 'report'}")
    assert code == 0, error
    assert f"micro f1 {scored['micro_f1']:.4f}" in said
    assert "   class  precision  recall      f1  rows\n 1 bug " in said
    assert json.loads((tmp_path / "report" / "report.json").read_text()) == scored
    code, said, error = run_here(main, "--mode=eval", f"--workdir={run}")
    assert code == 0, error
    assert "subset_accuracy" in said
    code, said, error = run_here(main, "--mode=predict", f"--workdir={run}", "--text=it crash n5")
    assert said.startswith("bug ")
    assert len(said.splitlines()) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_an_export_prints_the_likely_labels(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    export.export(run, tmp_path / "out")
    texts = ["it crash button n5", "it n5"]
    expected = [list(answer["probabilities"].values()) for answer in Predictor.load(run)(texts)]
    np.testing.assert_allclose(classify.Classifier(tmp_path / "out")(texts), expected, atol=1e-5)
    monkeypatch.setattr(classify, "__file__", str(tmp_path / "out" / "classify.py"))
    classify.main(texts)
    assert capsys.readouterr().out == "".join(
        [f"bug {expected[0][0]:.4f}, ui {expected[0][2]:.4f}\tit crash button n5\n", "-\tit n5\n"]
    )
    export.export(run, tmp_path / "theirs", "huggingface")
    again = Predictor.load(tmp_path / "theirs")(texts)
    found = [list(answer["probabilities"].values()) for answer in again]
    np.testing.assert_allclose(found, expected, atol=1e-5)
