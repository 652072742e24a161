"""Holds the splits of a data set as batches, with the options of a model that they determine."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.data.batches import IGNORED, Split
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.packed import PackedTokens
from fourier_attn.data.sources import glue
from fourier_attn.data.tasks import TASKS


class Origin(NamedTuple):
    """Holds the file and the row of an example.

    Args:
      file: a table or a folder, as the configuration names it; or the file of a single example.
      row: row of the example from 1, without header and empty lines; None for the file of a single example.
    """

    file: str
    row: int | None


class Origins(Sequence[Origin]):
    """Holds the origins of the examples of a split that is one file.

    Args:
      file: the file.
      rows: row of each example from 1 (n,).
    """

    def __init__(self, file: str, rows: np.ndarray):
        self.file, self.rows = file, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return Origin(self.file, int(self.rows[index]))


class Splits(NamedTuple):
    """Holds the batches of each split, and the options that the data determine.

    Args:
      train, validation, test: batches of these splits.
      extra_evals: further validation and test splits, by name.
      model: options of the model that the data determine: inputs, head, classes and vocabulary.
      lengths: padded lengths of the inputs, in increasing order; () for images.
      in_train: whether each test example is also in the training set (bool, n).
      idx: GLUE's numbers of the examples of each test split, because TFDS has another order; default none.
      tokenizer: tokenizer file in the run's directory; None for inputs without a tokenizer.
      knobs: options of `data` that a custom dataset determines: columns and classes; default none.
      notes: lines for the user about a custom dataset; default none.
      files: name and hash of each file of a custom dataset; default none.
      origins: file and row of each example of a custom dataset, by split; default none.
    """

    train: Split
    validation: Split
    test: Split
    extra_evals: Mapping[str, Split]
    model: Mapping[str, Any]
    lengths: tuple[int, ...]
    in_train: np.ndarray
    idx: Mapping[str, np.ndarray] = MappingProxyType({})
    tokenizer: Path | None = None
    knobs: Mapping[str, Any] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = MappingProxyType({})
    origins: Mapping[str, Sequence[Origin]] = MappingProxyType({})

    @property
    def evals(self) -> dict[str, Split]:
        """Returns all validation and test splits by name; "test" is the last one."""
        return {"validation": self.validation, **self.extra_evals, "test": self.test}

    @property
    def spec(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Returns the shape of one example and the dtype for each array of the first training batch."""
        return {name: (array.shape[1:], array.dtype) for name, array in self.train[0].items()}

    def describe(self) -> str:
        """Returns a line with the number of examples of each split and the size of the vocabulary."""
        sizes = [f"{len(getattr(self, name).rows):,} {name}" for name in ("train", "validation", "test")]
        if "vocab" in self.model:
            sizes[-1] += f"; vocabulary {self.model['vocab']:,}"
        return ", ".join(sizes)

    def fingerprints(self) -> dict[str, Any]:
        """Returns size and hash of each split's rows and labels in order, and a hash of the tokenizer."""
        hashes = {}
        for name, split in {"train": self.train, **self.evals}.items():
            digest = hashlib.blake2b(digest_size=8)
            for record in _records(split):
                digest.update(record)
            questions = getattr(split, "questions", None)
            digest.update(b"" if questions is None else questions.tobytes())
            hashes[name] = f"{len(split.rows)} {digest.hexdigest()}"
        hashes |= {f"files.{name}": fingerprint for name, fingerprint in self.files.items()}
        if self.tokenizer is None:
            return {"data": hashes}
        return {"data": hashes, "tokenizer": hashlib.sha256(self.tokenizer.read_bytes()).hexdigest()[:16]}


def _records(split: Split) -> Iterator[bytes]:
    """Yields the bytes of each row's length, contents and label, for hashes."""
    if isinstance(split.rows, PackedTokens):
        yield from split.rows.records(split.labels)
        return
    for row, label in zip(split.rows, split.labels, strict=True):
        yield len(row).to_bytes(4, "little") + np.ascontiguousarray(row).tobytes() + label.tobytes()


def hidden(labels: np.ndarray) -> bool:
    """Returns whether a split has no public labels: all are -1 or `IGNORED`."""
    return bool(np.isin(labels, (-1, IGNORED)).all())


def write_submission(
    config: DataConfig, splits: Splits, name: str, answers: np.ndarray, directory: Path
) -> None:
    """Writes GLUE's submission file for a test split; for other splits nothing is written.

    Args:
      config: the `data` part of the configuration.
      splits: the splits.
      name: "test", or a key of `splits.extra_evals`.
      answers: predictions for all examples of the split (n,).
      directory: folder for the file.
    """
    task = TASKS[config.task]
    split = task.tests[0] if name == "test" else name
    files = dict(zip(task.tests, task.submissions, strict=False))
    if split in files and not config.test_examples:
        glue.write_submission(directory / files[split], task.dataset, answers, splits.idx[split])
