"""Decodes token ids as text."""

from collections.abc import Sequence
from typing import Any

from tokenizers import decoders, pre_tokenizers


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Returns the text of token ids, without special tokens.

    Words of a tokenizer of words are separated by spaces. Bytes that are no UTF-8 become the replacement
    character.
    """
    byte_level = isinstance(getattr(tokenizer, "pre_tokenizer", None), pre_tokenizers.ByteLevel)
    if byte_level and tokenizer.decoder is None:  # as in the tokenizer of bytes
        letters = set(pre_tokenizers.ByteLevel.alphabet())
        pieces = [tokenizer.id_to_token(i) for i in ids]
        return decoders.ByteLevel().decode([piece for piece in pieces if piece in letters])
    return tokenizer.decode(list(ids))
