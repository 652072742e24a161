import errno
import importlib
import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import ROOT, final_state, shrink

from configs import mixer, skills
from fourier_attn import config, model, train
from fourier_attn.data.skills import SKILLS
from fourier_attn.inference import evaluation, printed_answers
from fourier_attn.train import init_from, loop, training_run
from fourier_attn.train.distributed import signals
from fourier_attn.train.evaluate import accuracy_without, summary
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.rundir import workdir
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.step import State, close_epoch, make_init, make_keys, make_train_step

pytestmark = pytest.mark.usefixtures("standard_promotion")

FILES = sorted(path.stem for path in (ROOT / "configs").glob("[!_]*.py"))
MODELS = {name: tuple(getattr(importlib.import_module(f"configs.{name}"), "MODELS", ())) for name in FILES}
CONFIGS = [
    name for name in FILES if name not in ("pretrain", "mixer", "skills", "lm", "mlm") and not MODELS[name]
]
# They take a task.
CONFIGS += [f"mixer:{name}" for name in mixer.EPOCHS]


def load(name: str, task: str) -> config.Config:
    file, _, of = name.partition(":")
    return importlib.import_module(f"configs.{file}").get_config(f"{of}-{task}" if of else task)


def test_there_is_a_configuration_for_each_mixer() -> None:
    assert {load(name, "reviews").model.mixer.name for name in CONFIGS} >= set(model.MIXERS)


@pytest.mark.parametrize(
    "name", ["fnet", *(pytest.param(n, marks=pytest.mark.slow) for n in ("optical_fnet", "finetune"))]
)
def test_a_config_of_each_kind_trains_two_steps(name: str, few_reviews: str, tmp_path: Path) -> None:
    c = shrink(load(name, "imdb"), few_reviews)
    c.data.train_examples, c.train.epochs = 32, 1
    result = train.run(c, tmp_path)
    assert result["split"] == "test"
    assert result["step"] == 2
    assert np.isfinite(result["loss"])


@pytest.mark.parametrize("task", ["reviews", pytest.param("imdb", marks=pytest.mark.slow)])
def test_every_config_is_sound_at_its_own_sizes(task: str) -> None:
    """Shapes only: its network takes its longest batch and fits into memory."""
    for name in CONFIGS:
        train.check(load(name, task))


def test_every_skill_is_sound_at_its_own_sizes() -> None:
    for task in SKILLS:
        for name in ("identity", "conv_attention"):
            train.check(skills.get_config(f"{name}-{task}"))


def test_every_model_of_a_study_is_sound_at_its_own_sizes() -> None:
    """Those of the suite, whose configurations take a model instead of a task."""
    for name, models in MODELS.items():
        for model_name in models:
            train.check(load(name, model_name))
        if models:
            with pytest.raises(ValueError, match="model='reviews' is unknown; choose one of"):
                load(name, "reviews")
    for name in MODELS["imdb_articles"]:
        train.check(load("imdb_articles", f"{name}-listing"))


def test_what_a_run_leaves(toy_run: Path) -> None:
    there = {path.name for path in toy_run.iterdir()}
    files = {
        "config.json",
        "metrics.jsonl",
        "curves.png",
        "predictions.jsonl",
        "report.json",
        "confusion.csv",
        "confusion.png",
        "tokenizer.json",
        "tensorboard",
        "checkpoints",
    }
    assert files <= there <= files | {".lock"}
    lines = read_lines(toy_run)
    assert all({"step", "epoch", "split", "loss", "accuracy"} <= line.keys() for line in lines)
    assert [line["epoch"] for line in lines if line["split"] == "validation"] == [1, 2, 3]
    written = json.loads((toy_run / "config.json").read_text())
    assert written["config"]["optim"]["steps"] == 18
    assert written["versions"]["jax"] == jax.__version__
    predictions = [json.loads(line) for line in (toy_run / "predictions.jsonl").read_text().splitlines()]
    right = np.mean([line["label"] == line["prediction"] for line in predictions])
    assert (len(predictions), right) == (200, pytest.approx(lines[-1]["accuracy"]))


@pytest.mark.slow
def test_several_seeds_are_several_runs(toy: config.Config, toy_run: Path, tmp_path: Path) -> None:
    toy.train.seeds = 3
    together = train.run(toy, tmp_path)
    assert len(together["accuracy_seeds"]) == 3
    assert together["accuracy_std"] == pytest.approx(np.std(together["accuracy_seeds"], ddof=1))
    three, one = final_state(tmp_path), final_state(toy_run)
    alone = read_lines(toy_run)[-1]
    # another order of summation in batched products; Adam enlarges differences of tiny gradients
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[0], b, atol=2e-3), three.params, one.params)
    assert together["accuracy_seeds"][0] == pytest.approx(alone["accuracy"], abs=0.01)
    kernels = three.params["head"]["output"]["kernel"]
    assert np.abs(kernels[0] - kernels[1]).max() > 0.01


