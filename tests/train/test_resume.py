"""A run that was stopped or killed ends as the unbroken one, bit for bit."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import pytest
from conftest import ROOT, assert_same_run, shrink

from fourier_attn import config, train
from fourier_attn.train.rundir.metrics_log import read_lines

pytestmark = pytest.mark.usefixtures("standard_promotion")


def test_a_run_repeats_bit_for_bit_and_the_loss_falls(toy: config.Config, tmp_path: Path) -> None:
    toy.optim.learning_rate, toy.optim.warmup_steps = 1e-2, 0
    for name in ("a", "b"):
        train.run(toy, tmp_path / name)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    losses = [line["loss"] for line in read_lines(tmp_path / "a") if line["split"] == "train"]
    assert losses[-1] < 0.9 * losses[0]


@pytest.fixture(scope="module")
def whole(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an unbroken toy run with dropout."""
    where = tmp_path_factory.mktemp("whole")
    with jax.numpy_dtype_promotion("standard"):
        train.run(with_dropout(shrink(config.default(), few_reviews)), where)
    return where


def with_dropout(c: config.Config) -> config.Config:
    c.model.dropout = 0.3
    return c


@pytest.mark.parametrize(
    "stop_at",
    [pytest.param(4, marks=pytest.mark.slow), 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (6, 18))],
)
def test_a_run_stopped_at_any_step_ends_the_same(
    stop_at: int,
    whole: Path,
    toy: config.Config,
    tmp_path: Path,
    stopped_at: Callable[[config.Config, Path, int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Stopped by a signal between saves, at a save, and at the end of an epoch before its validation."""
    with_dropout(toy)
    stopped_at(toy, tmp_path / "stopped", stop_at)
    train.run(toy, tmp_path / "stopped")
    assert f"resuming at step {stop_at}" in capsys.readouterr().out  # not from the start
    assert_same_run(whole, tmp_path / "stopped")


PROGRAM = """
import sys
import json
from fourier_attn import config, train
train.run(config.from_dict(json.loads(sys.argv[1])), sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_run_ends_the_same(whole: Path, toy: config.Config, tmp_path: Path) -> None:
    """Killed while it trains, and again after it has gone on."""
    arguments = [sys.executable, "-c", PROGRAM, json.dumps(with_dropout(toy).to_dict()), str(tmp_path)]

    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # as here

    def go() -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(arguments, env=environment, **pipes)

    for kill_after in (8, 14):
        process = go()
        while process.poll() is None and not any(line["step"] >= kill_after for line in read_lines(tmp_path)):
            time.sleep(0.001)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert read_lines(tmp_path)[-1]["split"] != "test"
    process = go()
    out, _ = process.communicate()
    assert process.returncode == 0, out
    assert int(re.search(r"resuming at step (\d+)", out)[1]) >= 4
    assert_same_run(whole, tmp_path)
