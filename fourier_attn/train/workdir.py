"""A run's directory: whose configuration made it, with which versions, and who uses it now."""

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fourier_attn import provenance

PACKAGES = ("orbax-checkpoint", "safetensors", "tensorflow-datasets", "grain", "tokenizers")
# set by the machine or by the run itself
FREE = ("data.dir", "model.vocab", "model.classes", "model.head", "optim.steps", "model.mixer.lengths")


def check(workdir: Path, config: Mapping[str, Any]) -> None:
    """Sees that the directory is new, empty, or of a run with this configuration.

    Raises: ValueError that lists the differences, or for a directory that is no run's.
    """
    if not workdir.exists():
        return
    if not workdir.is_dir():
        raise ValueError(f"workdir={workdir} is a file; name a directory")
    if not (workdir / "config.json").exists():
        if any(path.name != ".lock" for path in workdir.iterdir()):
            raise ValueError(
                f"workdir={workdir} holds files but no config.json, so it is no run's; name a new directory"
            )
        return
    there, given = flat(load(workdir)), flat(json.loads(json.dumps(config)))
    differing = [key for key in sorted(there.keys() | given.keys()) if there.get(key) != given.get(key)]
    if differing := [key for key in differing if key not in FREE]:
        listed = "; ".join(
            f"{key} is {there.get(key)!r} there, {given.get(key)!r} now" for key in differing[:5]
        )
        more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
        raise ValueError(
            f"workdir={workdir} was made by another configuration: {listed}{more}.  "
            "Name a new workdir, or give its values"
        )


def load(workdir: Path) -> dict[str, Any]:
    """The resolved configuration of the run in `workdir`.

    Raises: ValueError where there is none, or it is not readable.
    """
    try:
        return json.loads((workdir / "config.json").read_text())["config"]
    except FileNotFoundError as error:
        raise ValueError(
            f"workdir={workdir} holds no run (no config.json); train one first or name another"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{workdir / 'config.json'} is damaged ({error}); name another workdir") from error


def save(workdir: Path, config: Mapping[str, Any]) -> None:
    """Writes `config.json`: the resolved configuration, the versions and the commit."""
    facts = {"versions": provenance.versions(*PACKAGES), "commit": provenance.commit()}
    text = json.dumps({"config": config, **facts}, indent=2)
    temporary = workdir / "config.json.tmp"
    temporary.write_text(text + "\n")
    temporary.replace(workdir / "config.json")


@contextlib.contextmanager
def lock(workdir: Path) -> Iterator[None]:
    """Keeps the directory for this process; the system lets go of it when the process ends.

    Raises: ValueError if another process has it.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    with (workdir / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(
                f"workdir={workdir} is in use by another run; wait for it or name another"
            ) from error
        yield


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested configuration as one mapping, `a.b.c` to value."""
    result = {}
    for key, value in tree.items():
        result |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return result
