"""The user's own tables: read row by row, split, and encoded.

Of each row a few bytes are held, never its text: tables may have millions of them.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fourier_attn import paths
from fourier_attn.data.packed import PackedTokens, encode_all
from fourier_attn.data.tables import formats
from fourier_attn.data.tables.columns import (
    HIDDEN,
    LIMITS,
    Columns,
    Found,
    class_notes,
    describe_classes,
    describe_columns,
    find_columns,
    is_hidden,
    label_of,
    unseen_classes,
)
from fourier_attn.data.tables.files import letters

SPLITS = tuple(LIMITS)
MINUS_ONE = ("-1", "-1.0")


@dataclass(frozen=True)
class TableSplit:
    """Rows of a file that make a split.

    Args:
      file: the table.
      rows: their numbers in it, in the split's order.
      labels: of each: the number of its class, or a number; -1 where the file has none.
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

    def first(self, count: int) -> "TableSplit":
        """The first so many, or all for 0."""
        return self.take(np.arange(len(self))[:count]) if count else self


@dataclass(frozen=True)
class Tables:
    """What tables hold.

    Args:
      parts: train, validation and test.
      columns: of texts and labels.
      labels: the classes; (): labels are numbers.
      notes: what people should know about them.
    """

    parts: Mapping[str, TableSplit]
    columns: Columns
    labels: tuple[str, ...]
    notes: tuple[str, ...]

    def texts(self, split: str, count: int = 0) -> Iterator[str]:
        """The texts of the first so many rows of a split, or of all for 0, as they stand in its file."""
        part = self.parts[split].first(count)
        for texts in _wanted(part.file, self.columns, part.rows):
            yield from texts

    def encode(self, tokenizer: Any, length: int) -> dict[str, PackedTokens]:
        """Token ids of each split, as `text.encode` makes them; each file is read once."""
        found = {}
        for file in {part.file for part in self.parts.values()}:
            here = {name: part for name, part in self.parts.items() if part.file == file}
            wanted = np.unique(np.concatenate([part.rows for part in here.values()]))
            rows = encode_all(tokenizer, _wanted(file, self.columns, wanted), length)
            found |= {name: rows.take(np.searchsorted(wanted, part.rows)) for name, part in here.items()}
        return found


def read(config: Any) -> Tables:
    """Reads the tables `train`, `validation` and `test`, all but their texts.

    A split without a file is a share `holdout` of train, drawn from `split_seed`.

    Raises: ValueError that names file, line, value and cure for what cannot be used.
    """
    columns, all_columns = _columns(config)
    read, hashes, names = {}, {}, tuple(config["labels"])
    notes = [describe_columns(columns, all_columns)]
    for split in SPLITS:
        if config[split]:
            known = _known(names, read.get("train"))
            table = _read(paths.given(config[split]), split, columns, names, known)
            read[split], hashes[split], names = table.part, table.hashes, table.names
            notes += table.notes
    train, missing = read["train"], [split for split in SPLITS[1:] if split not in read]
    order = np.random.default_rng(config["split_seed"]).permutation(train.rows)
    for split in missing:
        count = round(config["holdout"] * len(train))
        if not count or count * len(missing) >= len(train):
            raise ValueError(
                f"{train.file} has {len(train)} rows, of which data.holdout={config['holdout']} cannot be "
                f"kept for each of {' and '.join(missing)}; add rows, or name files of these"
            )
        read[split], order = train.take(order[:count]), order[count:]
    read["train"] = train.take(order)
    seen = np.sort(hashes["train"][order])
    for split in SPLITS[1:]:
        found = hashes.get(split, hashes["train"])[read[split].rows]
        read[split] = replace(read[split], in_train=_among(found, seen))
    return _limited(config, read, columns, names, notes)


def _among(values: np.ndarray, rising: np.ndarray) -> np.ndarray:
    """Which values stand in an array that rises."""
    places = np.minimum(np.searchsorted(rising, values), len(rising) - 1)
    return rising[places] == values


def check_available(config: Any) -> None:
    """Checks that the tables are there, and the columns of their first rows. Raises: ValueError."""
    columns = columns_of(config)
    for split in SPLITS[1:]:
        first = next(formats.rows(paths.given(config[split])), None) if config[split] else None
        if first is not None:
            _check_columns(paths.given(config[split]), split, columns, first.values)


def _limited(
    config: Any, read: dict[str, TableSplit], columns: Columns, names: tuple[str, ...], notes: list[str]
) -> Tables:
    parts = {split: read[split].first(config[knob]) for split, knob in LIMITS.items()}
    labels = parts["train"].labels
    if names:
        counts = np.bincount(labels, minlength=len(names)).tolist()
        notes += [describe_classes(names, counts), *class_notes(names, columns.label)]
    else:
        notes.append(f"labels are numbers: mean {labels.mean():.4g}, deviation {labels.std():.4g}")
        if (labels == np.rint(labels)).all():
            notes.append(
                "all labels are whole numbers; for classification, write them without a decimal point (3)"
            )
        if abs(labels.mean()) > 10 or labels.std() > 10:
            notes.append("networks learn numbers near 0 and 1 best: scale the labels in the files")
    twice = {split: int(read[split].in_train.sum()) for split in SPLITS[1:]}
    notes += [f"{s}: {n:,} of {len(read[s]):,} texts are in train, too" for s, n in twice.items() if n]
    notes += unseen_classes(names, read["train"].labels)
    return Tables(parts, columns, names, tuple(notes))


