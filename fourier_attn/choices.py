"""Checks values against a list of choices, with the same message everywhere."""

from collections.abc import Iterable
from typing import Any


def check_choice(argument: str, value: Any, choices: Iterable[Any], alternative: str = "") -> None:
    """Checks that a value is one of the choices.

    Args:
      argument: name of the option or flag, for the message.
      value: the value to check.
      choices: all valid values.
      alternative: further possibilities, appended to the message.
    Raises: ValueError "argument='value' is unknown; choose one of ..".
    """
    if problem := choice_problem(value, choices):
        raise ValueError(f"{argument}={value!r} {problem}{alternative}")


def choice_problem(value: Any, choices: Iterable[Any]) -> str | None:
    """Returns "is unknown; choose one of .." for a value that is not one of the choices, else None."""
    known = list(choices)  # a value may be unhashable, so that a mapping could not look it up
    return None if value in known else f"is unknown; choose one of {', '.join(map(str, known))}"


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
        raise ValueError(f"{argument}={','.join(unknown)} is unknown; choose from {', '.join(known)}")
