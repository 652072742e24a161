"""A grid of knobs: what --grid says, all its combinations, a name for each, and whether they can be run.

Beside knobs it may have `config`, `mixer` and `recipe`, the options of the training command.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from absl import flags
from ml_collections import config_flags

from fourier_attn import command, config
from fourier_attn.train import memory
from fourier_attn.train.monitor import metric_of
from launch.program import TRAINING, option

CHOICES = ("config", "mixer", "recipe")  # options that are not knobs
LONGEST = 200  # bytes of a directory's name; file systems allow 255, and submitit adds some
Point = Mapping[str, str]  # from a knob to its value, as written


def points(options: Sequence[str]) -> list[Point]:
    """Returns all combinations of the values of KNOB=VALUE,VALUE,...; the last knob varies fastest.

    Raises: ValueError.
    """
    grid: dict[str, list[str]] = {}
    for text in options:
        knob, equals, listed = text.partition("=")
        values = split(listed)
        if not equals or not re.fullmatch(r"\w+(\.\w+)*", knob) or "" in values:
            raise ValueError(f"--grid={text} is not a grid; give KNOB=VALUE,VALUE like seed=0,1,2")
        if knob in grid:
            raise ValueError(f"--grid={text} names {knob} a second time; give all its values in one")
        if repeated := sorted({value for value in values if values.count(value) > 1}):
            raise ValueError(f"--grid={text} has {repeated[0]} more than once; leave one of them")
        grid[knob] = values
    if not grid:
        raise ValueError("there is nothing to sweep over; give --grid=KNOB=VALUE,VALUE")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def split(text: str) -> list[str]:
    """Parts between commas, but for those within brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def name(point: Point) -> str:
    """Returns the name of a run's directory: knob=value of all knobs, in letters that every library takes.

    Raises: ValueError where it would be too long for a file system.
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
    """Returns the options that give the training command the values of a point."""
    return [f"--{flag_of(knob)}={value}" for knob, value in point.items()]


def flag_of(knob: str) -> str:
    """Returns the option of the training command that sets a knob, or is of that name."""
    return knob if knob in CHOICES else f"config.{knob}"


def check(given: Sequence[str], chosen: Sequence[Point], module: str) -> list[config.Config]:
    """Checks, before anything starts, that each point has its own directory and a sound configuration.

    Returns these; none of another module than the training command, whose knobs alone are known.

    Args:
      given: the options of the command without the grid's.
      module: what is run.
    Raises: ValueError.
    """
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
            raise ValueError(f"--{flag_of(knob)} is given, and is in the grid, too; leave one of them out")
    if module != TRAINING:
        return []
    if not option(given, "config") and "config" not in chosen[0]:
        raise ValueError("a sweep needs a configuration after --: -- --config=configs/fnet.py")
    choices = {name: option(given, name) for name in CHOICES}
    own = [f"--{name}={value}" for name, value in choices.items() if value is not None]
    found = [check_point([*own, *overrides(given)], point) for point in chosen]
    if len(kinds := sorted({f"{metric_of(each)} on {each.data.task}" for each in found})) > 1:
        raise ValueError(
            f"the points of the grid have {' and '.join(kinds)}, which one table cannot rank; sweep over "
            "each by itself"
        )
    return found


def overrides(options: Sequence[str]) -> list[str]:
    """Returns those of the options that set a knob, each as one word."""
    settings = []
    for word, following in zip(options, (*options, "--")[1:], strict=True):
        if re.match(r"--?(no)?config\.", word):
            separate = "=" not in word and not following.startswith("--")
            settings.append(f"{word}={following}" if separate else word)
    return settings


def check_point(own: Sequence[str], point: Point) -> config.Config:
    """Reads the configuration of one point as the training command will.

    Raises: ValueError that names the point.
    """
    try:
        settings = read([*own, *words(point)])
        config.check(settings)
        if not settings.init_from:  # the architecture of given weights replaces this one
            memory.traced(settings)  # a mixer looks at its values when it is first used
        return settings
    except (flags.Error, ValueError) as error:
        raise ValueError(f"{name(point)}: {error}") from error


def read(given: Sequence[str]) -> config.Config:
    """Returns the configuration that --config=FILE, --mixer, --recipe and --config.KNOB=VALUE give.

    Raises: ValueError or flags.Error.
    """
    values = flags.FlagValues()
    choices = [word for word in given if re.match(r"--?(mixer|recipe)=", word)]
    rest = [word for word in given if word not in choices]
    line, optional = command.without_optional(command.with_paths(["sweep", *rest]))
    config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=line)
    try:
        with command.imports_of_config(line):
            values(line)
        config.give_optional(values["config"], optional)
        found: Any = values["config"].value
        set_knobs = tuple(config_flags.get_override_values(values["config"]))
        return config.with_choices(found, option(choices, "mixer"), option(choices, "recipe"), set_knobs)
    except (flags.Error, ValueError):
        raise
    except Exception as error:  # a configuration file is run here, and may fail in any way
        message = command.no_knob(error, line)
        message = message or f"the configuration cannot be read ({type(error).__name__}: {error})"
        raise ValueError(message) from error
