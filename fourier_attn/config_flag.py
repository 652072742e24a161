"""Defines the flag --config of a command, and reads the configuration file that it names.

`DEFINE_config_file` of ml_collections sets the options of --config.OPTION=VALUE. This module reads the file,
each in a module of its own, and returns one message for each cause of an error.
"""

import contextlib
import hashlib
import importlib.util
import itertools
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags
from ml_collections.config_flags import config_path

from fourier_attn import command, paths, plugins
from fourier_attn.choices import choose

CHOICES = ("mixer", "recipe")  # flags that change the configuration before its overrides
OVERRIDE = re.compile(r"--?(?:no)?config\.([^=]+)")
ENGINE = re.compile(r"model\.((mixer|others\.\w+)\.)?(eval_)?engine")
PACKAGE = Path(__file__).resolve().parent
# Configuration files of earlier versions, and the mixer and task to give to configs/mixer.py instead.
MOVED = {
    **{
        name: (name, "reviews")
        for name in ("afno", "global_filter", "identity", "linear", "long_conv", "random")
    },
    "gfnet": ("global_filter", "fashion_mnist"),
    "token_conv": ("token_conv", "fashion_mnist"),
}

_imported: dict[str, Path] = {}  # modules that configuration files have imported from their folders

flags.disclaim_key_flags()  # --help lists the flags among those of the command that defines them


