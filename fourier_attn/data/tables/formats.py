"""Tables of the user's own, row by row: CSV, TSV, JSON lines (also .gz, .xz), Parquet, Arrow.

A table is never held in memory: what is read is one line, or one batch of Parquet, at a time.
"""

import csv
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn.data.tables import files

ENDS = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")
COLUMNAR = (".parquet", ".arrow")
PACKED = (".gz", ".xz")
BATCH = 4096  # rows of Parquet at a time
SEPARATORS = (";", "\t", "|")  # of a .csv whose first line has no comma: spreadsheets of many countries
SEPARATION = re.compile(r'"?sep=(.)"?')  # a line that spreadsheets write for each other, before the columns
SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})(-[0-9a-f]{16})?")  # of a split, its number, how many, a hash
SPLIT = re.compile(r"(?<![a-z])(train|validation|valid|val|dev|test)(?![a-z])")
COPY = re.compile(r"backup|(?<![a-z])(bak|old|orig|copy)(?![a-z])|\(\d+\)")


class Row(NamedTuple):
    """A row of a table.

    Args:
      where: it stands, for messages.
      values: by column; None is a value that is missing.
      number: that of its line, or of the row in Parquet and Arrow, from 1.
      error: why it cannot be used; "": it can.
    """

    where: str
    values: dict[str, Any]
    number: int
    error: str = ""


def kind(path: Path) -> str:
    """Returns the ending of a table's name without what packs it, ".csv". Raises: ValueError for another."""
    end = files.ending(path.with_suffix("") if files.ending(path) in PACKED else path)
    if end not in ENDS:
        raise ValueError(
            f"{path} is not a table that can be read; its name must end in {', '.join(ENDS[:3])} "
            f"(also {' or '.join(PACKED)}), {ENDS[3]} or {ENDS[4]}"
        )
    return end


def rows(path: Path) -> Iterator[Row]:
    """Reads the rows of a table, or of the folder of a split, in their order; empty lines are none.

    Of CSV and TSV the first line names the columns. CSV has quotes, which may hold line ends; in TSV a quote
    is a letter like any other.

    Raises: ValueError that names file, line and cure for what is not such a table.
    """
    if not path.exists():
        raise ValueError(f"{path} does not exist; name a table")
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
        yield from (objects if end == ".jsonl" else separated)(file, str(path), end)


def fingerprint(path: Path) -> str:
    """Returns the name of a table and a hash of its bytes."""
    digest = hashlib.sha256()
    for part in _parts(path) if path.is_dir() else [path]:
        with files.open_regular(part, path) as file:
            while piece := file.read(2**20):
                digest.update(piece)
    return f"{path.name} {digest.hexdigest()[:16]}"


def _parts(folder: Path) -> list[Path]:
    """Returns the files of a folder that are the parts of one table.

    Hugging Face's `datasets` names them in state.json, beside files of its cache. Without it all files whose
    names say that they are data count, and hidden ones do not.

    Raises: ValueError for a folder that has none, or several splits, or not the parts that it should have.
    """
    if (folder / "dataset_dict.json").exists():
        splits = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
        raise ValueError(
            f"{folder} holds the splits {', '.join(splits)}; name the folder of one, such as "
            f"{folder / next(iter(splits), 'train')}"
        )
    if (folder / "state.json").exists():
        return _stated_parts(folder)
    names = [path for path in sorted(folder.iterdir()) if path.name[0] not in "._"]
    found = [path for path in names if files.ending(path) in COLUMNAR and not path.name.startswith("cache-")]
    if not found:
        raise ValueError(
            f"{folder} is a folder without .parquet or .arrow files; name a table, or the folder of one split"
        )
    _check_shards(folder, found)
    return found


