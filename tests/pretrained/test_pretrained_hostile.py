"""Files of weights from strangers: damaged, too large, or made to do harm. One ValueError refuses each."""

import gzip
import json
import lzma
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import published
import pytest
from published import write_raw as raw
from published import write_safetensors as safetensors

from fourier_attn import config, pretrained
from fourier_attn.layers.controls import Random
from fourier_attn.pretrained import architecture, files

Write = Callable[[Path], Any]


def google() -> dict[str, np.ndarray]:
    return published.draw(published.f_net("fourier", "attention"))


def tensor(shape: Any, offsets: Any, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HEADERS: dict[str, tuple[str, Write]] = {
    "empty": ("its header claims 0 bytes", lambda p: p.write_bytes(b"")),
    "too short": ("its header claims 2 bytes", lambda p: p.write_bytes(b"\x02\0\0")),
    "length bomb": ("claims 1152921504606846976 bytes", lambda p: raw(p, "{}", length=2**60)),
    "length beyond the file": ("its header claims 100 bytes", lambda p: raw(p, "{}", length=100)),
    "no JSON": ("invalid JSON", lambda p: raw(p, "[" * 10_000)),
    "nested": ("recursion limit", lambda p: raw(p, '{"a":' * 10_000)),
    "no UTF-8": ("invalid UTF-8", lambda p: raw(p, b"\xff\xfe{}")),
    "overlap": (
        "invalid offset for tensor `b`",
        lambda p: raw(p, json.dumps({"a": tensor([2], [0, 8]), "b": tensor([2], [4, 12])}), bytes(12)),
    ),
    "out of range": ("invalid offset", lambda p: raw(p, json.dumps({"a": tensor([2], [8, 16])}), bytes(8))),
    "backwards": ("invalid offset", lambda p: raw(p, json.dumps({"a": tensor([2], [8, 0])}), bytes(8))),
    "truncated": ("not fully covered", lambda p: raw(p, json.dumps({"a": tensor([4], [0, 16])}), bytes(15))),
    "trailing": ("not fully covered", lambda p: raw(p, json.dumps({"a": tensor([2], [0, 8])}), bytes(9))),
    "bytes and shape": ("invalid shape", lambda p: raw(p, json.dumps({"a": tensor([3], [0, 8])}), bytes(8))),
    "negative": ("`-2`", lambda p: raw(p, json.dumps({"a": tensor([-2], [0, 8])}), bytes(8))),
    "NaN": ("invalid JSON", lambda p: raw(p, json.dumps({"a": tensor([float("nan")], [0, 8])}), bytes(8))),
    "overflow": ("array is too big", lambda p: raw(p, json.dumps({"a": tensor([2**62, 0], [0, 0])}))),
    "axes": ("has more than 8 axes", lambda p: raw(p, json.dumps({"a": tensor([1] * 80, [0, 4])}), bytes(4))),
    "object": (
        "unknown variant `O`",
        lambda p: raw(p, json.dumps({"a": tensor([1], [0, 8], "O")}), bytes(8)),
    ),
    "metadata": ("expected a string", lambda p: raw(p, json.dumps({"__metadata__": {"config": {}}}))),
    "names": (
        "its names begin with ../../evil",
        lambda p: safetensors(p, {"../../evil": np.zeros(2, np.float32)}),
    ),
    "dtype": (
        "weight is float64",
        lambda p: safetensors(p, {k: np.zeros(shape) for k, shape in published.huggingface("mlm").items()}),
    ),
}


def ext(shape: Any, dtype: Any, data: Any, code: int = 1) -> msgpack.ExtType:
    return msgpack.ExtType(code, msgpack.packb((shape, dtype, data)))


def packed(value: Any) -> Write:
    return lambda p: p.write_bytes(msgpack.packb({"target": {"a": value}}))


BOMBS: dict[str, tuple[str, Write]] = {
    "empty": ("No more data", lambda p: p.write_bytes(b"")),
    "no dict": ("Unexpected type", lambda p: p.write_bytes(msgpack.packb([1, 2]))),
    "map of 2^32": ("No more data", lambda p: p.write_bytes(b"\xdf\xff\xff\xff\xff")),
    "array of 2^32": ("No more data", lambda p: p.write_bytes(b"\x81\xa6target\xdd\xff\xff\xff\xff")),
    "bytes of 2^32": ("No more data", lambda p: p.write_bytes(b"\x81\xa6target\xc6\xff\xff\xff\xff")),
    "ext of 2^32": (
        "after its end",
        lambda p: p.write_bytes(b"\x81\xa6target\x81\xa1a\xc9\xff\xff\xff\xff\x01"),
    ),
    "ext of 2^32 at the end": (
        "exceeds max_ext_len",
        lambda p: p.write_bytes(b"\x81\xa6target\x81\xa1a\xc9\xff\xff\xff\xff"),
    ),
    "nested dicts": ("StackError", lambda p: p.write_bytes(b"\x81\xa6target" + b"\x81\xa1a" * 100_000)),
    "nested lists": ("StackError", lambda p: p.write_bytes(b"\x81\xa6target" + b"\xdc\x03\xff" * 100_000)),
    "many lists": (
        "entries other than dicts",
        lambda p: p.write_bytes(msgpack.packb({"target": [[[]] * 500] * 500})),
    ),
    "trailing": (
        "it has 1 bytes after its end",
        lambda p: p.write_bytes(published.write_msgpack(p, google()).read_bytes() + b"\0"),
    ),
    "truncated": (
        "No more data",
        lambda p: p.write_bytes(published.write_msgpack(p, google()).read_bytes()[:-9]),
    ),
    "twice": ("'target' is a duplicate", lambda p: p.write_bytes(b"\x82\xa6target\x80\xa6target\x80")),
    "twice inside": (
        "an entry is a duplicate",
        lambda p: p.write_bytes(b"\x81\xa6target\x82\xa1a\x80\xa1a\x80"),
    ),
    "slash": (
        "its name is not valid",
        lambda p: p.write_bytes(msgpack.packb({"target": {"../a": ext([1], "float32", bytes(4))}})),
    ),
    "config is no text": (
        "'config' not a text",
        lambda p: p.write_bytes(msgpack.packb({"target": {}, "config": {"a": {}}})),
    ),
    "target is no tree": ("is not a tree", lambda p: p.write_bytes(msgpack.packb({"target": 3}))),
    "a number": ("'a' is not an array", packed(3)),
    "negative": ("the shape [-1]", packed(ext([-1], "float32", bytes(4)))),
    "NaN": ("the shape [nan]", packed(ext([float("nan")], "float32", bytes(4)))),
    "true": ("the shape [True]", packed(ext([True], "float32", bytes(4)))),
    "nested shape": ("entries other than", packed(ext([[1]], "float32", bytes(4)))),
    "huge shape": ("its number of bytes", packed(ext([2**40, 2**40], "float32", bytes(4)))),
    "bytes and shape": ("its number of bytes", packed(ext([2], "float32", bytes(4)))),
    "object": ("dtype object", packed(ext([1], "object", bytes(8)))),
    "float64": ("dtype float64", packed(ext([1], "float64", bytes(8)))),
    "dtype": ("dtype 3", packed(ext([1], 3, bytes(8)))),
    "no bytes": ("its number of bytes", packed(ext([1], "float32", "text"))),
    "other ext": ("unknown type 2", packed(ext([1], "float32", bytes(4), code=2))),
    "axes": ("an array has 70 axes", packed(ext([1] * 70, "float32", bytes(4)))),
    "pieces": (
        "its number of bytes",
        packed({files.CHUNKED: True, "shape": {"0": 9}, "chunks": {"0": ext([2], "float32", bytes(8))}}),
    ),
    "no pieces": ("lacks its shape", packed({files.CHUNKED: True, "shape": {"0": 0}, "chunks": {}})),
}


@pytest.mark.parametrize(
    ("name", "message", "make"),
    [
        *(("model.safetensors", *case) for case in HEADERS.values()),
        *(("f_net", *case) for case in BOMBS.values()),
    ],
    ids=[*(f"safetensors-{key}" for key in HEADERS), *(f"msgpack-{key}" for key in BOMBS)],
)
def test_hostile_files_are_refused_in_little_memory(
    name: str, message: str, make: Write, tmp_path: Path
) -> None:
    path = tmp_path / name
    make(path)
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"{path}") as caught:
        pretrained.load(path)
    assert tracemalloc.get_traced_memory()[1] < 2e7 + 3 * path.stat().st_size
    tracemalloc.stop()
    assert message in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_many_small_things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ENTRIES", 100)
    tree = {f"{i}": {f"{j}": {} for j in range(20)} for i in range(20)}
    (tmp_path / "f_net").write_bytes(msgpack.packb({"target": tree}))
    with pytest.raises(ValueError, match="it has more than 100 entries"):
        pretrained.load(tmp_path / "f_net")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path("evil").write_text, ("",)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pkl", "checkpoint"])
