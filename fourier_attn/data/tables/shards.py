"""Reads folders of one split as Hugging Face's `datasets` writes them: their files and names of classes."""

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

from fourier_attn.data.tables import files
from fourier_attn.data.tables.formats import COLUMNAR

SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})(-[0-9a-f]{16})?")  # split, index, number of shards, hash
SPLIT = re.compile(r"(?<![a-z])(train|validation|valid|val|dev|test)(?![a-z])")
COPY = re.compile(r"backup|(?<![a-z])(bak|old|orig|copy)(?![a-z])|\(\d+\)")


def parts_of(folder: Path) -> list[Path]:
    """Returns the files of a folder that form one table.

    Hugging Face's `datasets` lists them in state.json, next to files of its cache. Without this file, all
    files with the ending of data are used, except hidden ones.

    Raises: ValueError for a folder without data, with several splits, or with missing files.
    """
    if (folder / "dataset_dict.json").exists():
        splits = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
        raise ValueError(
            f"{folder} contains the splits {', '.join(splits)}; give the folder of one, for example "
            f"{folder / next(iter(splits), 'train')}"
        )
    if (folder / "state.json").exists():
        return _stated_parts(folder)
    names = [path for path in sorted(folder.iterdir()) if path.name[0] not in "._"]
    parts = [path for path in names if files.ending(path) in COLUMNAR and not path.name.startswith("cache-")]
    if not parts:
        raise ValueError(
            f"{folder} is a folder without .parquet or .arrow files; give a table, or the folder of one split"
        )
    _check_shards(folder, parts)
    return parts


def _stated_parts(folder: Path) -> list[Path]:
    file = folder / "state.json"
    state = _description(file)
    try:
        names = [str(part["filename"]) for part in state["_data_files"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} does not list the files of a data set; save it again") from error
    for name in names:
        if Path(name).name != name or files.ending(name) not in COLUMNAR:
            raise ValueError(
                f"{file} names {name!r:.80}, which is not a file next to it; save the data set again"
            )
        if not (folder / name).exists():
            raise ValueError(f"{folder} lacks {name}, which its state.json lists; copy the whole folder")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{file} lists no file, or one twice; save the data set again")
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise ValueError(
            f"{folder} has a selection of rows that was not written out; save it with flatten_indices()"
        )
    return [folder / name for name in names]


def _check_shards(folder: Path, parts: list[Path]) -> None:
    """Checks that files are the complete shards of one split, without copies. Raises: ValueError."""
    kinds = {files.ending(path) for path in parts}
    if len(kinds) > 1:
        raise ValueError(f"{folder} has {' and '.join(sorted(kinds))} files; keep only one kind")
    shards = {path: SHARD.fullmatch(path.stem) for path in parts}
    splits = sorted({shard[1] if shard else path.stem for path, shard in shards.items()})
    if len(splits) > 1 and any(SPLIT.search(name.lower()) for name in splits):
        raise ValueError(
            f"{folder} has files of {', '.join(splits)[:200]}; give the file of one, or put each split "
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
    """Returns the names of files with the same contents as an earlier one."""
    seen, copies = set(), []
    sizes = Counter(path.stat().st_size for path in parts)
    for path in parts:
        if sizes[path.stat().st_size] > 1:
            digest = files.digest([path], path)
            copies += [path.name] if digest in seen else []
            seen.add(digest)
    return copies


def _description(path: Path) -> Any:
    """Reads a JSON file that describes the data. Raises: ValueError if it is not a JSON object."""
    try:
        description = json.loads(files.read_text(path, path.parent))
        if not isinstance(description, dict):
            raise ValueError("not a JSON object")
        return description
    except (ValueError, RecursionError) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} is not a data set description ({error}); write it again") from error


def class_names(path: Path) -> dict[str, list[str]]:
    """Returns the names of classes by column, from the file `dataset_info.json`; {} if it does not exist."""
    if not os.path.lexists(path):
        return {}
    features = _description(path).get("features") or {}
    try:
        names = {name: feature["names"] for name, feature in features.items() if "names" in feature}
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a data set description ({error}); write it again") from error
    for name, known in names.items():
        if not isinstance(known, list) or not all(isinstance(one, str) for one in known):
            raise ValueError(f"{path}: the names of {name} are not a list of names; write it again")
    return names
