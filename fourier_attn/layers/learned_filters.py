"""Extracts learned filters and tables, which do not depend on the input, as arrays."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array

from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.global_filter import GlobalFilter
from fourier_attn.layers.lambdas import LambdaLayer


def learned(layer: nn.Module, params: Any, d: int) -> dict[str, Array]:
    """Returns the filters of a layer by name, each with a leading axis of filters; {} if it has none.

    Of circular attention "merged", by which alone queries and keys act, and "value":

        m[a, s] = sum_t w_query[a, t] w_key[a, t + s]       q_i . k_j = sum_n x_i[n] sum_s m[a, s] x_j[n + s]

    with $t + s$ taken modulo the sizes of the token where the boundary is circular; else $s = 0$ in the
    middle. Of a lambda layer "position", R for each of the k depths, summed over the intra-depth; of a global
    filter "gain", |W| for each feature, by frequency.

        >>> layer, x = GlobalFilter(length=4), jnp.ones((1, 4, 2))
        >>> learned(layer, layer.init(jax.random.key(0), x), 2)["gain"].shape  # features, frequencies
        (2, 3)

    Args:
      layer: the layer.
      params: the variables that `layer.apply` takes.
      d: width of the tokens, which kernels may be shorter than.
    """
    return LEARNED[type(layer)](layer, params["params"], d) if type(layer) in LEARNED else {}


def _circular(layer: CircularAttention, params: Any, d: int) -> dict[str, Array]:
    query, key = params["query"], params["key"]
    axes = tuple(range(1, query.ndim))
    if layer.boundary == "circular":
        sizes = tuple(layer.shape or (d,))
    else:
        sizes = tuple(2 * r - 1 for r in query.shape[1:])
    spectrum = jnp.conj(jnp.fft.fftn(query, sizes, axes)) * jnp.fft.fftn(key, sizes, axes)
    merged = jnp.fft.ifftn(spectrum, axes=axes).real
    if layer.boundary != "circular":
        merged = jnp.fft.fftshift(merged, axes)
    return {"merged": merged, "value": params["value"]}


def _lambda(layer: LambdaLayer, params: Any, d: int) -> dict[str, Array]:
    return {"position": jnp.moveaxis(params["position"].sum(axis=-1), -1, 0)}


def _global(layer: GlobalFilter, params: Any, d: int) -> dict[str, Array]:
    return {"gain": jnp.moveaxis(jnp.linalg.norm(params["filter"], axis=-1), -1, 0)}


LEARNED: dict[type[nn.Module], Callable[..., dict[str, Array]]] = {
    CircularAttention: _circular,
    LambdaLayer: _lambda,
    GlobalFilter: _global,
}
