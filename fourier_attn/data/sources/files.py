"""Files of a published data set, plain or xz, read line by line; and which texts are the same."""

import lzma
import re
from collections.abc import Iterator
from pathlib import Path


def find(folder: Path, name: str) -> Path | None:
    """The file `name` or `name`.xz in `folder`."""
    return next((path for path in (folder / name, folder / f"{name}.xz") if path.is_file()), None)


def letters(text: str) -> str:
    """What makes two texts the same: their letters and digits, of any script, in lower case."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yields where a line stands, for messages, and the line without its end.

    A lone carriage return ends a line too, as in Python's text mode, in which TFDS reads.

    Raises: ValueError for a line that is not UTF-8 and a file that is cut off or damaged.
    """
    number = 0
    try:
        with (lzma.open if path.suffix == ".xz" else open)(path, "rb") as file:
            for ended in file:
                for line in ended.rstrip(b"\r\n").split(b"\r"):
                    number += 1
                    yield f"{path}, line {number}", line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number} is not UTF-8 ({error.reason} at byte {error.start}); convert the file"
        ) from error
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise ValueError(
            f"{path} cannot be read beyond line {number} ({error}); get the copy again"
        ) from error
