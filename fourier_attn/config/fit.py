"""Sets the options that the model and the data determine, once, before a run starts."""

import math
import re
from collections.abc import Sequence
from typing import Any

from ml_collections import FrozenConfigDict

from fourier_attn import data, model
from fourier_attn.config.options import Config
from fourier_attn.data.expected import expected_lengths, expected_model
from fourier_attn.knobs import copied
from fourier_attn.layers.fields import GRID, LENGTHS, POSITIONS, Source, named, source

MIXER = re.compile(r"model\.(?:mixer|others\.(\w+))(?=\.|$)")  # path of a mixer's part
PIXELS = ("pixel_mean", "pixel_deviation")  # statistics that pretrained weights keep


def mixer_name(config: Config, path: str) -> str:
    """Returns the mixer that a dotted path belongs to; "" where it belongs to none.

    >>> mixer_name(config, "model.others.lambda.heads")  # doctest: +SKIP
    'lambda'

    Args:
      config: the complete configuration.
      path: dotted path of an option.
    """
    found = MIXER.match(path)
    return (found[1] or config.model.mixer.name) if found else ""


def field_source(config: Config, path: str) -> Source | None:
    """Returns where the value of the mixer's field at a dotted path comes from; None: set by the user.

    Args:
      config: the complete configuration.
      path: dotted path of the field.
    """
    mixer = mixer_name(config, path)
    return source(model.find_mixer(mixer), MIXER.sub("", path)[1:]) if mixer else None


def fit_length(config: Config, kept: Sequence[str] = ()) -> Config:
    """Sets the length of mixers with position-dependent weights to `model.positions`, in place.

    Args:
      config: the complete configuration.
      kept: names of options that keep their value, for example "model.mixer.length".
    """
    return _fill(config, POSITIONS, config.model.positions, kept=kept)


def fit_padded_lengths(config: Config) -> Config:
    """Returns a copy in which mixers know the padded lengths of the data, if the configuration says them.

    Args:
      config: the complete configuration, with an architecture that may come from weights for other data.
    """
    return _fill(copied(config), LENGTHS, expected_lengths(config.data))


def fit_grid(config: Config) -> Config:
    """Returns a copy in which mixers know the grid of an image's patches.

    Mixers with an empty grid field get rows and columns; mixers with position-dependent weights get the
    number of tokens. Without images the copy is unchanged.

    Args:
      config: the complete configuration.
    """
    config, grid = copied(config), model.grid(config.model)
    if not grid:
        return config
    return _fill(_fill(config, GRID, grid, only_empty=True), POSITIONS, tokens(config))


def tokens(config: Config) -> int:
    """Returns the number of tokens of an example: patches and class token, or `data.length` of a text.

    Args:
      config: the complete configuration.
    """
    grid = model.grid(config.model)
    return math.prod(grid) + config.model.class_token if grid else config.data.length


def fitted(config: Config, splits: data.Splits) -> Config:
    """Returns a frozen copy with the options that the data determine.

    These are inputs, vocabulary, head, classes, lengths and steps.

    Args:
      config: the complete configuration.
      splits: the data.
    Raises: ValueError for pretrained weights with another vocabulary, and for inputs or labels that do not
      fit the network.
    """
    config = copied(config)
    vocab = splits.model.get("vocab", config.model.vocab)
    if config.init_from and splits.model["inputs"] == "tokens" and vocab != config.model.vocab:
        raise ValueError(
            f"init_from={config.init_from} has a vocabulary of {config.model.vocab}, the tokenizer one of "
            f"{vocab}; set data.tokenizer to the tokenizer of these weights"
        )
    found = dict(splits.model)
    if config.init_from and "image" in found:
        if found["image"][2] != config.model.image[2]:
            raise ValueError(
                f"init_from={config.init_from} is for images with {config.model.image[2]} channels, but "
                f"those of data.task={config.data.task} have {found['image'][2]}; choose other weights"
            )
        found = {name: value for name, value in found.items() if name not in PIXELS}
    config.model.update(found)
    (shape, dtype), example = splits.spec["inputs"], model.example(config.model)
    if (len(shape) + 1, dtype) != (len(example.shape), example.dtype):
        raise ValueError(
            f"the data have inputs of shape {shape} and {dtype}, but model.inputs="
            f"{config.model.inputs!r} takes {example}; change the task or model.inputs"
        )
    labelled = splits.spec["label"][0]
    if (
        "answer_positions" not in splits.spec
        and config.model.head == "tokens"
        and labelled != (tokens(config),)
    ):
        raise ValueError(
            f"data.task={config.data.task} labels {math.prod(labelled)} patches, but the network has "
            f"{tokens(config)}; change model.patch and model.stride"
        )
    config.data.update(splits.knobs)
    config.optim.steps = len(splits.train)
    frozen: Any = FrozenConfigDict(_fill(fit_grid(config), LENGTHS, splits.lengths))
    return frozen


def fitted_without_data(config: Config) -> Config:
    """Returns a frozen copy with the options that the data determine, as far as the configuration says them.

    A fitted vocabulary counts as `data.vocab`, its largest size. With `init_from`, that of the weights stays.

    Args:
      config: the complete configuration.
    """
    config = copied(config)
    found = expected_model(config.data, config.model.classes)
    if config.init_from:
        found.pop("vocab", None)
    config.model.update(found)
    frozen: Any = FrozenConfigDict(_fill(fit_grid(config), LENGTHS, expected_lengths(config.data)))
    return frozen


def _fill(
    config: Config, origin: Source, value: Any, only_empty: bool = False, kept: Sequence[str] = ()
) -> Config:
    """Sets, in place, the fields of all mixers that take their value from `origin`.

    Args:
      config: the configuration to change, which is also returned.
      origin: for example `POSITIONS`, see `fourier_attn.layers.fields`.
      value: the new value.
      only_empty: whether fields with a value keep it.
      kept: dotted paths of fields that keep their value.
    """
    for mixer, fields in model.mixers(config.model).items():
        place = "model.mixer" if mixer == config.model.mixer.name else f"model.others.{mixer}"
        for name in named(model.find_mixer(mixer), origin):
            if not (only_empty and fields[name]) and f"{place}.{name}" not in kept:
                fields[name] = value
    return config
