"""Checks of single parameters: one message that names the value and what is allowed."""

import math
import numbers
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeGuard

import numpy as np

from fourier_attn.choices import check_choice
from fourier_attn.optics.parameter import LARGEST, TINY, Parameter, parameters


def check_words(group: Any) -> None:
    """Checks the words of a group of parameters, which decide what its other ones may be.

    Raises: ValueError.
    """
    for name, parameter, value in parameters(group):
        if parameter.kind == "choice" and not (value is None and _default(group, name) is None):
            check_choice(name, value, parameter.words)


def check(group: Any, signed: Collection[str] = ()) -> None:
    """Checks each parameter of a group against its field. Traced values are not looked at.

    Numbers of NumPy become Python's, in the group itself.

    Args:
      signed: names of the converters whose numbers have a sign, which takes one bit more.
    Raises: ValueError.
    """
    for name, _, value in parameters(group):
        object.__setattr__(group, name, _plain(value))
    check_words(group)
    for name, parameter, value in parameters(group):
        optional = _default(group, name) is None
        if value is None and optional:
            continue
        if parameter.kind == "number":
            _check_number(name, value, parameter, optional=optional)
        elif parameter.kind == "bits":
            _check_bits(name, value, int(parameter.least) + (name in signed), parameter.most)
        elif parameter.kind in CHECKS:
            CHECKS[parameter.kind](name, value, parameter)


MOST_LEVELS = 16  # bits of a converter whose levels are listed one by one


def check_converter(group: Any, bits: str, names: tuple[str, ...]) -> None:
    """Checks that there is a converter for its imperfections.

    Args:
      group: modulators or receivers.
      bits: name of the converter's bits.
      names: of its imperfections, in LSB.
    Raises: ValueError.
    """
    most = getattr(group, bits)
    for name in names:
        value = getattr(group, name)
        if value is not None and most is None:
            raise ValueError(
                f"{name}={value} is in steps of a converter, which {bits}=None lacks; give {bits}"
            )
        if value is not None and name.endswith("dnl_lsb") and most > MOST_LEVELS:
            raise ValueError(
                f"{name}={value} lists the levels of a converter, and {bits}={most} has more than "
                f"2^{MOST_LEVELS}; lower {bits}, or leave {name} None"
            )


def _plain(value: Any) -> Any:
    """Converts numbers of any library, pairs and shapes of them to Python's; returns all else as it is.

    An array of NumPy without axes is a number. One with axes may be a batch, in a transformation.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if type(value) is tuple:
        return tuple(_plain(part) for part in value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def is_number(value: Any) -> TypeGuard[float]:
    """Says whether it is a Python number, whose value is known; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _default(group: Any, name: str) -> Any:
    return type(group).__dataclass_fields__[name].default


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_shape(name: str, value: Any, parameter: Parameter) -> None:
    pair = isinstance(value, tuple) and len(value) == 2
    if not pair or any(not isinstance(n, int) or n < 1 for n in value):
        raise ValueError(f"{name}={value!r} must be (rows, columns) of the aperture, each at least 1")


def _row(value: Any) -> Any:
    """Returns the numbers of an array of NumPy with one axis as a tuple, and all else as it is."""
    return _plain(tuple(value)) if isinstance(value, np.ndarray) and value.ndim == 1 else value


def _check_pair(name: str, value: Any, parameter: Parameter) -> None:
    value = _row(value)
    if isinstance(value, tuple) and len(value) == 2 and all(_is_finite(number) for number in value):
        return
    if isinstance(value, int | float | str | list | tuple):  # not traced
        raise ValueError(f"{name}={value!r} must be (rows, columns), {parameter.unit}s, or None")


def _check_row(name: str, value: Any, parameter: Parameter) -> None:
    value = _row(value)
    if isinstance(value, tuple) and len(value) <= parameter.most and all(map(_is_finite, value)):
        return
    if isinstance(value, int | float | str | list | tuple):  # not traced
        raise ValueError(f"{name}={value!r} must be a tuple of at most {parameter.most} numbers, or None")


def _is_finite(value: Any) -> bool:
    if isinstance(value, int | float):
        return abs(value) <= LARGEST  # no NaN
    return not isinstance(value, str | None)


def _check_count(name: str, value: Any, parameter: Parameter) -> None:
    if not _is_whole(value) or value < parameter.least:
        raise ValueError(f"{name}={value!r} must be at least {parameter.least}, and whole")
    if value > parameter.most:
        raise ValueError(f"{name}={value!r} must be at most {parameter.most}")


