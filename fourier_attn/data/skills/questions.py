"""Holds sequences of tokens with their answers, and the options that they are generated from."""

from typing import NamedTuple

import numpy as np

from fourier_attn.data.batches import IGNORED as IGNORED

BLANK, MARK = 0, 1  # token without meaning; token that marks a place for an answer


class Knobs(NamedTuple):
    """Holds the options of synthetic tasks; each task uses some of them.

    Args:
      vocab: number of different tokens V.
      length: number of tokens N of a sequence.
      pairs: number of pairs D of a key and a value; default 4.
      power: a in the probability of a query's gap, $p(x) ~ x^(a - 1)$, default 0.01; small: short gaps.
      longest: largest number of tokens of a key and of a value; default 3.
      noise: share of noise tokens in a sequence; default 0.2.
      copied: number of tokens to copy; default 16.
      causal: whether each answer follows its question in the input; default False.
    """

    vocab: int
    length: int
    pairs: int = 4
    power: float = 0.01
    longest: int = 3
    noise: float = 0.2
    copied: int = 16
    causal: bool = False


class Questions(NamedTuple):
    """Holds generated sequences.

    Args:
      inputs: tokens (b, t).
      labels: answers (b, t); `IGNORED` at places without an answer.
    """

    inputs: np.ndarray
    labels: np.ndarray


def empty(batch: int, length: int) -> Questions:
    """Returns `batch` blank sequences of `length` tokens without answers."""
    shape = (batch, length)
    return Questions(np.full(shape, BLANK, np.int32), np.full(shape, IGNORED, np.int32))


def answered(questions: Questions) -> Questions:
    """Writes each answer as the next token, $inputs[i + 1] = labels[i]$, for causal mixers."""
    inputs, here = questions.inputs.copy(), questions.labels[:, :-1]
    inputs[:, 1:] = np.where(here == IGNORED, inputs[:, 1:], here)
    return Questions(inputs, questions.labels)


def gathered(labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns positions (b, p) and labels (b, p) of p = `count` places of each row, with answers first."""
    positions = np.argsort(labels == IGNORED, axis=1, kind="stable")[:, :count]
    return positions.astype(np.int32), np.take_along_axis(labels, positions, axis=1)


def distinct(rng: np.random.Generator, batch: int, count: int, first: int, stop: int) -> np.ndarray:
    """Returns rows of different random numbers (b, count).

    Args:
      rng: generator of random numbers.
      batch: number of rows b.
      count: number of columns, at most stop - first.
      first, stop: range of the numbers; `stop` is excluded.
    """
    return first + np.argsort(rng.random((batch, stop - first)), axis=1)[:, :count].astype(np.int32)
