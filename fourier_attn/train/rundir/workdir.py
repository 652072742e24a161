"""Checks that a directory can be used for a run, and locks it for one process."""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from fourier_attn import atomic
from fourier_attn.config import Config
from fourier_attn.train.rundir.config_file import differing

LOCK = ".lock"
SELF_PRETRAINED = "self_pretrained"  # subfolder of the masked language model that a run starts from
# Files that a run writes before config.json.
EARLY = ("config.json.tmp", "tokenizer.json", "tokenizer.json.tmp", "tokenizer.model", "tokenizer.model.tmp")


def check(workdir: Path, config: Config) -> None:
    """Checks that a directory is new, empty, or that of a run with this configuration, without links.

    A run that was killed before it wrote config.json has only its lock and the files `EARLY`.

    Raises: ValueError for a run with another configuration, with the differences, for a directory with other
      files, links or special files, and for a file.
    """
    if not workdir.exists():
        return
    if not workdir.is_dir():
        raise ValueError(f"workdir={workdir} is a file; give a directory")
    refuse_links(workdir)
    # Listed before the next line, because another run may write its config.json in between.
    names = {path.name for path in workdir.iterdir()} - {SELF_PRETRAINED}
    if not (workdir / "config.json").exists():
        if names - {LOCK, *EARLY} or (names and LOCK not in names):
            raise ValueError(f"workdir={workdir} contains files but no config.json; give a new directory")
        return
    if changes := differing(workdir, config):
        listed = "; ".join(f"{key} is {a!r} there, {b!r} now" for key, (a, b) in [*changes.items()][:5])
        more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise ValueError(
            f"workdir={workdir} has a run with another configuration: {listed}{more}; give a new workdir, or "
            "the values of that run"
        )


def check_begun(workdir: Path) -> None:
    """Refuses to resume a run that has not written config.json, for example because it still reads data.

    Raises: ValueError, because only its command has its configuration.
    """
    if not (workdir / "config.json").exists() and any(
        (workdir / name).exists() for name in (LOCK, SELF_PRETRAINED)
    ):
        raise ValueError(
            f"workdir={workdir} has a run without config.json; if it was stopped, repeat its command, with "
            "--config and --workdir"
        )


def clear(workdir: Path) -> None:
    """Removes the files of a run that was killed before it wrote config.json."""
    if not (workdir / "config.json").exists():
        for name in EARLY:
            (workdir / name).unlink(missing_ok=True)


def undo(workdir: Path) -> None:
    """Removes a directory in which no run has started, unless it contains other files."""
    if (workdir / "config.json").exists():
        return
    clear(workdir)
    if {path.name for path in workdir.iterdir()} == {LOCK}:
        (workdir / LOCK).unlink()
        workdir.rmdir()


def refuse_links(workdir: Path) -> None:
    """Checks that a directory contains only regular files and folders.

    Through links a run would write elsewhere, and it would wait for pipes.

    Raises: ValueError that names the link or special file.
    """
    for folder, folders, files in os.walk(workdir):
        for name in (*folders, *files):
            path = Path(folder) / name
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:  # an active run has removed it
                continue
            if stat.S_ISLNK(mode):
                raise ValueError(f"{path} is a link, which a run's directory must not contain; remove it")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise ValueError(f"{path} is neither a file nor a folder; remove it")


@contextlib.contextmanager
def _usable(workdir: Path, done: str) -> Iterator[None]:
    """Turns an error of the file system into a ValueError, unless the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ValueError(
            f"workdir={workdir} cannot be {done} ({error.strerror}); give another directory"
        ) from error


@contextlib.contextmanager
def lock(workdir: Path) -> Iterator[None]:
    """Locks the directory for this process; the system unlocks it when the process ends.

    Raises: ValueError if another process has locked it, if it contains a link or a special file, or if it
      cannot be created or written to.
    """
    with _usable(workdir, "created"):
        atomic.make_folder(workdir)
    refuse_links(workdir)
    with _usable(workdir, "written to"):
        opened = os.open(workdir / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    with os.fdopen(opened, "w") as file:
        used = f"workdir={workdir} is in use by another run; wait for it, or give another directory"
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(used) from error
        if not os.fstat(file.fileno()).st_nlink:  # another start has removed the file of the lock
            raise ValueError(used)
        yield
