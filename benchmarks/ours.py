"""This project's layers as functions of arrays: one side of every comparison."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.inputs import LAYERS, arrays
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.controls import Linear
from fourier_attn.ops.circular import circular_attention
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.ops.lambdas import lambda_layer


def dense(x, query, key, value, out):
    """Computes dense attention of x with kernels query, key, value and out."""
    params = {"query": {"kernel": query}, "key": {"kernel": key}, "value": {"kernel": value}}
    params["out"] = {"kernel": out, "bias": jnp.zeros(x.shape[-1])}
    return Attention(heads=query.shape[1]).apply({"params": params}, x)


def linear(x, tokens, features):
    """Multiplies x (b, t, d) by a matrix of tokens (t, t) and one of features (d, d)."""
    return Linear(length=len(tokens)).apply({"params": {"tokens": tokens, "features": features}}, x)


def lambdas(query, key, value, table, **options):
    """Computes `lambda_layer` of query, key and value with a position table, for one head and u = 1."""
    y = lambda_layer(query[:, :, None], key[..., None], value[..., None], table[..., None], **options)
    return y[:, :, 0]


def layer(what: str) -> Callable[..., Any]:
    """Returns our function for a layer of `inputs.LAYERS`."""
    grid = LAYERS[what]
    image = grid if grid and len(grid) == 2 else None
    if what.startswith("convolutional"):
        return partial(circular_attention, shape=image)
    if what.startswith("lambda"):
        return partial(lambdas, grid=image)
    return {"attention": dense, "fourier": fourier_mix}[what]


def step(what: str, t: int) -> Callable[[], list[Any]]:
    """Returns a function that computes a layer's gradients on its arrays, with the sum of squares as loss."""
    function, given = layer(what), [jnp.asarray(a) for a in arrays(what, t)]
    gradient = jax.grad(lambda *a: jnp.sum(jnp.square(function(*a))), tuple(range(len(given))))
    compiled = jax.jit(gradient)
    return lambda: jax.block_until_ready(list(compiled(*given)))
