"""Derives the configuration from a file of weights, and the parameters from a configuration."""

import copy
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import traverse_util

from fourier_attn import config as configuration
from fourier_attn import model
from fourier_attn.model import Fields, ModelConfig
from fourier_attn.optics import Engine

Shapes = Mapping[str, tuple[int, ...]]

# The options with which a mixer equals the published one.
PUBLISHED = {
    "attention": {"head_width": "split", "bias": True},
    "fourier": {"norm": "none", "padding": "tokens", "grid": (), "features": True},
    "linear": {"padding": "tokens", "use_features": True, "use_bias": False},
    "random": {"padding": "tokens"},
    "identity": {},
}
PARAMETERLESS = ("fourier", "random", "identity")
# Options without a parameter of that size, by kind of inputs; a head for questions uses the vocabulary.
UNUSED = {"patches": ("vocab", "positions", "types", "emb"), "tokens": ("image", "patch", "stride")}
IN_BLOCK = 8  # number of parameters of a block without its mixer
LONGEST = 2**20  # largest number of characters of a configuration
OF_AN_ENGINE = re.compile(r"model\.(mixer|others\.\w+)\.\w+\.")  # engines are the only parts of a mixer
BLOCK = re.compile(r"encoder/block_([0-9]+)/(mixer/(query/kernel|tokens)$)?")


def parameters(config: Fields) -> dict[str, tuple[int, ...]]:
    """Returns the path and the shape of each parameter of the model that `config` describes.

    Raises: ValueError for a configuration from which no model can be built.
    """
    bare: dict[str, Any] = _plain(config) | {"dtype": "float32"}
    for name, mixer in model.mixers(bare).items():
        mixer |= dict.fromkeys(model.engine_fields(name))
    if bare["mixer"]["name"] == "random":  # its matrices are not parameters, and sampling them takes time
        bare["mixer"] = {"name": "identity"}
    bare["layout"] = ["identity" if name == "random" else name for name in bare["layout"]]
    bare["others"] = {"identity": {}} | {k: v for k, v in bare["others"].items() if k != "random"}
    try:
        example = model.example(config)
        inputs = jnp.zeros(example.shape, example.dtype)
        random, most = model.mixers(config).get("random"), config["positions"]
        if random and random["length"] > most:
            raise ValueError(
                f"its random matrices have length={random['length']}, more than its positions={most}"
            )
        model.build(config)  # checks engines and dtype as well, which have no parameters
        tree: Any = jax.eval_shape(model.build(bare).init, jax.random.key(0), inputs)["params"]
    except Exception as error:  # invalid values raise many types of errors
        raise ValueError(f"its configuration does not describe a model ({error})") from error
    flat: Any = traverse_util.flatten_dict(tree, sep="/")
    return {path: leaf.shape for path, leaf in flat.items()}


def expressible(config: Fields, style: str) -> bool:
    """Returns whether the library of a style can load such a model and compute the same.

    There is one difference for rows with padding. In the FNet paper's code a padded token attends to all
    tokens, and later blocks without attention mix it into them.
    """
    as_published = {"inputs": "tokens", "norm_position": "post", "positions_kind": "learned"}
    if any(config[key] != value for key, value in as_published.items()):
        return False
    names = set(config["layout"] or (config["mixer"]["name"],))
    fields = model.mixers(config)
    published = all(
        name in PUBLISHED
        and all(fields[name][key] == value for key, value in PUBLISHED[name].items())
        and not any(fields[name].get(engine) for engine in model.engine_fields(name))
        for name in names
    )
    fits = published and config["types"] > 0 and config["emb"] > 0 and config["pooling"] == "first"
    whole = names == {"fourier"} and config["emb"] == config["d"]
    if style == "huggingface":
        return fits and whole and tanh_form(config["activation"], config["head"])
    exact = config["activation"] == "gelu" and config["norm_eps"] == 1e-12
    if style == "keras_hub":
        return fits and whole and exact and config["head"] in ("features", "classes", "score")
    return fits and exact and config["head"] not in ("labels", "tokens", "spans")


def tanh_form(activation: str, head: str) -> bool:
    """Returns whether a head is that of Hugging Face, whose language models use the blocks' activation.

    Heads of language models here always use the tanh form of GELU.
    """
    return activation == "gelu" or head not in ("mlm", "pretraining")


def inferred(shapes: Shapes, head: str, mixer: str, changes: Mapping[str, Any]) -> ModelConfig:
    """Returns the `model` part of the configuration for published weights.

    Args:
      shapes: shapes by this project's paths; options that do not follow from them are as published.
      head: name of the head.
      mixer: mixer of blocks without parameters.
      changes: values of further options.
    Raises: KeyError for a parameter that is missing or has another number of axes; ValueError for missing
      blocks.
    """
    layout = _layout(shapes, mixer)
    main = mixer if mixer in layout else layout[0]
    config = configuration.default(main, others=tuple(sorted({*layout} - {main}))).model
    vocab, emb = _size(shapes, "encoder/tokens/embedding", 2)
    values = {
        "vocab": vocab,
        "emb": emb,
        "positions": _size(shapes, "encoder/positions", 2)[0],
        "types": _size(shapes, "encoder/types/embedding", 2)[0],
        "d": _size(shapes, "encoder/projection/kernel", 2)[1],
        "mlp": _size(shapes, "encoder/block_0/mlp_in/kernel", 2)[1],
        "depth": len(layout),
        "layout": layout if len(set(layout)) > 1 else (),
        "pooling": "first" if "pooler/kernel" in shapes else "mean",
        "activation": "gelu",
        "norm_eps": 1e-12,
        "dropout": 0.1,
        "mixer_dropout": 0.0,
        "head": head,
    }
    if head in ("classes", "labels", "tokens"):
        values["classes"] = _size(shapes, "head/output/kernel", 2)[1]
    config.update(values | dict(changes))
    for name, fields in ((main, config.mixer), *config.others.items()):
        fields.update(PUBLISHED[name])
        if name == "attention":
            block = layout.index(name)
            heads = _size(shapes, f"encoder/block_{block}/mixer/query/kernel", 3)[1]
            fields.update(heads=heads, dropout=0.1)
        if "length" in fields:
            fields.length = config.positions
    return config


