"""Mixers in other people's programs: as NNX modules, and as plain functions that JAX transforms."""

import jax
import jax.export
import numpy as np
import pytest
from conftest import normal
from flax import nnx

from fourier_attn.model import MIXERS


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize(
    "name", [name if name == "circular" else pytest.param(name, marks=pytest.mark.slow) for name in MIXERS]
)
def test_a_mixer_as_nnx_and_as_a_function(name: str) -> None:
    """jit, grad and vmap of either are those of the layer; an exported program gives its values."""
    layer, x = MIXERS[name](), normal(2, 6, 8)
    module = nnx.bridge.ToNNX(layer, rngs=nnx.Rngs(0))
    module.lazy_init(x)
    params = {"params": nnx.to_pure_dict(nnx.state(module, nnx.Param))}

    def function(params: dict, x: jax.Array) -> jax.Array:
        return layer.apply(params, x)

    expected = jax.jit(function)(params, x)
    np.testing.assert_allclose(nnx.jit(lambda m, x: m(x))(module, x), expected, atol=1e-5)
    np.testing.assert_allclose(module(x), expected, atol=1e-5)

    batches = jax.vmap(function, (None, 0))(params, x[:, None])[:, 0]
    np.testing.assert_allclose(batches, expected, atol=1e-5)

    @nnx.jit
    def gradient(module: nnx.Module, x: jax.Array) -> nnx.State:
        return nnx.grad(lambda m: (m(x) ** 2).sum())(module)

    found = nnx.to_pure_dict(gradient(module, x))
    wanted = jax.jit(jax.grad(lambda p: (function(p, x) ** 2).sum()))(params)["params"]
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * max(1.0, float(np.abs(theirs).max())))

    program = jax.export.export(jax.jit(function))(params, x)
    np.testing.assert_allclose(program.call(params, x), expected, atol=1e-5)
