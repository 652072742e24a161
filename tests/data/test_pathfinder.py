"""Pathfinder: labels by following bright pixels, and what tells nothing."""

from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from fourier_attn import config
from fourier_attn.data import load
from fourier_attn.data.sources import pathfinder

COUNT = 300


@pytest.fixture(scope="module")
def drawn() -> list[pathfinder.Example]:
    return list(pathfinder.examples("train", COUNT))


def dots(light: np.ndarray) -> tuple[np.ndarray, int]:
    """The numbers of the dots at their middles: squares of three bright pixels are nowhere else."""
    return ndimage.label(ndimage.minimum_filter(light, 3) > 0.5)


def test_the_dots_are_on_one_curve_or_on_two(drawn: list[pathfinder.Example]) -> None:
    for example in drawn:
        light = example.image[..., 0] / 255
        middles, count = dots(light)
        assert count == 2
        curves, pieces = ndimage.label(light > 0.15, structure=np.ones((3, 3)))
        assert pieces == 2 + pathfinder.SHORTS
        one, two = (set(curves[middles == dot].tolist()) for dot in (1, 2))
        assert (one == two) == (example.label == 1)


def test_distance_of_the_dots_and_brightness_tell_little(drawn: list[pathfinder.Example]) -> None:
    """No threshold on one of them is right much more often than a guess."""
    labels = np.array([example.label for example in drawn])
    middles = [dots(example.image[..., 0] / 255)[0] for example in drawn]
    places = np.array([ndimage.center_of_mass(m > 0, m, (1, 2)) for m in middles])
    distance = np.linalg.norm(places[:, 0] - places[:, 1], axis=-1)
    brightness = np.array([example.image.mean() for example in drawn])
    for clue in (distance, brightness):
        right = [
            np.mean((clue > threshold) == labels) for threshold in np.quantile(clue, np.arange(0.1, 1, 0.1))
        ]
        assert np.abs(np.array(right) - 0.5).max() < 4 * 0.5 / np.sqrt(COUNT)  # four deviations


def test_the_same_on_every_machine_and_no_image_twice(drawn: list[pathfinder.Example]) -> None:
    again = next(pathfinder.examples("train", 1))
    np.testing.assert_array_equal(again.image, drawn[0].image)
    assert again.label == drawn[0].label
    images = [e.image.tobytes() for split in pathfinder.SPLITS for e in pathfinder.examples(split, 30)]
    assert len(set(images)) == len(images)
    assert 0.4 < np.mean([example.label for example in drawn]) < 0.6


def test_as_pixels_and_as_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pathfinder, "SPLITS", {"train": 5, "validation": 2, "test": 3})
    shapes = {}
    for task in ("pathfinder", "pathfinder_patches"):
        c = config.default("identity", task)
        c.data.dir = str(tmp_path)
        splits = load(c.data, directory=tmp_path)
        assert [len(split.labels) for split in (splits.train, splits.validation, splits.test)] == [5, 2, 3]
        shapes[task] = splits.test[0]["inputs"].shape[1:]
    assert shapes == {"pathfinder": (1024,), "pathfinder_patches": (32, 32, 1)}
