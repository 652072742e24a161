"""Own data: tables of text, what is found in them, and what is refused."""

import csv
import gzip
import json
import lzma
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import OWN_TABLE, final_state, run_here, shrink

from fourier_attn import config, data, main, train
from fourier_attn.data import text
from fourier_attn.data.examples import Examples
from fourier_attn.data.loaders import encoding
from fourier_attn.data.loaders.texts import texts_to_fit
from fourier_attn.data.tables import user_tables
from fourier_attn.data.tables.labels import CLASSES, Labels
from fourier_attn.data.tables.rows import read_rows
from fourier_attn.data.text import encode, load_tokenizer
from fourier_attn.train import evaluate, extend, init_from
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.metrics_log import read_lines

WORDS = ("fine", "poor", "long", "short", "bright")


def texts(count: int) -> list[str]:
    return [f'text "{i}",\nvery {WORDS[i % 5]}, with {i * i}' for i in range(count)]


def table(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    """Writes a table in the format that its name says."""
    if ".jsonl" in path.name:
        content = "".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows)
    elif ".tsv" in path.name:
        content = "".join("\t".join(map(str, row)).replace("\n", " ") + "\n" for row in [header, *rows])
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return path
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "wt") as file:
        file.write(content)
    return path


def knobs(train: Path, **more: Any) -> Any:
    settings = config.default("fourier", "files").data
    settings.update({"train": str(train), "vocab": 200, **more})
    return settings


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.jsonl.gz", "a.tsv.xz"])
def test_a_table_is_read_back(tmp_path: Path, name: str) -> None:
    rows = [(text, ("no", "yes")[i % 2]) for i, text in enumerate(texts(40))]
    file = table(tmp_path / name, ("review", "sentiment"), rows)
    found = user_tables.read(knobs(file))
    assert found.columns == ("review", "", "sentiment")
    assert found.labels == ("no", "yes")
    sizes = {name: len(part) for name, part in found.parts.items()}
    assert sizes == {"train": 24, "validation": 8, "test": 8}
    numbers = np.concatenate([part.rows for part in found.parts.values()])
    assert sorted(numbers) == [*range(40)]
    for name, part in found.parts.items():
        np.testing.assert_array_equal(part.labels, part.rows % 2)
        expected = [rows[i][0] for i in sorted(part.rows)]
        if "tsv" in file.name:
            expected = [text.replace("\n", " ") for text in expected]
        assert list(found.texts(name)) == expected
        assert not part.in_train.any()


def test_encoded_rows_are_those_of_the_texts(tmp_path: Path) -> None:
    rows = [(text, i % 3) for i, text in enumerate(texts(30))]
    settings = knobs(table(tmp_path / "a.csv", ("text", "label"), rows))
    (tmp_path / "run").mkdir()
    splits = data.load(settings, directory=tmp_path / "run")
    assert splits.knobs["labels"] == ("0", "1", "2")
    found = user_tables.read(settings)
    tokenizer = load_tokenizer(tmp_path / "run" / "tokenizer.json")
    for name, split in (("train", splits.train), ("test", splits.test)):
        wanted = encode(tokenizer, [rows[i][0] for i in found.parts[name].rows], settings.length)
        assert [row.tolist() for row in split.rows] == [row.tolist() for row in wanted]


