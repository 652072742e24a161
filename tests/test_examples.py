"""Docstrings of what users call have an example that is so."""

import doctest
import importlib
import inspect

import jax
import jax.numpy as jnp
import pytest
from conftest import ROOT

from fourier_attn import layers, ops
from fourier_attn.optics import Engine

WITHOUT = {
    "Diagonal Draws Sizes Problem Group sizes": "parts of ops.blockwise_attention.attend",
    "queries_per_step by_rows softmax average average_by_rows": "parts of ops.attention, which takes rows",
    "shared_average shared_average_by_rows best_form": "parts of ops.attention",
    "reverse_only not_differentiable": "nothing but refusals of derivatives",
    "Shared mix_shared": "of layers whose tokens devices share",
    "best_method by_platform": "what is fastest where: measured, and tested with the forms",
    "batchwise matrix_dot_general": "for those who build ops and layers: devices, Flax's dense layers",
    "check check_causal": "nothing but refusals",
    "with_positions": "a part of both embeddings",
    "Inside inspect attention_maps": "of a whole network: notebooks/images.ipynb",
    "Watch OnEngine": "parts of layers on engines",
    "norm_with": "a part of the encoder",
    "Cursor keep keep_last mix": "of layers in a network that continues a text: docs/extending.md",
    "from_model from_data from_run how_computed not_an_option": "of a layer's fields: docs/extending.md",
    "Source options named source engines on_engines dtype_of": "what the declarations of fields say",
}


def public(room: str) -> list[tuple[str, str]]:
    """Module and name of all functions and classes of a room that are no module's own affair."""
    found = []
    for file in sorted((ROOT / "fourier_attn" / room).glob("[!_]*.py")):
        module = importlib.import_module(f"fourier_attn.{room}.{file.stem}")
        shown = [item for item in vars(module).items() if inspect.isclass(item[1]) or callable(item[1])]
        own = [name for name, it in shown if getattr(it, "__module__", "") == module.__name__]
        found += [(module.__name__, name) for name in own if not name.startswith("_")]
    return found


PUBLIC = [*public("ops"), *public("layers")]
EXEMPT = " ".join(WITHOUT).split()
ENGINES = [
    ("fourier_attn.optics.engine", "optical_dft2"),
    ("fourier_attn.optics.planner", "plan"),
    ("fourier_attn.optics.coherence", "modes"),
    ("fourier_attn.optics.channels", "detuning_error"),
    ("fourier_attn.optics.incoherent", "optical_incoherent_correlate"),
]
WITH_EXAMPLES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for file in sorted((ROOT / "fourier_attn").rglob("*.py"))
    if ">>> " in file.read_text()
]


def test_what_needs_no_example_exists() -> None:
    """It is nothing that the packages export."""
    assert set(EXEMPT) <= {name for _, name in PUBLIC}
    assert not set(EXEMPT) & {*layers.__all__, *ops.__all__}


def test_what_users_call_has_an_example() -> None:
    for module, name in (*PUBLIC, *ENGINES):
        if name not in EXEMPT:
            assert ">>> " in str(vars(importlib.import_module(module))[name].__doc__), f"{module}.{name}"


@pytest.mark.parametrize("name", WITH_EXAMPLES, ids=lambda name: name.removeprefix("fourier_attn."))
def test_examples_are_so(name: str) -> None:
    """In JAX as it is for a user, without the strict promotion of the other tests."""
    module = importlib.import_module(name)
    names = {"Engine": Engine, "jax": jax, "jnp": jnp} | vars(module)
    tests = [each for each in doctest.DocTestFinder().find(module, globs=names) if each.examples]
    assert tests, f"{name} has no example in a docstring"
    for test in tests:
        said: list[str] = []
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        assert result.failed == 0, "".join(said)
