"""Checks that an untrusted tokenizer file can be used with a model.

The normaliser of such a file runs on every text, and the library aborts the process if memory does not
suffice. Token ids are rows of the embedding, and an id that is too large returns NaN.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer

from fourier_attn.data.text.patterns import check_pattern

STEPS = 256  # largest number of steps of a normaliser; published ones have up to 20
LONGEST = 100  # largest number of characters of a rule, or of bytes for one character (NFKC: 33)
GROWTH = 64  # largest number of characters or tokens for one character (NFKC: 18)
SAMPLE = 64  # number of tokens of a vocabulary that are tested
TEXTS = (
    "",
    "a",
    "A",
    "1",
    " ",
    ".",
    "\n",
    "é",
    "中",
    "the film was GOOD , 10 / 10 .",
    "aaaaaaaa",
    "  \t \n ",
)
BARE = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}


def check_patterns(contents: str) -> None:
    """Checks every regular expression in a tokenizer.json. Raises: ValueError."""

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("Regex"), str):
                check_pattern(part["Regex"])
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    settings = json.loads(contents)
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        walk(settings.get(name) if isinstance(settings, dict) else None)


def check_normaliser(contents: str) -> None:
    """Checks that the normaliser in a tokenizer.json does not make texts much longer.

    It runs step by step on short texts, and on the patterns and replacements of its rules, so that growth is
    detected early. Reading the whole file would run all steps on added tokens.

    Raises: ValueError.
    """
    settings = json.loads(contents)
    if not isinstance(settings, dict):
        raise ValueError("not a tokenizer.json")
    normaliser = settings.get("normalizer")
    if normaliser is None:
        return
    parts = list(steps(normaliser, "normalizers"))
    if len(parts) > STEPS:
        raise ValueError(f"its normaliser has {len(parts):,} steps, more than {STEPS}; remove some")
    rules = [rule for part in parts for rule in _strings(part)]
    for rule in rules:
        if len(rule) > LONGEST:
            raise ValueError(
                f"a rule of its normaliser, {rule[:20]!r}, has {len(rule):,} characters, more than {LONGEST}"
            )
    empty = dict.fromkeys(("truncation", "padding", "pre_tokenizer", "post_processor", "decoder"))
    flat = {"type": "Sequence", "normalizers": parts}
    alone = {"version": "1.0", "added_tokens": [], **empty, "normalizer": flat, "model": BARE}
    sequence: Any = Tokenizer.from_str(json.dumps(alone)).normalizer
    for text in (*TEXTS, *rules):
        grown = text
        for index in range(len(parts)):
            grown = sequence[index].normalize_str(grown)
            if len(grown) > GROWTH * (len(text) + 1):
                raise ValueError(
                    f"its normaliser makes {len(grown):,} characters of {text!r}; remove that rule"
                )


def steps(part: Any, name: str) -> Iterator[Any]:
    """Yields the steps of a normaliser or pre-tokenizer, which may be nested sequences.

    Args:
      part: the normaliser or pre-tokenizer; None: no steps.
      name: key of the parts of a sequence, for example "normalizers".
    """
    if isinstance(part, dict) and part.get("type") == "Sequence":
        for step in part.get(name) or []:
            yield from steps(step, name)
    elif part is not None:
        yield part


def _strings(part: Any) -> Iterator[str]:
    """Yields the strings of a step, for example its pattern, and checks the table of Precompiled."""
    if isinstance(part, dict) and part.get("type") == "Precompiled":
        check_table(base64.b64decode(part.get("precompiled_charsmap") or ""))
    elif isinstance(part, dict):
        for key, value in part.items():
            if key != "type":
                yield from _strings(value)
    elif isinstance(part, str):
        yield part


def check_table(table: bytes) -> None:
    """Checks that SentencePiece's table has no long replacement of a character.

    The table has 4 bytes with the size of a trie, the trie, and the replacements with a zero after each.

    Raises: ValueError.
    """
    replacements = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
    longest = max(map(len, replacements))
    if longest > LONGEST:
        raise ValueError(f"its normaliser makes {longest:,} bytes of a character, more than {LONGEST}")


def check_ids(tokenizer: Any, vocabulary: dict[str, int]) -> None:
    """Checks that the tokens have the ids 0 to n - 1, which are the rows of an embedding.

    Raises: ValueError.
    """
    size, owner = tokenizer.get_vocab_size(), {}
    for token, index in vocabulary.items():
        if index >= size:
            raise ValueError(
                f"it has {size:,} tokens, and {token[:40]!r} the id {index}; the ids must be 0 to {size - 1}"
            )
        if index in owner:
            raise ValueError(
                f"{owner[index][:40]!r} and {token[:40]!r} both have the id {index}; give each token its own"
            )
        owner[index] = token


def check_use(tokenizer: Any) -> None:
    """Checks that a tokenizer distinguishes texts and does not return too many tokens.

    It encodes `TEXTS` and a sample of the vocabulary.

    Raises: ValueError.
    """
    size = tokenizer.get_vocab_size()
    tokens = [tokenizer.id_to_token(index) for index in range(0, size, max(1, size // SAMPLE))]
    texts = [*TEXTS, *tokens]
    rows = [row.ids for row in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    for text, row in zip(texts, rows, strict=True):
        if len(row) > GROWTH * (len(text) + 1):
            raise ValueError(f"it makes {len(row):,} tokens of {text[:40]!r}")
    ids = {index for row in rows for index in row}
    if len(ids) < 2:
        raise ValueError(f"it returns the same for all texts, the ids {sorted(ids)}")
    if max(ids) >= size:
        raise ValueError(f"it has {size:,} tokens, but returns the id {max(ids)}")
