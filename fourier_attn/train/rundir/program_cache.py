"""Chooses the folder of JAX's compilation cache: `.fourier_attn` in the data directory, if that is safe.

A compiled program is code. It is read only from a folder that only this user and root can change or replace,
and all parent folders are checked as well. If the data directory is unsafe, the user's cache directory is
used. The folder's name is a hash of this machine and of the inode of its parent, so that a folder that was
copied with data or a run is ignored.
"""

import contextlib
import hashlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path

from fourier_attn import paths, provenance
from fourier_attn.data import cache as kept
from fourier_attn.data.knobs import DataConfig

MOST = 2**30  # largest size in bytes; if it is exceeded, the oldest half is removed
ZSTD = b"\x28\xb5\x2f\xfd"  # the first bytes of a file that zstandard has compressed


def folder(config: DataConfig, say: Callable[[str], None] = lambda line: None) -> Path | None:
    """Returns the folder for compiled programs; None if no folder is safe.

    Args:
      config: the `data` part of the configuration.
      say: prints the reason if the folder is not in the data directory; default: nothing.
    """
    if config.task == "files" and not (config.train and paths.given(config.train).exists()):
        return None  # reading the table reports what is wrong, and no folder is made beside a wrong path
    data, own = kept.root(config).resolve(), _own_cache()
    if not data.is_dir():
        return None
    if isinstance(place := _private(data / kept.FOLDER), Path):
        return place
    with contextlib.suppress(OSError):
        own.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    own_place = _private(own)
    where = f"cached in {own}" if isinstance(own_place, Path) else f"not cached ({own_place})"
    say(f"compiled programs are {where}; the data directory is not used: {place}")
    return own_place if isinstance(own_place, Path) else None


def _own_cache() -> Path:
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = configured if configured.is_absolute() else Path("~/.cache").expanduser()
    return cache.resolve() / "fourier_attn"


def _private(above: Path) -> Path | str:
    """Returns this user's and machine's folder inside `above`, or the reason why it is unsafe."""
    try:
        if reason := paths.exposed(above.parent):
            return reason
        with contextlib.suppress(FileExistsError):
            above.mkdir(mode=0o755)
        identity = f"{above.lstat().st_ino} {os.geteuid()} {_machine()}"
        place = above / f"programs-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
        if reason := paths.exposed(above):
            return reason
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        if reason := paths.exposed(place):
            return reason
        _tidy(place)
        return place
    except OSError as error:
        return f"{above} cannot be used ({error.strerror})"


def _machine() -> str:
    """Returns the versions and the processor that compiled programs depend on."""
    names = ("model name", "flags", "Features")
    lines = [line for line in provenance.cpu_lines() if line.startswith(names)]
    return f"{provenance.versions()} {lines[:2]}"


def _tidy(place: Path) -> None:
    """Removes truncated programs, and the oldest ones if the folder is too large.

    Another process may do the same at the same time, so that any file may be missing a moment later.
    """
    for path in _files(place):
        # JAX writes files incrementally and never overwrites one, so a truncated file would stay forever.
        with contextlib.suppress(FileNotFoundError):
            if not _whole(path):
                path.unlink()
    files = _files(place)
    size = sum(stat.st_size for stat in files.values())
    if size <= MOST:
        return
    for path, stat in sorted(files.items(), key=lambda item: item[1].st_mtime_ns):
        path.unlink(missing_ok=True)
        size -= stat.st_size
        if size <= MOST / 2:
            return


def _files(place: Path) -> dict[Path, os.stat_result]:
    """Returns the files of programs and their states, without the folder that JAX adds on GPUs."""
    found = {}
    for path in place.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                found[path] = path.stat()
    return found


def _whole(path: Path) -> bool:
    """Returns whether zlib can decompress a program completely; True for zstandard."""
    unpacking = zlib.decompressobj()
    with path.open("rb") as file:
        packed = file.read(4)
        if packed == ZSTD:  # written if the package zstandard is installed
            return True
        try:
            while packed:
                unpacking.decompress(packed)
                packed = file.read(2**20)
        except zlib.error:
            return False
    return unpacking.eof
