"""Presets of Keras Hub's FNet, written by h5py in the layout of its sources; and HDF5 files that do harm."""

import json
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import published
import pytest
from conftest import configuration, run_here
from flax import traverse_util

from fourier_attn import pretrained
from fourier_attn.data.text import copy_tokenizer, load_tokenizer
from fourier_attn.family import family
from fourier_attn.inference import export
from fourier_attn.inference.predictor import Predictor
from fourier_attn.pretrained import architecture, convert, files
from fourier_attn.pretrained.rewrite import rewrite
from fourier_attn.train import init_from

h5py = pytest.importorskip("h5py")

Arrays = dict[str, np.ndarray]
SIZES = {
    "vocabulary_size": 23,
    "num_layers": 3,
    "hidden_dim": 8,
    "intermediate_dim": 12,
    "dropout": 0.2,
    "max_sequence_length": 9,
    "num_segments": 4,
}


def theirs(depth: int = 3) -> dict[str, tuple[int, ...]]:
    """The variables of FNetBackbone, layer by layer: their class, counted; vars/0, vars/1 in each."""
    v, _, d, f, _, s, t = SIZES.values()
    assert isinstance(d, int)
    shapes: dict[str, Any] = {
        "layers/reversible_embedding/vars/0": (v, d),
        "layers/position_embedding/vars/0": (s, d),
        "layers/embedding/vars/0": (t, d),
        "layers/layer_normalization/vars/0": (d,),
        "layers/layer_normalization/vars/1": (d,),
        "layers/dense/vars/0": (d, d),
        "layers/dense/vars/1": (d,),
        "layers/dense_1/vars/0": (d, d),
        "layers/dense_1/vars/1": (d,),
    }
    for i in range(depth):
        block = "layers/f_net_encoder" + (f"_{i}" if i else "")
        shapes |= {
            f"{block}/_{name}_layer_norm/vars/{n}": (d,) for name in ("mixing", "output") for n in (0, 1)
        }
        shapes |= {f"{block}/_intermediate_dense/vars/0": (d, f), f"{block}/_intermediate_dense/vars/1": (f,)}
        shapes |= {f"{block}/_output_dense/vars/0": (f, d), f"{block}/_output_dense/vars/1": (d,)}
    return shapes


CLASSIFIER = {"layers/dense/vars/0": (8, 3), "layers/dense/vars/1": (3,)}
MASKED_LM = {"layers/masked_lm_head/vars/0": (23,), "layers/masked_lm_head/_intermediate_dense/vars/1": (8,)}


def write(path: Path, arrays: Arrays, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array, **options)
    return path


def preset(folder: Path, head: str = "", **changes: Any) -> Arrays:
    """A preset; returns the arrays of its backbone."""
    arrays = published.draw(theirs())
    write(folder / "model.weights.h5", arrays)
    backbone = {"class_name": "FNetBackbone", "config": SIZES | changes}
    (folder / "config.json").write_text(json.dumps(backbone))
    if head:
        shapes = CLASSIFIER if head == "FNetTextClassifier" else MASKED_LM
        write(folder / "task.weights.h5", published.draw(shapes | {"optimizer/vars/0": ()}))
        task = {"class_name": head, "config": {"backbone": backbone}}
        (folder / "task.json").write_text(json.dumps(task))
    return arrays


def held(path: Path) -> Arrays:
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda key, entry: found.update({key: entry[()]}) if hasattr(entry, "shape") else None
        )
    return found


def same(one: Arrays, other: Arrays) -> None:
    assert one.keys() == other.keys()
    for key, array in one.items():
        assert array.dtype == other[key].dtype
        np.testing.assert_array_equal(array, other[key], err_msg=key)


def flat(params: Any) -> Arrays:
    return {path: np.asarray(a) for path, a in traverse_util.flatten_dict(params, sep="/").items()}


