"""Translates names of parameters, and the order of their axes, between this project and published files.

The styles are "fourier_attn", this project's paths joined with "/"; "f_net", the tree of the FNet paper's
code; "huggingface", the keys of FNet in Hugging Face's transformers; and "keras_hub", the paths of Keras
Hub's FNet. A number in a name is that of a block.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

STYLES = ("fourier_attn", "f_net", "huggingface", "keras_hub")
TIED = {  # parameters that Hugging Face may write twice
    "cls.predictions.decoder.weight": "fnet.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
CONSTANTS = re.compile(  # entries of Hugging Face that are not weights
    r"fnet\.embeddings\.(position_ids|token_type_ids)"
    r"|fnet\.encoder\.layer\.[0-9]+\.fourier\.self\.dft_mat_(hidden|seq)"
)
BARE = ("embeddings.", "encoder.layer.", "pooler.dense.")  # names in Hugging Face's model without a head
KERAS_BLOCK = "layers/f_net_encoder_{}"  # block 0 has no number
NUMBER = re.compile(r"(?<=[._])(?:0|[1-9][0-9]{0,3})(?=[./])")
TABLE, NORM, DENSE = ("embedding",), ("scale", "bias"), ("kernel", "bias")

MODULES = (  # this project's module, its parameters, f_net's module, Hugging Face's module
    ("encoder/tokens", TABLE, "encoder/embedder/word", "fnet.embeddings.word_embeddings"),
    ("encoder/types", TABLE, "encoder/embedder/type", "fnet.embeddings.token_type_embeddings"),
    ("encoder/embedding_norm", NORM, "encoder/embedder/layer_norm", "fnet.embeddings.LayerNorm"),
    ("encoder/projection", DENSE, "encoder/embedder/hidden_mapping_in", "fnet.embeddings.projection"),
    ("encoder/block_{}/mixer/query", DENSE, "encoder/self_attention_{}/query", None),
    ("encoder/block_{}/mixer/key", DENSE, "encoder/self_attention_{}/key", None),
    ("encoder/block_{}/mixer/value", DENSE, "encoder/self_attention_{}/value", None),
    ("encoder/block_{}/mixer/out", DENSE, "encoder/self_attention_{}/out", None),
    (
        "encoder/block_{}/mixer_norm",
        NORM,
        "encoder/encoder_{}/mixing_layer_norm",
        "fnet.encoder.layer.{}.fourier.output.LayerNorm",
    ),
    (
        "encoder/block_{}/mlp_in",
        DENSE,
        "encoder/feed_forward_{}/intermediate",
        "fnet.encoder.layer.{}.intermediate.dense",
    ),
    (
        "encoder/block_{}/mlp_out",
        DENSE,
        "encoder/feed_forward_{}/output",
        "fnet.encoder.layer.{}.output.dense",
    ),
    (
        "encoder/block_{}/mlp_norm",
        NORM,
        "encoder/encoder_{}/output_layer_norm",
        "fnet.encoder.layer.{}.output.LayerNorm",
    ),
    ("pooler", DENSE, "encoder/pooler", "fnet.pooler.dense"),
    ("head/mlm_dense", DENSE, "predictions_dense", "cls.predictions.transform.dense"),
    ("head/mlm_norm", NORM, "predictions_layer_norm", "cls.predictions.transform.LayerNorm"),
    ("head/nsp", DENSE, None, "cls.seq_relationship"),
    ("head/output", DENSE, None, "classifier"),
)
HUGGING_FACE = {"embedding": "weight", "scale": "weight", "kernel": "weight", "bias": "bias"}
KERAS = {  # this project's module, Keras Hub's layer, whose variables are numbered
    "encoder/tokens": "layers/reversible_embedding",
    "encoder/types": "layers/embedding",
    "encoder/embedding_norm": "layers/layer_normalization",
    "encoder/projection": "layers/dense",
    "encoder/block_{}/mixer_norm": f"{KERAS_BLOCK}/_mixing_layer_norm",
    "encoder/block_{}/mlp_in": f"{KERAS_BLOCK}/_intermediate_dense",
    "encoder/block_{}/mlp_out": f"{KERAS_BLOCK}/_output_dense",
    "encoder/block_{}/mlp_norm": f"{KERAS_BLOCK}/_output_layer_norm",
    "pooler": "layers/dense_1",
    "head/output": "task/layers/dense",
}


class Name(NamedTuple):
    """Holds a parameter's name in a file.

    Args:
      name: the name.
      form: "", "T" (transposed in the file) or "1" (with a leading axis of size 1 in the file).
    """

    name: str
    form: str = ""

    def stored(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape in the file of a parameter with the shape `shape`."""
        return {"": shape, "T": shape[::-1], "1": (1, *shape)}[self.form]

    def restored(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of a parameter with the shape `shape` in the file."""
        return {"": shape, "T": shape[::-1], "1": shape[1:]}[self.form]


def _f_net() -> dict[str, Name]:
    names = {
        f"{ours}/{leaf}": Name(f"{theirs}/{leaf}")
        for ours, leaves, theirs, _ in MODULES
        for leaf in leaves
        if theirs
    }
    for head in ("head/nsp", "head/output"):  # both heads have the same name
        names[f"{head}/kernel"] = Name("classification/output_kernel", "T")
        names[f"{head}/bias"] = Name("classification/output_bias")
    return names | {
        "encoder/positions": Name("encoder/embedder/position/embedding", "1"),
        "encoder/block_{}/mixer/tokens": Name("encoder/linear_transform_{}/seq_kernel"),
        "encoder/block_{}/mixer/features": Name("encoder/linear_transform_{}/hidden_kernel"),
        "head/mlm_bias": Name("predictions_output/output_bias"),
    }


def _huggingface() -> dict[str, Name]:
    names = {
        f"{ours}/{leaf}": Name(f"{theirs}.{HUGGING_FACE[leaf]}", "T" if leaf == "kernel" else "")
        for ours, leaves, _, theirs in MODULES
        for leaf in leaves
        if theirs
    }
    return names | {
        "encoder/positions": Name("fnet.embeddings.position_embeddings.weight"),
        "head/mlm_bias": Name("cls.predictions.bias"),
    }


def _keras_hub() -> dict[str, Name]:
    names = {
        f"{ours}/{leaf}": Name(f"{KERAS[ours]}/vars/{n}")
        for ours, leaves, _, _ in MODULES
        if ours in KERAS
        for n, leaf in enumerate(leaves)
    }
    return names | {"encoder/positions": Name("layers/position_embedding/vars/0")}


NAMES = {"f_net": _f_net(), "huggingface": _huggingface(), "keras_hub": _keras_hub()}
HEADS = {  # prefixes of the parameters of each head
    "pretraining": ("head/mlm_", "head/nsp/"),
    "mlm": ("head/mlm_",),
    "nsp": ("head/nsp/",),
    **dict.fromkeys(("classes", "labels", "score", "tokens", "spans"), ("head/output/",)),
    "features": (),
}


def completed(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arrays with "fnet." in Hugging Face's names, which a model without a head lacks.

    Raises: ValueError for a name that exists with and without it.
    """
    full = {f"fnet.{key}" if key.startswith(BARE) else key: array for key, array in arrays.items()}
    if len(full) < len(arrays):
        twice = next(key for key in arrays if f"fnet.{key}" in arrays)
        raise ValueError(f"{twice} is a duplicate, with and without 'fnet.'; remove one of them")
    return full


def style_of(keys: Iterable[str]) -> str:
    """Returns the style of a file with these keys.

    Raises: ValueError if it has none of the styles.
    """
    keys = sorted(keys)
    own = ("encoder/tokens/", "encoder/patches/")
    starts = (own, "encoder/embedder/", "fnet.embeddings.", "layers/f_net_encoder/")
    for style, prefix in zip(STYLES, starts, strict=True):
        if any(key.startswith(prefix) for key in keys):
            return style
    raise ValueError(
        f"it has no weights of FNet or of this project; its names begin with {', '.join(keys[:3]) or '-'}"
    )


def heads_of(keys: Iterable[str], style: str) -> tuple[str, ...]:
    """Returns the possible heads of a file with these keys, the likeliest first."""
    keys, published = list(keys), style == "f_net"

    def has(*starts: str) -> bool:
        return any(key.startswith(starts) for key in keys)

    mlm = has("predictions_" if published else "cls.predictions.")
    if published and not mlm and has("classification/"):
        return "classes", "score", "nsp"
    if has("qa_outputs."):
        return ("spans",)
    if has("classifier."):
        return "classes", "score", "tokens", "labels"
    if has("task/layers/dense/"):
        return "classes", "score", "tokens"
    nsp = has("classification/", "cls.seq_relationship.")
    return ("pretraining" if mlm and nsp else "mlm" if mlm else "nsp" if nsp else "features",)


def to_file(path: str, style: str, head: str) -> Name | None:
    """Returns the name of a parameter in a file; None if the style has no name for it.

    Args:
      path: path of the parameter in this project.
      style: one of `STYLES`.
      head: name of the model's head, a key of `HEADS`.
    """
    if style == "fourier_attn":
        return Name(path)
    number = NUMBER.search(path)
    pattern = NAMES[style].get(NUMBER.sub("{}", path))
    if pattern is None or (path.startswith("head/") and not path.startswith(HEADS[head])):
        return None
    block = number[0] if number else ""
    name = pattern.name
    if block == "0":
        name = name.replace(KERAS_BLOCK, KERAS_BLOCK.removesuffix("_{}"))
    name = name.replace("{}", block)
    if style == "huggingface" and head == "spans":
        name = re.sub(r"^classifier\.", "qa_outputs.", name)
    return Name(name, pattern.form)


def from_file(keys: Iterable[str], style: str, head: str) -> dict[str, Name]:
    """Returns the names in a file by this project's paths; unknown keys are left out.

    Args:
      keys: names of the arrays in the file.
      style: one of `STYLES`.
      head: name of the model's head, a key of `HEADS`.
    """
    if style == "fourier_attn":
        return {key: Name(key) for key in keys}
    back = {}
    for ours in NAMES[style]:
        for block in ("0", "1"):  # in Keras Hub's names, block 0 has no number
            if theirs := to_file(ours.replace("{}", block), style, head):
                back[NUMBER.sub("{}", theirs.name)] = ours
    known = {}
    for key in keys:
        number = NUMBER.search(key)
        if ours := back.get(NUMBER.sub("{}", key)):
            path = ours.replace("{}", number[0] if number else "0")
            name = to_file(path, style, head)
            if name and name.name == key:
                known[path] = name
    return known
