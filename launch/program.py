"""Builds the command to launch, `python -m MODULE WORDS`, with its run directory and output folder."""

import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from absl import flags

from fourier_attn import paths

TRAINING = "fourier_attn.main"


@dataclass(frozen=True)
class Program:
    """A command and its run directory.

    Args:
      command: the words of the command.
      workdir: the run directory, which all processes and all restarts share.
    """

    command: tuple[str, ...]
    workdir: Path

    @property
    def output(self) -> Path:
        """Returns the folder next to the directory for the output of each process."""
        return self.workdir.with_name(f"{self.workdir.name}.launch")

    def __str__(self) -> str:
        return shlex.join(self.command)


def define_flags() -> None:
    flags.DEFINE_string("module", TRAINING, "module to run with the arguments after --, as python -m MODULE")
    flags.DEFINE_boolean("dry_run", False, "print the commands without running them")


def program(words: Sequence[str]) -> Program:
    """Returns the command for the words after `--`, with a new run directory if `--workdir` is missing.

    Raises: ValueError.
    """
    if not words:
        raise ValueError("the command has no arguments; give them after --, for example -- --config=FILE")
    workdir_option = option(words, "workdir")
    if workdir_option == "":
        raise ValueError("--workdir= is empty; name a directory, or leave it out")
    workdir = paths.given(workdir_option or new_workdir(words))
    paths.folder(workdir, "workdir")
    added = () if workdir_option else (f"--workdir={workdir}",)
    return Program((sys.executable, "-m", flags.FLAGS.module, *words, *added), workdir)


def option(words: Sequence[str], name: str) -> str | None:
    """Returns the value of an option, given as --name=value or as two words; None if it is missing."""
    value = None
    for word, following in zip(words, (*words, "")[1:], strict=True):
        match = re.fullmatch(rf"--?{name}(=(.*))?", word, flags=re.DOTALL)
        if match:
            value = following if match[1] is None else match[2]
    return value


def new_workdir(words: Sequence[str]) -> str:
    """Returns a directory named after the configuration file, its argument and the time."""
    file, _, argument = (option(words, "config") or "run").partition(":")
    parts = (Path(file).stem, argument, time.strftime("%Y%m%d-%H%M%S"))
    return "runs/" + re.sub(r"[^\w.-]+", "-", "-".join(part for part in parts if part))
