"""Tags of words, from a CoNLL file to a trained run, its answers, its scores and its export."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import array, drawn, run_here
from sentences import write_conll
from sklearn.metrics import f1_score

from fourier_attn import config, data, main, model
from fourier_attn.data.text import fit
from fourier_attn.inference import export, tag_scores
from fourier_attn.inference.classify import Classifier, entities
from fourier_attn.inference.predictor import Predictor
from fourier_attn.train import entity_scores
from fourier_attn.train.rundir.metrics_log import read_lines

LABELS = ("B-LOC", "B-PER", "I-PER", "O")


def predictor(labels: tuple[str, ...] = LABELS, seeds: int = 1) -> Predictor:
    """A network with random parameters that tags at most ten tokens."""
    c = config.default("attention", "tags")
    c.data.labels, c.data.length, c.data.buckets = labels, 10, ()
    c.model.update({"d": 8, "depth": 1, "mlp": 8, "head": "tokens", "classes": len(labels), "positions": 10})
    c.train.seeds = seeds
    tokenizer = fit("bpe", ["Mr. smith met the king in berlin"], 40)
    c.model.vocab = tokenizer.get_vocab_size()
    network = model.build(c.model)
    params = drawn(network, array(np.zeros((1, 10), np.int32)))["params"]
    if seeds > 1:
        params = jax.tree.map(lambda p: array(np.stack([p * (1 + seed) for seed in range(seeds)])), params)
    return Predictor(c, network, params, tokenizer)


def test_each_word_that_is_read_gets_a_tag() -> None:
    tagger = predictor()
    words = ["Mr.", "smith", "met", "the", "king", "in", "berlin", "Mr.", "smith"]
    short, long, again = tagger([" ".join(words[:3]), words, words[:3]])
    assert short == again
    assert [word["word"] for word in short["words"]] == words[:3]
    assert (short["cut"], short["unknown"]) == (0, 0)
    read = len(long["words"])
    assert long["cut"] == pytest.approx(1 - read / 9, abs=1e-4)
    assert 0 < read < 9
    for answer in (short, long):
        tags = [word["tag"] for word in answer["words"]]
        found = [(each["type"], each["first"], each["last"]) for each in answer["entities"]]
        assert found == entities(tags)
        for each in answer["entities"]:
            part = answer["words"][each["first"] : each["last"] + 1]
            assert each["text"] == " ".join(word["word"] for word in part)
            assert each["probability"] == min(word["probability"] for word in part)
    assert "entities" not in predictor(("NN", "VB"))([words])[0]


def test_tags_are_those_of_the_network_at_first_tokens() -> None:
    """Of several networks the mean of their probabilities."""
    tagger = predictor(seeds=2)
    [answer] = tagger(["Mr. smith met"])
    ids = tagger.tokenizer.encode("Mr. smith met", add_special_tokens=False)
    row = array(np.array([[4, *ids.ids, 5] + [3] * (8 - len(ids.ids))], np.int32))
    mask = array(np.array([[True] * (len(ids.ids) + 2) + [False] * (8 - len(ids.ids))]))
    logits = [
        tagger.network.apply({"params": jax.tree.map(lambda p, i=i: p[i], tagger.params)}, row, mask=mask)[0]
        for i in range(2)
    ]
    mean = np.mean([np.asarray(jax.nn.softmax(each)) for each in logits], axis=0)
    first = [1 + next(i for i, (_, end) in enumerate(ids.offsets) if end > begin) for begin in (0, 4, 10)]
    expected = mean[first]
    assert [word["tag"] for word in answer["words"]] == [LABELS[i] for i in expected.argmax(-1)]
    np.testing.assert_allclose(
        [word["probability"] for word in answer["words"]], expected.max(-1), rtol=1e-5
    )  # float32


@pytest.mark.parametrize("sentence", ["", "  ", [], [""], [3], 3, None, ["\ud800"]])
def test_what_has_no_words_is_refused(sentence: Any) -> None:
    with pytest.raises(ValueError, match="text="):
        predictor()([sentence])
    with pytest.raises(ValueError, match="takes 1 text"):
        predictor()(["a"], ["b"])


@pytest.mark.parametrize("labels", [LABELS, ("NN", "VB", "XX")])
def test_scores_of_a_stream_are_those_of_all_sentences(labels: tuple[str, ...]) -> None:
    random, counted = np.random.default_rng(0), tag_scores.TagScores(labels)
    assert counted.scores() == {}
    pairs = [random.choice(labels, (2, random.integers(1, 9))).tolist() for _ in range(40)]
    for true, found in pairs:
        counted.add([*true, labels[0]], {"words": [{"tag": tag} for tag in found]})  # the last word was cut
    scores, flat = counted.scores(), [np.concatenate(each).tolist() for each in zip(*pairs, strict=True)]
    assert scores["accuracy"] == pytest.approx(np.mean(np.array(flat[0]) == np.array(flat[1])))
    if "O" in labels:
        expected = entity_scores.total(entity_scores.count(*([pair[i] for pair in pairs] for i in (1, 0))))
        assert {name: scores[name] for name in entity_scores.NAMES} == expected.scores()
        assert [*scores["types"]] == ["LOC", "PER"]
        assert len([*tag_scores.type_table(scores)]) == 3
    else:
        assert scores["macro_f1"] == pytest.approx(f1_score(*flat, average="macro"))


@pytest.mark.slow
def test_a_file_of_tags_end_to_end(tmp_path: Path) -> None:
    """Through the command: train, evaluate, predict, export, load again."""
    train, test = (
        write_conll(tmp_path / "train.conll", 1000),
        write_conll(tmp_path / "test.conll", 60, seed=1),
    )
    run = tmp_path / "run"
    knobs = {
        "data.train": train,
        "data.test": test,
        "data.length": 24,
        "data.buckets": "(16,)",
        "model.positions": 24,
        "model.depth": 1,
        "model.d": 32,
        "model.mlp": 64,
        "optim.learning_rate": 5e-3,
        "optim.warmup_steps": 10,
        "train.epochs": 8,
        "train.patience": 0,
    }
    words = [f"--config.{name}={value}" for name, value in knobs.items()]
    code, out, err = run_here(main, "--config=configs/attention.py:tags", f"--workdir={run}", *words)
    assert code == 0, err
    assert "tags mark entities" in out
    result = read_lines(run)[-1]
    assert result["entity_f1"] > 0.9
    written = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    assert len(written) == 60
    assert all(len(line["label"]) == len(line["prediction"]) for line in written)

    code, out, err = run_here(main, "--mode=eval", f"--workdir={run}")
    assert code == 0, err
    assert f"test loss {result['loss']:.4f} accuracy {100 * result['accuracy']:.2f} %" in out
    answers = tmp_path / "answers.jsonl"
    code, _, err = run_here(
        main, "--mode=predict", f"--workdir={run}", f"--input={test}", f"--output={answers}"
    )
    assert code == 0, err
    scores = json.loads((tmp_path / "answers.metrics.json").read_text())
    for name in entity_scores.NAMES:
        assert scores[name] == pytest.approx(result[name])
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    for line, known in zip(lines, written, strict=True):
        assert [word["tag"] for word in line["words"]] == [LABELS[i] for i in known["prediction"]]
    code, out, err = run_here(main, "--mode=predict", f"--workdir={run}", "--text=Mr. ann smith met the king")
    assert code == 0, err
    assert [line.split()[:2] for line in out.splitlines()][:3] == [
        ["Mr.", "O"],
        ["ann", "B-PER"],
        ["smith", "I-PER"],
    ]
    assert "PER: ann smith" in out

    tagger, texts = Predictor.load(run), ["Mr. ann smith met the king", "in rome Mr. kim asked"]
    export.export(run, tmp_path / "folder", "huggingface")
    assert Predictor.load(tmp_path / "folder")(texts) == tagger(texts)
    pytest.importorskip("flatbuffers")
    command = [sys.executable, "-m", "fourier_attn.export", f"--workdir={run}", f"--to={tmp_path / 'out'}"]
    subprocess.run(command, check=True, capture_output=True)
    for answer, rows in zip(tagger(texts), Classifier(tmp_path / "out")(texts), strict=True):
        expected = [word["probability"] for word in answer["words"]]
        np.testing.assert_allclose(rows.max(axis=-1), expected, atol=1e-5)
    command = [sys.executable, str(tmp_path / "out" / "classify.py"), texts[0]]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[1].split("\t")[::2] == ["B-PER", "ann"]
    assert data.TASKS["tags"].tagged
