"""Runs a command: parses its flags, prints one line for an error, and returns an exit code.

Exit codes: 0 done; 1 the system failed; 2 invalid input; 128 + n stopped by signal n. --verbosity=1 also
prints the traceback of an error.
"""

import ast
import contextlib
import errno
import io
import itertools
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, flags, logging

from fourier_attn import causes, plugins
from fourier_attn.allocator import keep_memory

# If it is set, `run` ends the process without Python's exit handlers, which would wait forever.
AT_ONCE = threading.Event()
HELP = {"help", "helpfull", "helpshort", "helpxml"}


def run(main: Callable[..., int | None], arguments: bool = False) -> int:
    """Parses the flags, calls `main` and returns the exit code.

    Args:
      main: returns the exit code, or None for 0.
      arguments: whether `main` gets the words that are not flags; by default they are an error.
    """
    code = _run(main, arguments)
    if AT_ONCE.is_set():
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none
                stream.flush()
        os._exit(code)
    return code


def _run(main: Callable[..., int | None], arguments: bool) -> int:
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


class LineParser(flags.ArgumentParser):
    """Parses a flag whose meaning depends on the whole command line."""

    def prepare(self, words: Sequence[str]) -> list[str]:
        """Returns the words to parse instead of `words`, which begin with the name of the program."""
        return list(words)


def _parse() -> list[str]:
    """Parses the flags, which runs the configuration file, and returns the remaining words.

    Raises: SystemExit after --help; ValueError or flags.Error for any other failure.
    """
    previous = signal.signal(signal.SIGINT, _leave)
    try:
        return parse(sys.argv)[1:]
    finally:
        signal.signal(signal.SIGINT, previous)


def parse(words: Sequence[str], values: flags.FlagValues = flags.FLAGS) -> list[str]:
    """Parses a command line, and returns the words that are not flags.

    Args:
      words: the command line, with the name of the program.
      values: the flags of the command, which get the values.
    Raises: SystemExit after --help; ValueError or flags.Error for any other failure.
    """
    try:
        line = [words[0], *with_flag_files(words[1:])]
        own = list(itertools.takewhile(lambda word: word != "--", line))  # a launcher has a command after --
        for before, word in itertools.pairwise(own):
            if word.startswith("-") and word.lstrip("-") in HELP and not _takes_next(before, values):
                return values([words[0], word])  # help answers even if another flag is wrong
        for name in list(values):
            parser = values[name].parser
            line = parser.prepare(line) if isinstance(parser, LineParser) else line
        return values(line)
    except flags.UnrecognizedFlagError as error:
        raise ValueError(f"{str(error).rstrip(' .?')}; --help lists all flags") from error
    except (flags.Error, ValueError):
        raise
    except Exception as error:  # a library sets options of the configuration here
        raise ValueError(f"the command line cannot be read ({type(error).__name__}: {error})") from error


def with_flag_files(words: Sequence[str]) -> list[str]:
    """Returns the words with the flags of each --flagfile instead of this flag. Raises: ValueError."""
    try:
        return flags.FLAGS.read_flags_from_files(list(words), force_gnu=False)
    except flags.CantOpenFlagFileError as error:
        reason = str(error).removeprefix("ERROR:: ")
        raise ValueError(f"{reason}; name a file with one flag in each line") from error


def _takes_next(word: str, values: flags.FlagValues) -> bool:
    """Returns whether the next word is the value of the flag that this word names."""
    name = word.lstrip("-")
    return word.startswith("-") and name in values and not values[name].boolean


def values_of(words: Sequence[str], *names: str) -> dict[str, list[str]]:
    """Returns the values of flags of a command line that is not parsed yet, by name.

    Args:
      words: the command line, with the name of the program.
      names: names of flags with a text as value.
    """
    line = flags.FlagValues()
    line.set_gnu_getopt(True)  # so that the value of another flag does not end the flags
    for name in names:
        flags.DEFINE_multi_string(name, [], "a flag of the command", flag_values=line)
    line(words, known_only=True)
    return {name: list(line[name].value or ()) for name in names}


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
    text = " ".join(line for line in lines if line)
    if causes.disk_full(error):
        text = (
            f"the disk is full ({text[:200]}); free some space, and repeat the command (a training resumes "
            "with the same --workdir)"
        )
    print("error:", text, file=sys.stderr)
    return code
