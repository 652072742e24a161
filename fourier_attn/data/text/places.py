"""Encodes words, and says where each of them is among the tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fourier_attn import causes
from fourier_attn.data.text.beginnings import parts
from fourier_attn.data.text.encoding import special
from fourier_attn.inference.classify import word_places


class Located(NamedTuple):
    """Holds the tokens of a text, and the characters (begin, end) that each stands for."""

    ids: list[int]
    offsets: Sequence[tuple[int, int]]


def located(tokenizer: Any, texts: Sequence[str]) -> list[Located]:
    """Returns the tokens of whole texts, with their characters.

    Raises: ValueError where the library gives up on one.
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
    """Returns the token ids of sentences, given as words, and the place of the first token of each word.

    A row is [CLS] words [SEP], as `encode` has it for the words with blanks between them. It has at most
    `length` tokens. Places of words that are cut off are missing at the end. A word without a token of its
    own has the place of the next token.
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
    """Returns rows of different lengths as one array (n, width), filled up at their ends."""
    table = np.full((len(rows), width), fill, np.int32)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table
