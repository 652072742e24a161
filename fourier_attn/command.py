"""What every command line shares: flags, one message for an error, exit codes.

0: done; 2: something given cannot be used; 1: something failed on the way; 128 + n: stopped by signal
n. With --verbosity=1 an error also shows where it came from.
"""

import sys
import traceback
from collections.abc import Callable

from absl import app, flags, logging


def run(main: Callable[..., None], arguments: bool = False) -> int:
    """Parses the flags, calls `main` and returns the exit code.

    With `arguments`, `main` gets what is no flag; otherwise that is an error.
    """
    app.define_help_flags()
    try:
        try:
            rest = flags.FLAGS(sys.argv)[1:]
        except SystemExit:  # --help has been answered
            return 0
        if rest and not arguments:
            raise ValueError(f"argument {rest[0]!r} is not understood; options begin with --")
        if not _verbose():
            logging.set_verbosity(logging.ERROR)
        main(*rest)
        return 0
    except KeyboardInterrupt as stop:  # signals.Interrupted knows its signal
        return 128 + getattr(stop, "signum", 2)
    except (ValueError, flags.Error) as error:
        return _fail(error, 2)
    except AttributeError as error:  # an override of a key that the locked configuration does not have
        return _fail(error, 2 if error.__traceback__ and "config_dict" in traceback.format_exc() else 1)
    except Exception as error:
        return _fail(error, 1)


def _verbose() -> bool:
    return logging.get_verbosity() >= logging.INFO


def _fail(error: Exception, code: int) -> int:
    if flags.FLAGS.is_parsed() and _verbose():
        traceback.print_exc()
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if "Traceback (most recent call last):" in lines:  # config_flags puts a whole one into its message
        lines = lines[-1:]
    print("error:", " ".join(lines), file=sys.stderr)
    return code
