"""Batches for pre-training: packed windows, two segments in or out of order, masked tokens."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fourier_attn.data.batches import Batch, types
from fourier_attn.data.text import special

# shares of the chosen tokens that become [MASK], or a random token; the rest stays
MASKED, RANDOM = 0.8, 0.1


class MaskedBatches:
    """Makes batches for pre-training, `batches[step]`, each a function of (seed, step).

    The documents of a split, one after another with an end token between them, are cut into windows of
    length - 3 tokens, so that nothing is padding. A window is cut in two, A and B, anywhere in its middle
    half, and half of the windows are swapped (label 1):

        [CLS] A [SEP] B [SEP]        or        [CLS] B [SEP] A [SEP]

    Windows begin and end anywhere, and so must cuts: if cuts were at ends of sentences, the token before the
    first [SEP] would reveal the order.

    Then a share `rate` of the tokens is chosen, special ones excepted; of these 80 % become [MASK], 10 % a
    random token, 10 % stay. Cuts, order and masks are drawn anew for each epoch; in evaluation they are the
    same each time.

    A batch is a dict as of `Batches`, without mask and with label 1 for swapped windows. It also has
    answer_positions (b, p) of the chosen tokens, mlm_labels (b, p), the tokens that were there, and
    mlm_weights (b, p), 1 or, where no token was chosen, 0.

    Args:
      documents: token ids of each.
      tokenizer: the one they come from; it needs [CLS], [SEP], [MASK].
      length: tokens t of a row.
      batch: rows b.
      rate: share of the tokens that are chosen; p = round(rate (t - 3)), at least 1.
      seed: of order and masks; None keeps the order of the documents (evaluation).
      epochs: how many times the windows are seen.
      most: windows that are used, the first ones; 0: all.
    Raises: ValueError for a tokenizer without these tokens, or less text than one window.
    Source: Devlin et al., BERT, arXiv 1810.04805 (masking); Lan et al., ALBERT, arXiv 1909.11942, and
      Lee-Thorpe et al., FNet, arXiv 2105.03824 (order of segments).
    """

    def __init__(
        self,
        documents: Sequence[np.ndarray],
        tokenizer: Any,
        *,
        length: int,
        batch: int,
        rate: float,
        seed: int | None = None,
        epochs: int = 1,
        most: int = 0,
    ):
        if length < 8:
            raise ValueError(
                f"data.length={length} must be at least 8 for two segments and their special tokens"
            )
        if batch < 1:
            raise ValueError(f"data.batch={batch} must be at least 1")
        if not 0 < rate < 1:
            raise ValueError(f"data.mask_rate={rate} must lie between 0 and 1")
        ids, self.vocab = special(tokenizer), tokenizer.get_vocab_size()
        if ids.cls is None or ids.sep is None or ids.mask is None or ids.end is None:
            raise ValueError(
                "pre-training needs a tokenizer with [CLS], [SEP], [MASK] and </s>; use data.tokenizer='bpe'"
            )
        self.cls, self.sep, self.mask = ids.cls, ids.sep, ids.mask
        self.rows = pack(documents, ids.end, length - 3)[: most or None]
        if not len(self.rows):
            raise ValueError(
                f"the texts of a split have fewer than {length - 3} tokens, less than one window; give more "
                "texts or shorten data.length"
            )
        self.text = np.setdiff1d(np.arange(self.vocab), [i for i in ids if i is not None])
        self.labels = np.zeros(len(self.rows), np.int32)
        self.length, self.batch, self.rate, self.seed, self.epochs = length, batch, rate, seed, epochs
        self.steps_per_epoch = -(-len(self.rows) // batch)
        self.order = functools.lru_cache(maxsize=2)(self._order)

    def __len__(self) -> int:
        return self.epochs * self.steps_per_epoch

    def __getitem__(self, index: int) -> Batch:
        epoch, place = divmod(int(index), self.steps_per_epoch)
        members = self.order(epoch)[place * self.batch : (place + 1) * self.batch]
        weight = np.zeros(self.batch, np.float32)
        weight[: len(members)] = 1.0
        members = np.concatenate([members, np.repeat(members[:1], self.batch - len(members))])
        rng = np.random.default_rng((0 if self.seed is None else self.seed, 1, int(index)))
        tokens, label = self.segments(self.rows[members], rng)
        segment = types(tokens, np.ones(tokens.shape, bool), self.sep)
        chosen = self.choose(tokens, weight, rng)
        return {
            "inputs": tokens,
            "types": segment,
            "label": label,
            "weight": weight,
            "index": members,
            **chosen,
        }

    def _order(self, epoch: int) -> np.ndarray:
        """Returns the numbers of the windows of an epoch, in order."""
        if self.seed is None:
            return np.arange(len(self.rows))
        return np.random.default_rng((self.seed, 0, epoch)).permutation(len(self.rows))

    def segments(self, windows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Returns tokens (b, t) with their special tokens, and whether A and B were swapped."""
        b, n = windows.shape
        cut = rng.integers(max(1, n // 4), max(2, n - n // 4), b)
        swapped = rng.random(b) < 0.5
        tokens = np.empty((b, n + 3), np.int32)
        for row, window, at, swap in zip(tokens, windows, cut, swapped, strict=True):
            first, second = (window[at:], window[:at]) if swap else (window[:at], window[at:])
            row[:] = [self.cls, *first, self.sep, *second, self.sep]
        return tokens, swapped.astype(np.int32)

    def choose(self, tokens: np.ndarray, weight: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
        """Masks `tokens` in place; returns the positions, the tokens that were there, and their weights."""
        p = max(1, round(self.rate * (self.length - 3)))
        lot = rng.random(tokens.shape)
        lot[np.isin(tokens, self.text, invert=True)] = np.inf
        answer_positions = np.sort(np.argsort(lot, axis=1)[:, :p], axis=1)
        real = np.isfinite(np.take_along_axis(lot, answer_positions, 1)) & (weight[:, None] > 0)
        label = np.take_along_axis(tokens, answer_positions, 1)
        kind, other = rng.random(answer_positions.shape), rng.choice(self.text, answer_positions.shape)
        new = np.where(kind < MASKED, self.mask, np.where(kind < MASKED + RANDOM, other, label))
        np.put_along_axis(tokens, answer_positions, np.where(real, new, label).astype(np.int32), 1)
        return {
            "answer_positions": answer_positions.astype(np.int32),
            "mlm_labels": label,
            "mlm_weights": real.astype(np.float32),
        }


def pack(documents: Sequence[np.ndarray], end: int, n: int) -> np.ndarray:
    """Returns all documents with `end` after each, cut into windows of n; the remainder is dropped."""
    stream = np.concatenate([np.append(document, end) for document in documents] or [np.zeros(0)])
    return stream[: len(stream) // n * n].reshape(-1, n).astype(np.int32)
