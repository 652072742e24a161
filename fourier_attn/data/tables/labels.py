"""The labels of a table: classes, or numbers."""

import math
import re
import unicodedata
from array import array
from collections.abc import Collection
from typing import Any

import numpy as np

from fourier_attn.knobs import HUGE

CLASSES = 10_000  # more are a sign of the wrong column
SETS = 1_000  # classes where a row has any number of them: each row holds a number for each
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"[+-]?\d+")
HIDDEN = ("", "-1", "-1.0", "?", "nan", "na", "n/a", "null", "none")  # labels where they are not public
TRUTH = {"true": 1.0, "false": 0.0}  # like 1 and 0


def is_hidden(value: Any) -> bool:
    """Returns whether a label of a test file says that it is not public."""
    if isinstance(value, float) and math.isnan(value):
        return True
    return value is None or (not isinstance(value, bool) and str(value).strip().lower() in HIDDEN)


def label_of(where: str, name: str, value: Any) -> str:
    """Returns a label as it is written. Raises: ValueError for one that is missing."""
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


SEVERAL = re.compile(r"[;|]")  # between the labels of a cell


def labels_of(where: str, name: str, value: Any) -> tuple[str, ...]:
    """Returns the different labels of a cell, as they are written, in their order; () for an empty one.

    They are between ";" or "|", or the items of a list. Raises: ValueError for a cell that is missing.

    >>> labels_of("", "topic", "bug; ui|bug;"), labels_of("", "topic", ["a;b", 3]), labels_of("", "topic", "")
    (('bug', 'ui'), ('a;b', '3'), ())
    """
    if isinstance(value, list):
        return (*dict.fromkeys(label_of(where, name, item) for item in value),)
    if isinstance(value, str):
        return (*dict.fromkeys(filter(None, map(str.strip, SEVERAL.split(value)))),)
    return (label_of(where, name, value),)


