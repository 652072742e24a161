"""Reads untrusted files, plain or compressed, within limits.

A copy of a data set may come from somebody else. Its files must not block, fill the memory, or bring other
files of this machine into the data set.
"""

import gzip
import hashlib
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

# Limits. The largest of the supported data sets have texts of 80 kB (articles), 400,000 rows (MNLI) and
# 0.3 GB (the archive of IMDb, decompressed). Each split is held in memory, also by TFDS.
TEXT = 2**24  # bytes of a text or a line
ROWS = 2**21  # lines of a file, or texts in a folder or an archive
UNPACKED = 2**29  # decompressed bytes of a file, or of all texts in a folder
RATIO = 100  # ratio of decompressed to compressed bytes: 3 to 10 for text, 1000 and more for a bomb
SMALL = 2**24  # decompressed bytes that are harmless at any ratio


class Limits(NamedTuple):
    """Holds the limits of a file; the default limits are `ROWS` and `UNPACKED`.

    Args:
      rows: largest number of lines.
      unpacked: largest number of decompressed bytes.
    """

    rows: int
    unpacked: int


OWN = Limits(2**40, 2**50)  # limits of custom tables, which are read line by line
BOM = b"\xef\xbb\xbf"
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)  # errors of reading a compressed file
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def ending(path: str | Path) -> str:
    """Returns the ending of a file's name in lower case, for example ".csv"."""
    return Path(path).suffix.lower()


def find(folder: Path, name: str, packed: tuple[str, ...] = (".xz",)) -> Path | None:
    """Returns a file in a folder, plain or compressed, in any case; None if it does not exist.

    Args:
      folder: the folder.
      name: name of the plain file.
      packed: possible endings of a compressed file; default (".xz",).
    """
    if not folder.is_dir():
        return None
    names = [name, *(f"{name}{end}" for end in packed)]
    for wanted in names:
        if os.path.lexists(folder / wanted):
            return folder / wanted
    there = {path.name.lower(): path for path in sorted(folder.iterdir(), reverse=True)}
    return next((there[wanted.lower()] for wanted in names if wanted.lower() in there), None)


def packed(folder: Path, name: str) -> Path:
    """Returns the file `name`, `name`.gz or `name`.xz in `folder`. Raises: ValueError if none exists."""
    path = find(folder, name, (".gz", ".xz"))
    if path is None:
        raise ValueError(f"{folder} has no {name} (also not as .gz or .xz); give the folder that has it")
    return path


def letters(text: str) -> str:
    """Returns the letters and digits of a text in lower case; texts with the same result count as equal."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


def open_regular(path: Path, source: Path) -> BinaryIO:
    """Opens a regular file for reading.

    `source` is the file or the folder that the user named, and `path` is this file or a file in this folder.
    Links that the user named are followed. Links inside the folder are refused, because they may lead
    anywhere.

    Raises: ValueError for a link, a file that is not regular, and a file that cannot be opened.
    """
    inside = path.relative_to(source).parts
    for depth in range(1, len(inside) + 1):
        part = source.joinpath(*inside[:depth])
        if part.is_symlink():
            raise ValueError(f"{part} is a link; put the file or folder itself there, or remove it")
    try:
        # without O_NONBLOCK a named pipe would block; a link may have appeared since the check
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if inside else 0))
    except OSError as error:
        raise ValueError(f"{path} cannot be opened ({error.strerror}); check the copy") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "not a file")
        raise ValueError(f"{path} is {kind}, not a regular file; put the file itself there, or remove it")
    return os.fdopen(descriptor, "rb")


@contextmanager
def unpacked(path: Path, source: Path, limits: Limits | None = None) -> Iterator[BinaryIO]:
    """Opens a file as `open_regular` does, and decompresses it if its name ends in .xz, .gz or .tgz.

    Args:
      path, source: see `open_regular`.
      limits: limits of the contents; default None: `UNPACKED`.
    Raises: ValueError, also while reading, for contents beyond the limits, and for more than `SMALL` bytes
      that are more than `RATIO` times the size of the file.
    """
    with open_regular(path, source) as file:
        limit = min(
            limits.unpacked if limits else UNPACKED, max(SMALL, RATIO * os.fstat(file.fileno()).st_size)
        )
        with unpack(file, ending(path)) as contents:
            yield io.BufferedReader(_Limited(contents, path, limit))


def unpack(file: Any, suffix: str) -> Any:
    """Returns a decompressing reader of an open file, which `suffix` selects."""
    if suffix == ".xz":
        return lzma.open(file)
    if suffix in (".gz", ".tgz"):
        return gzip.open(file)
    return file


class _Limited(io.RawIOBase):
    """Reads a file up to a limit.

    Args:
      contents: an open file.
      path: its name, for the message.
      limit: largest number of bytes.
    """

    def __init__(self, contents: Any, path: Path, limit: int) -> None:
        self.contents, self.path, self.limit, self.size = contents, path, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes into `buffer`, and returns their number."""
        count = self.contents.readinto(buffer)
        self.size += count
        if self.size > self.limit:
            raise ValueError(
                f"{self.path} decompresses to more than {self.limit:,} bytes, too many for such a data set; "
                "get the copy again"
            )
        return count


