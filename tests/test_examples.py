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
SHOWN = [
    *((module, name) for module, name in PUBLIC if name not in EXEMPT),
    ("fourier_attn.optics.engine", "optical_dft2"),
    ("fourier_attn.optics.planner", "plan"),
    ("fourier_attn.optics.coherence", "modes"),
    ("fourier_attn.optics.channels", "detuning_error"),
    ("fourier_attn.optics.incoherent", "optical_incoherent_correlate"),
]


def test_what_needs_no_example_exists() -> None:
    """It is nothing that the packages export."""
    assert set(EXEMPT) <= {name for _, name in PUBLIC}
    assert not set(EXEMPT) & {*layers.__all__, *ops.__all__}


@pytest.mark.parametrize(("module", "name"), SHOWN, ids=lambda value: value.removeprefix("fourier_attn."))
def test_examples_are_so(module: str, name: str) -> None:
    there = vars(importlib.import_module(module))
    names = {"Engine": Engine, "jax": jax, "jnp": jnp} | there
    example = doctest.DocTestParser().get_doctest(there[name].__doc__, names, name, module, 0)
    assert example.examples, f"{module}.{name} has no example"
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert result.failed == 0, "".join(said)
