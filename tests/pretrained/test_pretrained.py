"""Names, configurations and numbers of weights that come in and go out."""

import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import published
import pytest
from flax import traverse_util

from fourier_attn import config, model, pretrained
from fourier_attn.optics import presets
from fourier_attn.pretrained import architecture, files, names

OF_ANY_MODEL = ("safetensors", "msgpack")
HYBRID = ("fourier", "attention", "linear", "fourier")


def settings(mixer: str = "fourier", others: tuple[str, ...] = (), **changes: Any) -> config.Config:
    """A small model."""
    c = config.default(mixer, others=others).model
    c.update({"vocab": 11, "positions": 8, "depth": 2, "d": 8, "mlp": 12} | changes)
    for part in (c.mixer, *c.others.values()):
        part.update({"length": 8} if "length" in part else {})
        part.update({"heads": 2} if "heads" in part else {})
    return c


def weights(c: config.Config) -> dict[str, Any]:
    arrays = published.draw(architecture.parameters(c))
    return traverse_util.unflatten_dict(jax.device_put(arrays), sep="/")


def flat(params: dict[str, Any]) -> dict[str, np.ndarray]:
    return {path: np.asarray(a) for path, a in traverse_util.flatten_dict(params, sep="/").items()}


def inferred(shapes: dict[str, tuple[int, ...]], head: str) -> config.Config:
    found = names.from_file(shapes, "f_net", head)
    own = {ours: name.restored(shapes[name.name]) for ours, name in found.items()}
    return architecture.inferred(own, head, "fourier", {})


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for path, array in one.items():
        assert array.dtype == other[path].dtype
        np.testing.assert_array_equal(array, other[path], err_msg=path)


def round_trip(c: config.Config, path: Path) -> str:
    params = weights(c)
    style = pretrained.save(path, c, params, path.suffix[1:])
    read, back = pretrained.load(path)
    assert read == c
    assert_same(flat(back), flat(params))
    return style


@pytest.mark.parametrize("suffix", OF_ANY_MODEL)
@pytest.mark.parametrize("mixer", model.MIXERS)
def test_every_mixer_comes_back(mixer: str, suffix: str, tmp_path: Path) -> None:
    assert round_trip(settings(mixer), tmp_path / f"x.{suffix}") == "fourier_attn"


@pytest.mark.parametrize("suffix", OF_ANY_MODEL)
@pytest.mark.parametrize(
    "changes",
    [
        {"layout": ("random", "lambda", "fourier"), "others": ("random", "lambda"), "depth": 3},
        {"mixer": "random", "others": ("attention",), "layout": ("attention", "random")},
        {"head": "spans", "emb": 5, "types": 3, "pooling": "first", "dtype": "bfloat16", "dropout": 0.3},
    ],
)
def test_layouts_and_knobs_come_back(changes: dict[str, Any], suffix: str, tmp_path: Path) -> None:
    assert round_trip(settings(**changes), tmp_path / f"x.{suffix}") == "fourier_attn"


@pytest.mark.parametrize(
    ("inputs", "changes"),
    [
        ({"inputs": "patches", "image": (8, 8, 1)}, {"vocab": 50_000, "positions": 4096, "types": 9_999}),
        ({"inputs": "tokens"}, {"image": (9_999, 9_999, 3), "patch": 9_999}),
    ],
)
def test_knobs_of_other_inputs_may_exceed_the_number_of_weights(
    inputs: dict[str, Any], changes: dict[str, Any], tmp_path: Path
) -> None:
    """They size no parameter: a run on images leaves the number of words at its default."""
    round_trip(settings("fourier", **inputs, **changes), tmp_path / "x.safetensors")


