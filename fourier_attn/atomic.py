"""Files that are whole: after an interruption there is the old one or the new one."""

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
    """As `write`, bit by bit: the file is there when the context ends, and not after an error."""
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
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # the new name, too
    os.close(folder)
