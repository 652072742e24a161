"""From one file of weights to another; a folder for Hugging Face's library also gets its config.json."""

import json
from pathlib import Path
from typing import Any

from fourier_attn import atomic, paths
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


def describe(settings: Any) -> dict[str, Any]:
    """Returns the config.json from which Hugging Face's library builds such a model."""
    classes = {"classes": settings.classes, "tokens": settings.classes, "score": 1}.get(settings.head, 2)
    head = "classes" if settings.head == "score" else settings.head
    by_head = {ours: theirs for theirs, ours in ARCHITECTURES.items()}
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    return {
        "architectures": [by_head[head]],
        "model_type": "fnet",
        "vocab_size": settings.vocab,
        "hidden_size": settings.d,
        "num_hidden_layers": settings.depth,
        "intermediate_size": settings.mlp,
        "hidden_act": activations[settings.activation],
        "hidden_dropout_prob": settings.dropout,
        "max_position_embeddings": settings.positions,
        "type_vocab_size": settings.types,
        "layer_norm_eps": settings.norm_eps,
        "pad_token_id": 3,
        "id2label": {str(n): f"LABEL_{n}" for n in range(classes)},
    }
