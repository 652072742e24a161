"""Completes the configuration of a command line, once ml_collections has parsed it.

`fourier_attn.config_flag` takes out overrides that ml_collections cannot parse: None, and names of engines.
This module writes them into the configuration, and sets the lengths that follow from `model.positions`.
"""

import ast
from collections.abc import Mapping
from typing import Any

from ml_collections.config_dict import placeholder

from fourier_attn import model
from fourier_attn.config.build import EMPTY, part_of, set_engine, with_mixer, with_recipe
from fourier_attn.config.fit import MIXER, fit_length, mixer_name
from fourier_attn.config.options import Config
from fourier_attn.layers.fields import options
from fourier_attn.optics import Engine, presets
from fourier_attn.optics.engine_spec import every_parameter

ENGINES = ("model.engine", "model.eval_engine")  # overrides of all mixers that have an engine


def with_choices(
    config: Config, mixer: str | None, recipe: str | None, optional: Mapping[str, str]
) -> Config:
    """Returns a configuration with the mixer and the recipe of a command line, before the other overrides.

    Args:
      config: the configuration that the command line names, which may be changed in place.
      mixer: the value of --mixer; None: unchanged, see `with_mixer`.
      recipe: the value of --recipe; None: unchanged, see `with_recipe`.
      optional: overrides for `complete_overrides`. Engines that "model.engine" and "model.eval_engine" remove
        are removed first, because the new mixer may have no transform for them.
    Raises: ValueError for an unknown name, and for a mixer that cannot use the engine of the replaced one.
    """
    if mixer is not None:
        removed = {knob: value for knob, value in optional.items() if value == "None" and knob in ENGINES}
        for knob in _of_each_mixer(config, removed):
            set_optional(config, knob, None)
        config = with_mixer(config, mixer)
    return config if recipe is None else with_recipe(config, recipe)


def complete_overrides(flag: Any, optional: Mapping[str, str], recipe: str | None = None) -> None:
    """Applies the remaining overrides of a command line, and what follows from its overrides.

    If `model.positions` is overridden, mixers with position-dependent weights get this length, unless their
    own length is overridden, too.

    Args:
      flag: the absl flag --config; its configuration and its override values are changed in place.
      optional: new values by option; "None" sets the option to None.
      recipe: the value of --recipe, which replaces the defaults of the task before the overrides are applied.
    Raises: ValueError for an option that cannot be None, and for conflicting overrides.
    """
    config: Any = flag.value
    if recipe is not None and "data.task" in flag.override_values:
        raise ValueError(
            f"--recipe={recipe} and --config.data.task={config.data.task} cannot be combined, because a "
            "recipe keeps the task of the configuration; name the task there, as in "
            f"--config=NAME:{config.data.task}"
        )
    for knob, value in _of_each_mixer(config, optional).items():
        if inside := [name for name in flag.override_values if name.startswith(f"{knob}.")]:
            raise ValueError(f"--config.{knob}={value} conflicts with --config.{inside[0]}; remove one")
        set_optional(config, knob, None if value == "None" else value)
        flag.override_values[knob] = value
    if "model.positions" in flag.override_values:
        fit_length(config, kept=tuple(flag.override_values))


def _of_each_mixer(config: Config, optional: Mapping[str, str]) -> dict[str, str]:
    """Replaces "model.engine" and "model.eval_engine" by these options of each mixer that has them.

    Raises: ValueError for an engine where no mixer has them.
    """
    expanded: dict[str, str] = {}
    for knob, value in optional.items():
        if knob not in ENGINES:
            expanded[knob] = value
            continue
        field = knob.removeprefix("model.")
        own = config.model.mixer.name
        places = {own: "model.mixer"} | {name: f"model.others.{name}" for name in config.model.others}
        having = [place for name, place in places.items() if field in model.engine_fields(name)]
        if not having and value != "None":
            able = ", ".join(name for name in model.MIXERS if field in model.engine_fields(name))
            raise ValueError(
                f"{knob}={value}: mixer {own!r} has no transform that an engine could compute; choose one of "
                f"{able}"
            )
        expanded = {f"{place}.{field}": value for place in having} | expanded
    return expanded


def set_optional(config: Config, name: str, value: str | None) -> None:
    """Sets an option to None, or an engine to a preset or to the file of a measured device, in place.

    Args:
      config: the configuration to change.
      name: dotted path of the option, for example "model.mixer.engine".
      value: name of a preset or path of a file; None: set to None.
    Raises: ValueError for an option that cannot be None or does not exist; KeyError for an unknown part.
    """
    path, _, knob = name.rpartition(".")
    part = part_of(config, path) if path else config
    if knob not in part:
        raise ValueError(f"{name} is not an option; `python -m fourier_attn.config` lists all options")
    mixer = mixer_name(config, path)
    with part.unlocked():
        if value is not None and knob in model.engine_fields(mixer):
            set_engine(part, mixer, presets.preset(value), knob)
            return
        if value is not None:  # a custom mixer may use the field "engine" for something else
            part[knob] = value if isinstance(part[knob], str) else ast.literal_eval(value)
            return
        kind = _type_besides_none(config, path, knob)
        if kind is None:
            raise ValueError(f"{name}=None: this option cannot be None; give a value such as {part[knob]!r}")
        del part[knob]
        part[knob] = placeholder(kind)


def _type_besides_none(config: Config, path: str, knob: str) -> type | None:
    """Returns the type of an option that may also be None; returns None for other options.

    Args:
      config: names the mixers.
      path: dotted path of the part that has the option.
      knob: name of the option in this part.
    """
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
