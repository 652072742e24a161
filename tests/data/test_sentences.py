"""Sentences with a tag for each word: what is read, and what is refused."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourier_attn import config, data
from fourier_attn.data.batches import IGNORED
from fourier_attn.data.tables import tagged
from fourier_attn.data.tables.sentence_inputs import read_sentences
from fourier_attn.data.tables.sentences import Columns, marks_entities, read_file, sentences
from fourier_attn.data.text import fit, load_tokenizer
from fourier_attn.data.text.places import encode_words

SENTENCES = [
    (("Mr.", "Smith", "met", "Anna-Lena"), ("O", "B-PER", "O", "B-PER")),
    (("She", "lives", "in", "New", "York", "."), ("O", "O", "O", "B-LOC", "I-LOC", "O")),
    (("#", "1"), ("O", "O")),
]


def written(path: Path, kind: str) -> Path:
    """Writes the sentences."""
    if kind == "jsonl":
        lines = [json.dumps({"tokens": words, "ner_tags": tags}) for words, tags in SENTENCES]
        text = "\n".join(lines) + "\n"
    else:
        blank = "\t" if kind == "tab" else "  "
        rows = [
            "".join(f"{word}{blank}NN{blank}{tag}\n" for word, tag in zip(*each, strict=True))
            for each in SENTENCES
        ]
        text = f"-DOCSTART-{blank}-X-{blank}O\n\n" + "\n \n".join(rows)
    contents = text.encode()
    path.write_bytes(gzip.compress(contents) if path.suffix == ".gz" else contents)
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.conll", "space"), ("a.txt.gz", "tab"), ("a.jsonl", "jsonl"), ("a.jsonl.gz", "jsonl")],
)
def test_sentences_are_read_back(tmp_path: Path, name: str, kind: str) -> None:
    path = written(tmp_path / name, kind)
    assert [(read.words, read.tags) for read in read_file(path, Columns())] == SENTENCES
    inputs = [*read_sentences(path, Columns(), ("O", "B-PER"))]
    assert [(each.values["text"], each.values["label"]) for each in inputs] == [
        ([*words], [*tags]) for words, tags in SENTENCES
    ]
    lines = [1, 2, 3] if kind == "jsonl" else [3, 9, 17]
    assert [each.number for each in inputs] == lines


def test_a_line_of_a_document_ends_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("EU B-ORG\n-DOCSTART- O\nBonn B-LOC\n")
    assert [read.words for read in read_file(tmp_path / "a.conll", Columns())] == [("EU",), ("Bonn",)]


def test_other_columns_and_plain_texts(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "space")
    assert [read.tags for read in read_file(path, Columns(tags="2"))][2] == ("NN", "NN")
    (tmp_path / "b.txt").write_text("one sentence here\n\n  another O \n")
    read = [each.values for each in read_sentences(tmp_path / "b.txt", Columns(), ("B-PER", "I-PER"))]
    assert read == [{"text": ["one", "sentence", "here"]}, {"text": ["another", "O"]}]
    (tmp_path / "c.conll").write_text("alone\n")
    assert [each.values for each in read_sentences(tmp_path / "c.conll", Columns(), ())] == [
        {"text": ["alone"]}
    ]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"a O\nb\n", "line 2 has 1 columns instead of the 2 of the first line; give each word one tag"),
        (b"a O\nb X Y\n", "line 2 has 3 columns instead of the 2 .* separate columns by spaces or one tab"),
        (b"a O\n\nb \xff\n", "line 3 is not UTF-8"),
        (b"a\t\n", "has no tag for the word 'a'"),
        (b'{"tokens": ["a", "b"], "tags": ["O"]}', "line 1 has 1 tags for 2 tokens; give each word one tag"),
        (b'{"tokens": "a b", "tags": ["O"]}', "has tokens='a b', not a list"),
        (
            b'{"tokens": ["a"], "ner_tags": [5]}',
            "names of tags; write names, or list the names .* data.labels",
        ),
        (b'{"tokens": [1], "tags": ["O"]}', "not a list of strings"),
        (b'{"text": ["a"], "tags": ["O"]}', "has no 'tokens', but 'text', 'tags'; set data.text"),
        (b'{"tokens": ["a"', "is not a JSON object"),
        (b"[1]", "must be a JSON object"),
        (b'{"tokens": [], "tags": []}', "has no words"),
        (b'{"tokens": ["\\ud800"], "tags": ["O"]}', "unpaired surrogate"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, contents: bytes, message: str) -> None:
    objects = contents[:1] in b"{["
    path = tmp_path / ("a.jsonl" if objects else "a.conll")
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=message) as caught:
        list(read_file(path, Columns()))
    assert str(caught.value).startswith(f"{path}, line")
    read = [*sentences(io.BytesIO(contents + b"\n\na O\n"), "it", Columns(), objects)]
    assert read[0].error or read[1].error


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "space")
    for columns, knob in ((Columns(words="4"), "data.text='4'"), (Columns(tags="ner"), "data.label='ner'")):
        with pytest.raises(ValueError, match=f"has 3 columns, but not {knob}; give a number from 1 to 3"):
            list(read_file(path, columns))


def knobs(file: Path, **more: Any) -> Any:
    settings = config.default("fourier", "tags").data
    settings.update({**dict.fromkeys(("train", "validation", "test"), str(file)), **more})
    return settings


@pytest.mark.parametrize(
    ("other", "knob", "message"),
    [
        (
            "a B-X\n",
            "validation",
            "has the tag 'B-X', but the classes are B-LOC, B-PER, I-LOC, O; fix the tag",
        ),
        ("", "test", "data.test=.* has no sentences"),
        ("a\n", "validation", "has no tags; add them, or set data.label"),
        ("a O\nb O\n", "train", "all tags are 'O'; give sentences with another tag"),
    ],
)
def test_what_a_split_may_not_be(tmp_path: Path, other: str, knob: str, message: str) -> None:
    (tmp_path / "b.conll").write_text(other)
    train = written(tmp_path / "a.conll", "space")
    with pytest.raises(ValueError, match=message):
        tagged.read(knobs(train, **{knob: str(tmp_path / "b.conll")}))


def test_labels_stand_on_first_tokens(tmp_path: Path) -> None:
    """And nowhere else: not on other pieces of a word, on padding, or on words that are cut off."""
    train = written(tmp_path / "a.jsonl", "jsonl")
    (tmp_path / "run").mkdir()
    settings = knobs(train, length=10, tokenizer="bpe", vocab=50, batch=3, buckets=())
    splits = data.load(settings, directory=tmp_path / "run")
    names, batch = splits.knobs["labels"], splits.validation[0]
    assert names == ("B-LOC", "B-PER", "I-LOC", "O")
    tokenizer = load_tokenizer(tmp_path / "run" / "tokenizer.json")
    for i, (words, tags) in enumerate(SENTENCES):
        expected, place = {}, 1
        for word, tag in zip(words, tags, strict=True):
            pieces = tokenizer.encode(word, add_special_tokens=False).tokens
            first = place + (pieces[0] == "▁" and place > 1)  # a blank alone belongs to no word
            if first < 9:  # then comes [SEP]
                expected[first] = tag
            place += len(pieces)
        asked = batch["label"][i] != IGNORED
        found = {
            int(at): names[label]
            for at, label in zip(batch["answer_positions"][i][asked], batch["label"][i][asked], strict=True)
        }
        assert found == expected
    lost = sum(map(len, (words for words, _ in SENTENCES))) - int((batch["label"] != IGNORED).sum())
    assert lost
    assert f"test: {lost} of 12 words exceed data.length=10 tokens and are not scored" in splits.notes


def test_a_test_file_without_tags_has_no_labels(tmp_path: Path) -> None:
    (tmp_path / "b.conll").write_text("a\nb\n\nc\n")
    settings = knobs(written(tmp_path / "a.conll", "space"), test=str(tmp_path / "b.conll"))
    (tmp_path / "run").mkdir()
    splits = data.load(settings, directory=tmp_path / "run")
    assert data.hidden(splits.test.labels)
    assert not data.hidden(splits.validation.labels)


@pytest.mark.parametrize("kind", ["words", "whitespace", "bpe", "unigram", "bytes", "sentencepiece"])
def test_the_first_token_of_a_word_begins_it(kind: str, sentencepiece_file: Path) -> None:
    """What it stands for is a beginning of the word, or the whole of it; the tokens are those of the text."""
    texts = ["the cats saw", "red dogs, and old ones ran"]
    tokenizer = load_tokenizer(sentencepiece_file) if kind == "sentencepiece" else fit(kind, texts, 60)
    words = ["The", "old", "cats,", "Häagen", "saw", "\u200b", "naïve", "東京", "<br", "/>", "dogs."]
    [row], [places] = encode_words(tokenizer, [words], 128)
    framed = kind not in ("words", "whitespace", "bytes")
    text = " ".join(words)
    [read] = tokenizer.encode_batch([text], add_special_tokens=False)
    assert row.tolist()[framed : len(row) - framed] == read.ids
    begins = np.cumsum([0, *(len(word) + 1 for word in words)])
    assert (np.diff(places) >= 0).all()
    for word, begin, place in zip(words, begins, places, strict=False):
        first, last = read.offsets[place - framed]
        assert last > begin
        assert not [end for _, end in read.offsets[: place - framed] if end > begin]
        if word.isascii() and word not in ("<br", "/>"):  # which normalisers drop
            assert text[first:last].strip()
            assert word.startswith(text[first:last].strip())
    short = encode_words(tokenizer, [words], 6)
    assert len(short[0][0]) == 6
    kept = places[places < 6 - framed]
    np.testing.assert_array_equal(short[1][0], kept)


def test_tags_that_mark_entities_have_prefixes() -> None:
    assert marks_entities(["B-PER", "I-PER", "O"])
    assert marks_entities(["U-X", "L-X"])
    assert not marks_entities(["O"])
    assert not marks_entities(["PER", "O"])
    assert not marks_entities(["NN", "VB"])


def test_characters_of_sentencepiece_are_letters_not_bytes(sentencepiece_file: Path) -> None:
    tokenizer, text = load_tokenizer(sentencepiece_file), "東京 é cats saw dogs, 東 and ran."
    [read] = tokenizer.encode_batch([text])
    assert read.ids == tokenizer.encode_batch_fast([text])[0].ids
    pieces = [tokenizer.id_to_token(i).replace("▁", " ").strip() for i in read.ids]
    shown = [text[first:last].strip() for first, last in read.offsets]
    known = [(piece, there) for piece, there in zip(pieces, shown, strict=True) if piece.isalpha()]
    assert len(known) >= 5
    assert all(piece == there for piece, there in known)
