"""Augments training images with flips, crops and mixtures of two images."""

from typing import NamedTuple

import numpy as np


class Augmentation(NamedTuple):
    """Selects the augmentations of training images.

    Args:
      flip: whether to mirror images left to right with probability 1/2.
      crop: width of the zero padding in pixels, of which a random crop is taken; 0: no crop.
      mix: "mixup", "cutmix", or "" for none.
    """

    flip: bool = False
    crop: int = 0
    mix: str = ""


NONE = Augmentation()


def augment(
    images: np.ndarray,
    labels: np.ndarray,
    random: np.random.Generator,
    how: Augmentation,
    real: int | None = None,
) -> dict[str, np.ndarray]:
    """Augments training images, and returns them with the labels of mixed images.

        flip      x[i, j] -> x[i, J - 1 - j], for each image with probability 1/2
        crop      pads with `crop` zeros on each side, then crops the old size at a random place
        mixup     a x + (1 - a) x',  a uniform in (0, 1) for the batch, x' another image of the batch
        cutmix    a random rectangle of x' in x, with the share 1 - a before it is cut at the edge

    The label of x then has the share a (cutmix: its share of the pixels), and that of x' has the rest.

    Args:
      images: uint8 (b, rows, cols, channels).
      labels: (b,).
      random: generator of random numbers.
      how: the augmentations.
      real: number of real images, which come first and are mixed with each other; the images after them fill
        up the batch and are not mixed. Default None: all are real.
    Returns: `inputs` and `label`; for mixed images also `second_label` (b,) and `share` (b,) of the first
      label.
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
    """Returns the slices of a random rectangle, cut at the edge.

    Args:
      size: rows and columns of the image; the rectangle has the same proportions.
      share: the rectangle has the share 1 - share of the pixels.
      random: generator of random numbers.
    """
    half = [n * np.sqrt(1 - share) / 2 for n in size]
    middle = [random.uniform(0, n) for n in size]
    return [
        slice(max(round(m - h), 0), min(round(m + h), n)) for m, h, n in zip(middle, half, size, strict=True)
    ]
