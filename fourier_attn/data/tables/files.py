"""Reads files of anybody's, plain or packed, within limits; and decides which texts are the same.

A copy of a data set comes from strangers, so nothing in it may hang the reading, fill the memory or bring
other files of this machine into the data set.
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

# The largest of the data sets here have texts of 80 kB (articles), 400,000 rows (MNLI) and 0.3 GB (the
# archive of IMDb, unpacked). Each split is held in memory, by TFDS too.
TEXT = 2**24  # bytes of a text or a line
ROWS = 2**21  # lines of a file, texts in a folder or an archive
UNPACKED = 2**29  # bytes of a file after unpacking, of all texts in a folder
RATIO = 100  # unpacked to packed bytes: text has 3 to 10, a bomb 1000 and more
SMALL = 2**24  # unpacked bytes that do no harm, whatever their ratio


class Limits(NamedTuple):
    """Lines of a file, and its bytes after unpacking; without them `ROWS` and `UNPACKED` hold."""

    rows: int
    unpacked: int


OWN = Limits(2**40, 2**50)  # of the user's own tables, which are read line by line
BOM = b"\xef\xbb\xbf"
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)  # what reading a packed file may raise
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def ending(path: str | Path) -> str:
    """Returns the ending of a file's name in lower case, ".csv": some systems write it in capitals."""
    return Path(path).suffix.lower()


def find(folder: Path, name: str, packed: tuple[str, ...] = (".xz",)) -> Path | None:
    """Returns the file `name` in `folder`, plain or packed; its ending may be in capitals."""
    if not folder.is_dir():
        return None
    names = [name, *(f"{name}{end}" for end in packed)]
    for wanted in names:
        if os.path.lexists(folder / wanted):
            return folder / wanted
    there = {path.name.lower(): path for path in sorted(folder.iterdir(), reverse=True)}
    return next((there[wanted.lower()] for wanted in names if wanted.lower() in there), None)


def packed(folder: Path, name: str) -> Path:
    """Returns the file `name`, `name`.gz or `name`.xz in `folder`. Raises: ValueError where none exists."""
    path = find(folder, name, (".gz", ".xz"))
    if path is None:
        raise ValueError(f"{folder} has no {name} (nor packed, .gz or .xz); name the folder that has it")
    return path


def letters(text: str) -> str:
    """Returns the letters and digits of a text in lower case; texts with the same ones count as equal."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


def open_regular(path: Path, source: Path) -> BinaryIO:
    """Opens `path`, which is `source`, as the user named it, or a file in that folder.

    A link is followed where the user names it. Within the folder it is refused, since it may lead anywhere.

    Raises: ValueError for a link, for what is not a regular file, and for one that cannot be opened.
    """
    inside = path.relative_to(source).parts
    for depth in range(1, len(inside) + 1):
        part = source.joinpath(*inside[:depth])
        if part.is_symlink():
            raise ValueError(f"{part} is a link; put the file or folder itself there, or remove it")
    try:
        # a named pipe would wait for its writer; a link may have come since
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if inside else 0))
    except OSError as error:
        raise ValueError(f"{path} cannot be opened ({error.strerror}); check the copy") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "no file")
        raise ValueError(f"{path} is {kind}, not a regular file; put the file itself there, or remove it")
    return os.fdopen(descriptor, "rb")


@contextmanager
def unpacked(path: Path, source: Path, limits: Limits | None = None) -> Iterator[BinaryIO]:
    """Opens a file as `open_regular` does; what is read is unpacked where its name ends in .xz, .gz or .tgz.

    Raises: ValueError, also while reading, for more bytes than `limits` say, and for more than `SMALL` that
      are more than `RATIO` times the bytes of the file.
    """
    with open_regular(path, source) as file:
        limit = min(
            limits.unpacked if limits else UNPACKED, max(SMALL, RATIO * os.fstat(file.fileno()).st_size)
        )
        with unpack(file, ending(path)) as contents:
            yield io.BufferedReader(_Limited(contents, path, limit))


def unpack(file: Any, suffix: str) -> Any:
    """Opens what is packed in an open file, by the ending of its name."""
    if suffix == ".xz":
        return lzma.open(file)
    if suffix in (".gz", ".tgz"):
        return gzip.open(file)
    return file


class _Limited(io.RawIOBase):
    """Reads on from `contents` until there are more than `limit` bytes."""

    def __init__(self, contents: Any, path: Path, limit: int) -> None:
        self.contents, self.path, self.limit, self.size = contents, path, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.contents.readinto(buffer)
        self.size += count
        if self.size > self.limit:
            raise ValueError(
                f"{self.path} unpacks to more than {self.limit:,} bytes, too many for such a data set; "
                "get the copy again"
            )
        return count


def read_text(path: Path, source: Path, most: int | None = None, what: str = "text") -> bytes:
    """Returns the contents of a file that is one text, or something else with at most `most` bytes.

    Raises: ValueError for more than `most` bytes; without it, for more than `TEXT`.
    """
    most = TEXT if most is None else most
    with open_regular(path, source) as file:
        contents = file.read(most + 1)
    if len(contents) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, too many for a {what}; remove it")
    return contents


def digest(parts: Iterable[Path], source: Path) -> str:
    """Returns a hash of the bytes of some files, one after the other."""
    total = hashlib.sha256()
    for part in parts:
        with open_regular(part, source) as file:
            while piece := file.read(2**20):
                total.update(piece)
    return total.hexdigest()


def numbered(file: Any) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of an open file without their ends, numbered from 1, cut after `TEXT` + 1 bytes.

    A lone carriage return ends a line too, as in Python's text mode, in which TFDS reads. A mark of the
    encoding is left out at the head of every line, since files that were put together have several.
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
    """Yields the place of a line, for messages, and the line without its end, as `numbered` reads them.

    Raises: ValueError for a file that `unpacked` refuses, that is cut off or damaged, a line that is not
      UTF-8 or has more than `TEXT` bytes, and more than `ROWS` lines.
    """
    with unpacked(path, source) as file:
        for number, line in decoded(file, str(path), ROWS):
            yield f"{path}, line {number}", line


def decoded(file: Any, name: str, most: int) -> Iterator[tuple[int, str]]:
    """Yields the lines of an open file as texts, numbered from 1. Raises: ValueError as `lines`."""
    for number, line, error in checked_lines(file, name):
        if number > most:
            raise ValueError(f"{name} has more than {most:,} lines; check the copy")
        if error:
            raise ValueError(f"{name}, line {number} {error}")
        yield number, line


def checked_lines(file: Any, name: str) -> Iterator[tuple[int, str, str]]:
    """Yields the number of each line, its text, and why it cannot be used; "": it can.

    Raises: ValueError for a file that is cut off or damaged.
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
            f"{name} cannot be read beyond line {number} ({error}); get the copy again"
        ) from error
