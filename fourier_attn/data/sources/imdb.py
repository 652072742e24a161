"""IMDb's reviews in the forms in which copies of them go round."""

import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fourier_attn.data.sources import files

File = tuple[str, bytes]  # name inside the original archive, contents
SPLITS = {"train": ("train", True), "test": ("test", True), "unsupervised": ("train", False)}
NAME = re.compile(r"(?:.*/)?(aclImdb/(train|test)/(neg|pos|unsup)/\d+_\d+\.txt)")


def splits(builder: Any, source: Path) -> dict[str, Iterator]:
    """The splits of imdb_reviews from the folder aclImdb, its tar.gz, or {train,test,unsup}.jsonl[.xz]."""
    tar = [source] if source.is_file() else sorted(source.glob("aclImdb*.tar.gz"))
    rows = {
        name: path for name in ("train", "test", "unsup") if (path := files.find(source, f"{name}.jsonl"))
    }
    folders = [p for p in (source, source / "aclImdb") if (p / "train").is_dir() and (p / "test").is_dir()]
    if folders:
        read = partial(_folder, folders[0])
    elif {"train", "test"} <= rows.keys():
        read = partial(_rows, rows)
    elif tar and tarfile.is_tarfile(tar[0]):
        read = partial(_archive, tar[0])
    else:
        raise ValueError(
            f"source={source} is no copy of imdb_reviews; expected the unpacked folder aclImdb, "
            "aclImdb_v1.tar.gz, or a folder with train.jsonl and test.jsonl (or .jsonl.xz)"
        )
    made = {}
    for split, (directory, labelled) in SPLITS.items():
        if read.func is _rows and not labelled and "unsup" not in rows:
            print("note: there is no unsup.jsonl, so the data set gets no split 'unsupervised'")
            continue
        reviews = _checked(read(split), f"split {split!r} in {source}")
        made[split] = builder._generate_examples(reviews, f"aclImdb/{directory}", labelled)
    return made


def _folder(folder: Path, split: str) -> Iterator[File]:
    directory, labelled = SPLITS[split]
    for label in ("neg", "pos") if labelled else ("unsup",):
        for path in sorted((folder / directory / label).glob("*.txt")):
            yield f"aclImdb/{directory}/{label}/{path.name}", path.read_bytes()


def _archive(path: Path, split: str) -> Iterator[File]:
    """The reviews of all splits; nothing is unpacked, and names are only compared with a pattern."""
    with tarfile.open(path) as archive:
        for member in archive:
            match, file = NAME.fullmatch(member.name), archive.extractfile(member)
            if match and file:
                yield match[1], file.read()


def _rows(paths: dict[str, Path], split: str) -> Iterator[File]:
    """One JSON object per line: text, label (0 or 1; not in unsup), and id and rating where known."""
    directory, labelled = SPLITS[split]
    for number, (where, line) in enumerate(
        files.lines(paths["unsup" if split == "unsupervised" else split]), 1
    ):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{where} is not a JSON object ({error}); mend or remove that line") from error
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise ValueError(f"{where} has no text; give every row a 'text'")
        if labelled and (type(row.get("label")) is not int or row["label"] not in (0, 1)):
            raise ValueError(f"{where} has label={row.get('label')!r}; give every row a 'label' of 0 or 1")
        label = ("neg", "pos")[row["label"]] if labelled else "unsup"
        name = f"{row.get('id', number)}_{row.get('rating', 0)}.txt"
        yield f"aclImdb/{directory}/{label}/{name}", row["text"].encode()


def _checked(reviews: Iterator[File], what: str) -> Iterator[tuple[str, io.BytesIO]]:
    """Refuses text that is not UTF-8, files that cannot be read and a split without a review."""
    name = None
    try:
        for name, contents in reviews:
            contents.decode("utf-8")
            yield name, io.BytesIO(contents)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 ({error.reason} at byte {error.start}); convert or remove it"
        ) from error
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise ValueError(f"{what} cannot be read ({error}); get the copy again") from error
    if name is None:
        raise ValueError(f"{what} has no reviews; check the copy")
