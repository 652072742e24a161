"""Collects the labels of a table, which are classes or numbers."""

import math
import re
import unicodedata
from array import array
from collections.abc import Collection
from typing import Any

import numpy as np

from fourier_attn.knobs import HUGE

CLASSES = 10_000  # largest number of classes; more indicate the wrong column
SETS = 1_000  # largest number of classes if rows can have several; each row stores a number for each
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"[+-]?\d+")
HIDDEN = ("", "-1", "-1.0", "?", "nan", "na", "n/a", "null", "none")  # labels that are not public
TRUTH = {"true": 1.0, "false": 0.0}  # spellings of 1 and 0


def is_hidden(value: Any) -> bool:
    """Returns whether a label of a test file means that it is not public."""
    if isinstance(value, float) and math.isnan(value):
        return True
    return value is None or (not isinstance(value, bool) and str(value).strip().lower() in HIDDEN)


def label_of(where: str, name: str, value: Any) -> str:
    """Returns the label in a cell as a text.

    Args:
      where: place of the row, for messages.
      name: name of the column, for messages.
      value: value of the cell.
    Raises: ValueError for a missing label, or a value that is not a text or number.
    """
    if isinstance(value, bool):
        return str(value).lower()
    written = value.strip() if isinstance(value, str) else str(value)
    if value is None or not written or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{where}: the label {name} is missing; add it, or remove the row")
    if not isinstance(value, str | int | float):
        raise ValueError(
            f"{where}: the label {name} must be one string or number, not {value!r:.40}; fix it, or set "
            "data.label to another column"
        )
    return written


SEVERAL = re.compile(r"[;|]")  # separates the labels of a cell


def labels_of(where: str, name: str, value: Any) -> tuple[str, ...]:
    """Returns the different labels of a cell in their order; () for an empty cell.

    Labels are separated by ";" or "|", or are the items of a list.

    >>> labels_of("", "topic", "bug; ui|bug;"), labels_of("", "topic", ["a;b", 3]), labels_of("", "topic", "")
    (('bug', 'ui'), ('a;b', '3'), ())

    Args:
      where, name, value: see `label_of`.
    Raises: ValueError for a missing cell.
    """
    if isinstance(value, list):
        return (*dict.fromkeys(label_of(where, name, item) for item in value),)
    if isinstance(value, str):
        return (*dict.fromkeys(filter(None, map(str.strip, SEVERAL.split(value)))),)
    return (label_of(where, name, value),)


