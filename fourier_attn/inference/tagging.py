"""Predicts the tags of words, and the entities that they mark."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fourier_attn import data
from fourier_attn.config import Config
from fourier_attn.data.batches import IGNORED, Batches
from fourier_attn.data.tables.sentences import marks_entities
from fourier_attn.data.text import special, unknown_share
from fourier_attn.data.text.places import encode_words, table_of
from fourier_attn.inference.classify import entities

Answer = dict[str, Any]
Evaluate = Callable[[Batches], np.ndarray]


def answers(
    config: Config, tokenizer: Any, sentences: Sequence[Any], batch: int, evaluate: Evaluate
) -> list[Answer]:
    """Returns the answer to each sentence, a dict with `words`, `entities`, `cut` and `unknown`.

    `words` has each word with its tag and the tag's probability. `entities` exists if the tags mark entities:
    each has its type, the text of its words, the indices of the first and the last word from 0, and the
    smallest probability of their tags. Words that are cut off at `data.length` have no tag. `cut` is their
    share, and `unknown` the share of unknown tokens.

    Args:
      config: configuration of the run.
      tokenizer: its tokenizer.
      sentences: texts, split at white space, or lists of words.
      batch: number of rows per forward pass.
      evaluate: returns the class probabilities (n, p, c) of batches.
    Raises: ValueError for an argument that is not a sentence.
    """
    words = [words_of(sentence) for sentence in sentences]
    rows, places = encode_words(tokenizer, words, config.data.length)
    width = 1 << (max(1, *map(len, places)) - 1).bit_length()  # a power of two: few programs to compile
    ids, labels = special(tokenizer), np.full((len(rows), width), IGNORED, np.int32)
    batches = Batches(
        rows,
        labels,
        buckets=data.padded_lengths(config.data),
        batch=batch,
        pad=ids.pad,
        sep=ids.sep,
        more={"answer_positions": table_of(places, width, 0)},
    )
    found, names = evaluate(batches), data.task_of(config.data).labels
    result = []
    for each, row, place, probabilities in zip(words, rows, places, found, strict=True):
        answer = _answer(each, probabilities[: len(place)], names)
        result.append(answer | {"unknown": unknown_share(row, ids)})
    return result


def lines(answer: Answer) -> list[tuple[str, float]]:
    """Returns lines for each word with its tag and each entity with its type, and their probabilities."""
    words = [(f"{word['word']} {word['tag']}", word["probability"]) for word in answer["words"]]
    found = [(f"{each['type']}: {each['text']}", each["probability"]) for each in answer.get("entities", ())]
    return words + found


def check(name: str, sentence: Any) -> None:
    """Checks that the sentence in the argument `name` has words. Raises: ValueError."""
    words_of(sentence, name)


def words_of(sentence: Any, name: str = "text") -> list[str]:
    """Returns the words of a text or a list. Raises: ValueError without words."""
    words = sentence.split() if isinstance(sentence, str) else sentence
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{name}={sentence!r:.60} is neither a text nor a list of words; give one of them")
    if not any(word.strip() for word in words):
        raise ValueError(f"{name}={sentence!r:.60} has no words; give at least one")
    if any("\ud800" <= letter <= "\udfff" for word in words if not word.isascii() for letter in word):
        raise ValueError(f"{name}={sentence!r:.60} is not UTF-8; give a text in this encoding")
    return list(words)


def _answer(words: list[str], probabilities: np.ndarray, names: Sequence[str]) -> Answer:
    """Returns the answer to one sentence.

    Args:
      words: all words of the sentence.
      probabilities: class probabilities (p, c) of the first p words.
      names: names of the c classes.
    """
    best = [(names[row.argmax()], float(row.max())) for row in probabilities]
    answer: Answer = {
        "words": [
            {"word": word, "tag": tag, "probability": probability}
            for word, (tag, probability) in zip(words, best, strict=False)
        ]
    }
    if marks_entities(names):
        answer["entities"] = [
            {
                "type": kind,
                "text": " ".join(words[first : last + 1]),
                "first": first,
                "last": last,
                "probability": min(probability for _, probability in best[first : last + 1]),
            }
            for kind, first, last in entities([tag for tag, _ in best])
        ]
    return answer | {"cut": round(1 - len(best) / len(words), 4)}
