"""MNIST and its relatives in their official form: IDX files of images and of labels."""

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
UNSIGNED = 0x08  # the third byte of an IDX file: its numbers are bytes


def splits(builder: Any, source: Path) -> dict[str, Iterator]:
    """Reads the splits of mnist or fashion_mnist.

    The folder has {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain, .gz or .xz.
    """
    return _splits({name: files.packed(source, name) for name in FILES}, source)


def builder(dataset: str) -> Callable[[str | None], tfds.core.DatasetBuilder]:
    """Returns a function that makes the TFDS builder of mnist or fashion_mnist.

    It reads here what TFDS has downloaded, since TFDS's own reading needs TensorFlow.
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
                f"{name} in {place} has {len(images):,} images and {len(labels):,} labels; get them again"
            )
        if images.shape[1:] != (28, 28):
            raise ValueError(f"{name} in {place} has images of {images.shape[1:]}, not (28, 28) pixels")
        made[split] = examples(images[..., None], labels, 10, f"{name} in {place}")
    return made


def examples(images: np.ndarray, labels: np.ndarray, classes: int, where: str) -> Iterator[tuple[int, dict]]:
    """Yields each image, as PNG, and its class, as TFDS writes them. Raises: ValueError for a bad label."""
    if len(labels) == 0 or labels.max() >= classes:
        raise ValueError(f"{where} has no image, or a label of {classes} or more; get the files again")
    return (
        (number, {"image": png(image), "label": int(label)})
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    )


def png(image: np.ndarray) -> bytes:
    """Returns the image as a PNG file. (TFDS would need TensorFlow to make one.)"""
    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, format="PNG")
    return file.getvalue()


def _array(path: Path, source: Path | None, axes: int) -> np.ndarray:
    """Reads the numbers of an IDX file: two zero bytes, their kind, how many axes there are, sizes, numbers.

    Raises: ValueError for a file that is missing, damaged, or of another kind.
    """
    try:
        with files.unpacked(path, source or path) as file:
            contents = file.read()
    except files.DAMAGED as error:
        raise ValueError(f"{path} cannot be read to its end ({error}); get the copy again") from error
    head = 4 + 4 * axes
    if contents[:4] != bytes((0, 0, UNSIGNED, axes)) or len(contents) < head:
        raise ValueError(f"{path} is not an IDX file of bytes with {axes} axes; get the copy again")
    sizes = [int(n) for n in np.frombuffer(contents, ">u4", axes, offset=4)]
    if len(contents) - head != np.prod(sizes, dtype=object):
        raise ValueError(
            f"{path} has {len(contents) - head:,} bytes after its head, which says {sizes}; get it again"
        )
    return np.frombuffer(contents, np.uint8, offset=head).reshape(sizes)
