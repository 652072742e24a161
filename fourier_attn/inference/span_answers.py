"""Predicts answers to questions as spans of their contexts."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn import data, paths
from fourier_attn.config import Config
from fourier_attn.data.spans import SpanBatches, span_batches
from fourier_attn.data.tables import files, formats
from fourier_attn.data.tables.inputs import Input
from fourier_attn.data.tables.squad import Question, read_file
from fourier_attn.train import span_scores

Answer = dict[str, Any]


def answers(
    config: Config,
    tokenizer: Any,
    texts: Sequence[tuple[str, str]],
    batch: int,
    evaluate: Callable[[SpanBatches], np.ndarray],
) -> list[Answer]:
    """Returns the answer to each pair of a question and its context.

    An answer is a dict: `text`, copied from the context ("" if the network finds no answer), its characters
    from `start` up to `end`, and its `probability`, see `classify.answer_of`. `windows` is the number of
    windows of the context, `cut` the share of the question that was not read, and `unknown` the share of
    unknown tokens.

    Args:
      config: configuration of the run.
      tokenizer: its tokenizer.
      texts: pairs of a question and its context.
      batch: number of rows per forward pass.
      evaluate: returns the logits (.., n, p, 2) of batches: of n windows, their p tokens, begin and end.
    """
    questions = [Question("", "", *pair, ()) for pair in texts]
    lengths = data.padded_lengths(config.data)
    batches = span_batches(config.data, tokenizer, questions, lengths, batch=batch)
    found = span_scores.found(config, batches, evaluate(batches))
    return [
        answer | {"windows": len(asked.begins), "unknown": asked.unknown, "cut": round(asked.cut, 4)}
        for answer, asked in zip(found, batches.asked, strict=True)
    ]


def is_squad(source: str) -> bool:
    """Returns whether a file's name ends with .json (and perhaps .gz), which means JSON in SQuAD's form."""
    path = Path(source)
    return files.ending(path.with_suffix("") if files.ending(path) in formats.PACKED else path) == ".json"


def read_squad(source: str) -> Iterator[Input]:
    """Yields the questions of a file in SQuAD's form, with their contexts and correct answers."""
    for number, each in enumerate(read_file(paths.given(source), answered=False), start=1):
        values: dict[str, Any] = {"text": each.question, "text_pair": each.context, "id": each.name}
        if each.known:
            values["label"] = each.texts()
        yield Input(number, each.where, values)
