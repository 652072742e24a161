"""Reads CIFAR-10 in its official binary format, or as compressed differences of neighbouring pixels."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from fourier_attn.data.sources import idx
from fourier_attn.data.tables import files
from fourier_attn.data.tfds import tfds_builder

LABELS = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
SIZE = 32 * 32 * 3


def splits(builder: Any, source: Path) -> dict[str, Iterator]:
    """Reads the splits of cifar10 from a local copy.

    The folder has {data_batch_1..5,test_batch}.bin, also as .gz or .xz, or
    {data_batch_1..5,test_first1000}.delta.xz and labels.npz with 1,000 of the test images.
    """
    folder = source / "cifar-10-batches-bin" if (source / "cifar-10-batches-bin").is_dir() else source
    if (folder / "labels.npz").exists():
        labels = _labels(folder / "labels.npz", folder)
        train = np.concatenate([_differences(folder, name) for name in BATCHES])
        test = _differences(folder, "test_first1000")
        parts = {"train": (train, labels["train"]), "test": (test, labels["test_first1000"])}
    else:
        parts = [_binary(folder, name) for name in BATCHES]
        train = tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
        parts = {"train": train, "test": _binary(folder, "test_batch")}
    return {split: _examples(images, labels, split, folder) for split, (images, labels) in parts.items()}


def builder(data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of cifar10 for a data directory; it reads the download without TensorFlow."""
    made: Any = tfds_builder("cifar10", data_dir)

    def generators(downloads: Any) -> dict[str, Iterator]:
        archive = downloads.download_and_extract(made._cifar_info.url)
        return splits(made, Path(archive))

    made._split_generators = generators
    return made


def _examples(images: np.ndarray, labels: np.ndarray, split: str, folder: Path) -> Iterator[tuple[int, dict]]:
    """Returns an iterator over the examples of a split, in the form of TFDS.

    Args:
      images: uint8 (n, 32, 32, 3).
      labels: indices of classes (n,).
      split: name of the split.
      folder: folder of the copy, for messages.
    Raises: ValueError for different numbers of images and labels.
    """
    if len(images) != len(labels):
        raise ValueError(
            f"{split} in {folder} has {len(images):,} images, but {len(labels):,} labels; get the files again"
        )
    rows = idx.examples(images, labels, len(LABELS), f"{split} in {folder}")
    return ((number, {"id": f"{split}_{number:05d}", **row}) for number, row in rows)


def _read(folder: Path, name: str) -> tuple[Path, bytes]:
    path = files.packed(folder, name)
    try:
        with files.unpacked(path, folder) as file:
            return path, file.read()
    except files.DAMAGED as error:
        raise ValueError(f"{path} cannot be read completely ({error}); get the copy again") from error


def _binary(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads images and labels from records of a label and an image, one colour after another."""
    path, contents = _read(folder, f"{name}.bin")
    if not contents or len(contents) % (SIZE + 1):
        raise ValueError(
            f"{path} has {len(contents):,} bytes, not a multiple of {SIZE + 1}; get the copy again"
        )
    records = np.frombuffer(contents, np.uint8).reshape(-1, SIZE + 1)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]


def _differences(folder: Path, name: str) -> np.ndarray:
    """Returns images from differences, modulo 256, to the pixel above, the pixel on the left, and to green.

    The axes of the file are colours, images, rows and columns.
    """
    path, contents = _read(folder, f"{name}.delta")
    if not contents or len(contents) % SIZE:
        raise ValueError(f"{path} has {len(contents):,} bytes, not a multiple of {SIZE}; get the copy again")
    steps = np.frombuffer(contents, np.uint8).reshape(3, -1, 32, 32)
    colours = np.cumsum(np.cumsum(steps, 2, dtype=np.uint8), 3, dtype=np.uint8)
    colours[0] += colours[1]
    colours[2] += colours[1]
    return colours.transpose(1, 2, 3, 0)


def _labels(path: Path, folder: Path) -> dict[str, np.ndarray]:
    with files.open_regular(path, folder) as file:
        contents = file.read(files.TEXT)
    try:
        with zipfile.ZipFile(io.BytesIO(contents)) as members:
            size = sum(member.file_size for member in members.infolist())
        if size > files.SMALL:
            raise ValueError(f"it decompresses to {size:,} bytes")
        with np.load(io.BytesIO(contents), allow_pickle=False) as archive:
            labels = {name: archive[name] for name in ("train", "test_first1000")}
    except Exception as error:  # a damaged zip archive raises many types of errors
        raise ValueError(
            f"{path} contains no labels ({type(error).__name__}: {error}); get it again"
        ) from error
    if any(column.ndim != 1 or column.dtype != np.uint8 for column in labels.values()):
        raise ValueError(f"{path} has labels that are not single bytes; get it again")
    return labels
