"""Encodes only the beginnings of long texts, so that time and memory do not grow with the part that is cut.

A text is cut before white space. If the tokenizer splits there, tokens do not depend on what follows:

    tokens(text) = tokens(beginning) + tokens(rest)

`splits_at_blanks` decides from the tokenizer whether this holds. Other tokenizers encode whole texts.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fourier_attn import causes
from fourier_attn.data.text.tokenizer_checks import steps

BLANKS = " \n\t\r"
AT_ONCE = 2**21  # characters that are encoded together; the library needs some 300 bytes for each
CHARACTERS = 16  # characters of the first beginning for each required token
SHORTEST = 2**14  # characters up to which the whole text is encoded
NORMALIZERS = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Nmt", "BertNormalizer")
TABLES = ("Prepend", "Precompiled")  # normalisers that replace within words, or add a blank in front
SPACES = (r"\s+", r"\s{2,}", " {2,}", "[ ]{2,}")  # regular expressions that join blanks
SPLITTERS = ("Metaspace", "Whitespace", "WhitespaceSplit", "BertPreTokenizer", "ByteLevel")
WITHIN = ("Punctuation", "Digits")  # pre-tokenizers that only split words further
ACROSS = re.compile(r"[^\s▁ĠĊĉč][\s▁ĠĊĉč]")  # a letter before white space, as vocabularies write it


def ids_of(tokenizer: Any, texts: Sequence[str], most: int = 0) -> tuple[list[list[int]], list[int]]:
    """Returns the token ids of each text, and the number of tokens of each whole text.

    If only the beginning of a text is encoded, its number of tokens is estimated from its characters. A
    beginning without any white space is cut inside its word.

    Args:
      tokenizer: the tokenizer.
      texts: n texts.
      most: number of ids of each text that are needed; more may be returned. Default 0: all.
    """
    rows = [row for part in parts(texts) for row in _encoded(tokenizer, part)] if not most else []
    if not most:
        return rows, [len(row) for row in rows]
    size = max(SHORTEST, CHARACTERS * most)
    long = [i for i, text in enumerate(texts) if len(text) > size]
    if long and not splits_at_blanks(tokenizer):
        long = []
    heads, lefts = list(texts), _lefts(tokenizer) if long else ()
    for i in long:
        heads[i] = beginning(tokenizer, texts[i], size, lefts)
    rows = [row for part in parts(heads) for row in _encoded(tokenizer, part)]
    while long := [i for i in long if len(rows[i]) < most and len(heads[i]) < len(texts[i])]:
        size *= 4
        for i in long:
            heads[i] = beginning(tokenizer, texts[i], size, lefts)
            [rows[i]] = _encoded(tokenizer, [heads[i]])
    counts = [
        round(len(row) * len(text) / max(len(head), 1)) if len(head) < len(text) else len(row)
        for row, head, text in zip(rows, heads, texts, strict=True)
    ]
    return rows, counts


def parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields parts of the texts with at most `AT_ONCE` characters, or with one text."""
    begin, size = 0, 0
    for i, text in enumerate(texts):
        if size and size + len(text) > AT_ONCE:
            yield texts[begin:i]
            begin, size = i, 0
        size += len(text)
    yield texts[begin:]


def _encoded(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of each text. Raises: ValueError if the library cannot encode a text."""
    with causes.named("the tokenizer cannot encode a text", "give another tokenizer, or shorten the text"):
        return [row.ids for row in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def beginning(tokenizer: Any, text: str, size: int, lefts: Sequence[str] = ()) -> str:
    """Returns a text up to the last white space among its first characters.

    Args:
      tokenizer: gives the normaliser.
      text: the text.
      size: number of characters; without white space among them, exactly these are returned.
      lefts: beginnings of rules of the normaliser up to white space in them; the text is not cut after these.
        Default none.
    """
    if len(text) <= size:
        return text
    end = size + 1
    while (end := max(text.rfind(blank, 0, end) for blank in BLANKS)) > 0:
        head = text[:end].rstrip(BLANKS)
        tail = head[-64:]
        if lefts and (normalizer := tokenizer.normalizer) is not None:
            with causes.named("the tokenizer cannot normalise a text", "give another tokenizer"):
                tail = normalizer.normalize_str(tail)
        if head and not tail.endswith(tuple(lefts)):
            return head
        end = len(head)
    return text[:size]


def splits_at_blanks(tokenizer: Any) -> bool:
    """Returns whether no token and no rule of the normaliser extends over white space after a word."""
    if hasattr(tokenizer, "processor"):  # SentencePiece
        return not any(ACROSS.search(tokenizer.id_to_token(i)) for i in range(tokenizer.get_vocab_size()))
    settings = json.loads(tokenizer.to_str())
    if not all(_is_local(step) for step in steps(settings["normalizer"], "normalizers")):
        return False
    if any(set(BLANKS) & set(token["content"]) for token in settings["added_tokens"]):
        return False
    splits = list(steps(settings["pre_tokenizer"], "pretokenizers"))
    if any(step["type"] not in (*SPLITTERS, *WITHIN) for step in splits):
        return False
    if any(_splits(step) for step in splits):
        return True
    joins = settings["model"]["type"] in ("BPE", "Unigram")  # without pre-tokenizer, pieces of the whole text
    return joins and not any(map(ACROSS.search, tokenizer.get_vocab()))


def _splits(step: dict[str, Any]) -> bool:
    kind = step["type"]
    return kind in SPLITTERS and step.get("split", True) and step.get("use_regex", True)


def _is_local(step: dict[str, Any]) -> bool:
    if step["type"] == "Replace":
        pattern = step["pattern"]
        return "String" in pattern or pattern.get("Regex") in SPACES
    return step["type"] in (*NORMALIZERS, *TABLES)


def _lefts(tokenizer: Any) -> tuple[str, ...]:
    """Returns the parts of patterns before white space, for example "<br" for "<br />"."""
    if hasattr(tokenizer, "processor"):
        return ()
    rules = steps(json.loads(tokenizer.to_str())["normalizer"], "normalizers")
    patterns = [rule["pattern"].get("String", "") for rule in rules if rule["type"] == "Replace"]
    return tuple(rule[:i] for rule in patterns for i, letter in enumerate(rule) if i and letter in BLANKS)
