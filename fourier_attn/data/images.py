"""Batches of images, augmented as they are drawn: a batch is a pure function of (seed, step)."""

import numpy as np

from fourier_attn.data.augmentation import NONE, Augmentation, augment
from fourier_attn.data.batches import Batch

ORDER, AUGMENTATION = 1, 2  # streams of random numbers; a split is drawn from the seed alone, which is 0


class ImageBatches:
    """Makes batches of images, `batches[step]`, for one epoch after another.

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
            raise ValueError("no images are left; check data.train_examples and data.holdout")
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


def grey(images: np.ndarray) -> np.ndarray:
    """Returns each pixel's grey value (n, rows cols), 0 to 255: 0.299 red + 0.587 green + 0.114 blue.

    Source: ITU-R BT.601, as Long Range Arena (Tay et al., arXiv 2011.04006) has it.
    """
    flat = images.reshape(len(images), -1, images.shape[-1])
    shares = np.array([0.299, 0.587, 0.114] if images.shape[-1] == 3 else [1.0], np.float32)
    return np.rint(flat @ shares).astype(np.int32)


def statistics(images: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns mean and standard deviation of each channel, as shares of 255, exact for bytes."""
    counts = [np.bincount(images[..., i].ravel(), minlength=256) for i in range(images.shape[-1])]
    values, means, deviations = np.arange(256) / 255, [], []
    for count in counts:
        mean = float(np.average(values, weights=count))
        means.append(round(mean, 6))
        deviations.append(round(float(np.average((values - mean) ** 2, weights=count)) ** 0.5, 6))
    return tuple(means), tuple(deviations)
