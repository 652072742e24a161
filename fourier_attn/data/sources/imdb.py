"""Reads IMDb's reviews from the usual formats of local copies."""

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from fourier_attn.data.tables import files

File = tuple[str, str, bytes]  # place of a review, its name in the original archive, its contents
SPLITS = {"train": ("train", True), "test": ("test", True), "unsupervised": ("train", False)}
NAME = re.compile(r"(?:.*/)?(aclImdb/(train|test)/(neg|pos|unsup)/\d+_\d+\.txt)")
FOLDERS = ("train/neg", "train/pos", "train/unsup", "test/neg", "test/pos")


def splits(builder: Any, source: Path) -> dict[str, Iterator]:
    """Reads the splits of imdb_reviews from aclImdb/, its tar.gz, or {train,test,unsup}.jsonl[.xz]."""
    reviews = _checked(_reviews(source), source)
    made = {}
    for split, (directory, labelled) in SPLITS.items():
        folder = f"aclImdb/{directory}"
        labels = ("neg", "pos") if labelled else ("unsup",)
        names = [name for name in reviews if name.startswith(tuple(f"{folder}/{label}/" for label in labels))]
        if names:
            archive = [(name, io.BytesIO(reviews[name])) for name in names]
            made[split] = builder._generate_examples(archive, folder, labelled)
        elif labelled:
            raise ValueError(f"split {split!r} in {source} has no reviews; check the copy")
        else:
            print(f"note: {source} has no unlabelled reviews, so the data set gets no split {split!r}")
    return made


def _reviews(source: Path) -> Iterator[File]:
    """Yields the reviews of all splits, from any of the three formats."""
    rows = {
        name: path for name in ("train", "test", "unsup") if (path := files.find(source, f"{name}.jsonl"))
    }
    archives = [source] if source.is_file() else sorted(source.glob("aclImdb*.tar.gz"))
    for folder in (source, source / "aclImdb"):
        if (folder / "train").is_dir() and (folder / "test").is_dir():
            return _folder(folder, source)
    if {"train", "test"} <= rows.keys():
        return _all_rows(rows, source)
    if archives:
        return _archive(archives[0], source)
    raise ValueError(
        f"source={source} is not a copy of imdb_reviews; expected the unpacked folder aclImdb, "
        "aclImdb_v1.tar.gz, or a folder with train.jsonl and test.jsonl (or .jsonl.xz)"
    )


def _folder(folder: Path, source: Path) -> Iterator[File]:
    for name in FOLDERS:
        for path in sorted((folder / name).glob("*.txt")):
            yield f"{path}", f"aclImdb/{name}/{path.name}", files.read_text(path, source)


def _archive(path: Path, source: Path) -> Iterator[File]:
    """Yields the reviews of an archive, which is read completely but not unpacked to the disk.

    Raises: ValueError for a damaged archive, and for members that the original archive does not have.
    """
    try:
        with files.unpacked(path, source) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                where = f"{path}, member {member.name[:200]!r}"
                if member.name.startswith("/") or ".." in PurePosixPath(member.name).parts:
                    raise ValueError(f"{where} is outside the archive; get the original archive")
                if not (member.isfile() or member.isdir()):
                    kind = "a link" if member.islnk() or member.issym() else "neither file nor folder"
                    raise ValueError(f"{where} is {kind}; get the original archive")
                match = NAME.fullmatch(member.name)
                contents = archive.extractfile(member)
                if not match or not contents:
                    continue
                if member.size > files.TEXT:
                    raise ValueError(
                        f"{where} has more than {files.TEXT:,} bytes, too many for a text; get the original "
                        "archive"
                    )
                yield where, match[1], contents.read()
            _read_to_the_end(archive.fileobj, path)
    except (*files.DAMAGED, tarfile.TarError) as error:
        raise ValueError(f"{path} cannot be read as a tar archive ({error}); get the copy again") from error


def _read_to_the_end(rest: Any, path: Path) -> None:
    """Checks that only zeros follow the last member, because tarfile stops at a damaged one."""
    while block := rest.read(files.TEXT):
        if block.strip(b"\0"):
            raise ValueError(f"{path} is damaged: it has data after its end; get the copy again")


def _all_rows(paths: dict[str, Path], source: Path) -> Iterator[File]:
    for name, path in paths.items():
        yield from _rows(path, name, source)


def _rows(path: Path, name: str, source: Path) -> Iterator[File]:
    """Yields the reviews of a file with one JSON object per line.

    An object has text, label (0 or 1; not in unsup), and perhaps id and rating.

    Args:
      path: the file.
      name: "train", "test" or "unsup".
      source: the folder of the copy.
    Raises: ValueError for an invalid line.
    """
    directory = "test" if name == "test" else "train"
    for number, (where, line) in enumerate(files.lines(path, source), 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where} is not a JSON object ({error}); fix or remove that line") from error
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise ValueError(f"{where} has no text; give every row a 'text'")
        label = "unsup"
        if name != "unsup":
            if type(row.get("label")) is not int or row["label"] not in (0, 1):
                raise ValueError(
                    f"{where} has label={row.get('label')!r:.40}; give every row a 'label' of 0 or 1"
                )
            label = ("neg", "pos")[row["label"]]
        file = f"{row.get('id', number)}_{row.get('rating', 0)}.txt"
        # an unpaired surrogate in JSON is refused later, together with other invalid UTF-8
        yield where, f"aclImdb/{directory}/{label}/{file}", row["text"].encode("utf-8", "surrogatepass")


def _checked(reviews: Iterator[File], source: Path) -> dict[str, bytes]:
    """Returns all reviews by name.

    Raises: ValueError for text that is not UTF-8, a duplicate review, and too many reviews.
    """
    contents, places, size = {}, {}, 0
    for where, name, text in reviews:
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{where} is not UTF-8 ({error.reason} at byte {error.start}); convert or remove it"
            ) from error
        if name in contents:
            raise ValueError(
                f"{where} and {places[name]} are the same review, {name[:200]}; remove one of them"
            )
        contents[name], places[name] = text, where
        size += len(text)
        if size > files.UNPACKED or len(contents) > files.ROWS:
            raise ValueError(
                f"source={source} has more than {files.UNPACKED:,} bytes or {files.ROWS:,} reviews, too "
                "many for imdb_reviews; check the copy"
            )
    return contents
