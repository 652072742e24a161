"""Formats notes on a custom dataset, which a run prints before it starts."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from fourier_attn.data.examples import Selection
from fourier_attn.data.tables.columns import SHOWN, Columns, listed
from fourier_attn.data.tables.labels import WHOLE

JOINED = re.compile(r"\s*[;|,]\s*")  # separates several labels of a row


def describe_columns(columns: Columns, names: Collection[str]) -> str:
    """Returns a line with the columns that are used, and those among `names` that are not."""
    taken = [("text", columns.text), ("text_pair", columns.text_pair), ("label", columns.label)]
    used = ", ".join(f"{knob}: {name}" for knob, name in taken if name)
    unused = [name for name in names if name not in columns]
    return f"columns {used}" + (f"; not used: {listed(unused)}" if unused else "")


def describe_classes(names: Sequence[str], labels: np.ndarray) -> str:
    """Returns a line with the classes and their numbers of examples, at most `SHOWN` of them."""
    counts = _counts(names, labels).tolist()
    order = range(len(names))
    if len(names) > SHOWN:
        order = sorted(sorted(order, key=lambda i: -counts[i])[:SHOWN])
    more = f", and {len(names) - SHOWN:,} smaller ones" if len(names) > SHOWN else ""
    return "classes " + ", ".join(f"{names[i]:.40} {counts[i]:,}" for i in order) + more


def _counts(names: Sequence[str], labels: np.ndarray) -> np.ndarray:
    """Returns the number of rows of each class, from indices (n,), or from 0 and 1 of each class (n, c)."""
    return labels.sum(axis=0) if labels.ndim > 1 else np.bincount(labels, minlength=len(names))


def unseen_classes(names: Sequence[str], labels: np.ndarray) -> list[str]:
    """Returns a note for each class without training examples."""
    lost = np.flatnonzero(_counts(names, labels) == 0).tolist() if names else []
    return [
        f"train has no rows of the class {names[i]!r}; all are held out, or the data have none" for i in lost
    ]


def class_notes(names: Sequence[str], column: str, several: bool = False) -> list[str]:
    """Returns notes on classes that may be numbers, or several labels in one.

    Args:
      names: names of the classes.
      column: name of the column.
      several: whether rows can have several labels; default False.
    """
    notes = []
    if not several and len(names) > 2 and all(WHOLE.fullmatch(name) for name in names):
        notes.append(
            f"the whole numbers in {column} are used as {len(names)} classes; for regression, write them "
            "with a decimal point (3.0)"
        )
    parts = {name: set(JOINED.split(name)) for name in names}
    counts = Counter(part for several in parts.values() for part in several)
    joined = [
        name for name in names if len(parts[name]) > 1 and any(counts[part] > 1 for part in parts[name])
    ]
    if joined:
        cure = 'write ";" or "|" between labels'
        if not several:
            cure += ", or lists, and set data.multi_label=True"
        notes.append(f"{joined[0]!r} in {column} is treated as one class; for several labels, {cure}")
    return notes


def duplicates(parts: Mapping[str, Selection], noun: str) -> Iterator[str]:
    """Yields a note for each split with examples of the training set; `noun` names the examples."""
    for split in ("validation", "test"):
        marks = parts[split].in_train
        if marks.any():
            yield f"{split}: {int(marks.sum()):,} of {len(marks):,} {noun} are also in train"


def unlabelled(count: int, noun: str) -> str:
    """Returns the note on a test set of `count` examples without labels; `noun` names the examples."""
    return f"test has no labels: the run will predict its {count:,} {noun} but not score them"
