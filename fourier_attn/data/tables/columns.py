"""Finds the columns of a table that contain texts and labels."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

# The option that limits the number of examples of each split.
LIMITS = {"train": "train_examples", "validation": "eval_examples", "test": "test_examples"}
# Names of columns in published data sets, the likeliest first.
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
SHOWN = 20  # largest number of names in a message or a note


class Columns(NamedTuple):
    """Names the columns of a table.

    Args:
      text: column of the text.
      text_pair: column of the second text; "": none.
      label: column of the label.
    """

    text: str
    text_pair: str
    label: str

    def texts(self, where: str, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Returns the text or the two texts of a row.

        Args:
          where: place of the row, for messages.
          values: the row, by column.
        Raises: ValueError for a missing text, or a value that is not a text.
        """
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
    """Returns the columns that the options name, or columns with usual names.

    Args:
      knobs: the options `text`, `text_pair` and `label`; "": detected.
      names: all columns of the table.
      where: name of the table, for messages.
    Raises: ValueError that lists the columns if one cannot be found or is ambiguous.
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
    """Checks that a file has the columns of the training set; a test set needs no label.

    Args:
      path: the file.
      split: name of the split.
      columns: the required columns.
      values: the first row, by column.
    Raises: ValueError.
    """
    optional = {"", columns.label} if split == "test" else {""}
    if missing := [name for name in columns if name not in values and name not in optional]:
        raise ValueError(
            f"data.{split}={path} has no column {', '.join(missing)}, unlike train; it has {listed(values)}"
        )


def listed(names: Collection[str]) -> str:
    """Returns a list of the first columns as text, with the number of further ones."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(f"{name!r:.60}" for name in list(names)[:SHOWN]) + more


def _likeliest(known: tuple[str, ...], names: Collection[str], knob: str, where: object) -> str:
    """Returns the column with a usual name, preferably the first one; "" if there is none.

    Args:
      known: usual names, the likeliest first.
      names: columns to choose from.
      knob: name of the option, for messages.
      where: name of the table, for messages.
    Raises: ValueError if several columns match.
    """
    plain = {name.strip().lower(): name for name in reversed(list(names))}
    likely = [plain[name] for name in known if name in plain]
    if len(likely) > 1 and likely[0].strip().lower() != known[0]:
        raise ValueError(
            f"{where}: the {knob} column is ambiguous ({', '.join(likely)}); set data.{knob} to one of them"
        )
    return likely[0] if likely else ""
