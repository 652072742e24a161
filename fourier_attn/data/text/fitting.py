"""Fits tokenizers with the library `tokenizers`."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizers import decoders as decoding

from fourier_attn.choices import check_choice
from fourier_attn.data.tables import files

KINDS = ("words", "whitespace", "bytes", "bpe", "unigram")
WORDS = ("words", "whitespace")
# special tokens of a subword tokenizer, with FNet's ids 0 to 6
SUBWORD_TOKENS = ["<unk>", "<s>", "</s>", "<pad>", "[CLS]", "[SEP]", "[MASK]"]
WORD = 1000  # longest word in characters for the fit of subwords
LONG = re.compile(rf"\S{{{WORD}}}(?=\S)")


def words(kind: str, texts: Iterable[str], vocab: int) -> Tokenizer:
    """Fits a lower-case tokenizer of words, with padding 0 and unknown 1.

    "words" separates words from punctuation and drops "<br />". "whitespace" splits only at white space, as
    torchtext did for the articles, so that "film." and "film" are two words.

    Args:
      kind: "words" or "whitespace".
      texts: the texts to fit on.
      vocab: largest vocabulary; the most frequent words are kept.
    """
    tokenizer, apart = Tokenizer(models.WordLevel(unk_token="[UNK]")), kind == "words"
    breaks = [normalizers.Replace("<br />", " ")] if apart else []
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *breaks, normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace() if apart else pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def utf8() -> Tokenizer:
    """Returns a byte-level tokenizer, with padding 0, unknown 1 and one token for each of the 256 bytes."""
    letters = ["[PAD]", "[UNK]", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    model = models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return tokenizer


def subwords(kind: str, texts: Iterable[str], vocab: int) -> Tokenizer:
    """Fits a lower-case subword tokenizer that separates punctuation.

    Special tokens have the ids of FNet: unknown 0, padding 3, [CLS] 4, [SEP] 5 and [MASK] 6. The first piece
    of a word begins with "▁". Fitting "bpe" is deterministic, but scores of "unigram" differ in the last
    digits.

    Args:
      kind: "bpe" or "unigram".
      texts: the texts to fit on.
      vocab: largest vocabulary, with special tokens.
    """
    common = {"vocab_size": vocab, "special_tokens": SUBWORD_TOKENS, "show_progress": False}
    if kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        trainer: Any = trainers.UnigramTrainer(unk_token="<unk>", **common)
    else:
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
        trainer = trainers.BpeTrainer(**common)
    blanks = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Replace("<br />", " "),
            normalizers.Lowercase(),
            blanks,
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    )
    tokenizer.decoder = decoding.Metaspace()
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


class Pieces(Iterable[str]):
    """Yields texts with words split at `WORD` characters; `cut` counts the texts with longer words.

    Args:
      texts: the texts.
    """

    def __init__(self, texts: Iterable[str]):
        self.texts, self.cut = texts, 0

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            pieces, count = LONG.subn(r"\g<0> ", text)
            self.cut += count > 0
            yield pieces


def fit(
    kind: str, texts: Iterable[str], vocab: int, say: Callable[[str], None] = lambda line: None
) -> Tokenizer:
    """Returns a tokenizer fitted on texts.

    Words of more than `WORD` characters are split for the fit of subwords, because its time grows with the
    square of a word's length.

    Args:
      kind: one of `KINDS`; "bytes" needs no texts.
      texts: the texts to fit on.
      vocab: largest vocabulary.
      say: called with a note if words were split; default: nothing.
    Raises: ValueError for an unknown kind, and for a vocabulary that is too small for any word.
    """
    check_kind(kind, vocab)
    if kind == "bytes":
        return utf8()
    if kind in WORDS:
        tokenizer = words(kind, texts, vocab)
    else:
        pieces = Pieces(texts)
        tokenizer = subwords(kind, pieces, vocab)
        if pieces.cut:
            say(f"note: {pieces.cut:,} texts have words of more than {WORD:,} characters, split for the fit")
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is ordinary text
    return tokenizer


def names_file(kind: str) -> bool:
    """Returns whether the value of `data.tokenizer` is a file.

    Args:
      kind: `data.tokenizer` of the configuration.
    """
    return files.ending(kind) in (".json", ".model")


def check_kind(kind: str, vocab: int) -> None:
    """Checks the values of `data.tokenizer` and `data.vocab`.

    Args:
      kind: `data.tokenizer` of the configuration.
      vocab: `data.vocab`, the largest size of the vocabulary.
    Raises: ValueError for an unknown tokenizer, or a vocabulary without room for words.
    """
    if names_file(kind):
        return
    cure = ", or give a file (tokenizer.json, or a SentencePiece .model)"
    check_choice("data.tokenizer", kind, KINDS, cure)
    least = 3 if kind in (*WORDS, "bytes") else len(SUBWORD_TOKENS) + 1
    if vocab < least:
        raise ValueError(f"data.vocab={vocab} must be at least {least}, for special tokens and one word")
