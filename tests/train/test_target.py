"""Training steps compiled for devices that need not exist: shapes, counts, estimates and refusals."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT, run_here

from fourier_attn import config, data, family, main
from fourier_attn.data.expected import expected_batch, expected_lengths
from fourier_attn.train.distributed import sharding
from fourier_attn.train.target import devices, report, step
from fourier_attn.train.target.devices import parse
from fourier_attn.train.target.program import products
from fourier_attn.train.target.step import compiled_facts, scaled_facts

pytestmark = pytest.mark.usefixtures("standard_promotion")
SMALL = {"depth": 2, "d": 16, "mlp": 32, "positions": 16}


def small(task: str = "reviews", mixer: str = "fourier", **options: Any) -> config.Config:
    c = config.default(mixer, task)
    c.model.update(SMALL)
    c.data.length, c.data.buckets, c.data.batch, c.model.positions = 16, (), 8, 16
    c.data.update(options)
    return config.fit_length(c)


def run(*words: str) -> tuple[int, str, str]:
    """Runs the command in a process, which starts itself again."""
    program = [sys.executable, "-m", "fourier_attn.main", "--mode=compile", *words]
    variables = {key: os.environ[key] for key in os.environ if key not in ("XLA_FLAGS", "JAX_PLATFORMS")}
    variables["PYTHONPATH"] = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(program, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """Names a file of text, a table with classes, and one with numbers."""
    where, words = tmp_path_factory.mktemp("texts"), ["red", "blue", "cat", "dog", "house", "runs", "sees"]
    draw = np.random.default_rng(0)
    sentences = [" ".join(draw.choice(words, 12)) for _ in range(60)]
    (where / "a.txt").write_text("\n\n".join(sentences))
    for name, labels in (("b.csv", ["good", "bad"] * 30), ("c.csv", [f"{i / 7:.3f}" for i in range(60)])):
        rows = [f"{text},{label}" for text, label in zip(sentences, labels, strict=True)]
        (where / name).write_text("\n".join(["text,label", *rows]))
    return str(where / "a.txt"), str(where / "b.csv"), str(where / "c.csv")


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("reviews", {"train_examples": 96}),
        ("reviews", {"train_examples": 96, "masked": True}),
        ("recall", {"pairs": 3, "train_examples": 16}),
        ("compress", {"train_examples": 16}),
        ("lm", {"vocab": 60}),
        ("mlm", {"vocab": 60}),
        ("pretraining", {"vocab": 60}),
        ("files", {"vocab": 60, "labels": ("bad", "good")}),
        ("files", {"vocab": 60, "labels": ()}),
        pytest.param("shapes", {"mix": ""}, marks=pytest.mark.slow),
        pytest.param("shapes_patches", {}, marks=pytest.mark.slow),
    ],
)
def test_batches_expected_without_data_are_those_of_the_data(
    task: str, options: dict, tmp_path: Path, texts: tuple, few_reviews: str, few_shapes: str
) -> None:
    text, classes, _ = texts
    places = {"reviews": {"dir": few_reviews}, "files": {"train": classes}}
    places |= {name: {"corpora": (text,), "holdout": 0.2} for name in ("lm", "mlm", "pretraining")}
    places |= {name: {"dir": few_shapes, "length": 8} for name in ("shapes", "shapes_patches")}
    mixer = "attention" if task == "lm" else "fourier"
    c = small(task, mixer, **places.get(task, {}), **options)
    splits = data.load(c.data, directory=tmp_path)
    found = config.fitted_without_data(c)
    expected = expected_batch(found.data, found.model)
    given = splits.spec | {"index": ((), np.dtype("int32"))}  # JAX turns int64 into int32
    assert expected == given
    for name in ("inputs", "head", "classes", "image"):
        if name in splits.model:
            assert tuple(np.atleast_1d(found.model[name])) == tuple(np.atleast_1d(splits.model[name])), name
    if "vocab" in splits.model:
        assert found.model.vocab >= splits.model["vocab"]
    assert expected_lengths(c.data) == splits.lengths


def test_products_count_loops_platforms_and_convolutions() -> None:
    """2 m n k for each product; a loop as often as it runs; of a choice the platform's branch."""
    a, b = jnp.ones((2, 3)), jnp.ones((3, 3))
    image, kernel = jnp.ones((1, 6, 6, 4)), jnp.ones((3, 3, 4, 5), jnp.bfloat16)

    def program(a: jax.Array, b: jax.Array, flag: jax.Array) -> Any:
        looped, _ = jax.lax.scan(lambda x, _: (x @ b, None), a, length=7)
        chosen = jax.lax.platform_dependent(a, tpu=lambda x: x, default=lambda x: x @ b)
        either = jax.lax.cond(flag, lambda x: x @ b @ b, lambda x: x @ b, a)
        convolved = jax.lax.conv_general_dilated(
            image.astype(jnp.bfloat16), kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return looped, chosen, either, convolved

    jaxpr = jax.make_jaxpr(jax.jit(program))(a, b, True).jaxpr
    one = 2 * 2 * 3 * 3
    convolution = 2 * (4 * 4 * 5) * (3 * 3 * 4)
    assert products(jaxpr, "cpu") == {"float32": (7 + 1 + 1) * one, "bfloat16": convolution}
    assert products(jaxpr, "tpu") == {"float32": (7 + 1) * one, "bfloat16": convolution}


def test_the_lower_bound_is_that_of_the_roofline() -> None:
    target, d, gb = parse("h100:4"), 1e12, 1e9
    facts = {"flops bfloat16": 3 * d, "flops float32": d, "touched": 2 * gb}
    bound = report._bound(facts, target)  # the formula of the docstring
    assert bound["products_s"] == pytest.approx(3e12 / 989.4e12 + 1e12 / 494.7e12)
    assert bound["memory_s"] == pytest.approx(2e9 / 3.352e12)
    assert bound["bound_s"] == max(bound["products_s"], bound["memory_s"])
    assert report._bound(facts, parse("cpu:2")) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fnet", "hybrid"])
def test_scaled_blocks_equal_all_blocks(name: str) -> None:
    """Parameters, state and products are exact. Memory may differ by 5 %: the compiler orders each anew."""
    c = family.family(name, "tiny")
    c.model.depth, c.data.batch, c.data.length = 6, 8, 64
    if c.model.layout:
        c.model.layout = family.placed(6, 2, "mixed", "fourier")
    c = config.fitted_without_data(c)
    placement = sharding.here()
    whole, (scaled, blocks) = compiled_facts(c, placement), scaled_facts(c, placement)
    assert blocks < 6
    assert scaled.keys() == whole.keys()
    exact = {"parameters", "touched", "arguments", *(key for key in whole if key.startswith("flops "))}
    for key in exact:
        assert scaled[key] == whole[key], key
    assert scaled["temporary"] == pytest.approx(whole["temporary"], rel=0.05)


def test_the_report_agrees_with_the_state_of_a_run() -> None:
    c = small()
    found = report.compile_for(c, parse("cpu:1"), all_blocks=True)
    facts, network = found["facts"], config.fitted_without_data(c)
    count = facts["parameters"]
    assert facts["arguments"] == pytest.approx(16 * count, rel=0.02)  # weights, best weights, Adam's two
    assert found["needed"] > facts["arguments"]
    assert found["fits"]
    assert found["compiled_blocks"] == network.model.depth == 2
    assert report.lines(found, parse("cpu:1"))[-1].split() == ["verdict", "fits"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config=fnet:reviews"], "--mode=compile needs --target=DEVICES, for example --target=h100:4"),
        (["--target=cpu:2"], "--mode=compile needs --config=NAME:TASK, for example --config=fnet:imdb"),
        (
            ["--config=fnet:reviews", "--target=h200:4"],
            "--target='h200' is unknown; did you mean h100? Choose one of h100, v5e, v6e, cpu; write it like "
            "h100:4, v5e:2x2 or cpu:8",
        ),
        (
            ["--config=fnet:reviews", "--target=cpu:0"],
            "--target=cpu:0 is invalid; write it like h100:4, v5e:2x2 or cpu:8",
        ),
        (
            ["--config=fnet:reviews", "--target=v5e:4"],
            "--target=v5e:4 is invalid; write it like h100:4, v5e:2x2 or cpu:8",
        ),
        (
            ["--config=fnet:reviews", "--target=h100:4"],
            "--target=h100:4 needs jax-cuda13-plugin, which is not installed; run pip install -e "
            "'.[aot-cuda]' in your clone of fourier_attn",
        ),
        (
            ["--config=fnet:reviews", "--target=v5e:2x2"],
            "--target=v5e:2x2 needs libtpu, which is not installed; run pip install -e '.[aot-tpu]' in your "
            "clone of fourier_attn",
        ),
    ],
)
def test_bad_targets_are_one_line(words: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, out, error = run_here(main, "--mode=compile", *words)
    assert (code, out, error) == (2, "", f"error: {message}\n")


def test_a_target_needs_its_mode() -> None:
    code, _, error = run_here(main, "--config=fnet:reviews", "--target=cpu:2")
    assert (code, error) == (2, "error: --target needs --mode=compile; it is train\n")


def test_a_mesh_must_fit_the_target() -> None:
    c = small()
    c.train.mesh = "data=2"
    with pytest.raises(ValueError, match="train.mesh='data=2' needs 2 devices, but 1 are"):
        report.compile_for(c, parse("cpu:1"))


def test_more_gpus_than_a_machine_has_fill_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "check_compiler", lambda target: None)
    with pytest.raises(ValueError, match="--target=h100:12 must be at most 8 or a multiple of 8; change it"):
        devices.find_devices(parse("h100:12"))


