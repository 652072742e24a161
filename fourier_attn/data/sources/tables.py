"""Tables of the user's own, row by row: CSV, TSV, JSON lines (also .gz, .xz), Parquet, Arrow.

A table is never held in memory: what is read is one line, or one batch of Parquet, at a time.
"""

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn.data.sources import files

ENDS = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")
PACKED = (".gz", ".xz")
BATCH = 4096  # rows of Parquet at a time


class Row(NamedTuple):
    """Where a row stands, for messages, and its values by column; None is a value that is missing."""

    where: str
    values: dict[str, Any]


def kind(path: Path) -> str:
    """The end of a table's name without what packs it, ".csv". Raises: ValueError for another one."""
    ends = [end.lower() for end in path.suffixes[-2:]]
    end = ends[-1] if ends and ends[-1] not in PACKED else "".join(ends[:-1])
    if end not in ENDS:
        raise ValueError(
            f"{path} is no table that can be read; its name must end in {', '.join(ENDS[:3])} "
            f"(also {' or '.join(PACKED)}), {ENDS[3]} or {ENDS[4]}"
        )
    return end


def rows(path: Path) -> Iterator[Row]:
    """The rows of a table in their order; empty lines are none.

    Of CSV and TSV the first line names the columns. CSV has quotes, which may hold line ends; in TSV a quote
    is a letter like any other.

    Raises: ValueError that names file, line and cure for what is no such table.
    """
    if not path.exists():
        raise ValueError(f"{path} does not exist; name a table")
    if path.is_dir():
        return _folder(path)
    end = kind(path)
    if end in (".parquet", ".arrow"):
        return _columnar(path, end)
    return _objects(path) if end == ".jsonl" else _separated(path, end)


def fingerprint(path: Path) -> str:
    """The name of a table and a hash of its bytes."""
    digest = hashlib.sha256()
    for part in _parts(path) if path.is_dir() else [path]:
        with files.open_regular(part, path) as file:
            while piece := file.read(2**20):
                digest.update(piece)
    return f"{path.name} {digest.hexdigest()[:16]}"


def _parts(folder: Path) -> list[Path]:
    """The files of a folder that are the parts of a table."""
    found = sorted(path for path in folder.iterdir() if path.suffix in (".parquet", ".arrow"))
    if not found:
        raise ValueError(
            f"{folder} is a folder without .parquet or .arrow files; name a table, or the folder of one split"
        )
    return found


def _folder(folder: Path) -> Iterator[Row]:
    """A folder as Hugging Face's `datasets` writes one for a split; its classes by their names."""
    names = _class_names(folder / "dataset_info.json")
    for part in _parts(folder):
        for where, values in _columnar(part, part.suffix):
            for column, known in names.items():
                number = values.get(column)
                if isinstance(number, int) and 0 <= number < len(known):
                    values[column] = known[number]
            yield Row(where, values)


def _class_names(path: Path) -> dict[str, list[str]]:
    if not path.exists():
        return {}
    try:
        features = json.loads(path.read_text(encoding="utf-8"))["features"]
        return {name: feature["names"] for name, feature in features.items() if "names" in feature}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no description of a data set ({error}); write it again") from error


def _separated(path: Path, end: str) -> Iterator[Row]:
    csv.field_size_limit(files.TEXT)  # as of any line; else 131,072 characters
    lines = (f"{line}\n" for _, line in files.lines(path, path, files.OWN))
    if end == ".tsv":
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines, strict=True)
    header: list[str] = []
    line = 0
    try:
        for cells in reader:
            where, line = f"{path}, line {line + 1}", reader.line_num
            if not cells:
                continue
            if not header:
                header = _header(cells, where)
                continue
            if len(cells) != len(header):
                raise ValueError(
                    f"{where} has {len(cells)} columns instead of the {len(header)} of the first line "
                    f"({', '.join(header)[:80]}); mend that line"
                )
            yield Row(where, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {line + 1} is no row of a table ({error}); a quote inside a quoted text is "
            "written twice, and a quote that is opened must be closed"
        ) from error


def _header(cells: list[str], where: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{where} names the column {twice!r} twice; give each column its own name")
    return names


def _objects(path: Path) -> Iterator[Row]:
    for where, line in files.lines(path, path, files.OWN):
        if not line.strip():
            continue
        try:
            values = json.loads(line, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where} is no JSON object ({error}); mend that line") from error
        if not isinstance(values, dict):
            raise ValueError(f"{where} is no JSON object, but {line[:40]!r}; mend that line")
        yield Row(where, values)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("it has a key twice")
    return values


def _columnar(path: Path, end: str) -> Iterator[Row]:
    """Parquet, and Arrow's stream, which the library `datasets` writes."""
    try:
        import pyarrow
        from pyarrow import ipc, parquet
    except ImportError as error:
        raise ValueError(
            f"{path} needs the package pyarrow; install it (pip install 'fourier_attn[parquet]'), or convert "
            "the file to .jsonl"
        ) from error
    number = 0
    try:
        with files.open_regular(path, path) as file:
            opened: Any = parquet.ParquetFile(file) if end == ".parquet" else ipc.open_stream(file)
            for batch in opened.iter_batches(BATCH) if end == ".parquet" else opened:
                for values in batch.to_pylist():
                    number += 1
                    yield Row(f"{path}, row {number}", values)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} cannot be read beyond row {number} ({str(error)[:200]}); write it again"
        ) from error
