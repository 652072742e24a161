"""A trained run in use: the answers, their order, and what is refused."""

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import run_here

import fourier_attn
from fourier_attn import config, data, main
from fourier_attn.data.tables.inputs import Input
from fourier_attn.data.text import encode, encode_windows
from fourier_attn.inference import printed_answers, stream
from fourier_attn.inference.predictor import Predictor
from fourier_attn.train.rundir.metrics_log import read_lines

TEXTS = ["The film was not dull.", "zzz qqq xxx", "I liked the long and brave story.", "dull"]


@pytest.fixture(scope="module")
def predictor(toy_run: Path) -> Predictor:
    return fourier_attn.Predictor.load(toy_run)


def test_answers_keep_the_order_and_are_those_of_each_alone(predictor: Predictor) -> None:
    together = predictor(TEXTS * 10)
    assert len(together) == 40
    for text, answer in zip(TEXTS, together, strict=False):
        [alone] = predictor([text])
        assert alone["label"] == answer["label"]
        assert alone["probability"] == pytest.approx(answer["probability"], abs=1e-6)  # float32
    for first, again in zip(together[:4], together[36:], strict=True):
        assert first["probability"] == pytest.approx(again["probability"], abs=1e-6)
    for answer in together:
        assert answer["probabilities"].keys() == {"negative", "positive"}
        assert answer["probability"] == max(answer["probabilities"].values())
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-6)
        assert answer["probabilities"][answer["label"]] == answer["probability"]
    assert [answer["unknown"] for answer in together[:2]] == [0.0, 1.0]


def test_answers_are_those_of_the_evaluation(predictor: Predictor, toy_run: Path) -> None:
    """Of all test texts, as the run has written them."""
    examples = data.reading.read(predictor.config.data)["test"]
    answers = predictor(examples.texts)
    written = [json.loads(line) for line in (toy_run / "predictions.jsonl").read_text().splitlines()]
    names = predictor.task.labels
    assert [answer["label"] for answer in answers] == [names[line["prediction"]] for line in written]
    probabilities = [line["probability"] for line in written]
    np.testing.assert_allclose([a["probability"] for a in answers], probabilities, atol=2e-6)  # six digits
    right = np.mean([names[label] == a["label"] for label, a in zip(examples.labels, answers, strict=True)])
    assert right == pytest.approx(read_lines(toy_run)[-1]["accuracy"])


@pytest.mark.parametrize(
    ("texts", "text_pairs", "message"),
    [
        ("one", None, "is one text; give a list"),
        (["a", " "], None, "text=' ' is empty; give a text"),
        (["a", 3], None, "text=3 is not a text"),
        (["a", "\ud800"], None, "is not UTF-8"),
        (["a"], ["b"], r"takes 1 text\(s\); leave text_pair out"),
        (["a"], ["b", "c"], "1 texts and 2 text_pairs; give equally many"),
    ],
)
def test_bad_texts_are_named(predictor: Predictor, texts: object, text_pairs: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predictor(texts, text_pairs)
    assert predictor([]) == []


def test_a_program_is_compiled_once_for_each_length(predictor: Predictor) -> None:
    predictor(TEXTS)
    size = predictor.eval_step._cache_size()
    predictor(TEXTS * 30)
    predictor(TEXTS[:1])
    assert predictor.eval_step._cache_size() == size


LINES = [json.dumps({"text": text, "id": i}) for i, text in enumerate(TEXTS)]


def test_lines_are_predicted_in_order(toy_run: Path, tmp_path: Path, predictor: Predictor) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join([*LINES, "", json.dumps(TEXTS[0])]) + "\n")
    code, out, err = run_here(
        main, "--mode=predict", f"--workdir={toy_run}", f"--input={source}", f"--output={target}"
    )
    assert (code, out) == (0, "")
    assert err == "5 predicted; 2 have more than 20% unknown tokens\n"
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert {answer.pop("file") for answer in answers} == {str(source)}
    assert [answer.pop("line") for answer in answers] == [1, 2, 3, 4, 6]
    assert answers == predictor([*TEXTS, TEXTS[0]])


