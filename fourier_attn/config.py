"""Every knob of the project in one configuration: `python -m fourier_attn.config` prints them all.

The rooms below own their knobs: data its `KNOBS` and each task its defaults, the model its `KNOBS`, a mixer
the fields of its layer, an engine its parameters. Those of the optimiser and of the training stand here.
"""

import ast
import math
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from fourier_attn import command, data, model, paths
from fourier_attn.data.corpus import names_files
from fourier_attn.data.knobs import KNOBS as DATA
from fourier_attn.data.tables.user_tables import SPLITS
from fourier_attn.data.tasks import TASKS, find_task, task_of
from fourier_attn.knobs import Knob, at_least, at_most, between, not_negative, one_of, positive, rate
from fourier_attn.knobs import check as check_knobs
from fourier_attn.layers.fields import GRID, LENGTHS, POSITIONS, Source, named, on_engines, options, source
from fourier_attn.layers.fourier import OPTIONS
from fourier_attn.optics import Engine, presets
from fourier_attn.optics.engine_spec import PLACES, every_parameter
from fourier_attn.optics.from_dict import EARLIER, grouped
from fourier_attn.optics.parts import GROUPS

Config = Any  # a ConfigDict, whose keys type checkers do not know

RUN = {
    "seed": Knob(0, "of initial weights, dropout and the order of the data", at_least(0)),
    "init_from": Knob("", "weights to start from, with their architecture: a run's directory, or a file"),
    "init_padding": Knob(
        "",
        'what padding is for the mixers of `init_from`, see those; "": as the weights have it',
        one_of("", *OPTIONS["padding"]),
    ),
}
# With the ranges of these an update is finite if the norm of the gradient is.
OPTIM = {
    "name": Knob("adamw", '"adam", "adamw", "lion", "adafactor", "sgd", "muon", or one that is registered'),
    "learning_rate": Knob(5e-4, "at its peak", at_most(1e3, positive)),
    "schedule": Knob(
        "cosine",
        'after the warm-up: "cosine" or "linear" to zero, or "constant"',
        one_of("cosine", "linear", "constant"),
    ),
    "warmup_steps": Knob(100, "linear, to the peak; 0: none", at_least(0, "none")),
    "warmup_share": Knob(0.0, "of the whole schedule, in place of `warmup_steps`; 0: those", rate),
    "steps": Knob(10_000, "of the whole schedule; a run sets epochs x steps per epoch", at_least(1)),
    "weight_decay": Knob(
        0.01, 'times the rate, of matrices only; "adam" has none', at_most(1e3, not_negative)
    ),
    "clip_norm": Knob(1.0, "global norm of the gradient; 0: not clipped", not_negative),
    "b1": Knob(
        0.9,
        'decay of the mean of the gradient (Adam); "lion": its weight in an update',
        between(0.0, 0.99999),
    ),
    "b2": Knob(
        0.999,
        'decay of the mean of its square (Adam); "lion": of the mean of the gradient, usually 0.99',
        between(0.0, 0.99999),
    ),
    "eps": Knob(
        1e-8,
        'added to the root of that (Adam); "adafactor": its square, to that of the gradient; "muon": to the '
        "norm of a matrix",
        between(1e-15, 1.0),
    ),
    "momentum": Knob(
        0.9, 'decay of the sum of gradients ("sgd"), or of their mean ("muon")', between(0.0, 0.99999)
    ),
}
TRAIN = {
    "epochs": Knob(3, "passes over train", at_least(1, most=1_000_000)),
    "patience": Knob(
        3, "epochs without a better validation before stopping; 0: never stop", at_least(0, "never stop")
    ),
    "seeds": Knob(
        1, "networks trained at once on the same batches: mean and deviation from one run", at_least(1)
    ),
    "mesh": Knob("", 'devices along each axis, as "data=4,fsdp=2"; "": by seed, then by data'),
    "accumulate": Knob(1, "micro-batches per step; the gradient is that of the whole batch", at_least(1)),
    "log_every": Knob(50, "steps", at_least(1)),
    "save_every": Knob(500, "steps between checkpoints, besides one per epoch", at_least(1)),
    "skip_limit": Knob(
        10,
        "updates in a row that are not finite, after which a run goes back once and then stops",
        at_least(1),
    ),
}
PARTS: dict[str, Mapping[str, Knob]] = {"data": DATA, "model": model.KNOBS, "optim": OPTIM, "train": TRAIN}
MIXER = re.compile(r"model\.(?:mixer|others\.(\w+))(?=\.|$)")  # the part of a mixer
# What an engine's parameter can be set to where it is None, by its kind.
EMPTY = {"number": float, "bits": int, "count": int, "pair": tuple, "choice": str, "file": str}

