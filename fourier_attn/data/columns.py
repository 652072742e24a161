"""Which columns of a table hold texts and labels, and what the labels are: classes, or numbers."""

import math
import re
from array import array
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.knobs import HUGE

# What columns are called in published data sets, the likeliest first.
PAIRS = (
    ("text", "text_pair"),
    ("text1", "text2"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
)
TEXTS = ("text", "sentence", "review", "content", "comment", "message", "description")
LABELS = ("label", "labels", "class", "category", "target", "sentiment", "score", "rating", "stars")
CLASSES = 10_000  # more are a sign of the wrong column
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"[+-]?\d+")


class Columns(NamedTuple):
    """The columns with the text, the second text ("": none) and the label."""

    text: str
    text_pair: str
    label: str

    def texts(self, where: str, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The text or the two texts of a row. Raises: ValueError for one that is missing or no text."""
        found = []
        for name in (self.text, self.text_pair) if self.text_pair else (self.text,):
            text = values.get(name)
            if not isinstance(text, str) or not text.strip():
                what = f"is {text!r:.40}, no text" if text is not None and text != "" else "is missing"
                raise ValueError(f"{where}: {name} {what}; write a text there, or remove the row")
            if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise ValueError(f"{where}: {name} holds half of a letter, which is no UTF-8; mend that row")
            found.append(text)
        return tuple(found)


def find_columns(knobs: Any, names: Collection[str], where: object) -> Columns:
    """The columns that knobs name, or else those whose names say what they hold.

    Raises: ValueError that lists the columns where none, or not all, can be found.
    """
    listed = ", ".join(map(repr, names))
    for knob in ("text", "text_pair", "label"):
        if knobs[knob] and knobs[knob] not in names:
            raise ValueError(f"{where} has no column data.{knob}={knobs[knob]!r}; it has {listed}")
    label = knobs["label"] or next((name for name in LABELS if name in names), "")
    if not label:
        raise ValueError(f"{where} has no column called a label; it has {listed}: name it, data.label")
    if knobs["text"]:
        return Columns(knobs["text"], knobs["text_pair"], label)
    rest = [name for name in names if name != label]
    for first, second in PAIRS:
        if first in rest and second in rest and knobs["text_pair"] in ("", second):
            return Columns(first, second, label)
    text = next((name for name in TEXTS if name in rest), rest[0] if len(rest) == 1 else "")
    if not text or knobs["text_pair"]:
        raise ValueError(f"{where} has no column called a text; it has {listed}: name it, data.text")
    return Columns(text, "", label)


def label_of(where: str, name: str, value: Any) -> str:
    """A label as it is written. Raises: ValueError for one that is missing."""
    if isinstance(value, bool):
        return str(value).lower()
    written = value.strip() if isinstance(value, str) else str(value)
    if value is None or not written or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{where}: the label {name} is missing; write it there, or remove the row")
    if not isinstance(value, str | int | float):
        raise ValueError(f"{where}: the label {name} is {value!r:.40}, neither a word nor a number; mend it")
    return written


class Found:
    """The labels of a split as they are read: the number of each among `names`, and its value as a number.

    Args:
      names: the classes that there may be; (): all that come.
    """

    def __init__(self, names: Collection[str] = ()):
        self.fixed = bool(names)
        self.ids, self.values = array("i"), array("f")
        self.numbers: dict[str, int] = {name: i for i, name in enumerate(names)}
        self.word = self.fraction = ""  # where the first label stands that is no number, or no whole one
        self.last = ""

    def add(self, where: str, label: str) -> None:
        """Takes a label. Raises: ValueError for one that is none of the classes, or too large a number."""
        if label not in self.numbers and self.fixed:
            raise ValueError(
                f"{where} has the label {label!r:.40}, which train does not have; it has "
                f"{', '.join(self.numbers)[:200]}: mend the label, or remove the row"
            )
        if label not in self.numbers and len(self.numbers) < CLASSES:
            self.numbers[label] = len(self.numbers)
        self.ids.append(self.numbers.get(label, -1))
        self.last = where
        if self.fixed:
            return
        if not NUMBER.fullmatch(label):
            self.word = self.word or f"{where} has {label!r:.40}"
            self.values = array("f")  # labels are no numbers, then
            return
        if abs(number := float(label)) > HUGE:
            raise ValueError(f"{where} has the label {label:.40}, beyond {HUGE:g}; scale the labels")
        if not self.word:
            self.values.append(number)
        if not WHOLE.fullmatch(label):
            self.fraction = self.fraction or f"{where} has {label!r:.40}"

    def names(self, file: object, column: str) -> tuple[str, ...]:
        """The classes in the order of their numbers; () where labels are numbers that are not all whole.

        Raises: ValueError for one class only, too many, or words among fractions.
        """
        if self.fixed:
            return tuple(self.numbers)
        if self.fraction and self.word:
            raise ValueError(
                f"the labels {column} are words and numbers: {self.fraction}, {self.word}; mend one of them"
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

    def labels(self, names: tuple[str, ...]) -> np.ndarray:
        """The number of each label among `names`; without names, its value."""
        if not names:
            return np.frombuffer(self.values, np.float32)
        places = {name: i for i, name in enumerate(names)}
        order = np.array([places[name] for name in self.numbers], np.int32)
        return order[np.frombuffer(self.ids, np.int32)]
