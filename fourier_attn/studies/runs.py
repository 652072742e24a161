"""Finds and names the runs of a study, by its flags --workdir, --against and --allow_code."""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags

from fourier_attn import paths
from fourier_attn.train.rundir import config_file


def define_flags(against: bool = False, several: bool = False) -> None:
    """Defines the flags of a study.

    Args:
      against: whether a second run can be given to compare with.
      several: whether --workdir takes a list of runs.
    """
    if several:
        flags.DEFINE_list("workdir", None, "directories of trained runs, separated by commas")
    else:
        flags.DEFINE_string("workdir", None, "directory of a trained run")
    if against:
        flags.DEFINE_string("against", None, "directory of another run on the same task")
    flags.DEFINE_boolean(
        "allow_code",
        False,
        "allow importing the Python file that registered a run's custom mixer, task or optimizer",
    )


def directories() -> list[Path]:
    """Returns the directories of all runs that the flags name.

    With --allow_code it first executes the files that registered their mixers.

    Raises: ValueError if no run is given, or one is given twice.
    """
    options = flags.FLAGS
    if not options.workdir:
        raise ValueError("--workdir is needed: the directory of a trained run")
    against = options.against if "against" in options else None
    named = options.workdir if isinstance(options.workdir, list) else [options.workdir, against]
    runs = [paths.given(name).resolve() for name in named if name]
    if twice := next((directory for directory in runs if runs.count(directory) > 1), None):
        raise ValueError(f"{twice} is named twice; name each run once")
    for directory in runs if options.allow_code else ():
        for file in config_file.allow_code(directory):
            print(f"code        {file}", file=sys.stderr)
    return runs


def new_files(base: Path) -> tuple[Path, Path]:
    """Returns the files `base`.json and `base`.png of a study. Raises: ValueError if one of them exists."""
    table, picture = (base.with_name(f"{base.name}{ending}") for ending in (".json", ".png"))
    for path in (table, picture):
        paths.check_new(path, f"move it away, or name this study, --out={base.name}-2")
    return table, picture


def labels(directories: Sequence[Path]) -> list[str]:
    """Returns a name for each of several runs: the shortest end of its path that no other run's path has.

    The names distinguish runs of two sweeps whose directories have the same name.
    """
    paths = [directory.resolve().parts for directory in directories]

    def shortest(path: tuple[str, ...]) -> str:
        ends = (path[-n:] for n in range(1, len(path)))
        alone = (end for end in ends if sum(other[-len(end) :] == end for other in paths) == 1)
        return "/".join(next(alone, path))

    return [shortest(path) for path in paths]


def weights_digest(params: Any) -> str:
    """Returns a hash of the name, shape, dtype and values of each parameter."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]