def test_a_bad_line_is_named_or_skipped(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = [b'{"text"', b'{"text": " "}', b'{"note": "x"}', b"caf\xe9", b"[" * 100_000, b"x" * (2**24 + 9)]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    for number, line in enumerate(bad):
        source.write_bytes(b"\n".join([LINES[0].encode(), line, LINES[1].encode()]))
        options = ("--mode=predict", f"--workdir={toy_run}", f"--input={source}", f"--output={target}")
        code, out, err = run_here(main, *options)
        assert (code, out) == (2, ""), number
        assert "in.jsonl, line 2: " in err
        assert "--skip_bad" in err
        assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    source.write_text(LINES[0])
    code, _, err = run_here(main, *options[:-1], f"--output={tmp_path}")
    assert (code, f"--output={tmp_path} is not a file" in err, tmp_path.is_dir()) == (2, True, True)
    code, _, err = run_here(main, f"--workdir={toy_run}", "--text=fine")
    assert (code, err) == (2, "error: --text needs --mode=predict or explain; it is train\n")
    (tmp_path / "link.jsonl").symlink_to(source)
    code, _, err = run_here(main, *options[:-1], f"--output={tmp_path / 'link.jsonl'}")
    assert (code, "would overwrite a file of --input" in err, source.read_text()) == (2, True, LINES[0])
    for more, needed in ((f"--output={target}", " or --image=FILE"), ("--skip_bad", "")):
        code, out, err = run_here(main, "--mode=predict", f"--workdir={toy_run}", "--text=fine", more)
        assert (code, out, err) == (2, "", f"error: {more.partition('=')[0]} needs --input=FILE{needed}\n")
    source.write_bytes(b"\n".join([LINES[0].encode(), *bad, LINES[1].encode()]))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(source.read_bytes())))
    code, out, err = run_here(main, "--mode=predict", f"--workdir={toy_run}", "--input=-", "--skip_bad")
    assert code == 0
    assert [json.loads(line)["line"] for line in out.splitlines()] == [1, 8]
    assert "standard input, line 4 is skipped" in err
    assert "2 predicted, 6 skipped" in err


