"""Updates that are not finite are skipped and counted; a run that stays so goes back once, then stops."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import assert_same_run, final_state

from fourier_attn import config, model, train
from fourier_attn.data.batches import Batches
from fourier_attn.train import loop, training_run
from fourier_attn.train.distributed import signals
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.rundir.checkpoint import CheckpointId, Checkpoints
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.step import State, make_init, make_keys, make_train_step, roll_back

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the weights of the examples not a number in the training steps with these numbers."""

    def of(*steps: int) -> None:
        get = Batches.__getitem__

        def spoiled(self: Batches, index: int) -> dict[str, Any]:
            batch = get(self, index)
            if self.seed is not None and index in steps:
                batch["weight"] = batch["weight"] * np.float32(np.nan)
            return batch

        monkeypatch.setattr(Batches, "__getitem__", spoiled)

    return of


def finite(state: State) -> bool:
    kept = (state.params, state.opt_state, state.best_params, state.sums)
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept))


def strict(directory: Path) -> list[dict]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    text = (directory / "metrics.jsonl").read_text()
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_one_bad_batch_is_skipped_and_counted(
    toy: config.Config, tmp_path: Path, spoil: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(8)
    result = train.run(toy, tmp_path)
    assert math.isfinite(result["loss"])
    assert finite(final_state(tmp_path))
    skipped = [line["skipped"] for line in read_lines(tmp_path) if line["split"] == "train"]
    assert pytest.approx(1 / 6) == skipped[5]  # at the end of the second epoch of six steps
    assert sum(value > 0 for value in skipped) == 2  # at step 10 and at the end of the epoch, 12
    assert not any(line.get("spikes") for line in read_lines(tmp_path))
    assert "epoch 2" in capsys.readouterr().out.split("1 skipped")[0].splitlines()[-1]


def test_a_skipped_update_changes_nothing_but_the_counts() -> None:
    state, step, key, batch = one_step()
    bad = batch | {"weight": batch["weight"] * np.float32(np.nan)}
    kept = jax.tree.map(np.array, (state.params, state.opt_state))
    state = step(state, bad, key)
    jax.tree.map(np.testing.assert_array_equal, kept, (state.params, state.opt_state))
    assert (int(state.step), int(state.skipped)) == (1, 1)
    state = step(state, batch, key)
    assert (int(state.step), int(state.skipped)) == (2, 0)
    np.testing.assert_array_equal(state.sums["skipped"], [1, 2])


# Gradients with a finite norm, again and again: large ones, and such whose squares vanish.
COURSES = [(0.0, 0.0), (1e-30, 1e-30), (1e19, 0.0), (1e19, 1e-30), (1e19, -1e19), (1e-18, 1e-20)]
BETAS = [(0.0, 0.0), (0.0, 0.99999), (0.9, 0.81), (0.99999, 0.99999)]


@pytest.mark.parametrize("name", ["adamw", "lion", "adafactor", "sgd", "muon"])
def test_an_update_is_finite_where_the_norm_of_the_gradient_is(name: str) -> None:
    """At the ends of the ranges of all knobs, for a thousand steps: infinite weights would be saved."""
    c = config.default("identity")
    c.optim.name = name
    courses = jnp.asarray(COURSES, jnp.float32).T[:, :, None]
    betas, clips = (BETAS, (0.0, 1e-30)) if name == "adamw" else (BETAS[-1:], (0.0,))
    for (b1, b2), clip_norm, eps in itertools.product(betas, clips, (1e-15, 1.0)):
        c.optim.update(
            {"learning_rate": 1e3, "weight_decay": 1e-3, "warmup_steps": 0, "schedule": "constant"}
        )
        c.optim.update({"b1": b1, "b2": b2, "clip_norm": clip_norm, "eps": eps})
        config.check(c)
        optimizer, params = build_optimizer(c.optim), {"block_0": {"dense": {"kernel": jnp.ones((6, 1))}}}

        def step(carry: Any, i: jax.Array, optimizer: Any = optimizer) -> tuple[Any, None]:
            params, state = carry
            grads = jax.tree.map(lambda _: courses[i % 2], params)
            updates, state = optimizer.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), None

        start = (params, optimizer.init(params))
        (params, _), _ = jax.jit(lambda start, step=step: jax.lax.scan(step, start, jnp.arange(1000)))(start)
        assert np.isfinite(jax.tree.leaves(params)[0]).all(), (b1, b2, clip_norm, eps)


@pytest.mark.parametrize(
    "knobs",
    [
        {"eps": 1e-16},
        {"b1": 0.999999},
        {"b2": 1.0},
        {"b2": 0.99999, "b1": 0.999999},
        {"b2": 0.8, "b1": 0.9},
        {"clip_norm": 1e-38},
        {"learning_rate": 1e-300},
        {"learning_rate": 1e3, "weight_decay": 0.1},
    ],
)
def test_beyond_these_ranges_there_is_no_run(knobs: dict[str, float]) -> None:
    c = config.default("identity")
    c.optim.update(knobs)
    with pytest.raises(ValueError, match=next(iter(reversed(knobs)))):
        config.check(c)


