"""Reads a custom table row by row; of each row only a few bytes are kept in memory, not its text."""

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fourier_attn.data.examples import Selection
from fourier_attn.data.tables.columns import Columns, check_columns
from fourier_attn.data.tables.files import letters
from fourier_attn.data.tables.labels import HIDDEN, Labels, LabelSets
from fourier_attn.data.tables.notes import unlabelled
from fourier_attn.data.tables.rows import read_rows

MINUS_ONE = ("-1", "-1.0")


@dataclass(frozen=True)
class TableSplit(Selection):
    """Holds the rows of a file that form a split.

    Args:
      file: the table.
      rows: index of each row in the file from 0 (n,), in the order of the split.
      labels: indices of classes, or numbers (n,), or 0 and 1 of each class (n, c); -1 without labels.
      in_train: whether each row is also in the training set (bool, n).
    """

    file: Path
    rows: np.ndarray
    labels: np.ndarray
    in_train: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: np.ndarray) -> "TableSplit":
        """Returns the rows with the indices `index` (m,), in this order."""
        columns = (self.rows, self.labels, self.in_train)
        return TableSplit(self.file, *(column[index] for column in columns))


class Table(NamedTuple):
    """Holds a table without its texts.

    Args:
      rows: all rows of the file.
      hashes: hash of each row's text (n,).
      classes: classes of the training set; (): the labels are numbers.
      notes: lines for the user.
    """

    rows: TableSplit
    hashes: np.ndarray
    classes: tuple[str, ...]
    notes: tuple[str, ...]


def read_table(
    path: Path,
    split: str,
    columns: Columns,
    classes: tuple[str, ...],
    known: tuple[str, ...],
    several: bool = False,
) -> Table:
    """Reads all rows of a file; a test file may lack labels, or all of its labels may be hidden.

    Args:
      path: the file.
      split: name of the split.
      columns: columns of texts and labels.
      classes: the allowed classes; (): those that occur in the training set, or labels are numbers.
      known: classes of the training set that have the same spelling as a hidden label.
      several: whether rows can have several labels; default False.
    Raises: ValueError that names the file, the line and the cure.
    """
    hashes, hidden, wordless = array("q"), "", 0
    labels = LabelSets(classes) if several else Labels(classes)
    unsure = MINUS_ONE if split == "test" and not classes else ()  # only all rows together decide on these
    for number, row in enumerate(read_rows(path)):
        if not number:
            check_columns(path, split, columns, row.values)
        texts = columns.texts(row.where, row.values)
        same = letters(" | ".join(texts))
        wordless += not same.strip(" |")
        hashes.append(_hash(same or " | ".join(texts)))
        value = row.values.get(columns.label)
        if split == "test" and labels.is_hidden(value) and str(value).strip() not in (*known, *unsure):
            hidden = hidden or row.where
        else:
            labels.read(row.where, columns.label, value)
        if hidden and len(labels):
            raise ValueError(
                f"{hidden}: the label {columns.label} is missing; add it, or remove the row "
                "(a test file must have all labels or none)"
            )
    count = len(hashes)
    if not count:
        raise ValueError(f"data.{split}={path} has no rows; add some, or give another file")
    notes = []
    if wordless:
        notes.append(f"{split}: {wordless:,} of {count:,} texts have neither a letter nor a digit")
    classes, values = _settled(labels, path, split, columns.label)
    if hidden:
        values = labels.hidden(count, classes)
    if (values == -1).all() and not known:
        if split != "test":
            none = "no row has one" if several else "-1 in all rows"
            raise ValueError(f"data.{split}={path} has hidden labels ({none}); give a file with labels")
        notes.append(unlabelled(count, "texts"))
    rows = TableSplit(path, np.arange(count, dtype=np.int32), values, np.zeros(count, bool))
    return Table(rows, np.frombuffer(hashes, np.int64), classes, tuple(notes))


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _settled(
    labels: Labels | LabelSets, path: Path, split: str, column: str
) -> tuple[tuple[str, ...], np.ndarray]:
    """Returns the classes (() for numbers) and the label of each row.

    Args:
      labels: the collected labels.
      path: the file.
      split: name of the split.
      column: column of the labels.
    Raises: ValueError for words if the labels of the training set are numbers.
    """
    classes = labels.names(path, column) if split == "train" or labels.fixed else ()
    if not classes and labels.word:
        raise ValueError(
            f"{labels.word} as its label, but the labels of train are numbers; replace it with a number"
        )
    return classes, labels.labels(classes)


def known_labels(classes: tuple[str, ...], train: TableSplit | None) -> tuple[str, ...]:
    """Returns the classes of the training set that have the same spelling as a hidden label."""
    if classes or train is None:
        return tuple(name for name in classes if name.lower() in HIDDEN)
    return MINUS_ONE if (train.labels == -1).any() else ()


def texts_of(file: Path, columns: Columns, rows: np.ndarray) -> Iterator[tuple[str, ...]]:
    """Yields the texts of some rows, in the order of the file.

    Args:
      file: the table.
      columns: columns of the texts.
      rows: indices of the rows from 0 (n,).
    Raises: ValueError if the file has changed.
    """
    mask = np.zeros(int(rows.max()) + 1, bool)
    mask[rows] = True
    count = 0
    for wanted, (where, values, *_) in zip(mask.tobytes(), read_rows(file), strict=False):
        if wanted:
            count += 1
            yield columns.texts(where, values)
    if count != len(rows):
        raise ValueError(f"{file} changed while it was read; start again when it is complete")