def test_a_tokenizer_is_fitted_on_pairs_from_the_whole_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both texts of a random part of the rows, not on the first rows of the file."""
    rows = [(f"w{i}", f"v{i}", i % 2) for i in range(1000)]
    file = table(tmp_path / "a.csv", ("first", "second", "label"), rows)
    chosen: list[str] = []

    def fit(kind: str, texts: Iterable[str], *rest: Any) -> Any:
        chosen.extend(texts)
        return text.fit(kind, chosen, *rest)

    monkeypatch.setattr(encoding, "fit", fit)
    columns = {"text": "first", "text_pair": "second", "label": "label"}
    (tmp_path / "run").mkdir()
    data.load(knobs(file, fit_examples=101, **columns), directory=tmp_path / "run")
    first, second = ({int(word[1:]) for word in chosen if word[0] == letter} for letter in "wv")
    assert (len(first), len(second)) == (51, 50)
    assert min(first) < 100 < 900 < max(first)
    assert second < first


@pytest.mark.parametrize(("count", "expected"), [(0, "abcdef"), (4, "abde"), (3, "abde")])
def test_a_tokenizer_is_fitted_on_both_texts_of_pairs_from_tfds(count: int, expected: str) -> None:
    settings = config.default("fourier", "rte").data
    settings.fit_examples = count
    none = np.zeros(3, int)
    assert "".join(texts_to_fit(settings, Examples([*"abc"], [*"def"], none, none > 0, none))) == expected


@pytest.mark.parametrize(
    ("labels", "names", "expected"),
    [
        (("b", "a", "b"), ("a", "b"), [1, 0, 1]),
        ((10, 9, 10), ("9", "10"), [1, 0, 1]),
        ((True, False, True), ("false", "true"), [1, 0, 1]),
        ((0.5, 1, -2.25), (), [0.5, 1, -2.25]),
    ],
)
def test_labels_are_classes_or_numbers(tmp_path: Path, labels: tuple, names: tuple, expected: list) -> None:
    file = table(tmp_path / "a.jsonl", ("text", "label"), [*zip(texts(30), labels * 10, strict=True)])
    found = user_tables.read(knobs(file, validation=str(file), test=str(file)))
    assert found.labels == names
    for part in found.parts.values():
        np.testing.assert_array_equal(part.labels, np.take(expected * 10, part.rows))
    assert found.parts["test"].in_train.all()
    assert "validation: 30 of 30 texts are also in train" in found.notes


def test_numbers_that_are_alike_at_first() -> None:
    scores = Labels()
    for number in range(CLASSES + 1):
        scores.add(f"row {number}", "0.0")
    with pytest.raises(ValueError, match="all labels score are 0; give rows with other labels"):
        scores.names("a.csv", "score")
    scores.add("the last row", "1.5")
    assert scores.names("a.csv", "score") == ()


def test_a_long_text(tmp_path: Path) -> None:
    """Longer than Python's own limit for a cell, and no longer than a line may be."""
    text = "word " * 30_000
    for name in ("a.csv", "a.tsv", "a.jsonl"):
        [row] = read_rows(table(tmp_path / name, ("text", "label"), [(text, "no")]))
        assert row.values["text"] == text


def test_pairs_are_found_by_name_or_by_knob(tmp_path: Path) -> None:
    header = ("id", "premise", "hypothesis", "label")
    file = table(tmp_path / "a.csv", header, [(i, f"a {i}", f"b {i}", i % 2) for i in range(20)])
    assert user_tables.read(knobs(file)).columns == ("premise", "hypothesis", "label")
    chosen = user_tables.read(knobs(file, text="hypothesis", label="label"))
    assert chosen.columns == ("hypothesis", "", "label")


