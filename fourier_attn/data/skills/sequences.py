"""Generates tasks of copying, compressing, continuing and sorting sequences of random tokens."""

import numpy as np

from fourier_attn.data.skills.questions import MARK, Knobs, Questions, distinct, empty


def selective_copy(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Generates n = `copied` tokens among blanks; they are the answers, in order, on the last n places.

    The tokens are from 2 ... V - 1 at random places. The last n places have the token `MARK`.

    Args:
      rng: generator of random numbers.
      batch: number of sequences.
      knobs: options `vocab`, `length` and `copied`.
    Source: Poli et al., MAD, arXiv 2403.17844; Gu and Dao, Mamba, arXiv 2312.00752.
    """
    n = knobs.copied
    inputs, labels = empty(batch, knobs.length)
    tokens = rng.integers(2, knobs.vocab, (batch, n), np.int32)
    places = np.sort(distinct(rng, batch, n, 0, knobs.length - n), axis=1)
    np.put_along_axis(inputs, places, tokens, axis=1)
    inputs[:, -n:], labels[:, -n:] = MARK, tokens
    return Questions(inputs, labels)


def compress(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Generates random tokens 1 ... V - 1; a head that sees only the last place predicts all of them.

    Args:
      rng: generator of random numbers.
      batch: number of sequences.
      knobs: options `vocab` and `length`.
    Source: Poli et al., MAD, arXiv 2403.17844.
    """
    inputs = rng.integers(1, knobs.vocab, (batch, knobs.length), np.int32)
    return Questions(inputs, inputs.copy())


def induction(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Generates random tokens 2 ... V - 1; the answer is the token after the first `MARK`.

    `MARK` is at one of the places 0 ... N - 3, and at the last place, which has the answer.

    Args:
      rng: generator of random numbers.
      batch: number of sequences.
      knobs: options `vocab` and `length`.
    Source: Olsson et al., arXiv 2209.11895; in the form of Fu et al., H3, arXiv 2212.14052.
    """
    n, rows = knobs.length, np.arange(batch)
    inputs = rng.integers(2, knobs.vocab, (batch, n), np.int32)
    place, labels = rng.integers(0, n - 2, batch), empty(batch, n).labels
    inputs[rows, place] = inputs[:, -1] = MARK
    labels[:, -1] = inputs[rows, place + 1]
    return Questions(inputs, labels)


def sort(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Generates N // 2 random tokens 2 ... V - 1; the answers are the sorted tokens, on N // 2 places `MARK`.

    This is a control task: the answers depend only on the frequency of each token, not on its place.

    Args:
      rng: generator of random numbers.
      batch: number of sequences.
      knobs: options `vocab` and `length`.
    """
    n = knobs.length // 2
    inputs, labels = empty(batch, knobs.length)
    inputs[:, :n] = rng.integers(2, knobs.vocab, (batch, n), np.int32)
    inputs[:, n : 2 * n], labels[:, n : 2 * n] = MARK, np.sort(inputs[:, :n], axis=1)
    return Questions(inputs, labels)
