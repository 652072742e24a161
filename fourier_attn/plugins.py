"""Finds custom mixers, tasks and optimizers, and records where they come from.

There are two ways to register them. An installed package declares them as entry points in the group
"fourier_attn.mixers", "fourier_attn.tasks" or "fourier_attn.optimizers". They are found by name, without
further consent. Any other module, such as a configuration file, calls `register_mixer`, `register_task` or
`register_optimizer`, and the config.json of a run records the module. Loading a run never executes that
module unless --allow_code is given.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from fourier_attn import paths

KINDS = ("mixers", "tasks", "optimizers")


class Origin(NamedTuple):
    """Names the module that registered something, and its file; "" for an entry point."""

    module: str
    file: str


_origins: dict[tuple[str, str], Origin] = {}
_taken: list[str] = []  # entries of sys.path, while a command runs
_sources: dict[tuple[str, str], str] = {}  # files with the classes, which others may register


def note(kind: str, name: str, module: str = "") -> None:
    """Records which module registers something: the first caller outside of installed packages.

    Args:
      kind: "mixers", "tasks" or "optimizers".
      name: the registered name.
      module: the module that defines the registered object.
    """
    frame: FrameType | None = sys._getframe()
    inside = tuple(f"{place}{os.sep}" for place in (Path(__file__).parent, *places()))
    while frame is not None and frame.f_code.co_filename.startswith((*inside, "<")):
        frame = frame.f_back
    namespace = frame.f_globals if frame else {}
    _origins[kind, name] = Origin(str(namespace.get("__name__", "")), _whole(namespace.get("__file__")))
    _sources[kind, name] = _whole(getattr(sys.modules.get(module), "__file__", None))


def _whole(file: str | None) -> str:
    """Returns the absolute path, since a run is used from other folders, too."""
    return str(Path(file).absolute()) if file else ""


def places() -> list[str]:
    """Returns where packages are installed: not the working directory, which may be somebody's run."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages(), *user]
    return list(dict.fromkeys(folders))


@contextlib.contextmanager
def installed_only() -> Iterator[None]:
    """Takes the folders off the module path from which files of a run or of data could be imported.

    `python -m` puts the working directory there, a folder without code is a package for Python, and libraries
    import what a file names (TFDS), or all of a package (JAX its plug-ins). Modules of the project's packages
    are found by their own paths. What PYTHONPATH names stays, as the user named it; an empty entry of it
    names nothing.
    """
    before, here = list(sys.path), Path.cwd()
    named = [] if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = {*places(), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    kept |= {str(Path(entry).absolute()) for entry in named if entry}
    checkout = Path(__file__).resolve().parents[1]

    def leads_here(entry: str) -> bool:
        folder = Path(entry or here).resolve()
        return entry not in kept and (here.is_relative_to(folder) or folder == checkout)

    _taken[:] = [entry for entry in before if leads_here(entry)]
    sys.path[:] = [entry for entry in before if entry not in _taken]
    try:
        yield
    finally:
        sys.path[:] = before
        _taken.clear()


@contextlib.contextmanager
def with_neighbours(folder: Path) -> Iterator[None]:
    """Lets code that the user names import modules next to it, and puts back what `installed_only` took.

    Only while that code is executed: what its functions import later must be installed or on PYTHONPATH.

    Args:
      folder: the folder of that code.
    """
    before = list(sys.path)
    sys.path[:0] = [str(folder.absolute()), *_taken]
    try:
        yield
    finally:
        sys.path[:] = before


def entry(kind: str, name: str) -> Any:
    """Returns the object that an installed package registers under that name; None if none does.

    Raises: ValueError if it cannot be loaded.
    """
    installed = importlib.metadata.distributions(path=places())
    points = [
        point
        for package in installed
        for point in package.entry_points.select(group=f"fourier_attn.{kind}", name=name)
    ]
    if not points:
        return None
    try:
        loaded = points[0].load()
    except (Exception, SystemExit) as error:  # a package's module is run here, and may fail in any way
        raise ValueError(
            f"the entry point {points[0].value} of {name!r} cannot be loaded "
            f"({type(error).__name__}: {error}); fix that package, or remove it"
        ) from error
    _origins[kind, name] = Origin(points[0].value, "")
    return loaded


def record(names: Mapping[str, set[str]]) -> dict[str, dict[str, dict[str, str]]]:
    """Returns the origins of these names by kind, as config.json has them, without built-in ones."""
    origins = {}
    for kind in KINDS:
        registered = [name for name in sorted(names[kind]) if (kind, name) in _origins]
        if registered:
            origins[kind] = {name: _origins[kind, name]._asdict() for name in registered}
    return origins


def digests() -> dict[str, str]:
    """Returns hashes, by file name, of the files that registered something or define what was registered.

    The hashes of files of the same name are joined in an order that does not depend on their folders.
    """
    by_name: dict[str, list[str]] = {}
    for file in {origin.file for origin in _origins.values()} | set(_sources.values()) - {""}:
        by_name.setdefault(Path(file).name, []).append(paths.digest(Path(file)))
    return {name: "-".join(sorted(hashes)) for name, hashes in sorted(by_name.items())}


def recorded(facts: Any) -> dict[tuple[str, str], Origin]:
    """Returns the origins under "plugins" of a config.json that are not registered here, but no entry points.

    Raises: ValueError for a damaged record.
    """
    try:
        listed = {(kind, name): origin for kind in KINDS for name, origin in facts.get(kind, {}).items()}
        origins = {key: Origin(str(o["module"]), str(o["file"])) for key, o in listed.items()}
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("its plugins do not have the form of plug-ins") from error
    return {key: origin for key, origin in origins.items() if origin.file and key not in _origins}


def run(origin: Origin) -> None:
    """Executes a module, which registers what it has.

    Raises: ValueError where it cannot be found, or fails.
    """
    path = Path(origin.file)
    name = f"fourier_attn_plugin_{hashlib.sha256(origin.file.encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path) if path.suffix == ".py" else None
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"{origin.file} is not a Python module; restore it, or register the plug-in first")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with with_neighbours(path.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # somebody's code
        raise ValueError(f"{origin.file} cannot be run ({type(error).__name__}: {error})") from error
