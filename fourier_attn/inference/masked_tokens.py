"""Predicts the tokens at each [MASK] of a text."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fourier_attn.data.batches import Batch, Batches
from fourier_attn.data.text import special

BEST = 5  # number of tokens returned for each [MASK]
Answer = dict[str, Any]


def answers(tokenizer: Any, batches: Batches, evaluate: Callable[[Batch], np.ndarray]) -> list[Answer]:
    """Returns the answer to each text, a dict with `masks`: the likeliest tokens for each [MASK].

    Each of these tokens is a dict with `token` and `probability`.

    Args:
      tokenizer: the run's tokenizer.
      batches: the texts.
      evaluate: returns the probabilities (b, p, vocab) of the tokens at a batch's `answer_positions` (b, p).
    Raises: ValueError for a text without [MASK].
    """
    mask, found = special(tokenizer).mask, {}
    for number, row in enumerate(batches.rows):
        check(tokenizer, row, f"text {number + 1}")
    for i in range(len(batches)):
        batch = batches[i]
        places = [np.flatnonzero(row == mask) for row in batch["inputs"]]
        width = 1 << (max(map(len, places)) - 1).bit_length()  # a power of two: few programs to compile
        positions = np.stack([np.resize(place, width) for place in places]).astype(np.int32)
        probability = evaluate(batch | {"answer_positions": positions})
        for row in np.flatnonzero(batch["weight"]):
            best = [likeliest(tokenizer, values) for values in probability[row][: len(places[row])]]
            found[int(batch["index"][row])] = {"masks": best}
    return [found[number] for number in sorted(found)]


def check(tokenizer: Any, row: np.ndarray, name: str) -> None:
    """Checks that the tokens of a text contain [MASK].

    Args:
      tokenizer: the run's tokenizer.
      row: token ids (t,).
      name: the text in the message, for example "text 1".
    Raises: ValueError.
    """
    if special(tokenizer).mask not in row:
        raise ValueError(
            f"{name} has no [MASK] among its first {len(row)} tokens; write [MASK] for a token to predict"
        )


def likeliest(tokenizer: Any, probability: np.ndarray) -> list[Answer]:
    """Returns the likeliest tokens, the first the likeliest, by the `probability` (vocab,) of each token."""
    order = np.argsort(-probability, kind="stable")[:BEST].tolist()
    return [{"token": tokenizer.id_to_token(i), "probability": float(probability[i])} for i in order]