@pytest.fixture
def loaded(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> Predictor:
    """The run of `predictor`, which is not read again."""
    monkeypatch.setattr(stream.Predictor, "load", lambda directory, **_: predictor)
    return predictor


def answered(source: str | Path, where: Path, **options: bool) -> tuple[list[dict[str, Any]], str]:
    """The answers to the rows of a file, and what was said of them."""
    said = stream.predict_file("run", str(source), str(where / "answers.jsonl"), **options)
    return [json.loads(line) for line in (where / "answers.jsonl").read_text().splitlines()], said


def as_table(path: Path, rows: list[dict[str, Any]], separator: str = ",") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return path


ROWS = [{"id": i, "text": text, "label": ("negative", "positive")[i % 2]} for i, text in enumerate(TEXTS)]
KINDS: dict[str, Callable[[Path], Path]] = {
    "csv": lambda p: as_table(p / "a.csv", ROWS),
    "tsv": lambda p: as_table(p / "a.tsv", ROWS, "\t"),
    "jsonl": lambda p: write(p / "a.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS).encode()),
    "txt": lambda p: write(p / "a.txt", "".join(f"{text}\n" for text in TEXTS).encode()),
    "gz": lambda p: write(p / "a.csv.gz", gzip.compress(as_table(p / "a.csv", ROWS).read_bytes())),
    "parquet": lambda p: as_parquet(p / "a.parquet"),
    "no ending": lambda p: as_table(p / "a.csv", ROWS).rename(p / "table"),
}


def write(path: Path, contents: bytes) -> Path:
    path.write_bytes(contents)
    return path


def as_parquet(path: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_answered_as_they_are_trained_on(kind: str, loaded: Predictor, tmp_path: Path) -> None:
    """Each answer says its file and row, and, where the file has labels, what is true."""
    source = KINDS[kind](tmp_path)
    answers, said = answered(source, tmp_path)
    first = 2 if kind in ("csv", "tsv", "gz", "no ending") else 1  # the columns have line 1
    labelled = kind != "txt"
    for i, (answer, expected) in enumerate(zip(answers, loaded(TEXTS), strict=True)):
        true = {"true": ROWS[i]["label"]} if labelled else {}
        where = {"file": str(source), "line": i + first}
        assert answer == where | true | expected
    metrics = tmp_path / "answers.metrics.json"
    assert metrics.exists() == labelled
    if labelled:
        found, right = json.loads(metrics.read_text()), [a["label"] == a["true"] for a in answers]
        assert (found["accuracy"], found["examples"]) == (np.mean(right), 4)
        assert np.trace(found["confusion"]) == sum(right)
        assert f"accuracy {100 * np.mean(right):.2f} %, macro f1" in said
        assert [line.split()[1] for line in said.splitlines()[-2:]] == ["negative", "positive"]


def test_a_pipe_and_standard_input_are_answered(
    loaded: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = as_table(tmp_path / "a.csv", ROWS).read_bytes()
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as file:
        file.write(contents)
    answers, _ = answered(f"/dev/fd/{reading}", tmp_path)
    os.close(reading)
    assert [answer["line"] for answer in answers] == [2, 3, 4, 5]
    for name in ("-", "/dev/stdin"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(contents)))
        assert [answer["label"] for answer in answered(name, tmp_path)[0]] == [a["label"] for a in answers]


def test_scores_of_other_answers_do_not_stay(loaded: Predictor, tmp_path: Path) -> None:
    answered(KINDS["csv"](tmp_path), tmp_path)
    assert (tmp_path / "answers.metrics.json").exists()
    answered(KINDS["txt"](tmp_path), tmp_path)
    assert not (tmp_path / "answers.metrics.json").exists()
    named = tmp_path / "b.metrics.json"
    named.write_text(LINES[0])
    with pytest.raises(ValueError, match=r"\(its scores, b.metrics.json\) would overwrite a file of --input"):
        stream.predict_file("run", str(named), str(tmp_path / "b.jsonl"))
    with pytest.raises(ValueError, match=r"b.metrics.json would overwrite a file of --input"):
        stream.predict_file("run", str(tmp_path), str(named))


@pytest.mark.parametrize(
    ("names", "label", "number"),
    [
        (("neg", "pos"), "pos", 1.0),
        (("neg", "pos"), 1, 1.0),  # the number of a class
        (("0", "1"), 1.0, 1.0),  # as data frames write it
        (("neg", "pos"), -1, None),
        (("neg", "pos"), " ", None),
        (("neg", "pos"), float("nan"), None),
        (("-1", "1"), -1, 0.0),  # a class
        ((), -1, -1.0),
        ((), "2.5", 2.5),
        ((), "", None),
        ((), "-1", -1.0),  # as in a CSV file
        ((), "1e999", None),
        ((), "good", None),
        (("neg", "pos"), "Pos", None),
        (("neg", "pos"), ["pos"], None),
        (("a", "b"), 2, None),
        (("False", "True"), True, None),
    ],
)
def test_labels_of_rows(names: tuple[str, ...], label: Any, number: float | None) -> None:
    assert stream._label(Input(1, "a, line 1", {"label": label}), names) == number
    assert stream._label(Input(1, "a, line 1", {}), names) is None


def test_a_label_that_is_none_of_them_is_named_and_not_scored(loaded: Predictor, tmp_path: Path) -> None:
    """The rows are answered: a column of this name may mean something else."""
    source = as_table(tmp_path / "a.csv", [*ROWS, ROWS[0] | {"label": "good"}])
    answers, said = answered(source, tmp_path)
    assert "note: 1 rows have a label that is not one of negative, positive, and are not scored: " in said
    assert f"{source}, line 6 ('good')" in said
    assert "of 4 rows with labels" in said
    assert ["true" in answer for answer in answers] == [True] * 4 + [False]
    lines = "".join(json.dumps({"text": text, "label": "todo"}) + "\n" for text in TEXTS)
    answers, said = answered(write(tmp_path / "a.jsonl", lines.encode()), tmp_path)
    assert (len(answers), "note: 4 rows have" in said, "with labels" in said) == (4, True, False)
    assert said.count("line") == stream.NAMED


def test_scores_are_next_to_their_answers(loaded: Predictor, tmp_path: Path) -> None:
    """Under names of their own, and no other file is removed."""
    source = KINDS["csv"](tmp_path)
    for name in ("preds-0.5", "preds-0.7"):
        stream.predict_file("run", str(source), str(tmp_path / name))
        assert (tmp_path / f"{name}.metrics.json").is_file()
    other = write(tmp_path / "answers.metrics.json", b'{"examples": 3}')
    answered(KINDS["txt"](tmp_path), tmp_path)
    assert other.read_bytes() == b'{"examples": 3}'


def test_columns_are_called_as_in_training() -> None:
    c = config.default(task="files")
    c.data.update({"text": "message", "label": "topic", "labels": ("a", "b")})
    assert stream._columns(data.task_of(c.data)) == {"text": ("message", "text")}
    c.data.update({"text": "premise", "text_pair": "hypothesis"})
    pairs = {"text": ("premise", "text"), "text_pair": ("hypothesis", "text_pair")}
    assert stream._columns(data.task_of(c.data)) == pairs
    assert stream._columns(data.TASKS["shapes"]) == {"image": ("image",), "text": ("text", "question")}


def test_numbers_are_scored() -> None:
    tally = stream.Tally(data.task_of(config.default(task="files").data), 48)
    for number, (score, label) in enumerate([(0.1, 0.0), (0.4, 0.5), (0.9, 1.0)], 1):
        row = Input(number, f"a.csv, line {number}", {})
        assert tally.add(stream.Item(row, {}, label), {"score": score})["true"] == label
    found = tally.scores()
    assert (found["spearman"], found["mae"]) == (1.0, pytest.approx(0.1))
    assert "mae 0.1000, rmse 0.1000 of 3 rows with labels" in tally.words()
    tally.labels[:] = [-1.0] * 3
    assert tally.scores() == {}  # hidden


def test_what_is_cut_is_said(
    loaded: Predictor, toy_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a text of 120 words 48 are read."""
    long = "dull " * 120
    cut = [answer["cut"] for answer in loaded([long, "dull"])]
    assert cut == [round(1 - 48 / 120, 4), 0.0]
    _, said = answered(write(tmp_path / "a.txt", f"{long}\ndull\n".encode()), tmp_path)
    assert said == "2 predicted; 1 were cut at data.length=48 tokens (--long=windows reads all of them)"
    printed_answers.predict(loaded, long)
    told = "note: 60% of the text was not read because it is longer than data.length=48 tokens; "
    assert f"{told}--long=windows reads all of it" in capsys.readouterr().err


def test_a_long_text_is_read_in_windows(predictor: Predictor, toy_run: Path) -> None:
    """120 words in windows of 48, one every 24: from 0, 24, 48 and 72; the answer is their mean."""
    words = [f"{'dull' if i % 3 else 'fine'}" for i in range(120)]
    windows = [" ".join(words[start : start + 48]) for start in (0, 24, 48, 72)]
    reader = Predictor.load(toy_run, long="windows")
    short, long = reader(["dull film", " ".join(words)])
    expected = np.mean([list(each["probabilities"].values()) for each in predictor(windows)], axis=0)
    np.testing.assert_allclose(list(long["probabilities"].values()), expected, rtol=1e-5)  # float32
    assert (long["windows"], long["cut"], short["windows"]) == (4, 0.0, 1)
    [cut] = predictor(["dull film"])
    assert short == {**cut, "windows": 1}


def test_windows_cover_a_text(loaded: Predictor) -> None:
    """Every token is in a window; all are full; of 49 tokens the second window begins with the second."""
    for count in (0, 1, 47, 48, 49, 72, 73, 200):
        text = " ".join("dull" if i % 2 else "fine" for i in range(count))
        rows, [n] = encode_windows(loaded.tokenizer, [text], 48)
        assert len(rows) == n == 1 + max(0, -(-(count - 48) // 24))
        assert {len(row) for row in rows} == {min(max(count, 1), 48)}
        starts = [*(24 * i for i in range(n - 1)), max(count - 48, 0)]
        whole = encode(loaded.tokenizer, [text], 1000)[0]
        for row, start in zip(rows, starts, strict=True):
            np.testing.assert_array_equal(row, whole[start : start + 48])


def test_a_run_is_evaluated_on_a_new_file(toy_run: Path, tmp_path: Path, loaded: Predictor) -> None:
    """Accuracy and classes of its rows; a file without labels is refused, and nothing is written."""
    texts = ["a fine film", "a dull film", "a truly dull thing"]
    right = [answer["label"] for answer in loaded(texts)]
    wrong = {"positive": "negative", "negative": "positive"}[right[2]]
    lines = "".join(f"{text},{label}\n" for text, label in zip(texts, [*right[:2], wrong], strict=True))
    source = write(tmp_path / "new.csv", f"text,label\n{lines}".encode())
    words = ("--mode=eval", f"--workdir={toy_run}")
    code, out, error = run_here(main, *words, f"--input={source}")
    assert (code, error) == (0, "")
    assert "accuracy 66.67 %" in out
    assert "of 3 rows with labels" in out
    source = write(tmp_path / "texts.txt", b"a fine film\n")
    code, _, error = run_here(main, *words, f"--input={source}")
    assert code == 2
    assert "has no usable labels in a column 'label'" in error
    source = write(tmp_path / "wrong.csv", b"text,label\na fine film,fine\n")
    code, _, error = run_here(main, *words, f"--input={source}")
    assert (code, "wrong.csv, line 2 ('fine'); fix them" in error) == (2, True)
    source.unlink()
    for output in (".", ".."):
        code, _, error = run_here(main, "--mode=explain", *words[1:], "--text=a", f"--output={output}")
        assert (code, f"--output={output} is a folder" in error) == (2, True)
    assert run_here(main, *words, "--long=windows")[0] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "texts.txt"]


def test_answers_are_utf8_on_any_stream(
    loaded: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON is, so that every line can be read."""
    source = write(tmp_path / "n\u00e9g.txt", b"dull\n")
    for encoding in ("ascii", "latin-1", "utf-8"):
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", out)
        stream.predict_file("run", str(source), "-")
        out.flush()
        assert json.loads(out.buffer.getvalue().decode("utf-8"))["file"] == str(source)


@pytest.mark.parametrize(
    "make",
    [
        tuple,
        iter,
        lambda texts: (text for text in texts),
        np.array,
        lambda texts: np.array(texts, object),
        lambda texts: pytest.importorskip("pandas").Series(texts, index=range(5, 9)),
        lambda texts: pytest.importorskip("pyarrow").array(texts),
    ],
)
def test_texts_may_be_anything_that_is_read_one_by_one(
    make: Callable[[list[str]], Any], predictor: Predictor
) -> None:
    assert predictor(make(TEXTS)) == predictor(TEXTS)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("one", "inputs='one' is one text; give a list of texts"),
        (b"one", "is one text"),
        (Path("a.txt"), "is one file; give a list of files"),
        ({"text": "one"}, "inputs is a dict; pass a list"),
        ({"one"}, "inputs is a set; pass a list"),
        (3, "inputs is a int; pass a list"),
        (None, "inputs is a NoneType; pass a list"),
        (np.array("one"), "inputs is a ndarray with 0 axes; pass a single column"),
        (np.array([["one"]]), "with 2 axes; pass a single column"),
        (np.array([b"one"]), "is not a text"),
        ([float("nan")], "text=nan is not a text"),
        ([Path("a.txt")], "is not a text"),
    ],
)
def test_what_cannot_be_read_one_by_one_is_named(inputs: Any, message: str, predictor: Predictor) -> None:
    with pytest.raises(ValueError, match=message):
        predictor(inputs)


def test_empty_inputs_have_no_answers(predictor: Predictor) -> None:
    for inputs in ([], (), iter(()), np.array([], str), np.array([])):
        assert predictor(inputs) == []
    assert predictor(["\0\0"])[0]["unknown"] == 1.0


def test_a_tables_frame_is_refused(predictor: Predictor) -> None:
    """Read one by one, it is the names of its columns."""
    frame = pytest.importorskip("pandas").DataFrame({"text": TEXTS})
    with pytest.raises(ValueError, match="inputs is a DataFrame with 2 axes; pass a single column"):
        predictor(frame)
