"""Makes batches with masked tokens, for masked language models and for pretraining with two segments."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.data.batches import Batch, types
from fourier_attn.data.skills import IGNORED
from fourier_attn.data.text import special
from fourier_attn.data.windows import Windows, check_length, pack

# shares of the chosen tokens that become [MASK] or a random token; the others do not change
MASKED, RANDOM = 0.8, 0.1


class Masks(NamedTuple):
    """Chooses the tokens that a network predicts, and masks them.

    Special tokens are never chosen. Of the chosen tokens, 80 % become [MASK], 10 % become a random token, and
    10 % do not change.

    Args:
      mask: id of [MASK]; None: chosen tokens become random ones instead.
      text: ids of all tokens that are not special.
      number: number of tokens p that are chosen in a row.
    Source: Devlin et al., BERT, arXiv 1810.04805.
    """

    mask: int | None
    text: np.ndarray
    number: int

    @classmethod
    def of(cls, tokenizer: Any, rate: float, length: int, needed: bool = True) -> "Masks":
        """Returns masks for rows of tokens.

        Args:
          tokenizer: the tokenizer.
          rate: share of the tokens that are chosen, between 0 and 1.
          length: number of tokens of text in a row; round(rate length) of them are chosen, at least 1.
          needed: whether the tokenizer must have [MASK]; default True.
        Raises: ValueError for a rate out of range, and for a tokenizer that lacks [MASK].
        """
        if not 0 < rate < 1:
            raise ValueError(f"data.mask_rate={rate} must lie between 0 and 1")
        ids = special(tokenizer)
        text = np.setdiff1d(np.arange(tokenizer.get_vocab_size()), [i for i in ids if i is not None])
        mask = framing(tokenizer).mask if needed else ids.mask
        return cls(mask, text, max(1, round(rate * length)))

    @classmethod
    def of_values(cls, count: int, rate: float, length: int) -> "Masks":
        """Returns masks for rows of values without special tokens.

        Args:
          count: number of different values, from 0 to count - 1.
          rate: share of the values that are chosen, between 0 and 1.
          length: number of values in a row.
        """
        return cls(None, np.arange(count), max(1, round(rate * length)))

    def choose(
        self, tokens: np.ndarray, rng: np.random.Generator, rate: float | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Masks tokens in place.

        Args:
          tokens: token ids (b, t), which are changed.
          rng: generator of random numbers.
          rate: share of the tokens of each row that is chosen, for rows of different lengths; default None:
            `number` tokens.
        Returns: the places (b, p) in increasing order; their original tokens (b, p); and whether each was
          chosen (b, p), since short rows have fewer tokens.
        """
        lot = rng.random(tokens.shape)
        lot[np.isin(tokens, self.text, invert=True)] = np.inf
        if rate is not None:
            most = np.maximum(np.round(rate * np.isfinite(lot).sum(axis=1)), 1)
            lot[lot.argsort(axis=1).argsort(axis=1) >= most[:, None]] = np.inf
        places = np.sort(np.argsort(lot, axis=1)[:, : self.number], axis=1)
        real = np.isfinite(np.take_along_axis(lot, places, 1))
        label = np.take_along_axis(tokens, places, 1)
        kind, other = rng.random(places.shape), rng.choice(self.text, places.shape)
        hidden = other if self.mask is None else self.mask
        new = np.where(kind < MASKED, hidden, np.where(kind < MASKED + RANDOM, other, label))
        np.put_along_axis(tokens, places, np.where(real, new, label).astype(np.int32), 1)
        return places.astype(np.int32), label, real


class Framing(NamedTuple):
    """Holds the ids of the special tokens in masked windows.

    Args:
      cls, sep, mask, end: ids of [CLS], [SEP], [MASK] and </s>.
    """

    cls: int
    sep: int
    mask: int
    end: int


def framing(tokenizer: Any) -> Framing:
    """Returns the special ids of a tokenizer. Raises: ValueError if it lacks any of them."""
    ids = special(tokenizer)
    if ids.cls is None or ids.sep is None or ids.mask is None or ids.end is None:
        raise ValueError(
            "masking needs a tokenizer with [CLS], [SEP], [MASK] and </s>; use data.tokenizer='bpe'"
        )
    return Framing(ids.cls, ids.sep, ids.mask, ids.end)


