import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import ROOT, shrink

from configs import attention, fnet, identity
from fourier_attn import config, inference, metrics, model, optim, steps, train, workdir
from fourier_attn.checkpoint import Checkpoints

pytestmark = pytest.mark.usefixtures("standard_promotion")

CONFIGS = {"fnet": fnet, "attention": attention, "identity": identity}


def final_state(directory: Path) -> steps.State:
    c = config.from_dict(workdir.load(directory))
    init = steps.make_init(model.build(c.model), optim.build(c.optim), c.train.seeds)
    checkpoints = Checkpoints(directory)
    state = checkpoints.restore(jax.eval_shape(init, steps.keys(c.seed, c.train.seeds)[0]))
    checkpoints.close()
    return state


def numbers(directory: Path) -> list[dict]:
    """What metrics.jsonl says, without the timings."""
    return [
        {k: v for k, v in line.items() if k not in ("examples_per_s", "data_wait")}
        for line in metrics.read(directory)
    ]


def assert_same_run(a: Path, b: Path) -> None:
    jax.tree.map(np.testing.assert_array_equal, final_state(a), final_state(b))
    assert numbers(a) == numbers(b)
    assert (a / "predictions.jsonl").read_text() == (b / "predictions.jsonl").read_text()


def test_every_config_is_in_the_table() -> None:
    assert {path.stem for path in (ROOT / "configs").glob("*.py")} - {"__init__"} == set(CONFIGS)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("task", ["reviews", "imdb"])
def test_every_config_trains_two_steps(name: str, task: str, data_dir: str, tmp_path: Path) -> None:
    c = shrink(CONFIGS[name].get_config(task), data_dir)
    c.data.train_examples, c.train.epochs = 32, 1
    result = train.run(c, tmp_path)
    assert result["split"] == "test"
    assert result["step"] == 2
    assert np.isfinite(result["loss"])


def test_what_a_run_leaves(toy: config.Config, tmp_path: Path) -> None:
    result = train.run(toy, tmp_path)
    there = {path.name for path in tmp_path.iterdir()}
    files = {
        "config.json",
        "metrics.jsonl",
        "curves.png",
        "predictions.jsonl",
        "tokenizer.json",
        "tensorboard",
        "checkpoints",
    }
    assert files <= there <= files | {".lock"}
    lines = metrics.read(tmp_path)
    assert all({"step", "epoch", "split", "loss", "accuracy"} <= line.keys() for line in lines)
    assert lines[-1] == result
    assert [line["epoch"] for line in lines if line["split"] == "validation"] == [1, 2, 3]
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["config"]["optim"]["steps"] == 18
    assert written["versions"]["jax"] == jax.__version__
    predictions = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    right = np.mean([line["label"] == line["prediction"] for line in predictions])
    assert (len(predictions), right) == (2000, pytest.approx(result["accuracy"]))


def test_a_run_repeats_bit_for_bit_and_the_loss_falls(toy: config.Config, tmp_path: Path) -> None:
    toy.optim.learning_rate, toy.optim.warmup_steps = 1e-2, 0
    for name in ("a", "b"):
        train.run(toy, tmp_path / name)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    losses = [line["loss"] for line in metrics.read(tmp_path / "a") if line["split"] == "train"]
    assert losses[-1] < 0.9 * losses[0]


