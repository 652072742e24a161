"""Expands --grid into all combinations of its values, names each of them, and checks its configuration.

A grid can contain options of the configuration, and the flags `config`, `mixer` and `recipe` of the training
command.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from absl import flags

from fourier_attn import command, config
from fourier_attn.config_flag import read
from fourier_attn.train import memory
from fourier_attn.train.monitor import metric_of
from launch.program import TRAINING, option

CHOICES = ("config", "mixer", "recipe")  # flags of the training command
LONGEST = 200  # bytes of a directory's name; file systems allow 255, and submitit adds a suffix
Point = Mapping[str, str]  # option -> value, as written on the command line


def points(options: Sequence[str]) -> list[Point]:
    """Returns all combinations of the values of KNOB=VALUE,VALUE,...; the last knob varies fastest.

    Raises: ValueError.
    """
    grid: dict[str, list[str]] = {}
    for text in options:
        knob, equals, listed = text.partition("=")
        values = split(listed)
        if not equals or not re.fullmatch(r"\w+(\.\w+)*", knob) or "" in values:
            raise ValueError(f"--grid={text} is not a grid; give OPTION=VALUE,VALUE like seed=0,1,2")
        if knob in grid:
            raise ValueError(f"--grid={text} names {knob} a second time; give all its values in one --grid")
        if repeated := sorted({value for value in values if values.count(value) > 1}):
            raise ValueError(f"--grid={text} has {repeated[0]} more than once; give each value once")
        grid[knob] = values
    if not grid:
        raise ValueError("the grid is empty; give --grid=OPTION=VALUE,VALUE")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def split(text: str) -> list[str]:
    """Splits a text at its commas, except those within brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def name(point: Point) -> str:
    """Returns the name of a run's directory: OPTION=VALUE of all options, in letters that libraries accept.

    Raises: ValueError if it would be too long for a file system.
    """
    plain = str.maketrans("[]", "()", " ")  # Orbax reads brackets in a path as a pattern
    values = {k: config_label(value) if k == "config" else value for k, value in point.items()}
    parts = (f"{knob}={quote(value.translate(plain), safe='(),+')}" for knob, value in values.items())
    text = ",".join(parts)
    if len(text.encode()) > LONGEST:
        raise ValueError(
            f"the directory {text[:60]}... would have a name of {len(text)} bytes; use fewer knobs"
        )
    return text


def config_label(config: str) -> str:
    """Returns the name of a configuration for a directory: its file and argument, like fnet-imdb."""
    file, _, argument = config.partition(":")
    return re.sub(r"[^\w.-]+", "-", "-".join(part for part in (Path(file).stem, argument) if part))


def words(point: Point) -> list[str]:
    """Returns the arguments of the training command for a point."""
    return [f"--{flag_of(knob)}={value}" for knob, value in point.items()]


def arguments(given: Sequence[str], point: Point) -> list[str]:
    """Returns the whole arguments of the training command, with the configuration before its options.

    Args:
      given: the arguments that all points share.
      point: the values of this point.
    """
    first = {knob: value for knob, value in point.items() if knob == "config"}
    rest = {knob: value for knob, value in point.items() if knob != "config"}
    return [*words(first), *given, *words(rest)]


def flag_of(knob: str) -> str:
    """Returns the flag of the training command that sets `knob`."""
    return knob if knob in CHOICES else f"config.{knob}"


def check(given: Sequence[str], chosen: Sequence[Point], module: str) -> list[config.Config]:
    """Checks, before anything starts, that each point has its own directory and a valid configuration.

    Args:
      given: the arguments of the command, without those of the grid.
      chosen: the points of the grid.
      module: the module to run.
    Returns: the configurations of the points; [] if `module` is not the training command.
    Raises: ValueError.
    """
    given = command.with_flag_files(given)
    if option(given, "workdir") is not None:
        raise ValueError("a sweep gives each run a directory: leave --workdir out, give --directory")
    names = [name(point) for point in chosen]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"two points of the grid have the same directory, {twice}: their values differ only by spaces, "
            "kinds of brackets, or folders of configurations; leave one out, or rename a configuration"
        )
    for knob in chosen[0]:
        if option(given, flag_of(knob)) is not None:
            raise ValueError(f"--{flag_of(knob)} is in the arguments and in the grid; leave one of them out")
    if module != TRAINING:
        return []
    if not option(given, "config") and "config" not in chosen[0]:
        raise ValueError("a sweep needs a configuration after --: -- --config=configs/fnet.py")
    choices = command.values_of(["sweep", *given], *CHOICES)
    own = [f"--{name}={value}" for name, values in choices.items() for value in values]
    found = [check_point([*own, *overrides(given)], point) for point in chosen]
    if len(kinds := sorted({f"{metric_of(each)} on {each.data.task}" for each in found})) > 1:
        raise ValueError(
            f"the points of the grid have {' and '.join(kinds)}, which one table cannot rank; sweep over "
            "each by itself"
        )
    return found


def overrides(options: Sequence[str]) -> list[str]:
    """Returns those of `options` that set an option of the configuration, each as one word."""
    settings = []
    for word, following in zip(options, (*options, "--")[1:], strict=True):
        if re.match(r"--?(no)?config\.", word):
            separate = "=" not in word and not following.startswith("--")
            settings.append(f"{word}={following}" if separate else word)
    return settings


def check_point(own: Sequence[str], point: Point) -> config.Config:
    """Reads the configuration of one point as the training command does.

    Args:
      own: the arguments that all points share.
      point: the values of this point.
    Raises: ValueError that names the point.
    """
    try:
        settings = read(arguments(own, point))
        config.check(settings)
        if not settings.init_from:  # The architecture of the given weights replaces this one.
            memory.traced(settings)  # A mixer checks its fields at its first call.
        return settings
    except (flags.Error, ValueError) as error:
        raise ValueError(f"{name(point)}: {error}") from error
