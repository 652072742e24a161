"""Scores answers that are spans of a context with the metrics of SQuAD."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn import atomic
from fourier_attn.config import Config
from fourier_attn.data.spans import SpanBatches
from fourier_attn.inference.classify import answer_of, span_probabilities
from fourier_attn.train.rundir.metrics_log import strict_json

NAMES = ("answer_f1", "exact_match")
ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Returns a text in lower case, without punctuation and articles, and with single blanks."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> float:
    """Returns 1 if both texts are equal after normalisation, else 0."""
    return float(normalised(prediction) == normalised(answer))


def answer_f1(prediction: str, answer: str) -> float:
    """Returns F1 of the words of two normalised texts.

        F1 = 2 |common words| / (|words of prediction| + |words of answer|)

    It is 1 if both texts have no words, and 0 if only one has none.
    """
    ours, theirs = (normalised(text).split() for text in (prediction, answer))
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * (Counter(ours) & Counter(theirs)).total() / (len(ours) + len(theirs))


def best(score: Callable[[str, str], float], prediction: str, answers: Sequence[str]) -> float:
    """Returns the largest score of a prediction against the correct answers.

    Args:
      score: `answer_f1` or `exact_match`.
      prediction: the predicted answer.
      answers: the correct answers.
    """
    return max(score(prediction, answer) for answer in answers)


def scored(predictions: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns the mean F1 and the share of exact matches over all questions."""
    pairs = list(zip(predictions, answers, strict=True))
    return {
        score.__name__: float(np.mean([best(score, *pair) for pair in pairs]))
        for score in (answer_f1, exact_match)
    }


def found(config: Config, batches: SpanBatches, answers: np.ndarray) -> list[dict[str, Any]]:
    """Returns the answer to each question, see `classify.answer_of`, from the mean over networks.

    Args:
      config: configuration of the run.
      batches: windows of the questions.
      answers: logits (.., n, p, 2) of each window's tokens; several networks have a leading axis.
    """
    networks = answers.reshape(-1, *answers.shape[-3:])
    window, result = 0, []
    for asked in batches.asked:
        mean = []
        for count in asked.counts:
            each = [span_probabilities(network[window, : 1 + count]) for network in networks]
            mean.append(np.mean(each, axis=0))
            window += 1
        options = (config.data.answer_tokens, config.data.unanswerable)
        result.append(answer_of(asked.question.context, asked.offsets, mean, asked.begins, *options))
    return result


def write(path: Path, config: Config, batches: SpanBatches, answers: np.ndarray) -> None:
    """Writes one JSON line per question: index, id, correct answers, prediction and probability.

    Args:
      path: the file.
      config, batches, answers: see `found`.
    """
    with atomic.writing(path) as file:
        for index, (asked, answer) in enumerate(
            zip(batches.asked, found(config, batches, answers), strict=True)
        ):
            known = {"id": asked.question.name, "answers": asked.question.texts()}
            line = {"index": index, **known, "prediction": answer["text"]}
            line["probability"] = round(answer["probability"], 6)
            file.write(f"{strict_json(line)}\n".encode())


def measure(config: Config, batches: SpanBatches, answers: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the scores, each with one value per network.

    Args:
      config, batches, answers: see `found`.
    """
    answers = answers.reshape(-1, *answers.shape[-3:])
    right = [asked.question.texts() for asked in batches.asked]
    each = [
        scored([answer["text"] for answer in found(config, batches, network)], right) for network in answers
    ]
    return {name: np.array([values[name] for values in each]) for name in NAMES}