def test_a_backbone_has_the_weights_of_its_layers(tmp_path: Path) -> None:
    arrays = preset(tmp_path)
    c, params = pretrained.load(tmp_path)
    assert (c.head, c.depth, c.positions, c.types, c.activation) == ("features", 3, 9, 4, "gelu")
    assert (c.norm_eps, c.dropout, c.mixer.name, c.mixer.padding) == (1e-12, 0.2, "fourier", "tokens")
    encoder = params["encoder"]
    for ours, key in (
        (encoder["tokens"]["embedding"], "layers/reversible_embedding/vars/0"),
        (encoder["types"]["embedding"], "layers/embedding/vars/0"),
        (encoder["positions"], "layers/position_embedding/vars/0"),
        (encoder["projection"]["kernel"], "layers/dense/vars/0"),
        (params["pooler"]["kernel"], "layers/dense_1/vars/0"),
        (encoder["block_0"]["mixer_norm"]["scale"], "layers/f_net_encoder/_mixing_layer_norm/vars/0"),
        (encoder["block_2"]["mlp_norm"]["bias"], "layers/f_net_encoder_2/_output_layer_norm/vars/1"),
        (encoder["block_2"]["mlp_in"]["kernel"], "layers/f_net_encoder_2/_intermediate_dense/vars/0"),
    ):
        np.testing.assert_array_equal(ours, arrays[key], err_msg=key)


@pytest.mark.parametrize("head", ["", "FNetTextClassifier"])
def test_round_trips_are_bitwise(head: str, tmp_path: Path) -> None:
    """Keras's arrays as safetensors and back; and the safetensors from them again."""
    folders = [tmp_path / name for name in ("source", "middle", "back", "again")]
    for folder in folders:
        folder.mkdir()
    source, middle, back, again = folders
    preset(source, head)
    rewrite(source, middle / "model.safetensors")
    rewrite(middle, back / "model.weights.h5")
    rewrite(back, again / "model.safetensors")
    names = ["model.weights.h5", *(["task.weights.h5"] if head else [])]
    assert sorted(p.name for p in back.glob("*.h5")) == names
    for name in names:
        expected = {key: a for key, a in held(source / name).items() if not key.startswith("optimizer")}
        same(held(back / name), expected)
    one, other = (files.read(folder / "model.safetensors") for folder in (middle, again))
    same(other.arrays, one.arrays)
    assert other.config == one.config  # their order in the file is that of a hash table
    assert (again / "config.json").read_bytes() == (middle / "config.json").read_bytes()
    written = json.loads((back / "config.json").read_text())
    assert (written["class_name"], written["registered_name"]) == ("FNetBackbone", "keras_hub>FNetBackbone")
    assert written["config"].items() >= SIZES.items()
    if head:
        task = json.loads((back / "task.json").read_text())
        assert (task["class_name"], task["config"]["num_classes"]) == (head, 3)
        assert task["config"]["backbone"] == written


@pytest.mark.parametrize("head", ["tokens", "spans", "mlm", "nsp", "pretraining"])
def test_heads_of_transformers_alone(head: str) -> None:
    c = family("fnet", "tiny").model
    c.head, c.mixer.padding = head, "tokens"
    assert architecture.expressible(c, "huggingface")
    assert not architecture.expressible(c, "keras_hub")


def test_names_of_layers_are_written(tmp_path: Path) -> None:
    """As Keras writes them: each layer's own name is an attribute of its variables."""
    preset(tmp_path)
    (tmp_path / "to").mkdir()
    rewrite(tmp_path, tmp_path / "to" / "model.weights.h5")
    with h5py.File(tmp_path / "to" / "model.weights.h5") as file:
        for layer, name in (
            ("", "f_net_backbone"),
            ("layers/dense_1/", "pooled_dense"),
            ("layers/f_net_encoder/", "f_net_layer_0"),
            ("layers/f_net_encoder_2/_output_dense/", "output_dense"),
        ):
            assert file[f"{layer}vars"].attrs["name"] == name


def test_heads_that_keras_hub_lacks_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    arrays = published.draw(published.huggingface("pretraining"))
    source = published.write_safetensors(tmp_path / "source.safetensors", arrays)
    code, out, err = run_here(convert, f"--source={source}", f"--to={tmp_path / 'to' / 'model.weights.h5'}")
    assert code == 0, err
    assert "left out: head pretraining, which Keras Hub's FNet lacks" in out
    assert "names of keras_hub" in out
    c, params = pretrained.load(tmp_path / "to")
    assert c.head == "features"
    np.testing.assert_array_equal(params["pooler"]["kernel"], arrays["fnet.pooler.dense.weight"].T)


