"""Translates vision transformers from Hugging Face's layout (google/vit-*): names, shapes, configuration.

Options that do not follow from shapes, for example the number of heads, are read from config.json and
preprocessor_config.json next to the weights.
"""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn import config as configuration
from fourier_attn.pretrained.architecture import LONGEST

Shape = tuple[int, ...]
HEADS = {"ViTModel": "features", "ViTForImageClassification": "classes"}
ACTIVATIONS = {"gelu": "gelu_erf", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "relu": "relu"}
HEAD_WIDTH = 64  # width of a head in all published models
PATCHES = "embeddings.patch_embeddings.projection.weight"
BLOCK = re.compile(r"(?:vit\.)?encoder\.layer\.(\d{1,4})\.")

# This project's path, Hugging Face's name without "vit.", and the form there.
TOP = (
    ("encoder/patches/kernel", PATCHES, "convolution"),
    ("encoder/patches/bias", "embeddings.patch_embeddings.projection.bias", ""),
    ("encoder/class_token", "embeddings.cls_token", "token"),
    ("encoder/positions", "embeddings.position_embeddings", "table"),
    ("encoder/norm/scale", "layernorm.weight", ""),
    ("encoder/norm/bias", "layernorm.bias", ""),
    ("pooler/kernel", "pooler.dense.weight", "T"),
    ("pooler/bias", "pooler.dense.bias", ""),
    ("head/output/kernel", "classifier.weight", "T"),
    ("head/output/bias", "classifier.bias", ""),
)
LAYER = (
    *(
        (f"mixer/{name}/{ours}", f"attention.attention.{name}.{theirs}", form)
        for name in ("query", "key", "value")
        for ours, theirs, form in (("kernel", "weight", "into heads"), ("bias", "bias", "of heads"))
    ),
    ("mixer/out/kernel", "attention.output.dense.weight", "out of heads"),
    ("mixer/out/bias", "attention.output.dense.bias", ""),
    ("mixer_norm/scale", "layernorm_before.weight", ""),
    ("mixer_norm/bias", "layernorm_before.bias", ""),
    ("mlp_in/kernel", "intermediate.dense.weight", "T"),
    ("mlp_in/bias", "intermediate.dense.bias", ""),
    ("mlp_out/kernel", "output.dense.weight", "T"),
    ("mlp_out/bias", "output.dense.bias", ""),
    ("mlp_norm/scale", "layernorm_after.weight", ""),
    ("mlp_norm/bias", "layernorm_after.bias", ""),
)
NAMES = {ours: (theirs, form) for ours, theirs, form in TOP}
LAYER_NAMES = {ours: (theirs, form) for ours, theirs, form in LAYER}


def recognised(keys: Mapping[str, Any]) -> bool:
    """Returns whether a file with these keys has the weights of a vision transformer."""
    return PATCHES in keys or f"vit.{PATCHES}" in keys


def name(ours: str, prefix: str) -> tuple[str, str]:
    """Returns the name and the form in a file of the parameter `ours`; "" for an unknown parameter.

    The names in the file begin with `prefix`, which is "" or "vit.".
    """
    block = re.fullmatch(r"encoder/block_(\d+)/(.*)", ours)
    theirs, form = LAYER_NAMES.get(block[2], ("", "")) if block else NAMES.get(ours, ("", ""))
    if not theirs:
        return "", ""
    whole = f"encoder.layer.{block[1]}.{theirs}" if block else theirs
    return (whole if whole.startswith("classifier") else f"{prefix}{whole}"), form


def stored(shape: Shape, form: str) -> Shape:
    """Returns the shape in a file of a parameter with the shape `shape` in this project."""
    if form == "convolution":  # (k, k, c, d) in this project
        return (shape[3], shape[2], shape[0], shape[1])
    if form == "into heads":  # (d, h, k) in this project
        return (shape[1] * shape[2], shape[0])
    if form == "out of heads":  # (h, k, d) in this project
        return (shape[2], shape[0] * shape[1])
    if form == "of heads":
        return (math.prod(shape),)
    return {"": shape, "T": shape[::-1], "token": (1, 1, *shape), "table": (1, *shape)}[form]


def restored(array: np.ndarray, shape: Shape, form: str) -> np.ndarray:
    """Returns a parameter from the array in a file.

    Args:
      array: the array in the file.
      shape: shape of the parameter in this project.
      form: its form in the file, see `name`.
    """
    if form == "convolution":
        return array.transpose(2, 3, 1, 0)
    if form in ("T", "into heads", "out of heads"):
        array = array.T
    return array.reshape(shape)


def read_config(file: Path, arrays: Mapping[str, np.ndarray], head: str | None, notes: list[str]) -> Any:
    """Returns the `model` part of the configuration.

    Args:
      file: the file of weights.
      arrays: its arrays by name.
      head: argument of `fourier_attn.pretrained.read`; None: from the file.
      notes: assumptions are appended here.
    Raises: ValueError for arrays, or files next to them, of another model.
    """
    prefix = "" if PATCHES in arrays else "vit."
    published, seen = _json(file.parent / "config.json"), _json(file.parent / "preprocessor_config.json")
    try:
        return _config(arrays, prefix, published, seen, head, notes)
    except (KeyError, TypeError, IndexError, ValueError, ZeroDivisionError) as error:
        raise ValueError(
            f"not a vision transformer in the layout of google/vit ({type(error).__name__}: {error})"
        ) from error


