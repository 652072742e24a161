"""Decodes token ids as text."""

from collections.abc import Sequence
from typing import Any

from tokenizers import decoders, pre_tokenizers


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Returns the text of token ids, without special tokens.

    A tokenizer of words puts spaces between words. Invalid UTF-8 becomes the replacement character.

    Args:
      tokenizer: the tokenizer of a run.
      ids: of the tokens, in order.
    """
    byte_level = isinstance(getattr(tokenizer, "pre_tokenizer", None), pre_tokenizers.ByteLevel)
    if byte_level and tokenizer.decoder is None:  # the tokenizer of bytes
        letters = set(pre_tokenizers.ByteLevel.alphabet())
        pieces = [tokenizer.id_to_token(i) for i in ids]
        return decoders.ByteLevel().decode([piece for piece in pieces if piece in letters])
    return tokenizer.decode(list(ids))