def _check_number(name: str, value: Any, parameter: Parameter, *, optional: bool) -> None:
    least, most = parameter.least, parameter.most
    if is_number(value):
        if least <= value <= most and (abs(value) <= LARGEST or math.isinf(value)):
            return  # a finite number beyond LARGEST is none of a float32
    elif not isinstance(value, str | bool | None):  # traced
        return
    bounds = []
    if least == 0:
        bounds.append("at least 0")
    elif least == TINY:
        bounds.append("positive")
    if is_number(value) and abs(value) > LARGEST:
        bounds.append("finite")
    elif most < LARGEST:
        bounds.append(f"at most {most}")
    off = ", or None, which is off" if optional else ""
    raise ValueError(f"{name}={value!r} must be {' and '.join(bounds) or 'a number'}{off}")


def _check_bits(name: str, value: Any, least: int, most: float | int) -> None:
    if not _is_whole(value) or not least <= value <= most:
        raise ValueError(f"{name}={value!r} must be from {least} to {most} bit, or None for no quantisation")


def _check_full_scale(name: str, value: Any, parameter: Parameter) -> None:
    if value in parameter.words:
        return
    if not isinstance(value, int | float) or not 0 < value <= LARGEST:
        raise ValueError(f"{name}={value!r} must be positive or one of {', '.join(parameter.words)}")


def _check_flag(name: str, value: Any, parameter: Parameter) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r} must be True or False")


def _check_seed(name: str, value: Any, parameter: Parameter) -> None:
    if isinstance(value, float | str | None):  # neither whole nor traced
        raise ValueError(f"{name}={value!r} must be a whole number")
    if isinstance(value, int) and not parameter.least <= value <= parameter.most:
        raise ValueError(f"{name}={value!r} must lie from {parameter.least} to {parameter.most}")


def _check_file(name: str, value: Any, parameter: Parameter) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}={value!r} must be the path of an .npz or .npy file, or None")


def _is_array(name: str, value: Any) -> TypeGuard[np.ndarray]:
    """Says whether it is an array with known values, of NumPy, not traced. Raises: ValueError."""
    if isinstance(value, str | bytes | int | float | list | tuple | dict):
        raise ValueError(f"{name}={value!r:.60} must be an array of NumPy, or None")
    if not isinstance(value, np.ndarray):
        return False
    if value.dtype.kind not in "iufc":
        raise ValueError(f"{name} holds {value.dtype}; it must hold numbers")
    if bad := int(np.sum(~np.isfinite(value))):
        raise ValueError(
            f"{name} of shape {value.shape} has {bad} entries that are not finite; measure again"
        )
    return True


def _check_matrix(name: str, value: Any, parameter: Parameter) -> None:
    if _is_array(name, value) and (value.ndim != 2 or value.shape[0] != value.shape[1] or not value.any()):
        raise ValueError(
            f"{name} of shape {value.shape} must be a square matrix, not 0, a row for each pixel that is "
            "written and a column for each that is read"
        )


def _check_rising(name: str, value: Any, parameter: Parameter) -> None:
    if not _is_array(name, value):
        return
    if value.ndim != 1 or len(value) < 2:
        raise ValueError(f"{name} of shape {value.shape} must be a row of at least two transmissions")
    size = np.abs(value)
    if np.all(np.diff(size) > 0):
        return
    at = int(np.argmax(np.diff(size) <= 0)) + 1
    raise ValueError(
        f"{name} is not monotone: {size[at]:.6g} at place {at} follows {size[at - 1]:.6g}; amplitudes must "
        "rise from drive to drive, so cut it where they turn, or smooth it"
    )


def _check_factors(name: str, value: Any, parameter: Parameter) -> None:
    if _is_array(name, value) and value.ndim != 2:
        raise ValueError(f"{name} of shape {value.shape} must have a factor for each pixel")


CHECKS: Mapping[str, Callable[[str, Any, Parameter], None]] = {
    "shape": _check_shape,
    "pair": _check_pair,
    "row": _check_row,
    "count": _check_count,
    "full_scale": _check_full_scale,
    "flag": _check_flag,
    "seed": _check_seed,
    "file": _check_file,
    "matrix": _check_matrix,
    "rising": _check_rising,
    "factors": _check_factors,
}