def test_a_masked_language_model_gives_its_backbone(tmp_path: Path) -> None:
    preset(tmp_path, "FNetMaskedLM")
    weights = pretrained.read(tmp_path)
    assert weights.config.head == "features"
    assert "left out: task.weights.h5:layers/masked_lm_head, task.weights.h5:optimizer" in weights.report()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_is_widened_exactly(dtype: str, tmp_path: Path) -> None:
    """h5py has no bfloat16: Keras writes two bytes without a kind."""
    narrow = {key: array.astype(dtype) for key, array in published.draw(theirs()).items()}
    stored = {key: a.view("V2") if dtype == "bfloat16" else a for key, a in narrow.items()}
    write(tmp_path / "x.weights.h5", stored)
    _, params = pretrained.load(tmp_path / "x.weights.h5")
    table = narrow["layers/reversible_embedding/vars/0"].astype(np.float32)
    np.testing.assert_array_equal(params["encoder"]["tokens"]["embedding"], table)


def test_other_ways_to_store_the_same(tmp_path: Path) -> None:
    """Packed with gzip; and under the name that the layers had in Keras 2."""
    arrays = preset(tmp_path)
    expected = flat(pretrained.load(tmp_path)[1])
    matrices = {key: a for key, a in arrays.items() if a.ndim == 2}
    path = write(tmp_path / "x.weights.h5", matrices, compression="gzip")
    with h5py.File(path, "a") as file:
        for key in arrays.keys() - matrices.keys():
            file[key] = arrays[key]
    same(flat(pretrained.load(path)[1]), expected)
    with h5py.File(path, "a") as file:
        file.move("layers", "_layer_checkpoint_dependencies")
    same(flat(pretrained.load(path)[1]), expected)


def changed(**values: Any) -> Callable[[Path], Any]:
    return lambda folder: preset(folder, **values)


def tasked(**values: Any) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        preset(folder, "FNetTextClassifier")
        (folder / "task.json").write_text(json.dumps({"class_name": "FNetTextClassifier", "config": values}))

    return make


def lacking(folder: Path) -> None:
    arrays = preset(folder)
    del arrays["layers/f_net_encoder/_output_dense/vars/1"]
    write(folder / "model.weights.h5", arrays)


def other(text: str) -> Callable[[Path], Any]:
    return lambda folder: (preset(folder), (folder / "config.json").write_text(text))


WRONG: dict[str, Callable[[Path], Any]] = {
    "layers/f_net_encoder/_output_dense/vars/1 is missing": lacking,
    "layers/f_net_encoder_2/_output_dense/vars/0 is unknown": changed(num_layers=2),
    "layers/position_embedding/vars/0 has the shape (9, 8) instead of (16, 8)": changed(
        max_sequence_length=16
    ),
    "config.json is not of Keras Hub's FNet (TypeError": changed(hidden_dim=None),
    "config.json is not of Keras Hub's FNet (ValueError: its class is 'BertBackbone')": other(
        '{"class_name": "BertBackbone", "config": {}}'
    ),
    "config.json is not of Keras Hub's FNet (JSONDecodeError": other("{"),
    "config.json is not of Keras Hub's FNet (RecursionError": other("[" * 100_000),
    "task.json is not of Keras Hub's FNet (ValueError: activation='relu'": tasked(activation="relu"),
}


@pytest.mark.parametrize("message", WRONG)
def test_presets_that_are_wrong(message: str, tmp_path: Path) -> None:
    WRONG[message](tmp_path)
    with pytest.raises(ValueError, match=re.escape(message)):
        pretrained.load(tmp_path)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    preset(tmp_path, "FNetTextClassifier")
    c, params = pretrained.load(tmp_path)
    (tmp_path / "to").mkdir()
    to = tmp_path / "to"
    with pytest.raises(ValueError, match=r"x.h5 does not have the ending of h5; end it with .weights.h5"):
        rewrite(tmp_path, to / "x.h5")
    with pytest.raises(ValueError, match=r"a classifier needs two files, .*; give the name model.weights.h5"):
        pretrained.save(to / "x.weights.h5", c, params, "h5")
    (to / "task.weights.h5").write_text("mine")
    with pytest.raises(ValueError, match=r"task.weights.h5 exists and is not overwritten"):
        pretrained.save(to / "model.weights.h5", c, params, "h5")
    for change in ({"activation": "gelu_erf"}, {"norm_eps": 1e-5}, {"mixer": {"padding": "invariant"}}):
        other = c.copy_and_resolve_references()
        other.update(change)
        with pytest.raises(ValueError, match="Keras Hub only has FNet as published"):
            pretrained.save(to / "model.weights.h5", other, params, "h5")
    assert [path.name for path in to.iterdir()] == ["task.weights.h5"]


