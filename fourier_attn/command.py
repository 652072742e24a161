"""Runs a command: parses its flags, prints one line for an error, and returns an exit code.

Exit codes: 0 done; 1 the system failed; 2 invalid input; 128 + n stopped by signal n. --verbosity=1 also
prints the traceback of an error.
"""

import ast
import contextlib
import errno
import importlib
import io
import os
import re
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from fourier_attn import causes, paths, plugins
from fourier_attn.allocator import keep_memory

ENGINE = re.compile(r"model\.((mixer|others\.\w+)\.)?(eval_)?engine")
optional: dict[str, str] = {}  # overrides of this command line for `config.complete_overrides`
# Configuration files of earlier versions, and the mixer and task to give to configs/mixer.py instead.
MOVED = {
    **{
        name: (name, "reviews")
        for name in ("afno", "global_filter", "identity", "linear", "long_conv", "random")
    },
    "gfnet": ("global_filter", "fashion_mnist"),
    "token_conv": ("token_conv", "fashion_mnist"),
}
HELP = {"help", "h", "helpfull", "helpshort", "helpxml", "?"}


def run(main: Callable[..., int | None], arguments: bool = False) -> int:
    """Parses the flags, calls `main` and returns the exit code.

    Args:
      main: returns the exit code, or None for 0.
      arguments: whether `main` gets the words that are not flags; by default they are an error.
    """
    keep_memory()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # escape labels and names that the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    app.define_help_flags()
    try:
        return _called(main, arguments)
    except KeyboardInterrupt as stop:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the exit is left to do
        if not hasattr(stop, "signum"):  # signals.Interrupted knows its signal, and has been announced
            print("error: stopped by Ctrl-C", file=sys.stderr)
        return 128 + getattr(stop, "signum", signal.SIGINT)
    except SystemExit:
        raise
    except BaseException as error:  # a panic of a library in Rust is not an Exception
        return _ended(error)


def _called(main: Callable[..., int | None], arguments: bool) -> int:
    # Libraries' threads log errors that this thread also gets as exceptions.
    logging.set_verbosity(logging.FATAL)
    sys.excepthook = sys.unraisablehook = threading.excepthook = _quiet
    with plugins.installed_only():
        try:
            rest = _parse()
        except SystemExit:  # --help has been answered
            return 0
        if rest and not arguments:
            raise ValueError(f"unknown argument {rest[0]!r}; flags begin with --")
        code = main(*rest) or 0
    sys.stdout.flush()
    return code


def _ended(error: BaseException) -> int:
    if isinstance(error, BrokenPipeError) and _reader_left():
        return 128 + signal.SIGPIPE
    code = _fail(error, exit_code(error))
    if causes.disk_full(error):  # a background thread or an exit handler would try, and fail, again
        sys.stderr.flush()
        os._exit(code)
    return code


def exit_code(error: BaseException) -> int:
    """Returns 2 for invalid input and 1 for other errors, after which a launcher tries again.

    Errors of the system are 1 whatever their type: C++ libraries report a failing disk as ValueError.
    """
    if causes.of_the_system(error):
        return 1
    if isinstance(error, ValueError | flags.Error) or getattr(error, "errno", None) == errno.ENAMETOOLONG:
        return 2
    # the configuration lacks a required part
    return 2 if isinstance(error, AttributeError) and "config_dict" in traceback.format_exc() else 1


def _reader_left() -> bool:
    """Returns whether the reader of stdout's pipe has closed it, as `| head` does; then stops printing."""
    try:
        sys.stdout.flush()
        left = _without_reader(sys.stdout.fileno())  # the text that failed is sometimes not in the buffer
    except BrokenPipeError:
        left = True
    if left:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at exit
    return left


def _without_reader(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, 0)  # errors are reported always
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _quiet(*details: object) -> None:
    """Prints nothing. It replaces the function that prints a traceback."""


