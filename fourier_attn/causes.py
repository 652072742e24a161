"""Determines whether the system or the user's input caused an exception, whichever library raised it."""

import contextlib
import errno
import os
from collections.abc import Iterator

FULL = (errno.ENOSPC, errno.EDQUOT)
# Errors of the machine, its file system or the network, which may not occur again.
BUSY = (
    *(errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.EAGAIN, errno.ENOLCK),
    *(errno.ETIMEDOUT, errno.EREMOTEIO, errno.ECONNRESET, errno.ENOTCONN, errno.EHOSTDOWN, errno.EINTR),
    errno.EUCLEAN,
)
# Errors of the system, or of a path that the user named. In the second case the project raises a ValueError
# from the OSError.
PLACE = (errno.EROFS, errno.ENXIO, errno.ENODEV, errno.EBUSY)
RIGHTS = (errno.EACCES, errno.EPERM)
# Status codes that begin XLA's errors at run time. RESOURCE_EXHAUSTED, a lack of memory, is not among them,
# because no other process causes it.
FAILED = ("ABORTED: ", "CANCELLED: ", "DEADLINE_EXCEEDED: ", "INTERNAL: ", "UNAVAILABLE: ", "UNKNOWN: ")


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and the errors that caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def disk_full(error: BaseException) -> bool:
    """Returns whether a full disk caused an error."""
    return _has_code(error, FULL)


def of_the_system(error: BaseException) -> bool:
    """Returns whether the system, not the input, caused an error, so that a retry may succeed."""
    if _has_code(error, (*FULL, *BUSY)) or any(isinstance(each, MemoryError) for each in chain(error)):
        return True
    return _has_code(error, PLACE) and not any(isinstance(each, OSError) for each in chain(error))


def of_a_computation(error: BaseException) -> bool:
    """Returns whether a computation failed, for example because another process was lost."""
    return str(error).startswith(FAILED)


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Turns a ValueError of a computation into a RuntimeError.

    JAX raises a ValueError for "UNKNOWN: Gloo all-reduce failed". A ValueError means invalid input in this
    project.
    """
    try:
        yield
    except ValueError as error:
        if not of_a_computation(error):
            raise
        raise RuntimeError(str(error)) from error


def of_the_place(error: BaseException) -> bool:
    """Returns whether a file could not be read at all, so that the error does not concern its contents."""
    return of_the_system(error) or _has_code(error, (*PLACE, *RIGHTS))


def _has_code(error: BaseException, codes: tuple[int, ...]) -> bool:
    """Returns whether an error of the chain has such a code.

    C++ libraries give no code, so that the message is searched for the system's words, too.
    """
    words = [os.strerror(code) for code in codes]
    return any(
        getattr(each, "errno", None) in codes or any(word in str(each) for word in words)
        for each in chain(error)
    )


@contextlib.contextmanager
def named(what: str, cure: str) -> Iterator[None]:
    """Turns a panic of a Rust library, which is not an Exception, into a ValueError of one line.

    Args:
      what: beginning of the message.
      cure: advice at its end.
    """
    try:
        yield
    except BaseException as error:
        if not of_rust(error):
            raise
        reason = str(error).partition("\n")[0][:200]
        raise ValueError(f"{what} ({reason}); {cure}") from error


def of_rust(error: BaseException) -> bool:
    """Returns whether an error is a Rust panic, which is not a subclass of Exception."""
    return type(error).__name__ == "PanicException"
