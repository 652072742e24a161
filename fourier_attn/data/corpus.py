"""Reads the texts of pretraining from TFDS data sets or text files, split by documents."""

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

BUILDERS = {"wikitext2": wikitext.builder}  # data sets that TFDS does not know by name
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"  # characters without width, which Python does not strip
SPLITS = ("train", "validation", "test")


def read_corpora(config: DataConfig) -> dict[str, list[str]]:
    """Returns the documents of the training, validation and test sets.

    An entry "name" in `config.corpora` is a TFDS data set with a feature `text` and keeps its own splits. If
    it lacks a validation or test split, and for "name:split" and text files, the share `config.holdout` of
    the documents is held out for each of the two. A hash of a document's letters and digits and of
    `config.split_seed` chooses its split, so that the split does not change when other texts are added.

    Documents with the same letters and digits as another one, or as one in `config.exclude`, are dropped. A
    document that is held out is never in the training set. The order of the training set is drawn from
    `config.split_seed`.

    Raises: ValueError for texts that are missing or cannot be read, and for too few documents.
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
            f"data.corpora has too few documents, {sum(map(len, result.values()))}: with data.holdout="
            f"{config.holdout} for validation and for test, none is left for {', '.join(empty)}; give more"
        )
    order = np.random.default_rng(config.split_seed).permutation(len(result["train"]))
    return result | {"train": [result["train"][i] for i in order]}


def check_corpora(config: DataConfig) -> None:
    """Checks that `data.corpora` is not empty. Raises: ValueError."""
    if not config.corpora:
        raise ValueError("data.corpora=() is empty; give TFDS data sets (name or name:split) or text files")


def _split(config: DataConfig, entry: str) -> dict[str, list[str]]:
    texts = _texts(config, entry, "corpora")
    if set(texts) == set(SPLITS):
        return texts
    result: dict[str, list[str]] = {split: [] for split in SPLITS}
    for text in texts["all"]:
        result[split_of(text, config.split_seed, config.holdout)].append(text)
    return result


def split_of(text: str, seed: int, holdout: float) -> str:
    """Returns the split of a document: "validation", "test" or "train".

    A hash u in [0, 1) of its letters and the seed decides: $u < holdout$, $u < 2 holdout$, or above.

    Args:
      text: the document.
      seed: value of `data.split_seed`.
      holdout: share of validation, and of test.
    """
    digest = hashlib.blake2b(f"{seed} {letters(text)}".encode(), digest_size=8).digest()
    u = int.from_bytes(digest, "big") / 2**64
    return "validation" if u < holdout else "test" if u < 2 * holdout else "train"


def _texts(config: DataConfig, entry: str, knob: str) -> dict[str, list[str]]:
    """Returns texts by split: "train", "validation" and "test" if the data set has them, else "all".

    Args:
      config: the `data` part of the configuration.
      entry: a TFDS name or a file.
      knob: "corpora" or "exclude", for the message.
    Raises: ValueError for texts that are missing or cannot be read.
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
    """Returns whether an entry is a text file or a pattern of files, not a TFDS data set."""
    return ending(entry) in (".txt", ".xz", ".gz") or "*" in entry or paths.given(entry).is_file()


def dataset_of(entry: str, directory: str | None) -> tuple[Any, str]:
    """Returns the TFDS builder and the split ("" for all) of an entry "name" or "name:split"."""
    dataset, _, split = entry.partition(":")
    return prepared(dataset, directory, BUILDERS.get(dataset)), split


def _documents(path: Path) -> Iterator[str]:
    """Yields the documents of a text file in UTF-8 (also .xz, .gz): paragraphs between empty lines.

    A line of white space is empty, as in WikiText. Byte order marks at the start of lines are dropped,
    because concatenated files have several.
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
