"""A masked language model of a task's own training inputs, and then the task."""

from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import run_here, shrink

from fourier_attn import config, main, train
from fourier_attn.data.batches import Batches
from fourier_attn.data.loaders.masked import MaskedSplit
from fourier_attn.data.masking import Masks
from fourier_attn.data.skills import IGNORED
from fourier_attn.inference.predictor import Predictor
from fourier_attn.train import init_from, loop
from fourier_attn.train.distributed import signals
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.metrics_log import read_lines

PAD, MASK, RATE = 0, 1, 0.3


def split(mask: int | None, training: bool) -> MaskedSplit:
    """Rows of 5 to 24 tokens from 2 to 29, in two buckets."""
    draw = np.random.default_rng(0)
    rows = [draw.integers(2, 30, n).astype(np.int32) for n in range(5, 25)]
    order = {"seed": 3, "epochs": 2} if training else {}
    batches = Batches(rows, np.zeros(20, np.int32), buckets=(16, 24), batch=4, pad=PAD, **order)
    return MaskedSplit(batches, Masks(mask, np.arange(2, 30), round(RATE * 24)), RATE, 7, training)


@pytest.mark.parametrize("mask", [MASK, None])
@pytest.mark.parametrize("training", [True, False])
def test_a_share_of_the_real_tokens_of_each_example_is_asked(mask: int | None, training: bool) -> None:
    found, masked, changed = split(mask, training), 0, 0
    for i in range(len(found)):
        batch, original = found[i], found.split[i]
        asked = batch["label"] != IGNORED
        counts = [max(1, round(RATE * len(found.rows[number]))) for number in batch["index"]]
        assert asked.sum(axis=1).tolist() == counts
        places = np.take_along_axis(original["inputs"], batch["answer_positions"], 1)
        np.testing.assert_array_equal(batch["label"][asked], places[asked])
        assert (places[asked] >= 2).all()  # never padding
        chosen = np.zeros(original["inputs"].shape, bool)
        for row, at, real in zip(chosen, batch["answer_positions"], asked, strict=True):
            row[at[real]] = True
        np.testing.assert_array_equal(batch["inputs"][~chosen], original["inputs"][~chosen])
        masked += (batch["inputs"][chosen] == MASK).sum()
        changed += (batch["inputs"][chosen] != original["inputs"][chosen]).sum()
        assert {name: batch[name].tolist() for name in ("mask", "weight")} == {
            name: original[name].tolist() for name in ("mask", "weight")
        }
    assert (masked > 0) == (mask is not None)
    assert changed > 0


def test_masks_are_fixed_in_evaluation_and_new_in_each_epoch_of_training() -> None:
    fixed, drawn = split(MASK, False), split(MASK, True)
    for i in range(len(fixed)):
        jax.tree.map(np.testing.assert_array_equal, fixed[i], split(MASK, False)[i])

    def places(epoch: int) -> dict[int, list[int]]:
        steps = range(epoch * drawn.steps_per_epoch, (epoch + 1) * drawn.steps_per_epoch)
        rows = [(batch["index"], batch["answer_positions"]) for batch in map(drawn.__getitem__, steps)]
        return {int(i): at.tolist() for index, ats in rows for i, at in zip(index, ats, strict=True)}

    assert places(0) == places(0) != places(1)


def settings(few_reviews: str) -> config.Config:
    c = shrink(config.default("fourier"), few_reviews)
    c.train.epochs, c.train.self_pretrain = 1, 2
    return c


@pytest.mark.usefixtures("standard_promotion")
def test_the_task_begins_with_the_weights_of_its_masked_model(few_reviews: str, tmp_path: Path) -> None:
    """The encoder is that of the first run; the head is new; a second call finds both finished."""
    c = settings(few_reviews)
    result = train.run(c, tmp_path / "run")
    lines = read_lines(tmp_path / "run" / "self_pretrained")
    assert [line["split"] for line in lines if line["epoch"] == 2][-1] == "test"
    assert np.isclose(lines[-1]["perplexity"], np.exp(lines[-1]["loss"]))
    recorded = config_file.load(tmp_path / "run")
    assert (recorded.train.self_pretrain, recorded.init_from, recorded.data.masked) == (2, "", False)
    assert init_from.load(c, tmp_path / "run").params is None  # it has begun
    assert train.run(c, tmp_path / "run") == result
    first = init_from.restore(tmp_path / "run" / "self_pretrained")[2]
    new = tmp_path / "new"
    new.mkdir()
    (tmp_path / "run" / "self_pretrained").rename(new / "self_pretrained")
    started = init_from.load(c, new)
    jax.tree.map(np.testing.assert_array_equal, started.params["encoder"], first["encoder"])
    assert "head" not in started.params
    assert started.config.model.mixer.name == "fourier"
    with pytest.raises(ValueError, match=r"data.tokenizer='words' lacks \[MASK\] in its vocabulary"):
        Predictor.load(new / "self_pretrained")(["a [MASK] film"])


