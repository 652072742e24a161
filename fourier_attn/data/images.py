"""Batches of images, augmented as they are drawn: a batch is a pure function of (seed, step)."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from fourier_attn.data.batches import Batch
from fourier_attn.data.tables import files

FORMATS = ("PNG", "JPEG", "BMP", "PPM", "WEBP")
PIXELS = 2**26  # of an image file; a photograph has up to 2**25
COLOURS = {1: "L", 3: "RGB"}  # Pillow's names, by channels
PLAIN = {"P": "RGB", "1": "L"}  # what a palette, and black and white, are the same as


class Augmentation(NamedTuple):
    """What is done to training images; see `fourier_attn.data.tasks.KNOBS`."""

    flip: bool = False
    crop: int = 0
    mix: str = ""


NONE = Augmentation()
ORDER, AUGMENTATION = 1, 2  # streams of random numbers; a split is drawn from the seed alone, which is 0


class ImageBatches:
    """A sequence of batches of images, `batches[step]`, for one epoch after another.

    An epoch holds each image once, in an order drawn from (seed, epoch). The last batch is filled up with
    copies of its first image at weight 0.

    A batch is a dict: inputs (b, rows, cols, channels), bytes; label (b); weight (b) 1 or 0; index (b) the
    image's number; where images are mixed also second_label (b) and share (b), that of the first label; where
    there are questions also question (b, q).

    Args:
      images: (n, rows, cols, channels), bytes.
      labels: the class of each, (n), or of each of its patches, (n, t).
      batch: images b.
      seed: of the order and the augmentation; None keeps the order and augments nothing (evaluation).
      epochs: how many times the images are seen.
      augmentation: in training.
      questions: ids of the words of each one's question, (n, q), -1 after the last one; None: there are none.
    Raises: ValueError for no images or a batch below 1.
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        *,
        batch: int,
        seed: int | None = None,
        epochs: int = 1,
        augmentation: Augmentation = NONE,
        questions: np.ndarray | None = None,
    ):
        if not len(images):
            raise ValueError("there are no images; check data.train_examples and data.holdout")
        if batch < 1:
            raise ValueError(f"data.batch={batch} must be at least 1")
        self.rows, self.labels = images, np.asarray(labels).astype(np.int32)
        self.batch, self.seed, self.epochs = batch, seed, epochs
        self.augmentation, self.questions = augmentation, questions
        self.steps_per_epoch = -(-len(images) // batch)
        self.cached: tuple[int, np.ndarray] = (-1, np.zeros(0, int))

    def __len__(self) -> int:
        return self.epochs * self.steps_per_epoch

    def __getitem__(self, index: int) -> Batch:
        epoch, place = divmod(int(index), self.steps_per_epoch)
        members = self._order(epoch)[place * self.batch : (place + 1) * self.batch]
        weight, real = np.zeros(self.batch, np.float32), len(members)
        weight[:real] = 1.0
        members = np.concatenate([members, np.repeat(members[:1], self.batch - len(members))])
        batch = {"inputs": self.rows[members], "label": self.labels[members]}
        if self.seed is not None:
            random = np.random.default_rng((self.seed, AUGMENTATION, epoch, place))
            batch = augment(batch["inputs"], batch["label"], random, self.augmentation, real)
        if self.questions is not None:
            batch["question"] = self.questions[members]
        return {**batch, "weight": weight, "index": members}

    def _order(self, epoch: int) -> np.ndarray:
        if self.seed is None:
            return np.arange(len(self.rows))
        number, order = self.cached
        if number != epoch:
            order = np.random.default_rng((self.seed, ORDER, epoch)).permutation(len(self.rows))
            self.cached = (epoch, order)
        return order


def augment(
    images: np.ndarray,
    labels: np.ndarray,
    random: np.random.Generator,
    how: Augmentation,
    real: int | None = None,
) -> dict[str, np.ndarray]:
    """Images as they are drawn, and their labels.

        flip      x[i, j] -> x[i, J - 1 - j], for each image with probability 1/2
        crop      zeros around, of `crop` pixels, then a piece of the old size from anywhere
        mixup     a x + (1 - a) x',  a uniform in (0, 1) for the batch, x' another image of the batch
        cutmix    a rectangle of x' in x, uniform in place, of the share 1 - a before it is cut at the edge

    The label of x then has the share a (cutmix: of the pixels), that of x' the rest. Bytes stay bytes.

    Args:
      real: how many images, the first ones, are mixed with each other; the others fill the batch up and are
        mixed with themselves. None: all.
    Source: Zhang et al., mixup, arXiv 1710.09412; Yun et al., CutMix, arXiv 1905.04899, both with Beta(1, 1).
    """
    b, rows, cols, _ = images.shape
    if how.flip:
        images = np.where((random.random(b) < 0.5)[:, None, None, None], images[:, :, ::-1], images)
    if how.crop:
        edge = how.crop
        padded = np.pad(images, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (rows, cols), axis=(1, 2))
        down, right = random.integers(0, 2 * edge + 1, (2, b))
        images = np.ascontiguousarray(windows[np.arange(b), down, right].transpose(0, 2, 3, 1))
    if not how.mix:
        return {"inputs": images, "label": labels}
    other = np.arange(b)
    other[:real] = random.permutation(b if real is None else real)
    share = random.random()
    if how.mix == "mixup":
        kept = share
        mixed = images[other] * np.float32(1 - share)
        mixed += images * np.float32(share)
        images = np.rint(mixed).astype(np.uint8)
    else:
        box = _box((rows, cols), share, random)
        kept = 1 - np.prod([part.stop - part.start for part in box]) / (rows * cols)
        images = images.copy()
        images[:, *box] = images[other][:, *box]
    shares = np.full(b, kept, np.float32)
    return {"inputs": images, "label": labels, "second_label": labels[other], "share": shares}


def _box(size: tuple[int, int], share: float, random: np.random.Generator) -> list[slice]:
    """A rectangle of the image's proportions and 1 - share of its pixels, cut at the edge."""
    half = [n * np.sqrt(1 - share) / 2 for n in size]
    middle = [random.uniform(0, n) for n in size]
    return [
        slice(max(round(m - h), 0), min(round(m + h), n)) for m, h, n in zip(middle, half, size, strict=True)
    ]


def grey(images: np.ndarray) -> np.ndarray:
    """Each pixel's grey value (n, rows cols), 0 to 255, row after row: 0.299 red + 0.587 green + 0.114 blue.

    Source: ITU-R BT.601, as Long Range Arena (Tay et al., arXiv 2011.04006) has it.
    """
    flat = images.reshape(len(images), -1, images.shape[-1])
    shares = np.array([0.299, 0.587, 0.114] if images.shape[-1] == 3 else [1.0], np.float32)
    return np.rint(flat @ shares).astype(np.int32)


def statistics(images: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel, as shares of 255, exact for bytes."""
    counts = [np.bincount(images[..., i].ravel(), minlength=256) for i in range(images.shape[-1])]
    values, means, deviations = np.arange(256) / 255, [], []
    for count in counts:
        mean = float(np.average(values, weights=count))
        means.append(round(mean, 6))
        deviations.append(round(float(np.average((values - mean) ** 2, weights=count)) ** 0.5, 6))
    return tuple(means), tuple(deviations)


def read_image(path: Path, image: tuple[int, ...]) -> np.ndarray:
    """The image in a file, upright as its EXIF data say, scaled to (rows, cols, channels), bytes.

    A grey image becomes one of three equal colours where these are asked for.

    Raises: ValueError for a file that is no image, is cut off or too large, and for other channels.
    """
    try:
        with files.open_regular(path, path) as file:
            return _scaled(_read(file), image)
    except ValueError as error:
        raise ValueError(f"image={path} cannot be used: {error}") from error


def _read(file: BinaryIO) -> Image.Image:
    """Upright, and wholly read. Raises: ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # for which there is our own limit
        with _understood():
            opened = Image.open(file, formats=FORMATS)
        if opened.width * opened.height > PIXELS:
            raise ValueError(
                f"it has {opened.width} x {opened.height} pixels, more than {PIXELS:,}: scale it down first"
            )
        with _understood():
            opened.load()
            return ImageOps.exif_transpose(opened)


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Raises: ValueError where Pillow does not understand the file."""
    try:
        yield
    except Image.DecompressionBombError as error:
        raise ValueError(f"{error}: scale it down first") from error
    except Exception as error:  # Pillow raises a dozen kinds for a damaged file
        raise ValueError(
            f"{str(error)[:200] or type(error).__name__}; "
            f"give a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file"
        ) from error


def _scaled(opened: Image.Image, image: tuple[int, ...]) -> np.ndarray:
    rows, cols, channels = image
    if channels not in COLOURS:
        raise ValueError(f"the network takes images with {channels} channels, which no file has")
    if "transparency" in opened.info:
        raise ValueError("it is transparent: convert it first")
    plain = opened.convert(PLAIN[opened.mode]) if opened.mode in PLAIN else opened
    if plain.mode not in COLOURS.values() or (plain.mode == "RGB" and channels == 1):
        raise ValueError(
            f"its pixels are {plain.mode}, and the network takes {COLOURS[channels]}: convert it first"
        )
    plain = plain.convert(COLOURS[channels])
    scaled = plain if plain.size == (cols, rows) else plain.resize((cols, rows), Image.Resampling.BICUBIC)
    return np.asarray(scaled).reshape(image)
