"""Files of `python -m fourier_attn.standalone`: they need JAX and Flax alone and compute the same."""

import ast
import re
import sys
import textwrap
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal, run_here

from fourier_attn.model import MIXERS
from fourier_attn.standalone import __main__ as command
from fourier_attn.standalone import standalone

GRID = {"grid": (3, 5)}
CAUSAL = {"causal": True}
CASES: dict[str, list[dict]] = {
    "attention": [{}, CAUSAL, {"heads": 2, "head_width": "split", "bias": True, "initializer": "torch"}],
    "circular": [
        {"heads": 2},
        {"heads": 2, "kernel": (3,), "boundary": "zero"} | CAUSAL,
        {"heads": 2, "kernel": (2, 3), "shape": (2, 5), "boundary": "valid", "combine_heads": "project"},
    ],
    "lambda": [
        {"heads": 2, "u": 2},
        {"heads": 5, "context": 4, "initializer": "uniform", "norm": "none"} | CAUSAL,
        {"context": 0, "length": 15},
        {"context": 0, "length": 17, "table": "pairs"},
        {"heads": 2, "u": 3} | GRID,
        {"context": 0} | GRID,
    ],
    "fourier": [
        {},
        {"lengths": (8, 15, 20), "norm": "tokens"},
        {"padding": "zero"},
        {"padding": "tokens"},
        GRID | {"features": False},
        GRID,
    ],
    "global_filter": [{"length": 15}, {"length": 12}, {"grid": (6, 10)}],
    "afno": [{"blocks": 2, "hidden": 2}, {"blocks": 5, "modes": 0.5, "threshold": 0.1}, {"blocks": 1} | GRID],
    "long_conv": [{}, {"length": 19} | CAUSAL, {"boundary": "circular"}, {"scan": "snake"} | GRID],
    "linear": [{"length": 15}, {"length": 17, "use_bias": True, "use_features": False} | CAUSAL],
    "random": [{"length": 17, "seed": 3}, {"length": 17, "padding": "tokens"} | CAUSAL],
    "identity": [{}],
    "token_conv": [{}, {"taps": 4} | CAUSAL, {"taps": 3} | GRID],
}


def written(name: str) -> type[nn.Module]:
    """The class that a standalone file defines."""
    space: dict = {"__name__": "standalone"}
    exec(compile(standalone(name), f"{name}.py", "exec", dont_inherit=True), space)
    return space[MIXERS[name].__name__]


@pytest.mark.parametrize("name", MIXERS)
def test_a_file_is_short_and_imports_jax_and_flax_alone(name: str) -> None:
    text = standalone(name)
    lines, tree = text.splitlines(), ast.parse(text)
    assert len(lines) <= 250
    assert max(map(len, lines)) <= 115
    imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {library.split(".")[0] for library in imported} - sys.stdlib_module_names <= {"jax", "flax"}
    [layer] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    fields = {node.target.id for node in layer.body if isinstance(node, ast.AnnAssign)}
    assert not fields & {"engine", "eval_engine", "prefer", "method", "implementation"}
    documented = ast.get_docstring(layer).partition("Args:\n")[2]
    for field in fields:
        assert re.search(rf"^  (\w+, )*{field}(, \w+)*: ", documented, re.MULTILINE), field
    assert not re.search(r"fourier_attn\.(ops|optics)|cursor|takes_arrays|wide\(", text)
    assert not re.search(r"\bengine|`method`", text.partition("\nimport ")[2])