def _stated_parts(folder: Path) -> list[Path]:
    file = folder / "state.json"
    state = _description(file)
    try:
        names = [str(part["filename"]) for part in state["_data_files"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} does not name the files of a data set; save it again") from error
    for name in names:
        if Path(name).name != name or files.ending(name) not in COLUMNAR:
            raise ValueError(
                f"{file} names {name!r:.80}, which is not a file next to it; save the data set again"
            )
        if not (folder / name).exists():
            raise ValueError(f"{folder} has no {name}, which its state.json names; copy the whole folder")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{file} names no file, or one twice; save the data set again")
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise ValueError(
            f"{folder} holds a selection of rows that was not written out; save it with flatten_indices()"
        )
    return [folder / name for name in names]


def _check_shards(folder: Path, parts: list[Path]) -> None:
    """Raises: ValueError for files of several splits or kinds, copies, and shards that are missing."""
    kinds = {files.ending(path) for path in parts}
    if len(kinds) > 1:
        raise ValueError(f"{folder} has {' and '.join(sorted(kinds))} files; leave one kind there")
    shards = {path: SHARD.fullmatch(path.stem) for path in parts}
    splits = sorted({shard[1] if shard else path.stem for path, shard in shards.items()})
    if len(splits) > 1 and any(SPLIT.search(name.lower()) for name in splits):
        raise ValueError(
            f"{folder} has files of {', '.join(splits)[:200]}; name the file of one, or put each split "
            "into a folder"
        )
    copies = [path.name for path in parts if COPY.search(path.stem.lower())] or _same(parts)
    if copies and len(parts) > 1:
        raise ValueError(
            f"{folder}: {copies[0]} seems to be a copy of another file (same contents, or named like a "
            "copy); remove it from the folder"
        )
    for split in splits:
        there = [shard for shard in shards.values() if shard and shard[1] == split]
        counts = sorted({int(shard[3]) for shard in there})
        if there and counts != [len(there)]:
            raise ValueError(
                f"{folder} has {len(there)} shards of {split}, but their names say "
                f"{' or '.join(map(str, counts))}; add the missing shards, or remove those of another copy"
            )


def _same(parts: list[Path]) -> list[str]:
    """Returns the names of files that have the bytes of one before."""
    seen, found = set(), []
    sizes = Counter(path.stat().st_size for path in parts)
    for path in parts:
        if sizes[path.stat().st_size] > 1:
            digest = fingerprint(path).rpartition(" ")[2]
            found += [path.name] if digest in seen else []
            seen.add(digest)
    return found


def _folder(folder: Path) -> Iterator[Row]:
    """A folder as Hugging Face's `datasets` writes one for a split; its classes by their names."""
    names = _class_names(folder / "dataset_info.json")
    for part in _parts(folder):
        with files.open_regular(part, folder) as file:
            for row in columnar(file, str(part), files.ending(part)):
                for column, known in names.items():
                    number = row.values.get(column)
                    if isinstance(number, int) and 0 <= number < len(known):
                        row.values[column] = known[number]
                    elif number == -1:  # what `datasets` writes where the label is not known
                        row.values[column] = None
                yield row


def _description(path: Path) -> Any:
    """Returns what a JSON file beside the data says. Raises: ValueError for what is not one."""
    try:
        found = json.loads(files.read_text(path, path.parent))
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        return found
    except (ValueError, RecursionError) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} is not a data set description ({error}); write it again") from error


def _class_names(path: Path) -> dict[str, list[str]]:
    if not os.path.lexists(path):
        return {}
    features = _description(path).get("features") or {}
    try:
        found = {name: feature["names"] for name, feature in features.items() if "names" in feature}
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a data set description ({error}); write it again") from error
    for name, known in found.items():
        if not isinstance(known, list) or not all(isinstance(one, str) for one in known):
            raise ValueError(f"{path}: the names of {name} are not a list of names; write it again")
    return found


def separated(file: Any, name: str, end: str) -> Iterator[Row]:
    """Reads the rows of an open CSV (`end` ".csv") or TSV file. Raises: ValueError for what it cannot be."""
    csv.field_size_limit(files.TEXT)  # as of any line; else 131,072 characters
    lines = (f"{line}\n" for _, line in files.decoded(file, name, files.OWN.rows))
    header: list[str] = []
    again: set[str] = set()
    line = 0
    first, skipped, separator = _first_line(lines, end)
    if end == ".tsv":
        reader = csv.reader(_chain(first, lines), delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
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
            f"{name}, line {line + skipped + 1} is not a valid row ({error}); a quote inside a quoted text "
            "is written twice, and a quote that is opened must be closed"
        ) from error


def _first_line(lines: Iterator[str], end: str) -> tuple[str, int, str]:
    """Returns the line with the names of columns, how many stand before it, and what separates columns."""
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
    """Returns the cells of a line of CSV, if it has a comma, or of one with another separator."""
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
        raise ValueError(f"{where} names the column {name!r} twice; give each column its own name")
    return names


def objects(file: Any, name: str, end: str = ".jsonl") -> Iterator[Row]:
    """Reads the rows of an open file of JSON lines; a line that is a text alone is the column "text"."""
    number = 0
    try:
        for number, line in files.numbered(file):
            if line.strip():
                yield _object(line, f"{name}, line {number}", number)
    except files.DAMAGED as error:
        raise ValueError(
            f"{name} cannot be read beyond line {number} ({error}); get the copy again"
        ) from error


def _object(line: bytes, where: str, number: int) -> Row:
    if len(line) > files.TEXT:
        return Row(where, {}, number, f"has more than {files.TEXT:,} bytes; shorten its text")
    try:
        text = line.decode("utf-8")
        values = json.loads(text, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 ({error.reason} at byte {error.start}); convert the file"
        return Row(where, {}, number, reason)
    except (ValueError, RecursionError) as error:
        return Row(where, {}, number, f"is not a JSON object ({error}); fix that line")
    if isinstance(values, str):
        values = {"text": values}
    if not isinstance(values, dict):
        return Row(where, {}, number, f"must be a JSON object, not {text[:40]!r}; fix that line")
    return Row(where, values, number)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("it has a key twice")
    return values


def columnar(file: Any, name: str, end: str) -> Iterator[Row]:
    """Reads the rows of open Parquet, or of Arrow's stream, which the library `datasets` writes."""
    try:
        import pyarrow
        from pyarrow import ipc, parquet
    except ImportError as error:
        raise ValueError(
            f"{name} needs the package pyarrow; install it (pip install pyarrow), or convert "
            "the file to .jsonl"
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
            f"{name} cannot be read beyond row {number} ({str(error)[:200]}); write it again"
        ) from error