@pytest.fixture(scope="module")
def whole(data_dir: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an unbroken toy run with dropout."""
    where = tmp_path_factory.mktemp("whole")
    with jax.numpy_dtype_promotion("standard"):
        train.run(with_dropout(shrink(config.default(), data_dir)), where)
    return where


def with_dropout(c: config.Config) -> config.Config:
    c.model.dropout = 0.3
    return c


@pytest.mark.parametrize("stop_at", [4, 5, 6])
def test_a_run_stopped_at_any_step_ends_the_same(
    stop_at: int, whole: Path, toy: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped by a signal between saves, at a save, and at the end of an epoch before its validation."""
    with_dropout(toy)
    poll = train.StopSignals.poll

    def interrupt(signals: train.StopSignals) -> None:
        if running.step == stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        poll(signals)

    made = train.Run.__init__

    def remember(run: train.Run, *arguments: object) -> None:
        nonlocal running
        made(run, *arguments)
        running = run

    running = None
    monkeypatch.setattr(train.Run, "__init__", remember)
    monkeypatch.setattr(train.StopSignals, "poll", interrupt)
    with pytest.raises(train.Interrupted):
        train.run(toy, tmp_path / "stopped")
    monkeypatch.undo()
    assert int(final_state(tmp_path / "stopped").step) == stop_at
    train.run(toy, tmp_path / "stopped")
    assert_same_run(whole, tmp_path / "stopped")


PROGRAM = """
import sys
import json
from fourier_attn import config, train
train.run(config.from_dict(json.loads(sys.argv[1])), sys.argv[2])
"""


def test_a_killed_run_ends_the_same(whole: Path, toy: config.Config, tmp_path: Path) -> None:
    """Killed while it trains, and again after it has gone on."""
    arguments = [sys.executable, "-c", PROGRAM, json.dumps(with_dropout(toy).to_dict()), str(tmp_path)]

    def go() -> subprocess.Popen:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(arguments, env=os.environ | {"PYTHONPATH": str(ROOT)}, **quiet)

    for kill_after in (2, 8):
        process = go()
        while process.poll() is None and not any(
            line["step"] >= kill_after for line in metrics.read(tmp_path)
        ):
            time.sleep(0.001)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert metrics.read(tmp_path)[-1]["split"] != "test"
    assert go().wait() == 0
    assert_same_run(whole, tmp_path)


def test_several_seeds_are_several_runs(toy: config.Config, tmp_path: Path) -> None:
    toy.train.seeds = 3
    together = train.run(toy, tmp_path / "three")
    assert len(together["accuracy_seeds"]) == 3
    assert together["accuracy_std"] == pytest.approx(np.std(together["accuracy_seeds"], ddof=1))
    three = final_state(tmp_path / "three")
    toy.train.seeds = 1
    alone = train.run(toy, tmp_path / "one")
    one = final_state(tmp_path / "one")
    # another order of summation in batched products; Adam enlarges differences of tiny gradients
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[0], b, atol=2e-3), three.params, one.params)
    assert together["accuracy_seeds"][0] == pytest.approx(alone["accuracy"], abs=0.01)
    kernels = three.params["head"]["kernel"]
    assert np.abs(kernels[0] - kernels[1]).max() > 0.01


def step_once(c: config.Config, accumulate: int, dtype: str = "float32") -> steps.State:
    c.model.dtype = dtype
    network, optimizer = model.build(c.model), optim.build(c.optim)
    init_key, key = steps.keys(0, 1)
    state = steps.make_init(network, optimizer, 1)(init_key)
    ids = np.random.default_rng(0).integers(0, 100, (8, 12)).astype(np.int32)
    batch = {
        "tokens": ids,
        "label": ids[:, 0] % 2,
        "weight": np.array([1] * 7 + [0], np.float32),
        "index": np.arange(8),
    }
    return steps.make_train_step(network, optimizer, accumulate=accumulate)(state, batch, key)


def test_accumulation_is_the_whole_batch(toy: config.Config) -> None:
    toy.optim.eps = 1.0  # so that Adam does not enlarge rounding
    whole, parts = step_once(toy, 1), step_once(toy, 4)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), whole, parts)
    assert float(whole.sums["count"]) == 7


def test_low_precision_trains_with_float32_parameters(toy: config.Config) -> None:
    low, full = step_once(toy, 1, "bfloat16"), step_once(toy, 1)
    assert {p.dtype for p in jax.tree.leaves(low.params)} == {np.dtype("float32")}
    assert float(low.sums["loss"]) == pytest.approx(float(full.sums["loss"]), rel=0.02)


