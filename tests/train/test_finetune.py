"""Pre-training on toy texts and fine-tuning from it, by the one loop; and GLUE's tasks in it."""

import json
import os
import signal
from pathlib import Path

import jax
import numpy as np
import published
import pytest
from conftest import configuration as load
from conftest import final_state, shrink
from conftest import small_family as small

from fourier_attn import config, pretrained, train
from fourier_attn.data.text import load_tokenizer
from fourier_attn.family import family
from fourier_attn.inference import evaluation, printed_answers, stream
from fourier_attn.train import init_from, loop, metrics, training_run
from fourier_attn.train.distributed import signals
from fourier_attn.train.entry import check
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.step import make_init, make_keys, make_train_step

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    draw = np.random.default_rng(0)
    words = ["cat", "dog", "sees", "runs", "the", "a", "red", "blue", "house", "garden"]
    documents = [" ".join([*draw.choice(words, 25), ".", *draw.choice(words, 25), "."]) for _ in range(60)]
    where = tmp_path_factory.mktemp("texts") / "toy.txt"
    where.write_text("\n\n".join(documents))
    return str(where)


def pretraining(texts: str) -> config.Config:
    c = small(load("pretrain", "fnet-tiny"))
    c.data.corpora, c.data.exclude, c.data.holdout, c.train.epochs = (texts,), (), 0.1, 3
    return c


