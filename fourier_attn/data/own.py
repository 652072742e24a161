"""The user's own tables: read row by row, split, and encoded into one array of tokens."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn.data.columns import Columns, Found, find_columns, label_of
from fourier_attn.data.sources import tables
from fourier_attn.data.sources.files import letters
from fourier_attn.data.text import encode

SPLITS = ("train", "validation", "test")
CHUNK = 4096  # texts that are encoded at a time


class Rows(Sequence):
    """Token ids of many texts, in one array.

    Args:
      tokens: of all texts, one after another.
      starts, lengths: of each text in there.
    """

    def __init__(self, tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray):
        self.tokens, self.starts, self.lengths = tokens, starts, lengths

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: Any) -> Any:
        start = self.starts[index]
        return self.tokens[start : start + self.lengths[index]]

    def take(self, index: np.ndarray) -> "Rows":
        """Those with these numbers; the tokens are not copied."""
        return Rows(self.tokens, self.starts[index], self.lengths[index])


@dataclass(frozen=True)
class Part:
    """Rows of a file that make a split.

    Args:
      file: the table.
      rows: their numbers in it, in the split's order.
      labels: of each: the number of its class, or a number; -1 where the file has none.
      letters: a hash of the letters and digits of each.
      in_train: which of them are in train, too.
    """

    file: Path
    rows: np.ndarray
    labels: np.ndarray
    letters: np.ndarray
    in_train: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: np.ndarray) -> "Part":
        columns = (self.rows, self.labels, self.letters, self.in_train)
        return Part(self.file, *(column[index] for column in columns))

    def first(self, count: int) -> "Part":
        """The first so many, or all for 0."""
        return self.take(np.arange(len(self))[:count]) if count else self


@dataclass(frozen=True)
class Own:
    """What tables hold.

    Args:
      parts: train, validation and test.
      columns: of texts and labels.
      labels: the classes; (): labels are numbers.
      notes: what people should know about them.
      files: name and hash of each file.
    """

    parts: Mapping[str, Part]
    columns: Columns
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    files: Mapping[str, str]

    def texts(self, split: str, count: int = 0) -> Iterator[str]:
        """The texts of the first so many rows of a split, or of all for 0, as they stand in its file."""
        part = self.parts[split].first(count)
        for texts in _wanted(part.file, self.columns, part.rows):
            yield from texts

    def encode(self, tokenizer: Any, length: int) -> dict[str, Rows]:
        """Token ids of each split, as `text.encode` makes them; each file is read once."""
        found = {}
        for file in {part.file for part in self.parts.values()}:
            here = {name: part for name, part in self.parts.items() if part.file == file}
            wanted = np.unique(np.concatenate([part.rows for part in here.values()]))
            rows = _encoded(tokenizer, _wanted(file, self.columns, wanted), length)
            found |= {name: rows.take(np.searchsorted(wanted, part.rows)) for name, part in here.items()}
        return found


def read(config: Any) -> Own:
    """Reads the tables `train`, `validation` and `test`, all but their texts.

    A split without a file is a share `holdout` of train, drawn from `split_seed`.

    Raises: ValueError that names file, line, value and cure for what cannot be used.
    """
    if not config["train"]:
        raise ValueError("data.train is empty; name a table of your own, --config.data.train=FILE.csv")
    columns = _columns(config)
    read, names = {}, tuple(config["labels"])
    for split in SPLITS:
        if config[split]:
            read[split], names = _read(Path(config[split]), split, columns, names)
    train, missing = read["train"], [split for split in SPLITS[1:] if split not in read]
    order = np.random.default_rng(config["split_seed"]).permutation(len(train))
    for split in missing:
        count = round(config["holdout"] * len(train))
        if not count or count * len(missing) >= len(train):
            raise ValueError(
                f"{train.file} has {len(train)} rows, of which data.holdout={config['holdout']} cannot be "
                f"kept for each of {' and '.join(missing)}; add rows, or name files of these"
            )
        read[split], order = train.take(order[:count]), order[count:]
    read["train"] = train.take(order)
    return _limited(config, read, columns, names)


def look(config: Any) -> None:
    """Checks that the tables are there, and the columns of their first rows. Raises: ValueError."""
    columns = _columns(config)
    for split in SPLITS[1:]:
        first = next(tables.rows(Path(config[split])), None) if config[split] else None
        if first is not None:
            _check_columns(Path(config[split]), split, columns, first.values)


def _limited(config: Any, read: dict[str, Part], columns: Columns, names: tuple[str, ...]) -> Own:
    seen, notes = np.unique(read["train"].letters), []
    for split in SPLITS[1:]:
        part = read[split] = replace(read[split], in_train=np.isin(read[split].letters, seen))
        if count := int(part.in_train.sum()):
            notes.append(f"{split}: {count:,} of {len(part):,} texts are in train, too")
    lost = sorted(set(range(len(names))) - set(read["train"].labels.tolist()))
    notes += [f"train has no row of the class {names[i]!r}: all are held out" for i in lost]
    if not names:
        labels = read["train"].labels
        notes.append(f"labels are numbers: mean {labels.mean():.4g}, deviation {labels.std():.4g}")
        if abs(labels.mean()) > 10 or labels.std() > 10:
            notes.append("networks learn numbers near 0 and 1 best: scale the labels in the files")
    limits = dict(zip(SPLITS, ("train_examples", "eval_examples", "test_examples"), strict=True))
    parts = {split: read[split].first(config[knob]) for split, knob in limits.items()}
    files = {split: tables.fingerprint(Path(config[split])) for split in SPLITS if config[split]}
    return Own(parts, columns, names, tuple(notes), files)


def _columns(config: Any) -> Columns:
    path = Path(config["train"])
    first = next(tables.rows(path), None)
    if first is None:
        raise ValueError(f"data.train={path} has no rows; write some, or name another file")
    return find_columns(config, first.values.keys(), path)


def _read(path: Path, split: str, columns: Columns, names: tuple[str, ...]) -> tuple[Part, tuple[str, ...]]:
    """All rows of a file, and the classes of train.

    Test may be without labels.
    """
    hashes, found, unlabelled = array("q"), Found(names), False
    for number, (where, values) in enumerate(tables.rows(path)):
        if not number:
            _check_columns(path, split, columns, values)
            unlabelled = columns.label not in values
        texts = columns.texts(where, values)
        same = letters(" | ".join(texts)) or " | ".join(texts)
        digest = hashlib.blake2b(same.encode(), digest_size=8).digest()
        hashes.append(int.from_bytes(digest, "little", signed=True))
        if not unlabelled:
            found.add(where, label_of(where, columns.label, values.get(columns.label)))
    if not hashes:
        raise ValueError(f"data.{split}={path} has no rows; write some, or name another file")
    if split == "train":
        names = found.names(path, columns.label)
    elif not names and found.word:
        raise ValueError(f"{found.word} as its label, and those of train are numbers; mend it")
    count = len(hashes)
    kind = np.int32 if names else np.float32
    labels = np.full(count, -1, kind) if unlabelled else found.labels(names)
    return Part(path, np.arange(count), labels, np.array(hashes), np.zeros(count, bool)), names


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
    for wanted, (where, values) in zip(mask.tolist(), tables.rows(file), strict=False):
        if wanted:
            count += 1
            yield columns.texts(where, values)
    if count != len(rows):
        raise ValueError(f"{file} has changed while it was read; start again when it is complete")


def _encoded(tokenizer: Any, texts: Iterable[tuple[str, ...]], length: int) -> Rows:
    tokens, sizes, texts = array("i"), array("i"), iter(texts)
    while chunk := list(islice(texts, CHUNK)):
        first, *second = (list(column) for column in zip(*chunk, strict=True))
        for row in encode(tokenizer, first, length, second[0] if second else None):
            tokens.frombytes(row.tobytes())
            sizes.append(len(row))
    lengths = np.array(sizes, np.int64)
    return Rows(np.frombuffer(tokens, np.int32), np.cumsum(lengths) - lengths, lengths)
