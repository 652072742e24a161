"""Reads MNIST and Fashion-MNIST in their official format, IDX files of images and labels."""

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from fourier_attn.data.tables import files
from fourier_attn.data.tfds import tfds_builder

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
NAMES = {"train": "train", "test": "t10k"}
FILES = tuple(f"{name}-{what}-ubyte" for name in NAMES.values() for what in ("images-idx3", "labels-idx1"))
UNSIGNED = 0x08  # third byte of an IDX file that has unsigned bytes


def splits(builder: Any, source: Path) -> dict[str, Iterator]:
    """Reads the splits of mnist or fashion_mnist from a local copy.

    The folder has {train,t10k}-{images-idx3,labels-idx1}-ubyte, also as .gz or .xz.
    """
    return _splits({name: files.packed(source, name) for name in FILES}, source)


def builder(dataset: str) -> Callable[[str | None], tfds.core.DatasetBuilder]:
    """Returns a function that makes the TFDS builder of mnist or fashion_mnist for a data directory.

    The builder reads the download without TensorFlow.
    """

    def make(data_dir: str | None) -> tfds.core.DatasetBuilder:
        made: Any = tfds_builder(dataset, data_dir)

        def generators(downloads: Any) -> dict[str, Iterator]:
            paths = downloads.download_and_extract({name: f"{made.URL}{name}.gz" for name in FILES})
            return _splits({name: Path(path) for name, path in paths.items()}, None)

        made._split_generators = generators
        return made

    return make


def _splits(paths: Mapping[str, Path], source: Path | None) -> dict[str, Iterator]:
    made, place = {}, source or "the download"
    for split, name in NAMES.items():
        images = _array(paths[f"{name}-images-idx3-ubyte"], source, 3)
        labels = _array(paths[f"{name}-labels-idx1-ubyte"], source, 1)
        if len(images) != len(labels):
            raise ValueError(
                f"{name} in {place} has {len(images):,} images, but {len(labels):,} labels; get them again"
            )
        if images.shape[1:] != (28, 28):
            raise ValueError(
                f"{name} in {place} has images of {images.shape[1:]}, not (28, 28) pixels; get them again"
            )
        made[split] = examples(images[..., None], labels, 10, f"{name} in {place}")
    return made


def examples(images: np.ndarray, labels: np.ndarray, classes: int, where: str) -> Iterator[tuple[int, dict]]:
    """Returns an iterator over images, as PNG, and their classes, in the form of TFDS.

    Args:
      images: uint8 (n, rows, cols, channels).
      labels: indices of classes (n,).
      classes: number of classes.
      where: place of the data, for the message.
    Raises: ValueError for an invalid label, and without images.
    """
    if len(labels) == 0 or labels.max() >= classes:
        raise ValueError(f"{where} has no image, or a label of {classes} or more; get the files again")
    return (
        (number, {"image": png(image), "label": int(label)})
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    )


def png(image: np.ndarray) -> bytes:
    """Returns the contents of a PNG file; TFDS would need TensorFlow for this."""
    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, format="PNG")
    return file.getvalue()


def _array(path: Path, source: Path | None, axes: int) -> np.ndarray:
    """Reads an IDX file: two zero bytes, the type, the number of axes, their sizes, and the numbers.

    Args:
      path: the file.
      source: folder of the copy; None: the file is a download.
      axes: expected number of axes.
    Raises: ValueError for a file that is missing, damaged, or has another format.
    """
    try:
        with files.unpacked(path, source or path) as file:
            contents = file.read()
    except files.DAMAGED as error:
        raise ValueError(f"{path} cannot be read completely ({error}); get the copy again") from error
    head = 4 + 4 * axes
    if contents[:4] != bytes((0, 0, UNSIGNED, axes)) or len(contents) < head:
        raise ValueError(f"{path} is not an IDX file of bytes with {axes} axes; get the copy again")
    sizes = [int(n) for n in np.frombuffer(contents, ">u4", axes, offset=4)]
    if len(contents) - head != np.prod(sizes, dtype=object):
        raise ValueError(
            f"{path} has {len(contents) - head:,} bytes of data, but its header says {sizes}; get it again"
        )
    return np.frombuffer(contents, np.uint8, offset=head).reshape(sizes)
