"""Questions about sequences of tokens: what is drawn, and what it is drawn from."""

from typing import NamedTuple

import numpy as np

from fourier_attn.data.batches import IGNORED as IGNORED

BLANK, MARK = 0, 1  # tokens that say nothing, and "now"


class Knobs(NamedTuple):
    """Holds the options of a task; each uses some of them.

    Args:
      vocab: number of different tokens V.
      length: tokens of a sequence N.
      pairs: keys with a value D.
      power: a in the probability of a query's gap, p(x) ~ x^(a - 1); small: near the pairs.
      longest: most tokens of a key and of a value.
      noise: share of the sequence that is noise.
      copied: tokens that are to be copied.
      causal: whether an answer follows its question in the input.
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
    """Holds sequences (b, t) of tokens, and labels (b, t): the answer where one is asked, else `IGNORED`."""

    inputs: np.ndarray
    labels: np.ndarray


def empty(batch: int, length: int) -> Questions:
    """Returns blank sequences without a question."""
    shape = (batch, length)
    return Questions(np.full(shape, BLANK, np.int32), np.full(shape, IGNORED, np.int32))


def answered(questions: Questions) -> Questions:
    """Writes each answer behind its place, inputs[i + 1] = labels[i]: the next token, for causal mixers."""
    inputs, here = questions.inputs.copy(), questions.labels[:, :-1]
    inputs[:, 1:] = np.where(here == IGNORED, inputs[:, 1:], here)
    return Questions(inputs, questions.labels)


def gathered(labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns positions (b, p) and labels (b, p) of p = `count` places of each row, those asked first."""
    positions = np.argsort(labels == IGNORED, axis=1, kind="stable")[:, :count]
    return positions.astype(np.int32), np.take_along_axis(labels, positions, axis=1)


def distinct(rng: np.random.Generator, batch: int, count: int, first: int, stop: int) -> np.ndarray:
    """Draws rows (b, count) of different numbers from `first` to `stop` - 1, in any order."""
    return first + np.argsort(rng.random((batch, stop - first)), axis=1)[:, :count].astype(np.int32)
