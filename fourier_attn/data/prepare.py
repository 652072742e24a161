"""Builds a TFDS data set from a local copy: python -m fourier_attn.data.prepare --dataset=NAME --source=PATH.

What is written is the data set that TFDS itself would build (name, version, features, splits, order
of the examples), so that `tfds.data_source(NAME)` reads it on a machine without network.
"""

import io
import json
import lzma
import re
import sys
import tarfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds
from absl import flags

from fourier_attn import command
from fourier_attn.data.tasks import is_prepared, tfds_builder

DATASET = flags.DEFINE_enum("dataset", None, ["imdb_reviews"], "TFDS name of the data set")
SOURCE = flags.DEFINE_string("source", None, "the local copy: a folder or an archive, see README")
DATA_DIR = flags.DEFINE_string("data_dir", None, "where TFDS keeps its data sets; default: TFDS's own")

File = tuple[str, bytes]  # name inside the original archive, contents
IMDB_SPLITS = {"train": ("train", True), "test": ("test", True), "unsupervised": ("train", False)}
IMDB_NAME = re.compile(r"(?:.*/)?(aclImdb/(train|test)/(neg|pos|unsup)/\d+_\d+\.txt)")


def prepare(dataset: str, source: str | Path, data_dir: str | None = None) -> tfds.core.DatasetBuilder:
    """Builds `dataset` in `data_dir` from `source`; leaves one that is already there as it is.

    Raises: ValueError for a source that is missing, has another form, or holds a row without a label
      or text in UTF-8. Nothing is left behind then.
    """
    source = Path(source)
    if not source.exists():
        raise ValueError(f"source={source} does not exist; name the folder or the archive of {dataset}")
    builder: Any = tfds_builder(dataset, data_dir)
    if is_prepared(builder):
        print(f"{dataset} is already in {builder.data_path}; move that folder away to build it again")
        return builder
    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    splits = {"imdb_reviews": imdb}[dataset](builder, source)
    builder._split_generators = lambda dl_manager: splits  # TFDS's builder, with another place to read from
    builder.download_and_prepare()
    counts = ", ".join(f"{split.num_examples:,} {name}" for name, split in builder.info.splits.items())
    print(f"{dataset} is in {builder.data_path}: {counts}")
    return builder


def imdb(builder: Any, source: Path) -> dict[str, Iterator]:
    """The splits of imdb_reviews from the folder aclImdb, its tar.gz, or {train,test,unsup}.jsonl[.xz]."""
    tar = [source] if source.is_file() else sorted(source.glob("aclImdb*.tar.gz"))
    rows = {
        name: path
        for name in ("train", "test", "unsup")
        for path in (source / f"{name}.jsonl.xz", source / f"{name}.jsonl")
        if path.is_file()
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
    splits = {}
    for split, (directory, labelled) in IMDB_SPLITS.items():
        if read.func is _rows and not labelled and "unsup" not in rows:
            print("note: there is no unsup.jsonl, so the data set gets no split 'unsupervised'")
            continue
        files = _checked(read(split), f"split {split!r} in {source}")
        splits[split] = builder._generate_examples(files, f"aclImdb/{directory}", labelled)
    return splits


def _folder(folder: Path, split: str) -> Iterator[File]:
    directory, labelled = IMDB_SPLITS[split]
    for label in ("neg", "pos") if labelled else ("unsup",):
        for path in sorted((folder / directory / label).glob("*.txt")):
            yield f"aclImdb/{directory}/{label}/{path.name}", path.read_bytes()


def _archive(path: Path, split: str) -> Iterator[File]:
    """The reviews of all splits; nothing is unpacked, and names are only compared with a pattern."""
    with tarfile.open(path) as archive:
        for member in archive:
            match, file = IMDB_NAME.fullmatch(member.name), archive.extractfile(member)
            if match and file:
                yield match[1], file.read()


def _rows(paths: dict[str, Path], split: str) -> Iterator[File]:
    """One JSON object per line: text, label (0 or 1; not in unsup), and id and rating where known."""
    directory, labelled = IMDB_SPLITS[split]
    path = paths["unsup" if split == "unsupervised" else split]
    with (lzma.open if path.suffix == ".xz" else open)(path, "rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number}"
            try:
                row = json.loads(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{where} is not UTF-8 ({error.reason} at byte {error.start}); convert the file"
                ) from error
            except json.JSONDecodeError as error:
                raise ValueError(
                    f"{where} is not a JSON object ({error}); mend or remove that line"
                ) from error
            if not isinstance(row, dict) or not isinstance(row.get("text"), str):
                raise ValueError(f"{where} has no text; give every row a 'text'")
            if labelled and (type(row.get("label")) is not int or row["label"] not in (0, 1)):
                raise ValueError(
                    f"{where} has label={row.get('label')!r}; give every row a 'label' of 0 or 1"
                )
            label = ("neg", "pos")[row["label"]] if labelled else "unsup"
            name = f"{row.get('id', number)}_{row.get('rating', 0)}.txt"
            yield f"aclImdb/{directory}/{label}/{name}", row["text"].encode()


def _checked(files: Iterator[File], what: str) -> Iterator[tuple[str, io.BytesIO]]:
    """Refuses text that is not UTF-8, files that cannot be read and a split without a review."""
    name = None
    try:
        for name, contents in files:
            contents.decode("utf-8")
            yield name, io.BytesIO(contents)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 ({error.reason} at byte {error.start}); convert or remove it"
        ) from error
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError, zlib.error) as error:
        raise ValueError(f"{what} cannot be read ({error}); get the copy again") from error
    if name is None:
        raise ValueError(f"{what} has no reviews; check the copy")


def main() -> None:
    if not DATASET.value or not SOURCE.value:
        raise ValueError(
            "--dataset and --source are needed, for example --dataset=imdb_reviews --source=aclImdb"
        )
    prepare(DATASET.value, SOURCE.value, DATA_DIR.value)


if __name__ == "__main__":
    sys.exit(command.run(main))
