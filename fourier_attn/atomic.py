"""Files that are whole: after an interruption there is the old one or the new one."""

import os
from pathlib import Path


def write(path: Path, contents: str | bytes) -> None:
    """Writes a file at once, and onto the disk; a link in its place is replaced, not followed."""
    data = contents.encode() if isinstance(contents, str) else contents
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(file, "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # the new name, too
    os.close(folder)
