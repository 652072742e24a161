"""Examples as they are read: texts or images, with their labels; and which of them validate."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tables.files import letters

Rows = TypeVar("Rows", bound="Selection")


class Selection:
    """Holds examples of which some can be taken.

    Args:
      in_train: marks those that are also in the train split.
    """

    in_train: np.ndarray

    def __len__(self) -> int:
        raise NotImplementedError

    def take(self: Rows, index: np.ndarray) -> Rows:
        """Returns the examples with these numbers, in their order."""
        raise NotImplementedError

    def limit(self: Rows, count: int) -> Rows:
        """Returns the first `count` examples, or all for 0."""
        return self.take(np.arange(len(self))[:count]) if count else self


@dataclasses.dataclass(frozen=True)
class Examples(Selection):
    """Holds texts, with a second one each where there are pairs, and labels.

    Args:
      in_train: marks the examples whose text is also in the train split.
      idx: GLUE's number of each example.
    """

    texts: list[str]
    text_pairs: list[str] | None
    labels: np.ndarray
    in_train: np.ndarray
    idx: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: np.ndarray) -> "Examples":
        text_pairs = None if self.text_pairs is None else [self.text_pairs[i] for i in index]
        texts, rest = [self.texts[i] for i in index], (self.labels, self.in_train, self.idx)
        return Examples(texts, text_pairs, *(column[index] for column in rest))

    def seen_in(self, train: "Examples") -> "Examples":
        """Returns the examples with marks on those whose letters and digits are those of one in train."""
        seen = set(train.letters())
        return dataclasses.replace(self, in_train=np.array([text in seen for text in self.letters()]))

    def letters(self) -> list[str]:
        """Returns the letters and digits of each example."""
        text_pairs = self.text_pairs or [""] * len(self)
        return [letters(f"{a} | {b}") for a, b in zip(self.texts, text_pairs, strict=True)]


@dataclasses.dataclass(frozen=True)
class Pictures(Selection):
    """Holds images (n, rows, cols, channels) of bytes, and the classes (n) or those of the patches (n, t).

    Args:
      ids: TFDS's names of the images.
      in_train: marks the images that are also in the train split, pixel by pixel.
      questions: what is asked about each image; "": nothing.
    """

    images: np.ndarray
    labels: np.ndarray
    ids: np.ndarray
    in_train: np.ndarray
    questions: np.ndarray

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: np.ndarray) -> "Pictures":
        columns = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Pictures(*(column[index] for column in columns))

    def seen_in(self, train: "Pictures") -> "Pictures":
        """Returns the images with marks on those that are in train."""
        seen = {image.tobytes() for image in train.images}
        return dataclasses.replace(self, in_train=np.array([i.tobytes() in seen for i in self.images], bool))


def hold_out(
    parts: Mapping[str, Rows], splits: Sequence[str], config: DataConfig, nouns: tuple[str, str]
) -> dict[str, Rows]:
    """Draws a share `holdout` of train from `split_seed` for each of some splits that the data do not have.

    Args:
      nouns: what train has and where more of it could come from, for the message.
    Returns: all parts; what is left of train is in random order.
    Raises: ValueError where train has too few examples.
    """
    train, missing = parts["train"], [split for split in splits if split not in parts]
    count = round(config.holdout * len(train))
    if missing and (not count or count * len(missing) >= len(train)):
        what, places = nouns
        raise ValueError(
            f"{config.train or 'train'} has {len(train)} {what}, of which data.holdout="
            f"{config.holdout} cannot be kept for each of {' and '.join(missing)}; add {what}, or name "
            f"{places} of these"
        )
    order = np.random.default_rng(config.split_seed).permutation(np.arange(len(train), dtype=np.int32))
    held = {split: train.take(order[i * count : (i + 1) * count]) for i, split in enumerate(missing)}
    return {**parts, **held, "train": train.take(order[len(missing) * count :])}
