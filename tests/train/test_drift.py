"""What is not as it was when a run began is noticed before the run goes on."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import assert_same_run, shrink
from test_checkpoint import data_files

import fourier_attn
from fourier_attn import config, train
from fourier_attn.inference import evaluation
from fourier_attn.inference.predictor import Predictor
from fourier_attn.train import init_from, training_run
from fourier_attn.train.distributed import signals
from fourier_attn.train.rundir import config_file, fingerprints
from fourier_attn.train.rundir.checkpoint import checkpoint_ids

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture(scope="module")
def runs(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[config.Config, Path, Path]:
    """A configuration, its whole run, and one that was stopped at step 9."""
    c = shrink(config.default(), few_reviews)
    where = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch, jax.numpy_dtype_promotion("standard"):
        train.run(c, where / "whole")

        def stop(run: training_run.Run) -> None:
            if getattr(run, "step", None) == 9:
                raise signals.Interrupted(15)

        patch.setattr(training_run.Run, "poll", stop)
        with pytest.raises(signals.Interrupted):
            train.run(c, where / "stopped")
    return c, where / "whole", where / "stopped"


@pytest.fixture
def stopped(runs: tuple[config.Config, Path, Path], tmp_path: Path) -> tuple[config.Config, Path]:
    """A copy of the stopped run."""
    shutil.copytree(runs[2], tmp_path / "run")
    return runs[0], tmp_path / "run"


def contents(directory: Path) -> dict[str, Any]:
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
        if path.name != ".lock"
    }


def refused(c: config.Config, where: Path, message: str, **options: Any) -> None:
    before = contents(where)
    with pytest.raises(ValueError, match=message):
        train.run(c, where, **options)
    assert contents(where) == before


@pytest.mark.slow
def test_lost_checkpoints_are_no_fresh_start(stopped: tuple[config.Config, Path]) -> None:
    c, where = stopped
    for path in (where / "checkpoints").iterdir():
        shutil.rmtree(path)
    refused(c, where, "has metrics of 8 steps but no checkpoint; restore its folder checkpoints")
    (where / "checkpoints").rmdir()
    refused(c, where, "has metrics of 8 steps but no checkpoint")
    (where / "metrics.jsonl").write_text("")
    refused(c, where, "has metrics of 0 steps but no checkpoint")


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_used(
    stopped: tuple[config.Config, Path],
    runs: tuple[config.Config, Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    c, where = stopped
    for path in data_files(where / "checkpoints" / "9-stopped"):
        path.unlink()
    train.run(c, where)
    out = capsys.readouterr().out
    assert out.count("checkpoints/9-stopped is damaged") == 1
    assert "resuming at step 8" in out
    assert (where / "checkpoints" / "damaged-9-stopped").is_dir()
    assert_same_run(runs[1], where)


def test_without_a_sound_checkpoint_nothing_is_touched(stopped: tuple[config.Config, Path]) -> None:
    c, where = stopped
    for name in checkpoint_ids(where):
        for path in data_files(where / "checkpoints" / str(name)):
            path.unlink()
    refused(c, where, "all checkpoints in .* are damaged .*9-stopped damaged.*8 damaged")


def changed(path: Path, edit: Callable[[dict], None]) -> None:
    facts = json.loads(path.read_text())
    edit(facts)
    path.write_text(json.dumps(facts))


def test_other_code_is_named(stopped: tuple[config.Config, Path], runs: tuple) -> None:
    c, where = stopped
    changed(where / "config.json", lambda facts: facts["fingerprints"].update(code="0123"))
    refused(c, where, "was started with other code .code 0123 -> .*--allow_drift=code")
    refused(c, where, "was started with other code", allow_drift=["data"])
    assert train.run(c, where, allow_drift=["code", "data"])["step"] == 18
    assert [note["what"] for note in config_file.record(where)["allowed_drift"]] == [["code"]]  # what it was
    assert_same_run(runs[1], where)


def test_another_device_in_the_same_file_is_named(few_reviews: str, tmp_path: Path) -> None:
    """What a measured device's file holds belongs to the run, as the data do; where it lies is its name."""
    file, where = tmp_path / "device.npz", tmp_path / "run"
    np.savez(file, transfer=np.eye(16))
    c = shrink(config.default("fourier", engine="ideal"), few_reviews)
    c.model.mixer.engine.shape, c.model.mixer.engine.device.file = (4, 4), str(file)
    fingerprint = fingerprints.device_fingerprint(c)
    assert list(fingerprint) == ["model.mixer.engine.device.file"]
    where.mkdir()
    config_file.save(where, c, {"device": fingerprint})
    assert fingerprints.check_drift(where, {"device": fingerprint}) == []
    np.savez(file, transfer=np.eye(16) * 0.9)
    other = {"device": fingerprints.device_fingerprint(c)}
    message = r"other device .device.model.mixer.engine.device.file .{16} -> .{16}.*--allow_drift=device"
    with pytest.raises(ValueError, match=message):
        fingerprints.check_drift(where, other)
    assert fingerprints.check_drift(where, other, ["device"]) == ["device"]


def test_a_run_looks_at_its_devices(stopped: tuple[config.Config, Path]) -> None:
    c, where = stopped
    changed(where / "config.json", lambda facts: facts["fingerprints"]["device"].update(file="0123"))
    refused(c, where, "was started with other device .device.file 0123 -> .*--allow_drift=device")