def test_engines_come_back(tmp_path: Path) -> None:
    c = config.default("circular", engine="hostile").model
    c.update({"vocab": 11, "positions": 8, "depth": 1, "mlp": 12, "d": 8})
    c.mixer.update({"shape": (4, 2), "kernel": (3, 1), "heads": 2, "eval_engine": "ideal"})
    c.mixer.engine.update({"shape": (4, 4), "modulator": {"phase_noise_rms": None}})
    round_trip(c, tmp_path / "x.safetensors")
    hybrid = settings("fourier", others=("circular",), layout=("fourier", "circular"), depth=2)
    for mixer, name in (("fourier", "eval_engine"), ("circular", "engine")):
        with hybrid.unlocked():
            engine = presets.preset("demonstrator_5x5").replace(shape=(4, 2))
            config.set_engine(model.mixers(hybrid)[mixer], mixer, engine, name)
    hybrid.others.circular.update({"shape": (4, 2), "kernel": (3, 1)})
    round_trip(hybrid, tmp_path / "hybrid.safetensors")
    values = json.loads(architecture.to_text(c))
    values["mixer"]["engine"] = {"shape": [4, 4], "adc_bits": 5, "seed": 2}
    shapes = architecture.parameters(c)
    engine = architecture.from_text(json.dumps(values), shapes).mixer.engine
    assert (engine.receiver.adc_bits, engine.device.seed, engine.modulator.compensated) == (5, 2, False)


@pytest.mark.parametrize(
    "layout", [("fourier", "fourier"), ("linear", "linear"), ("attention", "attention"), HYBRID], ids="-".join
)
@pytest.mark.parametrize(("mlm", "classes"), [(True, True), (True, False), (False, True), (False, False)])
def test_trees_of_the_papers_code(layout: tuple[str, ...], mlm: bool, classes: bool, tmp_path: Path) -> None:
    """Each is understood, has a configuration that fits, and comes out as it went in."""
    arrays = published.draw(published.f_net(*layout, mlm=mlm, classes=classes))
    path = published.write_msgpack(tmp_path / "f_net_checkpoint", arrays)
    c, params = pretrained.load(path)
    assert (c.layout or (c.mixer.name,) * c.depth) == layout
    sizes = {key: c[key] for key in ("vocab", "positions", "types", "emb", "d", "mlp", "depth")}
    assert list(sizes.values()) == [23, 9, 4, 6, 8, 12, len(layout)]
    heads = {(1, 1): "pretraining", (1, 0): "mlm", (0, 1): "classes", (0, 0): "features"}
    assert (c.head, c.pooling, c.norm_eps) == (heads[mlm, classes], "first", 1e-12)
    assert pretrained.save(tmp_path / "x.safetensors", c, params) == "fourier_attn"  # e is not d
    assert pretrained.save(tmp_path / "x.msgpack", c, params, "msgpack") == "f_net"
    assert_same(files.read(tmp_path / "x.msgpack").arrays, arrays)
    again, back = pretrained.load(tmp_path / "x.msgpack")
    assert again == c
    assert_same(flat(back), flat(params))


@pytest.mark.parametrize("head", [*names.HEADS])
def test_keys_of_hugging_face(head: str, tmp_path: Path) -> None:
    prefix = "" if head == "features" else "fnet."
    arrays = published.draw(published.huggingface(head, prefix=prefix))
    path = published.write_safetensors(tmp_path / "model.safetensors", arrays)
    c, params = pretrained.load(tmp_path, head=head if head in ("labels", "tokens") else None)
    assert (c.head, c.mixer.name, c.depth, c.emb, c.types) == (head, "fourier", 2, 8, 4)
    assert pretrained.save(tmp_path / "x.safetensors", c, params) == "huggingface"
    assert_same(files.read(tmp_path / "x.safetensors").arrays, files.read(path).arrays)
    assert pretrained.load(tmp_path / "x.safetensors")[0] == c


