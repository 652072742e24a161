"""Encodes texts, pairs of texts and questions as token ids."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.data.text.beginnings import ids_of


class Special(NamedTuple):
    """Holds the ids of special tokens; None for a token that the tokenizer lacks.

    Args:
      pad: padding.
      unknown: the unknown token.
      begin, end: <s> and </s>, begin and end of a document.
      cls, sep, mask: [CLS], [SEP] and [MASK].
    """

    pad: int
    unknown: int
    begin: int | None
    end: int | None
    cls: int | None
    sep: int | None
    mask: int | None


def special(tokenizer: Any) -> Special:
    """Returns the special ids of a tokenizer.

    Args:
      tokenizer: the tokenizer of a run.
    Raises: ValueError for a tokenizer without padding or unknown token.
    """

    def find(*names: str) -> int | None:
        ids = [tokenizer.token_to_id(name) for name in names]
        return next((i for i in ids if i is not None), None)

    pad, unknown = find("[PAD]", "<pad>"), find("[UNK]", "<unk>")
    if pad is None or unknown is None:
        raise ValueError("the tokenizer lacks the token '<pad>' or '<unk>'; use another tokenizer")
    return Special(pad, unknown, find("<s>"), find("</s>"), find("[CLS]"), find("[SEP]"), find("[MASK]"))


def encode(
    tokenizer: Any,
    texts: Sequence[str],
    length: int,
    text_pairs: Sequence[str] | None = None,
    masks: bool = False,
) -> list[np.ndarray]:
    """Returns the token ids of each text or pair of texts.

        [CLS] text [SEP]          or          [CLS] text [SEP] second [SEP]

    If the tokenizer lacks [CLS] and [SEP], a row is only the text, and a text without tokens becomes one
    unknown token. A long text is cut at its end; the longer text of a pair is cut first. Names of special
    tokens in a text are ordinary text, except "[MASK]" with `masks`.

    Args:
      tokenizer: the tokenizer.
      texts: n texts.
      length: largest number of tokens of a row, with special tokens.
      text_pairs: the second text of each pair; default None: single texts.
      masks: whether "[MASK]" in a text is the special token; default False.
    Raises: ValueError for pairs and a tokenizer without [SEP].
    """
    return encode_with_cut(tokenizer, texts, length, text_pairs, masks)[0]


def encode_with_cut(
    tokenizer: Any,
    texts: Sequence[str],
    length: int,
    text_pairs: Sequence[str] | None = None,
    masks: bool = False,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns token ids as `encode` does, and the share of tokens that was cut from each text or pair (n,).

    Args:
      tokenizer, texts, length, text_pairs, masks: see `encode`.
    """
    ids = special(tokenizer)
    first, counts = _ids(tokenizer, texts, masks, length)
    if ids.cls is None or ids.sep is None:
        if text_pairs is not None:
            raise ValueError("pairs of texts need a tokenizer with [SEP]; use data.tokenizer='bpe'")
        rows = [np.asarray(row[:length] or [ids.unknown], np.int32) for row in first]
        return rows, _cut(counts, length)
    if text_pairs is None:
        rows = [np.asarray([ids.cls, *row[: length - 2], ids.sep], np.int32) for row in first]
        return rows, _cut(counts, length - 2)
    second, others = _ids(tokenizer, text_pairs, masks, length)
    rows, room = [], length - 3
    for a, b in zip(first, second, strict=True):
        keep = max(room - len(b), min(len(a), (room + 1) // 2))  # the rest of the room, or half
        a = a[:keep]
        rows.append(np.asarray([ids.cls, *a, ids.sep, *b[: room - len(a)], ids.sep], np.int32))
    return rows, _cut([a + b for a, b in zip(counts, others, strict=True)], room)


def encode_windows(tokenizer: Any, texts: Sequence[str], length: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns the token ids of each text in windows, and the number of windows of each text (n,).

    A short text is one window, as in `encode`. The windows of a longer text are all full. Each one begins
    half a window after the previous one, and the last one ends with the text.

    Args:
      tokenizer: the tokenizer.
      texts: n texts.
      length: largest number of tokens of a window, with special tokens.
    """
    ids = special(tokenizer)
    framed = ids.cls is not None and ids.sep is not None
    room, rows, counts = length - 2 * framed, list[np.ndarray](), list[int]()
    step = max(room // 2, 1)
    for tokens in _ids(tokenizer, texts, False)[0]:
        last = max(len(tokens) - room, 0)
        starts = [*range(0, last, step), last]
        for start in starts:
            window = tokens[start : start + room]
            whole = [ids.cls, *window, ids.sep] if framed else window or [ids.unknown]
            rows.append(np.asarray(whole, np.int32))
        counts.append(len(starts))
    return rows, np.array(counts)


def _cut(tokens: Sequence[int], room: int) -> np.ndarray:
    """Returns the share of tokens that do not fit into `room`, for each text with this many tokens."""
    counts = np.asarray(tokens, np.float64)
    return np.maximum(counts - room, 0.0) / np.maximum(counts, 1.0)


def unknown_share(row: np.ndarray, ids: Special) -> float:
    """Returns the share of unknown tokens in a row, without [CLS] and [SEP].

    Args:
      row: the token ids of a text.
      ids: the ids of special tokens.
    """
    frame = np.isin(row, [i for i in (ids.cls, ids.sep) if i is not None])
    return round(float((row == ids.unknown).sum() / max(len(row) - frame.sum(), 1)), 4)


def encode_questions(tokenizer: Any, texts: Sequence[str], length: int) -> np.ndarray:
    """Returns the token ids of questions about images (n, length), filled with -1.

    Args:
      tokenizer: the tokenizer.
      texts: n questions.
      length: largest number of tokens.
    Raises: ValueError for a question without words or with too many.
    """
    rows = np.full((len(texts), length), -1, np.int32)
    for row, text, known in zip(rows, texts, ids_of(tokenizer, texts)[0], strict=True):
        if not 0 < len(known) <= length:
            raise ValueError(f"the question {text!r} has {len(known)} words; ask with 1 to {length}")
        row[: len(known)] = known
    return rows


def check_known(tokenizer: Any, text: str) -> None:
    """Checks that a tokenizer knows all words of a text.

    Args:
      tokenizer: the tokenizer of a run.
      text: a question.
    Raises: ValueError for a word that becomes the unknown token.
    """
    unknown = special(tokenizer).unknown
    if unknown in ids_of(tokenizer, [text])[0][0]:
        words = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
        asked = ", ".join(word for word in sorted(words) if word.isalpha())
        raise ValueError(f"the question {text!r} has a word that the task does not know; ask with {asked}")


def _ids(
    tokenizer: Any, texts: Sequence[str], masks: bool, most: int = 0
) -> tuple[list[list[int]], list[int]]:
    """Returns ids and numbers of tokens as `ids_of` does, with "[MASK]" as a special token if `masks`.

    Args:
      tokenizer, texts, most: see `ids_of`.
      masks: whether "[MASK]" in a text is the special token.
    """
    if not masks:
        return ids_of(tokenizer, texts, most)
    mask, result = special(tokenizer).mask, []
    for text in texts:
        [first, *others], _ = ids_of(tokenizer, text.split("[MASK]"))
        result.append(first + [i for part in others for i in (mask, *part)])
    return result, [len(row) for row in result]
