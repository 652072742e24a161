"""Recall: pairs of keys and values, and keys whose values are asked.

Keys are the tokens 1 ... V/2 - 1, values V/2 ... V - 1 (with an odd V the middle is rounded down).
"""

import numpy as np

from fourier_attn.data.skills.questions import Knobs, Questions, distinct, empty


def recall(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Draws multi-query associative recall: D pairs k v k v ..., then each key once as a question.

    Keys, and values, are different from each other. Questions are on every second place behind the pairs, at
    gaps x = 1, 2, ... drawn without replacement with p(x) ~ x^(a - 1); the label is the key's value.

    Source: Arora et al., Zoology, arXiv 2312.04927.
    """
    half, d = knobs.vocab // 2, knobs.pairs
    inputs, labels = empty(batch, knobs.length)
    keys, values = distinct(rng, batch, d, 1, half), distinct(rng, batch, d, half, knobs.vocab)
    inputs[:, : 2 * d : 2], inputs[:, 1 : 2 * d : 2] = keys, values
    gaps = np.arange(1, (knobs.length - 2 * d) // 2 + 1)
    # The largest of log p + Gumbel noise are a draw without replacement, in its order.
    scores = (knobs.power - 1) * np.log(gaps) + rng.gumbel(size=(batch, len(gaps)))
    places = 2 * d + 2 * np.argsort(-scores, axis=1)[:, :d]
    np.put_along_axis(inputs, places, keys, axis=1)
    np.put_along_axis(labels, places, values, axis=1)
    return Questions(inputs, labels)


def noisy_recall(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Draws recall with noise between pairs and questions, each a step of two places.

    A share `noise` of the N/2 steps, rounded, has two tokens of noise, V/2 ... V - 1. On the other steps is
    recall of the lower half of the vocabulary, in its order.

    Source: Poli et al., MAD, arXiv 2403.17844.
    """
    steps, half = knobs.length // 2, knobs.vocab // 2
    real = steps - round(knobs.noise * steps)
    clean = recall(rng, batch, knobs._replace(vocab=half, length=2 * real))
    where = np.sort(distinct(rng, batch, real, 0, steps), axis=1)[..., None]
    inputs = rng.integers(half, knobs.vocab, (batch, steps, 2), np.int32)
    labels = empty(batch, 2 * steps).labels.reshape(batch, steps, 2)
    np.put_along_axis(inputs, where, clean.inputs.reshape(batch, real, 2), axis=1)
    np.put_along_axis(labels, where, clean.labels.reshape(batch, real, 2), axis=1)
    whole = empty(batch, knobs.length)
    whole.inputs[:, : 2 * steps], whole.labels[:, : 2 * steps] = (
        part.reshape(batch, -1) for part in (inputs, labels)
    )
    return whole


def fuzzy_recall(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Draws recall with keys and values of 1 to `longest` tokens: D pairs, then all keys in another order.

    Keys are different as a whole, and share tokens. The labels of a value begin at the last token of the key
    that is asked; behind it are as many blank places as the value has tokens.

    Source: Poli et al., MAD, arXiv 2403.17844.
    """
    questions = empty(batch, knobs.length)
    for inputs, labels in zip(*questions, strict=True):
        _fuzzy(rng, knobs, inputs, labels)
    return questions


def _fuzzy(rng: np.random.Generator, knobs: Knobs, inputs: np.ndarray, labels: np.ndarray) -> None:
    """Fills one sequence."""
    half, pairs = knobs.vocab // 2, {}
    while len(pairs) < knobs.pairs:
        key, value = (
            rng.integers(first, stop, rng.integers(1, knobs.longest + 1)).tolist()
            for first, stop in ((1, half), (half, knobs.vocab))
        )
        pairs.setdefault(tuple(key), value)
    shown = [token for key, value in pairs.items() for token in (*key, *value)]
    inputs[: len(shown)], end = shown, len(shown)
    for number in rng.permutation(knobs.pairs):
        key, value = list(pairs.items())[number]
        inputs[end : end + len(key)] = key
        last = end + len(key) - 1
        labels[last : last + len(value)] = value
        end = last + 1 + len(value)


def memorise(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Draws keys on every second place, and asks at each for its value in a map that is always the same.

    Nothing in a sequence says the value: it is learned from other sequences. No mixing is needed.

    Source: Poli et al., MAD, arXiv 2403.17844.
    """
    half = knobs.vocab // 2
    values = np.random.default_rng(0).integers(half, knobs.vocab, half, np.int32)  # of each key
    inputs, labels = empty(batch, knobs.length)
    keys = rng.integers(1, half, inputs[:, :-1:2].shape, np.int32)
    inputs[:, :-1:2], labels[:, :-1:2] = keys, values[keys]
    return Questions(inputs, labels)
