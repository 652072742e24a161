"""A trained run in use: the answers, their order, and what is refused."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import run_here

import fourier_attn
from fourier_attn import data, main, predict
from fourier_attn.train.writer import read_lines

pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")
TEXTS = ["The film was not dull.", "zzz qqq xxx", "I liked the long and brave story.", "dull"]


@pytest.fixture(scope="module")
def predictor(toy_run: Path) -> predict.Predictor:
    return fourier_attn.Predictor.load(toy_run)


def test_answers_keep_the_order_and_are_those_of_each_alone(predictor: predict.Predictor) -> None:
    together = predictor(TEXTS * 10)
    assert len(together) == 40
    for text, answer in zip(TEXTS, together, strict=False):
        [alone] = predictor([text])
        assert alone["label"] == answer["label"]
        assert alone["probability"] == pytest.approx(answer["probability"], abs=1e-6)  # float32
    for first, again in zip(together[:4], together[36:], strict=True):
        assert first["probability"] == pytest.approx(again["probability"], abs=1e-6)
    for answer in together:
        assert answer["probabilities"].keys() == {"negative", "positive"}
        assert answer["probability"] == max(answer["probabilities"].values())
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-6)
        assert answer["probabilities"][answer["label"]] == answer["probability"]
    assert [answer["unknown"] for answer in together[:2]] == [0.0, 1.0]


def test_answers_are_those_of_the_evaluation(predictor: predict.Predictor, toy_run: Path) -> None:
    """Of all test texts, as the run has written them."""
    examples = data.reading.read(predictor.config.data)["test"]
    answers = predictor(examples.texts)
    written = [json.loads(line) for line in (toy_run / "predictions.jsonl").read_text().splitlines()]
    names = predictor.task.labels
    assert [answer["label"] for answer in answers] == [names[line["prediction"]] for line in written]
    probabilities = [line["probability"] for line in written]
    np.testing.assert_allclose([a["probability"] for a in answers], probabilities, atol=2e-6)  # six digits
    right = np.mean([names[label] == a["label"] for label, a in zip(examples.labels, answers, strict=True)])
    assert right == pytest.approx(read_lines(toy_run)[-1]["accuracy"])


@pytest.mark.parametrize(
    ("texts", "text_pairs", "message"),
    [
        ("one", None, "is one text; give a list"),
        (["a", " "], None, "text=' ' is empty; write a text there"),
        (["a", 3], None, "text=3 is no text"),
        (["a", "\ud800"], None, "is not UTF-8"),
        (["a"], ["b"], r"is about 1 text\(s\); give text alone"),
        (["a"], ["b", "c"], "there are 1 texts and 2 second ones"),
    ],
)
def test_bad_texts_are_named(
    predictor: predict.Predictor, texts: object, text_pairs: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        predictor(texts, text_pairs)
    assert predictor([]) == []


def test_a_program_is_compiled_once_for_each_length(predictor: predict.Predictor) -> None:
    predictor(TEXTS)
    size = predictor.eval_step._cache_size()
    predictor(TEXTS * 30)
    predictor(TEXTS[:1])
    assert predictor.eval_step._cache_size() == size


LINES = [json.dumps({"text": text, "id": i}) for i, text in enumerate(TEXTS)]


def test_lines_are_judged_in_order(toy_run: Path, tmp_path: Path, predictor: predict.Predictor) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join([*LINES, "", json.dumps(TEXTS[0])]) + "\n")
    code, out, err = run_here(
        main, "--mode=predict", f"--workdir={toy_run}", f"--input={source}", f"--output={target}"
    )
    assert (code, out) == (0, "")
    assert err == "5 judged; in 2 over 20% of the tokens are unknown\n"
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert [answer.pop("line") for answer in answers] == [1, 2, 3, 4, 6]
    assert answers == predictor([*TEXTS, TEXTS[0]])


def test_a_bad_line_is_named_or_skipped(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = [b'{"text"', b'{"text": " "}', b'{"note": "x"}', b"caf\xe9", b"[" * 100_000, b"x" * (2**24 + 9)]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    for number, line in enumerate(bad):
        source.write_bytes(b"\n".join([LINES[0].encode(), line, LINES[1].encode()]))
        options = ("--mode=predict", f"--workdir={toy_run}", f"--input={source}", f"--output={target}")
        code, out, err = run_here(main, *options)
        assert (code, out) == (2, ""), number
        assert "in.jsonl, line 2: " in err
        assert "--skip_bad" in err
        assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    source.write_text(LINES[0])
    code, _, err = run_here(main, *options[:-1], f"--output={tmp_path}")
    assert (code, f"--output={tmp_path} is no file" in err, tmp_path.is_dir()) == (2, True, True)
    code, _, err = run_here(main, f"--workdir={toy_run}", "--text=fine")
    assert (code, err) == (2, "error: --text needs --mode=predict or explain; it is train\n")
    (tmp_path / "link.jsonl").symlink_to(source)
    code, _, err = run_here(main, *options[:-1], f"--output={tmp_path / 'link.jsonl'}")
    assert (code, "is the file of --input" in err, source.read_text()) == (2, True, LINES[0])
    for more, needed in ((f"--output={target}", " or --image=FILE"), ("--skip_bad", "")):
        code, out, err = run_here(main, "--mode=predict", f"--workdir={toy_run}", "--text=fine", more)
        assert (code, out, err) == (2, "", f"error: {more.partition('=')[0]} needs --input=FILE{needed}\n")
    source.write_bytes(b"\n".join([LINES[0].encode(), *bad, LINES[1].encode()]))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(source.read_bytes())))
    code, out, err = run_here(main, "--mode=predict", f"--workdir={toy_run}", "--input=-", "--skip_bad")
    assert code == 0
    assert [json.loads(line)["line"] for line in out.splitlines()] == [1, 8]
    assert "standard input, line 4 is skipped" in err
    assert "2 judged, 6 skipped" in err
