"""Builds a configuration from names, from another configuration, or from the file of a run."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict, FrozenConfigDict
from ml_collections.config_dict import placeholder

from fourier_attn import data, model
from fourier_attn.choices import check_choice
from fourier_attn.config.fit import fit_length
from fourier_attn.config.options import PARTS, RECIPES, RUN, Config
from fourier_attn.data.tasks import TASKS, find_task, task_of
from fourier_attn.knobs import Part, copied
from fourier_attn.knobs import check as check_knobs
from fourier_attn.layers.fields import COMPUTE, PADDING, named, on_engines, options
from fourier_attn.optics import Engine, presets
from fourier_attn.optics.engine_spec import PLACES, every_parameter
from fourier_attn.optics.from_dict import grouped
from fourier_attn.optics.parts import GROUPS

# Types of the values that can replace None in an engine's parameter, by the parameter's kind.
EMPTY = {"number": float, "bits": int, "count": int, "pair": tuple, "row": tuple, "choice": str, "file": str}
# Fields that mean the same in all mixers. `with_mixer` keeps their values.
SHARED = ("heads", "causal", "initializer", "engine", "eval_engine", "prefer")
# Keys of the model part that a task or a training sets, even where weights bring their own architecture.
TASK_KEYS = ("head", "classes", "dropout", "mixer_dropout", "token_dropout", "dtype")


def default(
    mixer: str = "fourier",
    task: str = "reviews",
    recipe: str = "default",
    engine: str | None = None,
    others: Sequence[str] = (),
) -> Config:
    """Returns the complete configuration for a mixer, a task and a recipe. It is locked against unknown keys.

        >>> config = default("lambda", "imdb")
        >>> config.model.mixer.name, config.data.task
        ('lambda', 'imdb')

    Args:
      mixer: a key of `fourier_attn.model.MIXERS`, or the name of a registered mixer.
      task: a key of `fourier_attn.data.tasks.TASKS`, or the name of a registered task.
      recipe: a key of `RECIPES`, which sets optimizer, epochs and sizes.
      engine: preset for the mixer's optical engine; None: exact computation without an engine.
      others: names of further mixers that a `model.layout` can use.
    Raises: ValueError for an unknown name.
    """
    for name in (mixer, *others):
        model.find_mixer(name)
    find_task(task)
    check_choice("recipe", recipe, RECIPES)
    if engine is not None and not model.engine_fields(mixer):
        raise ValueError(f"mixer={mixer!r} has no transform that engine={engine!r} could compute; use None")
    config: Any = ConfigDict({name: knob.default for name, knob in RUN.items()})
    for part, knobs in PARTS.items():
        config[part] = ConfigDict({name: knob.default for name, knob in knobs.items()})
    config.data.task = task
    config.model.mixer = _mixer(mixer)
    config.model.mixer.name = mixer
    config.model.others = ConfigDict({name: _mixer(name) for name in others})
    if engine is not None:
        set_engine(config.model.mixer, mixer, presets.preset(engine))
    config.update_from_flattened_dict(TASKS[task].defaults)
    config.update_from_flattened_dict(RECIPES[recipe])
    return fit_length(config).lock()


def with_recipe(config: Config, recipe: str) -> Config:
    """Returns the task's defaults with a recipe, and the mixers and the layout of `config`.

    Use it to compare mixers of several configuration files: the results differ in nothing but the mixer.

    Args:
      config: gives the task, the mixers with their fields, the layout, and the options of a run (`RUN`).
      recipe: a key of `RECIPES`.
    Raises: ValueError for an unknown recipe.
    """
    own = _linked(config)
    shared = default(own.model.mixer.name, own.data.task, recipe, others=tuple(own.model.others))
    with shared.unlocked():
        for name in (*RUN, "model.mixer", "model.others", "model.layout"):
            part, _, knob = name.rpartition(".")
            place, value = (shared, own) if not part else (part_of(shared, part), part_of(own, part))
            place[knob] = value[knob]
    return fit_length(shared)


def with_mixer(config: Config, mixer: str) -> Config:
    """Returns a copy in which another mixer replaces `model.mixer` in all blocks.

    The fields `SHARED`, for example the number of heads or causal=True, keep their values. All other fields
    get the defaults of the new mixer. A mixer that is in `model.others` already keeps its own fields.

    Args:
      config: the complete configuration.
      mixer: name of the new mixer.
    Raises: ValueError for an unknown name, and for a mixer that cannot use the engine of the replaced one.
    """
    model.find_mixer(mixer)
    changed = _linked(config)
    old, others = changed.model.mixer, dict(changed.model.others.items())
    if old.name == mixer:
        return changed
    new = others.pop(mixer, None)
    if new is None:
        new = _mixer(mixer)
        for field in SHARED:
            if field in old and field in new:
                del new[field]  # an engine may be a name, or parameters
                new[field] = old[field] if isinstance(old[field], ConfigDict) else old.get_ref(field)
    lost = [name for name in model.engine_fields(old.name) if old[name] is not None and name not in new]
    if lost:
        raise ValueError(
            f"mixer={mixer!r} has no transform that model.mixer.{lost[0]} of {old.name!r} could compute; "
            "choose a mixer with an engine, or a configuration without one"
        )
    with new.unlocked(), changed.unlocked():
        new.name = mixer
        changed.model.mixer = new
        changed.model.others = ConfigDict(others)
        names = (mixer if name == old.name else name for name in changed.model.layout)
        changed.model.layout = tuple(names)
    return fit_length(changed).lock()


def _linked(config: Config) -> Config:
    """Returns a mutable copy in which options that refer to other options still do, if the file linked them.

    Options that are None keep their type, so that a command line can set them.
    """
    return copied(config) if isinstance(config, FrozenConfigDict) else copy.deepcopy(config)


def masked(config: Config) -> Config:
    """Returns the configuration of the masked language model that `train.self_pretrain` trains first.

    Args:
      config: the complete configuration.
    """
    first = copied(config)
    first.data.masked = True
    first.train.update({"epochs": config.train.self_pretrain, "self_pretrain": 0, "patience": 0})
    # these options belong to the task itself
    first.train.update({"monitor": "", "class_weights": "", "label_smoothing": 0.0})
    return first


def part_of(config: Part, path: str) -> Part:
    """Returns the part of a configuration at a dotted path, for example "model.mixer"."""
    for name in path.split("."):
        config = config[name]
    return config


def with_architecture(config: Config, part: dict[str, Any]) -> Config:
    """Returns a copy with the architecture of pretrained weights, given as the `model` part of their config.

    `TASK_KEYS`, the engines and the fields that say how a mixer computes stay those of `config`.

    Args:
      config: the complete configuration, which stays as it is.
      part: the part `model` of the other configuration, as a dictionary.
    """
    adopted = copied(config)
    kept = {key: adopted.model[key] for key in TASK_KEYS}
    whole = from_dict({"data": {"task": config.data.task}, "model": {**part, **kept}})
    with adopted.unlocked():
        adopted.model = whole.model
        for name, mixer in model.mixers(adopted.model).items():
            for field in named(model.find_mixer(name), PADDING) if config.init_padding else ():
                mixer[field] = config.init_padding
            given = model.mixers(config.model).get(name, {})
            for key in free_fields(name):
                if given.get(key) is not None:  # an engine may be a name, or parameters, whatever it was
                    with mixer.unlocked():
                        del mixer[key]
                        mixer[key] = given[key]
    return adopted


def free_fields(mixer: str) -> tuple[str, ...]:
    """Returns the fields of a mixer that are not part of its architecture: computation and engines.

    Args:
      mixer: name of the mixer, as in `MIXERS`.
    """
    return (*named(model.find_mixer(mixer), COMPUTE), *model.engine_fields(mixer))


def _mixer(name: str) -> ConfigDict:
    """Returns the fields of a mixer's layer with their defaults."""
    part = ConfigDict()
    for field in options(model.find_mixer(name)):
        empty: Any = placeholder(str if field.name in model.engine_fields(name) else tuple)
        part[field.name] = empty if field.default is None else field.default
    return part


