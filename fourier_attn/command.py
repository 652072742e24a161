"""What every command line shares: flags, one message for an error, exit codes.

0: done; 2: something given cannot be used; 1: something failed on the way; 128 + n: stopped by signal
n. With --verbosity=1 an error also shows where it came from.
"""

import ast
import contextlib
import errno
import importlib
import io
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, flags, logging

from fourier_attn import causes, paths, plugins
from fourier_attn.allocator import keep_memory

ENGINE = re.compile(r"model\.(mixer|others\.\w+)\.(eval_)?engine")
optional: dict[str, str] = {}  # overrides of this command line for `config.give_optional`
# Configuration files of earlier versions, and what to give to configs/mixer.py instead: mixer and task.
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
    """Parses the flags, calls `main` and returns the exit code, which is 0 where `main` returns None.

    With `arguments`, `main` gets what is no flag; otherwise that is an error.
    """
    keep_memory()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a label or a name that the terminal cannot show is escaped
            stream.reconfigure(errors="backslashreplace")
    app.define_help_flags()
    try:
        return _called(main, arguments)
    except KeyboardInterrupt as stop:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left to do is to end
        if not hasattr(stop, "signum"):  # signals.Interrupted knows its signal, and has been announced
            print("error: stopped by Ctrl-C", file=sys.stderr)
        return 128 + getattr(stop, "signum", signal.SIGINT)
    except SystemExit:
        raise
    except BaseException as error:  # a panic of a library in Rust is not an Exception
        return _ended(error)


def _called(main: Callable[..., int | None], arguments: bool) -> int:
    # What the threads of libraries log, or print, comes to this one as an exception, too.
    logging.set_verbosity(logging.FATAL)
    sys.excepthook = sys.unraisablehook = threading.excepthook = _quiet
    with plugins.installed_only():
        try:
            rest = _parse()
        except SystemExit:  # --help has been answered
            return 0
        if rest and not arguments:
            raise ValueError(f"argument {rest[0]!r} is not understood; options begin with --")
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
    """Returns 2 for something given that cannot be used, else 1, so that a launcher tries again.

    An error of the system is 1 whatever its kind: libraries in C++ report a failing disk as ValueError.
    """
    if causes.of_the_system(error):
        return 1
    if isinstance(error, ValueError | flags.Error) or getattr(error, "errno", None) == errno.ENAMETOOLONG:
        return 2
    # a configuration without a part that it must have
    return 2 if isinstance(error, AttributeError) and "config_dict" in traceback.format_exc() else 1


def _reader_left() -> bool:
    """Returns whether nobody reads the output any more, as after `| head`; then stops printing."""
    try:
        sys.stdout.flush()
        return False
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        return True


def _quiet(*details: object) -> None:
    """Prints nothing; replaces the function that prints a traceback."""


def _leave(signum: int, frame: object) -> None:
    """Ends the process: while libraries are imported, some would turn an exception into another one."""
    os.write(2, b"\nerror: stopped by Ctrl-C\n")
    os._exit(128 + signum)


