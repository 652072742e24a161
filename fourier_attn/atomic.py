"""Writes files atomically: after an interruption, even a power cut, the old or the new version exists."""

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write(path: Path, contents: str | bytes) -> None:
    """Writes a file at once, and onto the disk; a link in its place is replaced, not followed."""
    with writing(path) as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)


@contextmanager
def writing(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Writes like `write`, but incrementally: the file exists after the context, and not after an error."""
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
    sync(path.parent)  # the new name, too


def make_folder(path: Path) -> None:
    """Makes a folder, and those above it that do not exist, and brings their names onto the disk."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync(made.parent)


def sync(path: Path) -> None:
    """Brings a file, or the names in a folder, onto the disk."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as error:
        # A folder may be closed to readers, and some network file systems sync the names in it by themselves.
        if error.errno not in (errno.EACCES, errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise


def sync_tree(path: Path) -> None:
    """Brings a folder with all that is in it, and its own name, onto the disk: libraries do not do so.

    What another process removes in the meantime is left out.
    """
    for folder, _, names in os.walk(path, topdown=False):
        for name in (*names, ""):
            with contextlib.suppress(FileNotFoundError):
                sync(Path(folder) / name)
    sync(path.parent)