def step_once(c: config.Config, accumulate: int, dtype: str = "float32") -> State:
    c.model.dtype = dtype
    network, optimizer = model.build(c.model), build_optimizer(c.optim)
    init_key, key = make_keys(0, 1)
    state = make_init(network, optimizer, OBJECTIVES["classes"], model.example(c.model))(init_key)
    ids = np.random.default_rng(0).integers(0, 100, (8, 12)).astype(np.int32)
    batch = {
        "inputs": ids,
        "mask": ids > 0,
        "label": ids[:, 0] % 2,
        "weight": np.array([1] * 7 + [0], np.float32),
        "index": np.arange(8),
    }
    return make_train_step(network, optimizer, OBJECTIVES["classes"], 1, accumulate)(state, batch, key)


@pytest.mark.slow
def test_accumulation_is_the_whole_batch(toy: config.Config) -> None:
    toy.optim.eps = 1.0  # so that Adam does not enlarge rounding
    whole, parts = step_once(toy, 1), step_once(toy, 4)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), whole, parts)
    assert float(whole.sums["loss"][1]) == 7


@pytest.mark.slow
def test_low_precision_trains_with_float32_parameters(toy: config.Config) -> None:
    low, full = step_once(toy, 1, "bfloat16"), step_once(toy, 1)
    assert {p.dtype for p in jax.tree.leaves(low.params)} == {np.dtype("float32")}
    assert float(low.sums["loss"][0]) == pytest.approx(float(full.sums["loss"][0]), rel=0.02)


def test_best_weights_and_staleness() -> None:
    def state(accuracies: list[float]) -> State:
        params = {"w": np.arange(4.0).reshape(2, 2)}
        best = {"w": -np.ones((2, 2))}
        counter = np.zeros(2, np.int32)
        scores, sums = np.asarray(accuracies, np.float32), {"loss": np.zeros(2)}
        return State(counter, params, (), sums, best, scores, counter, counter, counter)

    closed = close_epoch(state([0.5, 0.9]), np.array([0.6, 0.8], np.float32))
    np.testing.assert_array_equal(closed.best_params["w"], [[0, 1], [-1, -1]])
    np.testing.assert_allclose(closed.best_score, [0.6, 0.9])
    np.testing.assert_array_equal(closed.epochs_since_best, [0, 1])


def test_a_score_that_is_not_defined_is_never_better() -> None:
    """The first network keeps its best weights; the second has none yet, and keeps its latest."""
    counter, score = np.zeros(2, np.int32), np.array([0.5, -np.inf], np.float32)
    params, best = {"w": np.arange(4.0).reshape(2, 2)}, {"w": -np.ones((2, 2))}
    state = State(counter, params, (), {"loss": np.zeros(2)}, best, score, counter, counter, counter)
    closed = close_epoch(state, np.array([np.nan, np.nan], np.float32))
    np.testing.assert_array_equal(closed.best_params["w"], [[-1, -1], [2, 3]])
    np.testing.assert_array_equal(closed.best_score, score)
    np.testing.assert_array_equal(closed.epochs_since_best, [1, 1])


