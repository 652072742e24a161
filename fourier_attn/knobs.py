"""What a knob of the configuration is: its default, its meaning, and which values it takes."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fourier_attn.choices import choice_problem

TINIEST, HUGE = 1e-30, 1e30  # of other numbers, but for 0: what float32 holds, with a margin
LARGEST = 2**31 - 1  # of whole numbers: what an array's index and a seed hold


class Knob(NamedTuple):
    """One knob.

    Args:
      default: its value, whose type is the knob's.
      help: its meaning and unit, for people.
      validate: says what is wrong with a value, "must be positive", or returns None.
    """

    default: Any
    help: str
    validate: Callable[[Any], str | None] = lambda value: None


def at_least(least: int, otherwise: str = "", most: int = LARGEST) -> Callable[[Any], str | None]:
    """Whole numbers from `least` to `most`. The text says what 0 means."""

    def wrong(value: Any) -> str | None:
        if value > most:
            return f"must be at most {most}"
        if value >= least:
            return None
        return f"must not be negative; 0 means {otherwise}" if otherwise else f"must be at least {least}"

    return wrong


def positive(value: Any) -> str | None:
    """Numbers above 0."""
    return None if value > 0 else "must be positive"


def not_negative(value: Any) -> str | None:
    """Numbers from 0 on."""
    return None if value >= 0 else "must not be negative"


def at_most(most: float, also: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    """Numbers up to `most` that are right otherwise, too."""
    return lambda value: also(value) or (f"must be at most {most:g}" if value > most else None)


def between(least: float, most: float) -> Callable[[Any], str | None]:
    """Numbers from `least` to `most`."""
    return lambda value: None if least <= value <= most else f"must lie between {least:g} and {most:g}"


def rate(value: Any) -> str | None:
    """Shares from 0 to below 1."""
    return None if 0 <= value < 1 else "must lie in [0, 1)"


def share(value: Any) -> str | None:
    """Shares between 0 and 1, neither of them."""
    return None if 0 < value < 1 else "must lie between 0 and 1"


def one_of(*choices: str) -> Callable[[Any], str | None]:
    """One of some words."""
    return lambda value: choice_problem(value, choices)


def rising(value: Any) -> str | None:
    """Whole positive numbers, each larger than the one before; or none."""
    numbers = all(type(item) is int and 0 < item <= LARGEST for item in value)
    return None if numbers and list(value) == sorted(set(value)) else "must be positive and rise"


def sizes(value: Any) -> str | None:
    """Whole positive numbers; or none."""
    whole = all(type(item) is int and 0 < item <= LARGEST for item in value)
    return None if whole else "must hold whole positive numbers"


def numbers(value: Any) -> str | None:
    """Finite numbers from 0 to 1; or none."""
    return None if all(type(n) in (int, float) and 0 <= n <= 1 for n in value) else "must lie between 0 and 1"


def texts(value: Any) -> str | None:
    """Some texts; or none."""
    return None if all(isinstance(item, str) for item in value) else "must hold names in quotes"


def unusable(value: Any) -> str | None:
    """What no field of a mixer takes: numbers that are not finite or too large, sizes that are not whole."""
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"must be at most {LARGEST}"
    if isinstance(value, tuple | list) and any(type(n) is not int or not 0 < n <= LARGEST for n in value):
        return "must hold whole positive numbers"
    return None


def check(part: str, knobs: Mapping[str, Knob], values: Any) -> None:
    """Checks that every knob of a part, a ConfigDict or a dict, has a value of its type within its range.

    Raises: ValueError that names the knob, its value and the cure.
    """
    if missing := [f"{part}{name}" for name in knobs if name not in values]:
        raise ValueError(f"{', '.join(missing)} is missing; start from config.default()")
    for name, knob in knobs.items():
        value, kind = values[name], type(knob.default)
        text = f"{part}{name}={value!r}"
        if kind is float and type(value) in (int, float):
            if not math.isfinite(value):
                raise ValueError(f"{text} must be a finite number")
            if value and not TINIEST <= abs(value) <= HUGE:
                raise ValueError(f"{text} must lie between {TINIEST:g} and {HUGE:g}, or be 0")
        elif type(value) is not kind and not (kind is tuple and isinstance(value, list)):
            raise ValueError(f"{text} must be of type {kind.__name__}, as {knob.default!r} is")
        if message := knob.validate(value):
            raise ValueError(f"{text} {message}")
