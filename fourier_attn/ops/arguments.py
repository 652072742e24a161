"""Arguments of ops: what is promoted to the arrays that an op computes with, and what is refused by name.

`takes_arrays` marks every public op and every layer. It reads the annotations of their arguments:

    Float    floating point stays; integers and booleans become float32; complex numbers are refused
    Complex  stays; real numbers become complex
    Inexact  stays, real or complex; integers and booleans become float32
    Num      every number stays as it is
    Int      integers stay; booleans and floating point, which may have fractions or be NaN, are refused
    UInt8    bytes stay; other integers are converted where they are known to lie in 0 .. 255
    Bool     booleans stay; the integers 0 and 1 are False and True; floating point is refused
    Key      keys stay; those of `jax.random.PRNGKey` become such
    tuple[int, ...]   any sequence of integers

Numbers, lists and arrays of NumPy become arrays of JAX. Dtypes and axes are known when a program is traced,
so that a compiled one contains nothing of this. Values are read only outside of a program.

An op that computes "in float32" does so for all dtypes but float64, which it computes in float64 (`wide`).
Where nothing goes in (an axis of size 0), nothing comes out: results of the right shape, empty or 0.
"""

import functools
import inspect
import operator
import typing
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Complex, Float, Inexact, Int, Key, Num, UInt8

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

    Raises: ValueError for numbers of another kind and for another count of axes, TypeError for what is no
      array of numbers; both name the argument, its value and the cure.
    """
    parameters = inspect.signature(function).parameters
    converters = {name: _converter(parameter.annotation) for name, parameter in parameters.items()}
    names, call = list(parameters), cast("Callable[..., _R]", function)

    @functools.wraps(function)
    def converted(*arguments: _P.args, **options: _P.kwargs) -> _R:
        named = [*zip(names, arguments, strict=False)]
        positional = [_convert(converters[name], name, value) for name, value in named]
        keywords = {name: _convert(converters.get(name), name, value) for name, value in options.items()}
        # More arguments than there are names: the function itself says so.
        return call(*positional, *arguments[len(named) :], **keywords)

    return converted


def _convert(convert: Convert | None, name: str, value: Any) -> Any:
    return value if convert is None else convert(name, value)


def _converter(annotation: Any) -> Convert | None:
    """What makes an argument of an annotation; None for arguments that are taken as they are."""
    parts = typing.get_args(annotation)
    if type(None) in parts:
        inner = next((found for part in parts if (found := _converter(part))), None)
        return inner and (lambda name, value: None if value is None else inner(name, value))
    if annotation == tuple[int, ...]:
        return _sizes
    if typing.get_origin(annotation) is tuple:
        inner = [_converter(part) for part in parts]
        return functools.partial(_several, inner) if any(inner) else None
    kind = KINDS.get(getattr(annotation, "dtype", None))
    return kind and functools.partial(_array, kind, annotation)


def _several(converters: list[Convert | None], name: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, tuple | list) or len(values) != len(converters):
        raise TypeError(f"{name} must be a tuple of {len(converters)} arrays, not {_described(values)}")
    pairs = zip(converters, values, strict=True)
    return tuple(_convert(one, f"{name}[{i}]", value) for i, (one, value) in enumerate(pairs))


def _sizes(name: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(n) for n in values)
    except TypeError as error:
        raise TypeError(f"{name}={values!r} must be a tuple of whole numbers") from error


def _array(kind: Convert, annotation: Any, name: str, value: Any) -> Array:
    x = kind(name, value if isinstance(value, jax.Array) else _numbers(name, value))
    axes = annotation.dims
    least = len(axes) - (annotation.index_variadic is not None)
    if x.ndim < least or (x.ndim > least and annotation.index_variadic is None):
        wanted = annotation.dim_str.replace(" ", ", ")
        cure = f"; for one example use {name}[None]" if wanted[:1] == "b" and x.ndim == least - 1 else ""
        raise ValueError(f"{name} of shape {x.shape} must have the axes ({wanted}){cure}")
    return jnp.asarray(x)


def _numbers(name: str, value: Any) -> Any:
    """A list, a number or another library's array as one of NumPy, or of JAX where parts of it are JAX's."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask an op does not see; use {name}.filled(0)")
    if value is None:
        raise TypeError(f"{name} is None, and must be an array of numbers")
    try:
        if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
            return jnp.asarray(value)
        x = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise TypeError(f"{name} is no array of numbers, but {_described(value)}: {error}") from error
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
            f"{name} is complex ({x.dtype}), which is not defined here; take {name}.real, or its real and "
            "imaginary parts as two real features"
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
    if signed.itemsize == 4 and known(x) and not _within(x, -(2**31), 2**31 - 1):
        raise ValueError(f"{name} has numbers {_range(x)}, beyond 32 bits")
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
        return jax.random.wrap_key_data(jnp.asarray(x))
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


def known(x: Any) -> bool:
    """Returns whether this process can read the values of an array, which a traced one does not have.

    >>> known(jnp.ones(2))
    True
    """
    if isinstance(x, jax.Array):
        return not isinstance(x, Tracer) and x.is_fully_addressable
    return True


def wide(*arrays: Array | np.ndarray) -> jnp.dtype:
    """The dtype in which arrays are summed and transformed: float64 if one of them has it, otherwise float32.

    >>> wide(jnp.ones(2, jnp.bfloat16))
    dtype('float32')
    """
    return jnp.dtype(jnp.float64 if any(x.dtype == jnp.float64 for x in arrays) else jnp.float32)
