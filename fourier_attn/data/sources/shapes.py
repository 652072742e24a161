"""Generates images of coloured shapes on a grid, with questions that need both the image and the question.

An image is a grid of cells. In each image the four kinds of shapes have four different colours, and occur
one, two, three and four times. Two independent random permutations assign colours and numbers to the kinds,
and the cells are random as well. A question asks for the colour or the number of one kind, in one of two
wordings, and is independent of the image. These statements are then exact:

    for one image, the questions have the eight answers equally often       chance is 1/8 without the question
    for one question, its four answers are equally likely over images       chance is 1/4 without the image

The label of a cell is 0 for none, or the kind plus 1. Shapes do not extend over their cells, so that a patch
of this size has one label.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from fourier_attn.data.sources.idx import png

KINDS = ("circles", "squares", "triangles", "crosses")
COLOURS = {"red": (220, 50, 40), "green": (50, 180, 70), "blue": (60, 90, 220), "yellow": (225, 205, 50)}
NUMBERS = ("one", "two", "three", "four")
ANSWERS = (*COLOURS, *NUMBERS)
ONE = ("circle", "square", "triangle", "cross")
QUESTIONS = (
    *(f"what colour are the {kind}?" for kind in KINDS),
    *(f"how many {kind}?" for kind in KINDS),
    *(f"what colour is the {kind}?" for kind in ONE),
    *(f"how many {kind} are there?" for kind in KINDS),
)
LABELS = ("none", *KINDS)
GRID, CELL = 5, 8  # cells on a side, pixels of a cell on a side
SIZE = GRID * CELL
SPLITS = {"train": 20_000, "validation": 2_000, "test": 4_000}
GREY, NOISE = 100, 18  # mean and standard deviation of the background, out of 255


class Example(NamedTuple):
    """Holds one example.

    Args:
      image: uint8 (SIZE, SIZE, 3).
      question: index in `QUESTIONS`.
      answer: index in `ANSWERS`.
      labels: label of each cell (GRID, GRID).
    """

    image: np.ndarray
    question: int
    answer: int
    labels: np.ndarray


def example(rng: np.random.Generator) -> Example:
    """Returns a random image and a random question."""
    colours, numbers = rng.permutation(len(KINDS)), rng.permutation(len(KINDS))
    kinds = np.repeat(np.arange(len(KINDS)), 1 + numbers)  # numbers[kind] + 1 shapes of each kind
    labels = np.zeros(GRID * GRID, np.uint8)
    labels[rng.choice(GRID * GRID, len(kinds), replace=False)] = 1 + kinds
    labels = labels.reshape(GRID, GRID)
    question = int(rng.integers(len(QUESTIONS)))
    return Example(picture(labels, colours, rng), question, answer(question, colours, numbers), labels)


def answer(question: int, colours: np.ndarray, numbers: np.ndarray) -> int:
    """Returns the index of the answer in `ANSWERS`.

    Args:
      question: index in `QUESTIONS`.
      colours: index of the colour of each kind (4,).
      numbers: kind i occurs $1 + numbers[i]$ times (4,).
    """
    wanted, kind = divmod(question % len(ANSWERS), len(KINDS))
    return int(numbers[kind]) + len(COLOURS) if wanted else int(colours[kind])


def picture(labels: np.ndarray, colours: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns a noisy image, uint8 (SIZE, SIZE, 3); each shape has a random size and place in its cell.

    Args:
      labels: label of each cell (GRID, GRID).
      colours: index of the colour of each kind (4,).
      rng: generator of random numbers.
    """
    pixels, palette = np.full((SIZE, SIZE, 3), GREY, np.float64), np.array(list(COLOURS.values()))
    for row, column in np.argwhere(labels):
        kind = labels[row, column] - 1
        radius = rng.uniform(2.6, 3.5)
        centre = CELL / 2 + rng.uniform(radius - CELL / 2, CELL / 2 - radius, 2)
        cell = pixels[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
        cell[outline(KINDS[kind], radius, *centre)] = palette[colours[kind]]
    return np.clip(pixels + rng.normal(0, NOISE, pixels.shape), 0, 255).astype(np.uint8)


def outline(kind: str, radius: float, middle: float, centre: float) -> np.ndarray:
    """Returns whether a shape covers each pixel of a cell (bool, (CELL, CELL)).

    Args:
      kind: one of `KINDS`.
      radius: half of its size in pixels.
      middle, centre: its centre in pixels, vertical and horizontal.
    """
    y, x = np.mgrid[:CELL, :CELL] + 0.5 - np.array([middle, centre])[:, None, None]
    if kind == "circles":
        return x**2 + y**2 <= radius**2
    box = np.maximum(np.abs(x), np.abs(y)) <= radius
    if kind == "squares":
        return box
    if kind == "triangles":
        return box & (2 * np.abs(x) <= y + radius)
    return box & (np.minimum(np.abs(x), np.abs(y)) <= radius / 3)


def examples(split: str, count: int) -> Iterator[Example]:
    """Yields the first `count` examples of a split; each one depends only on its own seed."""
    for number in range(count):
        yield example(np.random.default_rng((list(SPLITS).index(split), number)))


class SyntheticShapes(tfds.core.GeneratorBasedBuilder):
    """Builds the TFDS data set `synthetic_shapes`, with the same images and questions on every machine."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "image": tfds.features.Image(shape=(SIZE, SIZE, 3), encoding_format="png"),
            "question": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=list(ANSWERS)),
            "patches": tfds.features.Tensor(shape=(GRID, GRID), dtype=np.uint8),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Synthetic images of coloured shapes, and questions that neither answers alone.",
            features=tfds.features.FeaturesDict(features),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        return {split: self._generate_examples(split, count) for split, count in SPLITS.items()}

    def _generate_examples(self, split: str, count: int) -> Iterator[tuple[str, dict]]:
        for number, drawn in enumerate(examples(split, count)):
            yield (
                f"{split}_{number}",
                {
                    "image": png(drawn.image),
                    "question": QUESTIONS[drawn.question],
                    "label": drawn.answer,
                    "patches": drawn.labels,
                },
            )


def builder(data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of the synthetic shapes for a data directory."""
    return SyntheticShapes(data_dir=data_dir, file_format="array_record")
