"""Tokenizer files that a model could not use, or that would do harm: one message each."""

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fourier_attn.data.text import (
    check_file,
    copy_tokenizer,
    encode,
    fit,
    load_tokenizer,
    save_tokenizer,
    tokenizer_checks,
    tokenizer_files,
)

TEXTS = ["The cats saw two red dogs , and one ran ."] * 3


def settings(kind: str = "words") -> dict[str, Any]:
    return json.loads(fit(kind, TEXTS, 60).to_str())


def write(path: Path, contents: dict[str, Any]) -> Path:
    path.write_text(json.dumps(contents))
    return path


def replace(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def ids_beyond(made: dict[str, Any]) -> None:
    made["model"]["vocab"]["cats"] = 999


def one_id(made: dict[str, Any]) -> None:
    for word in made["model"]["vocab"]:
        if not word.startswith("["):
            made["model"]["vocab"][word] = 2


def a_shared_id(made: dict[str, Any]) -> None:
    made["model"]["vocab"]["cats"] = made["model"]["vocab"]["dogs"]


def a_hole(made: dict[str, Any]) -> None:
    del made["model"]["vocab"]["cats"]


def no_unknown(made: dict[str, Any]) -> None:
    made["model"]["unk_token"] = "missing"


def no_padding(made: dict[str, Any]) -> None:
    made["added_tokens"] = [token for token in made["added_tokens"] if token["content"] != "[PAD]"]
    vocabulary = [word for word in made["model"]["vocab"] if word != "[PAD]"]
    made["model"]["vocab"] = {word: index for index, word in enumerate(vocabulary)}
    for token in made["added_tokens"]:
        token["id"] = made["model"]["vocab"][token["content"]]


def all_the_same(made: dict[str, Any]) -> None:
    made["normalizer"] = replace(".+", "cats", "Regex")


def multiply(*rules: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def change(made: dict[str, Any]) -> None:
        made["normalizer"] = {"type": "Sequence", "normalizers": list(rules)}

    return change


TEN_FOLD = [replace("a", "a" * 10)] * 20  # 10^20 letters of one, were they ever made
RARE = [replace("xyzzy", "q" * 60), replace("qq", "w" * 60), replace("ww", "v" * 60)]
RARE_REGEX = [
    replace("x[y]zzy", "q" * 60, "Regex"),
    replace("[q]", "w" * 60, "Regex"),
    replace("[w]", "v" * 60, "Regex"),
]
NESTED = {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": TEN_FOLD}]}
TABLE = (0).to_bytes(4, "little") + b"x" * 101 + b"\0"
PRECOMPILED = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(TABLE).decode()}
BAD = [
    (ids_beyond, "it has 13 tokens, and 'cats' the id 999; the ids must be 0 to 12"),
    (a_hole, "it has 12 tokens, and .* the id 12; the ids must be 0 to 11"),
    (one_id, "both have the id 2; give each token its own"),
    (a_shared_id, "both have the id"),
    (no_unknown, "Missing .* token from the vocabulary"),
    (no_padding, "the tokenizer lacks the token '<pad>' or '<unk>'"),
    (all_the_same, "it returns the same for all texts"),
    (multiply(*TEN_FOLD), r"its normaliser makes 1,?000 characters of 'a'; remove that rule"),
    (multiply(NESTED), r"its normaliser makes 1,?000 characters of 'a'; remove that rule"),
    (multiply(*RARE), "its normaliser makes .* characters of"),
    (multiply(*RARE_REGEX), "its normaliser makes .* characters of"),
    (multiply(replace("", "b" * 65)), "its normaliser makes .* characters of"),
    (
        multiply(replace("a", "a" * 101)),
        "a rule of its normaliser, 'a+', has 101 characters",
    ),
    (multiply({"type": "Prepend", "prepend": "a" * 101}), "has 101 characters, more than 100"),
    (multiply(*[{"type": "NFC"}] * 257), "its normaliser has 257 steps, more than 256"),
    (multiply(PRECOMPILED), "its normaliser makes 101 bytes of a character, more than 100"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=range(len(BAD)))
def test_a_tokenizer_that_a_model_could_not_use(change: Callable, message: str, tmp_path: Path) -> None:
    made = settings()
    change(made)
    path = write(tmp_path / "bad.json", made)
    for read in (lambda: load_tokenizer(path), lambda: check_file(str(path))):
        with pytest.raises(ValueError, match=f"bad.json cannot be used: .*{message}.*; give another"):
            read()
    with pytest.raises(ValueError, match=message):
        copy_tokenizer(path, tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_added_tokens_do_not_run_the_normaliser_first(tmp_path: Path) -> None:
    """The library normalises them while it reads the file."""
    made = settings()
    multiply(*TEN_FOLD)(made)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    made["added_tokens"].append({"id": 14, "content": "abc", "normalized": True, **flags})
    with pytest.raises(ValueError, match=r"its normaliser makes 1,?000 characters of 'a'"):
        load_tokenizer(write(tmp_path / "bad.json", made))


@pytest.mark.parametrize("contents", ["[]", "{}", "7", "[" * 100_000, '{"normalizer": 3}'])
def test_json_that_is_no_tokenizer(contents: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(contents)
    with pytest.raises(ValueError, match="bad.json cannot be used: "):
        load_tokenizer(tmp_path / "bad.json")


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.model"])
def test_regular_files_of_some_size_only(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(ValueError, match=f"{name} is a named pipe, not a regular file"):
        load_tokenizer(path)
    path.unlink()
    with pytest.raises(ValueError, match=f"{name} cannot be opened"):
        load_tokenizer(path)
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=f"{name} is a device, not a regular file"):
        load_tokenizer(path)
    path.unlink()
    monkeypatch.setattr(tokenizer_files, "LARGEST_FILE", 1000)
    path.write_bytes(bytes(1001))
    with pytest.raises(ValueError, match=f"{name} has more than 1,000 bytes"):
        load_tokenizer(path)


def test_a_sentencepiece_model_that_multiplies_texts(sentencepiece_file: Path, tmp_path: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2

    messages: Any = sentencepiece_model_pb2
    model = messages.ModelProto.FromString(sentencepiece_file.read_bytes())
    table = model.normalizer_spec.precompiled_charsmap
    assert len(table) > 1000  # that of NFKC, which is fine
    model.normalizer_spec.precompiled_charsmap = table + b"x" * 101 + b"\0"
    path = tmp_path / "bad.model"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="bad.model cannot be used: its normaliser makes 101 bytes of a"):
        load_tokenizer(path)


@pytest.mark.parametrize("kind", ["words", "bytes", "bpe", "unigram"])
def test_our_own_tokenizers_pass(kind: str, tmp_path: Path) -> None:
    tokenizer = fit(kind, TEXTS, 40)
    save_tokenizer(tokenizer, tmp_path)
    read = load_tokenizer(tmp_path / "tokenizer.json")
    assert [row.tolist() for row in encode(read, TEXTS, 99)] == [
        row.tolist() for row in encode(tokenizer, TEXTS, 99)
    ]


def test_published_normalisers_pass() -> None:
    """Those of ALBERT, XLM-R and a byte-level one, as far as they differ from ours."""
    for steps in (
        [
            replace("``", '"'),
            replace("''", '"'),
            {"type": "NFKD"},
            {"type": "StripAccents"},
            {"type": "Lowercase"},
        ],
        [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁"), replace(" {2,}", " ", "Regex")],
        [{"type": "NFC"}, replace("™", "(trademark)"), replace("\n", "<newline>"), {"type": "ByteLevel"}],
        [{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True}],
    ):
        for step in steps:
            if step["type"] == "BertNormalizer":
                step["strip_accents"] = None
        made = settings()
        multiply(*steps)(made)
        tokenizer_checks.check_normaliser(json.dumps(made))
