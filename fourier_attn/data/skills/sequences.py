"""Copying, compressing, continuing and sorting sequences of random tokens."""

import numpy as np

from fourier_attn.data.skills.questions import MARK, Knobs, Questions, distinct, empty


def selective_copy(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Draws n = `copied` tokens among blanks, and asks for them in their order on the last n places.

    The tokens are from 2 ... V - 1, on random places before these; the last n places show `MARK`.

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
    """Draws random tokens 1 ... V - 1, and asks for each, of a head that sees the last place alone.

    Source: Poli et al., MAD, arXiv 2403.17844.
    """
    inputs = rng.integers(1, knobs.vocab, (batch, knobs.length), np.int32)
    return Questions(inputs, inputs.copy())


def induction(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Draws random tokens 2 ... V - 1 with `MARK` among them, and at the end: which token came after it?

    `MARK` is on one of the places 0 ... N - 3, and on the last one, where the question is.

    Source: Olsson et al., arXiv 2209.11895; as drawn for Fu et al., H3, arXiv 2212.14052.
    """
    n, rows = knobs.length, np.arange(batch)
    inputs = rng.integers(2, knobs.vocab, (batch, n), np.int32)
    place, labels = rng.integers(0, n - 2, batch), empty(batch, n).labels
    inputs[rows, place] = inputs[:, -1] = MARK
    labels[:, -1] = inputs[rows, place + 1]
    return Questions(inputs, labels)


def sort(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Draws N // 2 random tokens 2 ... V - 1, and asks for them in rising order on as many places of `MARK`.

    A control: the answers follow from how often each token occurs, whatever its place.
    """
    n = knobs.length // 2
    inputs, labels = empty(batch, knobs.length)
    inputs[:, :n] = rng.integers(2, knobs.vocab, (batch, n), np.int32)
    inputs[:, n : 2 * n], labels[:, n : 2 * n] = MARK, np.sort(inputs[:, :n], axis=1)
    return Questions(inputs, labels)
