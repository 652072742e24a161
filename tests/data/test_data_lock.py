"""Several processes that start on one data directory: one prepares a data set, the others wait for it."""

import errno
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from waiting import ENDLESS_S

from fourier_attn.data import lock, tfds
from fourier_attn.data.sources import reviews


def in_child(work: Any) -> int:
    """Runs work in another process, which ends at once after it; returns its number."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def waited(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def heard(pipe: int) -> str:
    """What a child writes into a pipe, within a minute."""
    assert select.select([pipe], [], [], 60)[0]
    return os.read(pipe, 10_000).decode()


def test_who_comes_later_waits_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    (hear, speak), (listen, go) = os.pipe(), os.pipe()

    def work(first: bool = False) -> None:
        with os.fdopen(os.dup(speak), "w") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            with lock.alone(tmp_path / "data", "a/b:1.0.0"):
                said.write_text(f"{said.read_text() if said.exists() else ''}in ")
                if first:
                    os.write(speak, b"inside")
                    heard(listen)
                said.write_text(f"{said.read_text()}out ")

    children = [in_child(lambda: work(first=True))]
    assert heard(hear) == "inside"
    for _ in range(2):
        children.append(in_child(work))
        assert heard(hear).startswith("waiting for another process that writes a/b:1.0.0 in")
    os.write(go, b"go")
    assert [waited(child) for child in children] == [0, 0, 0]
    assert said.read_text() == "in out " * 3
    assert not [*tmp_path.glob("data/*")]  # nor a file of the lock


def test_the_lock_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a killed process has left, which this user may only read."""
    opened = os.open

    def refuse(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, *mode)

    (tmp_path / ".x.lock").touch()
    monkeypatch.setattr(os, "open", refuse)
    with lock.alone(tmp_path, "x"):
        pass
    with pytest.raises(PermissionError), lock.alone(tmp_path, "none"):
        pass


def test_a_folder_in_which_no_file_can_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as /proc, for a data set that is generated and for one that is downloaded."""

    def refuse(path: Path) -> int:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr(lock, "_opened", refuse)
    with pytest.raises(FileNotFoundError), lock.alone(tmp_path, "x"):
        pass
    for name, make in {"synthetic_reviews": reviews.builder, "imdb_reviews": None}.items():
        with pytest.raises(ValueError, match=f"{name} cannot be written to .*give another directory"):
            tfds.prepared(name, str(tmp_path), make)


def test_a_killed_process_keeps_nobody_waiting(tmp_path: Path) -> None:
    hear, speak = os.pipe()

    def work() -> None:
        with lock.alone(tmp_path, "x"):
            os.write(speak, b"inside")
            time.sleep(ENDLESS_S)

    child = in_child(work)
    assert heard(hear) == "inside"
    os.kill(child, signal.SIGKILL)
    waited(child)
    assert (tmp_path / ".x.lock").exists()
    with lock.alone(tmp_path, "x"):
        pass
    assert not (tmp_path / ".x.lock").exists()


def test_what_another_process_has_prepared_is_taken(
    few_reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of who waits, nobody prepares again, as the data set has come in the meantime."""
    target = tmp_path / "data"

    def come(folder: Path, name: str) -> Any:
        target.symlink_to(few_reviews)
        return original(folder, name)

    original = lock.alone
    monkeypatch.setattr(lock, "alone", come)
    monkeypatch.setattr(tfds, "_prepare", lambda builder: pytest.fail("it is prepared already"))
    assert tfds.prepared("synthetic_reviews", str(target), reviews.builder).is_prepared()


def test_another_process_may_finish_at_any_moment(
    few_reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data set comes before each access to its folder; it is read completely, and not prepared again."""
    kind, accesses, arrival, needed = reviews.SyntheticReviews, 0, 0, []

    def folder(builder: Any) -> Any:
        nonlocal accesses
        accesses += 1
        if accesses == arrival:
            target.mkdir(exist_ok=True)
            (target / "synthetic_reviews").symlink_to(Path(few_reviews, "synthetic_reviews"))
        return original.fget(builder)

    original: Any = kind.data_path
    monkeypatch.setattr(kind, "data_path", property(folder))
    monkeypatch.setattr(tfds, "_prepare", needed.append)
    while not needed:
        accesses, arrival, target = 0, arrival + 1, tmp_path / f"data-{arrival}"
        found = tfds.prepared("synthetic_reviews", str(target), reviews.builder)
        assert needed or found.info.splits["train"].num_examples == 200
    assert arrival > accesses > 5  # it was prepared only when the data set came after all accesses


def test_a_prepared_data_set_needs_no_lock(few_reviews: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "alone", lambda *given: pytest.fail("a directory may be read-only"))
    assert tfds.prepared("synthetic_reviews", few_reviews, reviews.builder).is_prepared()


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"synthetic_reviews cannot be written to .*give another directory"):
        tfds.prepared("synthetic_reviews", str(tmp_path / "file"), reviews.builder)


@pytest.mark.slow
def test_three_first_starts_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from fourier_attn.data import tfds, tfds_splits\n"
        "from fourier_attn.data.sources import reviews\n"
        "reviews.SyntheticReviews.sizes = {'train': 200, 'validation': 20, 'test': 20}\n"
        "builder = tfds.prepared('synthetic_reviews', sys.argv[1], reviews.builder)\n"
        "print(len(tfds_splits.read_split(builder, 'train')))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "data")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, **pipes) for _ in range(3)]
    ends = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], ends
    assert [out.splitlines()[-1] for out, _ in ends] == ["200"] * 3
