"""Sets what the model and the data decide: once, before a run starts."""

import math
import re
from typing import Any

from ml_collections import FrozenConfigDict

from fourier_attn import data, model
from fourier_attn.config.options import Config
from fourier_attn.knobs import copied
from fourier_attn.layers.fields import GRID, LENGTHS, POSITIONS, Source, named, source

MIXER = re.compile(r"model\.(?:mixer|others\.(\w+))(?=\.|$)")  # the part of a mixer
PIXELS = ("pixel_mean", "pixel_deviation")  # statistics, which stay those that weights were trained with


def mixer_name(config: Config, path: str) -> str:
    """Returns the mixer whose part or field a path names, as "model.others.NAME.heads"; "" for others."""
    found = MIXER.match(path)
    return (found[1] or config.model.mixer.name) if found else ""


def field_source(config: Config, path: str) -> Source | None:
    """Returns what a mixer says about where the value of the field at a path comes from, if anything."""
    mixer = mixer_name(config, path)
    return source(model.find_mixer(mixer), MIXER.sub("", path)[1:]) if mixer else None


def fit_length(config: Config) -> Config:
    """Gives mixers whose weights have a length the model's number of positions."""
    return _fill(config, POSITIONS, config.model.positions)


def fit_grid(config: Config) -> Config:
    """Returns a copy in which mixers that can use a grid, and have none, have that of an image's patches.

    Those whose weights have a length get the number of patches.
    """
    config, grid = copied(config), model.grid(config.model)
    if not grid:
        return config
    return _fill(_fill(config, GRID, grid, only_empty=True), POSITIONS, tokens(config))


def tokens(config: Config) -> int:
    """Returns the tokens of an example: patches and class token of an image, or of the longest text."""
    grid = model.grid(config.model)
    return math.prod(grid) + config.model.class_token if grid else config.data.length


def fitted(config: Config, splits: data.Splits) -> Config:
    """Returns a configuration with what the data determine, which nothing can change any more.

    Inputs, vocabulary, head, classes, lengths and steps.

    Raises: ValueError for weights of another vocabulary.
    """
    config = copied(config)
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
    if (
        "answer_positions" not in splits.spec
        and config.model.head == "tokens"
        and labelled != (tokens(config),)
    ):
        raise ValueError(
            f"data.task={config.data.task} has labels for {math.prod(labelled)} patches, and the "
            f"network {tokens(config)} of them; change model.patch and model.stride"
        )
    config.data.update(splits.knobs)
    config.optim.steps = len(splits.train)
    frozen: Any = FrozenConfigDict(_fill(fit_grid(config), LENGTHS, splits.lengths))
    return frozen


def _fill(config: Config, origin: Source, value: Any, only_empty: bool = False) -> Config:
    """Sets the fields of all mixers that say that their value comes from there."""
    for mixer, fields in model.mixers(config.model).items():
        for name in named(model.find_mixer(mixer), origin):
            if not (only_empty and fields[name]):
                fields[name] = value
    return config
