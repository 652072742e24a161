"""Reads custom images: a folder with a subfolder of images for each class."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn import paths
from fourier_attn.data.examples import Pictures, hold_out
from fourier_attn.data.image_reading import may_be_image, read_image
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tables.columns import LIMITS
from fourier_attn.data.tables.files import ending
from fourier_attn.data.tables.notes import describe_classes, duplicates, unlabelled, unseen_classes

# Endings of images. Other files may lie next to them, for example lists and checksums.
ENDS = (
    ".png",
    ".jpg",
    ".jpeg",
    ".jpe",
    ".bmp",
    ".ppm",
    ".pgm",
    ".pbm",
    ".pnm",
    ".webp",
    ".gif",
    ".tif",
    ".tiff",
)


def read(config: DataConfig) -> tuple[dict[str, Pictures], dict[str, Any], tuple[str, ...]]:
    """Returns the splits, the option `labels`, and notes; a missing split is held out of the training set.

    A test folder without subfolders contains images of unknown classes.

    Raises: ValueError that names the folder or file and the cure.
    """
    root, notes = paths.given(config.train), []
    names = tuple(config.labels) or classes(root)
    if empty := [name for name in _folders(root) if name not in names and not config.labels]:
        notes.append(f"folders without images are not used as classes: {', '.join(empty)[:200]}")
    parts = {}
    for split in LIMITS:
        if config[split]:
            parts[split] = _images(paths.given(config[split]), names, config.image_size, split)
            notes += _left_out(paths.given(config[split]), parts[split].ids)
    parts = hold_out(parts, tuple(LIMITS), config, ("images", "folders"))
    for split in ("validation", "test"):
        parts[split] = parts[split].seen_in(parts["train"])
    notes += duplicates(parts, "images")
    limited = {split: parts[split].limit(config[knob]) for split, knob in LIMITS.items()}
    if (limited["test"].labels == -1).all():
        notes.append(unlabelled(len(limited["test"]), "images"))
    notes = [describe_classes(names, limited["train"].labels), *notes]
    notes += unseen_classes(names, parts["train"].labels)
    return limited, {"labels": names}, tuple(notes)


def _folders(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."))


def _is_image(path: Path) -> bool:
    end = ending(path)
    return path.name[0] != "." and (end in ENDS or (end == "" and path.is_file() and may_be_image(path)))


def classes(folder: Path) -> tuple[str, ...]:
    """Returns the sorted names of the subfolders with images. Raises: ValueError for less than two."""
    if not folder.is_dir():
        raise ValueError(f"data.train={folder} is not a folder; give one with a subfolder for each class")
    names = tuple(name for name in _folders(folder) if any(map(_is_image, (folder / name).iterdir())))
    if len(names) < 2:
        raise ValueError(
            f"data.train={folder} must have at least two folders with images, one per class; it has "
            f"{', '.join(names) or 'none'}"
        )
    return names


def _images(folder: Path, names: tuple[str, ...], size: int, split: str) -> Pictures:
    """Reads the images of a split.

    Args:
      folder: the folder.
      names: names of the classes.
      size: pixels of a side to which images are scaled.
      split: name of the split.
    Raises: ValueError for files of unknown classes, and without images.
    """
    if not folder.is_dir():
        raise ValueError(f"data.{split}={folder} is not a folder; give one with a subfolder for each class")
    files = [path for path in sorted(folder.glob("*/*")) if path.parent.name[0] != "." and _is_image(path)]
    if unknown := next((path for path in files if path.parent.name not in names), None):
        raise ValueError(f"{unknown} is in no class of train ({', '.join(names)[:200]}); move it elsewhere")
    labels = np.array([names.index(path.parent.name) for path in files])
    if not files and split == "test":
        files = [path for path in sorted(folder.iterdir()) if _is_image(path)]
        labels = np.full(len(files), -1)
    if not files:
        raise ValueError(f"data.{split}={folder} has no images in subfolders of classes; add some")
    images = np.empty((len(files), size, size, 3), np.uint8)
    for image, path in zip(images, files, strict=True):
        image[:] = read_image(path, (size, size, 3))
    ids = np.array([str(path.relative_to(folder)) for path in files])
    return Pictures(images, labels, ids, np.zeros(len(files), bool), np.full(len(files), ""))


def _left_out(folder: Path, ids: Iterable[str]) -> list[str]:
    """Returns a note on files in a folder of images that were not read; [] if all were read."""
    taken = set(ids)
    there = [path for pattern in ("*", "*/*") for path in sorted(folder.glob(pattern)) if not path.is_dir()]
    names = [str(path.relative_to(folder)) for path in there if "/." not in f"/{path.relative_to(folder)}"]
    left = [name for name in names if name not in taken]
    if not left:
        return []
    return [f"{folder}: {len(left):,} files are not images of a class and are skipped, such as {left[0]}"]
