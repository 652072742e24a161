"""The splits of a data set as batches, and what they ask of a model."""

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
    """Says where an example comes from.

    Args:
      file: a table or the folder of one, as the configuration names it; or a file that is one example.
      row: the example's row from 1, without the header and empty lines; None for a file that is one example.
    """

    file: str
    row: int | None


class Origins(Sequence[Origin]):
    """Holds the origins of the examples of a split, which are rows of one file."""

    def __init__(self, file: str, rows: np.ndarray):
        self.file, self.rows = file, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return Origin(self.file, int(self.rows[index]))


class Splits(NamedTuple):
    """Holds the batches of each split, and what they ask of a model.

    Args:
      extra_evals: further validation and test splits, by name.
      model: knobs of the model that the data determine: its inputs, head, classes and vocabulary.
      lengths: padded lengths of the inputs, rising; () for images.
      in_train: which test examples are in train too (bool, n).
      idx: GLUE's numbers of the examples of each test split, which TFDS has in another order.
      tokenizer: its file in the run's directory, where inputs are texts.
      knobs: knobs of the data that custom data determine: columns and classes.
      notes: lines for the user about custom data.
      files: name and hash of each file of custom data.
      origins: file and row of each example of custom data, by split.
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
        """Returns all splits that are evaluated, by name; "test" last."""
        return {"validation": self.validation, **self.extra_evals, "test": self.test}

    @property
    def spec(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Returns the shape without the batch and the dtype of each array of the first training batch."""
        return {name: (array.shape[1:], array.dtype) for name, array in self.train[0].items()}

    def describe(self) -> str:
        """Returns the sizes in words."""
        sizes = [f"{len(getattr(self, name).rows):,} {name}" for name in ("train", "validation", "test")]
        if "vocab" in self.model:
            sizes[-1] += f"; vocabulary {self.model['vocab']:,}"
        return ", ".join(sizes)

    def fingerprints(self) -> dict[str, Any]:
        """Returns the size of each split with a hash of its rows and labels in order, and the tokenizer's."""
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
    """Yields each row with its length before it and its label after it."""
    if isinstance(split.rows, PackedTokens):
        yield from split.rows.records(split.labels)
        return
    for row, label in zip(split.rows, split.labels, strict=True):
        yield len(row).to_bytes(4, "little") + np.ascontiguousarray(row).tobytes() + label.tobytes()


def hidden(labels: np.ndarray) -> bool:
    """Returns whether the labels of a split are not public: all are -1, or no place is asked."""
    return bool(np.isin(labels, (-1, IGNORED)).all())


def write_submission(
    config: DataConfig, splits: Splits, name: str, answers: np.ndarray, directory: Path
) -> None:
    """Writes the file that GLUE takes for a whole test split without public labels; nothing for other splits.

    Args:
      name: "test", or one of the further evaluations.
    """
    task = TASKS[config.task]
    split = task.tests[0] if name == "test" else name
    files = dict(zip(task.tests, task.submissions, strict=False))
    if split in files and not config.test_examples:
        glue.write_submission(directory / files[split], task.dataset, answers, splits.idx[split])
