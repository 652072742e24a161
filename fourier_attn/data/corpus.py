"""The texts of pre-training: of TFDS data sets or of text files, split by documents, without repeats."""

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn.data import wikitext
from fourier_attn.data.files import letters
from fourier_attn.data.tasks import prepared, read_split

BUILDERS = {"wikitext2": wikitext.builder}  # what TFDS does not know by name
SPLITS = ("train", "validation", "test")


def read_corpora(config: Any) -> dict[str, list[str]]:
    """The documents of train, validation and test.

    Of each entry in `config.corpora`, "name" of a TFDS data set with a feature `text` has its own splits;
    where it has no validation or test, and for "name:split" and text files, `config.holdout` of the
    documents is held out for each of the two, drawn from `config.split_seed`. A document whose letters
    and digits are those of one before it, or of one in `config.exclude`, is left out; what is held out
    comes first, so that nothing of it stands in train.

    Raises: ValueError for data that are missing or cannot be read, or nothing to read at all.
    """
    if not config["corpora"]:
        raise ValueError("data.corpora=() names no texts; give TFDS data sets (name or name:split) or files")
    parts: dict[str, list[str]] = {split: [] for split in SPLITS}
    for number, entry in enumerate(config["corpora"]):
        for split, texts in _split(config, entry, number).items():
            parts[split] += texts
    excluded = [texts for entry in config["exclude"] for texts in _texts(config, entry).values()]
    seen = {letters(text) for texts in excluded for text in texts}
    result = {}
    for split in reversed(SPLITS):
        result[split] = []
        for text in parts[split]:
            same = letters(text)
            if same and same not in seen:
                seen.add(same)
                result[split].append(text)
    order = np.random.default_rng(config["split_seed"]).permutation(len(result["train"]))
    order = order[: config["train_examples"] or None]
    return result | {"train": [result["train"][i] for i in order]}


def _split(config: Any, entry: str, number: int) -> dict[str, list[str]]:
    texts = _texts(config, entry)
    if set(texts) == set(SPLITS):
        return texts
    whole = [text for split in texts.values() for text in split]
    order = np.random.default_rng((config["split_seed"], number)).permutation(len(whole))
    held = max(1, round(config["holdout"] * len(whole)))
    if len(whole) < 3 or 2 * held >= len(whole):
        raise ValueError(
            f"data.corpora: {entry!r} has {len(whole)} documents, too few to hold out data.holdout="
            f"{config['holdout']} of them twice"
        )
    cuts = {"validation": order[:held], "test": order[held : 2 * held], "train": order[2 * held :]}
    return {split: [whole[i] for i in index] for split, index in cuts.items()}


def _texts(config: Any, entry: str) -> dict[str, list[str]]:
    """By split: all three where the data set has them, else "all"."""
    if entry.endswith((".txt", ".xz")) or "*" in entry or Path(entry).is_file():
        paths = sorted(path for path in Path(entry).parent.glob(Path(entry).name) if path.is_file())
        if not paths:
            raise ValueError(f"data.corpora: {entry!r} matches no file; name text files that exist")
        return {"all": [document for path in paths for document in _documents(path)]}
    dataset, _, split = entry.partition(":")
    builder = prepared(dataset, config["dir"] or None, BUILDERS.get(dataset))
    if not split and set(SPLITS) <= set(builder.info.splits):
        return {name: read_split(builder, name).texts for name in SPLITS}
    return {"all": read_split(builder, split or "train").texts}


def _documents(path: Path) -> Iterator[str]:
    """The documents of a text file (also .xz) in UTF-8: paragraphs between empty lines."""
    try:
        with lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb") as file:
            text = file.read().decode("utf-8")
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise ValueError(f"data.corpora: {path} cannot be read as UTF-8 text ({error})") from error
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        if paragraph.strip():
            yield paragraph.strip()
