"""Notes on a user's own data, which a run prints before it starts."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from fourier_attn.data.examples import Selection
from fourier_attn.data.tables.columns import SHOWN, Columns, listed
from fourier_attn.data.tables.labels import WHOLE

JOINED = re.compile(r"\s*[;|,]\s*")  # between several labels of one row


def describe_columns(columns: Columns, names: Collection[str]) -> str:
    """Returns which columns were taken, in words, and which were not."""
    taken = [("text", columns.text), ("text_pair", columns.text_pair), ("label", columns.label)]
    used = ", ".join(f"{knob}: {name}" for knob, name in taken if name)
    unused = [name for name in names if name not in columns]
    return f"columns {used}" + (f"; not used: {listed(unused)}" if unused else "")


def describe_classes(names: Sequence[str], labels: np.ndarray) -> str:
    """Returns the classes of train with their counts, the most frequent ones if they are many, in words."""
    counts = _counts(names, labels).tolist()
    order = range(len(names))
    if len(names) > SHOWN:
        order = sorted(sorted(order, key=lambda i: -counts[i])[:SHOWN])
    more = f", and {len(names) - SHOWN:,} smaller ones" if len(names) > SHOWN else ""
    return "classes " + ", ".join(f"{names[i]:.40} {counts[i]:,}" for i in order) + more


def _counts(names: Sequence[str], labels: np.ndarray) -> np.ndarray:
    """Returns the number of rows of each class, of numbers of classes (n) or 0 and 1 of each (n, c)."""
    return labels.sum(axis=0) if labels.ndim > 1 else np.bincount(labels, minlength=len(names))


def unseen_classes(names: Sequence[str], labels: np.ndarray) -> list[str]:
    """Returns a note for each class that train does not show."""
    lost = np.flatnonzero(_counts(names, labels) == 0).tolist() if names else []
    return [
        f"train has no rows of the class {names[i]!r}: they are all held out, or the data have none"
        for i in lost
    ]


def class_notes(names: Sequence[str], column: str, several: bool = False) -> list[str]:
    """Returns notes on classes that may be scores, or several labels in one.

    Args:
      several: whether a row has any number of labels.
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
    """Yields a note on each split that has examples of train."""
    for split in ("validation", "test"):
        marks = parts[split].in_train
        if marks.any():
            yield f"{split}: {int(marks.sum()):,} of {len(marks):,} {noun} are in train, too"


def unlabelled(count: int, noun: str) -> str:
    """Returns the note on a test split without labels."""
    return f"test has no labels: the run will predict its {count:,} {noun} but not score them"
