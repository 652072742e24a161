"""Checks values against a list of choices, with the same message everywhere."""

import difflib
from collections.abc import Iterable
from typing import Any

SIMILARITY = 0.7  # of difflib: "imbd" and "imdb" have 0.75


def check_choice(argument: str, value: Any, choices: Iterable[Any], alternative: str = "") -> None:
    """Checks that a value is one of the choices.

    Args:
      argument: name of the option or flag, for the message.
      value: the value to check.
      choices: all valid values.
      alternative: further possibilities, appended to the message.
    Raises: ValueError "argument='value' is unknown; choose one of ..", with the most similar choice first.
    """
    if problem := choice_problem(value, choices):
        raise ValueError(f"{argument}={value!r} {problem}{alternative}")


def choice_problem(value: Any, choices: Iterable[Any]) -> str | None:
    """Returns what is wrong with a value that is not one of the choices, else None.

    >>> choice_problem("imbd", ["reviews", "imdb"])
    'is unknown; did you mean imdb? Choose one of reviews, imdb'
    >>> choice_problem("dct", ["fft", "rfft"])
    'is unknown; choose one of fft, rfft'
    """
    known = list(choices)  # a value may be unhashable, so that a mapping could not look it up
    return None if value in known else f"is unknown; {choose('one of', [value], known)}"


def check_choices(argument: str, values: Iterable[str], choices: Iterable[str]) -> None:
    """Checks that each of several names is one of the choices.

    Args:
      argument: name of the option or flag, for the message.
      values: the names to check.
      choices: all valid names.
    Raises: ValueError "argument=a,b is unknown; choose from ..", which lists the unknown names.
    """
    known = list(choices)
    if unknown := [value for value in dict.fromkeys(values) if value not in known]:
        raise ValueError(f"{argument}={','.join(unknown)} is unknown; {choose('from', unknown, known)}")


def choose(among: str, unknown: Iterable[Any], choices: Iterable[Any]) -> str:
    """Returns "choose one of ..", after "did you mean ..?" where a choice is similar to an unknown value.

    Args:
      among: "one of" or "from", between "choose" and the choices.
      unknown: the values that are not among the choices.
      choices: all valid values.
    """
    known = list(map(str, choices))
    similar = [difflib.get_close_matches(str(value), known, 1, SIMILARITY) for value in unknown]
    meant = ", ".join(dict.fromkeys(name for names in similar for name in names))
    listed = f"hoose {among} {', '.join(known)}"
    return f"did you mean {meant}? C{listed}" if meant else f"c{listed}"