def test_both_publications_are_the_same_model(tmp_path: Path) -> None:
    """The table of names, against a conversion that is written out."""
    google = published.draw(published.f_net("fourier", e=8))
    path = published.write_msgpack(tmp_path / "checkpoint", google)
    c, params = pretrained.load(path)
    pretrained.save(tmp_path / "x.safetensors", c, params)
    theirs = files.read(tmp_path / "x.safetensors").arrays
    assert {key: array.shape for key, array in theirs.items()} == published.huggingface("pretraining", 1)
    for key, name, turn in (
        ("fnet.embeddings.position_embeddings.weight", "encoder/embedder/position/embedding", lambda x: x[0]),
        ("fnet.embeddings.projection.weight", "encoder/embedder/hidden_mapping_in/kernel", np.transpose),
        ("fnet.encoder.layer.0.output.dense.weight", "encoder/feed_forward_0/output/kernel", np.transpose),
        ("fnet.encoder.layer.0.output.LayerNorm.weight", "encoder/encoder_0/output_layer_norm/scale", None),
        ("cls.seq_relationship.weight", "classification/output_kernel", None),
        ("cls.predictions.bias", "predictions_output/output_bias", None),
    ):
        np.testing.assert_array_equal(theirs[key], google[name] if turn is None else turn(google[name]))


