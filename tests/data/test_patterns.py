"""Regular expressions of strangers' tokenizers: those that may take for ever are refused."""

import json
from pathlib import Path

import pytest

from fourier_attn.data.text import load_tokenizer
from fourier_attn.data.text.patterns import check_pattern

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
OTHERS = [" {2,}", r"\d{3}(?=(\d{3})\b)", r"[(+*)|{2}]+", r"\(a\)+", r"\.\*", "a{b}c", r"\\1"]
NUMBERS = [
    r"\d{1,3}(?=(?:\d{3})*\b)", r"\p{N}{1,3}(?=(\p{N}{3})*(\P{N}|$))", r"(?:\r\n|\n)+", r"(?i)'s|\p{L}+",
    r"(?:https?|ftp)://\S+", r"[\w.]{1,64}@[\w.]{1,255}", "a" * 200,
    "(?:" + "|".join(f"{i:05d}" for i in range(0, 9000, 90)) + ")x",
]  # fmt: skip


@pytest.mark.parametrize("pattern", [GPT2, LLAMA3, O200K, CLIP, *OTHERS, *NUMBERS])
def test_published_patterns_are_taken(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a|a)*b", "(a+)+b", "^(a|b|ab)*c$", "(.*a){20}b", "(.*a){12}b", "(a?){30}a{30}b", "((a)*)*",
        "(?:a+){2,}",
        "(?=(a+)+b)", r"([\]a]+)*", r"(a)\1*", r"(?<x>a)\k<x>", "(x+x+)+y", ".*.*.*.*=", "((a|ab)(c|bcd))+",
        "(a*)*+", "(a|a)" * 30 + "[bc]", "(?:a|aa)" * 30 + "[bc]", "a?" * 40 + "a" * 40 + "[bc]",
        "a{0,2}" * 40, "(?:a?){999999999}", "(?i:k|\u212a)+", "(?:a?b|a)+", "(?x)(a|\\ a)+", "(?:a(?i)b|b)+c",
        "(?:[ab]|a)+c", r"(?:\x61|a)+c", "((?:a|b)|a)+c",
    ],
)  # fmt: skip
def test_patterns_that_may_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(
        ValueError, match=r"its pattern '.*(exponential time|unbounded repetitions|free spacing)"
    ):
        check_pattern(pattern)


@pytest.mark.parametrize("where", ["normalizer", "pre_tokenizer", "decoder"])
def test_a_tokenizer_with_such_a_pattern_is_refused(where: str, tmp_path: Path) -> None:
    """Before the library runs it: it would end the process."""
    replace = {"type": "Replace", "pattern": {"Regex": "(a+)+b"}, "content": "x"}
    split = {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated", "invert": False}
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "a": 2}
    step = split if where == "pre_tokenizer" else replace
    parts = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    settings = {
        "version": "1.0",
        "added_tokens": [],
        **dict.fromkeys(parts),
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
        where: {"type": "Sequence", f"{where}s".replace("pre_", "pre"): [step]},
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="repeats a group that contains repetitions or alternatives"):
        load_tokenizer(path)
