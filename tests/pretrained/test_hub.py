"""Weights by name, from a local server in the hub's layout, and without the network afterwards."""

import hashlib
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import published
import pytest
from conftest import configuration as load

from fourier_attn import hub, pretrained, train
from fourier_attn.data.text import load_tokenizer
from fourier_attn.inference.predictor import Predictor
from fourier_attn.train import init_from

constants = pytest.importorskip("huggingface_hub.constants")
COMMITS = {"main": "a" * 40, "old": "b" * 40}
Repositories = dict[str, dict[str, bytes]]  # name@commit -> file -> bytes


class Handler(BaseHTTPRequestHandler):
    """Serves repositories as the hub does."""

    repositories: Repositories
    asked: list[str]

    def do_HEAD(self) -> None:
        self.answer(send=False)

    def do_GET(self) -> None:
        self.answer(send=True)

    def answer(self, send: bool) -> None:
        parts = unquote(self.path.partition("?")[0]).strip("/").split("/")
        self.asked.append("/".join(parts))
        if len(parts) < 4:
            self.reply(404, b"", send)
            return
        api = parts[0] == "api"
        repo, what, revision, *rest = (
            ("/".join(parts[2:4]), *parts[4:]) if api else ("/".join(parts[:2]), *parts[2:])
        )
        commit = COMMITS.get(revision, revision)
        files = self.repositories.get(f"{repo}@{commit}")
        if files is None:
            known = any(name.startswith(f"{repo}@") for name in self.repositories)
            self.reply(404, b"", send, {"X-Error-Code": "RevisionNotFound" if known else "RepoNotFound"})
        elif api and what == "revision":
            facts = {"id": repo, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
            self.reply(200, json.dumps(facts).encode(), send)
        elif api:
            self.reply(200, json.dumps([entry(name, data) for name, data in files.items()]).encode(), send)
        else:
            name = "/".join(rest)
            headers = {"ETag": f'"{etag(name, files[name])}"', "X-Repo-Commit": commit}
            self.reply(200, files[name], send, headers)

    def reply(self, code: int, body: bytes, send: bool, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if send:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing."""


def etag(name: str, data: bytes) -> str:
    """Returns the hub's tag: the SHA-256 of a large file (LFS), git's hash of a small one."""
    digest = hashlib.sha256(data) if name.endswith(".safetensors") else hashlib.sha1(data)
    return digest.hexdigest()


def entry(name: str, data: bytes) -> dict[str, object]:
    large = {"lfs": {"oid": etag(name, data), "size": len(data), "pointerSize": 1}}
    found = {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
    return found | (large if name.endswith(".safetensors") else {})


@pytest.fixture
def server(
    tmp_path: Path, sentencepiece_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ThreadingHTTPServer]:
    sizes = {"v": load_tokenizer(sentencepiece_file).get_vocab_size(), "s": 40}
    arrays = published.draw(published.huggingface("pretraining", **sizes))
    weights = published.write_safetensors(tmp_path / "there.safetensors", arrays).read_bytes()
    text = b'{"hidden_dropout_prob": 0.2}'
    Handler.asked = []
    Handler.repositories = {
        f"who/fnet@{COMMITS['main']}": {
            "model.safetensors": weights,
            "config.json": text,
            "spiece.model": sentencepiece_file.read_bytes(),
            "pytorch_model.bin": b"a pickle",
            "modeling.py": b"raise SystemExit",
            "checkpoints/any.json": b"{}",
        },
        f"who/fnet@{COMMITS['old']}": {"model.safetensors": weights},
        f"who/pickled@{COMMITS['main']}": {"config.json": text, "pytorch_model.bin": b"a pickle"},
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    there = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", there)
    template = there + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_weights_are_fetched_once_and_pinned(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    """Only weights, tokenizers and JSON travel; later starts read the same bytes without the network."""
    folder, prints = hub.fetch("hf:who/fnet")
    served = Handler.repositories[f"who/fnet@{COMMITS['main']}"]
    expected = {"model.safetensors", "config.json", "spiece.model"}
    assert {path.name for path in folder.iterdir()} == expected
    assert prints == {"commit": "a" * 40} | {
        name: hashlib.sha256(served[name]).hexdigest() for name in expected
    }
    assert not [path for path in Handler.asked if path.endswith((".py", ".bin", "any.json"))]
    config, params = pretrained.load("hf:who/fnet")
    assert config.dropout == 0.2
    _, same = pretrained.load(tmp_path / "there.safetensors")
    np.testing.assert_array_equal(
        params["encoder"]["tokens"]["embedding"], same["encoder"]["tokens"]["embedding"]
    )
    assert hub.fetch("hf:who/fnet@old")[1].keys() == {"commit", "model.safetensors"}
    server.shutdown()
    server.server_close()
    asked = len(Handler.asked)
    assert hub.fetch("hf:who/fnet") == (folder, prints)
    assert hub.fetch(f"hf:who/fnet@{COMMITS['old']}")[0].name == COMMITS["old"]
    assert len(Handler.asked) == asked


@pytest.mark.parametrize("format", ["huggingface", "keras_hub"])
def test_a_predictor_is_loaded_by_name(
    format: str, server: ThreadingHTTPServer, sentencepiece_file: Path, tmp_path: Path
) -> None:
    """The answers are those of the folder itself, at a revision, too, and without the network afterwards."""
    if format == "keras_hub":
        pytest.importorskip("h5py")
    folder = published.exported(tmp_path / "out", sentencepiece_file, format)
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}
    Handler.repositories[f"who/reviews@{COMMITS['main']}"] = files
    Handler.repositories[f"who/reviews@{COMMITS['old']}"] = {"config.json": files["config.json"]}
    texts = ["The cats saw one red dog.", "zzz"]
    expected = Predictor.load(folder)(texts)
    assert expected[0].keys() >= {"label", "probabilities"}
    assert Predictor.load("hf:who/reviews")(texts) == expected
    with pytest.raises(ValueError, match="hf:who/reviews@old has no model.safetensors"):
        Predictor.load("hf:who/reviews@old")
    with pytest.raises(ValueError, match="config.json lacks the data part of a run"):
        Predictor.load("hf:who/fnet")  # published weights without a task
    server.shutdown()
    server.server_close()
    assert Predictor.load("hf:who/reviews")(texts) == expected


def test_a_run_starts_from_a_name(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    c = load("finetune", "reviews")
    c.init_from, c.init_padding = "hf:who/fnet", "zero"
    initial = init_from.load(c, tmp_path / "run")
    assert initial.fingerprints["commit"] == COMMITS["main"]
    assert initial.tokenizer
    assert initial.tokenizer.name == "spiece.model"
    assert initial.config.init_from == "hf:who/fnet"


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_run_records_its_weights(server: ThreadingHTTPServer, few_reviews: str, tmp_path: Path) -> None:
    """config.json has the commit and the sums; the finished run needs neither the hub nor its cache."""
    c = load("finetune", "reviews")
    c.init_from, c.init_padding, c.model.mixer.method = "hf:who/fnet", "zero", "matmul"
    c.data.dir, c.data.train_examples, c.train.epochs = few_reviews, 16, 1
    c.data.length, c.data.buckets = 40, ()
    result = train.run(c, tmp_path / "run")
    prints = json.loads((tmp_path / "run" / "config.json").read_text())["fingerprints"]["weights"]
    assert prints == hub.fetch("hf:who/fnet")[1]
    server.shutdown()
    server.server_close()
    shutil.rmtree(tmp_path / "cache")
    assert train.run(c, tmp_path / "run") == result


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:fnet", "is not a name of the hub; give hf:owner/name"),
        ("hf:who/../fnet", "is not a name of the hub"),
        ("hf:who/pickled", r"has no model.safetensors.*fourier_attn.pretrained.convert"),
        ("hf:who/nobody", "does not exist, or is private"),
        ("hf:who/fnet@next", "the revision next does not exist"),
    ],
)
def test_names_that_cannot_be_used(server: ThreadingHTTPServer, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pretrained.load(name)


def test_a_damaged_file_is_refused(server: ThreadingHTTPServer) -> None:
    folder, _ = hub.fetch("hf:who/fnet")
    file = (folder / "model.safetensors").resolve()
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match="is damaged: its SHA-256 is"):
        hub.fetch("hf:who/fnet")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        ValueError, match=r"needs the package huggingface_hub; run pip install -e '\.\[hub\]' in your"
    ):
        hub.local("hf:who/fnet")


def test_the_network_fails(server: ThreadingHTTPServer) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(ValueError, match="is not in the cache and cannot be downloaded"):
        hub.local("hf:who/fnet")
