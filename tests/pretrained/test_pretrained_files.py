"""Files of weights as they come: low precision, prefixes, leftovers; damaged and hostile ones are refused."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import published
import pytest
from conftest import run_here
from flax import serialization, traverse_util

from fourier_attn import config, pretrained
from fourier_attn.pretrained import architecture, convert
from fourier_attn.pretrained.rewrite import rewrite

Arrays = dict[str, np.ndarray]


def google(**sizes: int) -> Arrays:
    return published.draw(published.f_net("fourier", "attention", **sizes))


def theirs(head: str = "mlm", **options: Any) -> Arrays:
    return published.draw(published.huggingface(head, **options))


def flat(params: Any) -> Arrays:
    return {path: np.asarray(a) for path, a in traverse_util.flatten_dict(params, sep="/").items()}


def assert_same(one: Any, other: Any) -> None:
    one, other = flat(one), flat(other)
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[path], other[path]) for path in one)


@pytest.fixture
def at(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_is_widened_exactly(dtype: str, at: Path) -> None:
    for key, arrays, write, path in (
        ("encoder/embedder/word/embedding", google(), published.write_msgpack, at.with_name("f_net")),
        ("fnet.embeddings.word_embeddings.weight", theirs(), published.write_safetensors, at),
    ):
        narrow = {name: array.astype(jnp.dtype(dtype)) for name, array in arrays.items()}
        params = flat(pretrained.load(write(path, narrow))[1])
        np.testing.assert_array_equal(params["encoder/tokens/embedding"], narrow[key].astype(np.float32))
        assert {array.dtype for array in params.values()} == {np.dtype("float32")}


def test_leftovers_of_hugging_face(at: Path) -> None:
    """Buffers and tied weights that are written twice are left out, and the report says so."""
    plain = theirs("pretraining")
    extras = {
        "fnet.embeddings.position_ids": np.arange(9)[None],
        "cls.predictions.decoder.weight": plain["fnet.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": plain["cls.predictions.bias"],
    }
    weights = pretrained.read(published.write_safetensors(at, plain | extras))
    assert all(key in weights.report() for key in extras)
    assert_same(weights.params, pretrained.load(published.write_safetensors(at, plain))[1])
    bias = plain.pop("cls.predictions.bias")  # what is tied may also be under the other name alone
    back = pretrained.load(published.write_safetensors(at, plain | {"cls.predictions.decoder.bias": bias}))[1]
    assert_same(back, weights.params)
    untied = {"cls.predictions.decoder.bias": bias + np.float32(1e-7), "cls.predictions.bias": bias}
    with pytest.raises(ValueError, match="decoder.bias differs from cls.predictions.bias, but FNet ties"):
        pretrained.load(published.write_safetensors(at, plain | untied))


def test_prefix_may_be_missing_but_not_twice(at: Path) -> None:
    bare = theirs("features", prefix="")
    c, params = pretrained.load(published.write_safetensors(at, bare))
    assert c.head == "features"
    assert_same(params, pretrained.load(published.write_safetensors(at, theirs("features")))[1])
    both = bare | {"fnet.pooler.dense.bias": bare["pooler.dense.bias"]}
    with pytest.raises(ValueError, match="pooler.dense.bias is a duplicate, with and without 'fnet.'"):
        pretrained.load(published.write_safetensors(at, both))


def test_optimizer_state_is_left_alone(tmp_path: Path) -> None:
    """Before or after the weights, and never in memory as a whole."""
    moments = {f"{n}": np.ones(100_000, np.float32) for n in range(20)}
    for name in ("state", "zstate"):  # Flax writes entries in the order of their names
        path = published.write_msgpack(tmp_path / name, google(), **{name: {"step": 3, "mu": moments}})
        assert (b"state" in path.read_bytes()[:10]) == (name == "state")
        tracemalloc.start()
        weights = pretrained.read(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 5e6  # the state has 8e6 bytes; 1 MiB is read at a time
        assert f"left out: {name}" in weights.report()
        assert_same(weights.params, pretrained.load(published.write_msgpack(path, google()))[1])
    path.write_bytes(serialization.msgpack_serialize(traverse_util.unflatten_dict(google(), sep="/")))
    assert_same(pretrained.load(path)[1], weights.params)  # without "target"


def test_large_arrays_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pretrained.load(published.write_msgpack(tmp_path / "whole", google()))[1]
    monkeypatch.setattr(serialization, "MAX_CHUNK_SIZE", 100)
    assert_same(pretrained.load(published.write_msgpack(tmp_path / "pieces", google()))[1], whole)


@pytest.mark.parametrize(
    ("outputs", "asked", "found"),
    [(3, None, "classes"), (3, "tokens", "tokens"), (1, None, "score"), (1, "classes", "classes")],
)
def test_what_a_classifier_is_for(outputs: int, asked: str | None, found: str, at: Path) -> None:
    weights = pretrained.read(published.write_safetensors(at, theirs("classes", c=outputs)), head=asked)
    assert weights.config.head == found
    assert ("assuming" in weights.report()) == (found == "classes" and asked is None)
    if found != "score":
        assert weights.config.classes == outputs


@pytest.mark.parametrize(
    ("beside", "head"),
    [("FNetForSequenceClassification", "classes"), ("FNetForTokenClassification", "tokens")],
)
def test_configuration_of_hugging_face(beside: str, head: str, at: Path) -> None:
    values = {
        "architectures": [beside],
        "hidden_act": "relu",
        "layer_norm_eps": 1e-5,
        "hidden_dropout_prob": 0,
    }
    at.with_name("config.json").write_text(json.dumps(values))
    c, _ = pretrained.load(published.write_safetensors(at, theirs("classes")))
    assert (c.head, c.activation, c.norm_eps, c.dropout) == (head, "relu", 1e-5, 0.0)


def test_exact_gelu_comes_and_goes(tmp_path: Path) -> None:
    """The head of a language model has it in the tanh form only: of theirs none other is read or written."""
    source, (one, other) = tmp_path / "model.safetensors", (tmp_path / "one", tmp_path / "other")
    for folder in (one, other):
        folder.mkdir()
    beside = {"architectures": ["FNetForSequenceClassification"], "hidden_act": "gelu"}
    source.with_name("config.json").write_text(json.dumps(beside))
    rewrite(published.write_safetensors(source, theirs("classes")), one / "model.safetensors")
    assert pretrained.load(one)[0].activation == "gelu_erf"
    assert json.loads((one / "config.json").read_text())["hidden_act"] == "gelu"
    source.with_name("config.json").write_text(json.dumps({"hidden_act": "gelu"}))
    with pytest.raises(ValueError, match="activation='gelu_erf' differs from that of its head 'mlm'"):
        pretrained.load(published.write_safetensors(source, theirs("mlm")))
    source.with_name("config.json").unlink()
    c, params = pretrained.load(source)
    c.activation = "gelu_erf"
    assert pretrained.save(other / "model.safetensors", c, params) == "fourier_attn"


@pytest.mark.parametrize(
    "text",
    ['{"hidden_act": "silu"}', '{"architectures": ["Bert"]}', "[" * 100_000, "[1]", '{"layer_norm_eps": []}'],
)
def test_configurations_that_are_none(text: str, at: Path) -> None:
    at.with_name("config.json").write_text(text)
    with pytest.raises(ValueError, match="config.json is not FNet's configuration"):
        pretrained.load(published.write_safetensors(at, theirs()))


CHANGES = {
    "is missing": lambda a: a.pop("encoder/pooler/bias"),
    "word/embedding is missing": lambda a: a.pop("encoder/embedder/word/embedding"),
    "no/such/thing is unknown": lambda a: a.update({"no/such/thing": a["predictions_dense/bias"]}),
    "position/embedding has the shape (9, 6)": lambda a: a.update(
        {"encoder/embedder/position/embedding": a["encoder/embedder/position/embedding"][0]}
    ),
    "has the shape (8,) instead of (12,)": lambda a: a.update(
        {"encoder/feed_forward_1/intermediate/bias": a["encoder/pooler/bias"]}
    ),
    "not numbered 0, 1, 2, ...: [0, 2]": lambda a: [
        a.update({key.replace("_1/", "_2/"): a.pop(key)}) for key in list(a) if "_1/" in key
    ],
    "has the parameters of two mixers": lambda a: a.update(
        {"encoder/linear_transform_1/seq_kernel": a["encoder/pooler/kernel"]}
    ),
    "classification/output_kernel has the shape": lambda a: a.update(
        {"classification/output_kernel": a["classification/output_kernel"].T}
    ),
    "names begin with x": lambda a: [a.update({f"x{key}": a.pop(key)}) for key in list(a)],
    "and 3 more": lambda a: a.update({f"no{n}": a["predictions_dense/bias"] for n in range(8)}),
}


@pytest.mark.parametrize("message", CHANGES)
def test_what_is_wrong_is_said(message: str, tmp_path: Path) -> None:
    arrays = google()
    CHANGES[message](arrays)
    path = published.write_msgpack(tmp_path / "checkpoint", arrays)
    with pytest.raises(ValueError, match="checkpoint: ") as caught:
        pretrained.load(path)
    assert message in str(caught.value)


def small(**changes: Any) -> tuple[Any, Any]:
    c = config.default("token_conv").model
    c.update({"vocab": 5, "positions": 4, "depth": 1, "d": 4, "mlp": 6} | changes)
    arrays = published.draw(architecture.parameters(c))
    return c, traverse_util.unflatten_dict(jax.device_put(arrays), sep="/")


def test_nothing_is_overwritten_and_nothing_left_half(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c, params = small()
    at.write_text("mine")
    with pytest.raises(ValueError, match="exists and is not overwritten"):
        pretrained.save(at, c, params)
    with pytest.raises(ValueError, match="x.safetensors cannot be written .*; give another file"):
        pretrained.save(at / "x.safetensors", c, params)
    with pytest.raises(ValueError, match="format='pickle' is unknown"):
        pretrained.save(at.with_name("x"), c, params, "pickle")
    with pytest.raises(ValueError, match="x.npz does not have the ending of msgpack; end it with .msgpack"):
        pretrained.save(at.with_name("x.npz"), c, params, "msgpack")

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        pretrained.save(at.with_name("x.safetensors"), c, params)
    assert [path.name for path in at.parent.iterdir()] == [at.name]
    assert at.read_text() == "mine"


def test_parameters_of_another_model_are_not_written(at: Path) -> None:
    c, params = small()
    with pytest.raises(ValueError, match=r"output/bias has the shape \(2,\) instead of \(3,\)"):
        pretrained.save(at, small(classes=3)[0], params)
    half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
    with pytest.raises(ValueError, match="is bfloat16"):
        pretrained.save(at, c, half)
    del params["encoder"]["block_0"]["mixer"]
    with pytest.raises(ValueError, match="mixer/filter is missing"):
        pretrained.save(at, c, params)
    assert not at.exists()


def test_arguments_that_contradict_the_file(at: Path, tmp_path: Path) -> None:
    pretrained.save(at, *small())
    with pytest.raises(ValueError, match="head='score' contradicts its configuration, head='classes'"):
        pretrained.load(at, head="score")
    for layout, mixer, message in (
        (("attention",), "random", "mixer='random' has no effect"),
        (("fourier",), "linear", "mixer='linear' has parameters"),
    ):
        path = published.write_msgpack(tmp_path / mixer, published.draw(published.f_net(*layout)))
        with pytest.raises(ValueError, match=message):
            pretrained.load(path, mixer=mixer)
    with pytest.raises(ValueError, match="head='spans' does not fit its parameters, which fit pretraining"):
        pretrained.load(path, head="spans")


def test_the_command_converts_and_reports(at: Path) -> None:
    source = published.write_msgpack(at.with_name("checkpoint"), google(e=8), state={"step": 1})

    options = [f"--source={source}", f"--to={at}", "--mixer=identity"]
    code, out, err = run_here(convert, *options)
    assert code == 0, err
    for line in (
        "architecture: 1 x identity, 1 x attention; head pretraining",
        "sizes: vocab 23, positions 9, types 4, emb 8, d 8, mlp 12, depth 2",
        f"parameters: {sum(a.size for a in google(e=8).values()):,}",
        "left out: state",
        f"written: {at}; names of fourier_attn",
    ):
        assert line in out
    assert pretrained.load(at)[0].mixer.name == "identity"


def test_a_folder_for_hugging_face_gets_its_configuration(tmp_path: Path) -> None:
    source = published.write_safetensors(tmp_path / "source.safetensors", theirs("mlm"))
    to = tmp_path / "folder" / "model.safetensors"
    rewrite(source, to)
    written = json.loads((tmp_path / "folder" / "config.json").read_text())
    assert written["architectures"] == ["FNetForMaskedLM"]
    assert (written["num_hidden_layers"], written["hidden_act"]) == (2, "gelu_new")
    assert_same(pretrained.load(tmp_path / "folder")[1], pretrained.load(source)[1])
    to.unlink()
    with pytest.raises(ValueError, match="config.json exists and is not overwritten"):
        rewrite(source, to)
    assert not to.exists()
    other = published.write_msgpack(tmp_path / "other", published.draw(published.f_net("attention")))
    rewrite(other, to)  # of names of our own, beside which nothing else is written
    assert json.loads((tmp_path / "folder" / "config.json").read_text()) == written
