"""Detects the format of a stream from its name or its first line, and reads its rows."""

import contextlib
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fourier_attn.data.tables import files, formats

PACKED = ((b"\x1f\x8b", ".gz"), (b"\xfd7zXZ\0", ".xz"))  # first bytes of compressed files
MAGIC = ((b"PAR1", ".parquet"), (b"\xff\xff\xff\xff", ".arrow"))
ENDS = {".csv": ".csv", ".tsv": ".tsv", ".jsonl": ".jsonl", ".ndjson": ".jsonl", ".txt": ".txt"}
# Names in a line that looks like a header.
NAMES = re.compile(r"\w[\w.-]*")


def read_stream(
    file: Any, path: Path, name: str, needed: Mapping[str, Sequence[str]]
) -> tuple[Iterator[formats.Row], bool]:
    """Returns the rows of an open stream, and whether each row has its own columns, as in JSON lines.

    Args:
      file: the open stream.
      path: its path; the ending may determine the format.
      name: its name, for messages.
      needed: for each input the possible names of its column.
    Raises: ValueError for a stream of unknown format, or that cannot be decompressed.
    """
    stream, line = _begun(file, name)
    if suffix := next((end for magic, end in PACKED if line.startswith(magic)), ""):
        stream, line = _begun(files.unpack(stream, suffix), name)
    end = _format(path, line, name, needed)
    if end == ".txt" and len(needed) > 1:
        raise ValueError(f"{name} has one text in each line; give a table with {' and '.join(needed)}")
    return _rows(stream, name, end, next(iter(needed))), end == ".jsonl"


def _begun(file: Any, name: str) -> tuple[Any, bytes]:
    """Returns a file at its beginning, and its first line that is not empty. Raises: ValueError."""
    with _reading(name):
        head = line = file.readline(2**16)
        while line and not line.strip() and len(head) < 2**20:
            line = file.readline(2**16)
            head += line
    return io.BufferedReader(_Rejoined(head, file)), line.removeprefix(files.BOM)


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turns errors of reading and decompressing into a ValueError."""
    try:
        yield
    except files.DAMAGED as error:
        raise ValueError(f"{name} cannot be read ({error}); get it again") from error


class _Rejoined(io.RawIOBase):
    """Reads some bytes that were read ahead, then the rest of a file.

    Args:
      head: the bytes.
      file: the file.
    """

    def __init__(self, head: bytes, file: Any):
        self.head, self.file = head, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes into `buffer`, and returns their number."""
        piece = self.head[: len(buffer)] or self.file.read1(len(buffer))
        self.head = self.head[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)


def _format(path: Path, line: bytes, name: str, needed: Mapping[str, Sequence[str]]) -> str:
    """Returns the ending of the format, from the name or from the first line.

    Args:
      path: path of the stream.
      line: its first line.
      name: its name, for messages.
      needed: for each input the possible names of its column.
    """
    bare = path.with_suffix("") if files.ending(path) in formats.PACKED else path
    end = ENDS.get(files.ending(bare), files.ending(bare))
    if end in formats.ENDS:
        return end
    if kind := next((kind for magic, kind in MAGIC if line.startswith(magic)), ""):
        return kind
    text = line.decode("utf-8", "replace").strip()
    if end == ".txt":
        return end
    return ".jsonl" if text.startswith("{") else _format_of(text, name, needed)


def _format_of(text: str, name: str, needed: Mapping[str, Sequence[str]]) -> str:
    """Returns the ending of the format from the first line.

    Args:
      text: the first line.
      name: name of the stream, for messages.
      needed: for each input the possible names of its column.
    Raises: ValueError for an unclear format.
    """
    if formats.SEPARATION.fullmatch(text):
        return ".csv"
    tabs, cells = text.split("\t"), formats.cells(text)
    [first, *others] = needed.values()
    if len(tabs) == len(cells) == 1 and not others and find_column(cells, first) is not None:
        return formats.COLUMN
    for kind, names in ((".tsv", tabs), (".csv", cells)):
        if all(find_column(names, called) is not None for called in needed.values()):
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


def find_column(values: Collection[str], names: Sequence[str]) -> str | None:
    """Returns the first column with one of the names, preferably in the same case; None without one."""
    for name in names:
        if name in values:
            return name
    plain = {str(column).strip().lower(): column for column in values}
    return next((plain[name.lower()] for name in names if name.lower() in plain), None)


def _rows(stream: Any, name: str, end: str, column: str) -> Iterator[formats.Row]:
    """Yields the rows of a stream.

    Args:
      stream: the open stream.
      name: its name, for messages.
      end: ending of the format.
      column: name of the only column of a file of texts.
    """
    if end == ".txt":
        yield from formats.texts(stream, name, column)
    elif end == ".jsonl":
        yield from formats.objects(stream, name)
    elif end in formats.COLUMNAR:
        yield from formats.columnar(io.BytesIO(_all(stream, name)), name, end)
    else:
        yield from formats.separated(stream, name, end)


def _all(stream: Any, name: str) -> bytes:
    with _reading(name):
        contents = stream.read(files.UNPACKED + 1)
    if len(contents) > files.UNPACKED:
        raise ValueError(
            f"{name} has more than {files.UNPACKED:,} bytes; write it as .jsonl, which is read by line"
        )
    return contents
