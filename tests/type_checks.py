"""Checks annotations in tests: shapes where a function states them, plain types everywhere.

jaxtyping's hook would give each function a checker of shapes, which costs 0.1 ms a call, and 2 ms for each
closure that is made. Most functions take no arrays: beartype alone checks them as strictly.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

check_shapes = jaxtyping.jaxtyped
check_types = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))


def states_shapes(annotation: Any) -> bool:
    """Returns whether an annotation is one of jaxtyping's, or has one among its parts."""
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    parts = annotation if isinstance(annotation, list) else typing.get_args(annotation)
    return any(map(states_shapes, parts))


def checked(function: Callable) -> Callable:
    if any(map(states_shapes, function.__annotations__.values())):
        return check_shapes(function, typechecker=beartype)
    return check_types(function)


def decorator(**_: Any) -> Callable:
    """Replaces `jaxtyping.jaxtyped`, with which the hook decorates functions and classes."""

    def decorate(target: Any) -> Any:
        if not inspect.isclass(target):
            return checked(target)
        if dataclasses.is_dataclass(target) and "__init__" in vars(target):
            target.__init__ = checked(target.__init__)
        return target

    return decorate


jaxtyping.jaxtyped = decorator
