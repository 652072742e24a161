"""Reads the rows of custom tables: files in any format (also .gz, .xz), or folders of a split."""

from collections.abc import Iterator
from pathlib import Path

from fourier_attn.data.tables import files, shards
from fourier_attn.data.tables.formats import COLUMNAR, Row, columnar, kind, objects, separated


def read_rows(path: Path) -> Iterator[Row]:
    """Yields the rows of a table, or of the folder of a split, without empty lines.

    The first line of CSV and TSV has the names of the columns. Quoted cells of CSV may contain line ends. In
    TSV a quote is an ordinary character.

    Raises: ValueError that names file, line and cure for an invalid table.
    """
    if not path.exists():
        raise ValueError(f"{path} does not exist; give an existing table")
    for row in _folder(path) if path.is_dir() else _file(path, kind(path)):
        if row.error:
            raise ValueError(f"{row.where} {row.error}")
        yield row


def _file(path: Path, end: str) -> Iterator[Row]:
    if end in COLUMNAR:
        with files.open_regular(path, path) as file:
            yield from columnar(file, str(path), end)
        return
    with files.unpacked(path, path, files.OWN) as file:
        yield from objects(file, str(path)) if end == ".jsonl" else separated(file, str(path), end)


def _folder(folder: Path) -> Iterator[Row]:
    """Yields the rows of the folder of a split, with names of classes instead of indices."""
    names = shards.class_names(folder / "dataset_info.json")
    for part in shards.parts_of(folder):
        with files.open_regular(part, folder) as file:
            for row in columnar(file, str(part), files.ending(part)):
                for column, known in names.items():
                    number = row.values.get(column)
                    if isinstance(number, int) and 0 <= number < len(known):
                        row.values[column] = known[number]
                    elif number == -1:  # the library `datasets` writes this for unknown labels
                        row.values[column] = None
                yield row


def fingerprint(path: Path) -> str:
    """Returns the name of a table and a hash of its contents."""
    parts = shards.parts_of(path) if path.is_dir() else [path]
    return f"{path.name} {files.digest(parts, path)[:16]}"