@pytest.mark.slow
def test_other_data_are_named(stopped: tuple[config.Config, Path], data_dir: str) -> None:
    c, where = stopped
    c = c.copy_and_resolve_references()
    c.data.dir = data_dir  # the same name, other reviews; where the data are is no matter
    refused(c, where, "was started with other data .*data.train 96 .* -> 96 .*--allow_drift=data")
    assert train.run(c, where, allow_drift=["data"])["step"] == 18


@pytest.mark.slow
def test_a_permuted_tokenizer_is_named(stopped: tuple[config.Config, Path]) -> None:
    c, where = stopped

    def permute(facts: dict) -> None:
        vocab = facts["model"]["vocab"]
        a, b = list(vocab)[5:7]
        vocab[a], vocab[b] = vocab[b], vocab[a]

    changed(where / "tokenizer.json", permute)
    refused(
        c, where, "was started with other data and tokenizer .*tokenizer .* -> .*--allow_drift=data,tokenizer"
    )
    assert train.run(c, where, allow_drift=["data", "tokenizer"])["step"] == 18


def test_other_code_does_not_make_checkpoints_damaged(
    stopped: tuple[config.Config, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state of another form, as other code has it, cannot be read; it stays where it is."""
    c, where = stopped
    changed(where / "config.json", lambda facts: facts["fingerprints"].update(code="0123"))
    monkeypatch.setattr(training_run, "make_init", lambda *_: lambda *_: {"another": 1.0})
    refused(c, where, "was started with other code")
    refused(c, where, "all checkpoints in .* are damaged", allow_drift=["code"])


def test_the_code_is_read_from_the_source(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "studies").mkdir()
    source = tmp_path / "train" / "step.py"
    source.write_text("a = 1\n")
    before = fingerprints.code_fingerprint(tmp_path)
    (tmp_path / "studies" / "new.py").write_text("b = 1\n")
    assert fingerprints.code_fingerprint(tmp_path) == before
    source.write_text("a = 2\n")
    assert fingerprints.code_fingerprint(tmp_path) != before


def test_the_code_is_that_of_the_whole_package() -> None:
    names = fingerprints.training_sources()
    assert names.keys() >= {"model.py", "train/loop.py", "layers/encoder.py", "ops/fourier.py"}
    package = Path(fourier_attn.__file__).parent
    for command in fingerprints.COMMANDS:
        assert (package.parent if command == "configs/" else package).joinpath(command).exists(), command
        assert not [name for name in names if name.startswith(command)]


@pytest.fixture
def copied(toy_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(toy_run, tmp_path / "copied"))


def swap_words(run: Path) -> None:
    def swap(facts: dict) -> None:
        vocab = facts["model"]["vocab"]
        first, second = list(vocab)[2:4]
        vocab[first], vocab[second] = vocab[second], vocab[first]

    changed(run / "tokenizer.json", swap)


def swap_labels(run: Path) -> None:
    changed(run / "config.json", lambda facts: facts["config"]["data"].update(labels=["pos", "neg"]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (swap_words, "tokenizer.json differs from the tokenizer that .* restore the original file"),
        (
            lambda run: (run / "tokenizer.json").unlink(),
            "tokenizer.json differs from the tokenizer .*-> none",
        ),
        (
            lambda run: (run / "tokenizer.model").write_bytes(b"planted"),
            "tokenizer.model differs from the tokenizer that",
        ),
        (
            swap_labels,
            "config.json is damaged .its network or labels have changed .* restore the file from a copy",
        ),
        (
            lambda run: changed(run / "config.json", lambda f: f["config"]["model"].update(pooling="first")),
            "its network or labels have changed",
        ),
    ],
)
def test_what_a_run_is_used_with_is_what_it_was_trained_with(
    damage: Callable[[Path], object], message: str, copied: Path
) -> None:
    damage(copied)
    for use in (Predictor.load, init_from.restore, evaluation.evaluate):
        with pytest.raises(ValueError, match=message):
            use(copied)


def test_places_and_runs_without_fingerprints_are_not_compared(copied: Path) -> None:
    """A run that was copied may say where its data are now; earlier versions kept no such fingerprints."""
    changed(copied / "config.json", lambda facts: facts["config"]["data"].update(dir="/elsewhere"))
    assert init_from.restore(copied)[0].data.dir == "/elsewhere"
    changed(copied / "config.json", lambda facts: facts["config"].update(init_from="/elsewhere/run"))
    changed(copied / "config.json", lambda facts: facts["config"]["train"].update(log_every=7))
    changed(
        copied / "config.json", lambda facts: facts["config"]["data"].update(tokenizer="/elsewhere/t.json")
    )
    assert config_file.load(copied).train.log_every == 7
    swap_words(copied)
    changed(copied / "config.json", lambda facts: facts["config"].update(seed=5))
    changed(copied / "config.json", lambda facts: facts.update(fingerprints={}))
    assert Predictor.load(copied)(["a good film"])


def test_the_files_of_a_measured_device_are_compared(copied: Path, tmp_path: Path) -> None:
    config_there, file = config_file.load(copied), tmp_path / "device.npz"
    file.write_bytes(b"measured")
    engine = "model.mixer.engine.device.file"
    changed(copied / "config.json", lambda f: f["fingerprints"].update(device={engine: "0123"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "device_files", lambda _: {engine: str(file)})
        with pytest.raises(
            ValueError, match=r"other measured devices .*0123 -> .*restore the original files"
        ):
            fingerprints.check_files(copied, config_there)
