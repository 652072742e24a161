"""Holds examples as they are read, texts or images with labels, and holds out validation examples."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tables.files import letters

Rows = TypeVar("Rows", bound="Selection")


class Selection:
    """Declares examples that can be selected by index.

    Args:
      in_train: whether each example is also in the training set (bool, n).
    """

    in_train: np.ndarray

    def __len__(self) -> int:
        raise NotImplementedError

    def take(self: Rows, index: np.ndarray) -> Rows:
        """Returns the examples with the indices `index` (m,), in this order."""
        raise NotImplementedError

    def limit(self: Rows, count: int) -> Rows:
        """Returns the first `count` examples; 0: all."""
        return self.take(np.arange(len(self))[:count]) if count else self


@dataclasses.dataclass(frozen=True)
class Examples(Selection):
    """Holds texts or pairs of texts with labels.

    Args:
      texts: n texts.
      text_pairs: the second text of each pair; None for single texts.
      labels: indices of classes, or numbers (n,).
      in_train: whether each text is also in the training set (bool, n).
      idx: GLUE's number of each example (n,).
    """

    texts: list[str]
    text_pairs: list[str] | None
    labels: np.ndarray
    in_train: np.ndarray
    idx: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: np.ndarray) -> "Examples":
        """Returns the examples with the indices `index` (m,), in this order."""
        text_pairs = None if self.text_pairs is None else [self.text_pairs[i] for i in index]
        texts, rest = [self.texts[i] for i in index], (self.labels, self.in_train, self.idx)
        return Examples(texts, text_pairs, *(column[index] for column in rest))

    def seen_in(self, train: "Examples") -> "Examples":
        """Returns the examples with a new `in_train`: whether `train` has the same letters and digits."""
        seen = set(train.letters())
        return dataclasses.replace(self, in_train=np.array([text in seen for text in self.letters()]))

    def letters(self) -> list[str]:
        """Returns the letters and digits of each example."""
        text_pairs = self.text_pairs or [""] * len(self)
        return [letters(f"{a} | {b}") for a, b in zip(self.texts, text_pairs, strict=True)]


@dataclasses.dataclass(frozen=True)
class Pictures(Selection):
    """Holds images with labels.

    Args:
      images: uint8 (n, rows, cols, channels).
      labels: indices of classes of the images (n,), or of their patches (n, t).
      ids: TFDS's names of the images (n,).
      in_train: whether each image is also in the training set, pixel by pixel (bool, n).
      questions: the question about each image (n,); "": none.
    """

    images: np.ndarray
    labels: np.ndarray
    ids: np.ndarray
    in_train: np.ndarray
    questions: np.ndarray

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: np.ndarray) -> "Pictures":
        """Returns the images with the indices `index` (m,), in this order."""
        columns = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Pictures(*(column[index] for column in columns))

    def seen_in(self, train: "Pictures") -> "Pictures":
        """Returns the images with a new `in_train`: whether `train` has the same image."""
        seen = {image.tobytes() for image in train.images}
        return dataclasses.replace(self, in_train=np.array([i.tobytes() in seen for i in self.images], bool))


def hold_out(
    parts: Mapping[str, Rows], splits: Sequence[str], config: DataConfig, nouns: tuple[str, str]
) -> dict[str, Rows]:
    """Holds out the share `data.holdout` of the training set for each missing split.

    Args:
      parts: the existing splits.
      splits: names of the required splits.
      config: the `data` part of the configuration; `split_seed` decides which examples are held out.
      nouns: names of the examples and of the places where more could come from, for the message.
    Returns: all splits; the rest of the training set is in random order.
    Raises: ValueError if the training set has too few examples.
    """
    train, missing = parts["train"], [split for split in splits if split not in parts]
    count = round(config.holdout * len(train))
    if missing and (not count or count * len(missing) >= len(train)):
        what, places = nouns
        raise ValueError(
            f"{config.train or 'train'} has {len(train)} {what}, too few to hold out data.holdout="
            f"{config.holdout} for {' and '.join(missing)}; add {what}, or give {places} for these splits"
        )
    order = np.random.default_rng(config.split_seed).permutation(np.arange(len(train), dtype=np.int32))
    held = {split: train.take(order[i * count : (i + 1) * count]) for i, split in enumerate(missing)}
    return {**parts, **held, "train": train.take(order[len(missing) * count :])}
