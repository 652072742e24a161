"""Subword tokenizers, SentencePiece models, and rows of one or two texts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourier_attn.data.text import (
    check_file,
    copy_tokenizer,
    encode,
    encode_with_cut,
    fit,
    load_tokenizer,
    save_tokenizer,
    special,
    tokenizer_file,
)
from fourier_attn.data.text.fitting import SUBWORD_TOKENS

TEXTS = [
    f"The cats  saw<br />{a} dogs,\nand {b} ran." for a in ("red", "blue", "old") for b in ("one", "two")
]
FNET = {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3, "[CLS]": 4, "[SEP]": 5, "[MASK]": 6}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_ids_are_those_of_fnet(kind: str) -> None:
    tokenizer = fit(kind, TEXTS, 80)
    assert {name: tokenizer.token_to_id(name) for name in SUBWORD_TOKENS} == FNET
    assert special(tokenizer) == (3, 0, 1, 2, 4, 5, 6)
    ids = tokenizer.encode(TEXTS[0], add_special_tokens=False).ids
    assert tokenizer.decode(ids) == "the cats saw red dogs, and one ran."
    assert min(ids) > 6


def test_fitting_bpe_twice_gives_the_same_tokenizer() -> None:
    assert fit("bpe", TEXTS, 80).to_str() == fit("bpe", iter(TEXTS), 80).to_str()


def test_a_mask_in_a_text_is_the_mask() -> None:
    tokenizer = fit("bpe", TEXTS, 80)
    (row,) = encode(tokenizer, ["the [MASK] ran"], 20, masks=True)
    assert row.tolist() == [4, *ids(tokenizer, "the"), 6, *ids(tokenizer, "ran"), 5]


def ids(tokenizer: Any, text: str) -> list[int]:
    return encode(tokenizer, [text], 99)[0][1:-1].tolist()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_names_of_special_tokens_in_a_text_are_text(kind: str, tmp_path: Path) -> None:
    tokenizer = fit(kind, [*TEXTS, "[ ] < > / sep mask cls s"], 100)
    save_tokenizer(tokenizer, tmp_path)
    for it in (tokenizer, load_tokenizer(tokenizer_file(tmp_path))):
        (row,) = encode(it, ["a [SEP] b </s> c [MASK] <pad>"], 60, ["[CLS] d"])
        assert row[0] == 4
        assert (row == 5).sum() == 2
        assert not np.isin(row, (1, 2, 3, 6)).any()
        assert np.isin(row, 4).sum() == 1


def test_rows_of_one_and_of_two_texts() -> None:
    tokenizer = fit("bpe", ["a b c d e f g h i j k l m n"], 60)

    def pieces(row: np.ndarray) -> str:
        return " ".join(tokenizer.id_to_token(int(i)).strip("▁") for i in row)

    one, empty = encode(tokenizer, ["a b c", ""], 9)
    assert pieces(one) == "[CLS] a b c [SEP]"
    assert pieces(empty) == "[CLS] [SEP]"
    assert pieces(encode(tokenizer, ["a b c d"], 5)[0]) == "[CLS] a b c [SEP]"

    def pair(a: str, b: str, length: int) -> str:
        (row,) = encode(tokenizer, [a], length, [b])
        assert len(row) <= length
        return pieces(row)

    assert pair("a b", "c d e", 9) == "[CLS] a b [SEP] c d e [SEP]"
    assert pair("a b", "c d e f g h", 9) == "[CLS] a b [SEP] c d e f [SEP]"  # the longer one is cut
    assert pair("a b c d e f", "g h", 9) == "[CLS] a b c d [SEP] g h [SEP]"
    assert pair("a b c d e", "g h i j k", 9) == "[CLS] a b c [SEP] g h i [SEP]"
    np.testing.assert_allclose(encode_with_cut(tokenizer, ["a b c d"], 5)[1], [1 / 4])
    cut = encode_with_cut(tokenizer, ["a b", "a b c d e"], 9, ["c d e", "g h i j k"])[1]
    np.testing.assert_allclose(cut, [0, 4 / 10])
    with pytest.raises(ValueError, match=r"need a tokenizer with \[SEP\]; use data.tokenizer='bpe'"):
        encode(fit("words", TEXTS, 20), ["a"], 9, ["b"])


def test_a_sentencepiece_model_is_used_as_it_is(sentencepiece_file: Path, tmp_path: Path) -> None:
    import sentencepiece

    copy_tokenizer(sentencepiece_file, tmp_path)
    assert tokenizer_file(tmp_path) == tmp_path / "tokenizer.model"
    assert tokenizer_file(tmp_path).read_bytes() == sentencepiece_file.read_bytes()
    tokenizer = load_tokenizer(tokenizer_file(tmp_path))
    assert special(tokenizer) == (3, 0, 1, 2, 4, 5, 6)
    plain = sentencepiece.SentencePieceProcessor(model_file=str(sentencepiece_file))
    assert tokenizer.get_vocab_size() == plain.get_piece_size()
    (row,) = encode(tokenizer, ["The cats saw old dogs"], 40)
    assert row.tolist() == [4, *plain.encode("The cats saw old dogs"), 5]
    (row,) = encode(tokenizer, ["The cats [MASK] dogs"], 40, masks=True)
    assert row.tolist() == [4, *plain.encode("The cats"), 6, *plain.encode("dogs"), 5]
    assert tokenizer.decode(plain.encode("The cats")) == "The cats"
    assert tokenizer.token_to_id("nowhere") is None


def test_a_tokenizer_is_copied_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    save_tokenizer(fit("unigram", TEXTS, 60), tmp_path / "a")
    (tmp_path / "b").mkdir()
    copy_tokenizer(tmp_path / "a" / "tokenizer.json", tmp_path / "b")
    first, second = ((tmp_path / name / "tokenizer.json").read_bytes() for name in "ab")
    assert first == second


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.model"])
def test_files_that_are_no_tokenizer(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a file; give an existing file"):
        check_file(str(tmp_path / name))
    (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=f"{name} cannot be used: .*; give another tokenizer"):
        copy_tokenizer(tmp_path / name, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_too_small_a_vocabulary() -> None:
    with pytest.raises(ValueError, match="data.vocab=7 must be at least 8"):
        fit("bpe", TEXTS, 7)
    with pytest.raises(ValueError, match=r"lacks the token '<pad>'"):
        special(load_other())


def load_other():
    from tokenizers import Tokenizer, models

    return Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
