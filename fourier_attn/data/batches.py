"""Makes batches of token ids in length buckets; a batch is a pure function of (seed, step)."""

import functools
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import grain
import numpy as np

from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.packed import PackedTokens

Batch = dict[str, Any]  # arrays by name
IGNORED = -100  # label of a place without a label


@runtime_checkable
class Split(Protocol):
    """Declares the batches of a split, `batches[step]`.

    Args:
      rows: the inputs of all examples.
      labels: their labels (n, ..).
      batch: number of examples of a batch.
      steps_per_epoch: number of batches of an epoch.
      index: step of a batch.
    """

    rows: Any
    labels: np.ndarray
    batch: int
    steps_per_epoch: int

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Batch: ...


class Batches:
    """Makes batches of token ids, `batches[step]`, epoch after epoch.

    Every example is padded to the smallest bucket that it fits into, so that there is one shape per bucket,
    and the padded length of an example never changes. An epoch has each example once. The order of examples
    within a bucket, and the order of all batches, are drawn from (seed, epoch). The last batch of a bucket is
    filled with copies of its first row with weight 0.

    A batch is a dict:

        inputs (b, t)    token ids
        mask (b, t)      True for real tokens
        types (b, t)     1 after the first separator, else 0
        label            (b,), (b, p) or (b, c)
        weight (b,)      1, or 0 for copies that fill up the batch
        index (b,)       index of the example
        ...              the arrays in `more`

    Args:
      rows: token ids of each example.
      labels: class or number of each example (n,), classes of p places (n, p), or 0 or 1 of each class
        (n, c).
      buckets: padded lengths in increasing order; the last one must fit the longest row.
      batch: number of examples b of a batch.
      seed: seed of the order; default None: the order of the rows, for evaluation.
      epochs: number of epochs; default 1.
      pad: id of padding; default 0.
      sep: id of the separator; default None: all types are 0.
      more: arrays by name with a row for each example, for example the places (n, p) of the labels.
    Raises: ValueError for no examples, a batch below 1, and buckets that do not increase.
    """

    def __init__(
        self,
        rows: Sequence[np.ndarray],
        labels: np.ndarray,
        *,
        buckets: Sequence[int],
        batch: int,
        seed: int | None = None,
        epochs: int = 1,
        pad: int = 0,
        sep: int | None = None,
        more: Any = MappingProxyType({}),
    ):
        if not len(rows):
            raise ValueError("no examples are left; check data.train_examples and data.holdout")
        if batch < 1:
            raise ValueError(f"data.batch={batch} must be at least 1")
        if list(buckets) != sorted(set(buckets)) or buckets[0] < 1:
            raise ValueError(f"data.buckets={tuple(buckets)} must be whole positive numbers in rising order")
        lengths = rows.lengths if isinstance(rows, PackedTokens) else np.array([len(row) for row in rows])
        if lengths.max() > buckets[-1]:
            raise ValueError(
                f"a row of {lengths.max()} tokens exceeds the last of data.buckets={tuple(buckets)}; add a "
                "longer one"
            )
        labels = np.asarray(labels)
        self.labels = labels.astype(np.float32 if labels.dtype.kind == "f" else np.int32)
        self.rows, self.batch, self.seed, self.pad, self.sep = rows, batch, seed, pad, sep
        self.more = more
        bucket = np.searchsorted(buckets, lengths)
        members = [(t, np.flatnonzero(bucket == i).astype(np.int32)) for i, t in enumerate(buckets)]
        self.members = [(t, numbers) for t, numbers in members if len(numbers)]
        self.steps_per_epoch = sum(-(-len(members) // batch) for _, members in self.members)
        self.epochs = epochs
        self.epoch = functools.lru_cache(maxsize=2)(self._epoch)

    def __len__(self) -> int:
        return self.epochs * self.steps_per_epoch

    def __getitem__(self, index: int) -> Batch:
        epoch, place = divmod(int(index), self.steps_per_epoch)
        t, members = self.epoch(epoch)[place]
        weight = np.zeros(self.batch, np.float32)
        weight[: len(members)] = 1.0
        members = np.concatenate([members, np.repeat(members[:1], self.batch - len(members))])
        tokens, mask = np.full((self.batch, t), self.pad, np.int32), np.zeros((self.batch, t), bool)
        for row, real, example in zip(tokens, mask, members, strict=True):
            row[: len(self.rows[example])] = self.rows[example]
            real[: len(self.rows[example])] = True
        return {
            "inputs": tokens,
            "mask": mask,
            "types": types(tokens, mask, self.sep),
            "label": self.labels[members],
            "weight": weight,
            "index": members,
            **{name: array[members] for name, array in self.more.items()},
        }

    def _epoch(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        """Returns the padded length and the indices of examples for every batch of an epoch."""
        random = None if self.seed is None else np.random.default_rng((self.seed, epoch))
        batches = []
        for t, members in self.members:
            order = members if random is None else random.permutation(members)
            batches += [(t, order[i : i + self.batch]) for i in range(0, len(order), self.batch)]
        return batches if random is None else [batches[i] for i in random.permutation(len(batches))]


def padded_lengths(config: DataConfig) -> tuple[int, ...]:
    """Returns the lengths to which texts are padded: the `buckets` below `length`, then `length`."""
    return (*(t for t in config.buckets if t < config.length), config.length)


def types(tokens: np.ndarray, mask: np.ndarray, sep: int | None) -> np.ndarray:
    """Returns the segment (b, t) of each token: 1 after the first separator, else 0.

    Args:
      tokens: token ids (b, t).
      mask: True for real tokens (b, t); padding has the segment 0.
      sep: id of the separator; None: all segments are 0.
    """
    ends = (tokens == sep) if sep is not None else np.zeros(tokens.shape, bool)
    after = np.cumsum(ends, axis=-1) - ends
    return (mask & (after > 0)).astype(np.int32)


def prefetch(batches: Split, start: int = 0) -> Iterator[Batch]:
    """Yields batches in order, beginning with step `start`, and prepares them in a background thread."""
    dataset = grain.MapDataset.source(batches)[start:]
    return iter(dataset.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=8)))
