"""Keeps the state of mixers between tokens, so that a text can be continued token by token.

A network is called with a prompt first, and then with one token at a time. What a mixer keeps between these
calls is in the collection "cache":

    cursor = Cursor(room=p + n)                                     the prompt has p tokens at most
    _, cache = network.apply(params, prompt, mask=mask, cursor=cursor, mutable="cache")
    cursor = Cursor(room=p + n, place=number_of_tokens_before)
    _, cache = network.apply(params | cache, token, cursor=cursor, mutable="cache")

A layer that takes a `cursor` has the attribute `has_step = True`. For other mixers the block keeps the
inputs, and computes all of them again for each token.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fourier_attn.ops import steps


class Cursor(NamedTuple):
    """Says where the tokens of a call are in a text that is being continued.

    room: tokens that the whole text can have.
    place: the number of tokens before the one that is given; None: those given are the prompt, whose padding
      is behind its tokens.
    """

    room: int
    place: Int[Array, " b"] | None = None


def keep(layer: nn.Module, name: str, x: Float[Array, "b t *_"], cursor: Cursor) -> Array:
    """Adds an array of each token to those that a layer keeps, and returns all of them, (b, room, ..).

    Args:
      layer: the layer that keeps them.
      name: name in the collection "cache".
      x: rows of the new tokens, (b, t, ..).
      cursor: position in the text.
    """
    if cursor.place is None:
        whole = jnp.pad(x, [(0, 0), (0, cursor.room - x.shape[1])] + [(0, 0)] * (x.ndim - 2))
    else:
        whole = steps.put(layer.get_variable("cache", name), x, cursor.place)
    layer.put_variable("cache", name, whole)
    return whole


def keep_last(
    layer: nn.Module,
    name: str,
    x: Float[Array, "b t *_"],
    cursor: Cursor,
    mask: Bool[Array, "b t"] | None,
    r: int,
) -> Array:
    """Adds an array of each token to the last r that a layer keeps, and returns these, (b, r, ..).

    Args:
      layer: the layer that keeps them.
      name: name in the collection "cache".
      x: rows of the new tokens, (b, t, ..).
      cursor: position in the text.
      mask: True for the real tokens of a prompt, (b, t), or None.
      r: number of rows that are kept.
    """
    if cursor.place is None:
        count = jnp.full(len(x), x.shape[1]) if mask is None else mask.sum(axis=1)
        window = steps.last(x, count, r)
    else:
        window = jnp.concatenate([layer.get_variable("cache", name)[:, 1:], x], axis=1)
    layer.put_variable("cache", name, window)
    return window


def mix(
    block: nn.Module, mixer: Any, x: Float[Array, "b t d"], mask: Bool[Array, "b t"] | None, cursor: Cursor
) -> Float[Array, "b t d"]:
    """Applies a mixer to a prompt or to one more token; a mixer without a step computes all tokens again.

    Args:
      block: the module that keeps the inputs of a mixer without a step.
      mixer: the mixer.
      x: the prompt or the new token, (b, t, d).
      mask: True for the real tokens of a prompt, (b, t), or None.
      cursor: position in the text.
    Raises: ValueError for a mixer that is not causal.
    """
    if not getattr(mixer, "causal", False):
        raise ValueError(
            f"cursor={cursor} continues a text, which {type(mixer).__name__} cannot; use a causal mixer"
        )
    if getattr(mixer, "has_step", False):
        return mixer(x, mask=mask, cursor=cursor)
    tokens = keep(block, "tokens", x, cursor)
    if cursor.place is None:
        return mixer(x, mask=mask, train=False)
    real = jnp.arange(cursor.room)[None] <= cursor.place[:, None]
    y = mixer(tokens, mask=real, train=False)
    return jnp.take_along_axis(y, cursor.place[:, None, None], axis=1)
