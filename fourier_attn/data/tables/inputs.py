"""Reads the inputs of a prediction, one after the other, from files and streams."""

import contextlib
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn import paths
from fourier_attn.data.tables import files, formats
from fourier_attn.data.tables.rows import read_rows
from fourier_attn.data.tables.sniffing import find_column, read_stream

STDIN = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


class Input(NamedTuple):
    """Holds the inputs in one line or row.

    Args:
      number: number of the line, or of the row in Parquet and Arrow, from 1.
      where: its place, for messages, for example "new.csv, line 3".
      values: values by the names that were given to `read_inputs`, without missing optional ones.
      error: message for an invalid row, which follows `where`; "": valid.
    """

    number: int
    where: str
    values: dict[str, Any]
    error: str = ""


def read_inputs(
    source: str | Path, columns: Mapping[str, Sequence[str]], optional: Collection[str] = ()
) -> Iterator[Input]:
    """Yields inputs from a file, a folder of a split, a pipe or standard input.

        asked = {"text": ("message", "text"), "label": ("topic", "label")}
        for number, where, values, error in read_inputs("new.csv", asked, optional=("label",)):

    A source is any file that training reads (CSV, TSV, JSON lines, Parquet, Arrow, a folder of Parquet or
    Arrow), or a file with one text in each line (.txt). All may be compressed (.gz, .xz). "-" and /dev/stdin
    are standard input.

    The format of standard input, named pipes, /dev/fd/N and files with other endings is detected from the
    contents. JSON lines begin with { or ", tables with a line that has the columns, and any other file has
    one text in each line.

    Args:
      source: name of the source.
      columns: for each input the possible names of its column, the likeliest first. A JSON string or a line
        of text is the first input.
      optional: inputs that rows may lack; default none.
    Raises: ValueError that names the source and the cure if it cannot be read further. An invalid row does
      not stop the reading, but has an `error`.
    """
    name = "standard input" if str(source) in STDIN else str(source)
    path = Path() if str(source) in STDIN else paths.given(source)
    if path.is_dir() and str(source) not in STDIN:
        yield from _named(read_rows(path), name, columns, optional, False)
        return
    needed = {asked: (*names, asked) for asked, names in columns.items() if asked not in optional}
    with opened(str(source), path) as file:
        rows, free = read_stream(file, path, name, needed)
        yield from _named(rows, name, columns, optional, free)


def _named(
    rows: Iterator[formats.Row],
    name: str,
    columns: Mapping[str, Sequence[str]],
    optional: Collection[str],
    free: bool,
) -> Iterator[Input]:
    """Yields rows with the names of inputs instead of those of columns.

    Args:
      rows: the rows.
      name: name of the source, for messages.
      columns, optional: see `read_inputs`.
      free: whether each row has its own columns, as in JSON lines.
    Raises: ValueError for a table that lacks a column.
    """
    for where, values, number, error in rows:
        chosen = {asked: find_column(values, (*names, asked)) for asked, names in columns.items()}
        missing = [asked for asked, column in chosen.items() if column is None and asked not in optional]
        if error:
            yield Input(number, where, {}, error)
        elif missing:
            wanted = " and ".join(repr((*columns[asked], asked)[0]) for asked in missing)
            lacks = f"has no {wanted}, but {', '.join(map(repr, list(values)[:20]))}"
            if not free:
                raise ValueError(f"{name} {lacks}; use the column names of the training data")
            yield Input(number, where, {}, f"{lacks}; fix that line")
        else:
            picked = {asked: values[column] for asked, column in chosen.items() if column is not None}
            yield Input(number, where, picked)


@contextlib.contextmanager
def opened(source: str, path: Path) -> Iterator[Any]:
    """Opens a source for reading: a file, standard input, or a pipe, which waits for its writer.

    Args:
      source: name of the source.
      path: the same as a path.
    Raises: ValueError if it does not exist or cannot be opened.
    """
    if source in STDIN:
        yield sys.stdin.buffer
        return
    if not path.exists():
        raise ValueError(f"{source} does not exist; give a table, a file of texts, or - for standard input")
    if stat.S_ISREG(path.stat().st_mode):
        with files.unpacked(path, path, files.OWN) as file:
            yield file
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise ValueError(f"{source} cannot be opened ({error.strerror}); give another file") from error
    with file:
        yield file
