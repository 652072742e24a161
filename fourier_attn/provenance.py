"""Records where a number comes from: command, commit, hardware, load, versions and date; writes its file."""

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from fourier_attn import atomic

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sve": "SVE", "asimd": "NEON"}  # newest first


def record(*packages: str) -> dict[str, Any]:
    """Returns the provenance of this process's results; versions of `packages` are recorded, too."""
    return {
        "command": command(),
        "commit": commit(),
        "hardware": hardware(),
        "versions": versions(*packages),
        "load": {"before": BEFORE, "after": load()},
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def command(words: Sequence[str] | None = None) -> str:
    """Returns a command line, by default this process's, in a form that works elsewhere.

    Absolute paths, which mean nothing on another machine, are reduced to their last part.
    """
    words = sys.orig_argv if words is None else words
    return " ".join(["python", *(shlex.quote(portable(word)) for word in words[1:])])


def commit() -> str | None:
    """Returns the commit of the source tree that the package is used from, with "+" if it was changed since.

    Results do not count as changes: what one measurement writes says nothing about the next. Without a Git
    repository, for example in a container, it is that of the environment variable FOURIER_ATTN_COMMIT, or
    None.
    """

    def git(*words: str) -> str:
        program = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)results")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("FOURIER_ATTN_COMMIT") or None


def hardware() -> dict[str, Any]:
    """Returns the processor, the cores that this process may use, the memory, and JAX's accelerators.

    Units: memory in GiB. "vectors" are the newest vector instructions of the processor. XLA compiles for
    them, and other instructions round sums differently. Virtual machines often hide the rest of the
    processor's name.
    """
    devices = jax.devices()
    on_cpu = devices[0].platform == "cpu"
    return {
        "cpu": _processor(),
        "vectors": vectors(cpu_lines()),
        "cores": cores(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "accelerator": None if on_cpu else devices[0].device_kind,
        "accelerators": 0 if on_cpu else len(devices),
    }


def load() -> float | None:
    """Returns the mean number of running or waiting processes in the last minute; None if it is unknown.

    It includes this process: an otherwise idle machine that measures on one core has the load 1.
    """
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def versions(*packages: str) -> dict[str, str]:
    """Returns the versions of Python, of `PACKAGES` and of `packages`."""
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in (*PACKAGES, *packages)},
    }


def memory_bytes() -> int:
    """Returns the size of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores() -> int:
    """Returns the number of cores that this process may use, as far as the system knows."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


BEFORE = load()  # what else the machine did when this process began


def portable(word: str) -> str:
    """Returns a word of a command with absolute paths reduced to their last part."""
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    values = (f".../{Path(part).name}" if part.startswith("/") else part for part in value.split(","))
    return f"{option}{equals}{','.join(values)}"


def write(path: Path, document: dict[str, Any]) -> None:
    """Writes a file of results."""
    atomic.make_folder(path.parent)
    atomic.write(path, json.dumps(document, indent=1) + "\n")


def vectors(lines: Sequence[str]) -> str | None:
    """Returns the newest vector instructions of a processor; None if they are unknown.

    >>> vectors(["model name : AMD EPYC", "flags : fpu sse2 avx avx2"])
    'AVX2'
    >>> vectors(["Features : fp asimd sve"])
    'SVE'

    Args:
      lines: lines of Linux's `/proc/cpuinfo`.
    """
    flags = {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()}
    return next((name for flag, name in VECTORS.items() if flag in flags), None)


def _processor() -> str:
    names = [line.partition(":")[2].strip() for line in cpu_lines() if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cpu_lines() -> list[str]:
    """Returns the lines of `/proc/cpuinfo`; none on systems without it."""
    info = Path("/proc/cpuinfo")
    return info.read_text().splitlines() if info.exists() else []
