"""Converts a file of weights, and writes the config.json of Hugging Face's library or of Keras Hub."""

import json
from pathlib import Path
from typing import Any

from fourier_attn import atomic, paths
from fourier_attn.model import ModelConfig
from fourier_attn.pretrained import (
    ACTIVATIONS,
    ARCHITECTURES,
    MULTI_LABEL,
    architecture,
    files,
    keras_hub,
    names,
    read,
    save,
)


def rewrite(source: str | Path, to: str | Path, mixer: str | None = None, head: str | None = None) -> None:
    """Converts weights, and prints a description of them.

    A head that Keras Hub lacks is left out of its files, which a line reports.

    Args:
      source: the weights, see `fourier_attn.pretrained.read`.
      to: the new file, whose folder is made; its ending selects the format.
      mixer, head: see `fourier_attn.pretrained.read`.
    Raises: ValueError for weights that cannot be read, an existing file, and an unknown ending.
    """
    to = paths.given(to)
    if to.suffix[1:] not in files.FORMATS:
        raise ValueError(f"to={to} has an unknown ending; end it with .{' or .'.join(files.FORMATS)}")
    files.absent(to)
    weights = read(source, mixer, head)
    print(weights.report())
    config, params, format = weights.config, weights.params, to.suffix[1:]
    if format == "h5":
        config, params = _for_keras_hub(config, params)
    described: dict[str, dict[str, Any]] = {}
    if format == "h5" and architecture.expressible(config, "keras_hub"):
        described = keras_hub.describe(config)
    elif format == "safetensors" and architecture.expressible(config, "huggingface"):
        described = {"config.json": describe(config)}
    for name in described:
        files.absent(to.parent / name)
    style = save(to, config, params, format)
    print(f"written: {to}; names of {style}")
    for name, facts in described.items():
        atomic.write(to.parent / name, json.dumps(facts, indent=2) + "\n")
        print(f"written: {to.parent / name}")


def _for_keras_hub(config: ModelConfig, params: Any) -> tuple[ModelConfig, Any]:
    """Returns a network without a head that Keras Hub lacks, and prints a line about it."""
    if config.head in keras_hub.HEADS or config.head not in names.HEADS:
        return config, params
    print(f"left out: head {config.head}, which Keras Hub's FNet lacks in this form (docs/export.md)")
    config = config.copy_and_resolve_references()
    config.head = "features"
    return config, {name: tree for name, tree in params.items() if name != "head"}


def describe(config: ModelConfig) -> dict[str, Any]:
    """Returns the config.json from which Hugging Face's library builds this model."""
    classes = {"classes": config.classes, "labels": config.classes, "tokens": config.classes, "score": 1}.get(
        config.head, 2
    )
    head = "classes" if config.head in ("labels", "score") else config.head
    by_head = {ours: theirs for theirs, ours in ARCHITECTURES.items()}
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    kind = {"problem_type": MULTI_LABEL} if config.head == "labels" else {}
    return kind | {
        "architectures": [by_head[head]],
        "model_type": "fnet",
        "vocab_size": config.vocab,
        "hidden_size": config.d,
        "num_hidden_layers": config.depth,
        "intermediate_size": config.mlp,
        "hidden_act": activations[config.activation],
        "hidden_dropout_prob": config.dropout,
        "max_position_embeddings": config.positions,
        "type_vocab_size": config.types,
        "layer_norm_eps": config.norm_eps,
        "pad_token_id": 3,
        "id2label": {str(n): f"LABEL_{n}" for n in range(classes)},
    }
