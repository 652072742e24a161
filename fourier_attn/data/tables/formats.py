"""Reads tables row by row: CSV, TSV, JSON lines, Parquet and Arrow.

Only one line, or one batch of Parquet, is in memory at a time.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn import extras
from fourier_attn.data.tables import files

ENDS = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")
COLUMNAR = (".parquet", ".arrow")
PACKED = (".gz", ".xz")
WHITE = " \t\n\r\v\f"  # lines with only these characters are empty
BATCH = 4096  # number of rows of a batch of Parquet
COLUMN = ".column"  # one column: TSV whose cells may be quoted as in CSV
SEPARATORS = (";", "\t", "|")  # in a .csv without a comma in its first line, as spreadsheets may write it
SEPARATION = re.compile(r'"?sep=(.)"?')  # a line with the separator, which spreadsheets write first


class Row(NamedTuple):
    """Holds a row of a table.

    Args:
      where: its place, for messages.
      values: its values by column; None: missing.
      number: number of its line, or of the row in Parquet and Arrow, from 1.
      error: message for an invalid row; "": valid.
    """

    where: str
    values: dict[str, Any]
    number: int
    error: str = ""


def kind(path: Path) -> str:
    """Returns the ending of a table's name without that of the compression, for example ".csv".

    Raises: ValueError for an unknown format.
    """
    end = files.ending(path.with_suffix("") if files.ending(path) in PACKED else path)
    if end not in ENDS:
        raise ValueError(
            f"{path} is not a readable table; its name must end in {', '.join(ENDS[:3])} "
            f"(also {' or '.join(PACKED)}), {ENDS[3]} or {ENDS[4]}"
        )
    return end


def separated(file: Any, name: str, end: str) -> Iterator[Row]:
    """Yields the rows of an open CSV or TSV file.

    Args:
      file: the open file.
      name: its name, for messages.
      end: ".csv", ".tsv" or `COLUMN`.
    Raises: ValueError for a file that is not such a table.
    """
    csv.field_size_limit(files.TEXT)  # the limit of any line; Python's default is 131,072 characters
    lines = (f"{line}\n" for _, line in files.decoded(file, name, files.OWN.rows))
    header: list[str] = []
    again: set[str] = set()
    line = 0
    first, skipped, separator = _first_line(lines, end)
    if end == ".tsv":
        reader = csv.reader(_chain(first, lines), delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        separator = "\t" if end == COLUMN else separator
        reader = csv.reader(_chain(first, lines), strict=True, delimiter=separator)
    try:
        for cells in reader:
            number, line = line + skipped + 1, reader.line_num
            where = f"{name}, line {number}"
            if not any(map(str.strip, cells)):
                continue
            if not header:
                header = _header(cells, where)
                again = {*map(_plain, header)}
                continue
            error = ""
            if len(cells) != len(header):
                error = (
                    f"has {len(cells)} columns instead of the {len(header)} of the first line "
                    f"({', '.join(header)[:80]}); fix that line"
                )
            elif _plain(cells[0]) in again and len(header) > 1 and {*map(_plain, cells)} == again:
                error = "repeats the header (were two tables concatenated?); remove that line"
            yield Row(where, dict(zip(header, cells, strict=False)), number, error)
    except csv.Error as error:
        raise ValueError(
            f"{name}, line {line + skipped + 1} is not a valid row ({error}); double the quotes inside a "
            f"quoted text, and close each quote{', or send JSON lines' if end == COLUMN else ''}"
        ) from error


def _first_line(lines: Iterator[str], end: str) -> tuple[str, int, str]:
    """Returns the line with the names of the columns, the number of lines before it, and the separator."""
    skipped, said = 0, ""
    for line in lines:
        if end == ".csv" and not said and (sep := SEPARATION.fullmatch(line.strip())):
            said = sep[1]
        elif line.strip():
            return line, skipped, said or _separator(line)
        skipped += 1
    return "", skipped, ","


def _separator(line: str) -> str:
    bare = re.sub(r'"[^"]*"', "", line)
    return next((sep for sep in SEPARATORS if sep in bare and "," not in bare), ",")


def cells(line: str) -> list[str]:
    """Returns the cells of a line of CSV, separated by commas or, without a comma, by `SEPARATORS`."""
    try:
        return next(csv.reader([line], delimiter=_separator(line), strict=True), [])
    except csv.Error:
        return [line]


def _chain(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


def _plain(cell: str) -> str:
    return cell.strip().lower()


def _header(cells: list[str], where: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"{where} has the column {name!r} twice; give each column a different name")
    return names


def objects(file: Any, name: str) -> Iterator[Row]:
    """Yields the rows of an open file of JSON lines; a line with a JSON string is the column "text"."""
    for number, line, error in files.checked_lines(file, name):
        if error or line.strip(WHITE):
            values, error = ({}, error) if error else _object(line)
            yield Row(f"{name}, line {number}", values, number, error)


def _object(line: str) -> tuple[dict[str, Any], str]:
    """Returns the values of a JSON object or string, and an error message for any other line (else "")."""
    try:
        values = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        return {}, f"is not a JSON object ({error}); fix that line"
    if isinstance(values, str):
        values = {"text": values}
    if not isinstance(values, dict):
        return {}, f"must be a JSON object, not {line[:40]!r}; fix that line"
    return values, ""


def texts(file: Any, name: str, column: str) -> Iterator[Row]:
    """Yields the lines of an open file as a table with one column.

    Args:
      file: the open file.
      name: its name, for messages.
      column: name of the column.
    """
    for number, line, error in files.checked_lines(file, name):
        if error or line.strip(WHITE):
            yield Row(f"{name}, line {number}", {column: line}, number, error)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key occurs twice")
    return values


def columnar(file: Any, name: str, end: str) -> Iterator[Row]:
    """Yields the rows of an open Parquet file, or of Arrow's stream, which the library `datasets` writes.

    Args:
      file: the open file.
      name: its name, for messages.
      end: ".parquet" or ".arrow".
    Raises: ValueError for a damaged file, and without the package pyarrow.
    """
    try:
        import pyarrow
        from pyarrow import ipc, parquet
    except ImportError as error:
        raise ValueError(
            f"{name} needs the package pyarrow; {extras.install('parquet')}, or convert the file to .jsonl"
        ) from error
    number = 0
    try:
        opened: Any = parquet.ParquetFile(file) if end == ".parquet" else ipc.open_stream(file)
        for batch in opened.iter_batches(BATCH) if end == ".parquet" else opened:
            for values in batch.to_pylist():
                number += 1
                yield Row(f"{name}, row {number}", values, number)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{name} cannot be read after row {number} ({str(error)[:200]}); write it again"
        ) from error