def test_a_run_starts_from_a_preset(tmp_path: Path, sentencepiece_file: Path) -> None:
    """With the tokenizer in its assets; its tokenizer.json is Keras's own."""
    vocab = load_tokenizer(sentencepiece_file).get_vocab_size()
    shapes = theirs() | {"layers/reversible_embedding/vars/0": (vocab, 8)}
    write(tmp_path / "model.weights.h5", published.draw(shapes))
    (tmp_path / "tokenizer.json").write_text('{"class_name": "FNetTokenizer"}')
    c = configuration("finetune", "reviews")
    c.init_from, c.init_padding, c.data.length, c.data.buckets = str(tmp_path), "zero", 9, ()
    with pytest.raises(ValueError, match="tokenizer.json cannot be used"):
        load_tokenizer(init_from.load(c, tmp_path / "run").tokenizer)
    (tmp_path / "assets" / "tokenizer").mkdir(parents=True)
    asset = tmp_path / "assets" / "tokenizer" / "vocabulary.spm"
    asset.write_bytes(sentencepiece_file.read_bytes())
    initial = init_from.load(c, tmp_path / "run")
    assert initial.tokenizer == asset
    assert load_tokenizer(asset).get_vocab_size() == initial.config.model.vocab == vocab
    copy_tokenizer(asset, tmp_path)
    assert (tmp_path / "tokenizer.model").read_bytes() == asset.read_bytes()


def test_an_exported_preset_is_loaded_back(tmp_path: Path, sentencepiece_file: Path) -> None:
    """With the labels and the tokenizer of the run, where Keras Hub's classes look for it."""
    plain = published.exported(tmp_path / "plain", sentencepiece_file)
    export.export(plain, tmp_path / "preset", "keras_hub")
    names = {path.relative_to(tmp_path / "preset").as_posix() for path in (tmp_path / "preset").rglob("*.*")}
    assert names == {
        "README.md",
        "assets/tokenizer/vocabulary.spm",
        "config.json",
        "model.weights.h5",
        "preprocessor.json",
        "task.json",
        "task.weights.h5",
        "tokenizer.json",
    }
    tokenizer = json.loads((tmp_path / "preset" / "tokenizer.json").read_text())
    assert tokenizer["registered_name"] == "keras_hub>FNetTokenizer"
    texts = ["The cats saw one red dog.", "zzz"]
    assert Predictor.load(tmp_path / "preset")(texts) == Predictor.load(plain)(texts)
    (tmp_path / "preset" / "assets" / "tokenizer" / "vocabulary.spm").write_bytes(b"other")
    with pytest.raises(ValueError, match="vocabulary.spm has changed since the export"):
        Predictor.load(tmp_path / "preset")


def test_a_network_that_keras_hub_lacks_is_not_exported(tmp_path: Path, sentencepiece_file: Path) -> None:
    plain = published.exported(tmp_path / "plain", sentencepiece_file, mixer={"padding": "invariant"})
    with pytest.raises(ValueError, match=r"with padding as tokens \(--config.model.mixer.padding=tokens\)"):
        export.export(plain, tmp_path / "preset", "keras_hub")
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ValueError, match=r"needs the package h5py; run pip install -e '\.\[keras\]' in your"):
        pretrained.load(tmp_path)


def group(make: Callable[[Any], Any], start: str = "w") -> Callable[[Path], Any]:
    def write(path: Path) -> None:
        with h5py.File(path, start) as file:
            make(file)

    return write


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("/etc/hostname", "x", (4,))
    file.create_virtual_dataset("layers/x", layout)


def aliases(file: Any) -> None:
    file["layers/x"] = np.ones(50_000, np.float32)
    for n in range(200):
        file[f"layers/{n}"] = file["layers/x"]


