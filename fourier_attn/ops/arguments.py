"""Converts the arguments of ops to the arrays that they compute with, or rejects them by name.

`takes_arrays` decorates every public op and every layer. It reads the annotations of their arguments:

    Float    floating point stays; integers and booleans become float32; complex numbers are rejected
    Complex  stays; real numbers become complex
    Inexact  stays, real or complex; integers and booleans become float32
    Num      every number stays as it is
    Int      integers stay; booleans and floating point, which may have fractions or be NaN, are rejected
    UInt8    bytes stay; other integers are converted if their values are known to be in 0 .. 255
    Bool     booleans stay; the integers 0 and 1 become False and True; floating point is rejected
    Key      keys stay; those of `jax.random.PRNGKey` are converted
    tuple[int, ...]   any sequence of integers
    int, float, bool  a number of this type, from Python, NumPy or an array without axes

Numbers, lists and NumPy arrays become JAX arrays. An annotation with `np.ndarray`, such as
`Num[np.ndarray, "t a"]`, requires values that are known when a program is traced, and returns a NumPy array.
Other annotations of arrays raise an error where the function is defined. Dtypes and axes are known at
tracing, so a compiled program contains none of these checks. Values are read only outside of a program.

An op that computes "in float32" does so for all dtypes except float64, which it computes in float64 (`wide`).
For an axis of size 0 an op returns a result of the right shape, empty or 0.
"""

import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import AbstractArray, Array, Bool, Complex, Float, Inexact, Int, Key, Num, UInt8

_P = ParamSpec("_P")
_R = TypeVar("_R")
Convert = Callable[[str, Any], Any]  # from the name and the value of an argument to what is computed with


