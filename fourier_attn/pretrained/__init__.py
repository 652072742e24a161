"""Loads and saves published weights: FNet from Google, Hugging Face and Keras Hub, and vision transformers.

    config, params = pretrained.load("model.safetensors")
    outputs = model.build(config).apply({"params": params}, tokens, types=types)

The configuration describes a network of this package.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from fourier_attn import paths
from fourier_attn.model import Fields, ModelConfig
from fourier_attn.pretrained import architecture, files, keras_hub, names, vit

__all__ = ["Weights", "load", "read", "save"]
ARCHITECTURES = {
    "FNetModel": "features",
    "FNetForPreTraining": "pretraining",
    "FNetForMaskedLM": "mlm",
    "FNetForNextSentencePrediction": "nsp",
    "FNetForSequenceClassification": "classes",
    "FNetForMultipleChoice": "score",
    "FNetForTokenClassification": "tokens",
    "FNetForQuestionAnswering": "spans",
}
MULTI_LABEL = "multi_label_classification"  # name of the head "labels" in Hugging Face's config.json
PUBLISHED_BY = {"safetensors": "huggingface", "msgpack": "f_net", "h5": "keras_hub"}  # format: style
ACTIVATIONS = {"gelu": "gelu_erf", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "relu": "relu"}


class Weights(NamedTuple):
    """Holds the contents of a file of weights.

    Args:
      config: the `model` part of a configuration.
      params: the parameters, float32.
      notes: lines for the user.
    """

    config: ModelConfig
    params: dict[str, Any]
    notes: tuple[str, ...]

    def report(self) -> str:
        """Returns lines with architecture, sizes, number of parameters, and notes."""
        c = self.config
        mixers = Counter(c.layout or (c.mixer.name,) * c.depth)
        images = c.inputs == "patches"
        embedding = ("image", "patch") if images else ("vocab", "positions", "types", "emb")
        sizes = (*embedding, "d", "mlp", "depth")
        count = sum(leaf.size for leaf in jax.tree.leaves(self.params))
        lines = (
            f"architecture: {', '.join(f'{n} x {name}' for name, n in mixers.items())}; head {c.head}",
            f"sizes: {', '.join(f'{key} {c[key]}' for key in sizes)}",
            f"parameters: {count:,}",
        )
        return "\n".join((*lines, *self.notes))


def load(path: str | Path, mixer: str | None = None, head: str | None = None) -> tuple[Any, dict[str, Any]]:
    """Returns the `model` part of a configuration and the parameters of a file of weights.

    Args:
      path, mixer, head: see `read`.
    Raises: ValueError as `read`.
    """
    return read(path, mixer, head)[:2]


def read(path: str | Path, mixer: str | None = None, head: str | None = None) -> Weights:
    """Reads weights that `save`, the FNet paper's code, Hugging Face or Keras Hub wrote.

    Options that do not follow from shapes are as published: dropout rates, GELU, and padding that is mixed
    like tokens.

    Args:
      path: a file of safetensors or msgpack, a folder with model.safetensors, a preset of Keras Hub
        (model.weights.h5, which needs h5py), or a folder on the hub, "hf:owner/name" or
        "hf:owner/name@REVISION".
      mixer: mixer of blocks without parameters, "random" or "identity"; default None: "fourier". The paper's
        files do not distinguish these, but files that `save` wrote do.
      head: meaning of the last linear map, "classes", "score" or "tokens", if neither the file nor Hugging
        Face's config.json determines it; default None: "classes", or "score" for one output.
    Returns: the weights; float16 and bfloat16 are converted exactly to float32.
    Raises: ValueError for a damaged or hostile file, a pickle, missing or unknown parameters, wrong shapes,
      and a `mixer` or `head` that contradicts the file.
    """
    file = files.find(path)
    contents = files.read(file)
    try:
        return _weights(file, contents, mixer, head)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def save(path: str | Path, config: Fields, params: Any, format: str = "safetensors") -> str:
    """Writes weights and their configuration; `load` returns bitwise the same.

    Parameters get the names of Hugging Face's FNet (safetensors) or of the FNet paper's code (msgpack) if
    that model computes the same, and this project's names otherwise. With the format "h5" they get the names
    of Keras Hub's FNet. Such a file has no configuration, so that dropout rates are lost. The libraries also
    need a config.json next to the file, which `rewrite.rewrite` writes.

    Args:
      path: the new file, with the ending of the format.
      config: the `model` part of the configuration.
      params: the parameters, float32.
      format: "safetensors" (default), "msgpack" or "h5".
    Returns: the style of the names, one of `names.STYLES`.
    Raises: ValueError for parameters that do not belong to the configuration, an existing file, and with "h5"
      for a model that Keras Hub lacks.
    """
    expected = architecture.parameters(config)
    flat = traverse_util.flatten_dict(params, sep="/")
    ours = {path: np.asarray(array) for path, array in flat.items()}
    wrong = [f"{key} is {array.dtype}" for key, array in ours.items() if array.dtype != np.float32]
    wrong += _differences({key: array.shape for key, array in ours.items()}, expected)
    if wrong:
        raise ValueError(f"params do not belong to config: {_listed(wrong)}")
    published = PUBLISHED_BY.get(format, "")
    style = published if published and architecture.expressible(config, published) else "fourier_attn"
    if format == "h5" and style != "keras_hub":
        raise ValueError(keras_hub.ABSENT)
    arrays = {}
    for key, array in ours.items():
        name = names.to_file(key, style, config["head"])
        if name is None:
            raise ValueError(f"{key} has no name in the style {style}; please report this configuration")
        theirs = name.name.removeprefix("fnet.") if config["head"] == "features" else name.name
        arrays[theirs] = array.T if name.form == "T" else array.reshape(name.stored(array.shape))
    files.write(paths.given(path), arrays, architecture.to_text(config), format, torch=style == "huggingface")
    return style


def _weights(file: Path, contents: files.Contents, mixer: str | None, head: str | None) -> Weights:
    """Returns the weights in the `contents` of a `file`; for `mixer` and `head` see `read`."""
    if vit.recognised(contents.arrays):
        return _vision(file, contents, mixer, head)
    arrays = names.completed(contents.arrays)
    style = names.style_of(arrays)
    left = [*contents.unread, *_without_copies(arrays)] if style == "huggingface" else contents.unread
    notes = [
        f"file: {file}; names of {style}; missing: none; extra: none; left out: {', '.join(left) or 'none'}"
    ]
    if contents.config is not None:
        config = _carried(contents.config, arrays, mixer, head)
    elif style == "fourier_attn":
        raise ValueError("it has no configuration; write it with fourier_attn.pretrained.save")
    else:
        config = _published(file, arrays, style, mixer, head, notes)
    shapes = architecture.parameters(config)
    places = {path: names.to_file(path, style, config.head) or names.Name(path) for path in shapes}
    expected = {name.name: name.stored(shapes[path]) for path, name in places.items()}
    if wrong := _differences({key: array.shape for key, array in arrays.items()}, expected):
        raise ValueError(f"its parameters are not those of such a model: {_listed(wrong)}")
    if wrong := [f"{k} is {a.dtype}" for k, a in arrays.items() if a.dtype not in files.DTYPES.values()]:
        raise ValueError(f"weights are {', '.join(files.DTYPES)}: {_listed(wrong)}")
    flat = {path: _restored(arrays[name.name], name) for path, name in places.items()}
    return Weights(config, traverse_util.unflatten_dict(flat, sep="/"), tuple(notes))


def _vision(file: Path, contents: files.Contents, mixer: str | None, head: str | None) -> Weights:
    """Returns a vision transformer in Hugging Face's layout from the `contents` of a `file`.

    For `mixer` and `head` see `read`.
    """
    if mixer not in (None, "attention"):
        raise ValueError(f"mixer={mixer!r} has no effect, because every block has parameters; leave it out")
    arrays, notes = contents.arrays, []
    config = vit.read_config(file, arrays, head, notes)
    shapes = architecture.parameters(config)
    prefix = "" if vit.PATCHES in arrays else "vit."
    places = {path: vit.name(path, prefix) for path in shapes}
    expected = {name: vit.stored(shapes[path], form) for path, (name, form) in places.items()}
    if wrong := _differences({key: array.shape for key, array in arrays.items()}, expected):
        raise ValueError(f"its parameters are not those of such a model: {_listed(wrong)}")
    if wrong := [f"{k} is {a.dtype}" for k, a in arrays.items() if a.dtype not in files.DTYPES.values()]:
        raise ValueError(f"weights are {', '.join(files.DTYPES)}: {_listed(wrong)}")
    flat = {
        path: jnp.array(vit.restored(arrays[name], shapes[path], form).astype(np.float32))
        for path, (name, form) in places.items()
    }
    left = ", ".join(contents.unread) or "none"
    source = f"file: {file}; names of google/vit; missing: none; extra: none; left out: {left}"
    return Weights(config, traverse_util.unflatten_dict(flat, sep="/"), (source, *notes))


def _restored(array: np.ndarray, name: names.Name) -> Any:
    array = array.T if name.form == "T" else array.reshape(name.restored(array.shape))
    return jnp.array(array.astype(np.float32))


def _without_copies(arrays: dict[str, np.ndarray]) -> list[str]:
    """Removes Hugging Face's constants and duplicates from `arrays`, and returns their names."""
    left = [key for key in arrays if names.CONSTANTS.fullmatch(key)]
    for copy, original in names.TIED.items():
        if copy in arrays and arrays.setdefault(original, arrays[copy]) is not arrays[copy]:
            one, other = arrays[copy], arrays[original]
            if one.shape != other.shape or one.dtype != other.dtype or one.tobytes() != other.tobytes():
                raise ValueError(f"{copy} differs from {original}, but FNet ties them; get the file again")
        if copy in arrays:
            left.append(copy)
    for key in left:
        del arrays[key]
    return left