def cycle(file: Any) -> None:
    file.create_group("layers")
    file["layers/again"] = file["layers"]


def cut(path: Path) -> None:
    write(path, published.draw(theirs()))
    path.write_bytes(path.read_bytes()[:-900])


HUGE = (2**20, 2**20)
HOSTILE: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "external link": (
        "is a link, which",
        group(lambda f: f.__setitem__("layers/x", h5py.ExternalLink("/etc/passwd", "/"))),
    ),
    "soft link": ("is a link, which", group(lambda f: f.__setitem__("layers/x", h5py.SoftLink("/")))),
    "external storage": (
        "is stored in other files",
        group(lambda f: f.create_dataset("layers/x", (4,), "f4", external=[("/etc/hostname", 0, 16)])),
    ),
    "virtual": ("is stored in other files", group(virtual)),
    "texts": ("has dtype object", group(lambda f: f.__setitem__("layers/x", ["a", "text"]))),
    "records": ("arrays are float16", group(lambda f: f.create_dataset("layers/x", (4,), "f4,i4"))),
    "opaque": ("has dtype |V8", group(lambda f: f.__setitem__("layers/x", np.zeros(2, "V8")))),
    "quantised": ("has dtype int8", group(lambda f: f.__setitem__("layers/x", np.zeros(2, "i1")))),
    "without a shape": ("x' has no shape", group(lambda f: f.__setitem__("layers/x", h5py.Empty("f4")))),
    "kind": ("is neither a group nor an array", group(lambda f: f.__setitem__("layers/x", np.dtype("f4")))),
    "filter": (
        "not compressed with gzip",
        group(lambda f: f.create_dataset("layers/x", (64,), "f4", compression="lzf", chunks=(8,))),
    ),
    "shuffle": (
        "not compressed with gzip",
        group(lambda f: f.create_dataset("x", (64,), "f4", shuffle=True)),
    ),
    "never written": (
        f"claims {4 * 2**40} bytes, but has 0",
        group(lambda f: f.create_dataset("layers/x", HUGE, "f4", chunks=(64, 64))),
    ),
    "gzip that was never written": (
        f"claims {4 * 2**40} bytes, but has 0",
        group(lambda f: f.create_dataset("layers/x", HUGE, "f4", compression="gzip", chunks=(64, 64))),
    ),
    "gzip bomb": (
        "claims 40000000 bytes, but has",
        group(lambda f: f.create_dataset("x", data=np.zeros(10**7, np.float32), compression="gzip")),
    ),
    "huge chunk": (
        "claims 400000000 bytes, but has 0",
        group(
            lambda f: f.create_dataset("x", (4,), "f4", maxshape=(None,), chunks=(10**8,), compression="gzip")
        ),
    ),
    "many names of one": ("its arrays claim 40200000 bytes", group(aliases)),
    "cycle": ("nested more than 16 deep", group(cycle)),
    "axes": ("more than 8 axes", group(lambda f: f.__setitem__("x", np.zeros((1,) * 9, np.float32)))),
    "cut": ("truncated file", cut),
    "only the first bytes": ("is damaged", lambda p: p.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(99))),
    "of another": (
        "it is an HDF5 file of temperature,",
        group(lambda f: f.__setitem__("temperature", [1.0])),
    ),
    "empty": ("it is an HDF5 file of nothing,", group(lambda f: None)),
    "another network": (
        "it has no weights of FNet or of this project",
        group(lambda f: f.__setitem__("layers/bert/vars/0", [1.0])),
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused_in_little_memory(kind: str, tmp_path: Path) -> None:
    message, make = HOSTILE[kind]
    path = tmp_path / "model.weights.h5"
    make(path)
    tracemalloc.start()
    with pytest.raises(ValueError, match=re.escape(f"{path}")) as caught:
        pretrained.load(path)
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()
    assert message in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_many_small_things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourier_attn.pretrained.hdf5.ENTRIES", 100)
    group(lambda f: [f.create_group(f"layers/{n}") for n in range(200)])(tmp_path / "x.weights.h5")
    with pytest.raises(ValueError, match="it has more than 100 entries"):
        pretrained.load(tmp_path / "x.weights.h5")