def read_text(path: Path, source: Path, most: int | None = None, what: str = "text") -> bytes:
    """Returns the contents of a file.

    Args:
      path, source: see `open_regular`.
      most: largest number of bytes; default None: `TEXT`.
      what: kind of the file, for the message; default "text".
    Raises: ValueError for more bytes.
    """
    most = TEXT if most is None else most
    with open_regular(path, source) as file:
        contents = file.read(most + 1)
    if len(contents) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, too many for a {what}; remove it")
    return contents


def digest(parts: Iterable[Path], source: Path) -> str:
    """Returns a hash of the concatenated contents of the files `parts`; for `source` see `open_regular`."""
    total = hashlib.sha256()
    for part in parts:
        with open_regular(part, source) as file:
            while piece := file.read(2**20):
                total.update(piece)
    return total.hexdigest()


def numbered(file: Any) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of an open file without their ends, numbered from 1, cut after `TEXT` + 1 bytes.

    A carriage return also ends a line, as in Python's text mode, which TFDS uses. A byte order mark at the
    start of any line is dropped, because concatenated files have several.
    """
    number = 0
    while ended := file.readline(TEXT + 1):
        cut, rest = len(ended) > TEXT, ended
        while cut and rest and not rest.endswith(b"\n"):
            rest = file.readline(TEXT)
        for line in [ended] if cut else ended.rstrip(b"\r\n").split(b"\r"):
            number += 1
            yield number, line.removeprefix(BOM)


def lines(path: Path, source: Path) -> Iterator[tuple[str, str]]:
    """Yields the place of each line, for messages, and the line without its end, see `numbered`.

    For `path` and `source` see `open_regular`.

    Raises: ValueError for a file that `unpacked` refuses or that is damaged, a line that is not UTF-8 or has
      more than `TEXT` bytes, and more than `ROWS` lines.
    """
    with unpacked(path, source) as file:
        for number, line in decoded(file, str(path), ROWS):
            yield f"{path}, line {number}", line


def decoded(file: Any, name: str, most: int) -> Iterator[tuple[int, str]]:
    """Yields the lines of an open file as texts, numbered from 1.

    Args:
      file: the open file.
      name: its name, for messages.
      most: largest number of lines.
    Raises: ValueError as `lines`.
    """
    for number, line, error in checked_lines(file, name):
        if number > most:
            raise ValueError(f"{name} has more than {most:,} lines; check the copy")
        if error:
            raise ValueError(f"{name}, line {number} {error}")
        yield number, line


def checked_lines(file: Any, name: str) -> Iterator[tuple[int, str, str]]:
    """Yields the number of each line, its text, and an error message for an invalid line (else "").

    Raises: ValueError for a truncated or damaged file.
    """
    number = 0
    try:
        for number, line in numbered(file):
            if len(line) > TEXT:
                yield number, "", f"has more than {TEXT:,} bytes; shorten that line, or check the copy"
                continue
            try:
                yield number, line.decode("utf-8"), ""
            except UnicodeDecodeError as error:
                yield number, "", f"is not UTF-8 ({error.reason} at byte {error.start}); convert the file"
    except DAMAGED as error:
        raise ValueError(
            f"{name} cannot be read after line {number} ({error}); get the copy again"
        ) from error
