"""Trackers: what they are given, when it is flushed, and a run that continues its id."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tensorboardX import record_writer

from fourier_attn import config, train
from fourier_attn.train.rundir import trackers
from fourier_attn.train.rundir.metrics_log import Writer, read_lines


class StandIn(ModuleType):
    """The part of wandb that is used; `refuse` has its `init` fail."""

    class Error(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("wandb")
        self.given: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        self.finished, self.refuse = 0, False

    def init(self, **given: Any) -> "StandIn":
        if self.refuse:
            raise self.Error("no key")
        self.given.append(given)
        return self

    def define_metric(self, name: str, step_metric: str) -> None:
        assert (name, step_metric) == ("*", "step")

    def log(self, values: dict[str, Any], commit: bool) -> None:
        assert commit
        self.lines.append(values)

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    module = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_wandb_gets_every_number_and_keeps_its_id(wandb: StandIn, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for step in (2, 4):  # the second is the run resumed
        writer = Writer(run, step - 2, True, "wandb", {"model.d": 8})
        writer.write("train", step, step / 4, {"loss": 0.5, "undefined": {"f1": "why"}, "examples": 3})
        writer.close()
    assert wandb.lines == [{"step": step, "epoch": step / 4, "train/loss": 0.5} for step in (2, 4)]
    first, second = wandb.given
    assert first == second
    assert first["id"] == (run / trackers.ID).read_text()
    assert (first["name"], first["resume"], first["config"]) == ("run", "allow", {"model.d": 8})
    assert Path(first["dir"]) == tmp_path / "run.wandb"
    assert Path(first["dir"]).is_dir()
    assert wandb.finished == 2
    other = tmp_path / "other"
    other.mkdir()
    Writer(other, 0, True, "wandb").close()
    assert wandb.given[-1]["id"] != first["id"]
    assert not list(tmp_path.glob("*/tensorboard"))


def test_wandb_that_cannot_start_is_one_line(wandb: StandIn, tmp_path: Path) -> None:
    wandb.refuse = True
    with pytest.raises(ValueError, match=r"--tracker=wandb cannot start \(no key\); log in with"):
        Writer(tmp_path, 0, True, "wandb")


@pytest.mark.parametrize(
    ("tracker", "said"),
    [
        ("wandb", r"--tracker=wandb needs the package wandb; run pip install -e '\.\[wandb\]' in your clone"),
        ("bogus", "--tracker='bogus' is unknown; choose one of tensorboard, wandb, none"),
    ],
)
def test_an_unusable_tracker_is_refused_before_anything_is_written(
    tracker: str, said: str, toy: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    with pytest.raises(ValueError, match=said):
        train.run(toy, tmp_path / "run", tracker=tracker)
    assert not (tmp_path / "run").exists()


def test_tensorboard_is_imported_before_anything_is_written(
    toy: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match="tensorboardX"):
        train.run(toy, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def events(folder: Path) -> int:
    """Returns the events on the disk beyond the header of each file."""
    files = list((folder / "tensorboard").glob("events*"))
    assert len(files) == 1
    data, count = files[0].read_bytes(), 0
    while data:  # length (8), its sum (4), the event, its sum (4)
        size = int.from_bytes(data[:8], "little")
        assert record_writer.masked_crc32c(data[:8]) == int.from_bytes(data[8:12], "little")
        data, count = data[16 + size :], count + 1
    return count


def test_events_are_on_the_disk_at_every_checkpoint(tmp_path: Path) -> None:
    """Nothing waits after `sync`."""
    writer = Writer(tmp_path, 0)
    writer.sync()
    before = events(tmp_path)
    for step in (1, 2, 3):
        writer.write("train", step, step, {"loss": 0.5, "accuracy": 0.5})
    writer.sync()
    assert events(tmp_path) == before + 6
    writer.close()


def test_without_a_tracker_the_lines_are_written_all_the_same(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 0, True, "none")
    writer.write("train", 1, 1, {"loss": 0.5})
    writer.close()
    assert [line["loss"] for line in read_lines(tmp_path)] == [0.5]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_run_is_resumed_under_its_id(
    wandb: StandIn, toy: config.Config, tmp_path: Path, stopped_at: Any
) -> None:
    where = tmp_path / "run"
    stopped_at(toy, where, 7)
    train.run(toy, where, tracker="wandb")
    assert {line["step"] for line in wandb.lines} >= {8, 12, 18}
    assert any("test/accuracy" in line for line in wandb.lines)
    assert wandb.given[0]["config"]["train.epochs"] == toy.train.epochs
