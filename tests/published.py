"""Published files of weights, written out: names and shapes as they are, numbers at random."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import serialization, traverse_util

from fourier_attn import pretrained
from fourier_attn.data.text import load_tokenizer
from fourier_attn.family import family
from fourier_attn.pretrained import architecture, folder

PARAMETERS = {  # of the encoder with its pooler, and with the heads of pre-training
    ("fnet", "base"): (82_861_056, 83_486_722),
    ("hybrid", "base"): (87_585_792, 88_211_458),
    ("linear", "base"): (93_084_672, 93_710_338),
    ("bert", "base"): (111_209_472, 111_835_138),
    ("random", "base"): (82_861_056, 83_486_722),
    ("ff", "base"): (82_861_056, 83_486_722),
    ("fnet", "large"): (236_945_408, 238_031_106),
    ("hybrid", "large"): (245_342_208, 246_427_906),
    ("linear", "large"): (268_402_688, 269_488_386),
    ("bert", "large"): (337_707_008, 338_792_706),
}
# What a folder with FNet holds instead of what is published, and whether transformers and Keras Hub load it.
LOADS: dict[str, tuple[dict[str, Any], bool, bool]] = {
    "published": ({}, True, True),
    "exact GELU": ({"activation": "gelu_erf"}, True, False),
    "ReLU": ({"activation": "relu"}, True, False),
    "another epsilon": ({"norm_eps": 1e-5}, True, False),
    "padding that is left out": ({"mixer": {"padding": "invariant"}}, False, False),
    "scaled transform": ({"mixer": {"norm": "tokens"}}, False, False),
    "pre-norm": ({"norm_position": "pre"}, False, False),
    "sines as positions": ({"positions_kind": "sinusoidal"}, False, False),
    "mean of the tokens": ({"pooling": "mean"}, False, False),
    "no types": ({"types": 0}, False, False),
    "narrow tables": ({"emb": 8}, False, False),
}
SIZES = {"v": 23, "s": 9, "t": 4, "e": 6, "d": 8, "f": 12, "h": 2, "c": 2}


def f_net(*layout: str, mlm: bool = True, classes: bool = True, **sizes: int) -> dict[str, tuple[int, ...]]:
    """The parameters of the FNet paper's code; the layout names each block's mixer."""
    v, s, t, e, d, f, h, c = (SIZES | sizes).values()
    shapes: dict[str, tuple[int, ...]] = {
        "encoder/embedder/word/embedding": (v, e),
        "encoder/embedder/position/embedding": (1, s, e),
        "encoder/embedder/type/embedding": (t, e),
        "encoder/embedder/layer_norm/scale": (e,),
        "encoder/embedder/layer_norm/bias": (e,),
        "encoder/embedder/hidden_mapping_in/kernel": (e, d),
        "encoder/embedder/hidden_mapping_in/bias": (d,),
        "encoder/pooler/kernel": (d, d),
        "encoder/pooler/bias": (d,),
    }
    for i, mixer in enumerate(layout):
        shapes |= {
            f"encoder/encoder_{i}/mixing_layer_norm/scale": (d,),
            f"encoder/encoder_{i}/mixing_layer_norm/bias": (d,),
            f"encoder/feed_forward_{i}/intermediate/kernel": (d, f),
            f"encoder/feed_forward_{i}/intermediate/bias": (f,),
            f"encoder/feed_forward_{i}/output/kernel": (f, d),
            f"encoder/feed_forward_{i}/output/bias": (d,),
            f"encoder/encoder_{i}/output_layer_norm/scale": (d,),
            f"encoder/encoder_{i}/output_layer_norm/bias": (d,),
        }
        if mixer == "linear":
            shapes[f"encoder/linear_transform_{i}/hidden_kernel"] = (d, d)
            shapes[f"encoder/linear_transform_{i}/seq_kernel"] = (s, s)
        if mixer == "attention":
            for name in ("query", "key", "value"):
                shapes[f"encoder/self_attention_{i}/{name}/kernel"] = (d, h, d // h)
                shapes[f"encoder/self_attention_{i}/{name}/bias"] = (h, d // h)
            shapes[f"encoder/self_attention_{i}/out/kernel"] = (h, d // h, d)
            shapes[f"encoder/self_attention_{i}/out/bias"] = (d,)
    if mlm:
        shapes |= {
            "predictions_dense/kernel": (d, e),
            "predictions_dense/bias": (e,),
            "predictions_layer_norm/scale": (e,),
            "predictions_layer_norm/bias": (e,),
            "predictions_output/output_bias": (v,),
        }
    if classes:
        shapes |= {"classification/output_kernel": (c, d), "classification/output_bias": (c,)}
    return shapes


def huggingface(head: str, depth: int = 2, prefix: str = "fnet.", **sizes: int) -> dict[str, tuple[int, ...]]:
    """The keys of Hugging Face's FNet, which writes tied weights once."""
    v, s, t, _, d, f, _, c = (SIZES | sizes).values()
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (v, d),
        "embeddings.position_embeddings.weight": (s, d),
        "embeddings.token_type_embeddings.weight": (t, d),
        "embeddings.LayerNorm.weight": (d,),
        "embeddings.LayerNorm.bias": (d,),
        "embeddings.projection.weight": (d, d),
        "embeddings.projection.bias": (d,),
        "pooler.dense.weight": (d, d),
        "pooler.dense.bias": (d,),
    }
    for i in range(depth):
        shapes |= {
            f"encoder.layer.{i}.fourier.output.LayerNorm.weight": (d,),
            f"encoder.layer.{i}.fourier.output.LayerNorm.bias": (d,),
            f"encoder.layer.{i}.intermediate.dense.weight": (f, d),
            f"encoder.layer.{i}.intermediate.dense.bias": (f,),
            f"encoder.layer.{i}.output.dense.weight": (d, f),
            f"encoder.layer.{i}.output.dense.bias": (d,),
            f"encoder.layer.{i}.output.LayerNorm.weight": (d,),
            f"encoder.layer.{i}.output.LayerNorm.bias": (d,),
        }
    shapes = {prefix + key: shape for key, shape in shapes.items()}
    if head in ("pretraining", "mlm"):
        shapes |= {
            "cls.predictions.transform.dense.weight": (d, d),
            "cls.predictions.transform.dense.bias": (d,),
            "cls.predictions.transform.LayerNorm.weight": (d,),
            "cls.predictions.transform.LayerNorm.bias": (d,),
            "cls.predictions.bias": (v,),
        }
    if head in ("pretraining", "nsp"):
        shapes |= {"cls.seq_relationship.weight": (2, d), "cls.seq_relationship.bias": (2,)}
    if head in ("classes", "labels", "tokens", "score"):
        outputs = 1 if head == "score" else c
        shapes |= {"classifier.weight": (outputs, d), "classifier.bias": (outputs,)}
    if head == "spans":
        shapes |= {"qa_outputs.weight": (2, d), "qa_outputs.bias": (2,)}
    return shapes


