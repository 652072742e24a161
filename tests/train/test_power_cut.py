"""What is said to be done is on the disk; until then nothing older is removed, and nothing gets its name."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from fourier_attn import atomic
from fourier_attn.inference import export
from fourier_attn.train.rundir.checkpoint import CheckpointId, Checkpoints, checkpoint_ids
from fourier_attn.train.rundir.metrics_log import Writer
from fourier_attn.train.training_run import Run


class Disk:
    """Knows which files and folders have been synced since they were last changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.synced: dict[int, int] = {}
        self.patch, self.fsync = monkeypatch, os.fsync
        monkeypatch.setattr(os, "fsync", self.note)

    def note(self, number: int) -> None:
        self.fsync(number)
        found = os.fstat(number)
        self.synced[found.st_ino] = found.st_mtime_ns

    def lost(self, *trees: Path) -> list[str]:
        """What a power cut would take of some files and folders."""
        paths = [path for tree in trees for path in (tree, *tree.rglob("*"))]
        return [str(p) for p in paths if self.synced.get(p.stat().st_ino) != p.stat().st_mtime_ns]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_tree_is_synced_with_its_own_name(tmp_path: Path, disk: Disk) -> None:
    atomic.make_folder(tmp_path / "new" / "a" / "b")
    assert disk.lost(tmp_path / "new" / "a") == [str(tmp_path / "new" / "a" / "b")]
    (tmp_path / "new" / "a" / "b" / "c").write_text("c")
    (tmp_path / "new" / "dangling").symlink_to("nowhere")
    atomic.sync_tree(tmp_path / "new")
    (tmp_path / "new" / "dangling").unlink()
    assert disk.lost(tmp_path / "new" / "a", tmp_path) == [str(tmp_path / "new")]


def test_a_checkpoint_is_on_the_disk_before_an_older_one_goes(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = []

    def remove(path: Path) -> None:
        removed.append(path.name)
        there = [path.parent / str(name) for name in checkpoint_ids(tmp_path)]
        assert len(there) >= 2
        assert not disk.lost(*there)
        rmtree(path)

    rmtree = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", remove)
    checkpoints = Checkpoints(tmp_path)
    for step in range(5):
        checkpoints.save(CheckpointId(step), {"a": np.arange(3.0)})
    checkpoints.wait()
    assert not disk.lost(tmp_path / "checkpoints" / "4")
    checkpoints.close()
    assert removed == ["removed-0", "removed-1", "removed-2"]


def test_what_a_killed_process_wrote_is_on_the_disk_before_a_run_goes_on(tmp_path: Path, disk: Disk) -> None:
    for name in ("1", "2"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "array").write_text("a")
    Checkpoints(tmp_path).close()
    assert not disk.lost(tmp_path / "checkpoints")


def test_lines_are_on_the_disk_before_their_checkpoint(tmp_path: Path, disk: Disk) -> None:
    class Saving:
        def save(self, name: CheckpointId, state: object) -> None:
            assert not disk.lost(tmp_path / "metrics.jsonl")

    run = object.__new__(Run)
    run.writer, run.checkpoints, run.state = Writer(tmp_path, 0), Saving(), None
    run.writer.write("train", 1, 0.5, {"loss": 1.0})
    assert disk.lost(tmp_path / "metrics.jsonl")
    run.save(CheckpointId(1))
    run.writer.close()
    assert not disk.lost(tmp_path / "tensorboard")


def test_an_export_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(path: Path, to: Path) -> None:
        assert not disk.lost(path)
        path.replace(to)

    monkeypatch.setattr(Path, "rename", rename)
    with export._new(tmp_path / "a" / "b") as part:
        (part / "weights").write_text("1")
    assert not disk.lost(tmp_path / "a" / "b")
