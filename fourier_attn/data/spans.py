"""Makes batches of questions with windows of their contexts; an answer is a span of tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.data.batches import Batches
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tables.squad import Question
from fourier_attn.data.text import special
from fourier_attn.data.text.places import located, table_of
from fourier_attn.inference.classify import context_windows, share_cut

CHUNK = 2048  # number of questions that are encoded together


class Asked(NamedTuple):
    """Holds a question and its windows.

    Args:
      question: the question, its context and its answers.
      offsets: characters (begin, end) of each token of the context.
      begins: index of the first token of the context in each window.
      counts: number of tokens of the context in each window.
      unknown: share of unknown tokens.
      cut: share of the question that was cut.
    """

    question: Question
    offsets: Sequence[tuple[int, int]]
    begins: list[int]
    counts: list[int]
    unknown: float
    cut: float


class SpanBatches(Batches):
    """Makes batches of windows, [CLS] question [SEP] window [SEP], see `Batches`.

    A batch also has:

        answer_positions (b, p)    places of [CLS] and of the context's tokens
        places (b,)                number of these places; the rest of a row is ignored
        label (b, 2)               first and last token of the answer among the places; 0, 0 without answer

    Args:
      asked: the questions, in the order of their windows.
      rows: token ids of each window.
      labels: (n, 2), as in a batch.
      positions: for each window the places of [CLS] and of the context's tokens.
      options: further arguments of `Batches`.
    """

    def __init__(
        self,
        asked: Sequence[Asked],
        rows: Sequence[np.ndarray],
        labels: np.ndarray,
        positions: Any,
        **options: Any,
    ):
        self.asked = asked
        counts = [1 + count for each in asked for count in each.counts]
        width = 1 << (max(counts) - 1).bit_length()  # a power of two: few programs to compile
        more = {"answer_positions": table_of(positions, width, 0), "places": np.array(counts, np.int32)}
        super().__init__(rows, labels, more=more, **options)


def span_batches(
    config: DataConfig, tokenizer: Any, questions: Sequence[Question], lengths: Sequence[int], **options: Any
) -> SpanBatches:
    """Returns questions as batches of windows; the label is the first answer of each question.

    Args:
      config: the `data` part of the configuration.
      tokenizer: the tokenizer.
      questions: the questions with their contexts.
      lengths: padded lengths of rows, in increasing order.
      options: `batch`, `seed` and `epochs` of `Batches`.
    """
    ids, asked, rows, positions, labels = special(tokenizer), [], [], [], []
    for i in range(0, len(questions), CHUNK):
        part = questions[i : i + CHUNK]
        texts = {text: None for each in part for text in (each.question, each.context)}
        known = dict(zip(texts, located(tokenizer, [*texts]), strict=True))
        for each in part:
            question, context = known[each.question], known[each.context]
            windows = context_windows(
                question.ids, context.ids, config.length, config.stride, ids.cls, ids.sep
            )
            begins, counts = [begin for _, begin, _ in windows], [count for *_, count in windows]
            first, last = _tokens(each, context.offsets)
            for row, begin, count in windows:
                head = len(row) - 1 - count
                rows.append(np.asarray(row, np.int32))
                positions.append(np.array([0, *range(head, head + count)], np.int32))
                inside = begin <= first and last < begin + count and first <= last
                labels.append((first - begin + 1, last - begin + 1) if inside else (0, 0))
            tokens = [*question.ids, *context.ids]
            unknown = round(tokens.count(ids.unknown) / max(len(tokens), 1), 4)
            asked.append(
                Asked(
                    each,
                    context.offsets,
                    begins,
                    counts,
                    unknown,
                    share_cut(len(question.ids), (config.length - 3) // 2),
                )
            )
    options |= {"buckets": lengths, "pad": ids.pad, "sep": ids.sep}
    return SpanBatches(asked, rows, np.array(labels, np.int32), positions, **options)


def _tokens(question: Question, offsets: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Returns the first and the last token of the first answer; (-1, -1) without an answer."""
    if not question.answers or not offsets:
        return -1, -1
    text, start = question.answers[0]
    begins, ends = np.array(offsets, np.int64).T
    return (
        int(np.searchsorted(ends, start, side="right")),
        int(np.searchsorted(begins, start + len(text), side="left")) - 1,
    )
