"""The texts of pre-training: from TFDS data sets or text files, split by documents, without repeats."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn import paths
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.sources import wikitext
from fourier_attn.data.tables.files import DAMAGED, ending, letters, unpacked
from fourier_attn.data.tfds import prepared
from fourier_attn.data.tfds_splits import read_split

BUILDERS = {"wikitext2": wikitext.builder}  # what TFDS does not know by name
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"  # characters without width, which are not white space
SPLITS = ("train", "validation", "test")


def read_corpora(config: DataConfig) -> dict[str, list[str]]:
    """Returns the documents of train, validation and test.

    An entry "name" in `config.corpora` is a TFDS data set with a feature `text`, and keeps its own splits.
    If it has no validation or test split, and for "name:split" and text files, a share `config.holdout` of
    the documents is held out for each of the two. A hash of the letters and digits and of
    `config.split_seed` decides, so a document keeps its split when other texts are added or removed.
    Documents with the same letters and digits as an earlier one, or as one in `config.exclude`, are dropped.
    Held-out documents come first, so that none is in train. The order of train is drawn from
    `config.split_seed`.

    Raises: ValueError for data that are missing or cannot be read, or nothing to read at all.
    """
    check_corpora(config)
    parts: dict[str, list[str]] = {split: [] for split in SPLITS}
    for entry in config.corpora:
        for split, texts in _split(config, entry).items():
            parts[split] += texts
    excluded = [texts for entry in config.exclude for texts in _texts(config, entry, "exclude").values()]
    seen = {letters(text) for texts in excluded for text in texts}
    result = {}
    for split in reversed(SPLITS):
        result[split] = []
        for text in parts[split]:
            same = letters(text)
            if same and same not in seen:
                seen.add(same)
                result[split].append(text)
    if empty := [split for split in SPLITS if not result[split]]:
        raise ValueError(
            f"data.corpora: too few documents, {sum(map(len, result.values()))}: with data.holdout="
            f"{config.holdout} of them held out twice there are none for {', '.join(empty)}; give more"
        )
    order = np.random.default_rng(config.split_seed).permutation(len(result["train"]))
    return result | {"train": [result["train"][i] for i in order]}


def check_corpora(config: DataConfig) -> None:
    """Checks that texts to learn from are named. Raises: ValueError."""
    if not config.corpora:
        raise ValueError("data.corpora=() names no texts; give TFDS data sets (name or name:split) or files")


def _split(config: DataConfig, entry: str) -> dict[str, list[str]]:
    texts = _texts(config, entry, "corpora")
    if set(texts) == set(SPLITS):
        return texts
    result: dict[str, list[str]] = {split: [] for split in SPLITS}
    for text in texts["all"]:
        result[split_of(text, config.split_seed, config.holdout)].append(text)
    return result


def split_of(text: str, seed: int, holdout: float) -> str:
    """Returns the split of a document: u < holdout, u < 2 holdout or above, u a hash of its letters."""
    digest = hashlib.blake2b(f"{seed} {letters(text)}".encode(), digest_size=8).digest()
    u = int.from_bytes(digest, "big") / 2**64
    return "validation" if u < holdout else "test" if u < 2 * holdout else "train"


def _texts(config: DataConfig, entry: str, knob: str) -> dict[str, list[str]]:
    """Returns texts by split: all three where the data set has them, else "all".

    Raises: ValueError that names the knob, since a configuration may have set it.
    """
    try:
        return _read_texts(config, entry)
    except ValueError as error:
        cure = "; --config.data.exclude='()' disables the exclusion" if knob == "exclude" else ""
        raise ValueError(f"data.{knob}={entry!r}: {error}{cure}") from error


def _read_texts(config: DataConfig, entry: str) -> dict[str, list[str]]:
    if names_files(entry):
        matching = paths.matching(entry)
        if not matching:
            raise ValueError("no file matches; give existing text files")
        return {"all": [document for path in matching for document in _documents(path)]}
    builder, split = dataset_of(entry, config.dir or None)
    if not split and set(SPLITS) <= set(builder.info.splits):
        return {name: read_split(builder, name).texts for name in SPLITS}
    return {"all": read_split(builder, split or "train").texts}


def names_files(entry: str) -> bool:
    """Returns whether an entry names text files, by a pattern or by itself, and not a TFDS data set."""
    return ending(entry) in (".txt", ".xz", ".gz") or "*" in entry or paths.given(entry).is_file()


def dataset_of(entry: str, directory: str | None) -> tuple[Any, str]:
    """Returns the TFDS builder of "name" or "name:split", and this split, or "". Raises: ValueError."""
    dataset, _, split = entry.partition(":")
    return prepared(dataset, directory, BUILDERS.get(dataset)), split


def _documents(path: Path) -> Iterator[str]:
    """Yields the documents of a text file (also .xz, .gz) in UTF-8: paragraphs between empty lines.

    A line of white space of any kind is empty, as in WikiText. A byte order mark at the start of a line is
    dropped: concatenated files have several.
    """
    try:
        with unpacked(path, path) as file:
            text = file.read().decode("utf-8")
    except (*DAMAGED, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as UTF-8 text ({error}); convert the file") from error
    paragraph: list[str] = []
    for line in (*re.split(r"\r\n|\r|\n", text), ""):
        line = line.removeprefix("\ufeff")
        if line.strip().strip(INVISIBLE):
            paragraph.append(line)
        elif paragraph:
            yield "\n".join(paragraph).strip()
            paragraph = []
