"""Reads and writes preset folders of Keras Hub's FNet: weights, names of layers, and configuration.

The folder has the backbone in config.json and model.weights.h5. A classifier also has task.json and
task.weights.h5. Keras names a layer by its class, and numbers the layers of a class in the network's order:

    layers/reversible_embedding/vars/0            layers/f_net_encoder/_mixing_layer_norm/vars/0   block 0
    layers/dense/vars/0    the projection         layers/f_net_encoder_1/_output_dense/vars/1      block 1
    layers/dense_1/vars/0  the pooler             task/layers/dense/vars/0       of task.weights.h5, here

Source: keras-team/keras-hub, f_net_backbone.py; keras-team/keras, saving_lib.py.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn.model import ModelConfig
from fourier_attn.pretrained import hdf5

WEIGHTS, TASK_WEIGHTS, TASK_JSON = "model.weights.h5", "task.weights.h5", "task.json"
SUFFIX = ".weights.h5"
OF_TASK = "task/"  # prefix of the entries of task.weights.h5 in this project
LAYERS, EARLIER = "layers/", "_layer_checkpoint_dependencies/"  # prefixes of Keras 3 and Keras 2
LONGEST = 2**20  # largest JSON file in bytes
SIZES = {  # this project's option, Keras Hub's
    "vocab": "vocabulary_size",
    "depth": "num_layers",
    "d": "hidden_dim",
    "mlp": "intermediate_dim",
    "positions": "max_sequence_length",
    "types": "num_segments",
}
HEADS = {"features": "FNetBackbone", "classes": "FNetTextClassifier", "score": "FNetTextClassifier"}
ABSENT = (
    "Keras Hub only has FNet as published: with padding as tokens "
    "(--config.model.mixer.padding=tokens), and without a head or with one for classes (docs/export.md); "
    "write the weights as safetensors"
)
LAYER_NAMES = {  # Keras's path, name of the layer
    "layers/reversible_embedding": "token_embedding",
    "layers/position_embedding": "position_embedding",
    "layers/embedding": "segment_embedding",
    "layers/layer_normalization": "embeddings_layer_norm",
    "layers/dense": "embedding_projection",
    "layers/dense_1": "pooled_dense",
    "": "f_net_backbone",
}
TASK_NAMES = {"layers/dense": "logits", "": "f_net_text_classifier"}
PARTS = ("mixing_layer_norm", "intermediate_dense", "output_dense", "output_layer_norm")


def read(path: Path) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Returns the arrays of a preset by name, and the names of layers that were not read.

    The head of a classifier is read from task.weights.h5 next to model.weights.h5. The head of a masked
    language model is not read, because it has the exact GELU and another epsilon than FNet's.

    Raises: ValueError for a file that Keras 3 did not write, and for a damaged or hostile file.
    """
    arrays = {key.replace(EARLIER, LAYERS, 1): array for key, array in hdf5.read(path).items()}
    if not any(key.startswith(LAYERS) for key in arrays):
        listed = ", ".join(sorted(key[:40] for key in arrays)[:3]) or "nothing"
        raise ValueError(
            f"it is an HDF5 file of {listed}, not the weights of a Keras 3 model; write these with "
            "backbone.save_to_preset(FOLDER)"
        )
    task = path.with_name(TASK_WEIGHTS)
    if path.name != WEIGHTS or not task.is_file():
        return arrays, ()
    head = hdf5.read(task)
    kept = {f"{OF_TASK}{key}": array for key, array in head.items() if key.startswith("layers/dense/")}
    left = sorted({"/".join(key.split("/")[:2]) for key in head if f"{OF_TASK}{key}" not in kept})
    return arrays | kept, tuple(f"{TASK_WEIGHTS}:{key}" for key in left)


