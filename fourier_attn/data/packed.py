"""Stores the token ids of many texts compactly."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from fourier_attn.data.text import encode_with_cut

CHUNK = 4096  # number of texts that are encoded together


class PackedTokens(Sequence):
    """Holds the token ids of many texts in one array.

    Args:
      tokens: token ids of all texts, one text after the other.
      lengths: number of tokens of each text (n,).
      cut: whether each text was cut (bool, n); default None: unknown.
    """

    def __init__(self, tokens: np.ndarray, lengths: np.ndarray, cut: np.ndarray | None = None):
        ends = np.zeros(len(lengths) + 1, np.min_scalar_type(len(tokens)))
        np.cumsum(lengths, out=ends[1:])
        self.tokens, self.ends, self.cut = tokens, ends, cut

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: Any) -> Any:
        index = range(len(self))[index]
        return self.tokens[self.ends[index] : self.ends[index + 1]].astype(np.int32)

    @property
    def lengths(self) -> np.ndarray:
        """Returns the number of tokens of each text."""
        return np.diff(self.ends)

    def take(self, index: np.ndarray) -> "PackedTokens":
        """Returns a copy of the texts with the indices `index` (m,), in this order."""
        lengths = self.lengths[index]
        tokens, begin = np.empty(lengths.sum(dtype=np.int64), self.tokens.dtype), 0
        for i in range(0, len(index), CHUNK):
            sizes = lengths[i : i + CHUNK].astype(np.int64)
            inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            places = np.repeat(self.ends[index[i : i + CHUNK]].astype(np.int64), sizes) + inside
            tokens[begin : begin + len(places)] = self.tokens[places]
            begin += len(places)
        return PackedTokens(tokens, lengths, None if self.cut is None else self.cut[index])

    def records(self, labels: np.ndarray) -> Iterator[bytes]:
        """Yields length, tokens and label of each text as bytes of int32 (float32 by its bits), for hashes.

        Args:
          labels: (n,) or (n, c).
        """
        last = labels.reshape(len(self), -1).view(np.int32)
        width = last.shape[1]
        for i in range(0, len(self), CHUNK):
            part = self.ends[i : i + CHUNK + 1].astype(np.int64)
            sizes = np.diff(part)
            heads = np.cumsum(sizes + 1 + width) - sizes - 1 - width
            record = np.empty(part[-1] - part[0] + (1 + width) * len(sizes), np.int32)
            ends = (heads + sizes + 1)[:, None] + np.arange(width)
            inside = np.ones(len(record), bool)
            inside[heads] = inside[ends] = False
            record[inside] = self.tokens[part[0] : part[-1]]
            record[heads], record[ends] = sizes, last[i : i + CHUNK]
            yield record.astype("<i4").tobytes()


def encode_all(tokenizer: Any, texts: Iterable[tuple[str, ...]], length: int) -> PackedTokens:
    """Encodes many texts or pairs of texts, in chunks that fit into memory.

    Args:
      tokenizer: the tokenizer.
      texts: tuples with one or two texts.
      length: largest number of tokens; longer texts are cut, see `text.encode_with_cut`.
    """
    kind = np.uint16 if tokenizer.get_vocab_size() <= 2**16 else np.int32
    tokens, sizes, cut, texts = bytearray(), bytearray(), bytearray(), iter(texts)
    while chunk := list(islice(texts, CHUNK)):
        first, *second = (list(column) for column in zip(*chunk, strict=True))
        rows, shares = encode_with_cut(tokenizer, first, length, second[0] if second else None)
        tokens += np.concatenate(rows).astype(kind).tobytes()
        sizes += np.array([len(row) for row in rows], np.int32).tobytes()
        cut += (shares > 0).tobytes()
    return PackedTokens(np.frombuffer(tokens, kind), np.frombuffer(sizes, np.int32), np.frombuffer(cut, bool))
