"""Cuts the documents of a split into windows, for language models and for pretraining."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from fourier_attn.data.batches import Batch
from fourier_attn.data.skills import IGNORED
from fourier_attn.data.text import Special


class Windows(ABC):
    """Orders the windows of a split; the windows of a batch are a function of (seed, step).

    Args:
      rows: the windows (n, ..).
      labels: label of each window (n, ..).
      batch: number of windows b of a batch; the last batch is filled with copies of its first window with
        weight 0.
      seed: seed of the order in each epoch; default None: the order of the documents, for evaluation.
      epochs: number of epochs; default 1.
    Raises: ValueError for a batch below 1.
    """

    def __init__(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        *,
        batch: int,
        seed: int | None = None,
        epochs: int = 1,
    ):
        if batch < 1:
            raise ValueError(f"data.batch={batch} must be at least 1")
        self.rows, self.labels, self.batch, self.seed, self.epochs = rows, labels, batch, seed, epochs
        self.steps_per_epoch = -(-len(rows) // batch)
        self.order = functools.lru_cache(maxsize=2)(self._order)

    def __len__(self) -> int:
        return self.epochs * self.steps_per_epoch

    @abstractmethod
    def __getitem__(self, index: int) -> Batch:
        """Returns the batch of step `index`."""

    def members(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns indices (b,) and weights (b,), 1 or 0, of the windows in the batch of step `index`."""
        epoch, place = divmod(index, self.steps_per_epoch)
        members = self.order(epoch)[place * self.batch : (place + 1) * self.batch]
        weight = np.zeros(self.batch, np.float32)
        weight[: len(members)] = 1.0
        return np.concatenate([members, np.repeat(members[:1], self.batch - len(members))]), weight

    def _order(self, epoch: int) -> np.ndarray:
        """Returns the indices of the windows of an epoch, in order."""
        if self.seed is None:
            return np.arange(len(self.rows))
        return np.random.default_rng((self.seed, 0, epoch)).permutation(len(self.rows))


class NextTokenBatches(Windows):
    """Makes batches of a next-token model, `batches[step]`, each a function of (seed, step).

    The documents of a split, with a separator before the first and after each, form one stream $s_0 .. s_n$.
    Window w reads t tokens and predicts the following ones:

        inputs[w, i] = s_(w t + i),    label[w, i] = s_(w t + i + 1)

    Each token of each document, and each separator after a document, is predicted exactly once. The rest of
    the last window is padding with labels `IGNORED`. Batches have no mask, because a causal network does not
    see padding after the tokens. A window may contain ends and beginnings of several documents.

    A batch is a dict:

        inputs (b, t)    token ids
        label (b, t)     token ids
        words (b,)       number of words that belong to the predicted tokens
        weight (b,)      1, or 0 for copies that fill up the batch
        index (b,)       index of the window

    The words of a document are distributed evenly over its tokens and its separator. Their sum over a split
    is therefore the number of words of its texts, whatever the tokenizer.

    Args:
      documents: token ids of each document.
      words: number of words of each document's text.
      separator: id of the token between documents.
      pad: id of padding.
      length: number of tokens t of a window.
      batch: number of windows b of a batch.
      most: use only the first windows; default 0: all.
      order: `seed` and `epochs` of `Windows`.
    Raises: ValueError for documents that together are shorter than a window.
    """

    def __init__(
        self,
        documents: Sequence[np.ndarray],
        words: Sequence[int],
        *,
        separator: int,
        pad: int,
        length: int,
        batch: int,
        most: int = 0,
        **order: Any,
    ):
        stream = stream_of(documents, separator)
        check_length(documents, length)
        windows = -(-len(stream) // length)
        rows = np.full(windows * length + 1, pad, np.int32)
        rows[0], rows[1 : len(stream) + 1] = separator, stream
        labels = np.full(windows * length, IGNORED, np.int32)
        labels[: len(stream)] = stream
        counts = np.zeros(windows * length, np.int64)
        counts[: len(stream)] = _spread(words, [len(document) + 1 for document in documents])
        shape = (windows, length)
        self.words = counts.reshape(shape).sum(1).astype(np.float32)[: most or None]
        rows, labels = (array.reshape(shape)[: most or None] for array in (rows[:-1], labels))
        super().__init__(rows, labels, batch=batch, **order)

    def __getitem__(self, index: int) -> Batch:
        members, weight = self.members(int(index))
        return {
            "inputs": self.rows[members],
            "label": self.labels[members],
            "words": self.words[members],
            "weight": weight,
            "index": members,
        }


def stream_of(documents: Sequence[np.ndarray], end: int) -> np.ndarray:
    """Returns the tokens of all documents with `end` after each.

    >>> stream_of([np.array([5, 6]), np.array([7])], end=2)
    array([5, 6, 2, 7, 2], dtype=int32)
    """
    parts = [part for document in documents for part in (document, [end])]
    return np.concatenate(parts or [[]]).astype(np.int32)


def pack(documents: Sequence[np.ndarray], end: int, n: int) -> np.ndarray:
    """Returns windows (m, n) of all documents with the token `end` after each; the remainder is dropped.

    Args:
      documents: token ids of each document.
      end: id of the token after each document.
      n: number of tokens of a window.
    """
    stream = stream_of(documents, end)
    return stream[: len(stream) // n * n].reshape(-1, n)


def check_length(documents: Sequence[np.ndarray], length: int, special: int = 0) -> None:
    """Checks that the texts of a split fill at least one window.

    Args:
      documents: token ids of each document.
      length: number of tokens of a window.
      special: number of special tokens in a window; default 0.
    Raises: ValueError.
    """
    tokens = sum(len(document) + 1 for document in documents)
    if tokens < length - special:
        raise ValueError(
            f"data.length={length} is too long for a split with {tokens} tokens; give more texts, increase "
            "data.holdout if validation or test is too short, or reduce data.length"
        )


def separator(ids: Special) -> int:
    """Returns the id of the token between documents: </s>, else [SEP], else padding.

    Tokenizers of words and of bytes have only padding. It can separate texts, because texts never contain it.
    """
    return next(i for i in (ids.end, ids.sep, ids.pad) if i is not None)


def _spread(words: Sequence[int], tokens: Sequence[int]) -> np.ndarray:
    """Returns the number of words that belong to each token, differences of $floor(W k / n)$."""
    counts = [np.diff(np.arange(n + 1) * w // n) for w, n in zip(words, tokens, strict=True)]
    return np.concatenate(counts)
