"""Which trained runs a study asks: its flags --workdir, --against and --allow_code."""

import sys
from pathlib import Path

from absl import flags

from fourier_attn import paths
from fourier_attn.train import workdir


def define_flags(against: bool = False, several: bool = False) -> None:
    """With `against`, a second run may be named; with `several`, any number of runs of one kind."""
    if several:
        flags.DEFINE_list("workdir", None, "directories of trained runs, with commas in between")
    else:
        flags.DEFINE_string("workdir", None, "directory of a trained run")
    if against:
        flags.DEFINE_string("against", None, "directory of another run on the same task")
    flags.DEFINE_boolean("allow_code", False, "run the files again that have registered its mixer or task")


def directories() -> list[Path]:
    """Of all runs that are named. Files that have registered their mixers are executed where that is allowed.

    Raises: ValueError where none is named, or both have one name.
    """
    given = flags.FLAGS
    if not given.workdir:
        raise ValueError("--workdir is needed: the directory of a trained run")
    against = given.against if "against" in given else None
    named = given.workdir if isinstance(given.workdir, list) else [given.workdir, against]
    found = [paths.given(name).resolve() for name in named if name]
    if len({directory.name for directory in found}) < len(found):
        raise ValueError(
            f"{', '.join(map(str, found))}: two runs have one name; rows could not be told apart"
        )
    for directory in found if given.allow_code else ():
        for file in workdir.allow_code(directory):
            print(f"code        {file}", file=sys.stderr)
    return found