def _leave(signum: int, frame: object) -> None:
    """Exits at once on a signal, because some libraries replace exceptions while they are imported."""
    os.write(2, b"\nerror: stopped by Ctrl-C\n")
    os._exit(128 + signum)


def _parse() -> list[str]:
    """Parses the flags, which runs the configuration file, and returns the remaining words.

    Raises: SystemExit after --help; ValueError or flags.Error for any other failure.
    """
    previous = signal.signal(signal.SIGINT, _leave)
    try:
        # config_flags looks for overrides in sys.argv, too
        sys.argv, found = without_optional(with_run(with_paths(sys.argv)))
        if found and "config" not in flags.FLAGS:
            raise ValueError(f"--config.{next(iter(found))} is not a flag of this command; leave it out")
        optional.clear()
        optional.update(found)
        with imports_of_config(sys.argv):
            return flags.FLAGS(sys.argv)[1:]
    except SystemExit:
        if any(word.lstrip("-") in HELP for word in sys.argv[1:]):
            raise
        raise ValueError(
            "the configuration file exits the program; define a function get_config in it"
        ) from None
    except flags.UnrecognizedFlagError as error:
        if error.flagname.startswith("config."):
            raise ValueError(
                f"--{error.flagname} needs --config=NAME, or --workdir=DIR of an existing run"
            ) from error
        raise ValueError(f"{str(error).rstrip(' .?')}; --help lists all flags") from error
    except (flags.Error, ValueError):
        raise
    except Exception as error:
        message = no_knob(error, sys.argv)
        message = message or f"the configuration cannot be read ({type(error).__name__}: {error})"
        raise ValueError(message) from error
    finally:
        signal.signal(signal.SIGINT, previous)


def with_run(words: Sequence[str]) -> list[str]:
    """Returns a command line in which overrides without --config apply to the run in --workdir."""
    options = [word.partition("=")[0].lstrip("-") for word in words if word.startswith("-")]
    given = {"config", "workdir"} <= set(flags.FLAGS) and "config" not in options
    if not given or not any(option.startswith("config.") for option in options):
        return list(words)
    [workdir] = values_of(words, "workdir")
    if not workdir or not (paths.given(workdir) / "config.json").is_file():
        return list(words)
    file = Path(__file__).with_name("run_config.py")
    return [words[0], f"--config={file}:{workdir}", *words[1:]]


def values_of(words: Sequence[str], *names: str) -> list[str | None]:
    """Returns the values of flags of a command line that is not parsed yet; None for missing flags.

    Args:
      words: the command line, with the name of the program.
      names: names of flags with a text as value.
    """
    line = flags.FlagValues()
    line.set_gnu_getopt(True)  # so that the value of another flag does not end the flags
    for name in names:
        flags.DEFINE_string(name, None, "a flag of the command", flag_values=line)
    line(words, known_only=True)
    return [line[name].value for name in names]


class ChosenParser(flags.ArgumentParser):
    """Reads a configuration, and applies a choice to it.

    Args:
      parser: the parser of the flag --config.
      choose: returns the configuration to which overrides are applied. Raises: ValueError.
    """

    def __init__(self, parser: flags.ArgumentParser, choose: Callable[[Any], Any]):
        self.parser, self.choose = parser, choose

    def parse(self, argument: str) -> Any:
        config = self.parser.parse(argument)
        try:
            return self.choose(config)
        except ValueError as error:  # absl would put the path of the configuration before the message
            raise flags.Error(str(error)) from error

    def flag_type(self) -> str:
        return self.parser.flag_type()


def choose_before_overrides(flag: Any, choose: Callable[[Any], Any]) -> None:
    """Makes the flag --config apply a choice to the configuration that it reads, before the overrides.

    An override then also counts if the choice replaces the part of the configuration that has its option.

    Args:
      flag: the flag --config, which is changed in place.
      choose: see `ChosenParser`.
    """
    flag.parser = ChosenParser(flag.parser, choose)


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