def _config(
    arrays: Mapping[str, np.ndarray],
    prefix: str,
    published: Mapping[str, Any],
    seen: Mapping[str, Any],
    head: str | None,
    notes: list[str],
) -> Any:
    """Returns the `model` part of the configuration.

    Args:
      arrays: arrays by name.
      prefix: prefix of their names, "" or "vit.".
      published: contents of config.json.
      seen: contents of preprocessor_config.json.
      head: argument of `fourier_attn.pretrained.read`; None: from the file.
      notes: assumptions are appended here.
    Raises: ValueError, KeyError and others for another model.
    """
    d, channels, patch, other = arrays[prefix + PATCHES].shape
    places = arrays[f"{prefix}embeddings.position_embeddings"].shape[1] - 1
    rows = math.isqrt(places)
    if patch != other or rows**2 != places:
        raise ValueError(f"patches of {patch} x {other} pixels, {places} of them, do not form a square image")
    depth = len({block[1] for key in arrays if (block := BLOCK.match(key))})
    own_head = "classes" if "classifier.weight" in arrays else "features"
    if head not in (None, own_head):
        raise ValueError(f"head={head!r} contradicts its parameters, which are of {own_head!r}")
    size = published.get("image_size", rows * patch)
    if size not in (rows * patch, [rows * patch] * 2):
        raise ValueError(f"image_size={size} has not {places} patches of {patch} x {patch} pixels")
    if f"{prefix}pooler.dense.weight" in arrays and published.get("pooler_act", "tanh") != "tanh":
        raise ValueError(f"pooler_act={published['pooler_act']!r} is not known, only 'tanh'")
    for key, taken in (("hidden_act", "gelu"), ("layer_norm_eps", 1e-12)):
        if key not in published:
            notes.append(f"{key}: nothing says which; taken for {taken}, as published")
    if not seen:
        notes.append("pixels: no preprocessor_config.json; taken from -1 to 1, as published")
    if "num_attention_heads" not in published:
        notes.append(f"heads: nothing says how many; taken for d / {HEAD_WIDTH} = {d // HEAD_WIDTH}")
    config = configuration.default("attention").model
    config.update(
        {
            "inputs": "patches",
            "vocab": 1,  # there are no tokens
            "positions": 1,
            "image": (rows * patch, rows * patch, channels),
            "patch": patch,
            "class_token": True,
            "pixel_mean": _channels(seen, "image_mean", 0.0, channels),
            "pixel_deviation": _channels(seen, "image_std", 1.0, channels),
            "d": d,
            "depth": depth,
            "mlp": arrays[f"{prefix}encoder.layer.0.intermediate.dense.weight"].shape[0],
            "activation": ACTIVATIONS[published.get("hidden_act", "gelu")],
            "norm_position": "pre",
            "norm_eps": float(published.get("layer_norm_eps", 1e-12)),
            "dropout": float(published.get("hidden_dropout_prob", 0.0)),
            "pooling": "first" if f"{prefix}pooler.dense.weight" in arrays else "class",
            "head": own_head,
        }
    )
    if own_head == "classes":
        config.classes = arrays["classifier.weight"].shape[0]
    mixer = config.mixer
    mixer.heads = int(published.get("num_attention_heads", d // HEAD_WIDTH))
    mixer.head_width, mixer.grid = "split", (rows, rows)
    mixer.dropout = float(published.get("attention_probs_dropout_prob", 0.0))
    mixer.bias = f"{prefix}encoder.layer.0.attention.attention.query.bias" in arrays
    return config


def _channels(seen: Mapping[str, Any], key: str, neutral: float, channels: int) -> tuple[float, ...]:
    """Returns a statistic of pixels divided by 255; by default as published, for pixels from -1 to 1.

    A processor applies it to pixels times its factor.

    Args:
      seen: contents of preprocessor_config.json.
      key: "image_mean" or "image_std".
      neutral: the value if the processor does not normalise.
      channels: number of channels.
    """
    values = seen.get(key, (0.5,) * channels) if seen.get("do_normalize", True) else (neutral,) * channels
    factor = float(seen.get("rescale_factor", 1 / 255)) if seen.get("do_rescale", True) else 1.0
    if not factor > 0:
        raise ValueError(f"rescale_factor={factor} must be positive")
    return tuple(float(value) / (255 * factor) for value in values)


def _json(path: Path) -> dict[str, Any]:
    """Returns the values in a file next to the weights; {} if it does not exist."""
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > LONGEST:
            raise ValueError("it is too long")
        values = json.loads(path.read_text())
        if not isinstance(values, dict):
            raise ValueError("it is not an object")
        return values
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a configuration ({str(error)[:80]}); fix or move it") from error
