"""A run's directory: which one may be used, and by one process at a time."""

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
SELF_PRETRAINED = "self_pretrained"  # the folder of the masked language model that a run begins with
# A run writes these before config.json.
EARLY = ("config.json.tmp", "tokenizer.json", "tokenizer.json.tmp", "tokenizer.model", "tokenizer.model.tmp")


def check(workdir: Path, config: Config) -> None:
    """Checks that the directory is new, empty, or of a run with this configuration, and holds no links.

    A run that was killed before it wrote config.json has left its lock and at most the files `EARLY`.

    Raises: ValueError that lists the differences, or for a directory that is not a run's.
    """
    if not workdir.exists():
        return
    if not workdir.is_dir():
        raise ValueError(f"workdir={workdir} is a file; name a directory")
    refuse_links(workdir)
    if not (workdir / "config.json").exists():
        names = {path.name for path in workdir.iterdir()} - {SELF_PRETRAINED}
        if names - {LOCK, *EARLY} or (names and LOCK not in names):
            raise ValueError(f"workdir={workdir} holds files but no config.json; name a new directory")
        return
    if changes := differing(workdir, config):
        listed = "; ".join(f"{key} is {a!r} there, {b!r} now" for key, (a, b) in [*changes.items()][:5])
        more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise ValueError(
            f"workdir={workdir} was made by another configuration: {listed}{more}.  "
            "Name a new workdir, or give its values"
        )


def clear(workdir: Path) -> None:
    """Removes the files of a run that was killed before it wrote config.json."""
    if not (workdir / "config.json").exists():
        for name in EARLY:
            (workdir / name).unlink(missing_ok=True)


def undo(workdir: Path) -> None:
    """Removes a directory in which no run has begun, unless it holds something else."""
    if (workdir / "config.json").exists():
        return
    clear(workdir)
    if {path.name for path in workdir.iterdir()} == {LOCK}:
        (workdir / LOCK).unlink()
        workdir.rmdir()


def refuse_links(workdir: Path) -> None:
    """Checks that there are files and folders only: a run writes nowhere else, and waits for no pipe.

    Raises: ValueError that names the link or special file.
    """
    for folder, folders, files in os.walk(workdir):
        for name in (*folders, *files):
            path = Path(folder) / name
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise ValueError(f"{path} is a link, which a run does not follow; remove it")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise ValueError(f"{path} is neither a file nor a folder; remove it")


@contextlib.contextmanager
def lock(workdir: Path) -> Iterator[None]:
    """Locks the directory for this process; the system unlocks it when the process ends.

    Raises: ValueError if another process has it.
    """
    try:
        atomic.make_folder(workdir)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ValueError(f"workdir={workdir} cannot be made ({error.strerror}); name another") from error
    refuse_links(workdir)
    with os.fdopen(os.open(workdir / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(
                f"workdir={workdir} is in use by another run; wait for it or name another"
            ) from error
        yield
