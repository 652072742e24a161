"""Declares options of the configuration: their types, defaults, descriptions and valid values.

    class TrainConfig(Part, Protocol):
        epochs: int = knob(3, "passes over train", at_least(1))

Each part of the configuration is declared as such a class, which type checkers and `knobs_of` read. At run
time it is a ConfigDict with the same fields.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from fourier_attn.choices import choice_problem

TINIEST, HUGE = 1e-30, 1e30  # range of floats other than 0: that of float32, with a margin
LARGEST = 2**31 - 1  # largest integer: that of an array's index and of a seed
T = TypeVar("T")
P = TypeVar("P", bound="Part")


class Knob(NamedTuple):
    """Describes an option of the configuration.

    Args:
      default: the default value; its type is the type of the option.
      help: description with unit, for the reference and `python -m fourier_attn.config`.
      validate: returns a message for an invalid value, for example "must be positive"; None: valid.
    """

    default: Any
    help: str
    validate: Callable[[Any], str | None] = lambda value: None


def knob(default: T, help: str, validate: Callable[[Any], str | None] = lambda value: None) -> T:
    """Declares one option in the class of a part, and has the type of its default for type checkers.

    Args:
      default, help, validate: see `Knob`.
    """
    return cast(T, Knob(default, help, validate))


@runtime_checkable
class Part(Protocol):
    """Declares the methods of ConfigDict that this project uses."""

    def __getitem__(self, key: str) -> Any: ...
    def __setitem__(self, key: str, value: Any) -> None: ...
    def __delitem__(self, key: str) -> None: ...
    def __contains__(self, key: str) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def keys(self) -> Any: ...

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the option `key`, or `default` if the part lacks it."""

    def to_dict(self) -> dict[str, Any]: ...
    def copy_and_resolve_references(self) -> Any: ...

    def update(self, values: Mapping[str, Any]) -> None:
        """Sets options to `values`, by name."""

    def update_from_flattened_dict(self, values: Mapping[str, Any]) -> None:
        """Sets options to `values`, by dotted path."""

    def lock(self) -> Any: ...
    def unlocked(self) -> AbstractContextManager[Any]: ...


def copied(part: P) -> P:
    """Returns a mutable copy of a part, even if the part is frozen."""
    thawed = getattr(part, "as_configdict", None)  # only frozen parts have this method
    return thawed() if thawed else part.copy_and_resolve_references()


def with_values(part: P, values: Mapping[str, Any]) -> P:
    """Returns a copy of a part of a configuration with new values of some options.

    Args:
      part: the part, or a whole configuration, which stays as it is.
      values: new values by dotted path, for example "optim.learning_rate".
    """
    changed = copied(part)
    changed.update_from_flattened_dict(values)
    return changed


def knobs_of(part: type) -> dict[str, Knob]:
    """Returns the options that the class of a part declares, by name."""
    return {name: value for name, value in vars(part).items() if isinstance(value, Knob)}


class Rule(NamedTuple):
    """Validates a value, and says for the documentation which values are allowed.

    Args:
      allowed: the allowed values, for example "at least 1".
      problem: says what is wrong with a value, or returns None.
    """

    allowed: str
    problem: Callable[[Any], str | None]

    def __call__(self, value: Any) -> str | None:
        """Returns what is wrong with `value`, or None."""
        return self.problem(value)


def at_least(least: int, zero: str = "", most: int = LARGEST) -> Rule:
    """Accepts whole numbers.

    Args:
      least: the smallest number.
      zero: the meaning of 0, for the message about a negative number; "": 0 has no special meaning.
      most: the largest number.
    """

    def problem(value: Any) -> str | None:
        if value > most:
            return f"must be at most {most}"
        if value >= least:
            return None
        return f"must not be negative; 0 means {zero}" if zero else f"must be at least {least}"

    return Rule(f"at least {least}" if most == LARGEST else f"{least} to {most}", problem)


def at_most(most: float, also: Rule) -> Rule:
    """Accepts numbers up to `most` that the rule `also` accepts, too."""
    return Rule(
        f"{also.allowed}, at most {most:g}",
        lambda value: also(value) or (f"must be at most {most:g}" if value > most else None),
    )


def between(least: float, most: float) -> Rule:
    """Accepts numbers from `least` to `most`."""
    return Rule(
        f"{least:g} to {most:g}",
        lambda value: None if least <= value <= most else f"must lie between {least:g} and {most:g}",
    )


def one_of(*choices: str) -> Rule:
    """Accepts the words `choices`."""
    words = " or ".join(f'"{choice}"' for choice in choices)
    return Rule(words.replace(" or ", ", ", len(choices) - 2), lambda value: choice_problem(value, choices))


def each(allowed: str, message: str, accepts: Callable[[Any], bool]) -> Rule:
    """Accepts sequences, also empty ones, that consist of accepted items.

    Args:
      allowed: the allowed items, in words.
      message: what is wrong with a sequence that has another item.
      accepts: says whether an item is accepted.
    """
    return Rule(allowed, lambda value: None if all(map(accepts, value)) else message)


def is_size(item: Any) -> bool:
    """Says whether an item is a whole positive number."""
    return type(item) is int and 0 < item <= LARGEST


def is_rising(value: Any) -> bool:
    """Says whether whole positive numbers are in rising order, without repetition."""
    return all(map(is_size, value)) and list(value) == sorted(set(value))


positive = Rule("above 0", lambda value: None if value > 0 else "must be positive")
not_negative = Rule("at least 0", lambda value: None if value >= 0 else "must not be negative")
rate = Rule("at least 0, below 1", lambda value: None if 0 <= value < 1 else "must lie in [0, 1)")
share = Rule("above 0, below 1", lambda value: None if 0 < value < 1 else "must lie between 0 and 1")
rising = Rule(
    "positive numbers in rising order",
    lambda value: None if is_rising(value) else "must be whole positive numbers in rising order",
)
sizes = each("positive numbers", "must hold whole positive numbers", is_size)
numbers = each("0 to 1", "must lie between 0 and 1", lambda n: type(n) in (int, float) and 0 <= n <= 1)
texts = each("texts in quotes", "must hold names in quotes", lambda item: isinstance(item, str))


def unusable(value: Any) -> str | None:
    """Returns why a mixer's field cannot have a value, for example because it is infinite; None if it can."""
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"must be at most {LARGEST}"
    if isinstance(value, tuple | list) and any(type(n) is not int or not 0 < n <= LARGEST for n in value):
        return "must hold whole positive numbers"
    return None


def check(part: str, knobs: Mapping[str, Knob], values: Any) -> None:
    """Checks that every option of a part has a valid value of its type.

    Args:
      part: prefix of the options' names in messages, for example "optim.".
      knobs: the options of this part.
      values: the part, a ConfigDict or a dict.
    Raises: ValueError that names the option, its value and the cure.
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
