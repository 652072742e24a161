"""Where compiled programs are kept, and from where they are not read."""

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from fourier_attn.config import default, with_values
from fourier_attn.data.cache import FOLDER
from fourier_attn.train.rundir import program_cache


def folder(data: Path, *say: Callable[[str], None]) -> Path | None:
    return program_cache.folder(with_values(default().data, {"dir": str(data)}), *say)


def test_the_folder_is_the_same_next_time(tmp_path: Path) -> None:
    place = folder(tmp_path)
    assert place == folder(tmp_path)
    assert place.is_dir()
    assert place.stat().st_mode & 0o777 == 0o700


def test_programs_that_came_with_data_are_not_looked_at(tmp_path: Path) -> None:
    """A copy of a data directory, as one that was unpacked, has another folder."""
    ours = folder(tmp_path)
    (ours / "program").write_bytes(b"")
    copied = tmp_path / "elsewhere"
    copied.mkdir()
    shutil.copytree(tmp_path / FOLDER, copied / FOLDER)
    place = folder(copied)
    assert place.name != ours.name
    assert not list(place.iterdir())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fourier_attn"


def open_to_all(folder: Path) -> None:
    folder.chmod(0o777)


def linked(folder: Path) -> None:
    folder.rename(folder.with_name("target"))
    folder.symlink_to(folder.with_name("target"))


def anothers(folder: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    os.chown(folder, 12345, 12345)


@pytest.mark.parametrize("which", ["private", "kept", "data", "above"])
@pytest.mark.parametrize("change", [open_to_all, linked, anothers])
def test_a_folder_that_others_can_change_is_not_used(
    change: Callable[[Path], None], which: str, tmp_path: Path, cache: Path
) -> None:
    """Whoever can write to a folder above can put another one in the place of the private one."""
    data, said = tmp_path / "above" / "data", []
    data.mkdir(parents=True)
    private = folder(data)
    folders = {"private": private, "kept": data / FOLDER, "data": data, "above": data.parent}
    change(folders[which])
    place = folder(data, said.append)
    if change is linked and which in ("data", "above"):
        assert place.name == private.name  # the data directory that is meant is where the link leads
        return
    assert place.parent == cache
    assert cache.stat().st_mode & 0o022 == 0
    [line] = said
    assert f"cached in {cache}; the data directory is not used: " in line
    assert str(folders[which]) in line
    open_to_all(cache)
    assert folder(data, said.append) is None
    assert f"not cached (other users can write to {cache})" in said[-1]


def test_without_a_data_directory_nothing_is_kept(tmp_path: Path) -> None:
    assert folder(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()


def test_the_oldest_programs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder(tmp_path)
    for i in range(6):
        (place / str(i)).write_bytes(zlib.compress(bytes(10)))
    size = len(zlib.compress(bytes(10)))
    monkeypatch.setattr(program_cache, "MOST", 6 * size - 1)
    folder(tmp_path)
    assert len(list(place.iterdir())) == 2


def test_a_folder_among_the_programs_stays(tmp_path: Path) -> None:
    """On GPUs JAX puts one there."""
    place = folder(tmp_path)
    (place / "xla_gpu_per_fusion_autotune_cache_dir").mkdir()
    (place / "cut").write_bytes(b"x")
    assert folder(tmp_path) == place
    assert [path.name for path in place.iterdir()] == ["xla_gpu_per_fusion_autotune_cache_dir"]


def test_a_program_that_is_not_whole_is_removed(tmp_path: Path) -> None:
    """JAX would complain at each start, compile it again, and not write it: a file of that name is there."""
    place = folder(tmp_path)
    packed = zlib.compress(bytes(range(256)) * 40_000)
    (place / "whole-cache").write_bytes(packed)
    (place / "of-another-form-cache").write_bytes(b"\x28\xb5\x2f\xfd" + packed)
    (place / "cut-cache").write_bytes(packed[:-1])
    (place / "empty-cache").write_bytes(b"")
    (place / "changed-cache").write_bytes(packed[:20] + bytes(1) + packed[21:])
    assert folder(tmp_path) == place
    assert sorted(path.name for path in place.iterdir()) == ["of-another-form-cache", "whole-cache"]


@pytest.mark.parametrize("between", ["listing and reading", "listing and measuring"])
def test_another_process_removes_programs_at_the_same_time(
    between: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder(tmp_path)
    for name in ("a", "b"):
        (place / name).write_bytes(zlib.compress(bytes(10)))
    is_file, whole = Path.is_file, program_cache._whole

    def listed(path: Path) -> bool:
        found = is_file(path)
        if path.parent == place:
            path.unlink()
        return found

    def read(path: Path) -> bool:
        path.unlink()
        return whole(path)

    if between == "listing and reading":
        monkeypatch.setattr(program_cache, "_whole", read)
    else:
        monkeypatch.setattr(Path, "is_file", listed)
    assert folder(tmp_path) == place
