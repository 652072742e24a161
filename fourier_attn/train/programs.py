"""Compiled programs, kept for the next start: in `.fourier_attn` of the data directory.

A compiled program is code. So it is read only from a folder of this user's that nobody else can write to, and
whose name tells this machine and the number that its file system gave to the folder above: one that came with
somebody's data or run has another number, and is not looked at.
"""

import contextlib
import hashlib
import os
import stat
import zlib
from pathlib import Path
from typing import Any

from fourier_attn import provenance
from fourier_attn.data import kept

MOST = 2**30  # bytes; the oldest half is removed where there are more
ZSTD = b"\x28\xb5\x2f\xfd"  # what such a file begins with


def folder(config: Any) -> Path | None:
    """Where programs are kept, by the `data` part of the configuration; None where it cannot be trusted."""
    above = kept.root(config).resolve() / kept.FOLDER
    try:
        above.mkdir(exist_ok=True)
        found = above.lstat()
        told = f"{found.st_ino} {os.geteuid()} {_machine()}"
        place = above / f"programs-{hashlib.sha256(told.encode()).hexdigest()[:32]}"
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        if not _mine(place) or not stat.S_ISDIR(found.st_mode):
            return None
        _tidy(place)
        return place
    except OSError:  # no data directory yet, or one that is read only
        return None


def _mine(place: Path) -> bool:
    found = place.lstat()
    private = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o022
    return stat.S_ISDIR(found.st_mode) and private


def _machine() -> str:
    """What a program that was compiled for its processor is for."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    kind = [line for line in lines if line.startswith(("model name", "flags", "Features"))][:2]
    return f"{provenance.versions()} {kind}"


def _tidy(place: Path) -> None:
    for path in _files(place):
        # JAX writes them bit by bit, and never again where there is one: a cut one would stay for ever.
        if not _whole(path):
            path.unlink(missing_ok=True)
    files = [(path, path.stat()) for path in _files(place)]
    size = sum(found.st_size for _, found in files)
    if size <= MOST:
        return
    for path, found in sorted(files, key=lambda item: item[1].st_mtime_ns):
        path.unlink(missing_ok=True)
        size -= found.st_size
        if size <= MOST / 2:
            return


def _files(place: Path) -> list[Path]:
    """The programs; on GPUs JAX puts a folder beside them."""
    return [path for path in place.iterdir() if path.is_file()]


def _whole(path: Path) -> bool:
    """Whether a program, as JAX packs it by zlib, can be unpacked to its end; packed otherwise, it counts."""
    unpacking = zlib.decompressobj()
    with path.open("rb") as file:
        packed = file.read(4)
        if packed == ZSTD:  # where the package zstandard is installed
            return True
        try:
            while packed:
                unpacking.decompress(packed)
                packed = file.read(2**20)
        except zlib.error:
            return False
    return unpacking.eof
