import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal

from fourier_attn.train import metrics
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.rundir.curves import plot_curves
from fourier_attn.train.rundir.metrics_log import Writer


def test_sums_of_ragged_batches_are_those_of_the_whole() -> None:
    logits = normal(7, 3)
    label = jnp.array([0, 1, 2, 0, 1, 2, 0])
    sums = OBJECTIVES["classes"].sums
    first = sums(logits[:4], {"label": label[:4], "weight": jnp.ones(4)})
    filled = jnp.concatenate([logits[4:], logits[:1]]), jnp.array([1, 2, 0, 0])
    second = sums(filled[0], {"label": filled[1], "weight": jnp.array([1.0, 1.0, 1.0, 0.0])})
    p = np.exp(np.asarray(logits, np.float64))
    p /= p.sum(axis=1, keepdims=True)
    result = metrics.mean(metrics.add(first, second))
    assert result["loss"] == pytest.approx(-np.log(p[np.arange(7), label]).mean(), rel=1e-6)
    assert result["accuracy"] == pytest.approx((p.argmax(1) == label).mean())


def test_mean_over_seeds_has_a_deviation() -> None:
    result = metrics.mean(
        {"loss": np.ones((3, 2)), "accuracy": np.array([[1.0, 4.0], [2.0, 4.0], [3.0, 4.0]])}
    )
    assert result["accuracy"] == 0.5
    assert result["accuracy_seeds"] == [0.25, 0.5, 0.75]
    assert result["accuracy_std"] == pytest.approx(0.25)


def test_writer_drops_what_comes_after_its_step(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 0)
    for step in (2, 4, 6):
        writer.write("train", step, step / 4, {"loss": 1.0 / step, "accuracy": 0.5})
    writer.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 7, "epo')  # cut off by a kill
    writer = Writer(tmp_path, 4)
    writer.write("validation", 4, 1, {"loss": 0.2, "accuracy": 0.75})
    writer.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["split"]) for line in lines] == [
        (2, "train"),
        (4, "train"),
        (4, "validation"),
    ]
    assert set(lines[-1]) == {"step", "epoch", "split", "loss", "accuracy"}
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_events_wait_for_nothing(tmp_path: Path) -> None:
    """A kill takes what waits: the library would keep events for two minutes."""
    writer = Writer(tmp_path, 3)
    writer.write("train", 4, 1, {"loss": 0.25})
    (file,) = (tmp_path / "tensorboard").glob("events*")
    assert b"loss" in file.read_bytes()
    assert b"brain.Event:2" in file.read_bytes()
    writer.close()


def test_curves_are_drawn(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 0)
    for epoch in (1, 2):
        writer.write("train", 4 * epoch, epoch, {"loss": 0.5, "accuracy": 0.5})
        writer.write("validation", 4 * epoch, epoch, {"loss": 0.5, "accuracy": 0.6, "accuracy_std": 0.1})
    writer.close()
    plot_curves(tmp_path)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
