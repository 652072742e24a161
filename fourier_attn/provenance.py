"""Where a number comes from: the command, the commit, the hardware, the versions and the date."""

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")


def record(*packages: str) -> dict[str, Any]:
    """All of it about the present process; `packages` are further ones whose versions matter."""
    return {
        "command": command(),
        "commit": commit(),
        "hardware": hardware(),
        "versions": versions(*packages),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def command() -> str:
    """The command line of this process; of absolute paths, which say nothing elsewhere, the last part."""
    return " ".join(["python", *(shlex.quote(_portable(word)) for word in sys.orig_argv[1:])])


def _portable(word: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    return f"{option}{equals}.../{Path(value).name}" if value.startswith("/") else word


def commit() -> str | None:
    """The commit of the source tree, where the package is used from one; with "+" if it was changed since.

    Results do not count as changes: what one measurement writes says nothing about the next.
    """

    def git(*words: str) -> str:
        program = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)results")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def hardware() -> dict[str, Any]:
    """The processor, the cores that this process may use, the memory, and JAX's accelerators.

    Units: memory in GiB.
    """
    devices = jax.devices()
    on_cpu = devices[0].platform == "cpu"
    return {
        "cpu": _processor(),
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "accelerator": None if on_cpu else devices[0].device_kind,
        "accelerators": 0 if on_cpu else len(devices),
    }


def versions(*packages: str) -> dict[str, str]:
    """Of Python, of `PACKAGES` and of `packages`."""
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in (*PACKAGES, *packages)},
    }


def cores() -> int:
    """Cores that this process may use: those it is bound to, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