@pytest.mark.parametrize(
    ("task", "knobs", "message"),
    [
        ("recall", {}, "data.masked=True needs a task with tokens and labels, not 'recall'"),
        ("mnist", {}, "not 'mnist'; choose a task on texts, or 'pixels'"),
        ("reviews", {"init_from": "runs/a"}, "train.self_pretrain=1 and init_from=runs/a exclude each other"),
        ("reviews", {"data.masked": True}, "is a masked language model already"),
        ("reviews", {"train.seeds": 2}, "trains one network, not train.seeds=2; start a run for each seed"),
    ],
)
def test_what_cannot_be_masked_is_refused(task: str, knobs: dict, message: str) -> None:
    c = config.with_values(config.default(task=task), {"train.self_pretrain": 1, **knobs})
    with pytest.raises(ValueError, match=message):
        config.check(c)


def test_metric_and_weights_are_those_of_the_task() -> None:
    knobs = {"train.monitor": "macro_f1", "train.class_weights": "balanced", "train.label_smoothing": 0.1}
    c = config.with_values(config.default(task="reviews"), {"train.self_pretrain": 1, **knobs})
    first = config.masked(c).train
    assert (first.monitor, first.class_weights, first.label_smoothing) == ("", "", 0.0)


def test_what_stops_the_task_is_found_before_its_self_pretraining(few_reviews: str, tmp_path: Path) -> None:
    c = settings(few_reviews)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="contains files but no config.json"):
        train.run(c, tmp_path / "run")
    c.train.monitor = "perplexity"
    with pytest.raises(ValueError, match="train.monitor='perplexity' is not a metric of this task"):
        train.run(c, tmp_path / "new")
    assert not list(tmp_path.rglob("self_pretrained"))


@pytest.mark.parametrize("self_pretrain", [0, 1])
def test_a_run_that_is_stopped_early_says_how_to_resume_it(
    self_pretrain: int,
    few_reviews: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before config.json is written, the directory alone is not enough."""

    def stop(*arguments: object) -> None:
        raise signals.Interrupted(15)

    monkeypatch.setattr(loop, "train", stop)
    c = config.with_values(settings(few_reviews), {"train.self_pretrain": self_pretrain})
    where = tmp_path / "run"
    with pytest.raises(signals.Interrupted):
        train.run(c, where)
    said = capsys.readouterr().out
    assert (
        said.count("To resume, ") == said.count(f"To resume, repeat the command with --workdir={where}.") == 1
    )
    code, _, error = run_here(main, f"--workdir={where}")
    assert code == 2
    assert f"workdir={where} has a run without config.json; if it was stopped, repeat its command" in error


@pytest.mark.usefixtures("standard_promotion")
def test_the_head_of_a_masked_model_is_not_that_of_classes(tmp_path: Path) -> None:
    """Even where the classes of a table are named."""
    rows = "".join(f"{'good' if i % 2 else 'bad'} film {i},{'xy'[i % 2]}\n" for i in range(60))
    (tmp_path / "a.csv").write_text(f"text,label\n{rows}")
    c = shrink(config.default("fourier", "files"), "")
    c.data.task, c.data.train, c.data.train_examples = "files", str(tmp_path / "a.csv"), 0
    c.data.labels, c.data.tokenizer, c.data.vocab = ("x", "y"), "words", 100
    c.train.update({"epochs": 1, "self_pretrain": 1})
    train.run(c, tmp_path / "run")
    (tmp_path / "new").mkdir()
    (tmp_path / "run" / "self_pretrained").rename(tmp_path / "new" / "self_pretrained")
    assert "head" not in init_from.load(c, tmp_path / "new").params