@pytest.mark.parametrize("folder", [True, False])
def test_pickles_are_not_opened(
    name: str, folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    protocol = None if name == "checkpoint" else 0  # a name says enough
    (tmp_path / name).write_bytes(pickle.dumps(Evil(), protocol))
    message = "lacks model.safetensors" if folder and name == "checkpoint" else "convert it to safetensors"
    with pytest.raises(ValueError, match=message):
        pretrained.load(tmp_path if folder else tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def npz(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, **{"head/kernel": array}, allow_pickle=True)


def zipped(path: Path, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"contents")


OTHERS: dict[str, tuple[str, Write]] = {
    "npz": (
        r"an .npz file with unknown names of arrays \(head/kernel",
        lambda p: npz(p, np.zeros((8, 3))),
    ),
    "objects": (
        "an .npz with Python objects, as a pickle, in the array .*kernel",
        lambda p: npz(p, np.array([{}], object)),
    ),
    "torch": ("a PyTorch file, a zip archive around a pickle", lambda p: zipped(p, "archive/data.pkl", "v")),
    "zip": ("a zip archive of model.safetensors; extract it", lambda p: zipped(p, "model.safetensors")),
    "cut zip": ("is a damaged zip archive", lambda p: p.write_bytes(b"PK\x03\x04" + bytes(99))),
    "pickle": ("is a pickle, which can execute any code", lambda p: p.write_bytes(pickle.dumps([1], 4))),
    "gzip": ("compressed with gzip; decompress it", lambda p: p.write_bytes(gzip.compress(b"{}", mtime=0))),
    "xz": ("compressed with xz; decompress it", lambda p: p.write_bytes(lzma.compress(b"{}"))),
    "npy": ("a single NumPy array; save all", lambda p: p.write_bytes(b"\x93NUMPY\x01\0" + bytes(99))),
    "lfs": ("git lfs pull", lambda p: p.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")),
    "page": ("is a web page; download the file itself", lambda p: p.write_bytes(b"\n<!DOCTYPE html>")),
    "json": ("is JSON, not weights", lambda p: p.write_bytes(b'{"weight_map": {}}')),
}


@pytest.mark.parametrize("name", ["model.safetensors", "f_net", "model.bin", "vit.npz"])
@pytest.mark.parametrize("kind", OTHERS)
def test_a_file_is_named_by_its_first_bytes(kind: str, name: str, tmp_path: Path) -> None:
    """Whatever it is called: the cure for a pickle is none for an archive of arrays."""
    message, make = OTHERS[kind]
    make(tmp_path / name)
    with pytest.raises(ValueError, match=message) as caught:
        pretrained.load(tmp_path / name)
    assert ("pickle" in str(caught.value)) == (kind in ("objects", "torch", "pickle"))


def test_weights_under_a_pickles_name_are_read(tmp_path: Path) -> None:
    """A header of 640 bytes begins as a pickle does, with 80 02."""
    path = published.write_msgpack(tmp_path / "f_net.bin", google())
    assert files.read(path).arrays.keys() == google().keys()
    text = json.dumps({"a": tensor([1], [0, 4])}).ljust(0x280)
    raw(tmp_path / "a.safetensors", text, bytes(4))
    assert (tmp_path / "a.safetensors").read_bytes().startswith(b"\x80\x02")
    assert list(files.read(tmp_path / "a.safetensors").arrays) == ["a"]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere is not a file; give a file of weights"):
        pretrained.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="lacks model.safetensors"):
        pretrained.load(tmp_path)


SETTINGS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "model has unknown keys: colour": lambda c: c.update(colour=1),
    "its parameters are not those": lambda c: c.pop("depth"),
    "model.mixer has unknown keys: taps": lambda c: c["mixer"].update(taps=3),
    "model.depth=2.0 has another type than": lambda c: c.update(depth=2.0),
    "model.depth=True has another type than": lambda c: c.update(depth=True),
    "model.d=None has another type than": lambda c: c.update(d=None),
    "model.norm_eps=inf has another type than": lambda c: c.update(norm_eps=float("inf")),
    "model.dropout='0.1' has another type": lambda c: c.update(dropout="0.1"),
    "model.layout=([],) has another type than": lambda c: c.update(layout=[[]]),
    "depth=90, too many for": lambda c: c.update(depth=90),
    "model.mixer.heads=1000000 exceeds": lambda c: c["mixer"].update(heads=10**6),
    "model.vocab=-1000000 exceeds": lambda c: c.update(vocab=-(10**6)),
    "model.vocab=1000000 exceeds": lambda c: c.update(inputs="patches", head="question", vocab=10**6),
    "model.vocab=-1 must be at least 1": lambda c: c.update(vocab=-1),
    "boundary='moebius'": lambda c: c["mixer"].update(boundary="moebius"),
    "preset='perpetual' is unknown": lambda c: c["mixer"].update(engine="perpetual"),
    "name='__import__' is unknown": lambda c: c["mixer"].update(name="__import__"),
    "name='os' is unknown": lambda c: c.update(others={"os": {}}),
    "head='tail' is unknown": lambda c: c.update(head="tail"),
    "output/bias has the shape (2,) instead of (3,)": lambda c: c.update(classes=3),
    "block_1/mixer/key is unknown": lambda c: c.update(depth=1),
    "cannot be read (KeyError": lambda c: c.clear(),
    "cannot be read": lambda c: c["mixer"].update(name=3),
    "model.mixer has unknown keys: boundary": lambda c: c["mixer"].update(name="lambda"),
}


def test_random_matrices_are_no_longer_than_the_positions(tmp_path: Path) -> None:
    """They are no weights, so that a small file could ask for any memory."""
    c = config.default("random").model
    c.update({"vocab": 5, "positions": 4, "depth": 1, "d": 4, "mlp": 6})
    c.mixer.length = 4
    arrays = published.draw(architecture.parameters(c))
    text = architecture.to_text(c)
    for length, message in (
        ("90", "random matrices have length=90, more than its positions=4"),
        ("null", "does not describe a model"),
    ):
        given = text.replace('"length": 4', f'"length": {length}')
        path = safetensors(tmp_path / f"{length}.safetensors", arrays, config=given)
        with pytest.raises(ValueError, match=message):
            pretrained.load(path)


def carried(path: Path, text: str) -> Path:
    """A file of a small model with this configuration."""
    arrays = published.draw(architecture.parameters(circular()))
    return safetensors(path, arrays, config=text)


def circular() -> Any:
    c = config.default("circular").model
    c.update({"vocab": 5, "positions": 4, "depth": 2, "d": 4, "mlp": 6})
    c.mixer.heads = 2
    return c


@pytest.mark.parametrize("message", SETTINGS)
def test_configurations_are_checked(message: str, tmp_path: Path) -> None:
    values = json.loads(architecture.to_text(circular()))
    path = tmp_path / "x.safetensors"
    SETTINGS[message](values)
    with pytest.raises(ValueError, match=f"{path}: ") as caught:
        pretrained.load(carried(path, json.dumps(values)))
    assert message in str(caught.value)


def test_an_option_that_a_file_lacks_has_its_default(tmp_path: Path) -> None:
    """As in a file that is older than the option."""
    values = json.loads(architecture.to_text(circular()))
    del values["norm_eps"], values["mixer"]["boundary"]
    model, _ = pretrained.load(carried(tmp_path / "x.safetensors", json.dumps(values)))
    assert model.to_dict() == circular().to_dict()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 99_999, "Recursion"),
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        (" " * 2**21, "characters"),
    ],
)
def test_configurations_that_are_no_json(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        pretrained.load(carried(tmp_path / "x.safetensors", text))


def test_own_names_without_a_configuration(tmp_path: Path) -> None:
    arrays = published.draw(architecture.parameters(circular()))
    with pytest.raises(ValueError, match="it has no configuration"):
        pretrained.load(safetensors(tmp_path / "x.safetensors", arrays))


@pytest.mark.parametrize("layout", [(), ("fourier", "random")])
def test_random_matrices_are_not_drawn_to_look_at_a_file(
    layout: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few weights may claim matrices of many."""

    def fail(*_: Any) -> None:
        raise AssertionError("drawn")

    monkeypatch.setattr(Random, "matrices", fail)
    c = config.default("random", others=("fourier",)).model
    c.update({"vocab": 5, "positions": 4, "depth": 2, "d": 4, "mlp": 6, "layout": layout})
    c.mixer.length = 4
    arrays = published.draw(architecture.parameters(c))
    path = safetensors(tmp_path / "x.safetensors", arrays, config=architecture.to_text(c))
    assert pretrained.load(path)[0] == c
