"""Overrides of a command line that ml_collections cannot parse: None, and engines by their names.

`fourier_attn.command` takes them out of the command line; here they reach the configuration.
"""

import ast
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from fourier_attn import model
from fourier_attn.config.build import EMPTY, part_of, set_engine
from fourier_attn.config.fit import MIXER, mixer_name
from fourier_attn.config.options import Config
from fourier_attn.layers.fields import options
from fourier_attn.optics import Engine, presets
from fourier_attn.optics.engine_spec import every_parameter


def give_optional(flag: Any, optional: Mapping[str, str]) -> None:
    """Gives a flag's configuration the overrides that `command.without_optional` took out of a command line.

    Raises: ValueError for a knob that needs a value, and where there is no configuration.
    """
    if optional and not isinstance(flag.value, ConfigDict):
        raise ValueError(f"--config.{next(iter(optional))} needs --config=NAME")
    config: Any = flag.value
    for knob, value in optional.items():
        if inside := [name for name in flag.override_values if name.startswith(f"{knob}.")]:
            raise ValueError(f"--config.{knob}={value} conflicts with --config.{inside[0]}; remove one")
        set_optional(config, knob, None if value == "None" else value)
        flag.override_values[knob] = value


def set_optional(config: Config, name: str, value: str | None) -> None:
    """Gives a knob None, or one for an engine the name of a preset or the file of a measured device.

    Raises: ValueError for another knob that has a value, AttributeError for one that does not exist.
    """
    path, _, knob = name.rpartition(".")
    part = part_of(config, path) if path else config
    if knob not in part:
        raise ValueError(f"{name} is not a knob; `python -m fourier_attn.config` lists all knobs")
    mixer = mixer_name(config, path)
    with part.unlocked():
        if value is not None and knob in model.engine_fields(mixer):
            set_engine(part, mixer, presets.preset(value), knob)
            return
        if value is not None:  # of a mixer that means something else by "engine"
            part[knob] = value if isinstance(part[knob], str) else ast.literal_eval(value)
            return
        kind = _kind_beside_none(config, path, knob)
        if kind is None:
            raise ValueError(f"{name}=None: this knob needs a value, like {part[knob]!r}")
        del part[knob]
        part[knob] = placeholder(kind)


def _kind_beside_none(config: Config, path: str, knob: str) -> type | None:
    """Returns the type of a knob's values where None is one of them, else None."""
    found = MIXER.match(path)
    if not found:
        return None
    mixer, (engine, _, group) = mixer_name(config, path), path[found.end() :][1:].partition(".")
    engines = model.engine_fields(mixer)
    if not engine:
        if knob not in [field.name for field in options(model.find_mixer(mixer)) if field.default is None]:
            return None
        return str if knob in engines else tuple
    every = every_parameter(Engine()) if engine in engines else ()
    kinds = {(g, n): EMPTY.get(parameter.kind) for g, n, parameter, value in every if value is None}
    return kinds.get((group, knob))