def draw(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Random weights of these shapes."""
    random = np.random.default_rng(0)
    return {key: random.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}


def exported(
    to: Path, tokenizer: Path, format: str = "huggingface", name: str = "fnet", **changes: Any
) -> Path:
    """A folder as fourier_attn.export writes it: a network on reviews with random weights, changed or not."""
    c = family(name, "tiny", "reviews")
    c.model.update({"depth": 2, "d": 16, "emb": 16, "mlp": 24, "positions": 32, "types": 4})
    c.model.vocab = load_tokenizer(tokenizer).get_vocab_size()
    c.data.update({"length": 32, "buckets": (), "tokenizer": str(tokenizer)})
    if name == "fnet":
        c.model.mixer.padding = "tokens"
    if "length" in c.model.mixer:
        c.model.mixer.length = 32
    c.model.update(changes)
    weights = draw(architecture.parameters(c.model))
    params = traverse_util.unflatten_dict(jax.device_put(weights), sep="/")
    to.mkdir()
    name, kind = ("model.weights.h5", "h5") if format == "keras_hub" else ("model.safetensors", "safetensors")
    style = pretrained.save(to / name, c.model, params, kind)
    folder.describe(to, c, style, tokenizer, [])
    return to


def write_msgpack(path: Path, arrays: Mapping[str, np.ndarray], **others: Any) -> Path:
    """As flax.optim's optimizers were written: weights as "target", everything else beside them."""
    target = traverse_util.unflatten_dict(dict(arrays), sep="/")
    path.write_bytes(serialization.msgpack_serialize({**others, "target": target}))
    return path


def write_safetensors(path: Path, arrays: Mapping[str, np.ndarray], **metadata: Any) -> Path:
    """Written out, since the library does not write every dtype."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    kinds = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64", "int64": "I64"}
    start = 0
    for key, array in arrays.items():
        offsets = [start, start + array.nbytes]
        header[key] = {"dtype": kinds[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets}
        start += array.nbytes
    return write_raw(path, json.dumps(header), b"".join(array.tobytes() for array in arrays.values()))


def write_raw(path: Path, header: str | bytes, data: bytes = b"", length: int | None = None) -> Path:
    header = header.encode() if isinstance(header, str) else header
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)
    return path
