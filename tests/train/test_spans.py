"""Answers in a text, from a file in SQuAD's form to a trained run, its answers, its scores and its export."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal, run_here
from contexts import write_squad

from fourier_attn import config, data, main
from fourier_attn.data.spans import SpanBatches
from fourier_attn.data.tables import squad
from fourier_attn.data.text import load_tokenizer
from fourier_attn.inference import export
from fourier_attn.inference.classify import Classifier, answer_of, context_windows, span_probabilities
from fourier_attn.inference.predictor import Predictor
from fourier_attn.train import span_scores
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.rundir.metrics_log import read_lines


def knobs(file: Path, **more: Any) -> Any:
    settings = config.default("fourier", "squad").data
    settings.update({**dict.fromkeys(("train", "validation", "test"), str(file)), **more})
    return settings


@pytest.mark.parametrize(
    ("length", "stride", "tokens"), [(12, 3, 20), (12, 100, 20), (40, 5, 20), (9, 1, 0), (9, 2, 5)]
)
def test_windows_hold_every_token_of_a_context(length: int, stride: int, tokens: int) -> None:
    question, context = [7, 8], [*range(100, 100 + tokens)]
    windows = context_windows(question, context, length, stride, 1, 2)
    room, seen = length - 5, set()
    for row, begin, count in windows:
        assert row == [1, *question, 2, *context[begin : begin + count], 2]
        assert count == min(room, tokens)
        seen |= {*range(begin, begin + count)}
    assert seen == {*range(tokens)}
    begins = [begin for _, begin, _ in windows]
    assert all(0 < b - a <= min(stride, room) for a, b in itertools.pairwise(begins))
    assert begins[-1] + windows[-1][2] == tokens
    assert len(context_windows([*range(99)], context, length, stride, 1, 2)[0][0]) <= length  # is cut


def test_labels_are_the_tokens_of_the_answers(tmp_path: Path) -> None:
    """In each window that holds the whole answer; in others the first token."""
    file = write_squad(tmp_path / "a.json", 40, most=12)
    (tmp_path / "run").mkdir()
    splits = data.load(knobs(file, length=24, stride=1, buckets=(), vocab=120), directory=tmp_path / "run")
    tokenizer = load_tokenizer(tmp_path / "run" / "tokenizer.json")
    batches, window, held = splits.test, 0, 0
    assert isinstance(batches, SpanBatches)
    questions = [*squad.read_file(file)]
    for asked, question in zip(batches.asked, questions, strict=True):
        text, start = question.answers[0]
        assert question.context[start : start + len(text)] == text
        offsets = tokenizer.encode(question.context, add_special_tokens=False).offsets
        inside = [i for i, (a, b) in enumerate(offsets) if a < start + len(text) and b > start]
        for begin, count in zip(asked.begins, asked.counts, strict=True):
            label = batches.labels[window].tolist()
            if begin <= inside[0] and inside[-1] < begin + count:
                assert label == [inside[0] - begin + 1, inside[-1] - begin + 1]
                row = batches.rows[window]
                head = len(row) - 1 - count
                tokens = row[head + label[0] - 1 : head + label[1]].tolist()
                assert tokenizer.decode(tokens).strip() == text.lower()
                held += 1
            else:
                assert label == [0, 0]
            window += 1
    assert window == len(batches.rows)
    assert 0 < held < window


def test_the_loss_is_the_mean_of_both_cross_entropies_over_real_places() -> None:
    logits, places = normal(3, 5, 2), np.array([5, 3, 4])
    label, weight = np.array([[1, 4], [0, 2], [3, 3]]), np.array([1.0, 1.0, 0.0])
    batch = {"label": jnp.asarray(label, jnp.int32), "places": jnp.asarray(places, jnp.int32)}
    batch["weight"] = jnp.asarray(weight, jnp.float32)
    objective = OBJECTIVES["spans"]
    sums = objective.sums(logits, batch)
    losses, right = [], []
    for i in range(2):
        for side in range(2):
            real = np.asarray(logits, np.float64)[i, : places[i], side]
            losses.append(np.log(np.exp(real).sum()) - real[label[i, side]])
            right.append(real.argmax() == label[i, side])
    np.testing.assert_allclose(sums["loss"], [sum(losses), 4], rtol=1e-5)  # float32
    np.testing.assert_allclose(sums["accuracy"], [sum(right), 4])
    np.testing.assert_allclose(objective.loss(sums, objective.counts(batch)), np.mean(losses), rtol=1e-5)


def test_the_answer_is_the_likeliest_span_of_all_windows() -> None:
    random, context = np.random.default_rng(0), " one two  three four five six."
    offsets = [(0, 4), (4, 8), (8, 15), (15, 20), (20, 25), (25, 29), (29, 30)]
    for most in (1, 2, 5) * 20:
        windows = [span_probabilities(random.normal(size=(size, 2), scale=2)) for size in (5, 4, 4)]
        for window in windows:
            np.testing.assert_allclose(window.sum(0), 1)
        begins = [0, 2, 4]
        tried = [
            (window[1 + i, 0] * window[1 + j, 1], begin + i, begin + j)
            for window, begin in zip(windows, begins, strict=True)
            for i in range(len(window) - 1)
            for j in range(i, min(i + most, len(window) - 1))
        ]
        probability, first, last = max(tried)
        answer = answer_of(context, offsets, windows, begins, most, unanswerable=False)
        assert answer["probability"] == pytest.approx(probability)
        assert answer["text"] == context[offsets[first][0] : offsets[last][1]].strip()
        assert context[answer["start"] : answer["end"]] == answer["text"]
        none = min(window[0, 0] * window[0, 1] for window in windows)
        either = answer_of(context, offsets, windows, begins, most, unanswerable=True)
        assert either["text"] == ("" if none > probability else answer["text"])
    sure = [np.array([[0.9, 0.9], [0.1, 0.1]])]
    assert answer_of("a", [(0, 1)], sure, [0], 3, unanswerable=True) == {
        "text": "",
        "start": 0,
        "end": 0,
        "probability": pytest.approx(0.81),
    }
    assert answer_of("a", [(0, 1)], sure, [0], 3, unanswerable=False)["text"] == "a"


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "f1"),
    [
        ("The Eiffel Tower", ["Eiffel tower."], 1, 1),
        ("an  apple", ["apple", "x"], 1, 1),
        ("in Paris France", ["Paris"], 0, 0.5),
        ("Paris Paris", ["Paris of Paris"], 0, 0.8),
        ("London", ["Paris"], 0, 0),
        ("", [""], 1, 1),
        ("the", ["x"], 0, 0),
        ("x", [""], 0, 0),
        ("theatre", ["atre"], 0, 0),
    ],
)
def test_scores_are_those_of_squad(prediction: str, answers: list[str], exact: float, f1: float) -> None:
    """By hand, from the rules: lower case, no punctuation, no articles; the best of all answers."""
    scores = span_scores.scored([prediction], [answers])
    assert scores == {"exact_match": exact, "answer_f1": pytest.approx(f1)}


def change(path: Path, how: Callable[[dict], Any]) -> None:
    document = json.loads(path.read_text())
    how(document["data"][0]["paragraphs"][1])
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            lambda p: p["qas"][1]["answers"][0].update(answer_start=0),
            r"data\[0\].paragraphs\[1\].qas\[1\] has answer_start=0 for the answer .*, but .* set it to \d+",
        ),
        (lambda p: p["qas"][0]["answers"][0].update(text="Rome"), "fix the answer, which is not in the"),
        (
            lambda p: p["qas"][0]["answers"][0].update(answer_start="3"),
            "answer_start='3', not an integer",
        ),
        (lambda p: p["qas"][0].update(answers=[]), r"has answers=\[\]; give a list of answers, or is_imposs"),
        (lambda p: p["qas"][0].update(question=" "), "has question=' ', not a text"),
        (lambda p: p.pop("context"), "has context=None, not a text"),
        (lambda p: p.pop("qas"), "has no list 'qas'"),
    ],
)
def test_what_a_file_may_not_have_is_named(tmp_path: Path, how: Callable, message: str) -> None:
    file = write_squad(tmp_path / "a.json", 4)
    change(file, how)
    with pytest.raises(ValueError, match=message) as caught:
        squad.read(knobs(file))
    assert str(caught.value).startswith(f"{file}, data[0].paragraphs[1]")


def test_a_file_that_is_no_squad(tmp_path: Path) -> None:
    for contents, message in (
        ("{", "is not JSON"),
        ("[]", "has no list 'data'"),
        ('{"data": []}', "no questions"),
    ):
        (tmp_path / "a.json").write_text(contents)
        with pytest.raises(ValueError, match=message):
            squad.read(knobs(tmp_path / "a.json"))


def test_questions_about_a_context_stay_together(tmp_path: Path) -> None:
    """Where validation and test are shares of train; questions without an answer are allowed."""
    file = write_squad(tmp_path / "a.json", 20)
    change(file, lambda p: p["qas"][0].update(answers=[], is_impossible=True))
    read = squad.read(knobs(file, validation="", test=""))
    contexts = {split: {each.context for each in part} for split, part in read.parts.items()}
    assert sum(map(len, read.parts.values())) == 40
    assert sum(map(len, contexts.values())) == len(set().union(*contexts.values()))
    none = [each for part in read.parts.values() for each in part if not each.answers]
    assert [each.texts() for each in none] == [[""]]
    assert len(squad.read(knobs(file, train_examples=3)).parts["train"]) == 3


@pytest.mark.slow
def test_a_file_of_questions_end_to_end(tmp_path: Path) -> None:
    """Through the command: train, evaluate, predict, export, load again; contexts take several windows."""
    train, test = write_squad(tmp_path / "train.json", 300), write_squad(tmp_path / "test.json", 30, seed=1)
    run = tmp_path / "run"
    options = {
        "data.train": train,
        "data.test": test,
        "data.length": 24,
        "data.stride": 6,
        "data.buckets": "()",
        "model.positions": 24,
        "model.depth": 1,
        "model.d": 32,
        "model.mlp": 64,
        "model.norm_position": "pre",
        "optim.learning_rate": 5e-3,
        "optim.warmup_steps": 10,
        "train.epochs": 8,
        "train.patience": 0,
    }
    words = [f"--config.{name}={value}" for name, value in options.items()]
    code, out, err = run_here(main, "--config=configs/attention.py:squad", f"--workdir={run}", *words)
    assert code == 0, err
    result = read_lines(run)[-1]
    assert result["answer_f1"] > 0.9
    written = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    assert (len(written), result["examples"]) == (60, 60)
    right = [line["prediction"] in line["answers"] for line in written]
    assert np.mean(right) <= result["exact_match"]

    code, out, err = run_here(main, "--mode=eval", f"--workdir={run}")
    assert code == 0, err
    assert f"answer_f1 {result['answer_f1']:.4f}" in out
    answers = tmp_path / "answers.jsonl"
    code, _, err = run_here(
        main, "--mode=predict", f"--workdir={run}", f"--input={test}", f"--output={answers}"
    )
    assert code == 0, err
    scores = json.loads((tmp_path / "answers.metrics.json").read_text())
    assert scores["answer_f1"] == pytest.approx(result["answer_f1"])
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [line["text"] for line in lines] == [line["prediction"] for line in written]
    assert max(line["windows"] for line in lines) > 1
    for line, question in zip(lines, squad.read_file(test), strict=True):
        assert question.context[line["start"] : line["end"]] == line["text"]
    context = "the road was long. Mr. kim lives in New York; the weather was fine."
    code, out, err = run_here(
        main, "--mode=predict", f"--workdir={run}", "--text=where does he live?", f"--text_pair={context}"
    )
    assert (code, out.rpartition(" ")[0]) == (0, "New York"), err
    code, _, err = run_here(main, "--mode=predict", f"--workdir={run}", "--text=where?")
    assert (code, err.count("\n")) == (2, 1)

    reader, asked = Predictor.load(run), (["who lives there?", "where does he live?"], [context, context])
    export.export(run, tmp_path / "folder", "huggingface")
    assert Predictor.load(tmp_path / "folder")(*asked) == reader(*asked)
    pytest.importorskip("flatbuffers")
    command = [sys.executable, "-m", "fourier_attn.export", f"--workdir={run}", f"--to={tmp_path / 'out'}"]
    subprocess.run(command, check=True, capture_output=True)
    for ours, theirs in zip(reader(*asked), Classifier(tmp_path / "out")(*asked), strict=True):
        assert ours["probability"] == pytest.approx(theirs["probability"], abs=1e-5)
        assert {name: ours[name] for name in ("text", "start", "end")} == {
            name: theirs[name] for name in ("text", "start", "end")
        }
    command = [sys.executable, str(tmp_path / "out" / "classify.py"), "who lives there?", context]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("kim\t")