def define_flag(help_string: str, values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flag --config.

    Args:
      help_string: description of the flag.
      values: the flags of the command.
    """
    parser = ConfigParser(values)
    config_flags.DEFINE_config_file(
        "config", help_string=help_string, flag_values=values, sys_argv=parser.words
    )
    values["config"].parser = parser


def define_choices(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of a command that change the configuration before its overrides: `CHOICES`."""
    flags.DEFINE_string(
        "recipe",
        None,
        "replace everything except the mixer and the layout with the task's defaults and this recipe",
        flag_values=values,
    )
    flags.DEFINE_string(
        "mixer",
        None,
        "train this configuration with another mixer, for example lambda",
        flag_values=values,
    )


def given(values: flags.FlagValues = flags.FLAGS) -> Any:
    """Returns the configuration of a command line that has been parsed; None without --config.

    Args:
      values: the flags of the command, with that of `define_flag`.
    Raises: ValueError for options that contradict each other.
    """
    from fourier_attn.config import complete_overrides

    flag, parser = values["config"], _parser(values)
    chosen = parser.choices()
    for name, value in chosen.items():
        if value != values[name].value:  # the value of another flag was taken for this flag
            raise ValueError(
                f"the value of another flag begins with --{name}; write that flag as --FLAG=VALUE"
            )
        if value is not None and flag.value is None:
            raise ValueError(f"--{name}={value} needs --config=FILE, which it changes")
    if flag.value is not None:
        complete_overrides(flag, parser.optional, chosen.get("recipe"))
    return flag.value


def overridden(values: flags.FlagValues = flags.FLAGS) -> list[str]:
    """Returns the names of the options that a command line sets, once `given` has been called."""
    return list(config_flags.get_override_values(values["config"]))


def stem(values: flags.FlagValues = flags.FLAGS) -> str:
    """Returns the name of the configuration file of a command line, without folder and suffix."""
    return Path(config_flags.get_config_filename(values["config"]).partition(":")[0]).stem


def read(words: Sequence[str]) -> Any:
    """Returns the configuration for --config=FILE, --mixer, --recipe and --config.OPTION=VALUE.

    Args:
      words: these arguments of the training command.
    Raises: ValueError or flags.Error.
    """
    values = flags.FlagValues()
    define_flag("as the training command has it", values)
    define_choices(values)
    command.parse(["read", *words], values)
    return given(values)


class ConfigParser(command.LineParser):
    """Reads the file of --config, and applies --mixer and --recipe to its configuration.

    An override then also counts if a choice replaces the part of the configuration that has its option.

    Args:
      values: the flags of the command.
    """

    def __init__(self, values: flags.FlagValues):
        self.values = values
        self.words: list[str] = []  # the command line, in which config_flags looks for overrides
        self.optional: dict[str, str] = {}  # its other overrides, for `config.complete_overrides`

    def prepare(self, words: Sequence[str]) -> list[str]:
        """Returns the words without overrides that config_flags cannot parse. Raises: ValueError."""
        line = list(itertools.takewhile(lambda word: word != "--", words))
        self.words[:], self.optional = without_optional(self._with_run(line))
        files = command.values_of(self.words, "config")["config"]
        if len(files) > 1:
            raise ValueError(f"--config is given twice ({files[0]}, {files[1]}); give it once")
        for name in overrides(self.words):
            if outer := [option for option in self.optional if name.startswith(f"{option}.")]:
                one = f"--config.{outer[0]}={self.optional[outer[0]]}"
                raise ValueError(f"{one} conflicts with --config.{name}; remove one")
        if not files and (names := [*self.optional, *overrides(self.words)]):
            run = ", or --workdir=DIR of an existing run" if "workdir" in self.values else ""
            raise ValueError(f"--config.{names[0]} needs --config=NAME{run}")
        return [*self.words, *words[len(line) :]]

    def parse(self, argument: str) -> Any:
        """Returns the configuration of a command line that `prepare` has returned. Raises: flags.Error."""
        from fourier_attn.config import with_choices

        try:
            config = read_file(argument)
            chosen = self.choices()
            if any(value is not None for value in chosen.values()):
                config = with_choices(config, chosen["mixer"], chosen["recipe"], self.optional)
            for name in overrides(self.words):
                check_option(config, name)
        except ValueError as error:  # absl would put the path of the configuration before the message
            raise flags.Error(str(error)) from error
        return config

    def flag_type(self) -> str:
        return "config object"

    def choices(self) -> dict[str, str | None]:
        """Returns the values of `CHOICES` as far as the command has these flags; None for missing ones."""
        found = command.values_of(self.words, *(name for name in CHOICES if name in self.values))
        return {name: listed[-1] if listed else None for name, listed in found.items()}

    def _with_run(self, words: Sequence[str]) -> list[str]:
        """Returns a command line in which overrides without --config apply to the run in --workdir."""
        found = command.values_of(words, "config", "workdir")
        if "workdir" not in self.values or found["config"] or not found["workdir"]:
            return list(words)
        workdir = found["workdir"][-1]
        if not overrides(words) or not workdir or not (paths.given(workdir) / "config.json").is_file():
            return list(words)
        return [words[0], f"--config={PACKAGE / 'run_config.py'}:{workdir}", *words[1:]]


def _parser(values: flags.FlagValues) -> ConfigParser:
    parser: Any = values["config"].parser
    return parser


def overrides(words: Sequence[str]) -> list[str]:
    """Returns the names of the options that a command line sets."""
    found = (OVERRIDE.match(word) for word in words)
    return [match[1] for match in found if match]


def without_optional(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns the command line without overrides that config_flags cannot parse, and these by option.

    config_flags cannot set an option with a value to None, or an engine with parameters to a preset's name.
    If an option occurs twice, the last value counts.
    """
    rest, found, skip = [], {}, False
    for word, following in zip(words, (*words[1:], "--"), strict=True):
        option, equals, value = word.partition("=")
        knob = option.lstrip("-").removeprefix("config.")
        value = value if equals else following
        if skip:
            skip = False
        elif not word.startswith("-") or option.lstrip("-") != f"config.{knob}":
            rest.append(word)
        elif value != "None" and not ENGINE.fullmatch(knob):
            found.pop(knob, None)
            rest.append(word)
        else:
            found[knob], skip = value, not equals
    return rest, found


def read_file(argument: str) -> Any:
    """Executes a configuration file in a new module, and returns its configuration, locked.

    Args:
      argument: NAME, FILE, NAME:TASK or FILE:TASK, as --config has it.
    Raises: ValueError.
    """
    from fourier_attn.config import check_parts  # before a file next to the user's could replace a library

    name, colon, task = path_of(argument).partition(":")
    file = Path(name).absolute()
    ours = file.resolve().parent in (configs().resolve(), PACKAGE)
    try:
        file.open("rb").close()
    except OSError as error:
        reason = "" if isinstance(error, FileNotFoundError) else f" ({error.strerror})"
        cure = choose("one of", [file.stem], sorted(path.stem for path in configs().glob("*.py")))
        message = f"--config={argument} cannot be read{reason}; {cure}, or your own file (mine.py)"
        raise ValueError(message) from error
    try:
        # The configuration files of the package import none of their neighbours.
        with contextlib.nullcontext() if ours else _neighbours(file.parent):
            get_config = getattr(_executed(file), "get_config", None)
            if not callable(get_config):
                raise ValueError("the file has no function get_config; define one that returns a config")
            config: Any = get_config(task) if colon else get_config()
        if not isinstance(config, ConfigDict):
            kind = type(config).__name__
            raise ValueError(f"get_config returns {kind} instead of a ConfigDict; return config.default()")
        check_parts(config)
    except SystemExit:
        message = f"--config={argument} exits the program; remove that call, and define a function get_config"
        raise ValueError(message) from None
    except ValueError as error:
        raise ValueError(str(error) if ours else f"--config={argument}: {error}") from error
    except Exception as error:  # a user's file, which may fail in any way
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(file)]
        what = type(error).__name__ + (f" in line {lines[-1]}" if lines else "")
        raise ValueError(f"--config={argument} cannot be read ({what}: {error}); fix that file") from error
    return config.lock()


@contextlib.contextmanager
def _neighbours(folder: Path) -> Iterator[None]:
    """Lets a file import modules from its folder, and not those of the same names from another folder.

    Args:
      folder: the folder of the file.
    """
    for name in [name for name, theirs in _imported.items() if theirs != folder]:
        sys.modules.pop(name, None)
        del _imported[name]
    before = set(sys.modules)
    with plugins.with_neighbours(folder):
        try:
            yield
        finally:
            for name in sys.modules.keys() - before:
                top = name.partition(".")[0]  # libraries can lie below the folder, but not in it
                file = getattr(sys.modules[top], "__file__", None)
                if top not in before and file in (f"{folder}/{top}.py", f"{folder}/{top}/__init__.py"):
                    _imported[name] = folder


def _executed(file: Path) -> Any:
    """Executes a file in a new module, even if its path is that of an earlier one, and returns the module."""
    name = f"fourier_attn_config_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"
    loader = SourceFileLoader(name, str(file))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None  # it has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for their module
    # No bytecode: its check by second and size would take a file that was changed for the earlier one.
    exec(loader.source_to_code(loader.get_data(str(file)), str(file)), module.__dict__)
    return module


def check_option(config: Any, name: str) -> None:
    """Checks that a configuration has an option.

    Args:
      config: the configuration.
      name: dotted path of the option.
    Raises: ValueError.
    """
    try:
        config_path.get_type(name, config)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        text = str(error)
        meant = re.search(r'Did you mean "\w+"', text)
        known = "`python -m fourier_attn.config` prints all options"
        if re.match(r"\W*causal\b", text):  # the mixer has no such option
            from fourier_attn.model import can_be_causal

            known = f"This mixer has no option causal; {can_be_causal()}"
        elif "belongs to the group" in text:
            known = text[0].upper() + text[1:]
        elif "NoneType" in text:
            raise ValueError(
                f"{name} cannot be set, because the option that contains it is None; start from a "
                "configuration in which it has a value"
            ) from error
        raise ValueError(f"{name} is not an option. {f'{meant[0]}? {known}' if meant else known}") from error


def configs() -> Path:
    """Returns the folder of the configuration files: inside an installed package, else next to it."""
    inside = PACKAGE / "configs"
    return inside if inside.is_dir() else PACKAGE.parent / "configs"


def moved(config: str) -> str:
    """Returns the current name of a configuration that was renamed; other names are returned unchanged.

    >>> moved("configs/linear.py:imdb")
    'configs/mixer.py:linear-imdb'
    """
    name, _, task = config.partition(":")
    file = Path(name)
    ours = (str(file.parent), file.suffix) in (("configs", ".py"), (".", ""))
    if file.stem not in MOVED or not ours:
        return config
    mixer, usual = MOVED[file.stem]
    return f"{file.with_stem('mixer')}:{mixer}-{task or usual}"


def path_of(config: str) -> str:
    """Returns the path of a configuration that is given by its name; paths are returned unchanged.

    >>> path_of("mine.py:imdb")
    'mine.py:imdb'

    Raises: ValueError for a renamed configuration.
    """
    name, colon, argument = config.partition(":")
    if (now := moved(config)) != config and not Path(name).is_file():
        raise ValueError(f"--config={config} was renamed; give --config={now}")
    if not name.isidentifier() or not (configs() / f"{name}.py").is_file():
        return config
    return f"{configs() / name}.py{colon}{argument}"
