"""Next-token and masked language models: data, training, evaluation, resuming and what is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import final_state, run_here

from configs import lm, mlm
from fourier_attn import config, data, main, model, train
from fourier_attn.data.skills import IGNORED
from fourier_attn.data.text import load_tokenizer, special, tokenizer_file
from fourier_attn.inference import evaluation, export, predictor
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.summary import finished

pytestmark = pytest.mark.usefixtures("standard_promotion")

WORDS = ["cat", "dog", "sees", "runs", "the", "a", "red", "blue", "house", "garden"]
SENTENCE = "the cat sees a red house and runs"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    draw = np.random.default_rng(0)
    documents = [f"{SENTENCE} {' '.join(draw.choice(WORDS, 9))} {SENTENCE} ." for _ in range(60)]
    where = tmp_path_factory.mktemp("texts") / "toy.txt"
    where.write_text("\n\n".join(documents))
    return str(where)


def toy(texts: str, task: str = "lm", mixer: str = "attention") -> config.Config:
    c = (lm if task == "lm" else mlm).get_config(f"{mixer}-files")
    c.data.corpora, c.data.holdout, c.data.vocab, c.data.length, c.data.batch = (texts,), 0.1, 60, 16, 8
    c.model.update({"positions": 16, "d": 16, "mlp": 16, "depth": 1})
    c.optim.warmup_steps, c.optim.learning_rate = 5, 1e-2
    c.train.epochs, c.train.log_every, c.train.save_every = 2, 5, 7
    return config.fit_length(c)


@pytest.fixture(scope="module")
def toy_lm(texts: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("lm")
    with jax.numpy_dtype_promotion("standard"):
        train.run(toy(texts), where)
    return where


@pytest.mark.parametrize("kind", ["bpe", "words", "bytes"])
def test_windows_spell_the_texts(kind: str, texts: str, tmp_path: Path) -> None:
    """Decoded, all labels of a split are its documents, whatever the tokenizer; words do not depend on it."""
    part = config.with_values(toy(texts).data, {"tokenizer": kind})
    splits = data.load(part, directory=tmp_path)
    tokenizer = load_tokenizer(tokenizer_file(tmp_path))
    labels = splits.test.labels[splits.test.labels != IGNORED].tolist()
    ids = special(tokenizer)
    end = ids.pad if ids.end is None else ids.end
    ends = [i for i, token in enumerate(labels) if token == end]
    assert ends[-1] == len(labels) - 1
    documents = np.split(labels, [i + 1 for i in ends[:-1]])
    read = data.corpus.read_corpora(part)["test"]
    spelt = [tokenizer.decode(document[:-1].tolist()).replace(" ", "") for document in documents]
    assert [s.replace("Ġ", "") for s in spelt] == [text.replace(" ", "") for text in read]
    words = sum(
        batch["words"] @ batch["weight"] for batch in (splits.test[i] for i in range(len(splits.test)))
    )
    assert words == sum(len(text.split()) for text in read)
    assert "test" in splits.notes[0]
    assert "a word)" in splits.notes[0]
    assert "unknown" not in splits.notes[0]


def test_unknown_tokens_are_reported(texts: str, tmp_path: Path) -> None:
    splits = data.load(
        config.with_values(toy(texts).data, {"tokenizer": "words", "vocab": 6}), directory=tmp_path
    )
    assert "; unknown: train " in splits.notes[0]


def test_every_mixer_is_sound_at_its_own_sizes() -> None:
    """Masked models take every mixer; next-token models those that can be causal."""
    for name in model.MIXERS:
        config.check(mlm.get_config(f"{name}-wikitext2"))
        c = lm.get_config(f"{name}-wikitext2")
        if name in ("fourier", "global_filter", "afno"):
            with pytest.raises(
                ValueError, match=f"head='lm' needs causal mixers, not '{name}'; choose one of"
            ):
                config.check(c)
        else:
            config.check(c)
    assert lm.get_config("wikitext2").model.mixer.name == "attention"
    with pytest.raises(
        ValueError,
        match="CORPUS='wikitext' is unknown; did you mean wikitext2. Choose one of wikitext2, files",
    ):
        lm.get_config("lambda-wikitext")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--config=configs/lm.py:files"], "data.corpora=() is empty"),
        (["--config=configs/lm.py:fourier-wikitext2"], "needs causal mixers, not 'fourier'; choose one of"),
        (
            ["--config=configs/lm.py:wikitext2", "--config.model.mixer.causal=False"],
            "needs causal mixers, not 'attention'; set model.mixer.causal=True",
        ),
        (
            ["--config=configs/mlm.py:wikitext2", "--config.data.tokenizer=bytes"],
            "data.tokenizer='bytes' lacks [MASK]",
        ),
        (["--config=configs/lm.py:files", "CORPORA"], "data.length=128 is too long for a split"),
    ],
)
def test_what_cannot_be_is_one_line(given: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("\n\n".join(f"document {i}" for i in range(30)))
    named = [f"--config.data.corpora=('{tmp_path}/short.txt',)", "--config.data.holdout=0.3"]
    arguments = [*given[:-1], *named] if given[-1] == "CORPORA" else given
    code, _, err = run_here(main, *arguments, f"--workdir={tmp_path / 'run'}")
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.slow
def test_a_next_token_model_learns_and_reports_perplexities(toy_lm: Path) -> None:
    """exp(nats a token), exp(nats a word); far below the 59 tokens of the vocabulary."""
    lines = read_lines(toy_lm)
    validation = [line for line in lines if line["split"] == "validation"]
    assert validation[-1]["perplexity"] < validation[0]["perplexity"] < 20
    for line in (*validation, lines[-1]):
        assert line["perplexity"] == pytest.approx(np.exp(line["loss"]))
        assert line["word_perplexity"] == pytest.approx(np.exp(line["word_loss"]))
    assert lines[-1]["split"] == "test"
    assert not (toy_lm / "predictions.jsonl").exists()
    assert finished(toy_lm) is not None
    found = evaluation.evaluate(toy_lm)
    assert found["test"]["word_perplexity"] == pytest.approx(lines[-1]["word_perplexity"])


@pytest.mark.slow
def test_it_resumes_to_the_same_result(
    toy_lm: Path, texts: str, tmp_path: Path, stopped_at: Callable[[config.Config, Path, int], None]
) -> None:
    stopped_at(toy(texts), tmp_path, 9)
    train.run(toy(texts), tmp_path)
    jax.tree.map(np.testing.assert_array_equal, final_state(tmp_path), final_state(toy_lm))


@pytest.mark.slow
def test_what_a_next_token_model_does_not_do(toy_lm: Path, tmp_path: Path) -> None:
    """Programs give no answer; its weights can be exported."""
    with pytest.raises(ValueError, match="data.task='lm' has no answers that a program could return"):
        export.export(toy_lm, tmp_path / "programs")
    export.export(toy_lm, tmp_path / "weights", "safetensors")
    assert (tmp_path / "weights" / "model.safetensors").exists()


@pytest.mark.slow
def test_masked_models_of_several_seeds_and_few_windows(texts: str, tmp_path: Path) -> None:
    c = toy(texts, "mlm", "fourier")
    c.train.seeds, c.data.train_examples, c.data.eval_examples, c.train.epochs = 2, 40, 3, 1
    result = train.run(c, tmp_path)
    assert result["perplexity_seeds"] == pytest.approx(np.exp(result["loss_seeds"]))
    [answer] = predictor.Predictor.load(tmp_path)(["the cat [MASK] a red house"])
    assert len(answer["masks"][0]) == 5


def test_a_run_continues_texts(toy_lm: Path, tmp_path: Path) -> None:
    """From the command and from Python, one text and a file of them; a row that is too long is named."""
    loaded = predictor.Predictor.load(toy_lm)
    one, other = loaded.generate(["the cat sees", "a dog"], tokens=6, temperature=0.5, top_k=5, seed=3)
    given = ["--mode=predict", f"--workdir={toy_lm}"]
    options = ["--tokens=6", "--temperature=0.5", "--top_k=5", "--seed=3"]
    code, out, err = run_here(main, *given, "--text=the cat sees", *options)
    assert (code, out) == (0, f"the cat sees{one['text']}\n"), err
    file, target = tmp_path / "texts.txt", tmp_path / "out.jsonl"
    file.write_text("the cat sees\na dog\n")
    code, _, err = run_here(main, *given, f"--input={file}", f"--output={target}", *options)
    assert (code, err) == (0, "2 predicted\n")
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert [answer["tokens"] for answer in answers] == [one["tokens"], other["tokens"]]
    file.write_text(f"a dog\n{SENTENCE} {SENTENCE}\n")
    code, _, err = run_here(main, *given, f"--input={file}", "--tokens=6")
    assert code == 2
    assert "line 2: tokens=6 and a text of" in err
    assert run_here(main, *given, f"--input={file}", "--tokens=6", "--skip_bad")[0] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--text=a dog"], r"tokens=50 and a text of \d+ tokens exceed model.positions=16; give at most"),
        (["--text=a dog", "--tokens=0"], "tokens=0 must be at least 1"),
        (["--text=a dog", "--temperature=-1"], "temperature=-1.0 must lie between 0"),
        (["--text=a dog", "--top_k=-1"], "top_k=-1 must be 0"),
        (["--text= "], "text=' ' is empty"),
        (["--tokens=3"], "--tokens needs --input=FILE or --text=FILE"),
        (["--text=a", "--text_pair=b", "--tokens=3"], "--text_pair cannot be continued"),
    ],
)
def test_a_continuation_that_is_refused(toy_lm: Path, options: list[str], said: str) -> None:
    code, out, err = run_here(main, "--mode=predict", f"--workdir={toy_lm}", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(said, err)


def test_only_next_token_models_continue_texts(toy_run: Path) -> None:
    given = ["--mode=predict", f"--workdir={toy_run}", "--text=a film", "--tokens=3"]
    code, out, err = run_here(main, *given)
    assert (code, out) == (2, "")
    assert "data.task='reviews' cannot continue texts; use a run of a next-token model" in err