class Parts(ConfigDict):
    """Holds an engine's parameters in groups; the error for a parameter without its group names the group."""

    def __getattr__(self, name: str) -> Any:
        self._point(name)
        return super().__getattr__(name)

    def __setitem__(self, key: str, value: Any) -> None:
        if self.is_locked:
            self._point(key)
        super().__setitem__(key, value)

    def _point(self, name: str) -> None:
        if name in PLACES and name not in self:
            raise AttributeError(
                f"the engine's {name} belongs to the group {PLACES[name]}; set {PLACES[name]}.{name}"
            )


def set_engine(fields: Any, mixer: str, engine: Engine, name: str | None = None) -> None:
    """Writes an engine into a mixer's part of the configuration, in place, one option for each parameter.

    Parameters that are None become placeholders, so that a command line can set them.

    Args:
      fields: the mixer's part of the configuration, which is changed.
      mixer: name of the mixer.
      engine: the engine to write.
      name: field that gets it; None: the first one, the engine of training.
    """
    name = name or model.engine_fields(mixer)[0]
    del fields[name]
    fields[name] = _engine_part(engine)
    for field, instead in on_engines(model.find_mixer(mixer)).items():
        # an engine has one size for all examples
        fields[field] = instead.get(fields[field], fields[field])


def _engine_part(engine: Engine) -> Part:
    part: Any = Parts()
    for group in GROUPS:
        part[group] = Parts()
    for group, field, parameter, value in every_parameter(engine):
        if parameter.written:
            empty = value is None and parameter.kind in EMPTY
            (part[group] if group else part)[field] = placeholder(EMPTY[parameter.kind]) if empty else value
    return part


def read_engine(values: Mapping[str, Any]) -> Part:
    """Returns an engine's parameters from a dict that this version or an earlier one wrote.

    Args:
      values: the dict.
    Raises: ValueError for an unknown parameter.
    """
    part = _engine_part(Engine())
    _overwrite(part, grouped(values), "engine.")
    return part


