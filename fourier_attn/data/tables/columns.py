"""Finds the columns of a table that hold texts and labels."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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
SHOWN = 20  # names that a message or a note lists


class Columns(NamedTuple):
    """Names the columns with the text, the second text ("": none) and the label."""

    text: str
    text_pair: str
    label: str

    def texts(self, where: str, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Returns the text or the two texts of a row. Raises: ValueError if one is not a text."""
        texts = []
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
            texts.append(text)
        return tuple(texts)


def find_columns(knobs: Any, names: Collection[str], where: object) -> Columns:
    """Returns the columns that knobs name, or else those whose names say what they hold.

    Raises: ValueError that lists the columns where one cannot be found, or several may be meant.
    """
    for knob in ("text", "text_pair", "label"):
        if knobs[knob] and knobs[knob] not in names:
            raise ValueError(f"{where} has no column data.{knob}={knobs[knob]!r}; it has {listed(names)}")
    given = [knobs["text"], knobs["text_pair"]]
    label = knobs["label"] or _likeliest(
        LABELS, [name for name in names if name not in given], "label", where
    )
    if not label:
        raise ValueError(
            f"cannot find the label column of {where} (columns: {listed(names)}); set data.label"
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
        raise ValueError(f"cannot find the text column of {where} (columns: {listed(names)}); set data.text")
    return Columns(text, "", label)


def check_columns(path: Path, split: str, columns: Columns, values: Mapping[str, Any]) -> None:
    """Checks that a file has the columns of train. Raises: ValueError."""
    optional = {"", columns.label} if split == "test" else {""}
    if missing := [name for name in columns if name not in values and name not in optional]:
        raise ValueError(
            f"data.{split}={path} has no column {', '.join(missing)}, as train has; it has {listed(values)}"
        )


def listed(names: Collection[str]) -> str:
    """Returns the first names of columns, and how many more there are."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(f"{name!r:.60}" for name in list(names)[:SHOWN]) + more


def _likeliest(known: tuple[str, ...], names: Collection[str], knob: str, where: object) -> str:
    """Returns the one column that is called so, the first of `known` if it is there, or "".

    Raises: ValueError for several.
    """
    plain = {name.strip().lower(): name for name in reversed(list(names))}
    likely = [plain[name] for name in known if name in plain]
    if len(likely) > 1 and likely[0].strip().lower() != known[0]:
        raise ValueError(
            f"{where}: the {knob} column is ambiguous ({', '.join(likely)}); set data.{knob} to one of them"
        )
    return likely[0] if likely else ""
