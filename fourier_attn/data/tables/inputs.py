"""The inputs of a prediction, from all that training reads and from streams, one after the other."""

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
    """Holds what one line or row asks for.

    Args:
      number: of the line, or of the row in Parquet and Arrow, from 1.
      where: its place, for messages: "new.csv, line 3".
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
    """Gives the values of rows the names that were asked for.

    Args:
      free: whether each row has its own columns, as in JSON lines.
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
                raise ValueError(f"{name} {lacks}; give the columns the names of the training data")
            yield Input(number, where, {}, f"{lacks}; fix that line")
        else:
            picked = {asked: values[column] for asked, column in chosen.items() if column is not None}
            yield Input(number, where, picked)


@contextlib.contextmanager
def opened(source: str, path: Path) -> Iterator[Any]:
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
