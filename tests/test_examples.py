"""Docstrings of what users call have an example that is so."""

import doctest
import importlib

import jax
import jax.numpy as jnp
import pytest

from fourier_attn.model import EMBEDDINGS, MIXERS
from fourier_attn.optics import Engine

OPS = {
    "afno": ("spectral_mlp",),
    "attention": ("attention", "shared_attention"),
    "circular": ("circular_correlate", "circular_attention"),
    "fourier": ("fourier_mix", "fourier_mix_grid"),
    "global_filter": ("global_filter", "resample_filter"),
    "lambdas": ("content_lambda", "causal_content_lambda", "lambda_layer"),
    "long_conv": ("long_convolve",),
    "patches": ("grid_of_patches", "patches", "fold"),
    "positions": ("places", "sines", "sinusoids", "rotate"),
    "tokens": ("token_convolve",),
}
SHOWN = [
    *((f"fourier_attn.ops.{module}", name) for module, names in OPS.items() for name in names),
    *((layer.__module__, layer.__name__) for layer in [*MIXERS.values(), *EMBEDDINGS.values()]),
    ("fourier_attn.optics.engine", "optical_dft2"),
    ("fourier_attn.optics.planner", "plan"),
]


@pytest.mark.parametrize(("module", "name"), SHOWN, ids=lambda value: value.rpartition(".")[2])
def test_examples_are_so(module: str, name: str) -> None:
    there = vars(importlib.import_module(module))
    names = {"Engine": Engine, "jax": jax, "jnp": jnp} | there
    example = doctest.DocTestParser().get_doctest(there[name].__doc__, names, name, module, 0)
    assert example.examples, f"{module}.{name} has no example"
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert result.failed == 0, "".join(said)
