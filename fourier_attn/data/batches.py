"""Batches in length buckets: a batch is a pure function of (seed, step)."""

import functools
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import grain
import numpy as np

from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.packed import PackedTokens

Batch = dict[str, Any]  # of arrays
IGNORED = -100  # the label of a place that is not asked


@runtime_checkable
class Split(Protocol):
    """Describes the batches of a split, `batches[step]`, and what they are made from."""

    rows: Any
    labels: np.ndarray
    batch: int
    steps_per_epoch: int

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Batch: ...


class Batches:
    """Makes batches of token ids, `batches[step]`, for one epoch after another.

    Every example is padded to the smallest bucket that holds it, whatever else is in its batch. So there is
    one shape per bucket, and an example always has the same padded length. An epoch holds each example once:
    within its bucket in an order drawn from (seed, epoch), and the batches of all buckets in a drawn order
    too. The last batch of a bucket is filled with copies of its first row at weight 0.

    A batch is a dict: inputs (b, t), the ids of the tokens; mask (b, t), True for real tokens; types (b, t),
    1 from the first separator on, else 0; label (b), (b, p) or (b, c); weight (b) 1 or 0; index (b) the
    example's number; and the rows of `more`.

    Args:
      rows: token ids of each example.
      labels: the class of each example, or a number; the classes of p places; or 0 or 1 of
        each of c classes.
      buckets: padded lengths, rising; the last one holds the longest row.
      batch: examples b.
      seed: of the order; None keeps the order of the rows (evaluation).
      epochs: how many times the examples are seen.
      pad, sep: ids of padding and of the separator; without one all types are 0.
      more: name -> an array with a row for each example, such as the places (n, p) of the labels.
    Raises: ValueError for no examples, a batch below 1 or buckets that do not rise.
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
            raise ValueError(f"data.buckets={tuple(buckets)} must be positive and rise")
        lengths = rows.lengths if isinstance(rows, PackedTokens) else np.array([len(row) for row in rows])
        if lengths.max() > buckets[-1]:
            raise ValueError(
                f"a row of {lengths.max()} tokens exceeds the last of data.buckets={tuple(buckets)}"
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
        """Returns padded length and example numbers of every batch of an epoch, in order."""
        random = None if self.seed is None else np.random.default_rng((self.seed, epoch))
        batches = []
        for t, members in self.members:
            order = members if random is None else random.permutation(members)
            batches += [(t, order[i : i + self.batch]) for i in range(0, len(order), self.batch)]
        return batches if random is None else [batches[i] for i in random.permutation(len(batches))]


def padded_lengths(config: DataConfig) -> tuple[int, ...]:
    """Returns the lengths that texts are padded to: `buckets` below `length`, then `length`."""
    return (*(t for t in config.buckets if t < config.length), config.length)


def types(tokens: np.ndarray, mask: np.ndarray, sep: int | None) -> np.ndarray:
    """Returns the segment of each token: 1 after the first separator, 0 before, at it and on padding."""
    ends = (tokens == sep) if sep is not None else np.zeros(tokens.shape, bool)
    after = np.cumsum(ends, axis=-1) - ends
    return (mask & (after > 0)).astype(np.int32)


def prefetch(batches: Split, start: int = 0) -> Iterator[Batch]:
    """Yields batches from step `start` on, in their order, prepared in a background thread."""
    dataset = grain.MapDataset.source(batches)[start:]
    return iter(dataset.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=8)))