HEAD = b"text,label\n"
GOOD = b"one,a\ntwo,b\n" * 10
BAD = {
    "empty": ("a.csv", b"", "a.csv has no rows"),
    "header only": ("a.csv", HEAD, "a.csv has no rows"),
    "one class": ("a.csv", HEAD + b"one,a\ntwo,a\n", "all labels label are 'a'; give rows of another class"),
    "no label": ("a.csv", HEAD + GOOD + b"three,\n", "line 22: the label label is missing"),
    "no text": ("a.csv", HEAD + GOOD + b",a\n", "line 22: text is missing"),
    "columns": ("a.csv", HEAD + GOOD + b"a,b,c\n", "line 22 has 3 columns instead of the 2"),
    "quote": ("a.csv", HEAD + GOOD + b'"open,b\n', "line 22 is not a valid row"),
    "header twice": ("a.csv", b"text,label,text\n" + GOOD, "line 1 has the column 'text' twice"),
    "no such column": (
        "a.csv",
        b"x,y,z\n1,2,3\n",
        "cannot find the label column of .* .columns: 'x', 'y', 'z'.; set data.label",
    ),
    "latin": ("a.csv", HEAD + GOOD + b"caf\xe9,a\n", "line 22 is not UTF-8"),
    "utf16": ("a.csv", (HEAD + GOOD).decode().encode("utf-16"), "line 1 is not UTF-8"),
    "long line": ("a.csv", HEAD + b"x" * (2**24 + 1) + b",a\n", "line 2 has more than 16,777,216 bytes"),
    "long field": ("a.csv", HEAD + b'"' + 3 * (b"x" * 2**23 + b"\n"), "line 2 is not a valid row"),
    "mixed": ("a.csv", HEAD + b"one,0.5\ntwo,high\n", "are words and numbers: .*line 2 has '0.5', .*line 3"),
    "huge number": ("a.csv", HEAD + b"one,0.5\ntwo,1e300\n", "line 3 has the label 1e300, larger than"),
    "too many": ("a.csv", HEAD + b"".join(b"t,l%d\n" % i for i in range(200)), "200 different labels in 200"),
    "json": ("a.jsonl", b'{"text": "a", "label": 1}\n{"text"\n', "line 2 is not a JSON object"),
    "json list": ("a.jsonl", b"[1]\n", "line 1 must be a JSON object, not '\\[1\\]'"),
    "json key twice": ("a.jsonl", b'{"text": "a", "text": "b", "label": 1}\n', "line 1 .*a key occurs twice"),
    "json number": (
        "a.jsonl",
        b'{"text": 3, "label": 1}\n',
        "line 1: text is 3, not a string; set data.text to the column",
    ),
    "json half": (
        "a.jsonl",
        b'{"text": "\\ud800", "label": 1}\n',
        "line 1: text contains an unpaired surrogate",
    ),
    "json mixed": ("a.jsonl", b'{"text": "a", "label": 1}\n{"label": 1}\n', "line 2: text is missing"),
    "gz": ("a.csv.gz", b"no gzip", "a.csv.gz cannot be read"),
    "bomb": ("a.csv.xz", lzma.compress(HEAD + b"a" * 2**26, preset=0), "more than"),
    "name": ("a.xlsx", b"", "a.xlsx is not a readable table; its name must end in .csv"),
    "few": ("a.csv", HEAD + b"one,a\ntwo,b\n", "has 2 rows, too few to hold out data.holdout=0.2"),
    "parquet": ("a.parquet", b"PAR1", "a.parquet"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_are_named(tmp_path: Path, name: str) -> None:
    file, content, message = BAD[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        user_tables.read(knobs(tmp_path / file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD + b"one,a\ntwo,c\n", "b.csv, line 3 has the label 'c', but train has only a, b"),
        (b"text,kind\none,a\n", "data.validation=.*b.csv has no column label, unlike train"),
        (HEAD + b"one,a\ntwo,\n", "b.csv, line 3: the label label is missing"),
        (b"", "b.csv has no rows"),
    ],
)
def test_bad_validation_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(HEAD + GOOD)
    (tmp_path / "b.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        user_tables.read(knobs(tmp_path / "a.csv", validation=str(tmp_path / "b.csv")))


def test_a_test_file_has_labels_or_none(tmp_path: Path) -> None:
    file, test = tmp_path / "a.csv", tmp_path / "b.jsonl"
    file.write_bytes(HEAD + GOOD)
    test.write_text('{"text": "one"}\n{"text": "two"}\n')
    assert data.hidden(user_tables.read(knobs(file, test=str(test))).parts["test"].labels)
    test.write_text('{"text": "one"}\n{"text": "two", "label": "a"}\n')
    with pytest.raises(
        ValueError, match="b.jsonl, line 1: the label label is missing; add it, or remove the row"
    ):
        user_tables.read(knobs(file, test=str(test)))


def lose_the_end(run: Path) -> None:
    """Removes the newest checkpoint, so that there is something left to do."""
    shutil.rmtree(max((run / "checkpoints").iterdir(), key=lambda path: path.stat().st_mtime_ns))


def toy(file: Path, **more: Any) -> Any:
    c = shrink(config.default("fourier", "files"), "")
    c.data.update({"task": "files", "train": str(file), "vocab": 200, "train_examples": 0, **more})
    return c


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_keeps_its_classes_and_refuses_changed_files(tmp_path: Path) -> None:
    file = table(tmp_path / "a.csv", ("text", "label"), [(t, "xy"[i % 2]) for i, t in enumerate(texts(60))])
    first = toy(file)
    first.train.epochs = 1
    result = train.run(first, tmp_path / "run")
    assert result["examples"] == 12
    kept = config_file.load(tmp_path / "run")
    assert (kept.data.labels, kept.data.text, kept.data.label) == (("x", "y"), "text", "label")
    assert train.run(first, tmp_path / "run") == result
    moved = tmp_path / "b" / "a.csv"
    moved.parent.mkdir()
    shutil.copy(file, moved)
    lose_the_end(tmp_path / "run")
    again = toy(moved)
    again.train.epochs = 1
    train.run(again, tmp_path / "run")
    file.write_text(file.read_text().replace("very", "VERY"))
    lose_the_end(tmp_path / "run")
    with pytest.raises(ValueError, match=r"was started with other data \(data.files.train a.csv"):
        train.run(first, tmp_path / "run")


def test_a_run_is_judged_by_rows_that_it_has_not_learned(tmp_path: Path) -> None:
    """By its own, wherever they are now; or by a table that is named for the test."""
    file, run = tmp_path / "a.csv", tmp_path / "run"
    rows = [(text, "xy"[i % 2]) for i, text in enumerate(texts(60))]
    table(file, ("text", "label"), rows)

    def said(*words: str) -> tuple[int, str, str]:
        return run_here(main, f"--workdir={run}", *words)

    assert said(*OWN_TABLE, f"--config.data.train={file}")[0] == 0
    code, judged, _ = said("--mode=eval")
    assert code == 0
    moved = tmp_path / "moved" / "a.csv"
    moved.parent.mkdir()
    file.rename(moved)
    there = ("--mode=eval", *OWN_TABLE, f"--config.data.train={moved}")
    assert said(*there)[:2] == (0, judged)

    new = table(tmp_path / "new.csv", ("text", "label"), [(text, "x") for text in texts(5)])
    code, out, err = said(*there, f"--config.data.test={new}")
    assert code == 0
    assert out.splitlines()[0] == judged.splitlines()[0]  # validation
    assert out != judged
    assert f"note: the test set is {new}, not that of the run" in err

    table(moved, ("text", "label"), [*rows, ("one more", "x")])
    for words in (there, (*there, f"--config.data.test={new}"), (*there, "--allow_drift=code")):
        code, out, err = said(*words)
        assert (code, out) == (2, "")
    assert "choose from data" in err
    _, _, err = said(*there)
    assert "was trained with other data" in err
    assert err.endswith("or allow the change with --allow_drift=data\n")
    code, out, err = said(*there, "--allow_drift=data")
    assert code == 0
    assert "note: the data differ from those of the training" in err
    assert "test" in out


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_goes_on_with_more_rows(
    tmp_path: Path, stopped_at: Callable[[Any, Path, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is then a run of those: with their number of steps, and judged by their validation alone."""
    few = [(text, "xy"[i % 20 == 0]) for i, text in enumerate(texts(80))]  # nearly all are x
    many = [(text, "xy"[i % 3 == 0]) for i, text in enumerate(texts(200))]
    c = toy(table(tmp_path / "a.csv", ("text", "label"), few))
    run = tmp_path / "run"
    stopped_at(c, run, 4)
    assert final_state(run).best_score > 0.8
    table(tmp_path / "a.csv", ("text", "label"), many)
    result = train.run(c, run, ["data"])
    assert config_file.load(run).optim.steps == result["step"] == 24
    lines = [line for line in read_lines(run) if line["split"] == "validation" and line["step"] > 4]
    np.testing.assert_allclose(final_state(run).best_score, max(line["accuracy"] for line in lines))
    [note] = config_file.record(run)["allowed_drift"]
    assert note["before"]["data"]["train"].startswith("48 ")
    monkeypatch.setattr(data, "load", None)  # is not needed any more
    assert train.run(c, run) == result
    assert "to 5 epochs" in extend.extend(run, 2)
    assert config_file.load(run).optim.steps == 40


@pytest.mark.usefixtures("standard_promotion")
def test_a_head_is_kept_where_the_classes_are_named(tmp_path: Path) -> None:
    rows = [(t, "xy"[i % 2]) for i, t in enumerate(texts(60))]
    c = toy(table(tmp_path / "a.csv", ("text", "label"), rows))
    c.train.epochs = 1
    train.run(c, tmp_path / "run")
    c.init_from = str(tmp_path / "run")
    start = init_from.load(c, tmp_path / "next")
    assert "head" not in start.params
    assert "data.labels=('x', 'y') keeps it" in start.notes[-1]
    c.data.labels = ("x", "y")
    assert "head" in init_from.load(c, tmp_path / "next").params
    c.data.labels = ("y", "x")
    assert "head" not in init_from.load(c, tmp_path / "next").params


def test_nothing_is_written_for_bad_data(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(HEAD + b"one,a\ntwo,a\n")
    where = tmp_path / "run"
    code, _, err = run_here(
        main, "--config=configs/fnet.py:files", f"--config.data.train={tmp_path}/a.csv", f"--workdir={where}"
    )
    assert code == 2
    assert "give rows of another class" in err
    assert not where.exists()


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_on_numbers(tmp_path: Path) -> None:
    rows = [(t, round((i % 5 - 2) / 3, 3)) for i, t in enumerate(texts(60))]
    c = toy(table(tmp_path / "a.tsv", ("text", "score"), rows))
    c.train.epochs = 1
    result = train.run(c, tmp_path / "run")
    assert {"loss", "spearman", "pearson"} <= result.keys()


@pytest.mark.usefixtures("standard_promotion")
def test_a_look_inside_takes_pairs_of_own_data(tmp_path: Path) -> None:
    rows = [(t, t[::-1], i % 2) for i, t in enumerate(texts(60))]
    file = table(tmp_path / "a.tsv", ("premise", "hypothesis", "label"), rows)
    c = shrink(config.default("attention", "files"), "")
    c.data.update({"task": "files", "train": str(file), "tokenizer": "bpe", "vocab": 60})
    c.train.epochs = 1
    train.run(c, tmp_path / "run")
    words = ("--mode=explain", f"--workdir={tmp_path / 'run'}", "--text=one")
    code, _, error = run_here(main, *words, "--text_pair=two")
    assert code == 0, error
    assert json.loads((tmp_path / "run" / "explain.json").read_text())["tokens"].count("[SEP]") == 2
    assert run_here(main, *words)[0] == 2


MEASURE = """
import sys
from pathlib import Path
from fourier_attn import config, data
c = config.default("fourier", "files").data
c.update({"train": sys.argv[1], "dir": sys.argv[2], "vocab": 300, "fit_examples": 1000})
Path(sys.argv[2]).mkdir()
splits = data.load(c, directory=Path(sys.argv[2]))
splits.fingerprints(), splits.train[0]
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's peak of a process")
def test_a_row_takes_a_few_bytes(tmp_path: Path) -> None:
    """Each with a number of its own and about 12 tokens, of two bytes: 5 million must fit into 2 GB."""
    peaks, sizes = [], (200_000, 600_000)
    for size in sizes:
        file = tmp_path / f"{size}.csv"
        with file.open("w") as written:
            written.write("text,label\n")
            written.writelines(f"a {WORDS[i % 5]} text {i},{i % 2}\n" for i in range(size))
        words = [sys.executable, "-c", MEASURE, str(file), str(tmp_path / f"run{size}")]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        peaks.append(int(done.stdout) * 1024)
    assert (peaks[1] - peaks[0]) / (sizes[1] - sizes[0]) < 100


@pytest.mark.parametrize(
    "contents",
    [
        b"text,label\n" + b"one,-1\n" * 9,
        b"text,label\n" + b"one,\n" * 9,
        b"text,label\n" + b"one, ?\n" * 9,
        b"text\n" + b"one\n" * 9,
        b'{"text": "one", "label": -1}\n' * 9,
        b'{"text": "one", "label": "-1"}\n' * 9,
        b'{"text": "one", "label": null}\n{"text": "two", "label": NaN}\n' * 9,
    ],
)
@pytest.mark.parametrize("labels", [b"01", (b"0.5", b"1.5"), b"ab"])
def test_the_forms_of_a_test_without_labels(contents: bytes, labels: Sequence[Any], tmp_path: Path) -> None:
    a, b = (label if isinstance(label, bytes) else bytes([label]) for label in labels)
    (tmp_path / "a.csv").write_bytes(
        HEAD + b"".join(b"one %d,%b\ntwo %d,%b\n" % (i, a, i, b) for i in range(9))
    )
    test = tmp_path / ("b.jsonl" if contents.startswith(b"{") else "b.csv")
    test.write_bytes(contents)
    found = user_tables.read(knobs(tmp_path / "a.csv", test=str(test)))
    assert data.hidden(found.parts["test"].labels)
    assert any("test has no labels" in note for note in found.notes)
    with pytest.raises(ValueError, match=r"label|column"):
        user_tables.read(knobs(tmp_path / "a.csv", validation=str(test)))


def test_minus_one_may_be_a_label(tmp_path: Path) -> None:
    for labels in (("-1", "1"), ("-1", "0.5")):
        rows = [(text, labels[i % 2]) for i, text in enumerate(texts(20))]
        train = table(tmp_path / "a.csv", ("text", "label"), rows)
        test = table(tmp_path / "b.csv", ("text", "label"), [("one", "-1"), ("two", labels[1])])
        found = user_tables.read(knobs(train, test=str(test)))
        assert not any("no labels" in note for note in found.notes)
        assert found.parts["test"].labels.tolist() == ([0, 1] if found.labels else [-1, 0.5])


@pytest.mark.parametrize(
    ("name", "labels", "pair"),
    [
        ("a.jsonl", (True, 0), "'true' and '0'|'0' and 'true'|'true' and '1'"),
        ("a.jsonl", (True, False, 1), "'true' and '1'"),
        ("a.jsonl", (1, 1.0, 2), "'1' and '1.0'"),
        ("a.csv", ("1", "01", "2"), "'1' and '01'"),
        ("a.csv", ("pos", "Pos", "neg"), "'pos' and 'Pos'"),
        ("a.csv", ("New York", "New\u00a0York", "x"), "look like two spellings of one label"),
        ("a.csv", ("caf\u00e9", "cafe\u0301", "x"), "look like two spellings of one label"),
        ("a.csv", ("True", "1", "False"), "'True' and '1'"),
    ],
)
def test_one_label_in_two_spellings(name: str, labels: tuple, pair: str, tmp_path: Path) -> None:
    rows = [(text, labels[i % len(labels)]) for i, text in enumerate(texts(30))]
    file = table(tmp_path / name, ("text", "label"), rows)
    if pair.startswith("'true' and '0'"):
        assert len(user_tables.read(knobs(file)).labels) == 2  # true and 0 say nothing of each other
        return
    with pytest.raises(ValueError, match=f"{pair}.*list all classes in data.labels|{pair}"):
        user_tables.read(knobs(file))
    if name == "a.csv":
        assert user_tables.read(knobs(file, labels=labels)).labels == labels


def test_blanks_around_a_label_are_no_spelling(tmp_path: Path) -> None:
    rows = [(text, (" pos", "pos", "neg ", "neg")[i % 4]) for i, text in enumerate(texts(20))]
    assert user_tables.read(knobs(table(tmp_path / "a.csv", ("text", "label"), rows))).labels == (
        "neg",
        "pos",
    )
    mixed = [(text, ("1", "2.5", "1.0")[i % 3]) for i, text in enumerate(texts(20))]
    assert user_tables.read(knobs(table(tmp_path / "b.csv", ("text", "label"), mixed))).labels == ()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            ("text", "stars", "topic"),
            "the label column is ambiguous .topic, stars.; set data.label",
        ),
        (
            ("review", "content", "label"),
            "the text column is ambiguous .review, content.; set data.text",
        ),
        (("Text", "Label", "stars"), None),
        (("Text", "Sentiment", "id"), None),
    ],
)
def test_columns_that_may_be_meant(header: tuple[str, ...], message: str | None, tmp_path: Path) -> None:
    rows = [(text, ("x", "y")[i % 2], ("x", "y")[i % 2]) for i, text in enumerate(texts(20))]
    file = table(tmp_path / "a.csv", header, rows)
    if message:
        with pytest.raises(ValueError, match=message):
            user_tables.check_available(knobs(file))
        return
    found = user_tables.read(knobs(file))
    assert found.columns == (header[0], "", header[1])
    expected = f"columns text: {header[0]}, label: {header[1]}; not used: '{header[2]}'"
    assert found.notes[:2] == (expected, f"classes x {6}, y {6}")


def test_what_is_said_of_classes(tmp_path: Path) -> None:
    def notes(*labels: str) -> str:
        rows = [(text, labels[i % len(labels)]) for i, text in enumerate(texts(40))]
        return "\n".join(user_tables.read(knobs(table(tmp_path / "a.csv", ("text", "label"), rows))).notes)

    assert "the whole numbers in label are used as 3 classes; for regression" in notes("1", "2", "3")
    assert "all labels are whole numbers; for classification" in notes("1.0", "2.0", "3.0")
    assert "'bug;ui' in label is treated as one class" in notes("bug", "ui", "bug;ui")
    assert "multi-label" not in notes("no, never", "yes, often")
    assert "and 10 smaller ones" in notes(*(f"c{i}" for i in range(30)))
    (tmp_path / "a.jsonl").write_text('{"text": "one", "label": ["a", "b"]}\n')
    with pytest.raises(
        ValueError,
        match=r"the label label must be one string or number, not .* set data.label to another column",
    ):
        user_tables.read(knobs(tmp_path / "a.jsonl"))


def test_rows_that_are_no_rows(tmp_path: Path) -> None:
    bom = b"\xef\xbb\xbf"
    (tmp_path / "a.csv").write_bytes(bom + HEAD + GOOD + bom + b"Label, Text\n" + GOOD)
    with pytest.raises(ValueError, match="line 22 repeats the header"):
        user_tables.read(knobs(tmp_path / "a.csv"))
    (tmp_path / "a.jsonl").write_bytes((bom + b'{"text": "one", "label": "a"}\n') * 2)
    assert [row.values["text"] for row in read_rows(tmp_path / "a.jsonl")] == ["one", "one"]
    (tmp_path / "b.csv").write_bytes(HEAD + GOOD + b",\n , \n" + b"--,a\n")
    found = user_tables.read(knobs(tmp_path / "b.csv"))
    assert sum(map(len, found.parts.values())) == 21
    assert "train: 1 of 21 texts have neither a letter nor a digit" in found.notes


def test_a_header_of_many_columns(tmp_path: Path) -> None:
    """Names are compared in linear time, and a message lists a few."""
    names = [f"column {i}" for i in range(30_000)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + "," * len(names) + "x\n")
    with pytest.raises(ValueError, match="line 2 has 30001 columns"):
        user_tables.read(knobs(tmp_path / "a.csv"))
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + "x" + "," * (len(names) - 1) + "\n")
    with pytest.raises(ValueError, match="cannot find the label column of .* and 29,980 more") as error:
        user_tables.read(knobs(tmp_path / "a.csv"))
    assert len(str(error.value)) < 1000


def test_a_row_can_be_found_again_and_cut_texts_are_counted(tmp_path: Path) -> None:
    rows = [(f"text {i}" + " more" * (i % 4) * 9, ("no", "yes")[i % 2]) for i in range(40)]
    file = table(tmp_path / "a.csv", ("text", "label"), rows)
    (tmp_path / "run").mkdir()
    first, splits = (data.load(knobs(file, length=12), directory=tmp_path / "run") for _ in range(2))
    for found in (first, splits):  # read, then kept
        cut = sum(len(row) == 12 for row in found.train.rows)
        assert found.notes[-1] == f"train: {cut} of 24 texts ({cut / 24:.1%}) are cut at data.length=12"
        assert len(found.origins["test"]) == 8
        for origin, label in zip(found.origins["test"], found.test.labels, strict=True):
            assert origin.file == str(file)
            assert rows[(origin.row or 0) - 1][1] == ("no", "yes")[label]
    answers = np.tile([0.25, 0.75], (8, 1))
    task = data.task_of(knobs(file, labels=("no", "yes")))
    evaluate.write_predictions(tmp_path / "p.jsonl", task, answers, splits.test, splits.origins["test"])
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == [origin.row for origin in splits.origins["test"]]
    assert {line["file"] for line in lines} == {str(file)}
