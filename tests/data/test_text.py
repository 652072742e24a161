import numpy as np
import pytest

from fourier_attn.data.text import encode, encode_with_cut, fit

TEXTS = ["A great film, wasn't it?<br /><br />GREAT!", "a dull film", "Größe – a film"]


def test_words_are_lower_cased_and_keep_punctuation() -> None:
    tokenizer = fit("words", TEXTS, 100)
    assert tokenizer.encode(TEXTS[0]).tokens == [
        "a",
        "great",
        "film",
        ",",
        "wasn",
        "'",
        "t",
        "it",
        "?",
        "great",
        "!",
    ]
    assert (tokenizer.token_to_id("[PAD]"), tokenizer.token_to_id("[UNK]")) == (0, 1)


def test_whitespace_alone_keeps_punctuation_and_marks() -> None:
    tokenizer = fit("whitespace", TEXTS, 100)
    assert tokenizer.encode(TEXTS[0]).tokens == [
        "a",
        "great",
        "film,",
        "wasn't",
        "it?<br",
        "/><br",
        "/>great!",
    ]
    assert (tokenizer.token_to_id("[PAD]"), tokenizer.token_to_id("[UNK]")) == (0, 1)


def test_the_most_frequent_words_are_kept() -> None:
    tokenizer = fit("words", TEXTS, 5)
    assert set(tokenizer.get_vocab()) == {"[PAD]", "[UNK]", "a", "film", "great"}
    assert encode(tokenizer, ["a dull film"], 9)[0].tolist()[1] == 1


def test_fitting_twice_gives_the_same_vocabulary() -> None:
    assert fit("words", TEXTS, 100).to_str() == fit("words", iter(TEXTS), 100).to_str()


def test_bytes_are_the_bytes_of_utf8() -> None:
    tokenizer = fit("bytes", [], 100)
    assert tokenizer.get_vocab_size() == 258
    rows = encode(tokenizer, TEXTS, 1000)
    assert [len(row) for row in rows] == [len(text.encode()) for text in TEXTS]
    assert len({int(row[0]) for row in rows}) == 3  # A, a, G
    assert min(row.min() for row in rows) > 1


def test_long_texts_are_cut_and_empty_ones_are_unknown() -> None:
    tokenizer = fit("words", TEXTS, 100)
    full, cut, empty = (
        *encode(tokenizer, [TEXTS[0]], 99),
        *encode(tokenizer, [TEXTS[0]], 4),
        *encode(tokenizer, [""], 4),
    )
    np.testing.assert_array_equal(cut, full[:4])
    assert empty.tolist() == [1]
    assert cut.dtype == np.int32
    rows, shares = encode_with_cut(tokenizer, [TEXTS[0], "", "a"], 4)
    np.testing.assert_array_equal(rows[0], cut)
    np.testing.assert_allclose(shares, [1 - 4 / len(full), 0, 0])


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="data.tokenizer='letters' is unknown"):
        fit("letters", TEXTS, 10)
    with pytest.raises(ValueError, match="data.vocab=2 must be at least 3"):
        fit("words", TEXTS, 2)