# How to train, where it is not the defaults. "articles": the articles give 20 epochs, rate 1e-4 and a warm-up
# over 10,000 examples; Adam, batch 4, clipping at 1, 50,000 words and 512 tokens are defaults of the code
# they built on. "small": what two CPU cores can repeat with seeds on IMDb.
RECIPES: dict[str, Mapping[str, Any]] = {
    "default": {},
    "articles": {
        "data.batch": 4,
        "optim.name": "adam",
        "optim.schedule": "constant",
        "optim.learning_rate": 1e-4,
        "optim.warmup_steps": 2500,
        "train.epochs": 20,
        "train.patience": 0,
    },
    "small": {
        "data.vocab": 20_000,
        "data.length": 192,
        "data.buckets": (128,),
        "model.positions": 192,
        "model.depth": 2,
        "model.d": 64,
        "model.mlp": 256,
        "model.dropout": 0.3,
        "model.mixer_dropout": 0.3,
        "model.token_dropout": 0.3,
        "train.epochs": 4,
        "train.patience": 0,
    },
}

PIXELS = ("pixel_mean", "pixel_deviation")  # statistics, which stay those that weights were trained with
# Knobs that had another name, or values that had, in configurations of earlier runs.
RENAMED = {"init": "init_from", "merge": "combine_heads"}
RENAMED_VALUES = {("method", "merged"): "fused", ("positions_kind", "concatenated"): "sines_appended"}


def default(
    mixer: str = "fourier",
    task: str = "reviews",
    recipe: str = "default",
    engine: str | None = None,
    others: Sequence[str] = (),
) -> Config:
    """The whole configuration for a mixer, a task and a recipe, locked: an unknown key is refused.

    Args:
      engine: the preset that the mixer's engine starts from, parameter by parameter; None is exact.
      others: further mixers, for a `model.layout` that names them.
    Raises: ValueError for a name that is unknown.
    """
    for name in (mixer, *others):
        model.find_mixer(name)
    find_task(task)
    _choose("recipe", recipe, RECIPES)
    if engine is not None and not model.engine_fields(mixer):
        raise ValueError(f"mixer={mixer!r} has no transform that engine={engine!r} could compute; use None")
    config: Config = ConfigDict({name: knob.default for name, knob in RUN.items()})
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


def with_recipe(config: Config, recipe: str, overrides: Sequence[str] = ()) -> Config:
    """The configuration with the task's defaults and a recipe; of its own it keeps what makes its mixers.

    So mixers of several configuration files can be compared: nothing else differs.

    Args:
      overrides: names of knobs that keep the value they have, as "optim.learning_rate".
    Raises: ValueError for a recipe that is unknown.
    """
    own = config.copy_and_resolve_references()
    shared = default(own.model.mixer.name, own.data.task, recipe, others=tuple(own.model.others))
    kept = [*RUN, "model.mixer", "model.others", "model.layout", *overrides]
    with shared.unlocked():
        for name in kept:
            part, _, knob = name.rpartition(".")
            place, value = (shared, own) if not part else (_part(shared, part), _part(own, part))
            place[knob] = value[knob]
    return fit_length(shared)


def _part(config: Config, path: str) -> Config:
    for name in path.split("."):
        config = config[name]
    return config


def _choose(what: str, name: str, known: Mapping[str, Any]) -> None:
    if name not in known:
        raise ValueError(f"{what}={name!r} is unknown; choose one of {', '.join(known)}")


