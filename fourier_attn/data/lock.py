"""One process at a time prepares a data set in a data directory; the others wait for it."""

import contextlib
import errno
import fcntl
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Of file systems that have no locks; the last is NFS's for a file that cannot be written to.
NONE = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS, errno.EBADF)


@contextlib.contextmanager
def alone(folder: Path, name: str) -> Iterator[None]:
    """Waits until no other process is in here for the same folder and name, and keeps others waiting.

    The system lets go of the lock when a process ends, however it does, so none remains. Nor is its
    file, or a folder that was made for it and stayed empty.

    Raises: OSError where the folder cannot be written to.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    path = folder / f".{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}.lock"
    number = _held(path, f"{name} in {folder}")
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):  # another user's, in a folder like /tmp: it does no harm
            path.unlink(missing_ok=True)  # before it is let go, so that whoever waits makes it anew
        os.close(number)
        for each in made:
            with contextlib.suppress(OSError):  # which says that something was written there
                each.rmdir()


def _held(path: Path, what: str) -> int:
    """Returns the file of a lock that is held, and is not one that another process has removed."""
    waits = False
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            number = _opened(path)
        except FileNotFoundError:  # another process has removed the folder, which it had made
            continue
        try:
            fcntl.flock(number, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            print(f"waiting for another process that prepares {what} ...", file=sys.stderr, flush=True)
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
        try:  # another user's process was killed and has left it; to lock it, reading is enough
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise error from None


def _is(path: Path, number: int) -> bool:
    try:
        there, held = path.lstat(), os.fstat(number)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
