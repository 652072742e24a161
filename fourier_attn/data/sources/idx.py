"""MNIST and its relatives in their official form: IDX files of images and of labels."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fourier_attn.data.sources import files

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
UNSIGNED = 0x08  # the third byte of an IDX file: its numbers are bytes


def splits(builder: Any, source: Path) -> dict[str, Iterator]:
    """The splits of mnist or fashion_mnist from a folder with {train,t10k}-{images-idx3,labels-idx1}-ubyte,
    plain, .gz or .xz."""
    made = {}
    for split, name in NAMES.items():
        images = _array(source, f"{name}-images-idx3-ubyte", 3)
        labels = _array(source, f"{name}-labels-idx1-ubyte", 1)
        if len(images) != len(labels):
            raise ValueError(
                f"{name} in {source} has {len(images):,} images and {len(labels):,} labels; get it again"
            )
        if images.shape[1:] != (28, 28):
            raise ValueError(f"{name} in {source} has images of {images.shape[1:]}, not (28, 28) pixels")
        made[split] = examples(images[..., None], labels, 10, f"{name} in {source}")
    return made


def examples(images: np.ndarray, labels: np.ndarray, classes: int, where: str) -> Iterator[tuple[int, dict]]:
    """What TFDS writes: each image, as PNG, and its class. Raises: ValueError for a label that is none."""
    if len(labels) == 0 or labels.max() >= classes:
        raise ValueError(f"{where} has no image, or a label of {classes} or more; get the files again")
    return (
        (number, {"image": png(image), "label": int(label)})
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    )


def png(image: np.ndarray) -> bytes:
    """The image as a file. (TFDS would need TensorFlow to make one.)"""
    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, format="PNG")
    return file.getvalue()


def _array(source: Path, name: str, axes: int) -> np.ndarray:
    """The numbers of an IDX file: two zero bytes, their kind, how many axes there are, sizes, numbers.

    Raises: ValueError for a file that is missing, damaged, or of another kind.
    """
    path = files.packed(source, name)
    try:
        with files.unpacked(path, source) as file:
            contents = file.read()
    except files.DAMAGED as error:
        raise ValueError(f"{path} cannot be read to its end ({error}); get the copy again") from error
    head = 4 + 4 * axes
    if contents[:4] != bytes((0, 0, UNSIGNED, axes)) or len(contents) < head:
        raise ValueError(f"{path} is no IDX file of bytes with {axes} axes; get the copy again")
    sizes = [int(n) for n in np.frombuffer(contents, ">u4", axes, offset=4)]
    if len(contents) - head != np.prod(sizes, dtype=object):
        raise ValueError(
            f"{path} has {len(contents) - head:,} bytes after its head, which says {sizes}; get it again"
        )
    return np.frombuffer(contents, np.uint8, offset=head).reshape(sizes)