class MaskedTokenBatches(Windows):
    """Makes batches of a masked language model, `batches[step]`, each a function of (seed, step).

    The documents of a split, with </s> after each, are concatenated and cut into windows of t - 2 tokens. The
    remainder is dropped, so that rows have no padding. A row is [CLS] window [SEP].

    The masks of window w in epoch e are drawn from (seed, e, w). In evaluation they are drawn from
    (mask_seed, 0, w), so that they are the same for every network, batch size and epoch.

    A batch is a dict:

        inputs (b, t)              token ids with masks
        answer_positions (b, p)    places of the chosen tokens
        label (b, p)               their original tokens; `IGNORED` if a window has fewer
        weight (b,)                1, or 0 for copies that fill up the batch
        index (b,)                 index of the window

    Args:
      documents, tokenizer, length, batch, rate, most: see `MaskedBatches`.
      mask_seed: seed of the masks in evaluation.
      order: `seed` and `epochs` of `Windows`.
    Raises: ValueError for a tokenizer without these special tokens, and for less text than one window.
    """

    def __init__(
        self,
        documents: Sequence[np.ndarray],
        tokenizer: Any,
        *,
        length: int,
        batch: int,
        rate: float,
        mask_seed: int,
        most: int = 0,
        **order: Any,
    ):
        ids, self.masks = framing(tokenizer), Masks.of(tokenizer, rate, length - 2)
        check_length(documents, length, special=2)
        rows = pack(documents, ids.end, length - 2)[: most or None]
        rows = np.pad(rows, ((0, 0), (1, 1)))
        rows[:, 0], rows[:, -1] = ids.cls, ids.sep
        super().__init__(rows, np.zeros(len(rows), np.int32), batch=batch, **order)
        self.mask_seed = mask_seed if self.seed is None else self.seed

    def __getitem__(self, index: int) -> Batch:
        members, weight = self.members(int(index))
        epoch, tokens, chosen = int(index) // self.steps_per_epoch, self.rows[members], []
        for row, member in zip(tokens, members, strict=True):
            rng = np.random.default_rng((self.mask_seed, 1, epoch, int(member)))
            chosen.append(self.masks.choose(row[None], rng))
        places, label, real = (np.concatenate(arrays) for arrays in zip(*chosen, strict=True))
        return {
            "inputs": tokens,
            "answer_positions": places,
            "label": np.where(real, label, IGNORED).astype(np.int32),
            "weight": weight,
            "index": members,
        }


class MaskedBatches(Windows):
    """Makes batches for pretraining, `batches[step]`, each a function of (seed, step).

    The documents of a split, with an end token after each, are concatenated and cut into windows of
    length - 3 tokens, so that rows have no padding. A window is cut into two segments, A and B, at a random
    place in its middle half, and half of the windows are swapped (label 1):

        [CLS] A [SEP] B [SEP]        or        [CLS] B [SEP] A [SEP]

    The cut is not at the end of a sentence. Windows begin and end anywhere, so the token before the first
    [SEP] would otherwise reveal the order.

    A share `rate` of the tokens is then masked, see `Masks`. Cuts, order and masks are drawn for each epoch
    and do not change in evaluation.

    A batch is a dict as in `Batches`, without `mask`, and with label 1 for swapped windows. It also has
    answer_positions (b, p), the places of the chosen tokens; mlm_labels (b, p), their original tokens; and
    mlm_weights (b, p), 1, or 0 if no token was chosen.

    Args:
      documents: token ids of each document.
      tokenizer: the tokenizer of these ids, with [CLS], [SEP], [MASK] and </s>.
      length: number of tokens t of a row, at least 8.
      batch: number of rows b of a batch.
      rate: share of the tokens that are chosen; $p = round(rate (t - 3))$, at least 1.
      most: use only the first windows; default 0: all.
      order: `seed` and `epochs` of `Windows`; the seed is also that of cuts and masks.
    Raises: ValueError for a tokenizer without these special tokens, and for less text than one window.
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
        most: int = 0,
        **order: Any,
    ):
        if length < 8:
            raise ValueError(
                f"data.length={length} must be at least 8 for two segments and their special tokens"
            )
        ids, self.masks = framing(tokenizer), Masks.of(tokenizer, rate, length - 3)
        self.cls, self.sep = ids.cls, ids.sep
        check_length(documents, length, special=3)
        rows = pack(documents, ids.end, length - 3)[: most or None]
        super().__init__(rows, np.zeros(len(rows), np.int32), batch=batch, **order)

    def __getitem__(self, index: int) -> Batch:
        members, weight = self.members(int(index))
        rng = np.random.default_rng((0 if self.seed is None else self.seed, 1, int(index)))
        tokens, label = self.segments(self.rows[members], rng)
        segment = types(tokens, np.ones(tokens.shape, bool), self.sep)
        places, found, real = self.masks.choose(tokens, rng)
        return {
            "inputs": tokens,
            "types": segment,
            "label": label,
            "weight": weight,
            "index": members,
            "answer_positions": places,
            "mlm_labels": found,
            "mlm_weights": (real & (weight[:, None] > 0)).astype(np.float32),
        }

    def segments(self, windows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Returns rows with special tokens (b, t), and 1 for rows whose segments were swapped (b,).

        Args:
          windows: tokens (b, t - 3).
          rng: generator of random numbers.
        """
        b, n = windows.shape
        cut = rng.integers(max(1, n // 4), max(2, n - n // 4), b)
        swapped = rng.random(b) < 0.5
        tokens = np.empty((b, n + 3), np.int32)
        for row, window, at, swap in zip(tokens, windows, cut, swapped, strict=True):
            first, second = (window[at:], window[:at]) if swap else (window[:at], window[at:])
            row[:] = [self.cls, *first, self.sep, *second, self.sep]
        return tokens, swapped.astype(np.int32)
