"""Batches with masked tokens: windows of a masked language model, and pre-training with two segments."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.data.batches import Batch, types
from fourier_attn.data.skills import IGNORED
from fourier_attn.data.text import special
from fourier_attn.data.windows import Windows, check_length, pack

# shares of the chosen tokens that become [MASK], or a random token; the rest stays
MASKED, RANDOM = 0.8, 0.1


class Masks(NamedTuple):
    """Draws the tokens of rows that a network has to find.

    A share `rate` of the tokens is chosen, special ones excepted; of these 80 % become [MASK], 10 % a random
    token, 10 % stay.

    Args:
      mask: id of [MASK]; None: chosen tokens become random ones instead.
      text: ids of all tokens that are not special.
      number: tokens p that are chosen in a row.
    Source: Devlin et al., BERT, arXiv 1810.04805.
    """

    mask: int | None
    text: np.ndarray
    number: int

    @classmethod
    def of(cls, tokenizer: Any, rate: float, length: int, needed: bool = True) -> "Masks":
        """Returns the masks of rows with `length` tokens of text: round(rate length) of them, at least 1.

        Raises: ValueError for another rate than 0 to 1, and for a tokenizer without a [MASK] that is needed.
        """
        if not 0 < rate < 1:
            raise ValueError(f"data.mask_rate={rate} must lie between 0 and 1")
        ids = special(tokenizer)
        text = np.setdiff1d(np.arange(tokenizer.get_vocab_size()), [i for i in ids if i is not None])
        mask = framing(tokenizer).mask if needed else ids.mask
        return cls(mask, text, max(1, round(rate * length)))

    @classmethod
    def of_values(cls, count: int, rate: float, length: int) -> "Masks":
        """Returns the masks of rows with `length` values from 0 to count - 1, none of which is special."""
        return cls(None, np.arange(count), max(1, round(rate * length)))

    def choose(
        self, tokens: np.ndarray, rng: np.random.Generator, rate: float | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Masks `tokens` (b, t) in place.

        Args:
          rate: the share of the tokens of each row that is chosen, if rows differ in length.
        Returns: the places (b, p), rising; the tokens that were there (b, p); and whether each was chosen
          (b, p): a row may have fewer tokens of text.
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
    """Holds the ids of the special tokens that masked windows have."""

    cls: int
    sep: int
    mask: int
    end: int


def framing(tokenizer: Any) -> Framing:
    """Returns the special ids of a tokenizer. Raises: ValueError for one without them."""
    ids = special(tokenizer)
    if ids.cls is None or ids.sep is None or ids.mask is None or ids.end is None:
        raise ValueError(
            "masking needs a tokenizer with [CLS], [SEP], [MASK] and </s>; use data.tokenizer='bpe'"
        )
    return Framing(ids.cls, ids.sep, ids.mask, ids.end)


class MaskedTokenBatches(Windows):
    """Makes batches of a masked language model, `batches[step]`, each a function of (seed, step).

    The documents of a split, one after another with </s> after each, are cut into windows of t - 2 tokens;
    the remainder is dropped, so that nothing is padding. A row is [CLS] window [SEP]. The masks of window w
    in epoch e are drawn from (seed, e, w); in evaluation from (mask_seed, 0, w), so that they are the same
    for every network, batch size and epoch.

    A batch is a dict: inputs (b, t); answer_positions (b, p) of the chosen tokens; label (b, p), the tokens
    that were there, `IGNORED` where a window has fewer tokens of text; weight (b), 1 or 0; index (b).

    Args:
      documents, tokenizer, length, batch, rate, most: see `MaskedBatches`.
      mask_seed: of the masks in evaluation.
      seed, epochs: see `Windows`.
    Raises: ValueError for a tokenizer without these tokens, or less text than one window.
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
        """Returns tokens (b, t) with their special tokens, and whether A and B were swapped."""
        b, n = windows.shape
        cut = rng.integers(max(1, n // 4), max(2, n - n // 4), b)
        swapped = rng.random(b) < 0.5
        tokens = np.empty((b, n + 3), np.int32)
        for row, window, at, swap in zip(tokens, windows, cut, swapped, strict=True):
            first, second = (window[at:], window[:at]) if swap else (window[:at], window[at:])
            row[:] = [self.cls, *first, self.sep, *second, self.sep]
        return tokens, swapped.astype(np.int32)
