"""Writes files atomically: after an interruption or a power cut, either the old or the new version exists."""

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write(path: Path, contents: str | bytes) -> None:
    """Writes a file atomically and syncs it to the disk. A symbolic link is replaced, not followed."""
    with writing(path) as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)


@contextmanager
def writing(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Opens a file to write incrementally; it exists only after the context ends without an error.

    Args:
      path: the file to write.
      mode: its permissions, default rw-r--r--.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)  # the directory entry


def make_folder(path: Path) -> None:
    """Makes a folder and its missing parents, and syncs their directory entries to the disk."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync(made.parent)


def sync(path: Path) -> None:
    """Syncs a file, or the entries of a folder, to the disk."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as error:
        # A folder may be unreadable, and some network file systems do not let folders be synced.
        if error.errno not in (errno.EACCES, errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise


def sync_tree(path: Path) -> None:
    """Syncs a folder, all its contents and its own entry to the disk, which libraries do not do.

    Files that another process removes meanwhile are skipped.
    """
    for folder, _, names in os.walk(path, topdown=False):
        for name in (*names, ""):
            with contextlib.suppress(FileNotFoundError):
                sync(Path(folder) / name)
    sync(path.parent)
