"""Texts of pre-training: held-out documents are never in training."""

import lzma
from pathlib import Path

import numpy as np
import pytest

from fourier_attn import config, data
from fourier_attn.data.corpus import read_corpora, split_of
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tables.files import letters


def settings(corpora: tuple[str, ...], **changes: object) -> DataConfig:
    part = config.default("fourier", "pretraining").data
    return config.with_values(part, {"corpora": corpora, "holdout": 0.1} | changes)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    documents = [f"Document {i} of the first file,\nin two lines." for i in range(60)]
    (tmp_path / "a.txt").write_text("\n\n".join(documents), encoding="utf-8")
    repeats = [f"DOCUMENT {i} of the first file; in two lines!" for i in range(60)]
    with lzma.open(tmp_path / "b.txt.xz", "wt", encoding="utf-8") as file:
        file.write("\n\n\n".join([*repeats, *(f"A second one, {i}: é" for i in range(20))]))
    return tmp_path


def test_held_out_documents_are_not_in_train_and_none_is_there_twice(texts: Path) -> None:
    """All of the first file stand in the second one again, in other letters."""
    splits = read_corpora(settings((f"{texts}/a.txt", f"{texts}/*.xz")))
    everything = [text for split in ("train", "validation", "test") for text in splits[split]]
    assert len(everything) == 80
    same = {split: {letters(text) for text in splits[split]} for split in splits}
    assert all(len(same[split]) == len(splits[split]) > 0 for split in splits)
    assert not same["train"] & (same["validation"] | same["test"])
    assert not same["validation"] & same["test"]
    held = len(splits["validation"]) + len(splits["test"])
    assert abs(held / 80 - 0.2) < 5 * (0.2 * 0.8 / 80) ** 0.5  # five standard deviations of a binomial


def test_a_document_stays_where_it_is_when_others_join(texts: Path) -> None:
    before = read_corpora(settings((f"{texts}/a.txt",)))
    (texts / "0.txt").write_text("\n\n".join(f"New, {i}" for i in range(200)), encoding="utf-8")
    after = read_corpora(settings((f"{texts}/**/*.txt",)))
    for split, documents in before.items():
        assert {letters(text) for text in documents} < {letters(text) for text in after[split]}


def test_letters_of_any_script_tell_texts_apart(tmp_path: Path) -> None:
    documents = [
        f"Глава {word}. Öde – ёлка {i}" for i, word in enumerate(["один", "два", "три", "четыре", "пять"] * 8)
    ]
    (tmp_path / "x.txt").write_text("\n\n".join(documents), encoding="utf-8")
    splits = read_corpora(settings((f"{tmp_path}/x.txt",)))
    assert sorted(text for split in splits.values() for text in split) == sorted(documents)
    assert letters("Er hat ä!") != letters("Er hat ö!")
    assert letters("ЁЛКА — “2”") == letters("ёлка 2.")


def test_a_mark_of_the_encoding_is_no_letter(texts: Path) -> None:
    file = texts / "a.txt"
    before = read_corpora(settings((str(file),)))
    file.write_text("\ufeff" + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert read_corpora(settings((str(file),))) == before


def test_examples_are_windows(texts: Path) -> None:
    """`train_examples` is a number of rows, as of every other task, not of documents."""
    chosen = settings((f"{texts}/b.txt.xz",), vocab=150, length=12, batch=4)
    (texts / "run").mkdir()
    every = data.load(chosen, directory=texts / "run")
    few = data.load(
        config.with_values(chosen, {"train_examples": 9, "eval_examples": 2, "test_examples": 1}),
        directory=texts / "run",
    )
    for name, count in (("train", 9), ("validation", 2), ("test", 1)):
        np.testing.assert_array_equal(getattr(few, name).rows, getattr(every, name).rows[:count])


@pytest.mark.parametrize(
    "blank", ["", " ", "\t ", "\r", "\f", "\u00a0", "\u3000", "\ufeff", "\u200b", "\u2028"]
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_what_an_empty_line_is(blank: str, end: str, tmp_path: Path) -> None:
    """WikiText has lines of one blank, other files other ones; both name the same documents."""
    documents = [f"Document {i},{end}in two lines." for i in range(200)]
    file = tmp_path / "a.TXT"
    file.write_bytes(f"{end}{blank}{end}".join(documents).encode())
    found = read_corpora(settings((str(file),)))
    assert sum(map(len, found.values())) == 200
    assert all(text.count("in two lines.") == 1 for split in found.values() for text in split)


def test_the_split_has_a_seed_of_its_own(texts: Path) -> None:
    first, again, other = (read_corpora(settings((f"{texts}/a.txt",), split_seed=seed)) for seed in (0, 0, 1))
    assert first == again
    assert set(first["test"]) != set(other["test"])


def test_excluded_texts_are_left_out(texts: Path) -> None:
    (texts / "known.txt").write_text("document 7 of the first file in two lines", encoding="utf-8")
    splits = read_corpora(settings((f"{texts}/a.txt",), exclude=(f"{texts}/known.txt",)))
    everything = [text for split in splits.values() for text in split]
    assert len(everything) == 59
    assert not [text for text in everything if text.startswith("Document 7 ")]


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        ((), r"data.corpora=\(\) is empty"),
        (("nowhere/*.txt",), r"data.corpora='nowhere/\*.txt': no file matches"),
        (("TEXTS/bad.txt",), "cannot be read as UTF-8 text"),
        (("TEXTS/two.txt",), "too few documents, 2: with data.holdout=0.1"),
        (("TEXTS/cut.xz",), "cannot be read as UTF-8 text"),
    ],
)
def test_bad_corpora(corpora: tuple[str, ...], message: str, texts: Path) -> None:
    (texts / "bad.txt").write_bytes(b"fine\n\n\xff\xfe")
    (texts / "two.txt").write_text("one\n\ntwo", encoding="utf-8")
    (texts / "cut.xz").write_bytes((texts / "b.txt.xz").read_bytes()[:100])
    with pytest.raises(ValueError, match=message):
        read_corpora(settings(tuple(entry.replace("TEXTS", str(texts)) for entry in corpora)))


def test_a_missing_data_set_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="data.corpora='wikitext2': .*fourier_attn.data.prepare --dataset=wiki"
    ):
        read_corpora(settings(("wikitext2",), dir=str(tmp_path)))
    (tmp_path / "a.txt").write_text("one\n\ntwo", encoding="utf-8")
    with pytest.raises(
        ValueError,
        match=r"data.exclude='wikitext2:test': .*--config.data.exclude='\(\)' disables the exclusion",
    ):
        read_corpora(settings((f"{tmp_path}/a.txt",), exclude=("wikitext2:test",), dir=str(tmp_path)))


def test_the_same_letters_belong_to_the_same_split() -> None:
    splits = [split_of(f"Document {i}", 0, 0.2) for i in range(200)]
    assert splits == [split_of(f"document, {i}!", 0, 0.2) for i in range(200)]
    assert set(splits) == {"train", "validation", "test"}