def test_best_weights_and_staleness() -> None:
    def state(accuracies: list[float]) -> steps.State:
        params = {"w": np.arange(4.0).reshape(2, 2)}
        best = {"w": -np.ones((2, 2))}
        counter = np.zeros(2, np.int32)
        return steps.State(
            counter, params, (), metrics.zeros(), best, np.asarray(accuracies, np.float32), counter
        )

    closed = steps.close_epoch(state([0.5, 0.9]), np.array([0.6, 0.8], np.float32))
    np.testing.assert_array_equal(closed.best_params["w"], [[0, 1], [-1, -1]])
    np.testing.assert_allclose(closed.best_accuracy, [0.6, 0.9])
    np.testing.assert_array_equal(closed.stale, [0, 1])


def test_training_stops_when_validation_gets_no_better(toy: config.Config, tmp_path: Path) -> None:
    toy.optim.learning_rate, toy.train.epochs, toy.train.patience = 1e-12, 9, 2
    result = train.run(toy, tmp_path)
    assert result["epoch"] == 3  # the first epoch is the best, then two that are no better


def test_nothing_is_compiled_after_the_first_epoch(toy: config.Config, tmp_path: Path) -> None:
    compiled, after_epoch = [], []

    class Counted(train.Run):
        def close_epoch(self) -> None:
            super().close_epoch()
            after_epoch.append(len(compiled))

    def count(event: str, duration_secs: float, **_: object) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    toy.data.buckets = (16, 32)
    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        run = Counted(toy, tmp_path)
        run.train()
        run.checkpoints.close()
        run.writer.close()
    finally:
        jax.monitoring.clear_event_listeners()
    assert after_epoch[0] > 6  # three lengths, two functions
    assert set(after_epoch) == {after_epoch[0]}


def test_a_finished_run_is_not_run_again(toy: config.Config, tmp_path: Path) -> None:
    result = train.run(toy, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert train.run(toy, tmp_path) == result
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_saved_run_answers(toy: config.Config, tmp_path: Path) -> None:
    result = train.run(toy, tmp_path)
    again = inference.evaluate(tmp_path)
    assert again["test"]["accuracy"] == result["accuracy"]
    label, probability = inference.predict(tmp_path, "The film was not dull.")
    assert label in ("negative", "positive")
    assert 0.5 <= probability <= 1
    with pytest.raises(ValueError, match=r"text=' ' is empty"):
        inference.predict(tmp_path, " ")
    with pytest.raises(ValueError, match="holds no run"):
        inference.predict(tmp_path / "nowhere", "fine")


def test_a_directory_of_another_configuration_is_refused(toy: config.Config, tmp_path: Path) -> None:
    train.run(toy, tmp_path)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    toy.train.epochs, toy.model.mixer.norm = 5, "tokens"
    with pytest.raises(
        ValueError, match=r"model.mixer.norm is 'none' there, 'tokens' now; train.epochs is 3 there, 5 now"
    ):
        train.run(toy, tmp_path)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_directories_that_cannot_be_used(toy: config.Config, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ValueError, match="holds files but no config.json"):
        train.run(toy, tmp_path)
    with pytest.raises(ValueError, match="is a file; name a directory"):
        train.run(toy, tmp_path / "thesis.txt")
    with workdir.lock(tmp_path / "busy"), pytest.raises(ValueError, match="is in use by another run"):
        train.run(toy, tmp_path / "busy")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("train.epochs", 0, "train.epochs=0 must be at least 1"),
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
    with pytest.raises(ValueError, match="mixer='lambda' is unknown"):
        config.default("lambda")
    with pytest.raises(ValueError, match="task='imbd' is unknown; choose one of reviews, imdb"):
        config.default("fourier", "imbd")
    with pytest.raises(AttributeError, match='Did you mean "epochs"'):
        config.default().train.epoch = 3
