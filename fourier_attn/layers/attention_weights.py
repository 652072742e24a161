"""Returns the weights that a layer gives to tokens, for layers that average tokens with weights."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.layers.attention import Attention
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.controls import Identity, Linear, Random, used_rows
from fourier_attn.layers.engine_choice import OnEngine
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.token_conv import TokenConvolution
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.attention import softmax_weights
from fourier_attn.ops.circular import circular_correlate
from fourier_attn.ops.lambdas import lambda_layer
from fourier_attn.ops.patches import same_proportions
from fourier_attn.ops.token_conv import token_convolve


@takes_arrays
def attention_weights(
    layer: nn.Module,
    params: Any,
    x: Float[Array, "b t d"],
    mask: Bool[Array, "b s"] | None = None,
    source: Float[Array, "b s e"] | None = None,
) -> Float[Array, "b h t s"]:
    """Returns the matrix that each head of a layer applies to its values.

        y[i, a] = sum_j A[a, i, j] v[j, a]

    Of attention and circular attention A is the softmax: rows sum to 1. Of a lambda layer A is

        A[a, i, j] = sum_k q[i, a, k] (softmax_j(key[j, k]) + R[j - i, k])

    with any sign and sum. With an intra-depth u each head has u of them, for the sets of keys, positions and
    values that it sums over: that of set n is $A[a u + n]$, and h in the shape is heads times u. Of `Linear`,
    `Random`, `TokenConvolution` and `Identity`, which have one head, A is the same for all inputs.

        >>> layer, x = Attention(heads=2), jnp.ones((1, 4, 8))
        >>> A = attention_weights(layer, layer.init(jax.random.key(0), x), x)
        >>> A.shape, round(float(A[0, 0, 0].sum()), 3)
        ((1, 2, 4, 4), 1.0)

    Args:
      layer: the layer, without engines.
      params: the variables that `layer.apply` takes.
      x: the tokens, (b, t, d).
      mask: True for the real tokens of `source`, or of x without one. Default None.
      source: tokens (b, s, e) that are attended to, for `Attention` only. Default None: x.
    Masking: columns of padding are 0, unless the layer takes it for tokens as `Identity` does; rows of
      padding are finite and meaningless.
    Raises: ValueError for a layer without such a matrix, or with an engine, whose values have noise, too.
    """
    if type(layer) not in WEIGHTS:
        raise ValueError(
            f"{type(layer).__name__} has no matrix of weights over tokens; "
            f"choose one of {', '.join(known.__name__ for known in WEIGHTS)}"
        )
    if source is not None:
        if not isinstance(layer, Attention):
            raise ValueError(f"{type(layer).__name__} has no source; leave it out")
        return _attention(layer, params, x, mask, source)
    if isinstance(layer, OnEngine) and layer.optical:
        raise ValueError(f"{type(layer).__name__} has an engine; ask the exact layer, with engine=None")
    return WEIGHTS[type(layer)](layer, params, x, mask)


def _seen(layer: nn.Module, params: Any, *inputs: Array, **options: Any) -> Any:
    """Returns the collection "intermediates" of a pass through the layer."""
    _, collections = layer.apply(params, *inputs, mutable=["intermediates"], **options)
    return collections["intermediates"]


def _attention(
    layer: Attention, params: Any, x: Array, mask: Array | None, source: Array | None = None
) -> Array:
    return _seen(layer, params, x, source=source, mask=mask)["weights"][0]


def _circular(layer: CircularAttention, params: Any, x: Array, mask: Array | None) -> Array:
    shape = tuple(layer.shape or ()) or None
    query, key = (
        circular_correlate(
            x.astype(layer.dtype), params["params"][name], shape=shape, boundary=layer.boundary
        )
        for name in ("query", "key")
    )
    return softmax_weights(query, key, mask=mask, causal=layer.causal)


def _lambda(layer: LambdaLayer, params: Any, x: Array, mask: Array | None) -> Array:
    """Applies the layer to the columns of an identity as values, for each of its sets by itself."""
    seen, t = _seen(layer, params, x, mask=mask, capture_intermediates=True), x.shape[1]
    query = seen["query_norm" if layer.norm == "layer" else "query"]["__call__"][0]
    key = seen["key"]["__call__"][0]
    values = jnp.broadcast_to(jnp.eye(t, dtype=layer.dtype)[None, :, :, None], (len(x), t, t, 1))
    position = layer.used_taps(params["params"]["position"].astype(layer.dtype), t)
    sets = [
        lambda_layer(
            query,
            key[..., n : n + 1],
            values,
            position[..., n : n + 1],
            grid=same_proportions(t, layer.grid) if layer.grid else None,
            causal=layer.causal,
            mask=mask,
            method=layer.method,
        )
        for n in range(layer.u)
    ]
    return jnp.stack(sets, axis=3).reshape(len(x), t, -1, t).swapaxes(1, 2)  # (b, t, h, u, s) before


def _fixed(
    layer: Linear | Random | TokenConvolution | Identity, params: Any, x: Array, mask: Array | None
) -> Array:
    """Returns the matrix over tokens of a layer for which it does not depend on them."""
    b, t, d = x.shape
    if isinstance(layer, Linear):
        matrix = used_rows(params["params"]["tokens"], t, layer.causal)
    elif isinstance(layer, Random):
        matrix = used_rows(layer.matrices(layer.block, d)[0], t, layer.causal)
    elif isinstance(layer, TokenConvolution):
        grid = same_proportions(t, layer.grid) if layer.grid else None
        matrix = token_convolve(jnp.eye(t), params["params"]["filter"], grid=grid, causal=layer.causal)
    else:
        matrix = jnp.eye(t)
    matrix = jnp.broadcast_to(matrix[None, None], (b, 1, t, t))
    if mask is None or isinstance(layer, Identity) or getattr(layer, "padding", "zero") == "tokens":
        return matrix
    return jnp.where(mask[:, None, None, :], matrix, jnp.zeros((), matrix.dtype))


WEIGHTS: dict[type[nn.Module], Callable[..., Array]] = {
    Attention: _attention,
    CircularAttention: _circular,
    LambdaLayer: _lambda,
    Linear: _fixed,
    Random: _fixed,
    TokenConvolution: _fixed,
    Identity: _fixed,
}