@pytest.fixture(scope="module")
def pretrained_run(texts: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("pretraining")
    with jax.numpy_dtype_promotion("standard"):
        train.run(pretraining(texts), where)
    return where


@pytest.mark.slow
def test_pretraining_learns_and_reports_held_out_text(pretrained_run: Path) -> None:
    lines = read_lines(pretrained_run)
    validation = [line for line in lines if line["split"] == "validation"]
    assert validation[-1]["mlm_loss"] < validation[0]["mlm_loss"]
    names = {"mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy"}
    assert names <= lines[-1].keys()
    assert lines[-1]["split"] == "test"
    files = {path.name for path in pretrained_run.iterdir()}
    assert {"curves.png", "tokenizer.json"} <= files
    assert "predictions.jsonl" not in files
    found = evaluation.evaluate(pretrained_run)
    assert found["test"]["mlm_loss"] == pytest.approx(lines[-1]["mlm_loss"])


@pytest.mark.slow
def test_pretraining_goes_on_to_the_same_result(
    pretrained_run: Path, texts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed to the batch: masks and order are functions of (seed, step)."""
    poll = training_run.Run.poll

    def stop(run: training_run.Run) -> None:
        if getattr(run, "step", None) == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        poll(run)

    monkeypatch.setattr(training_run.Run, "poll", stop)
    with pytest.raises(signals.Interrupted):
        train.run(pretraining(texts), tmp_path)
    monkeypatch.undo()
    train.run(pretraining(texts), tmp_path)
    jax.tree.map(np.testing.assert_array_equal, final_state(tmp_path), final_state(pretrained_run))


@pytest.mark.slow
def test_the_last_step_is_saved(pretrained_run: Path) -> None:
    state = final_state(pretrained_run)
    assert int(state.step) == read_lines(pretrained_run)[-1]["step"]
    assert int(state.step) % 4  # no multiple of save_every


@pytest.mark.slow
def test_a_mask_is_filled(pretrained_run: Path) -> None:
    found = printed_answers.predict(pretrained_run, "the cat [MASK] a dog . [MASK]")
    assert len(found) == 10
    for answers in (found[:5], found[5:]):
        values = [value for _, value in answers]
        assert values == sorted(values, reverse=True)
        assert 0 < sum(values) <= 1
    with pytest.raises(ValueError, match=r"has no \[MASK\]"):
        printed_answers.predict(pretrained_run, "the cat sees a dog .")


@pytest.mark.slow
def test_a_line_without_a_mask_is_named_or_skipped(pretrained_run: Path, tmp_path: Path) -> None:
    """By its number in the file, where empty lines count."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('"the cat [MASK] ."\n\n"the cat sees a dog ."\n"a [MASK] ."\n')
    named = r"in.jsonl, line 3: its text has no \[MASK\] among its first \d+ tokens"
    with pytest.raises(ValueError, match=named):
        stream.predict_file(pretrained_run, str(source), str(target))
    assert (
        stream.predict_file(pretrained_run, str(source), str(target), skip_bad=True)
        == "2 predicted, 1 skipped"
    )
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    assert [answer["line"] for answer in answers] == [1, 4]
    assert all(len(answer["masks"]) == 1 for answer in answers)


@pytest.mark.slow
def test_fine_tuning_starts_from_the_encoder(
    pretrained_run: Path, few_reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = load("finetune", "reviews")
    c.data.dir, c.data.train_examples, c.data.length, c.data.buckets = few_reviews, 32, 40, ()
    c.init_from, c.train.epochs = str(pretrained_run), 1
    starts = []
    train_epochs = loop.train_epochs
    monkeypatch.setattr(
        loop,
        "train_epochs",
        lambda run: (starts.append(jax.device_get(run.state.params)), train_epochs(run)),
    )
    result = train.run(c, tmp_path / "tuned")
    assert np.isfinite(result["loss"])
    source = init_from.restore(pretrained_run)[2]
    for part in ("encoder", "pooler"):
        jax.tree.map(np.testing.assert_array_equal, starts[0][part], source[part])
    assert starts[0]["head"]["output"]["kernel"].shape == (16, 2)
    written = json.loads((tmp_path / "tuned" / "config.json").read_text())["config"]
    assert (written["model"]["d"], written["model"]["emb"], written["model"]["head"]) == (16, 12, "classes")
    assert written["model"]["dropout"] == 0.1
    copied, own = ((where / "tokenizer.json").read_text() for where in (tmp_path / "tuned", pretrained_run))
    assert copied == own
    assert train.run(c, tmp_path / "tuned") == result  # finished; `init` and all fit
    [(label, probability)] = printed_answers.predict(tmp_path / "tuned", "a dog sees the cat")
    assert label in ("negative", "positive")
    assert 0.5 <= probability <= 1


@pytest.mark.slow
def test_fine_tuning_from_a_file(pretrained_run: Path, few_reviews: str, tmp_path: Path) -> None:
    settings, _, params = init_from.restore(pretrained_run)
    pretrained.save(tmp_path / "model.safetensors", settings.model, params)
    c = load("finetune", "reviews")
    c.data.dir, c.data.train_examples, c.data.length, c.data.buckets = few_reviews, 16, 40, ()
    c.init_from, c.train.epochs = str(tmp_path / "model.safetensors"), 1
    with pytest.raises(ValueError, match="has no tokenizer next to its weights; give the tokenizer"):
        train.run(c, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    given = tmp_path / "given.json"
    given.write_bytes((pretrained_run / "tokenizer.json").read_bytes())
    c.data.tokenizer, c.init_padding = str(given), "zero"
    result = train.run(c, tmp_path / "run")
    assert np.isfinite(result["loss"])
    written = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert written["model"]["mixer"]["padding"] == "zero"
    given.unlink()
    (tmp_path / "model.safetensors").unlink()
    assert train.run(c, tmp_path / "run") == result  # a run needs neither any longer


@pytest.mark.slow
def test_published_weights_are_fine_tuned(
    sentencepiece_file: Path, few_reviews: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Hugging Face's names, SentencePiece, padding that is tokens: at the length of the positions only."""
    sizes = {"v": load_tokenizer(sentencepiece_file).get_vocab_size(), "s": 40}
    arrays = published.draw(published.huggingface("pretraining", **sizes))
    c = load("finetune", "reviews")
    c.init_from = str(published.write_safetensors(tmp_path / "model.safetensors", arrays))
    c.data.dir, c.data.train_examples, c.data.tokenizer = few_reviews, 16, str(sentencepiece_file)
    c.data.length, c.train.epochs, c.model.mixer.method = 40, 1, "matmul"
    with pytest.raises(
        ValueError, match=r"trained with texts padded to 40, not to 32, 40; add .*--config.data.buckets"
    ):
        train.run(c, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    c.data.buckets = ()
    assert np.isfinite(train.run(c, tmp_path / "run")["loss"])
    assert "names of huggingface; missing: none" in capsys.readouterr().out
    part = json.loads((tmp_path / "run" / "config.json").read_text())["config"]["model"]
    assert (part["mixer"]["padding"], part["mixer"]["method"], part["pooling"]) == (
        "tokens",
        "matmul",
        "first",
    )
    assert (tmp_path / "run" / "tokenizer.model").read_bytes() == sentencepiece_file.read_bytes()
    params = init_from.load(c, tmp_path / "other").params
    first = arrays["fnet.encoder.layer.0.intermediate.dense.weight"].T
    np.testing.assert_array_equal(params["encoder"]["block_0"]["mlp_in"]["kernel"], first)
    assert "head" not in params


def test_a_hybrid_is_adopted(tmp_path: Path, sentencepiece_file: Path) -> None:
    arrays = published.draw(published.f_net("fourier", "attention"))
    c = load("finetune", "reviews")
    c.init_from, c.init_padding = str(published.write_msgpack(tmp_path / "f_net", arrays)), "zero"
    c.model.mixer.method = "matmul"
    c.data.tokenizer = str(sentencepiece_file)
    part = init_from.load(c, tmp_path / "run").config.model
    assert part.layout == ("fourier", "attention")
    assert (part.mixer.method, part.mixer.padding, part.others.attention.heads) == ("matmul", "zero", 2)


@pytest.mark.slow
def test_low_precision_seeds_and_accumulation(texts: str, tmp_path: Path) -> None:
    c = pretraining(texts)
    c.train.seeds, c.train.accumulate, c.train.epochs, c.model.dtype = 2, 2, 1, "bfloat16"
    result = train.run(c, tmp_path)
    assert len(result["mlm_loss_seeds"]) == 2
    assert np.isfinite(result["mlm_loss"])
    assert len(printed_answers.predict(tmp_path, "the cat [MASK] .")) == 5


def test_fine_tuning_reads_longer_texts_than_the_run_that_it_starts_from(
    toy_run: Path, few_reviews: str
) -> None:
    """The padded lengths of the mixers are those of the new data, and the table of positions grows."""
    c = shrink(config.default(), few_reviews)
    longer = 2 * c.data.length
    c.data.length, c.data.buckets, c.init_from = longer, (), str(toy_run)
    initial = init_from.load(c, toy_run.parent / "new")
    assert initial.config.model.mixer.lengths == (longer,)
    assert initial.config.model.positions == len(initial.params["encoder"]["positions"]) == longer
    check(initial.config)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere", "does not exist; give a run's directory"), ("begun", "has no checkpoint yet")],
)
def test_weights_that_are_not_there(name: str, message: str, tmp_path: Path) -> None:
    c = load("finetune", "reviews")
    c.init_from = str(tmp_path / name)
    if name == "begun":
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").touch()
        (tmp_path / name / "config.json").write_text(
            json.dumps({"config": load("finetune", "sst2").to_dict()})
        )
    with pytest.raises(ValueError, match=message):
        train.run(c, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("config_name", "argument"), [("pretrain", "fnet-tiny"), ("finetune", "mrpc")])
def test_tokenizers_without_separators_are_refused_first(
    config_name: str, argument: str, tmp_path: Path
) -> None:
    c = load(config_name, argument)
    c.data.tokenizer = "words"
    with pytest.raises(ValueError, match=r"data.tokenizer='words' lacks \[SEP\], which task"):
        train.run(c, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_weights_of_another_vocabulary_are_refused(
    pretrained_run: Path, few_reviews: str, tmp_path: Path
) -> None:
    from fourier_attn.data.text import fit, save_tokenizer

    save_tokenizer(fit("bpe", ["another text"], 40), tmp_path)
    c = load("finetune", "reviews")
    c.data.dir, c.data.tokenizer = few_reviews, str(tmp_path / "tokenizer.json")
    c.data.length, c.init_from = 40, str(pretrained_run)
    with pytest.raises(ValueError, match=r"has a vocabulary of \d+, the tokenizer one of"):
        train.run(c, tmp_path / "run")


@pytest.mark.parametrize("size", ["tiny", "mini", "base", "large"])
def test_every_pretraining_config_is_sound(size: str) -> None:
    for name in ("fnet", "hybrid", "bert", "linear", "random", "ff"):
        train.check(load("pretrain", f"{name}-{size}"))


def test_every_fine_tuning_config_is_sound() -> None:
    for task in ("sst2", "cola", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "imdb"):
        train.check(load("finetune", task))


@pytest.mark.slow
def test_the_loss_is_divided_once() -> None:
    """The same examples four times are the same loss, and the same step."""
    from fourier_attn import model
    from fourier_attn.train.losses import OBJECTIVES

    c = small(family("ff", "tiny", "sst2"))
    c.model.dropout = 0.0
    network, optimizer, objective = model.build(c.model), build_optimizer(c.optim), OBJECTIVES["classes"]
    ids = np.random.default_rng(0).integers(7, 60, (4, 9)).astype(np.int32)
    one = {"inputs": ids, "label": ids[:, 0] % 2, "weight": np.ones(4, np.float32)}
    four = {name: np.concatenate([value] * 4) for name, value in one.items()}
    init_key, key = make_keys(0, 1)
    step = make_train_step(network, optimizer, objective)
    init = make_init(network, optimizer, objective, model.example(c.model))
    a, b = (step(init(init_key), batch, key) for batch in (one, four))
    losses = [metrics.mean(jax.device_get(state.sums))["loss"] for state in (a, b)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[0] == pytest.approx(np.log(2), abs=0.2)  # not that divided by the examples
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-4), a.params, b.params)