class Labels:
    """Collects the labels of a split, as indices of classes and as numbers.

    Args:
      names: the allowed classes; default (): all that occur.
    """

    is_hidden = staticmethod(is_hidden)

    def __init__(self, names: Collection[str] = ()):
        self.fixed = bool(names)
        self.ids, self.values = array("i"), array("f")
        self.numbers: dict[str, int] = {name: i for i, name in enumerate(names)}
        self.word = self.fraction = ""  # place of the first label that is not a number, or not an integer
        self.last = ""

    def read(self, where: str, column: str, value: Any) -> None:
        """Adds the label in a cell.

        Args:
          where: place of the row, for messages.
          column: name of the column, for messages.
          value: value of the cell.
        Raises: ValueError for an invalid label.
        """
        self.add(where, label_of(where, column, value))

    def add(self, where: str, label: str) -> None:
        """Adds a `label` of the row at `where`.

        Raises: ValueError for a label that is not one of the classes, and for a number that is too large.
        """
        if label not in self.numbers and self.fixed:
            raise ValueError(
                f"{where} has the label {label!r:.40}, but train has only "
                f"{', '.join(self.numbers)[:200]}; fix the label, or remove the row"
            )
        if label not in self.numbers and len(self.numbers) < CLASSES:
            self.numbers[label] = len(self.numbers)
        self.ids.append(self.numbers.get(label, -1))
        self.last = where
        if self.fixed:
            return
        if not NUMBER.fullmatch(label):
            self.word = self.word or f"{where} has {label!r:.40}"
            self.values = array("f")  # the labels are not numbers
            return
        if abs(number := float(label)) > HUGE:
            raise ValueError(f"{where} has the label {label:.40}, larger than {HUGE:g}; scale the labels")
        if not self.word:
            self.values.append(number)
        if not WHOLE.fullmatch(label):
            self.fraction = self.fraction or f"{where} has {label!r:.40}"

    def __len__(self) -> int:
        return len(self.ids)

    def names(self, file: object, column: str) -> tuple[str, ...]:
        """Returns the classes in the order of their indices; () for labels that are numbers with fractions.

        Args:
          file: name of the table, for messages.
          column: name of the column, for messages.
        Raises: ValueError for a single class, too many classes, and words among fractions.
        """
        if self.fixed:
            return tuple(self.numbers)
        self._check_spellings(file, column)
        if self.fraction and self.word:
            raise ValueError(
                f"the labels {column} are words and numbers: {self.fraction}, {self.word}; fix one of them"
            )
        if self.fraction:
            if min(self.values) == max(self.values):
                raise ValueError(
                    f"{file}: all labels {column} are {self.values[0]:g}; give rows with other labels"
                )
            return ()
        if len(self.numbers) == 1:
            raise ValueError(
                f"{file}: all labels {column} are {next(iter(self.numbers))!r}; give rows of another class"
            )
        if len(self.numbers) >= CLASSES or (
            len(self.numbers) > 100 and 2 * len(self.numbers) > len(self.ids)
        ):
            raise ValueError(
                f"{file}: {column} has {len(self.numbers):,} different labels in {len(self.ids):,} rows, "
                f"the last one in {self.last}; set data.label to the right column"
            )
        return tuple(sorted(self.numbers) if self.word else sorted(self.numbers, key=int))

    def _check_spellings(self, file: object, column: str) -> None:
        """Checks that no label has two spellings. Raises: ValueError."""
        spellings: dict[Any, str] = {}
        whole = not self.word and all(value.is_integer() for value in self.values)
        for name in self.numbers:
            plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
            same: Any = TRUTH.get(plain, plain)
            if NUMBER.fullmatch(name):
                # 1 and 1.0 are the same number, as some programs write them among numbers with fractions
                same = float(name) if whole or not self.fraction else name
            other = spellings.setdefault(same, name)
            if other != name:
                raise ValueError(
                    f"{file}: {other!r} and {name!r} in {column} look like two spellings of one label; use "
                    "one spelling, or list all classes in data.labels to keep both"
                )

    @staticmethod
    def hidden(count: int, names: tuple[str, ...]) -> np.ndarray:
        """Returns `count` labels -1, which are not public; without `names` they are floats."""
        return np.full(count, -1, np.int32 if names else np.float32)

    def labels(self, names: tuple[str, ...]) -> np.ndarray:
        """Returns the index of each label in `names`; without names, its value."""
        if not names:
            return np.frombuffer(self.values, np.float32)
        places = {name: i for i, name in enumerate(names)}
        order = np.array([places[name] for name in self.numbers], np.int32)
        return order[np.frombuffer(self.ids, np.int32)]


class LabelSets:
    """Collects the labels of a split in which rows can have several labels.

    Args:
      names: the allowed classes; default (): all that occur.
    """

    word = ""  # numbers are names of classes as well

    def __init__(self, names: Collection[str] = ()):
        self.each, self.sizes = Labels(names), array("i")
        self.fixed = self.each.fixed

    def __len__(self) -> int:
        return len(self.sizes)

    def read(self, where: str, column: str, value: Any) -> None:
        """Adds the labels in a cell.

        Args:
          where, column, value: see `Labels.read`.
        Raises: ValueError for a label that is not one of the classes.
        """
        labels = labels_of(where, column, value)
        for label in labels:
            self.each.add(where, label)
        self.sizes.append(len(labels))

    def names(self, file: object, column: str) -> tuple[str, ...]:
        """Returns the classes in the order of their indices.

        Args:
          file, column: see `Labels.names`.
        Raises: ValueError as `Labels.names`, and for more than `SETS` classes.
        """
        self.each.word = self.each.word or self.each.fraction
        self.each.fraction = ""
        names = self.each.names(file, column)
        if len(names) > SETS:
            raise ValueError(
                f"{file}: {column} has {len(names):,} different labels, but data.multi_label=True allows "
                f"at most {SETS:,}; set data.label to the right column"
            )
        return names

    @staticmethod
    def is_hidden(value: Any) -> bool:
        """Returns whether the `value` of a cell is missing; an empty cell means that the row has no label."""
        return value is None

    @staticmethod
    def hidden(count: int, names: tuple[str, ...]) -> np.ndarray:
        """Returns `count` rows of labels -1 for each of the `names`, which are not public."""
        return np.full((count, len(names)), -1, np.int32)

    def labels(self, names: tuple[str, ...]) -> np.ndarray:
        """Returns 1 if a row has a class of `names`, else 0 (n, c); hidden labels if no row has any."""
        if not len(self.each):
            return self.hidden(len(self), names)
        found = np.zeros((len(self), len(names)), np.int32)
        rows = np.repeat(np.arange(len(self)), np.frombuffer(self.sizes, np.int32))
        found[rows, self.each.labels(names)] = 1
        return found