def parts(
    path: Path, arrays: Mapping[str, np.ndarray]
) -> dict[Path, tuple[dict[str, np.ndarray], dict[str, str]]]:
    """Returns the files to write, for the head and for the backbone, with their arrays and names of layers.

    Raises: ValueError for a network with a head if the file is not called model.weights.h5.
    """
    body = {key: array for key, array in arrays.items() if not key.startswith(OF_TASK)}
    head = {key.removeprefix(OF_TASK): array for key, array in arrays.items() if key not in body}
    layers = dict(LAYER_NAMES)
    for block in {key.split("/")[1] for key in body if key.startswith("layers/f_net_encoder")}:
        number = block.removeprefix("f_net_encoder").removeprefix("_") or "0"
        layers[f"layers/{block}"] = f"f_net_layer_{number}"
        layers |= {f"layers/{block}/_{part}": part for part in PARTS}
    backbone = {path: (body, layers)}
    if not head:
        return backbone
    if path.name != WEIGHTS:
        raise ValueError(
            f"{path}: a classifier needs two files, {WEIGHTS} and {TASK_WEIGHTS}; give the name {WEIGHTS}"
        )
    return {path.with_name(TASK_WEIGHTS): (head, dict(TASK_NAMES))} | backbone


def read_config(file: Path) -> dict[str, Any]:
    """Returns options of the model from config.json and task.json next to a file of weights.

    Raises: ValueError for files of another model.
    """
    knobs: dict[str, Any] = {}
    for path, ours in ((file.with_name("config.json"), _backbone), (file.with_name(TASK_JSON), _task)):
        if not path.is_file() or (path.name == TASK_JSON and file.name != WEIGHTS):
            continue
        try:
            if path.stat().st_size > LONGEST:
                raise ValueError("it is too long")
            knobs |= ours(json.loads(path.read_text()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not of Keras Hub's FNet ({type(error).__name__}: {str(error)[:80]}); "
                "fix or move it"
            ) from error
    return knobs


def _backbone(values: Mapping[str, Any]) -> dict[str, Any]:
    if values["class_name"] != HEADS["features"]:
        raise ValueError(f"its class is {values['class_name']!r:.40}")
    given = values["config"]
    return {ours: int(given[theirs]) for ours, theirs in SIZES.items()} | {"dropout": float(given["dropout"])}


def _task(values: Mapping[str, Any]) -> dict[str, Any]:
    head = "classes" if values["class_name"] in ("FNetTextClassifier", "FNetClassifier") else "features"
    activation = values["config"].get("activation", "linear") if head == "classes" else "linear"
    if activation not in ("linear", "softmax", None):  # the logits in front of a softmax are the same
        raise ValueError(f"activation={activation!r:.40} is not known, only 'linear' and 'softmax'")
    return {"head": head}


def describe(config: ModelConfig, length: int = 0) -> dict[str, dict[str, Any]]:
    """Returns the JSON files, by name, from which Keras Hub's `from_preset` builds a model.

    Args:
      config: the `model` part of the configuration.
      length: length to which texts are padded, if the folder has a SentencePiece model; default 0: it has
        none.
    """
    sizes = {theirs: config[ours] for ours, theirs in SIZES.items()}
    backbone = _serialised(
        "f_net_backbone", HEADS["features"], "float32", sizes | {"dropout": config.dropout}
    )
    described, preprocessor = {"config.json": backbone}, None
    if length:
        assets = {"proto": None, "sequence_length": None, "add_bos": False, "add_eos": False}
        tokenizer = _serialised(
            "f_net_tokenizer", "FNetTokenizer", "int32", {"config_file": "tokenizer.json"} | assets
        )
        packing = {"tokenizer": tokenizer, "config_file": "preprocessor.json", "sequence_length": length}
        preprocessor = _serialised(
            "f_net_text_classifier_preprocessor",
            "FNetTextClassifierPreprocessor",
            "float32",
            packing | {"truncate": "round_robin"},
        )
        described |= {"tokenizer.json": tokenizer, "preprocessor.json": preprocessor}
    if config.head != "features":
        classes = 1 if config.head == "score" else config.classes
        given = {"backbone": backbone, "preprocessor": preprocessor, "num_classes": classes}
        given |= {"dropout": config.dropout, "activation": "linear"}
        described[TASK_JSON] = _serialised("f_net_text_classifier", HEADS["classes"], "", given)
    return described


def _serialised(module: str, name: str, dtype: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an object in Keras's serialised form.

    Args:
      module: last part of the module's name, also the name of the object.
      name: name of the class.
      dtype: name of the dtype; "": none.
      config: its arguments.
    """
    policy = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": dtype}}
    typed = {"trainable": True, "dtype": policy | {"registered_name": None}} if dtype else {}
    return {
        "module": f"keras_hub.src.models.f_net.{module}",
        "class_name": name,
        "config": {"name": module, **typed, **config},
        "registered_name": f"keras_hub>{name}",
    }