def _carried(text: str, arrays: Mapping[str, np.ndarray], mixer: str | None, head: str | None) -> Any:
    """Returns the configuration in a file.

    Args:
      text: the configuration as JSON.
      arrays: the parameters.
      mixer, head: arguments of `read`, which must agree with the file.
    """
    config = architecture.from_text(text, {key: array.shape for key, array in arrays.items()})
    if head not in (None, config.head):
        raise ValueError(f"head={head!r} contradicts its configuration, head={config.head!r}; leave it out")
    if mixer not in (None, config.mixer.name, *config.layout):
        raise ValueError(
            f"mixer={mixer!r} contradicts its configuration, {config.mixer.name!r}; leave it out"
        )
    return config


def _published(
    file: Path,
    arrays: Mapping[str, np.ndarray],
    style: str,
    mixer: str | None,
    head: str | None,
    notes: list[str],
) -> Any:
    """Infers the configuration from names and shapes, and from Hugging Face's config.json.

    Args:
      file: the file of weights.
      arrays: its parameters.
      style: style of the names.
      mixer, head: arguments of `read`.
      notes: assumptions are appended here.
    """
    possible = names.heads_of(arrays, style)
    reading = {"huggingface": _config_json, "keras_hub": keras_hub.read_config}
    stated = reading[style](file) if style in reading else {}
    known_head = head or stated.pop("head", None)
    chosen = known_head or possible[0]
    if chosen not in possible:
        raise ValueError(f"head={chosen!r} does not fit its parameters, which fit {', '.join(possible)}")
    if not architecture.tanh_form(stated.get("activation", "gelu"), chosen):
        raise ValueError(
            f"activation={stated['activation']!r} differs from that of its head {chosen!r}, 'gelu'; such a "
            "network is not supported"
        )
    places = names.from_file(arrays, style, chosen)
    shapes = {path: name.restored(arrays[name.name].shape) for path, name in places.items()}
    if head is None and chosen == "classes" and shapes.get("head/output/bias") == (1,):
        chosen = "score"
    elif known_head is None and len(possible) > 1:
        notes.append(f"head: the file fits {', '.join(possible)}; assuming {chosen!r}")
    if mixer not in (None, *architecture.PARAMETERLESS):
        raise ValueError(
            f"mixer={mixer!r} has parameters; choose one of {', '.join(architecture.PARAMETERLESS)}"
        )
    try:
        config = architecture.inferred(shapes, chosen, mixer or "fourier", stated)
    except KeyError as error:
        key = getattr(names.to_file(error.args[0], style, chosen), "name", error.args[0])
        wrong = f"has the shape {arrays[key].shape}" if key in arrays else "is missing"
        raise ValueError(f"its parameters are not those of such a model: {key} {wrong}") from error
    if mixer and mixer not in (config.mixer.name, *config.layout):
        raise ValueError(f"mixer={mixer!r} has no effect, because every block has parameters; leave it out")
    if style == "f_net" and mixer is None and config.mixer.name == "fourier":
        notes.append(
            "mixer: the file fits fourier, random, identity; assuming 'fourier' "
            "(convert --mixer=NAME stores the name)"
        )
    return config