class Parts(ConfigDict):
    """An engine's parameters in their groups; what is looked for without its group is told where it is."""

    def __getattr__(self, name: str) -> Any:
        self._point(name)
        return super().__getattr__(name)

    def __setitem__(self, key: str, value: Any) -> None:
        if self.is_locked:
            self._point(key)
        super().__setitem__(key, value)

    def _point(self, name: str) -> None:
        if name in PLACES and name not in self:
            raise AttributeError(f"an engine's {name} stands in a group: it is {PLACES[name]}.{name}")
        if name in EARLIER:
            raise AttributeError(f"an engine's {name} is now {EARLIER[name]}")


def set_engine(fields: Config, mixer: str, engine: Engine, name: str | None = None) -> None:
    """Gives a mixer an engine, parameter by parameter; those that are None can be set, too.

    Args:
      fields: the mixer's part of the configuration.
      mixer: its name.
      name: of the field; None: of the engine of training.
    """
    name = name or model.engine_fields(mixer)[0]
    del fields[name]
    fields[name] = _engine_part(engine)
    for field, instead in on_engines(model.find_mixer(mixer)).items():
        fields[field] = instead.get(fields[field], fields[field])  # an engine has one size for all examples


def _engine_part(engine: Engine) -> Config:
    part: Config = Parts()
    for group in GROUPS:
        part[group] = Parts()
    for group, field, parameter, value in every_parameter(engine):
        if parameter.written:
            empty = value is None and parameter.kind in EMPTY
            (part[group] if group else part)[field] = placeholder(EMPTY[parameter.kind]) if empty else value
    return part


def give_optional(flag: Any, optional: Mapping[str, str]) -> None:
    """Gives a flag's configuration the overrides that `command.without_optional` took out of a command line.

    Raises: ValueError for a knob that needs a value, and where there is no configuration.
    """
    if optional and not isinstance(flag.value, ConfigDict):
        raise ValueError(f"--config.{next(iter(optional))} needs --config=NAME")
    for knob, value in optional.items():
        if inside := [name for name in flag.override_values if name.startswith(f"{knob}.")]:
            raise ValueError(f"--config.{knob}={value} conflicts with --config.{inside[0]}; remove one")
        set_optional(flag.value, knob, None if value == "None" else value)
        flag.override_values[knob] = value


def set_optional(config: Config, name: str, value: str | None) -> None:
    """Gives a knob None, or one for an engine the name of a preset or the file of a measured device.

    Raises: ValueError for another knob that has a value, AttributeError for one that does not exist.
    """
    path, _, knob = name.rpartition(".")
    part = _part(config, path) if path else config
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


def mixer_name(config: Config, path: str) -> str:
    """Returns the mixer whose part or field a path names, as "model.others.NAME.heads"; "" for others."""
    found = MIXER.match(path)
    return (found[1] or config.model.mixer.name) if found else ""


def field_source(config: Config, path: str) -> Source | None:
    """Returns what a mixer says about where the value of the field at a path comes from, if anything."""
    mixer = mixer_name(config, path)
    return source(model.find_mixer(mixer), MIXER.sub("", path)[1:]) if mixer else None


def read_engine(values: Mapping[str, Any]) -> Config:
    """An engine's parameters that were written as a dict, by this version or an earlier one.

    Raises: ValueError for one that it does not have.
    """
    part = _engine_part(Engine())
    _overwrite(part, grouped(values), "engine.")
    return part


def _mixer(name: str) -> ConfigDict:
    """The fields of a mixer's layer."""
    part: Config = ConfigDict()
    for field in options(model.find_mixer(name)):
        empty: Any = placeholder(str if field.name in model.engine_fields(name) else tuple)
        part[field.name] = empty if field.default is None else field.default
    return part


def device_files(config: Config) -> dict[str, str]:
    """The files of measured devices that the mixers' engines are read from, by the names of their knobs."""
    found = {}
    for mixer, fields in model.mixers(config.model).items():
        place = "mixer" if mixer == config.model.mixer.name else f"others.{mixer}"
        for name in model.engine_fields(mixer):
            file = fields[name].device.file if isinstance(fields[name], ConfigDict) else None
            if file is not None:
                found[f"model.{place}.{name}.device.file"] = file
    return found


