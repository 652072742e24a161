"""Declares where the value of a mixer's field comes from.

A field of a mixer is an option of the command line unless its declaration says otherwise:

    length: int = from_model("positions", 512)           set to the number of tokens, or of patches
    grid: tuple[int, ...] = from_data("grid", ())        set to that of the patches if it is empty
    lengths: tuple[int, ...] = from_data("lengths", ())  set to the padded lengths of the data
    padding: str = from_run("init_padding", "zero")      set by `init_padding`, for weights to start from
    method: str = how_computed("auto")                   may change when weights are reused
    dtype: jnp.dtype = not_an_option(float32)            set by the model or by the layer alone
    engine: Engine | None = None                         also takes a preset's name or an engine's parameters
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, get_args

import flax.linen as nn
import numpy as np

from fourier_attn.choices import check_choice
from fourier_attn.optics import Engine

T = TypeVar("T")
SOURCE, ON_ENGINES = "fourier_attn.source", "fourier_attn.on_engines"


class Source(NamedTuple):
    """The part of a run that sets a field ("model", "data" or "run"), and the name that the value has there.

    The part "compute" is a choice between ways to the same result; the part "" keeps the field from users.
    """

    part: str
    name: str = ""


POSITIONS, GRID, LENGTHS = Source("model", "positions"), Source("data", "grid"), Source("data", "lengths")
PADDING, COMPUTE, HIDDEN = Source("run", "init_padding"), Source("compute"), Source("")


def from_model(name: str, default: T) -> T:
    """Declares a field that each run sets from its model: "positions", the number of tokens or patches.

    Args:
      name: "positions".
      default: value outside of a run.
    """
    return _declared(Source("model", name), default, (POSITIONS,))


def from_data(name: str, default: T) -> T:
    """Declares a field that each run sets from its data: "lengths", or an empty "grid".

    Args:
      name: "lengths" or "grid".
      default: value outside of a run.
    """
    return _declared(Source("data", name), default, (GRID, LENGTHS))


def from_run(name: str, default: T, on_engines: Mapping[Any, Any] = MappingProxyType({})) -> T:
    """Declares a field that an option of the run sets: "init_padding", for the weights of `init_from`.

    Args:
      name: "init_padding".
      default: value outside of a run.
      on_engines: values that are replaced if the mixer gets an engine, with their replacements. Default none.
    """
    return _declared(Source("run", name), default, (PADDING,), {ON_ENGINES: on_engines})


def how_computed(default: T) -> T:
    """Declares an option that chooses how the same result is computed, whatever the weights.

    Args:
      default: value of the field.
    """
    return _declared(COMPUTE, default, (COMPUTE,))


def not_an_option(default: T) -> T:
    """Declares a field that no configuration has: a block's `dtype`, or what another module sets.

    Args:
      default: value of the field.
    """
    return _declared(HIDDEN, default, (HIDDEN,))


def _declared(
    source: Source, default: T, known: tuple[Source, ...], more: Mapping[str, Any] = MappingProxyType({})
) -> T:
    check_choice("name", source.name, [each.name for each in known])
    return dataclasses.field(default=default, metadata={SOURCE: source, **more})


def options(layer: type[nn.Module]) -> tuple[dataclasses.Field, ...]:
    """Returns the fields of a layer that a configuration has."""
    return tuple(field for field in dataclasses.fields(layer) if _is_option(field))


def _is_option(field: dataclasses.Field) -> bool:
    hidden = field.name in ("parent", "name") or field.metadata.get(SOURCE) == HIDDEN
    return not hidden and not _is_dtype(field.default)


def _is_dtype(value: Any) -> bool:
    """Says whether a value is a dtype (jnp.dtype("float32"), jnp.float32): no configuration can hold it."""
    return isinstance(value, np.dtype) or (isinstance(value, type) and hasattr(value, "dtype"))


def named(layer: type[nn.Module], *sources: Source) -> tuple[str, ...]:
    """Returns the names of a layer's fields that have one of these sources."""
    return tuple(f.name for f in dataclasses.fields(layer) if f.metadata.get(SOURCE) in sources)


def source(layer: type[nn.Module], name: str) -> Source | None:
    """Returns what a layer says about where the value of a field comes from, if anything."""
    return next((f.metadata.get(SOURCE) for f in dataclasses.fields(layer) if f.name == name), None)


def engines(layer: type[nn.Module]) -> tuple[str, ...]:
    """Returns the names of a layer's fields that are engines, by their annotations."""
    return tuple(f.name for f in options(layer) if Engine in (f.type, *get_args(f.type)))


def on_engines(layer: type[nn.Module]) -> dict[str, Mapping[Any, Any]]:
    """Returns, by the names of fields, the values that have another one in their place on an engine."""
    return {f.name: f.metadata[ON_ENGINES] for f in dataclasses.fields(layer) if ON_ENGINES in f.metadata}


def dtype_of(factory: Any, dtype: Any) -> dict[str, Any]:
    """Returns the keyword that gives a mixer its dtype; none for a mixer whose `dtype` is its own option."""
    layer = getattr(factory, "func", factory)
    if dataclasses.is_dataclass(layer):
        hidden = [f.name for f in dataclasses.fields(layer) if not _is_option(f)]
        return {"dtype": dtype} if "dtype" in hidden else {}
    return {"dtype": dtype}
