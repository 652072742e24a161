"""Which columns of a table hold texts and labels, and what the labels are: classes, or numbers."""

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.knobs import HUGE

# Of each split of one's own data, the knob that says how many of its examples are used.
LIMITS = {"train": "train_examples", "validation": "eval_examples", "test": "test_examples"}
# What columns are called in published data sets, the likeliest first.
PAIRS = (
    ("text", "text_pair"),
    ("text1", "text2"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
)
TEXTS = (
    "text",
    "sentence",
    "review",
    "content",
    "comment",
    "message",
    "description",
    "body",
    "tweet",
    "title",
)
LABELS = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
    "topic",
    "intent",
    "emotion",
    "genre",
    "score",
    "rating",
    "stars",
)
CLASSES = 10_000  # more are a sign of the wrong column
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"[+-]?\d+")
HIDDEN = ("", "-1", "-1.0", "?", "nan", "na", "n/a", "null", "none")  # labels where they are not public
SHOWN = 20  # names that a message or a note lists
JOINED = re.compile(r"\s*[;|,]\s*")  # between several labels of one row


TRUTH = {"true": 1.0, "false": 0.0}  # beside 1 and 0


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
                number = text is not None and not isinstance(text, str)
                what = f"is {text!r:.40}, not a string" if number else "is missing"
                cure = "fill it in"
                if number:
                    cure = f"set data.text to the column that holds the texts (now {name})"
                raise ValueError(f"{where}: {name} {what}; {cure}, or remove the row")
            if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise ValueError(
                    f"{where}: {name} contains an unpaired surrogate, which is not valid UTF-8; fix that row"
                )
            found.append(text)
        return tuple(found)


def find_columns(knobs: Any, names: Collection[str], where: object) -> Columns:
    """Returns the columns that knobs name, or else those whose names say what they hold.

    Raises: ValueError that lists the columns where one cannot be found, or several may be meant.
    """
    for knob in ("text", "text_pair", "label"):
        if knobs[knob] and knobs[knob] not in names:
            raise ValueError(f"{where} has no column data.{knob}={knobs[knob]!r}; it has {_listed(names)}")
    given = [knobs["text"], knobs["text_pair"]]
    label = knobs["label"] or _likeliest(
        LABELS, [name for name in names if name not in given], "label", where
    )
    if not label:
        raise ValueError(
            f"cannot find the label column of {where} (columns: {_listed(names)}); set data.label"
        )
    if knobs["text"]:
        return Columns(knobs["text"], knobs["text_pair"], label)
    rest = [name for name in names if name != label]
    plain = {name.strip().lower(): name for name in reversed(rest)}
    for first, second in PAIRS:
        if first in plain and second in plain and knobs["text_pair"] in ("", plain[second]):
            return Columns(plain[first], plain[second], label)
    text = _likeliest(TEXTS, rest, "text", where) or (rest[0] if len(rest) == 1 else "")
    if not text or knobs["text_pair"]:
        raise ValueError(f"cannot find the text column of {where} (columns: {_listed(names)}); set data.text")
    return Columns(text, "", label)


def _listed(names: Collection[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(f"{name!r:.60}" for name in list(names)[:SHOWN]) + more


def _likeliest(known: tuple[str, ...], names: Collection[str], knob: str, where: object) -> str:
    """Returns the one column that is called so, the first of `known` if it is there, or "".

    Raises: ValueError for several.
    """
    plain = {name.strip().lower(): name for name in reversed(list(names))}
    found = [plain[name] for name in known if name in plain]
    if len(found) > 1 and found[0].strip().lower() != known[0]:
        raise ValueError(
            f"{where}: the {knob} column is ambiguous ({', '.join(found)}); set data.{knob} to one of them"
        )
    return found[0] if found else ""


def describe_columns(columns: Columns, names: Collection[str]) -> str:
    """Returns which columns were taken, in words, and which were not."""
    taken = [("text", columns.text), ("text_pair", columns.text_pair), ("label", columns.label)]
    found = ", ".join(f"{knob}: {name}" for knob, name in taken if name)
    unused = [name for name in names if name not in columns]
    return f"columns {found}" + (f"; not used: {_listed(unused)}" if unused else "")


def describe_classes(names: Sequence[str], counts: Sequence[int]) -> str:
    """Returns the classes of train with their counts, the most frequent ones if they are many, in words."""
    if not len(names):
        return ""
    order = range(len(names))
    if len(names) > SHOWN:
        order = sorted(sorted(order, key=lambda i: -counts[i])[:SHOWN])
    more = f", and {len(names) - SHOWN:,} smaller ones" if len(names) > SHOWN else ""
    return "classes " + ", ".join(f"{names[i]:.40} {counts[i]:,}" for i in order) + more


def unseen_classes(names: Sequence[str], labels: np.ndarray) -> list[str]:
    """Returns a note for each class that train does not show."""
    lost = sorted(set(range(len(names))) - set(np.unique(labels).tolist()))
    return [
        f"train has no rows of the class {names[i]!r}: they are all held out, or the data have none"
        for i in lost
    ]


def class_notes(names: Sequence[str], column: str) -> list[str]:
    """Returns what people should know about classes: those that may be scores, or several labels in one."""
    notes = []
    if len(names) > 2 and all(WHOLE.fullmatch(name) for name in names):
        notes.append(
            f"the whole numbers in {column} are used as {len(names)} classes; for regression, write them "
            "with a decimal point (3.0)"
        )
    parts = {name: set(JOINED.split(name)) for name in names}
    counts = Counter(part for found in parts.values() for part in found)
    joined = [
        name for name in names if len(parts[name]) > 1 and any(counts[part] > 1 for part in parts[name])
    ]
    if joined:
        notes.append(
            f"{joined[0]!r} in {column} is treated as one class: multi-label classification is not supported"
        )
    return notes


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
        """Raises: ValueError for one label that is written in two ways."""
        found: dict[Any, str] = {}
        whole = not self.word and all(value.is_integer() for value in self.values)
        for name in self.numbers:
            plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
            same: Any = TRUTH.get(plain, plain)
            if NUMBER.fullmatch(name):
                # among numbers with fractions 1 and 1.0 are one number, as some programs write them
                same = float(name) if whole or not self.fraction else name
            other = found.setdefault(same, name)
            if other != name:
                raise ValueError(
                    f"{file}: {other!r} and {name!r} in {column} look like two spellings of one label; use "
                    "one spelling, or list all classes in data.labels to keep both"
                )

    def labels(self, names: tuple[str, ...]) -> np.ndarray:
        """The number of each label among `names`; without names, its value."""
        if not names:
            return np.frombuffer(self.values, np.float32)
        places = {name: i for i, name in enumerate(names)}
        order = np.array([places[name] for name in self.numbers], np.int32)
        return order[np.frombuffer(self.ids, np.int32)]
