"""Encodes words, and finds the tokens of each word."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fourier_attn import causes
from fourier_attn.data.text.beginnings import parts
from fourier_attn.data.text.encoding import special
from fourier_attn.inference.classify import word_places


class Located(NamedTuple):
    """Holds the tokens of a text.

    Args:
      ids: token ids.
      offsets: characters (begin, end) of each token.
    """

    ids: list[int]
    offsets: Sequence[tuple[int, int]]


def located(tokenizer: Any, texts: Sequence[str]) -> list[Located]:
    """Returns the tokens of whole texts, with their characters.

    Raises: ValueError if the library cannot encode a text.
    """
    with causes.named("the tokenizer cannot encode a text", "give another tokenizer, or shorten the text"):
        return [
            Located(row.ids, row.offsets)
            for part in parts(texts)
            for row in tokenizer.encode_batch(list(part), add_special_tokens=False)
        ]


def encode_words(
    tokenizer: Any, sentences: Sequence[Sequence[str]], length: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the token ids of sentences, and the place of the first token of each word.

    A row is [CLS] words [SEP], as `encode` returns for the words joined by blanks. Words that are cut off
    have no place. A word without any token has the place of the next token.

    Args:
      tokenizer: the tokenizer.
      sentences: n lists of words.
      length: largest number of tokens of a row.
    """
    ids = special(tokenizer)
    framed = ids.cls is not None and ids.sep is not None
    room, rows, places = length - 2 * framed, list[np.ndarray](), list[np.ndarray]()
    for words, read in zip(sentences, located(tokenizer, [*map(" ".join, sentences)]), strict=True):
        tokens = read.ids[:room]
        whole = [ids.cls, *tokens, ids.sep] if framed else tokens or [ids.unknown]
        first = word_places([end for _, end in read.offsets], words)
        rows.append(np.asarray(whole, np.int32))
        places.append((first[first < len(tokens)] + framed).astype(np.int32))
    return rows, places


def table_of(rows: Sequence[np.ndarray], width: int, fill: int) -> np.ndarray:
    """Returns rows of different lengths as one array.

    Args:
      rows: n arrays (k,), $k <= width$.
      width: number of columns of the result.
      fill: value of unused columns.
    """
    table = np.full((len(rows), width), fill, np.int32)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table
