"""Checks values against the list of what they may be, with one message everywhere."""

from collections.abc import Iterable
from typing import Any


def check_choice(argument: str, value: Any, choices: Iterable[Any], alternative: str = "") -> None:
    """Checks that a value is one of the choices.

    Args:
      argument: its name, as the user knows it.
      alternative: what else can be given, appended to the message.
    Raises: ValueError "argument='value' is unknown; choose one of ..".
    """
    if problem := choice_problem(value, choices):
        raise ValueError(f"{argument}={value!r} {problem}{alternative}")


def choice_problem(value: Any, choices: Iterable[Any]) -> str | None:
    """Returns "is unknown; choose one of .." for a value that is not one of the choices, else None."""
    known = list(choices)  # a mapping cannot look up a list, which somebody may give as a value
    return None if value in known else f"is unknown; choose one of {', '.join(map(str, known))}"


def check_choices(argument: str, values: Iterable[str], choices: Iterable[str]) -> None:
    """Checks that all of several names are among the choices.

    Raises: ValueError "argument=a,b is unknown; choose from ..", which names the wrong ones.
    """
    known = list(choices)
    if unknown := [value for value in dict.fromkeys(values) if value not in known]:
        raise ValueError(f"{argument}={','.join(unknown)} is unknown; choose from {', '.join(known)}")