def from_dict(values: Mapping[str, Any]) -> Config:
    """Returns the configuration from a dict that this version or an earlier one wrote.

    Options that the dict lacks get their defaults.

    Args:
      values: the dict.
    Raises: ValueError for unknown options.
    """
    try:
        given, others = values["model"]["mixer"], values["model"].get("others", {})
        config = default(given["name"], values["data"]["task"], others=tuple(others))
        written = {**others, given["name"]: given}
        with config.unlocked():
            for mixer, fields in model.mixers(config.model).items():
                for name in model.engine_fields(mixer):
                    if isinstance(written[mixer].get(name), Mapping):
                        set_engine(fields, mixer, Engine(), name)
                        fields[name] = read_engine(written[mixer][name])
        _overwrite(config, values, "")
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a valid configuration ({type(error).__name__}: {error})") from error
    return config


def _overwrite(config: Any, values: Mapping[str, Any], path: str) -> None:
    """Sets the options of `config` to `values`, in place; `path` is its dotted path with a dot at the end.

    Raises: ValueError for an unknown option.
    """
    for name, value in values.items():
        if isinstance(config.get(name), Parts) and not isinstance(config, Parts):
            continue  # an engine, which `read_engine` has read
        if name not in config:
            raise ValueError(
                f"{path}{name} is not an option; `python -m fourier_attn.config` lists all options"
            )
        if isinstance(config[name], ConfigDict):
            _overwrite(config[name], value, f"{path}{name}.")
        else:
            config[name] = tuple(value) if isinstance(value, list) else value


def check_self_pretraining(config: Config) -> None:
    """Checks that `train.self_pretrain` fits the other options. Raises: ValueError."""
    if config.init_from:
        raise ValueError(
            f"train.self_pretrain={config.train.self_pretrain} and init_from={config.init_from} exclude each "
            "other; leave one of them out"
        )
    if config.train.seeds > 1:
        raise ValueError(
            f"train.self_pretrain={config.train.self_pretrain} trains one network, not train.seeds="
            f"{config.train.seeds}; start a run for each seed (launch.sweep --grid=seed=0,1,2)"
        )
    if config.data.masked:
        raise ValueError("data.masked=True is a masked language model already; leave train.self_pretrain out")
    data.check(masked(config).data)


def _check_fixed_parts(config: Config) -> None:
    parts, options = config.train.fixed_parts, config.train
    if parts & (parts - 1) or config.data.batch % parts:
        raise ValueError(
            f"train.fixed_parts={parts} must be a power of two that divides data.batch={config.data.batch}; "
            "change either"
        )
    for name in ("accumulate", "seeds"):
        if options[name] > 1:
            raise ValueError(
                f"train.fixed_parts={parts} and train.{name}={options[name]} exclude each other; "
                "leave one out"
            )


def check_parts(config: Any) -> None:
    """Checks that a configuration has its parts, and the names of its task and its mixer.

    Args:
      config: a ConfigDict.
    Raises: ValueError that names what it lacks.
    """
    found: dict[str, Any] = {"": config}
    lacking = []
    for path in (*PARTS, "model.mixer", "model.others", "data.task", "model.mixer.name"):
        above, _, name = path.rpartition(".")
        if above in found:
            value = found[above].get(name)
            if isinstance(value, str if name in ("task", "name") else Mapping | ConfigDict):
                found[path] = value
            else:
                lacking.append(path)
    if lacking:
        raise ValueError(f"the configuration lacks {', '.join(lacking)}; start from config.default()")


def check(config: Config) -> None:
    """Checks that every option has a valid value, and that the options fit each other. Raises: ValueError.

    Args:
      config: the complete configuration.
    """
    check_parts(config)
    check_knobs("", RUN, config)
    data.check(config.data)
    if config.train.self_pretrain:
        check_self_pretraining(config)
    for part in ("optim", "train"):
        check_knobs(f"{part}.", PARTS[part], config[part])
    if config.data.batch % config.train.accumulate:
        raise ValueError(
            f"train.accumulate={config.train.accumulate} must divide data.batch={config.data.batch}"
        )
    if config.train.fixed_parts:
        _check_fixed_parts(config)
    if config.optim.name in ("adam", "adamw", "muon") and config.optim.b1**2 > config.optim.b2:
        raise ValueError(
            f"optim.b1={config.optim.b1} is too large for optim.b2={config.optim.b2}: Adam's updates are "
            "bounded only if b1^2 <= b2; lower b1"
        )
    if config.optim.name != "adam" and config.optim.learning_rate * config.optim.weight_decay > 1:
        raise ValueError(
            f"optim.weight_decay={config.optim.weight_decay} times optim.learning_rate="
            f"{config.optim.learning_rate} must be at most 1, or weights grow instead of decaying; lower one"
        )
    if config.data.causal:
        # otherwise the network could read each answer in its input
        model.check_causal(config.model, "data.causal=True")
    model.build(dict(config.model) | {"head": task_of(config.data).head})
