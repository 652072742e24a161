"""Generates Pathfinder: whether two dots are the ends of one dashed curve.

An image has two long dashed curves, some short ones, and two dots. With label 1 the dots are the two ends of
one long curve; with label 0 they are ends of different curves. Curves do not touch, so that the answer is
unique. Each scene has a pair of ends for either label, and both pairs have about the same distance.
Therefore the distance of the dots does not reveal the label.

The task follows Linsley et al., arXiv 1805.08315, and Long Range Arena (Tay et al., arXiv 2011.04006), where
the input is a sequence of pixels. These images are generated here, 32 x 32, with 20,000 training images
instead of 160,000.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from fourier_attn.data.sources.idx import png

LABELS = ("two curves", "one curve")
SIZE = 32  # pixels on a side
SPLITS = {"train": 20_000, "validation": 2_000, "test": 2_000}
DASHES, SHORT, SHORTS = 6, 2, 3  # dashes of a long curve, of a short curve; number of short curves
PITCH, DASH, DOT = 3.6, 2.0, 2.2  # pixels: distance of dashes, length of a dash, radius of a dot
TRIES = 60  # number of attempts for a curve in a scene
TURN = 0.6  # largest angle between dashes, in radians
MARGIN, APART = 2.5, 5.0  # smallest distance in pixels from the border, and between curves
SAME = 1.0  # largest difference in pixels between the distances of the dots for the two labels


class Example(NamedTuple):
    """Holds one example.

    Args:
      image: uint8 (SIZE, SIZE, 1).
      label: 1 if the dots are on one curve, else 0.
    """

    image: np.ndarray
    label: int


def example(rng: np.random.Generator) -> Example:
    """Returns a random example, with separate curves and two pairs of ends at similar distances."""
    while True:
        if (curves := scene(rng)) and (pairs := ends(curves)):
            label = int(rng.integers(2))
            return Example(picture(curves, pairs[label]), label)


def scene(rng: np.random.Generator) -> list[np.ndarray]:
    """Returns random curves as the two ends of their dashes (n, 2, 2); [] if a curve does not fit."""
    curves: list[np.ndarray] = []
    for dashes in (DASHES, DASHES, *[SHORT] * SHORTS):
        tries = candidates(rng, dashes)
        free = np.flatnonzero(fit(tries, curves))
        if not len(free):
            return []
        curves.append(tries[free[0]])
    return curves


def candidates(rng: np.random.Generator, dashes: int) -> np.ndarray:
    """Returns the ends of the dashes of random curves, (TRIES, dashes, 2, 2)."""
    turns = rng.uniform(-TURN, TURN, (TRIES, dashes))
    angles = rng.uniform(0, 2 * np.pi, (TRIES, 1)) + np.cumsum(turns, axis=1)
    steps = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    first = rng.uniform(MARGIN, SIZE - MARGIN, (TRIES, 1, 2))
    starts = first + PITCH * (np.cumsum(steps, axis=1) - steps)
    return np.stack([starts, starts + DASH * steps], axis=2)


def fit(tries: np.ndarray, curves: list[np.ndarray]) -> np.ndarray:
    """Returns whether each of the `tries` is inside the image and separate from all `curves` (bool, n)."""
    points = tries.reshape(len(tries), -1, 2)
    inside = np.all((points >= MARGIN) & (points <= SIZE - MARGIN), axis=(1, 2))
    if not curves:
        return inside
    others = np.concatenate(curves).reshape(-1, 2)
    distances = np.linalg.norm(points[:, :, None] - others, axis=-1)
    return np.logical_and(inside, distances.min(axis=(1, 2)) >= APART)


def ends(curves: list[np.ndarray]) -> list[np.ndarray]:
    """Returns two ends (2, 2) for each label, with the most similar distances; [] without such ends."""
    own = [each[[0, -1], [0, 1]] for each in curves[:2]]
    others = [np.stack([first, second]) for first, second in itertools.product(*own)]
    pairs = list(itertools.product(others, own))
    unlike = [abs(_length(two) - _length(one)) for two, one in pairs]
    return list(pairs[int(np.argmin(unlike))]) if min(unlike) < SAME else []


def _length(pair: np.ndarray) -> float:
    return float(np.linalg.norm(pair[0] - pair[1]))


def picture(curves: list[np.ndarray], dots: np.ndarray) -> np.ndarray:
    """Returns the image (SIZE, SIZE, 1) of dashes and dots, white on black with smooth edges."""
    dashes = np.concatenate(curves)
    pixels = np.moveaxis(np.mgrid[:SIZE, :SIZE], 0, -1)[:, :, None] + 0.5
    along = dashes[:, 1] - dashes[:, 0]
    share = np.clip(((pixels - dashes[:, 0]) * along).sum(-1) / DASH**2, 0, 1)
    off = np.linalg.norm(pixels - dashes[:, 0] - share[..., None] * along, axis=-1).min(-1)
    away = np.linalg.norm(pixels - dots, axis=-1).min(-1)
    light = np.clip(np.maximum(1.2 - off, DOT + 0.5 - away), 0, 1)
    return np.round(255 * light[..., None]).astype(np.uint8)


def examples(split: str, count: int) -> Iterator[Example]:
    """Yields the first `count` examples of a split; each one depends only on its own seed."""
    for number in range(count):
        yield example(np.random.default_rng((list(SPLITS).index(split), number)))


class Pathfinder(tfds.core.GeneratorBasedBuilder):
    """Builds the TFDS data set `pathfinder`, with the same images on every machine."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "image": tfds.features.Image(shape=(SIZE, SIZE, 1), encoding_format="png"),
            "label": tfds.features.ClassLabel(names=list(LABELS)),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Synthetic images of dashed curves and two dots, which are on one curve or not.",
            features=tfds.features.FeaturesDict(features),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        return {split: self._generate_examples(split, count) for split, count in SPLITS.items()}

    def _generate_examples(self, split: str, count: int) -> Iterator[tuple[str, dict]]:
        for number, drawn in enumerate(examples(split, count)):
            yield f"{split}_{number}", {"image": png(drawn.image), "label": drawn.label}


def builder(data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of the images for a data directory."""
    return Pathfinder(data_dir=data_dir, file_format="array_record")