def _parse() -> list[str]:
    """Returns the remaining words of the command line. Runs a configuration file, which may fail in any way.

    Raises: SystemExit after an answer to --help; ValueError or flags.Error.
    """
    previous = signal.signal(signal.SIGINT, _leave)
    try:
        # config_flags looks for overrides in sys.argv, too
        sys.argv, found = without_optional(with_run(with_paths(sys.argv)))
        if found and "config" not in flags.FLAGS:
            raise ValueError(f"--config.{next(iter(found))} needs a command that takes --config")
        optional.clear()
        optional.update(found)
        with imports_of_config(sys.argv):
            return flags.FLAGS(sys.argv)[1:]
    except SystemExit:
        if any(word.lstrip("-") in HELP for word in sys.argv[1:]):
            raise
        raise ValueError(
            "the configuration file ends the program; a config has a function get_config"
        ) from None
    except flags.UnrecognizedFlagError as error:
        if error.flagname.startswith("config."):
            raise ValueError(f"--{error.flagname} needs --config=NAME; a run has its own knobs") from error
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
    """Returns a command line in which overrides without --config belong to the run of --workdir."""
    options = [word.partition("=")[0].lstrip("-") for word in words if word.startswith("-")]
    given = {"config", "workdir"} <= set(flags.FLAGS) and "config" not in options
    if not given or not any(option.startswith("config.") for option in options):
        return list(words)
    rest = flags.FlagValues()
    flags.DEFINE_string("workdir", None, "directory of the run", flag_values=rest)
    rest(words, known_only=True)
    if not rest.workdir or not (paths.given(rest.workdir) / "config.json").is_file():
        return list(words)
    file = Path(__file__).with_name("run_config.py")
    return [words[0], f"--config={file}:{rest.workdir}", *words[1:]]


def without_optional(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns a command line without the overrides that config_flags cannot parse, and these by their knobs.

    It knows no None for a knob that has a value, and no name of an engine for one with parameters. What comes
    last holds.
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
    """Returns the message for `words` that set an option which does not exist; "" for another error."""
    text = str(error)
    lacks = re.search(r"[\w.]+", text.rpartition("lookup: ")[2])
    for word in words if isinstance(error, AttributeError | KeyError) else ():
        knob = word.partition("=")[0].partition("config.")[2]
        if lacks and f".{lacks[0]}." in f".{knob}.":
            meant = re.search(r'Did you mean "\w+"', text)
            known = "`python -m fourier_attn.config` prints all knobs"
            if lacks[0] == "causal" and (model := sys.modules.get("fourier_attn.model")):
                known = f"This mixer has no option causal; {model.can_be_causal()}"
            return f"there is no knob {knob}. {f'{meant[0]}? {known}' if meant else known}"
    return ""


def configs() -> Path:
    """Returns the folder of the configurations: in the package if it is installed, else next to it."""
    package = Path(__file__).resolve().parent
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def with_paths(words: Sequence[str]) -> list[str]:
    """Returns the command line with --config=fnet:imdb replaced by the path of that file."""
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
    """Lets a configuration file of the user import its neighbours; the package's own have none."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        option, equals, value = word.partition("=")
        if option in ("--config", "-config"):
            file = Path((value if equals else following).partition(":")[0]).resolve()
            if file.parent not in (configs().resolve(), Path(__file__).resolve().parent):
                # The libraries that the project needs must not be found among the neighbours.
                importlib.import_module("fourier_attn.config")
                return plugins.with_neighbours()
    return contextlib.nullcontext()


def moved(config: str) -> str:
    """Returns today's name of a configuration, as configs/mixer.py:linear-imdb of configs/linear.py:imdb."""
    name, _, task = config.partition(":")
    file = Path(name)
    ours = (str(file.parent), file.suffix) in (("configs", ".py"), (".", ""))
    if file.stem not in MOVED or not ours:
        return config
    mixer, usual = MOVED[file.stem]
    return f"{file.with_stem('mixer')}:{mixer}-{task or usual}"


def _path(config: str) -> str:
    """Returns the path of a configuration that is given by its name; others stay as they are.

    Raises: ValueError for a file of the package that has another name today.
    """
    name, colon, argument = config.partition(":")
    if (now := moved(config)) != config and not Path(name).is_file():
        raise ValueError(f"--config={config} has moved; give --config={now}")
    if not name.isidentifier() or not (configs() / f"{name}.py").is_file():
        return config
    return f"{configs() / name}.py{colon}{argument}"


def _verbose() -> bool:
    return logging.get_verbosity() >= logging.INFO


def _place(error: BaseException) -> str:
    """Returns what to say about an error that has no words."""
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
        text = f"the disk is full ({text[:200]}); make room, and give --workdir again to go on"
    print("error:", text, file=sys.stderr)
    return code
