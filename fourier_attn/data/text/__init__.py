"""Fits, reads and applies tokenizers, from text to token ids and back."""

from fourier_attn.data.text.beginnings import ids_of
from fourier_attn.data.text.decoding import decode
from fourier_attn.data.text.encoding import (
    Special,
    check_known,
    encode,
    encode_questions,
    encode_windows,
    encode_with_cut,
    special,
    unknown_share,
)
from fourier_attn.data.text.fitting import KINDS, WORDS, check_kind, fit, names_file
from fourier_attn.data.text.tokenizer_files import (
    KERAS_HUB,
    SENTENCEPIECE,
    check_file,
    copy_tokenizer,
    load_tokenizer,
    save_tokenizer,
    tokenizer_file,
)

__all__ = [
    "KERAS_HUB",
    "KINDS",
    "SENTENCEPIECE",
    "WORDS",
    "Special",
    "check_file",
    "check_kind",
    "check_known",
    "copy_tokenizer",
    "decode",
    "encode",
    "encode_questions",
    "encode_windows",
    "encode_with_cut",
    "fit",
    "ids_of",
    "load_tokenizer",
    "names_file",
    "save_tokenizer",
    "special",
    "tokenizer_file",
    "unknown_share",
]
