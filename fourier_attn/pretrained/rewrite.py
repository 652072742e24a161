"""From one file of weights to another; a folder for Hugging Face's library also gets its config.json."""

import json
from pathlib import Path
from typing import Any

from fourier_attn import atomic, paths
from fourier_attn.model import ModelConfig
from fourier_attn.pretrained import ACTIVATIONS, ARCHITECTURES, architecture, files, read, save


def rewrite(source: str | Path, to: str | Path, mixer: str | None = None, head: str | None = None) -> None:
    """Writes the weights of `source` to `to`, and prints what they are.

    Raises: ValueError for weights that cannot be read, a file that exists, and a suffix of another format.
    """
    to = paths.given(to)
    if to.suffix[1:] not in files.FORMATS:
        raise ValueError(f"to={to} has no known suffix; end it with .{' or .'.join(files.FORMATS)}")
    files.absent(to)
    weights = read(source, mixer, head)
    print(weights.report())
    config_json, described = to.parent / "config.json", ""
    if to.suffix == ".safetensors" and architecture.expressible(weights.config, "huggingface"):
        files.absent(config_json)
        described = json.dumps(describe(weights.config), indent=2) + "\n"
    style = save(to, weights.config, weights.params, to.suffix[1:])
    print(f"written: {to}; names of {style}")
    if described:
        atomic.write(config_json, described)
        print(f"written: {config_json}")


def describe(config: ModelConfig) -> dict[str, Any]:
    """Returns the config.json from which Hugging Face's library builds such a model."""
    classes = {"classes": config.classes, "tokens": config.classes, "score": 1}.get(config.head, 2)
    head = "classes" if config.head == "score" else config.head
    by_head = {ours: theirs for theirs, ours in ARCHITECTURES.items()}
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    return {
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
