"""Describes a parameter of an engine: its meaning, unit, range, words, and growth with the noise.

All of it is at the field of the dataclass that holds the parameter, as metadata. Checks, the knobs of the
configuration with their comments, tables and sweeps read it there, and nowhere else.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

TINY, LARGEST = 1e-30, 1e30  # mean "positive" and "finite" in ranges
KEY = "parameter"  # of the metadata


class Parameter(NamedTuple):
    """Describes the values of a parameter.

    Args:
      text: its meaning.
      kind: "number"; "count", whole; "bits", whole; "pair" of numbers; "row" of at most `most` numbers;
        "shape"; "choice" among the words; "full_scale", a number or one of the words; "flag"; "seed";
        "function"; "file", a path; and arrays: "matrix", square; "rising", numbers whose sizes rise;
        "factors", one of each pixel.
      unit: of the value; "" for none.
      least, most: its range; infinite values switch an effect off.
      words: that are allowed.
      noise_power: noise k times as strong is the value times k to this power; None: it is not noise.
      noise_db: noise k times as strong is the value plus this times $20 log_10(k)$ dB; 0: it is not.
      static: whether the compiled program depends on it; all others may be traced.
    """

    text: str
    kind: str = "number"
    unit: str = ""
    least: float | int = -LARGEST
    most: float | int = LARGEST
    words: tuple[str, ...] = ()
    noise_power: int | None = None
    noise_db: int = 0
    static: bool = False

    @property
    def written(self) -> bool:
        """Says whether a configuration can hold it; functions and arrays it cannot."""
        return self.kind not in ("function", "matrix", "rising", "factors")

    @property
    def noise(self) -> bool:
        """Says whether a sweep over the noise changes it."""
        return self.noise_power is not None or self.noise_db != 0


def parameter(default: Any, text: str, **what: Any) -> Any:
    """Declares a parameter as a field of a dataclass.

    Args:
      default: its default.
      text: its meaning.
      what: further fields of `Parameter`.
    """
    return dataclasses.field(default=default, metadata={KEY: Parameter(text, **what)})


def choice(default: str | None, words: tuple[str, ...], text: str) -> Any:
    """Declares a parameter that is one of some words.

    Args:
      default: the word, or None.
      words: that are allowed.
      text: the parameter's meaning.
    """
    return parameter(default, text, kind="choice", words=words, static=True)


def bits(text: str) -> Any:
    """Declares the bits of a converter; None does not quantise."""
    return parameter(None, text, kind="bits", unit="bit", least=1, most=24, static=True)


def whole(default: int | None, text: str, most: int, unit: str = "") -> Any:
    """Declares a whole number from 1 up.

    Args:
      default: its default.
      text: the parameter's meaning.
      most: largest number.
      unit: of the number; "" for none.
    """
    return parameter(default, text, kind="count", unit=unit, least=1, most=most, static=True)


def crosstalk(text: str, most: float) -> Any:
    """Declares power that couples to neighbours, in dB; None is off.

    Args:
      text: the parameter's meaning.
      most: largest value.
    """
    return parameter(None, text, unit="dB", least=-math.inf, most=most, noise_db=1)


def noise(text: str, unit: str = "", power: int = 1) -> Any:
    """Declares the strength of a noise, from 0 up; None is off.

    Args:
      text: the parameter's meaning.
      unit: of the strength; "" for none.
      power: noise k times as strong is the strength times k to this power; default 1.
    """
    return parameter(None, text, unit=unit, least=0, noise_power=power)


class ByContent:
    """Compares and hashes dataclasses by their fields, and measured arrays in them by their numbers."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(same(one, two) for one, two in zip(_values(self), _values(other), strict=True))

    def __hash__(self) -> int:
        return hash(tuple(_content(value) for value in _values(self)))


def _values(group: Any) -> list[Any]:
    return [getattr(group, field.name) for field in dataclasses.fields(group)]


def same(one: Any, other: Any) -> bool:
    """Says whether two values of a parameter are equal; traced arrays equal only themselves."""
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if one is None or other is None or isinstance(one, Tracer) or isinstance(other, Tracer):
        return False
    return bool(one == other) if np.ndim(one) == np.ndim(other) == 0 else np.array_equal(one, other)


def _content(value: Any) -> Any:
    """Returns a stand-in for a hash: the shape of an array, because equal arrays may have different bits."""
    if isinstance(value, tuple):
        return tuple(map(_content, value))
    array = isinstance(value, np.ndarray | jax.Array) and not isinstance(value, Tracer) and value.ndim
    return value.shape if array else value


def measured(text: str, kind: str) -> Any:
    """Declares a measured array; None: not measured.

    Args:
      text: its meaning.
      kind: "matrix", "rising" or "factors".
    """
    return dataclasses.field(default=None, metadata={KEY: Parameter(text, kind)})


def parameters(group: Any) -> Iterator[tuple[str, Parameter, Any]]:
    """Yields name, parameter and value of each field of a group that is a parameter.

    Args:
      group: a dataclass or an instance; a class has its defaults as values.
    """
    for field in dataclasses.fields(group):
        if KEY in field.metadata:
            value = field.default if isinstance(group, type) else getattr(group, field.name)
            yield field.name, field.metadata[KEY], value


def register(group: type) -> None:
    """Registers a dataclass as a pytree: static parameters are its structure, all others its leaves."""
    static = [name for name, parameter, _ in parameters(group) if parameter.static]
    leaves = [field.name for field in dataclasses.fields(group) if field.name not in static]
    jax.tree_util.register_dataclass(group, leaves, static)
