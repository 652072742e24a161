"""Of a long text only its beginning is encoded, and its first tokens are those of the whole text."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from fourier_attn.data import text
from fourier_attn.data.text import beginnings, fitting
from fourier_attn.data.text.beginnings import ids_of, splits_at_blanks

WORDS = (
    "the",
    "Film,",
    "was<br />good",
    "<br />",
    "<br  />",
    "a\u0301",
    "\u0301b",
    "ΣΑΣ",
    "x" * 40,
    "(1.5)",
    "…",
    "日本語",
    "▁",
    "fi\ufb01",
)
BLANKS = (" ", "  ", "\n", "\t \r\n", "\u00a0", "\u3000", "")  # fmt: skip


def texts(count: int, words: int = 400) -> list[str]:
    draw = np.random.default_rng(0)
    return ["".join(draw.choice(WORDS) + draw.choice(BLANKS) for _ in range(words)) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizers(sentencepiece_file: Path) -> dict[str, Any]:
    found = {kind: text.fit(kind, texts(5), 300) for kind in text.KINDS}
    found["sentencepiece"] = text.load_tokenizer(sentencepiece_file)
    gpt = Tokenizer(models.BPE(vocab=found["bytes"].get_vocab(), merges=[]))
    gpt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return found | {"as GPT-2": gpt}


@pytest.mark.parametrize("kind", [*text.KINDS, "sentencepiece", "as GPT-2"])
def test_the_first_tokens_are_those_of_the_whole_text(
    kind: str, tokenizers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer, given = tokenizers[kind], texts(40)
    assert splits_at_blanks(tokenizer)
    whole, counts = ids_of(tokenizer, given)
    assert counts == [len(row) for row in whole]
    monkeypatch.setattr(beginnings, "SHORTEST", 300)  # longer than any word
    monkeypatch.setattr(beginnings, "AT_ONCE", 3000)
    for size in (1, 3, 16):
        monkeypatch.setattr(beginnings, "CHARACTERS", size)
        for most in (1, 7, 50, 10_000):
            rows, about = ids_of(tokenizer, given, most)
            assert [row[:most] for row in rows] == [row[:most] for row in whole]
            assert all(
                (a > most) == (len(row) > most) or abs(a - most) < most
                for a, row in zip(about, whole, strict=True)
            )


def changed(**parts: Any) -> Tokenizer:
    """Returns the subword tokenizer with another normaliser, pre-tokenizer or vocabulary."""
    tokenizer = text.fit("bpe", ["a good film"] * 5, 100)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def test_who_may_reach_over_white_space_gets_whole_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "a": 2, " ": 3, "a ": 4}
    joined = Tokenizer(models.BPE(vocab=vocabulary, merges=[("a", " ")], unk_token="[UNK]"))
    known = changed()
    known.add_tokens(["New York"])
    for tokenizer in (
        changed(normalizer=normalizers.Replace(Regex("a.*b"), "c")),
        changed(pre_tokenizer=pre_tokenizers.Split(Regex("ab c"), "isolated")),
        changed(pre_tokenizer=pre_tokenizers.Metaspace(split=False), model=joined.model),
        Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")),
        joined,
        known,
    ):
        assert not splits_at_blanks(tokenizer), json.loads(tokenizer.to_str())["pre_tokenizer"]
    monkeypatch.setattr(beginnings, "SHORTEST", 1)
    assert ids_of(joined, ["a a " * 50], 2)[0] == [[4] * 100]


@pytest.mark.parametrize("word", ["film ", "x"])
def test_a_text_of_16_mb_is_encoded_by_its_beginning(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = beginnings._encoded
    monkeypatch.setattr(
        beginnings, "_encoded", lambda one, some: seen.append(sum(map(len, some))) or original(one, some)
    )
    [row], [cut] = text.encode_with_cut(
        text.fit("bpe", ["a film"] * 5, 100), [word * (2**24 // len(word))], 512
    )
    assert len(row) == 512
    assert cut > 0.99
    assert sum(seen) < 2**18


def test_long_words_are_fitted_in_pieces() -> None:
    said: list[str] = []
    word = "".join(np.random.default_rng(0).choice([*"abcdefgh"], 50_000))
    tokenizer = text.fit("bpe", ["a film", word, f"two {word}"], 200, said.append)
    assert said == ["note: 2 texts have words of more than 1,000 characters, split for the fit"]
    assert tokenizer.get_vocab_size() == 200
    pieces = [*fitting.Pieces([word + " b"])]
    assert pieces[0].replace(" ", "") == word + "b"
    assert max(map(len, pieces[0].split())) == fitting.WORD
    said.clear()
    text.fit("bpe", ["a film", "x" * 1000], 50, said.append)
    text.fit("words", ["x" * 5000], 50, said.append)
    assert not said


def test_a_panic_of_the_library_is_a_value_error() -> None:
    """Of a pattern that takes too long: it is not an Exception, and would end any program."""

    class PanicException(BaseException):
        pass

    class Panics:
        def encode_batch_fast(self, *_: object, **__: object) -> None:
            raise PanicException(
                "called `Result::unwrap()` on an `Err` value\nOnig: retry-limit-in-match over"
            )

    with pytest.raises(
        ValueError, match=r"^the tokenizer cannot encode a text \(called [^\n]*; give another"
    ):
        ids_of(Panics(), ["aaaa"])
