"""Makes batches of images with augmentation; a batch is a pure function of (seed, step)."""

import numpy as np

from fourier_attn.data.augmentation import NONE, Augmentation, augment
from fourier_attn.data.batches import Batch

ORDER, AUGMENTATION = 1, 2  # streams of random numbers


class ImageBatches:
    """Makes batches of images, `batches[step]`, epoch after epoch.

    An epoch has each image once, in an order drawn from (seed, epoch). The last batch is filled with copies
    of its first image with weight 0.

    A batch is a dict:

        inputs (b, rows, cols, channels)    uint8
        label                               (b,) or (b, t)
        weight (b,)                         1, or 0 for copies that fill up the batch
        index (b,)                          index of the image
        second_label (b,), share (b,)       of mixed images; the share is that of the first label
        question (b, q)                     for tasks with questions

    Args:
      images: uint8 (n, rows, cols, channels).
      labels: indices of classes of images (n,), or of their patches (n, t).
      batch: number of images b of a batch.
      seed: seed of order and augmentation; default None: no augmentation and the given order, for evaluation.
      epochs: number of epochs; default 1.
      augmentation: used in training; default none.
      questions: token ids of the questions (n, q), filled with -1; default None: no questions.
    Raises: ValueError for no images and for a batch below 1.
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
    """Returns each pixel's grey value (n, rows cols), 0 to 255: $0.299 red + 0.587 green + 0.114 blue$.

    Source: ITU-R BT.601, as in Long Range Arena (Tay et al., arXiv 2011.04006).
    """
    flat = images.reshape(len(images), -1, images.shape[-1])
    shares = np.array([0.299, 0.587, 0.114] if images.shape[-1] == 3 else [1.0], np.float32)
    return np.rint(flat @ shares).astype(np.int32)


def statistics(images: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the exact mean and standard deviation of each channel, from 0 to 1."""
    counts = [np.bincount(images[..., i].ravel(), minlength=256) for i in range(images.shape[-1])]
    values, means, deviations = np.arange(256) / 255, [], []
    for count in counts:
        mean = float(np.average(values, weights=count))
        means.append(round(mean, 6))
        deviations.append(round(float(np.average((values - mean) ** 2, weights=count)) ** 0.5, 6))
    return tuple(means), tuple(deviations)
