"""The inputs of a prediction, from all that training reads and from streams, one after the other."""

import contextlib
import io
import json
import re
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn import paths
from fourier_attn.data.tables import files, formats
from fourier_attn.data.tables.rows import read_rows

STDIN = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
PACKED = ((b"\x1f\x8b", ".gz"), (b"\xfd7zXZ\0", ".xz"))  # how packed files begin
MAGIC = ((b"PAR1", ".parquet"), (b"\xff\xff\xff\xff", ".arrow"))
ENDS = {".csv": ".csv", ".tsv": ".tsv", ".jsonl": ".jsonl", ".ndjson": ".jsonl", ".txt": ".txt"}
# What a column may be called, where nothing else says that a line is a header.
NAMES = re.compile(r"\w[\w.-]*")


class Input(NamedTuple):
    """What one line or row asks.

    Args:
      number: of the line, or of the row in Parquet and Arrow, from 1.
      where: it stands, for messages: "new.csv, line 3".
      values: by the names that `read_inputs` was asked for; without those that are optional and missing.
      error: why it cannot be used, after `where` in a message; "": it can, as far as reading can say.
    """

    number: int
    where: str
    values: dict[str, Any]
    error: str = ""


def read_inputs(
    source: str | Path, columns: Mapping[str, Sequence[str]], optional: Collection[str] = ()
) -> Iterator[Input]:
    """Reads inputs from a file, a folder of a split, a pipe or standard input, a few at a time.

        asked = {"text": ("message", "text"), "label": ("topic", "label")}
        for number, where, values, error in read_inputs("new.csv", asked, optional=("label",)):

    A source is what training reads (CSV, TSV, JSON lines, Parquet, Arrow, a folder of Parquet or Arrow), or
    texts, one in each line (.txt). All may be packed (.gz, .xz). "-" is standard input, as is /dev/stdin.
    These two, named pipes, /dev/fd/N and files with another ending are read by what they hold: JSON lines
    begin with { or ", tables with a line that has the columns asked for, and anything else is texts.

    Args:
      source: its name.
      columns: what is asked for: name -> how its column may be called, the likeliest first. A JSON text or a
        line of text alone is the first name.
      optional: names that rows need not have.
    Raises: ValueError that names the source and the cure for what cannot be read on. A row that is bad by
      itself does not end the reading: it has an `error`.
    """
    name = "standard input" if str(source) in STDIN else str(source)
    path = Path() if str(source) in STDIN else paths.given(source)
    if path.is_dir() and str(source) not in STDIN:
        yield from _named(read_rows(path), name, columns, optional, False)
        return
    needed = [asked for asked in columns if asked not in optional]
    with _opened(str(source), path) as file:
        stream, line = _begun(file, name)
        if suffix := next((end for magic, end in PACKED if line.startswith(magic)), ""):
            stream, line = _begun(files.unpack(stream, suffix), name)
        end = _format(path, line, name, {asked: (*columns[asked], asked) for asked in needed})
        if end == ".txt" and len(needed) > 1:
            raise ValueError(f"{name} has one text in each line; give a table with {' and '.join(needed)}")
        rows = _rows(stream, name, end, needed[0])
        yield from _named(rows, name, columns, optional, end == ".jsonl")


def _begun(file: Any, name: str) -> tuple[Any, bytes]:
    """Returns a file and its first line that is not empty, which is still to be read. Raises: ValueError."""
    with _sound(name):
        head = line = file.readline(2**16)
        while line and not line.strip() and len(head) < 2**20:
            line = file.readline(2**16)
            head += line
    return io.BufferedReader(_Rejoined(head, file)), line.removeprefix(files.BOM)


@contextlib.contextmanager
def _sound(name: str) -> Iterator[None]:
    """Raises: ValueError for a packed file that turns out to be damaged, or whose reading fails."""
    try:
        yield
    except files.DAMAGED as error:
        raise ValueError(f"{name} cannot be read ({error}); get it again") from error


class _Rejoined(io.RawIOBase):
    """Reads what was read ahead, then the rest of a file."""

    def __init__(self, head: bytes, file: Any):
        self.head, self.file = head, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self.head[: len(buffer)] or self.file.read1(len(buffer))
        self.head = self.head[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)


def _format(path: Path, line: bytes, name: str, needed: Mapping[str, Sequence[str]]) -> str:
    """Returns the ending that a source should have: that of its name, or by its first line."""
    bare = path.with_suffix("") if files.ending(path) in formats.PACKED else path
    end = ENDS.get(files.ending(bare), files.ending(bare))
    if end in formats.ENDS:
        return end
    if found := next((kind for magic, kind in MAGIC if line.startswith(magic)), ""):
        return found
    text = line.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        return ".jsonl"
    return end if end == ".txt" else _format_of(text, name, needed)