class Labels:
    """Collects the labels of a split as they are read: the number of each class, and its value as a number.

    Args:
      names: the allowed classes; (): all that occur.
    """

    is_hidden = staticmethod(is_hidden)

    def __init__(self, names: Collection[str] = ()):
        self.fixed = bool(names)
        self.ids, self.values = array("i"), array("f")
        self.numbers: dict[str, int] = {name: i for i, name in enumerate(names)}
        self.word = self.fraction = ""  # place of the first label that is not a number, or not a whole one
        self.last = ""

    def read(self, where: str, column: str, value: Any) -> None:
        """Adds the label in a cell. Raises: ValueError."""
        self.add(where, label_of(where, column, value))

    def add(self, where: str, label: str) -> None:
        """Adds a label. Raises: ValueError for one that is none of the classes, or too large a number."""
        if label not in self.numbers and self.fixed:
            raise ValueError(
                f"{where} has the label {label!r:.40}, which train does not have; it has "
                f"{', '.join(self.numbers)[:200]}: fix the label, or remove the row"
            )
        if label not in self.numbers and len(self.numbers) < CLASSES:
            self.numbers[label] = len(self.numbers)
        self.ids.append(self.numbers.get(label, -1))
        self.last = where
        if self.fixed:
            return
        if not NUMBER.fullmatch(label):
            self.word = self.word or f"{where} has {label!r:.40}"
            self.values = array("f")  # labels are not numbers, then
            return
        if abs(number := float(label)) > HUGE:
            raise ValueError(f"{where} has the label {label:.40}, beyond {HUGE:g}; scale the labels")
        if not self.word:
            self.values.append(number)
        if not WHOLE.fullmatch(label):
            self.fraction = self.fraction or f"{where} has {label!r:.40}"

    def __len__(self) -> int:
        return len(self.ids)

    def names(self, file: object, column: str) -> tuple[str, ...]:
        """Returns the classes in the order of their numbers; () for labels that are fractional numbers.

        Raises: ValueError for one class only, too many, or words among fractions.
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
                raise ValueError(f"{file}: all labels {column} are {self.values[0]:g}; write others, too")
            return ()
        if len(self.numbers) == 1:
            raise ValueError(
                f"{file}: all labels {column} are {next(iter(self.numbers))!r}; there must be two classes"
            )
        if len(self.numbers) >= CLASSES or (
            len(self.numbers) > 100 and 2 * len(self.numbers) > len(self.ids)
        ):
            raise ValueError(
                f"{file}: {column} has {len(self.numbers):,} different labels in {len(self.ids):,} rows, "
                f"{self.last} the latest; is it the right column? Name it, data.label"
            )
        return tuple(sorted(self.numbers) if self.word else sorted(self.numbers, key=int))

    def _check_spellings(self, file: object, column: str) -> None:
        """Refuses a label that is spelled in two ways. Raises: ValueError."""
        spellings: dict[Any, str] = {}
        whole = not self.word and all(value.is_integer() for value in self.values)
        for name in self.numbers:
            plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
            same: Any = TRUTH.get(plain, plain)
            if NUMBER.fullmatch(name):
                # among numbers with fractions 1 and 1.0 are one number, as some programs write them
                same = float(name) if whole or not self.fraction else name
            other = spellings.setdefault(same, name)
            if other != name:
                raise ValueError(
                    f"{file}: {other!r} and {name!r} in {column} look like two spellings of one label; use "
                    "one spelling, or list all classes in data.labels to keep both"
                )

    @staticmethod
    def hidden(count: int, names: tuple[str, ...]) -> np.ndarray:
        """Returns labels that are not public, -1."""
        return np.full(count, -1, np.int32 if names else np.float32)

    def labels(self, names: tuple[str, ...]) -> np.ndarray:
        """Returns the number of each label among `names`; without names, its value."""
        if not names:
            return np.frombuffer(self.values, np.float32)
        places = {name: i for i, name in enumerate(names)}
        order = np.array([places[name] for name in self.numbers], np.int32)
        return order[np.frombuffer(self.ids, np.int32)]


class LabelSets:
    """Collects the labels of a split where a row has any number of them.

    Args:
      names: the allowed classes; (): all that occur.
    """

    word = ""  # numbers are names of classes, too

    def __init__(self, names: Collection[str] = ()):
        self.each, self.sizes = Labels(names), array("i")
        self.fixed = self.each.fixed

    def __len__(self) -> int:
        return len(self.sizes)

    def read(self, where: str, column: str, value: Any) -> None:
        """Adds the labels in a cell. Raises: ValueError for one that is none of the classes."""
        labels = labels_of(where, column, value)
        for label in labels:
            self.each.add(where, label)
        self.sizes.append(len(labels))

    def names(self, file: object, column: str) -> tuple[str, ...]:
        """Returns the classes in the order of their numbers. Raises: ValueError as `Labels`; for too many."""
        self.each.word = self.each.word or self.each.fraction
        self.each.fraction = ""
        names = self.each.names(file, column)
        if len(names) > SETS:
            raise ValueError(
                f"{file}: {column} has {len(names):,} different labels, and data.multi_label=True takes at "
                f"most {SETS:,}; is it the right column? Name it, data.label"
            )
        return names

    @staticmethod
    def is_hidden(value: Any) -> bool:
        """Returns whether a cell of a test file is missing; an empty one says that there is no label."""
        return value is None

    @staticmethod
    def hidden(count: int, names: tuple[str, ...]) -> np.ndarray:
        """Returns labels that are not public, -1 for each class."""
        return np.full((count, len(names)), -1, np.int32)

    def labels(self, names: tuple[str, ...]) -> np.ndarray:
        """Returns 1 where a row has a class, else 0 (n, c); where no row has a label, they are hidden."""
        if not len(self.each):
            return self.hidden(len(self), names)
        found = np.zeros((len(self), len(names)), np.int32)
        rows = np.repeat(np.arange(len(self)), np.frombuffer(self.sizes, np.int32))
        found[rows, self.each.labels(names)] = 1
        return found
