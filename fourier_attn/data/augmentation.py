"""Augmentation of training images: flips, crops and mixtures of two."""

from typing import NamedTuple

import numpy as np


class Augmentation(NamedTuple):
    """Says how training images are changed; see `fourier_attn.data.knobs.KNOBS`."""

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
    """Augments training images, and mixes their labels where images are mixed.

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
    """Draws a rectangle of the image's proportions and 1 - share of its pixels, cut at the edge."""
    half = [n * np.sqrt(1 - share) / 2 for n in size]
    middle = [random.uniform(0, n) for n in size]
    return [
        slice(max(round(m - h), 0), min(round(m + h), n)) for m, h, n in zip(middle, half, size, strict=True)
    ]