@pytest.mark.parametrize(
    ("name", "fields"), [(name, fields) for name, cases in CASES.items() for fields in cases], ids=str
)
def test_a_file_computes_what_the_layer_does(name: str, fields: dict) -> None:
    """Parameters, outputs and gradients, with a mask and without."""
    same = {"method": "literal"} if name == "circular" else {}  # the form that the file has
    ours, theirs = MIXERS[name](**fields, **same), written(name)(**fields)
    t, d = 15, 10
    x, weights = normal(3, t, d), normal(3, t, d, seed=1)
    mask = jnp.arange(t)[None] < jnp.array([[t], [4], [11]])
    shapes = [jax.eval_shape(layer.init, jax.random.key(0), x) for layer in (ours, theirs)]
    assert shapes[0] == shapes[1]
    params = drawn(ours, x)

    def results(layer: nn.Module, given: jax.Array | None) -> tuple:
        def loss(params: dict, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            y = layer.apply(params, x, mask=given)
            real = y if given is None else jnp.where(given[..., None], y, 0)
            return jnp.sum(real * weights), real

        (_, y), slopes = jax.value_and_grad(loss, (0, 1), has_aux=True)(params, x)
        return y, slopes

    for given in (None,) if name == "fourier" and "grid" in fields else (None, mask):
        first, second = (jax.jit(partial(results, layer))(given) for layer in (ours, theirs))
        for a, b in zip(first, second, strict=True):  # outputs, then derivatives
            size = max(float(jnp.abs(leaf).max(initial=1)) for leaf in jax.tree.leaves(a))
            jax.tree.map(partial(np.testing.assert_allclose, rtol=0, atol=1e-6 * size), a, b)


@pytest.mark.parametrize("name", MIXERS)
def test_a_file_takes_masks_of_numpy_also_within_a_program(name: str) -> None:
    """Then the values of the mask are known, and those of the tokens are not."""
    fields = CASES[name][0]
    layer, x = written(name)(**fields), normal(2, 15, 10)
    mask = np.arange(15) < np.array([[15], [4]])
    params = drawn(layer, x)
    results = (
        layer.apply(params, x, mask=mask),
        *(jax.jit(lambda x, m=m: layer.apply(params, x, mask=m))(x) for m in (mask, jnp.asarray(mask))),
    )
    first, *others = (np.where(mask[..., None], y, 0) for y in results)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=0, atol=1e-6 * np.abs(first).max())


def test_a_file_computes_in_bfloat16_as_the_layer_does() -> None:
    """Without promotion of dtypes; they may differ by a few roundings, each of a relative size of 2^-9."""
    fields = {"heads": 5, "context": 4, "norm": "none", "dtype": jnp.dtype("bfloat16")} | CAUSAL
    ours, theirs = MIXERS["lambda"](**fields), written("lambda")(**fields)
    x = normal(3, 15, 10).astype(jnp.bfloat16)
    params = drawn(ours, x)
    first, second = (layer.apply(params, x) for layer in (ours, theirs))
    assert first.dtype == second.dtype == jnp.bfloat16
    first, second = (np.asarray(y, np.float32) for y in (first, second))
    np.testing.assert_allclose(first, second, rtol=0, atol=2**-6 * np.abs(first).max())


@pytest.mark.parametrize(
    "name", [name if name == "identity" else pytest.param(name, marks=pytest.mark.slow) for name in MIXERS]
)
def test_the_example_of_a_file_runs_and_starts_as_the_layer_does(name: str) -> None:
    text = standalone(name)
    space: dict = {"jax": jax, "jnp": jnp}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    example = text.split("\n\n")[2]
    assert example.startswith("    layer = ")
    exec(textwrap.dedent(example), space)
    assert space["y"].shape == (2, 16, 64)
    params = MIXERS[name]().init(jax.random.key(0), space["x"])
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), params, space["params"])


def test_the_command_prints_a_file_or_says_what_is_wrong() -> None:
    assert run_here(command, "token_conv", arguments=True) == (0, standalone("token_conv"), "")
    code, out, error = run_here(command, "lamda", arguments=True)
    assert (code, out) == (2, "")
    assert error.startswith("error: mixer='lamda' is unknown; did you mean lambda? Choose one of")
    assert error.count("\n") == 1
    code, out, error = run_here(command, arguments=True)
    assert (code, out) == (2, "")
    assert "name one mixer, not 0; choose one of attention" in error
