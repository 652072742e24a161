"""Reads and encodes the custom tables of the training, validation and test sets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fourier_attn import paths
from fourier_attn.data.examples import hold_out
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.packed import PackedTokens, encode_all
from fourier_attn.data.tables import rows
from fourier_attn.data.tables.columns import LIMITS, Columns, check_columns, find_columns
from fourier_attn.data.tables.notes import (
    class_notes,
    describe_classes,
    describe_columns,
    duplicates,
    unseen_classes,
)
from fourier_attn.data.tables.table import TableSplit, known_labels, read_table, texts_of

SPLITS = tuple(LIMITS)


@dataclass(frozen=True)
class Tables:
    """Holds tables without their texts, which are read from the files when they are needed.

    Args:
      parts: the training, validation and test sets.
      columns: columns of texts and labels.
      labels: names of the classes; (): labels are numbers.
      notes: lines for the user.
    """

    parts: Mapping[str, TableSplit]
    columns: Columns
    labels: tuple[str, ...]
    notes: tuple[str, ...]

    def texts(self, split: str, count: int = 0) -> Iterator[str]:
        """Yields the texts of the first `count` rows of a `split` (0: all), in the order of its file."""
        part = self.parts[split].limit(count)
        for texts in texts_of(part.file, self.columns, part.rows):
            yield from texts

    def encode(self, tokenizer: Any, length: int) -> dict[str, PackedTokens]:
        """Returns the token ids of each split, and reads each file once.

        Args:
          tokenizer: the tokenizer.
          length: largest number of tokens of a text, see `fourier_attn.data.text.encode`.
        """
        encoded = {}
        for file in {part.file for part in self.parts.values()}:
            here = {name: part for name, part in self.parts.items() if part.file == file}
            wanted = np.unique(np.concatenate([part.rows for part in here.values()]))
            tokens = encode_all(tokenizer, texts_of(file, self.columns, wanted), length)
            encoded |= {name: tokens.take(np.searchsorted(wanted, part.rows)) for name, part in here.items()}
        return encoded


def read(config: DataConfig) -> Tables:
    """Reads the tables `train`, `validation` and `test` without their texts.

    A missing split is the share `data.holdout` of the training set, drawn from `data.split_seed`.

    Raises: ValueError that names file, line, value and cure.
    """
    columns, all_columns = _columns(config)
    parts, hashes, classes = {}, {}, tuple(config.labels)
    notes = [describe_columns(columns, all_columns)]
    for split in SPLITS:
        if config[split]:
            several = config.multi_label
            known = () if several else known_labels(classes, parts.get("train"))
            table = read_table(paths.given(config[split]), split, columns, classes, known, several)
            parts[split], hashes[split], classes = table.rows, table.hashes, table.classes
            notes += table.notes
    parts = hold_out(parts, SPLITS, config, ("rows", "files"))
    seen = np.sort(hashes["train"][parts["train"].rows])
    for split in SPLITS[1:]:
        hashed = hashes.get(split, hashes["train"])[parts[split].rows]
        parts[split] = replace(parts[split], in_train=_among(hashed, seen))
    limited = {split: parts[split].limit(config[knob]) for split, knob in LIMITS.items()}
    notes += _label_notes(limited["train"].labels, columns, classes)
    notes += duplicates(parts, "texts")
    notes += unseen_classes(classes, parts["train"].labels)
    return Tables(limited, columns, classes, tuple(notes))


def _among(values: np.ndarray, rising: np.ndarray) -> np.ndarray:
    """Returns whether each value is in a sorted array."""
    places = np.minimum(np.searchsorted(rising, values), len(rising) - 1)
    return rising[places] == values


def _label_notes(labels: np.ndarray, columns: Columns, classes: tuple[str, ...]) -> list[str]:
    """Returns notes on the labels of the training set.

    Args:
      labels: the labels.
      columns: columns of texts and labels.
      classes: names of the classes; (): labels are numbers.
    """
    if classes:
        several = labels.ndim > 1
        bare = int((labels.sum(axis=-1) == 0).sum()) if several else 0
        notes = [f"train: {bare:,} of {len(labels):,} rows have no label"] if bare else []
        return [describe_classes(classes, labels), *notes, *class_notes(classes, columns.label, several)]
    notes = [f"labels are numbers: mean {labels.mean():.4g}, deviation {labels.std():.4g}"]
    if (labels == np.rint(labels)).all():
        notes.append(
            "all labels are whole numbers; for classification, write them without a decimal point (3)"
        )
    if abs(labels.mean()) > 10 or labels.std() > 10:
        notes.append("networks learn numbers near 0 and 1 best; scale the labels in the files")
    return notes


def check_available(config: DataConfig) -> None:
    """Checks that the tables exist, and the columns of their first rows. Raises: ValueError."""
    columns = columns_of(config)
    for split in SPLITS[1:]:
        top = next(rows.read_rows(paths.given(config[split])), None) if config[split] else None
        if top is not None:
            check_columns(paths.given(config[split]), split, columns, top.values)


def fingerprints(config: DataConfig) -> dict[str, str]:
    """Returns name and hash of the table of each split with a file."""
    return {split: rows.fingerprint(paths.given(config[split])) for split in SPLITS if config[split]}


def columns_of(config: DataConfig) -> Columns:
    """Returns the columns of text and label in the table `train`. Raises: ValueError."""
    return _columns(config)[0]


def _columns(config: DataConfig) -> tuple[Columns, tuple[str, ...]]:
    """Returns the columns that are used, and all columns."""
    if not config.train:
        raise ValueError("data.train is empty; give a table with --config.data.train=FILE.csv")
    path = paths.given(config.train)
    top = next(rows.read_rows(path), None)
    if top is None:
        raise ValueError(f"data.train={path} has no rows; add some, or give another file")
    names = tuple(top.values)
    return find_columns(config, names, path), names
