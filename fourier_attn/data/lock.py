"""Locks a name in a folder, so that only one process at a time prepares a data set or changes a file."""

import contextlib
import errno
import fcntl
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Errors of file systems without locks; the last one is NFS's for a read-only file.
NONE = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS, errno.EBADF)

MOST = 100  # times that a folder may be removed by other processes


@contextlib.contextmanager
def alone(folder: Path, name: str) -> Iterator[None]:
    """Holds the lock of a folder and a name, after waiting for other processes.

    The system releases the lock when a process ends. The file of the lock, and folders that were created for
    it and stayed empty, are removed.

    Args:
      folder: the data directory, or the folder of a file.
      name: name of the data set or file.
    Raises: OSError if the folder cannot be written to.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    path = folder / f".{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}.lock"
    number = _held(path, f"{name} in {folder}")
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):  # a file of another user, in a folder like /tmp, may stay
            path.unlink(missing_ok=True)  # before the release, so that a waiting process creates a new file
        os.close(number)
        for each in made:
            with contextlib.suppress(OSError):  # the folder is not empty
                each.rmdir()


def _held(path: Path, what: str) -> int:
    """Returns the file descriptor of the locked file, which other processes have not removed."""
    waits, missing = False, 0
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            number = _opened(path)
        except (FileNotFoundError, FileExistsError):  # another process has removed the folder that it created
            missing += 1
            if missing > MOST:  # no file can be created in this folder, such as /proc
                raise
            continue
        try:
            fcntl.flock(number, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            print(f"waiting for another process that writes {what} ...", file=sys.stderr, flush=True)
            waits = True
            os.close(number)
            continue
        except OSError as error:
            if error.errno not in NONE:
                os.close(number)
                raise
            return number
        if _is(path, number):
            return number
        os.close(number)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except PermissionError as error:
        try:  # another user's killed process left the file; opening it for reading is enough for a lock
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise error from None


def _is(path: Path, number: int) -> bool:
    try:
        there, held = path.lstat(), os.fstat(number)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
