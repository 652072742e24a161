"""Token ids of many texts in one array: what is put in comes out."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from fourier_attn.data import packed
from fourier_attn.data.packed import PackedTokens, encode_all
from fourier_attn.data.text import encode, fit

random = np.random.default_rng(0)
LISTS = [random.integers(0, 999, n).astype(np.int32) for n in (3, 0, 1, 7, 2, 2, 5)]


def together(lists: list[np.ndarray]) -> PackedTokens:
    return PackedTokens(np.concatenate(lists).astype(np.uint16), np.array([len(row) for row in lists]))


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "CHUNK", 3)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return fit("bpe", ["one two three four five"] * 3, 40)


def test_a_row_is_what_was_put_in() -> None:
    found = together(LISTS)
    assert len(found) == len(LISTS)
    assert found.lengths.tolist() == [3, 0, 1, 7, 2, 2, 5]
    for row, expected in zip(found, LISTS, strict=True):
        np.testing.assert_array_equal(row, expected, strict=True)
    np.testing.assert_array_equal(found[-1], LISTS[-1])
    with pytest.raises(IndexError):
        found[len(LISTS)]


@pytest.mark.parametrize("index", [[0, 1, 2, 3, 4, 5, 6], [6, 0, 0, 3], [1], []])
def test_some_in_another_order(index: list[int]) -> None:
    taken = together(LISTS).take(np.array(index, np.int32))
    assert [row.tolist() for row in taken] == [LISTS[i].tolist() for i in index]


@pytest.mark.parametrize(("kind", "classes"), [(np.int32, ()), (np.float32, ()), (np.int32, (3,))])
def test_records_are_those_of_single_rows(kind: type, classes: tuple[int, ...]) -> None:
    """Fingerprints of runs hang on these bytes."""
    shape = (len(LISTS), *classes)
    labels = np.arange(np.prod(shape)).astype(kind).reshape(shape) - 2
    expected = b"".join(
        len(row).to_bytes(4, "little") + row.tobytes() + label.tobytes()
        for row, label in zip(LISTS, labels, strict=True)
    )
    assert b"".join(together(LISTS).records(labels)) == expected


@pytest.mark.parametrize("pairs", [False, True])
def test_texts_are_encoded_as_a_few_are(tokenizer: Tokenizer, pairs: bool) -> None:
    first = ["one", "two three", "four five one", "six", "two"] * 2
    second = first[::-1] if pairs else None
    columns = zip(first, second, strict=True) if second else ((text,) for text in first)
    found = encode_all(tokenizer, columns, 12)
    wanted = encode(tokenizer, first, 12, second)
    assert [row.tolist() for row in found] == [row.tolist() for row in wanted]
    assert found.tokens.dtype == np.uint16


def test_a_large_vocabulary_has_room(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        packed, "encode_with_cut", lambda *given: ([np.array([70_000, 2], np.int32)], np.zeros(1))
    )

    class Large:
        def get_vocab_size(self) -> int:
            return 70_001

    assert encode_all(Large(), [("a",)], 12)[0].tolist() == [70_000, 2]