def one_step() -> tuple[State, Any, Any, dict[str, Any]]:
    c = config.default("identity")
    c.model.update({"depth": 1, "d": 8, "mlp": 8, "vocab": 20})
    network, optimizer = model.build(c.model), optax.sgd(0.1)
    init_key, key = make_keys(0, 1)
    state = make_init(network, optimizer, OBJECTIVES["classes"], model.example(c.model))(init_key)
    ids = np.arange(8, dtype=np.int32).reshape(2, 4)
    batch = {
        "inputs": ids,
        "mask": ids >= 0,
        "label": np.array([0, 1], np.int32),
        "weight": np.ones(2, np.float32),
    }
    return state, make_train_step(network, optimizer, OBJECTIVES["classes"]), key, batch


def test_going_back_takes_the_weights_and_keeps_the_counts() -> None:
    state, *_ = one_step()
    good = state._replace(params=jax.tree.map(jnp.ones_like, state.params))
    bad = state._replace(step=state.step + 9, skipped=state.skipped + 3, best_score=jnp.asarray(0.5))
    kept = roll_back(bad, good, jnp.asarray(False))
    jax.tree.map(np.testing.assert_array_equal, kept, bad)
    back = roll_back(bad, good, jnp.asarray(True))
    jax.tree.map(np.testing.assert_array_equal, back.params, good.params)
    assert (int(back.step), int(back.skipped), int(back.rollbacks)) == (9, 0, 1)
    assert float(back.best_score) == 0.5


def test_a_run_goes_back_once(
    toy: config.Config, tmp_path: Path, spoil: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.train.skip_limit = 3
    spoil(8, 9, 10, 11)
    result = train.run(toy, tmp_path)
    assert "4 updates up to step 12 were not finite" in capsys.readouterr().out
    state = final_state(tmp_path)
    assert (int(state.step), int(state.rollbacks)) == (18, 1)
    assert finite(state)
    assert math.isfinite(result["loss"])


@pytest.mark.slow
@pytest.mark.parametrize("stop_at", [7, 9, 10])
def test_stopped_around_going_back_a_run_ends_the_same(
    stop_at: int, toy: config.Config, tmp_path: Path, spoil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the state that it will go back to and the trouble, within it, and after going back."""
    toy.train.skip_limit = 3
    spoil(7, 8, 9, 10)
    train.run(toy, tmp_path / "whole")
    with monkeypatch.context() as patch:

        def stop(run: training_run.Run) -> None:
            if getattr(run, "step", None) == stop_at:
                raise signals.Interrupted(15)

        patch.setattr(training_run.Run, "poll", stop)
        with pytest.raises(signals.Interrupted):
            train.run(toy, tmp_path / "stopped")
    train.run(toy, tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.slow
def test_a_streak_between_two_looks_counts(toy: config.Config, tmp_path: Path, spoil: Any) -> None:
    """Over before the next line of metrics is due."""
    toy.train.skip_limit, toy.train.log_every, toy.train.save_every = 3, 50, 2
    spoil(8, 9, 10)
    train.run(toy, tmp_path)
    assert int(final_state(tmp_path).rollbacks) == 1


@pytest.mark.slow
def test_an_epoch_without_an_update_is_not_gone_on_from(
    toy: config.Config, tmp_path: Path, spoil: Any
) -> None:
    """It has fewer steps than `skip_limit`."""
    toy.train.skip_limit = 100
    spoil(*range(18))
    with pytest.raises(loop.Diverged, match="6 updates up to step 12 were not finite"):
        train.run(toy, tmp_path)


@pytest.mark.slow
def test_a_state_after_a_skipped_update_is_saved(
    toy: config.Config, tmp_path: Path, spoil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill must not cost more than `save_every` steps."""
    save, saved = Checkpoints.save, []

    def note(checkpoints: Checkpoints, name: CheckpointId, state: Any) -> None:
        saved.append(str(name))
        save(checkpoints, name, state)

    monkeypatch.setattr(Checkpoints, "save", note)
    toy.train.save_every, toy.train.epochs = 2, 1
    spoil(*range(1, 6, 2))
    train.run(toy, tmp_path)
    assert saved == ["0", "2-stopped", "4-stopped", "6-stopped"]


@pytest.mark.slow
def test_a_run_that_diverges_again_stops_and_names_the_cure(
    toy: config.Config, tmp_path: Path, spoil: Any
) -> None:
    toy.train.skip_limit = 2
    spoil(*range(6, 18))
    with pytest.raises(loop.Diverged, match="not finite .*again after returning.* lower optim.learning"):
        train.run(toy, tmp_path)
    assert finite(final_state(tmp_path))
    assert not (tmp_path / "predictions.jsonl").exists()


@pytest.mark.slow
def test_numbers_that_are_not_finite_are_null(
    toy: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = training_run.Run.evaluate

    def lost(run: training_run.Run, title: str, *arguments: Any) -> Any:
        found, answers = evaluate(run, title, *arguments)
        return found | {"loss": np.array([np.nan])}, answers

    monkeypatch.setattr(training_run.Run, "evaluate", lost)
    train.run(toy, tmp_path)
    losses = [line["loss"] for line in strict(tmp_path) if line["split"] != "train"]
    assert losses == [None] * 4
    assert train.run(toy, tmp_path)["loss"] is None  # finished all the same
