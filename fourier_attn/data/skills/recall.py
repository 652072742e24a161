"""Generates recall tasks: pairs of keys and values, then keys for which the network predicts the values.

Keys are the tokens 1 ... V/2 - 1, values are V/2 ... V - 1 (for an odd V the middle is rounded down).
All generators take `rng`, the generator of random numbers; `batch`, the number of sequences; and `knobs`, the
options.
"""

import numpy as np

from fourier_attn.data.skills.questions import Knobs, Questions, distinct, empty


def recall(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Generates multi-query associative recall: D pairs k v k v ..., then each key once as a question.

    All keys are different, and all values are different. Questions are on every second place after the pairs,
    at gaps x = 1, 2, ... drawn without replacement with $p(x) ~ x^(a - 1)$. The label is the key's value.

    Args:
      rng: generator of random numbers.
      batch: number of sequences.
      knobs: options `vocab`, `length`, `pairs` and `power`.
    Source: Arora et al., Zoology, arXiv 2312.04927.
    """
    half, d = knobs.vocab // 2, knobs.pairs
    inputs, labels = empty(batch, knobs.length)
    keys, values = distinct(rng, batch, d, 1, half), distinct(rng, batch, d, half, knobs.vocab)
    inputs[:, : 2 * d : 2], inputs[:, 1 : 2 * d : 2] = keys, values
    gaps = np.arange(1, (knobs.length - 2 * d) // 2 + 1)
    # The order of log p + Gumbel noise is a sample without replacement.
    scores = (knobs.power - 1) * np.log(gaps) + rng.gumbel(size=(batch, len(gaps)))
    places = 2 * d + 2 * np.argsort(-scores, axis=1)[:, :d]
    np.put_along_axis(inputs, places, keys, axis=1)
    np.put_along_axis(labels, places, values, axis=1)
    return Questions(inputs, labels)


def noisy_recall(rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Generates recall with noise between pairs and questions, in steps of two places.

    The share `noise` of the N/2 steps, rounded, has two noise tokens from V/2 ... V - 1. The other steps have
    a sequence of `recall` with the lower half of the vocabulary.

    Args:
      rng: generator of random numbers.
      batch: number of sequences.
      knobs: options of `recall`, and `noise`.
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
    """Generates recall with keys and values of several tokens: D pairs, then all keys in another order.

    Keys and values have 1 to `longest` tokens. All keys are different, but they may share tokens. The labels
    of a value begin at the last token of its key, and as many blank places as the value has tokens follow.

    Args:
      rng: generator of random numbers.
      batch: number of sequences.
      knobs: options `vocab`, `length`, `pairs` and `longest`.
    Source: Poli et al., MAD, arXiv 2403.17844.
    """
    questions = empty(batch, knobs.length)
    for inputs, labels in zip(*questions, strict=True):
        _fuzzy(rng, knobs, inputs, labels)
    return questions


def _fuzzy(rng: np.random.Generator, knobs: Knobs, inputs: np.ndarray, labels: np.ndarray) -> None:
    """Fills one sequence in place.

    Args:
      rng: generator of random numbers.
      knobs: options of the task.
      inputs, labels: one row of each (t,), which are changed.
    """
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
    """Generates keys on every second place; each key has a fixed value that is the same in all sequences.

    A sequence does not contain the values, so they are learned from other sequences, and no mixing is needed.

    Args:
      rng: generator of random numbers.
      batch: number of sequences.
      knobs: options `vocab` and `length`.
    Source: Poli et al., MAD, arXiv 2403.17844.
    """
    half = knobs.vocab // 2
    values = np.random.default_rng(0).integers(half, knobs.vocab, half, np.int32)  # the value of each key
    inputs, labels = empty(batch, knobs.length)
    keys = rng.integers(1, half, inputs[:, :-1:2].shape, np.int32)
    inputs[:, :-1:2], labels[:, :-1:2] = keys, values[keys]
    return Questions(inputs, labels)
