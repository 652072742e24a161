"""Shows what the mixers of a network do with one example, and which tokens its predictions use."""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from fourier_attn.layers.attention import Attention
from fourier_attn.layers.attention_weights import WEIGHTS, attention_weights
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.fields import engines
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.learned_filters import learned

LOOKING = (Attention, CircularAttention, LambdaLayer)  # whose weights depend on what they are given


class Inside(NamedTuple):
    """One block: its mixer's name, the weights (h, t, t) that it gives to tokens, if any, and its filters.

    h is as `fourier_attn.layers.attention_weights` has it: heads, times the intra-depth of a lambda layer.
    """

    mixer: str
    weights: np.ndarray | None
    filters: dict[str, np.ndarray]


def inspect(network: nn.Module, params: Any, inputs: Any, **given: Any) -> list[Inside]:
    """Returns what each mixer does with a batch of one, block by block; tokens of padding are left out.

    A mixer on an engine is shown as its exact twin.

    Args:
      network: the model.
      params: its parameters.
      inputs: a batch of one example.
      given: other inputs of the network, such as a mask.
    """
    seen: list[Inside] = []

    def watch(call: Any, arguments: Any, options: Any, context: Any) -> Any:
        layer = context.module
        if context.method_name == "__call__" and layer.name == "mixer":
            seen.append(_inside(layer, arguments[0], options.get("mask")))
        return call(*arguments, **options)

    arrays: dict[str, Any] = {name: jnp.asarray(value) for name, value in given.items()}
    draws = {"noise": jax.random.key(0)}
    with nn.intercept_methods(watch):
        network.apply({"params": params}, jnp.asarray(inputs), **arrays, rngs=draws)
    return seen


def attention_maps(network: Any, params: Any, inputs: Any, **given: Any) -> np.ndarray:
    """Returns the weight (b, h, t) that each head gives each token for the network's predictions.

    Of a question it is that of the question token; otherwise, in the last block whose weights depend on the
    input (attention, circular attention, a lambda layer, whose weights have any sign), the first token's,
    where the answer is read there, or the mean over the tokens, without padding where the network knows it. A
    network without such a block has no heads. A mixer on an engine is shown as its exact twin.

    Args:
      network: the model.
      params: its parameters.
      inputs: a batch.
      given: other inputs of the network, such as a question.
    """
    arrays: dict[str, Any] = {name: jnp.asarray(value) for name, value in given.items()}
    draws = {"noise": jax.random.key(0)}
    looking: list[tuple[Any, Any, jax.Array, jax.Array | None]] = []

    def watch(call: Any, arguments: Any, options: Any, context: Any) -> Any:
        layer = context.module
        if context.method_name == "__call__" and layer.name == "mixer" and type(layer) in LOOKING:
            variables = {"params": dict(layer.variables["params"])}
            looking.append(
                (layer.clone(parent=None, **_exact(layer)), variables, arguments[0], options["mask"])
            )
        return call(*arguments, **options)

    with nn.intercept_methods(watch):
        _, seen = network.apply(
            {"params": params}, jnp.asarray(inputs), **arrays, rngs=draws, mutable=["intermediates"]
        )
    kept = seen.get("intermediates", {})
    if "head" in kept:
        return np.asarray(kept["head"]["attention"]["weights"][0][:, :, 0])
    if not looking:
        return np.zeros((len(inputs), 0, 0), np.float32)
    weights = np.asarray(attention_weights(*looking[-1]), np.float32)
    if network.pooling != "mean":
        return weights[:, :, 0]
    mask = arrays.get("mask") if network.masked else None
    real = np.ones(weights[:, 0, :, 0].shape, np.float32) if mask is None else np.asarray(mask, np.float32)
    return np.einsum("bhts,bt->bhs", weights, real) / np.maximum(real.sum(axis=1), 1)[:, None, None]


def _exact(layer: Any) -> dict[str, None]:
    """Returns the fields of a layer that make it exact."""
    return dict.fromkeys(engines(type(layer)))


def _inside(layer: Any, x: jax.Array, mask: jax.Array | None) -> Inside:
    params = {"params": dict(layer.variables.get("params", {}))}
    alone = layer.clone(parent=layer.scope, name=None, **_exact(layer))  # and still in its block
    weights = None
    if type(layer) in WEIGHTS:
        kept = np.ones(x.shape[1], bool) if mask is None else np.asarray(mask[0])
        weights = np.asarray(attention_weights(alone, params, x, mask), np.float32)[0][:, kept][:, :, kept]
    arrays = learned(alone, params, x.shape[-1])
    filters = {name: np.asarray(value, np.float32) for name, value in arrays.items()}
    return Inside(type(layer).__name__, weights, filters)