def with_absolute_paths(config: Config) -> Config:
    """Returns a copy in which every file and folder has a name that holds from any directory.

    Raises: ValueError for a name that cannot be used.
    """
    config = config.copy_and_resolve_references()
    config.init_from, part = paths.absolute(config.init_from), config.data
    part.dir = paths.absolute(part.dir)
    if part.task in ("files", "image_files"):
        part.update({split: paths.absolute(part[split]) for split in SPLITS})
    if part.tokenizer.lower().endswith((".json", ".model")):
        part.tokenizer = paths.absolute(part.tokenizer)
    for knob in ("corpora", "exclude"):
        part[knob] = tuple(
            paths.absolute(entry) if isinstance(entry, str) and names_files(entry) else entry
            for entry in part[knob]  # whose kind is checked later
        )
    for mixer, fields in model.mixers(config.model).items():
        for name in model.engine_fields(mixer):
            if str(fields[name]).endswith(presets.DEVICE_FILES):
                with fields.unlocked():
                    set_engine(fields, mixer, presets.preset(fields[name]), name)
            if isinstance(fields[name], ConfigDict) and fields[name].device.file is not None:
                fields[name].device.file = paths.absolute(fields[name].device.file)
    return config


def fit_length(config: Config) -> Config:
    """Gives mixers whose weights have a length the model's number of positions."""
    return _fill(config, POSITIONS, config.model.positions)


def _fill(config: Config, origin: Source, value: Any, only_empty: bool = False) -> Config:
    """Sets the fields of all mixers that say that their value comes from there."""
    for mixer, fields in model.mixers(config.model).items():
        for name in named(model.find_mixer(mixer), origin):
            if not (only_empty and fields[name]):
                fields[name] = value
    return config


def fit_grid(config: Config) -> Config:
    """Gives mixers that can use a grid, and have none, that of the patches, where inputs are images.

    Those whose weights have a length get the number of patches.
    """
    grid = model.grid(config.model)
    if not grid:
        return config
    return _fill(_fill(config, GRID, grid, only_empty=True), POSITIONS, tokens(config))


def tokens(config: Config) -> int:
    """Of an example: its patches and class token, or those of the longest text that there may be."""
    grid = model.grid(config.model)
    return math.prod(grid) + config.model.class_token if grid else config.data.length


def fitted(config: Config, splits: data.Splits) -> Config:
    """The configuration with what the data determine: inputs, vocabulary, head, classes, lengths, steps.

    Raises: ValueError for weights of another vocabulary.
    """
    config = config.copy_and_resolve_references()
    vocab = splits.model.get("vocab", config.model.vocab)
    if config.init_from and splits.model["inputs"] == "tokens" and vocab != config.model.vocab:
        raise ValueError(
            f"init_from={config.init_from} has a vocabulary of {config.model.vocab}, "
            f"the tokenizer one of {vocab}; name the tokenizer that belongs to it (data.tokenizer)"
        )
    found = dict(splits.model)
    if config.init_from and "image" in found:
        if found["image"][2] != config.model.image[2]:
            raise ValueError(
                f"init_from={config.init_from} is for images with {config.model.image[2]} channels, "
                f"and those of data.task={config.data.task} have {found['image'][2]}"
            )
        found = {name: value for name, value in found.items() if name not in PIXELS}
    config.model.update(found)
    (shape, dtype), example = splits.spec["inputs"], model.example(config.model)
    if (len(shape) + 1, dtype) != (len(example.shape), example.dtype):
        raise ValueError(f"the data give inputs {shape} of {dtype}, and model.inputs takes {example}")
    labelled = splits.spec["label"][0]
    if config.model.head == "tokens" and labelled != (tokens(config),):
        raise ValueError(
            f"data.task={config.data.task} has labels for {math.prod(labelled)} patches, and the "
            f"network {tokens(config)} of them; change model.patch and model.stride"
        )
    config.data.update(splits.knobs)
    config.optim.steps = len(splits.train)
    return _fill(fit_grid(config), LENGTHS, splits.lengths)