def _config_json(file: Path) -> dict[str, Any]:
    """Reads Hugging Face's config.json next to the file of weights; {} if it does not exist."""
    path = file.parent / "config.json"
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > architecture.LONGEST:
            raise ValueError("it is too long")
        values = json.loads(path.read_text())
        knobs: dict[str, Any] = {
            key: float(values[theirs])
            for key, theirs in (("norm_eps", "layer_norm_eps"), ("dropout", "hidden_dropout_prob"))
            if theirs in values
        }
        if "hidden_act" in values:
            knobs["activation"] = ACTIVATIONS[values["hidden_act"]]
        if values.get("architectures"):
            knobs["head"] = ARCHITECTURES[values["architectures"][0]]
        if knobs.get("head") == "classes" and values.get("problem_type") == MULTI_LABEL:
            knobs["head"] = "labels"
        return knobs
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is not FNet's configuration ({type(error).__name__}: {str(error)[:80]}); fix or move it"
        ) from error


def _differences(shapes: architecture.Shapes, expected: architecture.Shapes) -> list[str]:
    missing = [f"{key} is missing" for key in sorted(expected.keys() - shapes.keys())]
    extra = [f"{key} is unknown" for key in sorted(shapes.keys() - expected.keys())]
    unlike = [
        f"{key} has the shape {shapes[key]} instead of {expected[key]}"
        for key in sorted(shapes.keys() & expected.keys())
        if shapes[key] != expected[key]
    ]
    return missing + extra + unlike


def _listed(wrong: list[str]) -> str:
    more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    return "; ".join(line[:200] for line in wrong[:5]) + more
