"""Checks masks of real tokens, and sets padded tokens to zero."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fourier_attn.ops.arguments import known


def zero_padding(x: Array, mask: Array | None) -> Array:
    """Returns the tokens with padded ones set to zero.

        y[i] = x[i] m_i         with m_i = 1 for a real token and 0 for padding

        >>> zero_padding(jnp.ones((1, 3, 1)), jnp.array([[True, True, False]]))[0, :, 0]
        Array([1., 1., 0.], dtype=float32)

    Args:
      x: the tokens (b, t, d).
      mask: True for real tokens (b, t); None: all are real.
    Raises: ValueError for a mask of another shape.
    """
    if mask is None:
        return x
    check_mask(x, mask)
    return jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))


def check_mask(x: Array, mask: Array) -> None:
    """Checks that a mask has a value for each token. Other shapes could be broadcast to other examples.

        >>> check_mask(jnp.ones((2, 3, 1)), jnp.ones((2, 3), bool))

    Args:
      x: the tokens (b, t, d).
      mask: True for real tokens (b, t).
    Raises: ValueError for a mask of another shape.
    """
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask of shape {mask.shape} must be (b, t) = {x.shape[:-1]}, True for real tokens")


def check_trailing(mask: Array, cure: str) -> None:
    """Checks that padding follows the real tokens of each example, if the values of the mask are known.

    In a compiled program they are not known, and nothing is checked. The same holds for masks of which other
    processes have a part.

        >>> check_trailing(jnp.array([[True, True, False]]), "use another mask")

    Args:
      mask: True for real tokens (b, t).
      cure: advice for the message.
    Raises: ValueError for padding before a real token.
    """
    if not known(mask):
        return
    values = np.asarray(mask)
    if (values[:, 1:] & ~values[:, :-1]).any():
        raise ValueError(f"mask has padding before real tokens; {cure}")
