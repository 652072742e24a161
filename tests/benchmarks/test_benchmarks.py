"""What benchmarks write, and how they race."""

import json
import os
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import run_here

from benchmarks.race import ENVIRONMENT, Step, race, started
from fourier_attn import provenance

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "results").glob("[!e]*/*.json"))


# Results


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_results_say_where_they_come_from(path: Path) -> None:
    document = json.loads(path.read_text())
    rows = document.get("rows") or document["blocks"]
    assert rows
    for holder in [document] if "command" in document else rows:
        assert holder.keys() >= {"command", "commit", "hardware", "versions", "date"}
        assert holder["commit"] is None or re.fullmatch(r"[0-9a-f]{40}\+?", holder["commit"])


def test_a_report_has_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import timing

    monkeypatch.setattr(timing, "RESULTS", tmp_path)
    rows = [{"what": "a / b"} | timing.compare({"a": [1.0, 2.0], "b": [3.0, 3.0]}, "a", "b")]
    timing.report("name", rows, peers=("scipy",), setting="alone")
    document = json.loads((tmp_path / "name-cpu.json").read_text())
    order = ["command", "commit", "hardware", "versions", "load", "date", "setting", "rows"]
    assert list(document) == order
    assert document["rows"][0]["times_faster"] == 2.25
    assert document["hardware"]["cores"] == len(os.sched_getaffinity(0))
    assert document["hardware"]["accelerator"] is None
    assert {"python", "jax", "jaxlib", "flax", "optax", "numpy", "scipy"} == document["versions"].keys()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["date"])


def test_a_backward_pass_has_the_result_and_the_gradients_of_the_chosen_arguments() -> None:
    from benchmarks.timing import random_cotangent, with_backward

    def function(x: jax.Array, n: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sin(x) * w * n.astype(x.dtype)

    arguments = (jnp.array([0.3, 0.5]), jnp.array(2, jnp.uint8), jnp.array([1.5, -1.0]))
    g = random_cotangent(function, *arguments)
    y, gradients = with_backward(function, by=(0, 2))(g, *arguments)
    np.testing.assert_array_equal(y, function(*arguments))
    expected = jax.grad(lambda *given: jnp.sum(g * function(*given)), (0, 2))(*arguments)
    for found, right in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-6)


def test_the_commit_says_whether_sources_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        program = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(program, check=True, capture_output=True, text=True).stdout.strip()

    source, result = tmp_path / "package" / "provenance.py", tmp_path / "results" / "a.json"
    for path in (source, result):
        path.parent.mkdir()
        path.write_text("1\n")
    monkeypatch.setattr(provenance, "__file__", str(source))
    assert provenance.commit() is None
    monkeypatch.setenv("FOURIER_ATTN_COMMIT", "c" * 40)
    assert provenance.commit() == "c" * 40
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    commit = git("rev-parse", "HEAD")
    result.write_text("2\n")
    assert provenance.commit() == commit
    source.write_text("2\n")
    assert provenance.commit() == commit + "+"


def test_a_command_names_no_place_of_this_machine() -> None:
    words = ["/usr/bin/python3", "-m", "a.b", "--dir=/home/x/data", "/tmp/runs/one", "--n=3", "a b"]
    assert provenance.command(words) == "python -m a.b --dir=.../data .../one --n=3 'a b'"
    assert provenance.command([*words[:3], "--to=/a/b,/c/d,e"]) == "python -m a.b --to=.../b,.../d,e"


# Races


def side(number: float) -> Step:
    """Returns its number, its process, and whether its environment is that of a race."""
    fits = all(os.environ.get(name) == value for name, value in ENVIRONMENT.items())
    return lambda: [np.array([number, os.getpid(), fits])]


def broken() -> Step:
    raise OSError("no such library")


@pytest.mark.slow
def test_each_side_has_a_process_of_its_own() -> None:
    with started({"a": partial(side, 1.0), "b": partial(side, 2.0)}) as sides:
        (a,), (b,) = sides["a"].result, sides["b"].result
        seconds = race(sides, rounds=3, calls=2)
        running = [side.process for side in sides.values()]
    assert (a[0], b[0], a[2], b[2]) == (1, 2, 1, 1)
    assert len({a[1], b[1], os.getpid()}) == 3
    assert [len(seconds[name]) for name in "ab"] == [3, 3]
    assert min(*seconds["a"], *seconds["b"]) > 0
    assert not any(process.is_alive() for process in running)
    assert os.environ.get("KMP_BLOCKTIME") is None


def test_a_side_that_fails() -> None:
    with pytest.raises(RuntimeError, match="the side 'b' has failed"), started({"b": broken}):
        pass


# The reviews


def test_reviews_resume_and_say_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import reviews

    trained = []

    def result(name: str, seed: int, folder: str) -> dict[str, Any]:
        trained.append(name)
        if name == "linear":
            raise ValueError("out of luck")
        return {"run": reviews.run_name(name, seed), "commit": reviews.COMMIT}

    def run(commit: str, *options: str) -> tuple[int, list[str]]:
        monkeypatch.setattr(reviews, "COMMIT", commit)
        trained.clear()
        code, _, _ = run_here(reviews, *options)
        return code, list(trained)

    monkeypatch.setattr(reviews, "RESULTS", tmp_path)
    monkeypatch.setattr(reviews, "result", result)
    sizes = {"train": 2, "validation": 2, "test": 2}
    monkeypatch.setattr(reviews.reviews.SyntheticReviews, "sizes", sizes)
    assert {"fnet", "identity", "optical_fnet"} < set(reviews.names())
    assert not {"pretrain", "finetune"} & set(reviews.names())
    code, first = run("a" * 40)
    assert code == 1  # linear
    assert {"fnet", "linear", "identity"} < set(first)
    assert not any(name.startswith("optical") for name in first)
    assert run("a" * 40) == (1, ["linear"])
    assert run("a" * 40, "--only=fnet", "--again") == (0, ["fnet"])
    assert run("b" * 40, "--only=fnet") == (0, ["fnet"])
    assert run("b" * 40, "--only=fnet", "--seeds=2") == (0, ["fnet"])  # seed 1
    for _ in range(2):
        assert run("c" * 40 + "+", "--only=fnet") == (0, ["fnet"])
