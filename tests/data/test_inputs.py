"""What a prediction is asked: files, pipes and standard input, in every form that training reads."""

import gzip
import io
import json
import lzma
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fourier_attn.data.tables import sniffing
from fourier_attn.data.tables.inputs import read_inputs

ASKED = {"text": ("message", "text"), "label": ("topic",)}
TEXTS = ["a film, good", 'a "dull" one']
CSV = b'id,Message,topic\n1,"a film, good",x\n2,"a ""dull"" one",y\n'
JSON = "".join(
    json.dumps({"message": text, "topic": topic}) + "\n" for text, topic in zip(TEXTS, "xy", strict=True)
)
FORMS = {
    "csv": ("a.csv", CSV),
    "semicolons": ("a.csv", b"\xef\xbb\xbfmessage;topic\na film, good;x\n\"a \"\"dull\"\" one\";y\n"),
    "sep": ("a.csv", b"sep=|\r\nmessage|topic\r\na film, good|x\r\n\"a \"\"dull\"\" one\"|y\r\n"),
    "tsv": ("a.TSV", b'message\ttopic\na film, good\tx\na "dull" one\ty\n'),
    "jsonl": ("a.jsonl", JSON.encode()),
    "ndjson": ("a.ndjson", JSON.encode()),
    "one column": ("a.csv", b'message\n"a film, good"\n"a ""dull"" one"\n'),
    "commas": ("commas", b'message\na film, good\n"a ""dull"" one"\n'),
    "texts of json": ("a.json", "".join(json.dumps(text) + "\n" for text in TEXTS).encode()),
    "texts": ("a.txt", "\n".join([*TEXTS, "", " "]).encode()),
    "gz": ("a.csv.GZ", gzip.compress(CSV)),
    "xz": ("a.jsonl.xz", lzma.compress(JSON.encode())),
}  # fmt: skip


def found(source: Any) -> list[str]:
    rows = [*read_inputs(source, ASKED, optional=("label",))]
    assert not [row.error for row in rows if row.error]
    assert [row.values.get("label") for row in rows] in (["x", "y"], [None, None])
    return [row.values["text"] for row in rows]


def from_pipe(where: Path, contents: bytes) -> str:
    """Returns the name of a pipe into which another thread writes."""
    path = where / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(contents,), daemon=True).start()
    return str(path)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_a_pipe_and_standard_input(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, contents = FORMS[form]
    (tmp_path / name).write_bytes(contents)
    (tmp_path / "unnamed").write_bytes(contents)
    assert found(tmp_path / name) == found(tmp_path / "unnamed") == TEXTS
    assert found(from_pipe(tmp_path, contents)) == TEXTS
    for source in ("-", "/dev/stdin"):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(contents)))
        assert found(source) == TEXTS


def test_lines_of_a_txt_file_are_texts_even_if_they_begin_with_a_brace(tmp_path: Path) -> None:
    lines = ['{"message": "a"}', "{b} c"]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    assert found(tmp_path / "a.txt") == lines


def test_a_stream_with_one_column_has_no_tabs_and_closes_its_quotes(tmp_path: Path) -> None:
    (tmp_path / "unnamed").write_text("message\nbad\t0\n")
    [row] = read_inputs(tmp_path / "unnamed", ASKED, optional=("label",))
    assert row.error.startswith("has 2 columns instead of the 1 of the first line")
    for line in ('"Great" film', '"Great film'):
        (tmp_path / "unnamed").write_text(f"message\n{line}\n")
        with pytest.raises(ValueError, match="line 2 is not a valid row .*, or send JSON lines"):
            list(read_inputs(tmp_path / "unnamed", ASKED, optional=("label",)))


def test_columns_of_arrow(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    folder = tmp_path / "test"
    folder.mkdir()
    values = pyarrow.table({"message": TEXTS, "topic": ["x", "y"]})
    parquet.write_table(values, folder / "a.parquet")
    with ipc.new_stream(tmp_path / "a.arrow", values.schema) as file:
        file.write_table(values)
    for source in (folder, folder / "a.parquet", tmp_path / "a.arrow"):
        assert found(source) == TEXTS
    for number, source in enumerate((folder / "a.parquet", tmp_path / "a.arrow")):
        (tmp_path / str(number)).mkdir()
        assert found(from_pipe(tmp_path / str(number), source.read_bytes())) == TEXTS


def test_where_a_row_stands(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'text,label\n"one\nline",x\n\nother,y\n')
    rows = [*read_inputs(tmp_path / "a.csv", {"text": ("text",)})]
    assert [(row.number, row.values["text"]) for row in rows] == [(2, "one\nline"), (5, "other")]
    assert rows[1].where == f"{tmp_path / 'a.csv'}, line 5"


def test_a_bad_row_does_not_end_the_reading(tmp_path: Path) -> None:
    bad = (
        b'{"text": "a"}\nnone\n{"x": 1}\n[1]\n{"text": "\xff"}\n{"text": "'
        + b"x" * 2**24
        + b'"}\n{"text": "b"}\n'
    )
    (tmp_path / "a.jsonl").write_bytes(bad)
    (tmp_path / "a.csv").write_bytes(b"text,label\na,1\nb,c,d\ntext,label\nb,1\n")
    (tmp_path / "a.txt").write_bytes(b"a\n\xff\nb\n")
    for name, count in (("a.jsonl", 5), ("a.csv", 2), ("a.txt", 1)):
        rows = [*read_inputs(tmp_path / name, {"text": ("text",)})]
        assert [row.values["text"] for row in rows if not row.error] == ["a", "b"]
        assert len([row for row in rows if row.error]) == count


def plain(contents: bytes) -> Callable[[Path], Path]:
    def write(where: Path) -> Path:
        (where / "unnamed").write_bytes(contents)
        return where / "unnamed"

    return write


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda where: where / "none", "none does not exist; give a table"),
        (plain(b"msg,lab\na,b\n"), "'msg,lab', which looks like a table header without the column message"),
        (plain(b'[{"text": "a"}]\n'), "is a JSON array; write one object in each line"),
        (plain(gzip.compress(b"a\nb\n")[:-6]), "unnamed cannot be read after line"),
        (plain(gzip.compress(b"a\nb\n")[:12]), r"unnamed cannot be read \(Compressed file ended"),
        (plain(b"\x1f\x8bxx" + b"a" * 99), r"unnamed cannot be read \(Unknown compression"),
        (plain(gzip.compress(b"PAR1" + b"a" * 99)[:-9]), "unnamed cannot be read "),
        (
            lambda where: plain(b"text\na\n")(where).rename(where / "a.csv.gz"),
            r"a.csv.gz cannot be read \(Not a gzipped file",
        ),
    ],
)
def test_what_cannot_be_read(make: Callable[[Path], Path], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_inputs(make(tmp_path), ASKED, optional=("label",)))


def test_a_table_without_the_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(ValueError, match="a.csv has no 'message', but 'a', 'b'; use the column names"):
        list(read_inputs(tmp_path / "a.csv", {"text": ("message",)}))
    (tmp_path / "a.txt").write_bytes(b"one\n")
    with pytest.raises(
        ValueError, match=r"a.txt has one text in each line; give a table with text and label"
    ):
        list(read_inputs(tmp_path / "a.txt", ASKED))


def test_a_stream_is_read_as_it_comes() -> None:
    """The first answer does not wait for the end of a stream."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb", buffering=0) as out, os.fdopen(reader, "rb") as file:
        out.write(b'{"text": "a"}\n')
        stream, line = sniffing._begun(file, "a pipe")
        assert line == b'{"text": "a"}\n'
        assert stream.readline() == line