def from_dict(values: Mapping[str, Any]) -> Config:
    """The configuration that was written as a dict, by this version or an earlier one.

    A knob that it does not have is at its default.

    Raises: ValueError for one that holds something else than knobs.
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
        fourier = model.mixers(config.model).get("fourier")
        if fourier and "lengths" not in written["fourier"] and fourier.padding == "invariant":
            fourier.padding = "own"  # what "invariant" was before there were common lengths
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no configuration ({type(error).__name__}: {error})") from error
    return config


def _overwrite(config: Config, values: Mapping[str, Any], path: str) -> None:
    for old, value in values.items():
        name = RENAMED.get(old, old)
        if isinstance(config.get(name), Parts) and not isinstance(config, Parts):
            continue  # an engine, which has been read
        if name not in config:
            raise ValueError(f"{path}{name} is not a knob; `python -m fourier_attn.config` lists all knobs")
        if isinstance(config[name], ConfigDict):
            _overwrite(config[name], value, f"{path}{name}.")
        else:
            value = RENAMED_VALUES.get((name, value), value) if isinstance(value, str) else value
            config[name] = tuple(value) if isinstance(value, list) else value


def check(config: Config) -> None:
    """Checks that every knob has a value of its type within its range, and that they fit each other.

    Raises: ValueError.
    """
    for part in PARTS:
        if part not in config or not isinstance(config[part], Mapping | ConfigDict):
            raise ValueError(f"{part} is no part with knobs; start from config.default()")
    check_knobs("", RUN, config)
    data.check(config.data)
    for part in ("optim", "train"):
        check_knobs(f"{part}.", PARTS[part], config[part])
    if config.data.batch % config.train.accumulate:
        raise ValueError(
            f"train.accumulate={config.train.accumulate} must divide data.batch={config.data.batch}"
        )
    if config.optim.name in ("adam", "adamw", "muon") and config.optim.b1**2 > config.optim.b2:
        raise ValueError(
            f"optim.b1={config.optim.b1} is too large for optim.b2={config.optim.b2}: its square must be at "
            "most b2, or Adam's updates have no bound"
        )
    if config.optim.name != "adam" and config.optim.learning_rate * config.optim.weight_decay > 1:
        raise ValueError(
            f"optim.weight_decay={config.optim.weight_decay} times optim.learning_rate="
            f"{config.optim.learning_rate} must be at most 1: weights would grow instead of decay"
        )
    model.build(dict(config.model) | {"head": task_of(config.data).head})


def describe() -> Iterator[str]:
    """Every knob with its default and its meaning, line by line."""
    for title, knobs in (("", RUN), *((f"{part}.", knobs) for part, knobs in PARTS.items())):
        for name, knob in knobs.items():
            yield from _line(f"{title}{name}", knob.default, knob.help)
    for mixer, layer in model.MIXERS.items():
        yield f"\nmodel.mixer of {mixer!r}"
        told = arguments(layer.__doc__ or "")
        for field in options(layer):
            yield from _line(f"model.mixer.{field.name}", field.default, told.get(field.name, ""))
    yield "\nmodel.mixer.engine"
    for group, name, parameter, value in every_parameter(Engine()):
        unit = f" [{parameter.unit}]" if parameter.unit else ""
        yield from _line(f"{group}.{name}".removeprefix("."), value, parameter.text + unit)
    for title, table in (
        ("tasks", {name: task.defaults for name, task in TASKS.items()}),
        ("recipes", RECIPES),
    ):
        yield f"\ndefaults of {title}"
        for name, values in table.items():
            yield f"  {name:<14}{', '.join(f'{key}={value!r}' for key, value in values.items())}"


def _line(name: str, value: Any, text: str) -> Iterator[str]:
    head = f"{name + ' = ' + repr(value):<44}  "
    yield from textwrap.wrap(head + text, 110, subsequent_indent=" " * 46, drop_whitespace=True)


def arguments(doc: str) -> dict[str, str]:
    """What a docstring says under "Args:" about each of its arguments."""
    section = re.search(r"^ *Args:(.*?)(?=^ *[A-Z][a-z]+:|\Z)", doc, flags=re.M | re.S)
    entries = re.findall(
        r"^ {6}(\w[\w, ]*): (.*?)(?=^ {6}\w|\Z)", section[1] if section else "", flags=re.M | re.S
    )
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}


if __name__ == "__main__":
    sys.exit(command.run(lambda: print("\n".join(describe()))))
