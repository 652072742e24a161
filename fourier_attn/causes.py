"""What an error says about its cause, whatever library raised it: the system, or what was given."""

import errno
import os
from collections.abc import Iterator

FULL = (errno.ENOSPC, errno.EDQUOT)
# What a machine or its file system does by itself, and may not do again.
BUSY = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.EAGAIN, errno.ENOLCK)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def disk_full(error: BaseException) -> bool:
    """Whether the disk was full, as far as the chain of errors tells."""
    return _tells(error, FULL)


def of_the_system(error: BaseException) -> bool:
    """Whether an error says nothing about what was given: the same may work next time."""
    return _tells(error, (*FULL, *BUSY)) or any(isinstance(each, MemoryError) for each in chain(error))


def _tells(error: BaseException, codes: tuple[int, ...]) -> bool:
    """Whether one of the chain has such a number; libraries in C++ only have its words in their message."""
    words = [os.strerror(code) for code in codes]
    return any(
        getattr(each, "errno", None) in codes or any(word in str(each) for word in words)
        for each in chain(error)
    )


def of_rust(error: BaseException) -> bool:
    """Whether an error is a panic of a library in Rust, which is not an Exception."""
    return type(error).__name__ == "PanicException"
