"""One table of the user's own, read row by row; of each row a few bytes are held, never its text."""

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
    """Holds rows of a file that make a split.

    Args:
      file: the table.
      rows: their numbers in it, in the split's order.
      labels: the class of each row as its number, or a number; with several labels 0 or 1 of each class
        (n, c); -1 where the file has none.
      in_train: which of them are in train, too.
    """

    file: Path
    rows: np.ndarray
    labels: np.ndarray
    in_train: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: np.ndarray) -> "TableSplit":
        columns = (self.rows, self.labels, self.in_train)
        return TableSplit(self.file, *(column[index] for column in columns))


class Table(NamedTuple):
    """Holds all rows of a file, a hash of each text, the classes of train, and notes."""

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
    """Reads all rows of a file; a test file may lack the column of labels, or hide all of them.

    Args:
      classes: the allowed ones; (): those of the file, if it is train, or the labels are numbers.
      known: labels of train that would mark a hidden label otherwise.
      several: whether a row has any number of labels.
    """
    hashes, hidden, wordless = array("q"), "", 0
    labels = LabelSets(classes) if several else Labels(classes)
    unsure = MINUS_ONE if split == "test" and not classes else ()  # all rows together decide what it means
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
        raise ValueError(f"data.{split}={path} has no rows; write some, or name another file")
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
    """Returns the classes, () for numbers, and the label of each row. Raises: ValueError for words then."""
    classes = labels.names(path, column) if split == "train" or labels.fixed else ()
    if not classes and labels.word:
        raise ValueError(
            f"{labels.word} as its label, but the labels of train are numbers; replace it with a number"
        )
    return classes, labels.labels(classes)


def known_labels(classes: tuple[str, ...], train: TableSplit | None) -> tuple[str, ...]:
    """Returns the labels of train that would mark a hidden label in a test file."""
    if classes or train is None:
        return tuple(name for name in classes if name.lower() in HIDDEN)
    return MINUS_ONE if (train.labels == -1).any() else ()


def texts_of(file: Path, columns: Columns, rows: np.ndarray) -> Iterator[tuple[str, ...]]:
    """Yields the texts of some rows of a file, in its order."""
    mask = np.zeros(int(rows.max()) + 1, bool)
    mask[rows] = True
    count = 0
    for wanted, (where, values, *_) in zip(mask.tobytes(), read_rows(file), strict=False):
        if wanted:
            count += 1
            yield columns.texts(where, values)
    if count != len(rows):
        raise ValueError(f"{file} has changed while it was read; start again when it is complete")
