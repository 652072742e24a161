"""More epochs for a finished run."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import assert_same_run, final_state, numbers, run_here

from fourier_attn import config, main, train
from fourier_attn.knobs import with_values
from fourier_attn.train import training_run
from fourier_attn.train.extend import extend
from fourier_attn.train.optimizer import build_schedule
from fourier_attn.train.rundir import config_file, fingerprints
from fourier_attn.train.rundir.metrics_log import read_lines

pytestmark = pytest.mark.usefixtures("standard_promotion")


def extended(directory: Path, epochs: int) -> str:
    said = extend(directory, epochs)
    train.run(config_file.load(directory), directory)
    return said


def test_with_a_constant_rate_it_is_the_longer_run(toy: config.Config, tmp_path: Path) -> None:
    toy.optim.schedule, toy.optim.warmup_steps, toy.model.dropout = "constant", 4, 0.3
    train.run(toy, tmp_path / "long")
    toy.train.epochs = 2
    train.run(toy, tmp_path / "short")
    extended(tmp_path / "short", 1)
    assert_same_run(tmp_path / "long", tmp_path / "short")


def test_the_rate_is_that_of_the_longer_schedule(toy: config.Config, tmp_path: Path) -> None:
    toy.train.epochs, toy.train.log_every, toy.optim.warmup_steps = 2, 1, 2
    train.run(toy, tmp_path)
    before, moments = numbers(tmp_path), final_state(tmp_path).opt_state
    said = extended(tmp_path, 2)
    assert "from 2 to 4 epochs" in said
    lines = read_lines(tmp_path)
    rates = {line["step"]: line["learning_rate"] for line in lines if line["split"] == "train"}
    short, long = (build_schedule(with_values(toy.optim, {"steps": n})) for n in (12, 24))
    for step, rate in rates.items():
        np.testing.assert_allclose(rate, (short if step <= 12 else long)(step - 1), rtol=1e-6)
    assert numbers(tmp_path)[: len(before) - 1] == before[:-1]  # but for the test set, which is read anew
    assert [line["step"] for line in lines if line["split"] == "test"] == [24]
    after = final_state(tmp_path).opt_state
    assert jax.tree.structure(after) == jax.tree.structure(moments)
    assert config_file.record(tmp_path)["extended"][0]["step"] == 12


def test_patience_counts_anew(toy: config.Config, tmp_path: Path) -> None:
    toy.train.patience, toy.train.epochs, toy.optim.learning_rate = 1, 6, 1e-9  # never better than the first
    train.run(toy, tmp_path)
    assert read_lines(tmp_path)[-1]["step"] == 12
    extended(tmp_path, 3)
    assert read_lines(tmp_path)[-1]["step"] == 18
    assert config_file.load(tmp_path).train.epochs == 5


def test_where_the_training_is_refused_the_run_stays_finished(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other code, or a mesh that is not there."""
    run = shutil.copytree(toy_run, tmp_path / "run")
    before = (run / "config.json").read_bytes()
    monkeypatch.setattr(fingerprints, "code_fingerprint", lambda: {"source": "another"})
    code, out, error = run_here(main, f"--workdir={run}", "--extend=1")
    assert (code, "other code" in error) == (2, True), out + error
    assert (run / "config.json").read_bytes() == before
    code, _, error = run_here(main, f"--workdir={run}", "--extend=1", "--allow_drift=code")
    assert code == 0, error


def test_what_an_extension_has_saved_stays(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint is behind the last step of the shorter run, which could not go on with it."""
    run = shutil.copytree(toy_run, tmp_path / "run")

    def fail(*_: object) -> None:
        raise ValueError("a prediction is not finite")

    with monkeypatch.context() as patch:
        patch.setattr(training_run, "measure", fail)
        code, _, error = run_here(main, f"--workdir={run}", "--extend=1")
    assert (code, "is not finite" in error) == (2, True), error
    code, _, error = run_here(main, f"--workdir={run}")
    assert code == 0, error
    assert read_lines(run)[-1]["epoch"] == config_file.load(run).train.epochs == 4


def test_a_run_that_is_not_finished_is_refused(toy_run: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((toy_run / "config.json").read_bytes())
    code, _, error = run_here(main, f"--workdir={tmp_path}", "--extend=2")
    assert (code, error.count("is not finished; resume it without --extend")) == (2, 1)
    for words in (["--config=fnet", "--extend=2"], [f"--workdir={tmp_path}", "--extend=0"]):
        assert run_here(main, *words)[0] == 2