@pytest.mark.slow
def test_training_stops_when_validation_gets_no_better(
    toy: config.Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.optim.learning_rate, toy.train.epochs, toy.train.patience = 1e-12, 9, 2
    result = train.run(toy, tmp_path)
    assert result["epoch"] == 3  # the first epoch is the best, then two that are no better
    assert "has not improved for train.patience=2 epochs: best" in capsys.readouterr().out


@pytest.mark.slow
def test_nothing_is_compiled_after_the_first_epoch(
    toy: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, after_epoch, validate = [], [], loop.validate

    def counted(run: training_run.Run) -> None:
        validate(run)
        after_epoch.append(len(compiled))

    def count(event: str, duration_secs: float, **_: object) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    toy.data.buckets = (16, 32)
    monkeypatch.setattr(loop, "validate", counted)
    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        run = training_run.Run(init_from.InitialWeights(toy), tmp_path, signals.StopSignals())
        run.set_up()
        run.restore_or_initialise()
        loop.train_epochs(run)
        run.close()
    finally:
        jax.monitoring.clear_event_listeners()
    assert after_epoch[0] > 6  # three lengths, two functions
    assert set(after_epoch) == {after_epoch[0]}


def test_a_finished_run_is_not_run_again(toy: config.Config, toy_run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in toy_run.rglob("*")}
    assert train.run(toy, toy_run) == read_lines(toy_run)[-1]
    assert {path: path.stat().st_mtime_ns for path in toy_run.rglob("*")} == before


def test_a_saved_run_answers(toy_run: Path) -> None:
    again = evaluation.evaluate(toy_run)
    assert again["test"]["accuracy"] == read_lines(toy_run)[-1]["accuracy"]
    [(label, probability)] = printed_answers.predict(toy_run, "The film was not dull.")
    assert label in ("negative", "positive")
    assert 0.5 <= probability <= 1
    with pytest.raises(ValueError, match=r"text=' ' is empty"):
        printed_answers.predict(toy_run, " ")
    with pytest.raises(ValueError, match="contains no run"):
        printed_answers.predict(toy_run / "nowhere", "fine")


def test_a_directory_of_another_configuration_is_refused(toy: config.Config, toy_run: Path) -> None:
    before = (toy_run / "metrics.jsonl").read_bytes()
    toy.train.epochs, toy.model.mixer.norm = 5, "tokens"
    with pytest.raises(
        ValueError, match=r"model.mixer.norm is 'none' there, 'tokens' now; train.epochs is 3 there, 5 now"
    ):
        train.run(toy, toy_run)
    assert (toy_run / "metrics.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_run_that_never_saved_can_be_started_again(
    toy: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_run, "Writer", None)  # fails after the data have been read
    with pytest.raises(TypeError):
        train.run(toy, tmp_path)
    monkeypatch.undo()
    result = train.run(toy, tmp_path)
    assert result["step"] == 18
    assert result == read_lines(tmp_path)[-1]


def test_reading_a_run_leaves_an_unfinished_save_alone(toy_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(toy_run, tmp_path / "copy")
    saving = copy / "checkpoints" / "99.orbax-checkpoint-tmp"
    saving.mkdir()
    printed_answers.predict(copy, "The film was not dull.")
    assert saving.is_dir()


def test_deviation_without_the_texts_in_train_is_shown() -> None:
    result = {"accuracy": 0.9, "accuracy_std": 0.01, "in_train": 2}
    result |= {"accuracy_without_in_train": 0.8, "accuracy_without_in_train_std": 0.02}
    line = "test accuracy 90.00 +- 1.00 % (80.00 +- 2.00 % without the 2 examples that are also in train)"
    assert summary(result | {"loss": 0.1}) == line
    alone = accuracy_without(np.ones(2, bool), np.eye(2), np.arange(2))
    assert summary({"accuracy": 0.9, "loss": 0.1} | alone) == "test accuracy 90.00 % (all are also in train)"


def test_directories_that_cannot_be_used(toy: config.Config, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ValueError, match="contains files but no config.json"):
        train.run(toy, tmp_path)
    with pytest.raises(ValueError, match="is a file; give a directory"):
        train.run(toy, tmp_path / "thesis.txt")
    with workdir.lock(tmp_path / "busy"), pytest.raises(ValueError, match="is in use by another run"):
        train.run(toy, tmp_path / "busy")


def test_a_read_only_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path, *_: int) -> int:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(workdir.os, "open", read_only)
    said = f"workdir={tmp_path} cannot be written to \\(Read-only file system\\); give another directory"
    with pytest.raises(ValueError, match=said), workdir.lock(tmp_path):
        pass


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("train.epochs", 0, "train.epochs=0 must be at least 1"),
        ("train.patience", -1, "train.patience=-1 must not be negative"),
        ("data.batch", 0, "data.batch=0 must be at least 1"),
        ("data.buckets", (32, 16), "must be whole positive numbers in rising order"),
        ("data.tokenizer", "letters", "data.tokenizer='letters' is unknown"),
        ("data.holdout", 1.0, "data.holdout=1.0 must lie between 0 and 1"),
        ("data.train_examples", -5, "data.train_examples=-5 must not be negative"),
        ("model.mixer.method", "dct", "method='dct' is unknown"),
        ("optim.b1", 1.0, "optim.b1=1.0 must lie between 0 and"),
        ("train.accumulate", 3, "train.accumulate=3 must divide data.batch=16"),
        ("data.task", "imbd", "data.task='imbd' is unknown"),
        ("data.length", 49, "a sequence of 49 tokens exceeds positions=48"),
        ("optim.learning_rate", -1.0, "optim.learning_rate=-1.0 must be positive"),
    ],
)
def test_a_bad_configuration_leaves_no_trace(
    key: str, value: object, message: str, toy: config.Config, tmp_path: Path
) -> None:
    toy.update_from_flattened_dict({key: value})
    with pytest.raises(ValueError, match=message):
        train.run(toy, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_default_is_a_configuration_for_each_mixer_and_task() -> None:
    with pytest.raises(ValueError, match="mixer.name='conv' is unknown"):
        config.default("conv")
    with pytest.raises(
        ValueError, match="task='imbd' is unknown; did you mean imdb. Choose one of reviews, imdb"
    ):
        config.default("fourier", "imbd")
    with pytest.raises(AttributeError, match='Did you mean "epochs"'):
        config.default().train.epoch = 3