def norm(x: np.ndarray, p: dict[str, Any]) -> np.ndarray:
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12) * p["scale"] + p["bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def mixed(x: np.ndarray, e: dict[str, Any], i: int) -> np.ndarray:
    """What the block's mixer gives, for one sequence (t, d)."""
    if p := e.get(f"linear_transform_{i}"):
        return np.einsum("ij,jk,ni->nk", x, p["hidden_kernel"], p["seq_kernel"][: len(x), : len(x)])
    if p := e.get(f"self_attention_{i}"):
        q, k, v = (
            np.einsum("td,dhk->thk", x, p[n]["kernel"]) + p[n]["bias"] for n in ("query", "key", "value")
        )
        scores = np.exp(np.einsum("thk,shk->hts", q, k) / math.sqrt(q.shape[-1]))
        y = np.einsum("hts,shk->thk", scores / scores.sum(-1, keepdims=True), v)
        return np.einsum("thk,hkd->td", y, p["out"]["kernel"]) + p["out"]["bias"]
    return np.fft.fft2(x).real


def test_computes_what_the_papers_code_computes(tmp_path: Path) -> None:
    """All mixers, E != D, both heads, from the tree as it is published, in float64."""
    arrays = published.draw(published.f_net(*HYBRID))
    c, params = pretrained.load(published.write_msgpack(tmp_path / "checkpoint", arrays))
    tokens, types = np.array([3, 1, 22, 0, 7]), np.array([0, 3, 1, 2, 0])
    p = traverse_util.unflatten_dict({k: a.astype(np.float64) for k, a in arrays.items()}, sep="/")
    e, words = p["encoder"], p["encoder"]["embedder"]["word"]["embedding"]
    x = (
        words[tokens]
        + e["embedder"]["position"]["embedding"][0, :5]
        + e["embedder"]["type"]["embedding"][types]
    )
    dense = e["embedder"]["hidden_mapping_in"]
    x = norm(x, e["embedder"]["layer_norm"]) @ dense["kernel"] + dense["bias"]
    for i in range(4):
        x = norm(x + mixed(x, e, i), e[f"encoder_{i}"]["mixing_layer_norm"])
        one, two = e[f"feed_forward_{i}"]["intermediate"], e[f"feed_forward_{i}"]["output"]
        hidden = gelu(x @ one["kernel"] + one["bias"])
        x = norm(x + hidden @ two["kernel"] + two["bias"], e[f"encoder_{i}"]["output_layer_norm"])
    pooled = np.tanh(x[0] @ e["pooler"]["kernel"] + e["pooler"]["bias"])
    y = gelu(x @ p["predictions_dense"]["kernel"] + p["predictions_dense"]["bias"])
    mlm = norm(y, p["predictions_layer_norm"]) @ words.T + p["predictions_output"]["output_bias"]
    nsp = p["classification"]["output_kernel"] @ pooled + p["classification"]["output_bias"]
    ids = jnp.asarray(tokens[None], jnp.int32)
    ours = jax.jit(model.build(c).apply)({"params": params}, ids, types=jnp.asarray(types[None], jnp.int32))
    np.testing.assert_allclose(ours["mlm"][0], mlm, atol=1e-4)  # float32; logits of size 5
    np.testing.assert_allclose(ours["nsp"][0], nsp, atol=1e-5)


COUNTS = {  # encoder with its pooler; that and the heads of pretraining
    ("base", "fourier"): (82_861_056, 83_486_722),
    ("base", "hybrid"): (87_585_792, 88_211_458),
    ("base", "linear"): (93_084_672, 93_710_338),
    ("base", "attention"): (111_209_472, 111_835_138),
    ("large", "fourier"): (236_945_408, 238_031_106),
    ("large", "hybrid"): (245_342_208, 246_427_906),
    ("large", "linear"): (268_402_688, 269_488_386),
    ("large", "attention"): (337_707_008, 338_792_706),
}


@pytest.mark.parametrize(("size", "mixer"), COUNTS)
def test_parameter_counts(size: str, mixer: str) -> None:
    depth, d, f, h = {"base": (12, 768, 3072, 12), "large": (24, 1024, 4096, 16)}[size]
    top = ("fourier",) * (depth - 2) + ("attention",) * 2
    layout = top if mixer == "hybrid" else (mixer,) * depth
    shapes = published.f_net(*layout, v=32_000, s=512, e=d, d=d, f=f, h=h)
    heads = ("predictions_", "classification/")
    body = sum(math.prod(shape) for name, shape in shapes.items() if not name.startswith(heads))
    assert (body, sum(map(math.prod, shapes.values()))) == COUNTS[size, mixer]
    if size == "base":  # each mixer's tree is the model's at any size, as the tests above see
        found = architecture.parameters(inferred(shapes, "pretraining"))
        assert sum(map(math.prod, found.values())) == COUNTS[size, mixer][1]


@pytest.mark.parametrize("mixer", ["random", "identity"])
def test_mixers_without_parameters_are_told_apart_by_the_caller(mixer: str, tmp_path: Path) -> None:
    arrays = published.draw(published.f_net("fourier", "attention"))
    path = published.write_msgpack(tmp_path / "checkpoint", arrays)
    c, params = pretrained.load(path, mixer=mixer)
    assert (c.mixer.name, c.layout) == (mixer, (mixer, "attention"))
    assert pretrained.save(tmp_path / "x.msgpack", c, params, "msgpack") == "f_net"
    assert pretrained.load(tmp_path / "x.msgpack")[0] == c
    with pytest.raises(ValueError, match="mixer='fourier' contradicts its configuration"):
        pretrained.load(tmp_path / "x.msgpack", mixer="fourier")


@pytest.mark.parametrize(
    ("mixer", "changes"),
    [
        ("linear", {}),
        ("linear", {"use_features": False}),
        ("linear", {"use_bias": True}),
        ("fourier", {"grid": (2, 2)}),
    ],
)
@pytest.mark.parametrize("suffix", OF_ANY_MODEL)
def test_names_of_others_are_for_what_they_compute(
    mixer: str, changes: dict[str, Any], suffix: str, tmp_path: Path
) -> None:
    """A linear mixer with other parameters than the published one gets names of our own, and comes back."""
    c = settings(mixer, types=4, emb=8, pooling="first", activation="gelu", norm_eps=1e-12)
    c.mixer.update({"padding": "tokens"} | changes)
    plain = suffix == "msgpack" and not changes
    assert round_trip(c, tmp_path / f"x.{suffix}") == ("f_net" if plain else "fourier_attn")


def test_published_knobs() -> None:
    """Padding is tokens like any other; dropout is inside attention and after the MLP only."""
    c = inferred(published.f_net(*HYBRID), "pretraining")
    assert (c.dropout, c.mixer_dropout, c.token_dropout, c.activation) == (0.1, 0.0, 0.0, "gelu")
    assert (c.mixer.norm, c.mixer.padding, c.others.linear.padding) == ("none", "tokens", "tokens")
    attention = c.others.attention
    assert (attention.heads, attention.head_width, attention.bias, attention.dropout) == (
        2,
        "split",
        True,
        0.1,
    )
    assert c.others.linear.length == 9