def fingerprints(config: Any) -> dict[str, str]:
    """Name and hash of the table of each split that has one."""
    return {split: formats.fingerprint(paths.given(config[split])) for split in SPLITS if config[split]}


def columns_of(config: Any) -> Columns:
    """Returns the columns with text and label, of the table `train`. Raises: ValueError."""
    return _columns(config)[0]


def _columns(config: Any) -> tuple[Columns, tuple[str, ...]]:
    """Returns the columns that are taken, and all that there are."""
    if not config["train"]:
        raise ValueError("data.train is empty; name a table of your own, --config.data.train=FILE.csv")
    path = paths.given(config["train"])
    first = next(formats.rows(path), None)
    if first is None:
        raise ValueError(f"data.train={path} has no rows; write some, or name another file")
    names = tuple(first.values)
    return find_columns(config, names, path), names


class _Table(NamedTuple):
    """All rows of a file, a hash of the letters and digits of each, the classes of train, and notes."""

    part: TableSplit
    hashes: np.ndarray
    names: tuple[str, ...]
    notes: tuple[str, ...]


def _known(names: tuple[str, ...], train: TableSplit | None) -> tuple[str, ...]:
    """Returns the labels of train that would mark a hidden label in a test file."""
    if names or train is None:
        return tuple(name for name in names if name.lower() in HIDDEN)
    return MINUS_ONE if (train.labels == -1).any() else ()


def _read(path: Path, split: str, columns: Columns, names: tuple[str, ...], known: tuple[str, ...]) -> _Table:
    """Reads all rows of a file. A test file may be without labels: it lacks the column, or hides all of them.

    Args:
      known: labels that say that one is hidden, where they are not classes or numbers of train.
    """
    hashes, found, hidden, wordless = array("q"), Found(names), [], 0
    numbers = split == "test" and not names
    for number, row in enumerate(formats.rows(path)):
        if not number:
            _check_columns(path, split, columns, row.values)
        texts = columns.texts(row.where, row.values)
        same = letters(" | ".join(texts))
        wordless += not same.strip(" |")
        digest = hashlib.blake2b((same or " | ".join(texts)).encode(), digest_size=8).digest()
        hashes.append(int.from_bytes(digest, "little", signed=True))
        value = row.values.get(columns.label)
        unsure = numbers and str(value).strip() in MINUS_ONE  # of which all rows decide what it means
        if split == "test" and is_hidden(value) and str(value) not in known and not unsure:
            hidden = hidden or [row.where, value]
        else:
            found.add(row.where, label_of(row.where, columns.label, value))
        if hidden and len(found.ids):
            raise ValueError(
                f"{hidden[0]}: the label {columns.label} is missing; add it, or remove the row "
                "(a test file must have all labels or none)"
            )
    count = len(hashes)
    if not count:
        raise ValueError(f"data.{split}={path} has no rows; write some, or name another file")
    if split == "train":
        names = found.names(path, columns.label)
    elif not names and found.word:
        raise ValueError(
            f"{found.word} as its label, but the labels of train are numbers; replace it with a number"
        )
    kind = np.int32 if names else np.float32
    labels = np.full(count, -1, kind) if hidden else found.labels(names)
    if split == "validation" and (labels == -1).all() and not known:
        raise ValueError(
            f"data.validation={path} has hidden labels (-1 in all rows); give a file with labels"
        )
    notes = (
        [f"{split}: {wordless:,} of {count:,} texts have neither a letter nor a digit"] if wordless else []
    )
    if split == "test" and (labels == -1).all() and not known:
        notes.append(f"test has no labels: the run will predict its {count:,} texts but not score them")
    part = TableSplit(path, np.arange(count, dtype=np.int32), labels, np.zeros(count, bool))
    return _Table(part, np.frombuffer(hashes, np.int64), names, tuple(notes))


def _check_columns(path: Path, split: str, columns: Columns, values: Mapping[str, Any]) -> None:
    """Raises: ValueError where a file has other columns than train."""
    free = {"", columns.label} if split == "test" else {""}
    if missing := [name for name in columns if name not in values and name not in free]:
        raise ValueError(
            f"data.{split}={path} has no column {', '.join(missing)}, as train has; "
            f"it has {', '.join(values)}"
        )


def _wanted(file: Path, columns: Columns, rows: np.ndarray) -> Iterator[tuple[str, ...]]:
    """The texts of some rows of a file, in its order."""
    mask = np.zeros(int(rows.max()) + 1, bool)
    mask[rows] = True
    count = 0
    for wanted, (where, values, *_) in zip(mask.tobytes(), formats.rows(file), strict=False):
        if wanted:
            count += 1
            yield columns.texts(where, values)
    if count != len(rows):
        raise ValueError(f"{file} has changed while it was read; start again when it is complete")