def _layout(shapes: Shapes, mixer: str) -> tuple[str, ...]:
    blocks: dict[int, str] = {}
    for path in shapes:
        if block := BLOCK.match(path):
            owner = {"query/kernel": "attention", "tokens": "linear"}.get(block[3] or "")
            number = int(block[1])
            if owner and blocks.get(number) not in (None, mixer, owner):
                raise ValueError(f"block {number} has the parameters of two mixers")
            blocks[number] = owner or blocks.get(number, mixer)
    if sorted(blocks) != list(range(len(blocks))) or not blocks:
        raise ValueError(
            f"its blocks are not numbered 0, 1, 2, ...: {sorted(blocks)[:8] or 'there are none'}"
        )
    return tuple(blocks[number] for number in sorted(blocks))


def _size(shapes: Shapes, path: str, axes: int) -> tuple[int, ...]:
    """Returns the shape at `path` in `shapes`. Raises: KeyError if it does not have this many `axes`."""
    if len(shapes.get(path, ())) != axes or min(shapes[path]) < 1:
        raise KeyError(path)
    return shapes[path]


def to_text(config: Fields) -> str:
    """Returns the `model` part of a configuration as JSON."""
    return json.dumps(_plain(config))


def from_text(text: str, shapes: Shapes) -> ModelConfig:
    """Parses the result of `to_text` from an untrusted file, and checks names, types and sizes.

    Raises: ValueError for a text that is not a configuration of a model with these shapes.
    """
    if len(text) > LONGEST:
        raise ValueError(f"its configuration has {len(text)} characters; at most {LONGEST} are read")
    try:
        values = json.loads(text)
        name, others = values["mixer"]["name"], tuple(values["others"])
        config = configuration.default(name, others=others).model
        for mixer, fields in model.mixers(values).items():
            _read_engines(model.mixers(config)[mixer], mixer, fields)
    except Exception as error:  # an untrusted text raises many types of errors
        raise ValueError(f"its configuration cannot be read ({type(error).__name__}: {error})") from error
    most = sum(math.prod(shape) for shape in shapes.values())
    unused = {f"model.{name}" for name in UNUSED.get(str(values.get("inputs")), ())}
    if values.get("head") == "question":
        unused -= {"model.vocab"}
    values = _checked(values, _plain(config), "model", most, unused)
    if values["depth"] * IN_BLOCK > len(shapes):  # check before a model is built
        raise ValueError(f"its configuration has depth={values['depth']}, too many for {len(shapes)} arrays")
    config.update(values)
    return config


def _read_engines(fields: Any, mixer: str, values: dict[str, Any]) -> None:
    """Writes the engines in `values` into a mixer's fields, in place, so that both have the same keys.

    Args:
      fields: the mixer's part of the configuration.
      mixer: name of the mixer.
      values: values of the fields.
    """
    for name in model.engine_fields(mixer):
        if isinstance(values.get(name), dict):
            values[name] = configuration.read_engine(values[name]).to_dict()
            with fields.unlocked():
                configuration.set_engine(fields, mixer, Engine(), name)


def _checked(value: Any, like: Any, where: str, most: int, unused: set[str]) -> Any:
    """Returns `value` after checking that it has the keys and the types of `like`, and no size above `most`.

    Args:
      value: the value, or a dict of values.
      like: a valid value.
      where: dotted path of the value, for messages.
      most: the number of weights.
      unused: options without a parameter of that size, which may exceed `most`.
    Raises: ValueError.
    """
    if isinstance(like, dict):
        unknown = sorted(map(str, value.keys() - like.keys())) if isinstance(value, dict) else [repr(value)]
        if unknown:
            raise ValueError(f"in its configuration {where} has unknown keys: {', '.join(unknown[:5])}")
        value = like | value  # options that are newer than the file get their defaults
        return {key: _checked(value[key], like[key], f"{where}.{key}", most, unused) for key in like}
    value = tuple(value) if isinstance(value, list) else value
    simple = value if isinstance(value, tuple) else (value,)
    kinds = {type(like), *((int,) if isinstance(like, float) else ())}
    if where.count(".") > 1:  # fields of a mixer may be None
        kinds |= {type(None), *((int, float, str, tuple) if like is None else ())}
    if type(value) not in kinds or not all(_simple(each) for each in simple):
        raise ValueError(f"in its configuration {where}={value!r:.60} has another type than {like!r}")
    free = where in unused or where.endswith(".seed") or OF_AN_ENGINE.match(where)
    if not free and any(type(each) is int and abs(each) > most for each in simple):
        raise ValueError(f"in its configuration {where}={value!r:.60} exceeds the number of its weights")
    return value


def _simple(value: Any) -> bool:
    return math.isfinite(value) if type(value) is float else type(value) in (bool, int, str, type(None))


def _plain(config: Fields) -> dict[str, Any]:
    return copy.deepcopy(dict(config)) if isinstance(config, Mapping) else config.to_dict()