def no_knob(error: Exception, words: Sequence[str]) -> str:
    """Returns the message for a command line that sets an unknown option; "" for any other error."""
    text = str(error)
    lacks = re.search(r"[\w.]+", text.rpartition("lookup: ")[2])
    for word in words if isinstance(error, AttributeError | KeyError) else ():
        knob = word.partition("=")[0].partition("config.")[2]
        if lacks and f".{lacks[0]}." in f".{knob}.":
            meant = re.search(r'Did you mean "\w+"', text)
            known = "`python -m fourier_attn.config` prints all options"
            if lacks[0] == "causal" and (model := sys.modules.get("fourier_attn.model")):
                known = f"This mixer has no option causal; {model.can_be_causal()}"
            return f"{knob} is not an option. {f'{meant[0]}? {known}' if meant else known}"
    return ""


def configs() -> Path:
    """Returns the folder of the configuration files: inside an installed package, else next to it."""
    package = Path(__file__).resolve().parent
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def with_paths(words: Sequence[str]) -> list[str]:
    """Returns the command line with the path of a configuration file instead of its name."""
    result, before = [], ""
    for word in words:
        option, equals, value = word.partition("=")
        if option in ("--config", "-config") and equals:
            word = f"{option}={_path(value)}"
        elif before in ("--config", "-config"):
            word = _path(word)
        result.append(word)
        before = word
    return result


def imports_of_config(words: Sequence[str]) -> contextlib.AbstractContextManager[None]:
    """Lets a user's configuration file import modules from its own folder.

    The configuration files of the package import none.
    """
    for word, following in zip(words, (*words[1:], ""), strict=True):
        option, equals, value = word.partition("=")
        if option in ("--config", "-config"):
            file = Path((value if equals else following).partition(":")[0]).resolve()
            if file.parent not in (configs().resolve(), Path(__file__).resolve().parent):
                # Import the project's libraries first, so that no file of that folder can replace them.
                importlib.import_module("fourier_attn.config")
                return plugins.with_neighbours()
    return contextlib.nullcontext()


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


def _path(config: str) -> str:
    """Returns the path of a configuration that is given by its name; paths are returned unchanged.

    Raises: ValueError for a renamed configuration.
    """
    name, colon, argument = config.partition(":")
    if (now := moved(config)) != config and not Path(name).is_file():
        raise ValueError(f"--config={config} was renamed; give --config={now}")
    if not name.isidentifier() or not (configs() / f"{name}.py").is_file():
        return config
    return f"{configs() / name}.py{colon}{argument}"


def _verbose() -> bool:
    return logging.get_verbosity() >= logging.INFO


def _place(error: BaseException) -> str:
    """Returns a message for an error that has none."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    if last and "xla_bridge" in last.filename:
        wanted = os.environ.get("JAX_PLATFORMS", "")
        return f"JAX finds no device of JAX_PLATFORMS={wanted} here; unset it, or install JAX for that device"
    where = f" in {Path(last.filename).name}, line {last.lineno} ({last.line})" if last else ""
    return f"{type(error).__name__}{where}; --verbosity=1 prints the traceback"


def _fail(error: BaseException, code: int) -> int:
    if flags.FLAGS.is_parsed() and _verbose():
        traceback.print_exc()
    message = str(error)
    with contextlib.suppress(ValueError, SyntaxError):  # a KeyError shows a repr
        message = str(ast.literal_eval(message))
    lines = [line.strip() for line in message.strip().splitlines()] or [_place(error)]
    if "Traceback (most recent call last):" in lines:  # config_flags puts a whole one into its message
        lines = lines[-1:]
    text = " ".join(line for line in lines if line)
    for prefix in ("ValueError: ", "KeyError: "):
        text = text.removeprefix(prefix)
    if causes.disk_full(error):
        text = f"the disk is full ({text[:200]}); free some space, and resume with the same --workdir"
    print("error:", text, file=sys.stderr)
    return code