@pytest.mark.slow
def test_two_virtual_devices_fit_or_do_not_fit(tmp_path: Path) -> None:
    """A batch of a million reviews does not fit into any machine that runs this."""
    toy = ["--config=fnet:reviews", "--target=cpu:2", "--config.model.depth=1"]
    code, out, error = run(*toy, f"--output={tmp_path / 'report.json'}")
    assert (code, error) == (0, ""), error
    found = json.loads((tmp_path / "report.json").read_text())
    assert out.splitlines()[-1].split() == ["verdict", "fits"]
    assert (found["fits"], found["mesh"]) == (True, "data 2")
    assert found["facts"]["all-reduce count"] > 0
    half = found["facts"]["arguments"] / (16 * found["facts"]["parameters"])
    assert 1.0 < half < 1.01, "each device has all parameters and half of the batch"

    code, out, error = run(*toy, "--config.data.batch=16777216")
    assert (code, error) == (2, ""), error
    assert "does not fit; reduce data.batch or data.length, or set train.remat=block" in out


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs the extra aot-tpu")
def test_a_slice_of_a_tpu() -> None:
    toy = ["--config=fnet:reviews", "--config.model.depth=1"]
    code, out, error = run(*toy, "--target=v5e:2x2")
    assert code == 0, error
    assert "mesh data 4" in out
    assert "ms a step" in out
    code, out, error = run(*toy, "--target=v5e:3x3")
    assert (code, out) == (2, "")
    assert error.splitlines()[-1] == "error: --target=v5e:3x3 is not a slice; write one like v5e:2x4"
    code, out, error = run(*toy, "--target=v5e:2x2", "--config.data.batch=1048576")
    assert code == 2, error
    assert "does not fit" in out


def test_memory_that_this_machine_lacks_says_nothing_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("Unable to allocate 8.00 GiB")

    monkeypatch.setattr(report, "compiled_facts", fail)
    with pytest.raises(
        MemoryError, match="this machine lacks the memory .*Unable to allocate .*; use one with more"
    ):
        report.compile_for(small(), parse("cpu:1"), all_blocks=True)


def test_a_compiler_without_memory_on_this_machine_refuses_nothing() -> None:
    class Traced:
        def lower(self) -> None:
            raise MemoryError("Unable to allocate 8.00 GiB")

    with pytest.raises(MemoryError, match="Unable to allocate"):
        step._compiled(Traced())
