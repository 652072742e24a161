"""Tokenizers: text to integers, through the `tokenizers` library."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

PAD, UNKNOWN = 0, 1  # ids in every tokenizer made here


def words(texts: Iterable[str], vocab: int) -> Tokenizer:
    """Fits a word-level tokenizer: lower case, words and punctuation apart, the `vocab` most frequent."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace("<br />", " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def utf8() -> Tokenizer:
    """A byte-level tokenizer: one token for each of the 256 bytes, besides padding and unknown."""
    letters = ["[PAD]", "[UNK]", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    model = models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return tokenizer


def fit(kind: str, texts: Iterable[str], vocab: int) -> Tokenizer:
    """Makes the tokenizer of that kind: "words" is fitted on `texts`, "bytes" needs none.

    Raises: ValueError for an unknown kind or a vocabulary without room for a word.
    """
    if kind not in ("words", "bytes"):
        raise ValueError(f"data.tokenizer={kind!r} is unknown; choose 'words' or 'bytes'")
    if vocab < 3:
        raise ValueError(f"data.vocab={vocab} must be at least 3: padding, unknown and one word")
    return words(texts, vocab) if kind == "words" else utf8()


def load_tokenizer(path: Path) -> Tokenizer:
    """Reads a saved tokenizer.

    Raises: ValueError where there is none or it cannot be read.
    """
    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises nothing more special for a damaged file
        raise ValueError(f"{path} is missing or damaged ({error}); train the run anew") from error


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Writes the tokenizer; after an interruption there is a whole file or none."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(tokenizer.to_str(), encoding="utf-8")
    temporary.replace(path)


def encode(tokenizer: Tokenizer, texts: Sequence[str], length: int) -> list[np.ndarray]:
    """Token ids of each text, cut after `length`; a text without any token becomes one unknown."""
    rows = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [np.asarray(row.ids[:length] or [UNKNOWN], np.int32) for row in rows]