def _format_of(text: str, name: str, needed: Mapping[str, Sequence[str]]) -> str:
    """Returns the ending that says what begins with this line. Raises: ValueError where it is not clear."""
    if formats.SEPARATION.fullmatch(text):
        return ".csv"
    tabs, cells = text.split("\t"), formats.cells(text)
    for kind, names in ((".tsv", tabs), (".csv", cells)):
        if all(_column(names, called) is not None for called in needed.values()):
            return kind
    if _is_json(text, str):
        return ".jsonl"
    if _is_json(text, list):
        raise ValueError(f"{name} is a JSON array; write one object in each line")
    names = max(tabs, cells, key=len)
    if len(names) > 1 and all(NAMES.fullmatch(cell) for cell in names):
        wanted = " and ".join(f"the column {called[0]}" for called in needed.values())
        raise ValueError(
            f"{name} begins with {text[:60]!r}, which looks like a table header without {wanted}; "
            "add what is missing, or rename the file to .txt if each line is a text"
        )
    return ".txt"


def _is_json(text: str, kind: type) -> bool:
    try:
        return isinstance(json.loads(text), kind)
    except (ValueError, RecursionError):
        return False


def _rows(stream: Any, name: str, end: str, first: str) -> Iterator[formats.Row]:
    if end == ".txt":
        yield from _texts(stream, name, first)
    elif end == ".jsonl":
        yield from formats.objects(stream, name)
    elif end in formats.COLUMNAR:
        yield from formats.columnar(io.BytesIO(_all(stream, name)), name, end)
    else:
        yield from formats.separated(stream, name, end)


def _all(stream: Any, name: str) -> bytes:
    with _sound(name):
        contents = stream.read(files.UNPACKED + 1)
    if len(contents) > files.UNPACKED:
        raise ValueError(
            f"{name} has more than {files.UNPACKED:,} bytes; write it as .jsonl, which is read by line"
        )
    return contents


def _texts(stream: Any, name: str, first: str) -> Iterator[formats.Row]:
    number = 0
    try:
        for number, line in files.numbered(stream):
            if not line.strip():
                continue
            where, error, text = f"{name}, line {number}", "", ""
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as damage:
                error = f"is not UTF-8 ({damage.reason} at byte {damage.start}); convert the file"
            if len(line) > files.TEXT:
                error = f"has more than {files.TEXT:,} bytes; shorten its text"
            yield formats.Row(where, {first: text}, number, error)
    except files.DAMAGED as error:
        raise ValueError(f"{name} cannot be read beyond line {number} ({error}); get it again") from error


def _named(
    rows: Iterator[formats.Row],
    name: str,
    columns: Mapping[str, Sequence[str]],
    optional: Collection[str],
    free: bool,
) -> Iterator[Input]:
    """Gives the values of rows the names that were asked for.

    Args:
      free: whether each row has its own columns, as in JSON lines.
    """
    for where, values, number, error in rows:
        found = {asked: _column(values, (*names, asked)) for asked, names in columns.items()}
        missing = [asked for asked, column in found.items() if column is None and asked not in optional]
        if error:
            yield Input(number, where, {}, error)
        elif missing:
            wanted = " and ".join(repr((*columns[asked], asked)[0]) for asked in missing)
            lacks = f"has no {wanted}, but {', '.join(map(repr, list(values)[:20]))}"
            if not free:
                raise ValueError(f"{name} {lacks}; give the columns the names of the training data")
            yield Input(number, where, {}, f"{lacks}; fix that line")
        else:
            picked = {asked: values[column] for asked, column in found.items() if column is not None}
            yield Input(number, where, picked)


def _column(values: Collection[str], names: Sequence[str]) -> str | None:
    """Returns the first of the names that is a column, or is one but for its capitals."""
    for name in names:
        if name in values:
            return name
    plain = {str(column).strip().lower(): column for column in values}
    return next((plain[name.lower()] for name in names if name.lower() in plain), None)


@contextlib.contextmanager
def _opened(source: str, path: Path) -> Iterator[Any]:
    """Opens what a user names: also a pipe, which waits for its writer, and standard input."""
    if source in STDIN:
        yield sys.stdin.buffer
        return
    if not path.exists():
        raise ValueError(f"{source} does not exist; name a table, a file of texts, or - for standard input")
    if stat.S_ISREG(path.stat().st_mode):
        with files.unpacked(path, path, files.OWN) as file:
            yield file
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise ValueError(f"{source} cannot be opened ({error.strerror}); name another file") from error
    with file:
        yield file