def takes_arrays(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Converts the arguments of a function as their annotations ask, see the module.

        >>> @takes_arrays
        ... def double(x: Float[Array, "..."]) -> Array:
        ...     return 2 * x
        >>> double([1, 2])
        Array([2., 4.], dtype=float32)

    Args:
      function: the function to decorate.
    Raises: ValueError for numbers of another kind and for another count of axes, TypeError for other values;
      both name the argument, its value and the cure. TypeError at once for an annotation of arrays that is
      not listed in the module, and for one that is a string.
    """
    parameters = inspect.signature(function).parameters.values()
    converters = {p.name: _converter(p.name, p.annotation) for p in parameters}
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    surplus = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
    others = converters.get(next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), ""))
    call = cast("Callable[..., _R]", function)

    @functools.wraps(function)
    def converted(*arguments: _P.args, **options: _P.kwargs) -> _R:
        positional = [_convert(converters[n], n, value) for n, value in zip(names, arguments, strict=False)]
        # Where the function takes no more than its names, it says so itself.
        for i, value in enumerate(arguments[len(names) :]):
            positional.append(_convert(converters.get(surplus), f"{surplus}[{i}]", value))
        keywords = {n: _convert(converters.get(n, others), n, value) for n, value in options.items()}
        return call(*positional, **keywords)

    return converted


def _convert(convert: Convert | None, name: str, value: Any) -> Any:
    return value if convert is None else convert(name, value)


def _converter(name: str, annotation: Any) -> Convert | None:
    """Returns the function that converts an argument, None for one that is passed as it is.

    Raises: TypeError for an annotation that cannot be followed, which would be ignored otherwise.
    """
    if isinstance(annotation, str | typing.ForwardRef):
        raise TypeError(
            f"the annotation {annotation!r} of {name} is a string, which takes_arrays does not read; remove "
            "the quotes, or `from __future__ import annotations`"
        )
    if isinstance(annotation, type):
        return _array_converter(name, annotation) if _is_array(annotation) else SCALARS.get(annotation)
    if annotation == tuple[int, ...]:
        return _sizes
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and Ellipsis not in parts:
        inner = [_converter(name, part) for part in parts]
        return functools.partial(_several, inner) if any(inner) else None
    present = [part for part in parts if part is not type(None)]
    if origin in (typing.Union, types.UnionType) and len(present) == 1:
        one = _converter(name, present[0])
        return one and (lambda name, value: None if value is None else one(name, value))
    if origin is not Callable and _has_arrays(annotation):
        raise TypeError(
            f"the annotation {annotation} of {name} cannot be followed; use one kind of array, or a tuple "
            "with one kind for each item, or either of them | None"
        )
    return None


def _array_converter(name: str, annotation: Any) -> Convert:
    kind = KINDS.get(annotation.dtype)
    if kind is None:
        known_kinds = ", ".join(known.__name__ for known in KINDS)
        raise TypeError(
            f"the annotation {annotation.dtype.__name__} of {name} is unknown; use one of {known_kinds}"
        )
    return functools.partial(_array, kind, annotation)


def _is_array(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, AbstractArray)


def _has_arrays(annotation: Any) -> bool:
    return any(_is_array(part) or _has_arrays(part) for part in typing.get_args(annotation))


def _several(converters: list[Convert | None], name: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, tuple | list) or len(values) != len(converters):
        raise TypeError(f"{name} must be a tuple of {len(converters)} items, not {_described(values)}")
    pairs = zip(converters, values, strict=True)
    return tuple(_convert(one, f"{name}[{i}]", value) for i, (one, value) in enumerate(pairs))


def _sizes(name: str, values: Any) -> tuple[Any, ...]:
    try:
        return tuple(_index(n) for n in values)
    except TypeError as error:
        raise TypeError(f"{name}={values!r} must be a tuple of whole numbers") from error


def _index(value: Any) -> Any:
    """Returns a whole number as an int; the size of an axis may also be a symbol of `jax.export`."""
    return value if jax.export.is_symbolic_dim(value) else operator.index(value)


def _integer(name: str, value: Any) -> Any:
    try:
        return _index(value)
    except TypeError as error:
        raise TypeError(f"{name}={value!r} must be a whole number") from error


def _float(name: str, value: Any) -> Any:
    """Returns a number as a float; a traced one stays, since only the op knows whether it may be traced."""
    if isinstance(value, Tracer) and value.ndim == 0:
        return value
    try:
        if isinstance(value, str | bytes) or np.ndim(value):
            raise TypeError("not one number")
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={value!r} must be a number") from error


def _flag(name: str, value: Any) -> bool:
    if value is True or value is False:
        return value
    if known(value) and np.ndim(value) == 0:
        x = np.asarray(value)
        if x.dtype.kind in "biu" and _within(x, 0, 1):
            return bool(x)
    raise TypeError(f"{name}={value!r} must be True or False, and known when a program is traced")


def _array(kind: Convert, annotation: Any, name: str, value: Any) -> Array | np.ndarray:
    on_host = annotation.array_type is np.ndarray
    if on_host and not known(value):
        raise TypeError(f"{name} must be known when a program is traced; pass an array of NumPy")
    x = kind(name, value if isinstance(value, jax.Array) else _numbers(name, value))
    axes = annotation.dims
    least = len(axes) - (annotation.index_variadic is not None)
    if x.ndim < least or (x.ndim > least and annotation.index_variadic is None):
        wanted = annotation.dim_str.replace(" ", ", ")
        cure = f"; for one example use {name}[None]" if wanted[:1] == "b" and x.ndim == least - 1 else ""
        raise ValueError(f"{name} of shape {x.shape} must have the axes ({wanted}){cure}")
    return np.asarray(x) if on_host else jnp.asarray(x)


def _numbers(name: str, value: Any) -> Any:
    """Returns a list, a number or another library's array as an array of NumPy, or of JAX if parts are."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask an op does not see; use {name}.filled(0)")
    if value is None:
        raise TypeError(f"{name}=None must be an array of numbers")
    try:
        if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
            return jnp.asarray(value)
        x = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise TypeError(f"{name} must be an array of numbers, not {_described(value)}: {error}") from error
    if not (jnp.issubdtype(x.dtype, jnp.number) or x.dtype == bool):
        raise TypeError(f"{name} must be an array of numbers, not {_described(value)}")
    return x


def _described(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else f'{text[:57]}...'}"


def _real(name: str, x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jnp.floating):
        return x.astype(np.float64) if x.dtype == np.longdouble else x
    if jnp.issubdtype(x.dtype, jnp.integer) or x.dtype == bool:
        return x.astype(jnp.float32)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise ValueError(
            f"{name} must not be complex ({x.dtype}); use {name}.real, or the real and imaginary parts as "
            "separate features"
        )
    raise _wrong(name, x, "real numbers")


def _complex(name: str, x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return x
    return x.astype(jnp.complex128 if x.dtype == jnp.float64 else jnp.complex64)


def _inexact(name: str, x: Any) -> Any:
    return x if jnp.issubdtype(x.dtype, jnp.complexfloating) else _real(name, x)


def _number(name: str, x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jnp.number):
        return x
    if x.dtype == bool:
        return x.astype(jnp.float32)
    raise _wrong(name, x, "numbers")


def _whole(name: str, x: Any) -> Any:
    if not jnp.issubdtype(x.dtype, jnp.integer) and 0 not in x.shape:
        raise _wrong(name, x, f"whole numbers; use {name}.astype(int) if they are such")
    if jnp.issubdtype(x.dtype, jnp.signedinteger) and isinstance(x, jax.Array):
        return x
    signed = jax.dtypes.canonicalize_dtype(jnp.int64) if x.dtype.itemsize > 4 else jnp.dtype(jnp.int32)
    bounds = jnp.iinfo(signed)
    if known(x) and not _within(x, bounds.min, bounds.max):
        raise ValueError(f"{name} has numbers {_range(x)}, beyond {bounds.bits} bits; use smaller numbers")
    if x.dtype.itemsize >= signed.itemsize and not known(x):
        x = jnp.minimum(x, jnp.asarray(bounds.max, x.dtype))  # a cast would make them negative
    return x.astype(signed)


def _byte(name: str, x: Any) -> Any:
    if x.dtype == jnp.uint8:
        return x
    if jnp.issubdtype(x.dtype, jnp.integer) and known(x) and _within(x, 0, 255):
        return x.astype(jnp.uint8)
    raise _wrong(name, x, f"bytes from 0 to 255; use {name}.astype('uint8') if they are such")


def _true(name: str, x: Any) -> Any:
    if x.dtype == bool:
        return x
    if not jnp.issubdtype(x.dtype, jnp.integer) and 0 not in x.shape:
        raise _wrong(name, x, f"booleans, True for real tokens; use {name} > 0 if it is such")
    if known(x) and not _within(x, 0, 1):
        raise ValueError(f"{name} has values {_range(x)}; it must be True or False, 1 or 0")
    return x != 0


def _key(name: str, x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return x
    if x.dtype == jnp.uint32 and x.ndim:
        size = x.shape[-1]
        default = jax.eval_shape(lambda: jax.random.PRNGKey(0)).shape[-1]
        implementation = None if size == default else {2: "threefry2x32", 4: "rbg"}.get(size, "")
        if implementation != "":
            return jax.random.wrap_key_data(jnp.asarray(x), impl=implementation)
    raise _wrong(name, x, "a key; make it with jax.random.key(seed)")


def _within(x: Any, least: int, most: int) -> bool:
    values = np.asarray(x)
    return not values.size or least <= int(values.min()) <= int(values.max()) <= most


def _range(x: Any) -> str:
    values = np.asarray(x)
    return f"from {values.min()} to {values.max()}"


def _wrong(name: str, x: Any, wanted: str) -> ValueError:
    return ValueError(f"{name} of dtype {x.dtype} must be {wanted}")


KINDS: dict[Any, Convert] = {
    Float: _real,
    Complex: _complex,
    Inexact: _inexact,
    Num: _number,
    Int: _whole,
    UInt8: _byte,
    Bool: _true,
    Key: _key,
}

SCALARS: dict[type, Convert] = {int: _integer, float: _float, bool: _flag}


def known(x: Any) -> bool:
    """Returns whether this process can read the values of an array. It cannot read traced ones.

        >>> known(jnp.ones(2))
        True

    Args:
      x: an array, or any other value.
    """
    if isinstance(x, jax.Array):
        return not isinstance(x, Tracer) and x.is_fully_addressable
    return True


def wide(*arrays: Array | np.ndarray) -> jnp.dtype:
    """Returns the dtype in which arrays are summed and transformed: float64 if one has it, otherwise float32.

    >>> wide(jnp.ones(2, jnp.bfloat16))
    dtype('float32')
    """
    return jnp.dtype(jnp.float64 if any(x.dtype == jnp.float64 for x in arrays) else jnp.float32)


def like_shards(start: Array, *arrays: Array) -> Array:
    """Returns `start` with the type that a loop needs inside `jax.shard_map`.

    There, the type of an array says along which axes of the mesh its values differ. A loop must keep the type
    of its values, but a constant differs along no axis. The result has the values of `start`, and differs
    along the axes of all arrays.

    >>> like_shards(jnp.zeros(2), jnp.ones(3))  # unchanged, since there are no devices
    Array([0., 0.], dtype=float32)

    Args:
      start: first value of a loop.
      arrays: non-empty arrays from which the loop computes its values.
    """
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return start
    for x in arrays:
        # The choice never takes the other value, and so changes the type alone.
        start = jnp.where(False, x[(0,) * x.ndim].real.astype(start.dtype), start)
    return start
