"""Splits the tokens of a sequence over devices, and exchanges them for whole sequences of fewer features.

A training step enters the mesh of its devices with `jax.sharding.use_abstract_mesh`. If this mesh has an axis
`AXIS` of n devices, each of them holds $t / n$ tokens. A map that treats tokens one by one needs no
communication then. A map along the tokens of each feature needs whole sequences:

    (b, t / n, d)  ->  (b, t, d / n)  ->  map  ->  (b, t, d / n)  ->  (b, t / n, d)

The first and the last arrow are one all-to-all each, and two more run in the backward pass. Each device sends
and receives $b t d / n$ numbers. An all-gather would bring $b t d$ numbers to every device.
"""

from typing import Any

import jax
from jax.sharding import PartitionSpec
from jaxtyping import Array, Num

from fourier_attn.ops.arguments import takes_arrays

AXIS = "tokens"  # of the mesh


def shares() -> int:
    """Returns the number of devices that share each sequence; 1 outside of such a mesh.

    >>> shares()
    1
    """
    return jax.sharding.get_abstract_mesh().shape.get(AXIS, 1)


@takes_arrays
def exchange(
    x: Num[Array, "..."], *, tokens: int = -2, shared: int = -1, what: str = "features"
) -> Num[Array, "..."]:
    """Returns x with whole sequences, and with another axis shared among the devices of a sequence.

        >>> exchange(jnp.ones((1, 4, 8))).shape  # unchanged, since there is no mesh
        (1, 4, 8)

    Args:
      x: an array (*b, .., t, ..), whose tokens are shared.
      tokens: the axis of the tokens, which becomes whole. Default -2.
      shared: the axis that becomes shared. Default -1.
      what: name of this axis in an error message. Default "features".
    Raises: ValueError if the devices cannot share one of the two axes evenly.
    """
    # Both layouts, so that XLA moves x itself and not the several arrays that it is made from.
    return _constrain(_constrain(x, tokens, shared, "tokens"), shared, tokens, what)


@takes_arrays
def give_back(
    x: Num[Array, "..."], *, tokens: int = -2, shared: int = -1, what: str = "features"
) -> Num[Array, "..."]:
    """Inverts `exchange`: returns x with its tokens shared among the devices, each token as a whole.

        >>> give_back(exchange(jnp.ones((1, 4, 8)))).shape
        (1, 4, 8)

    Args:
      x: an array (*b, .., t, ..), whose axis `shared` is shared.
      tokens: the axis of the tokens, which becomes shared. Default -2.
      shared: the axis that becomes whole. Default -1.
      what: name of this axis in an error message. Default "features".
    Raises: ValueError if the devices cannot share one of the two axes evenly.
    """
    return _constrain(_constrain(x, shared, tokens, what), tokens, shared, "tokens")


@takes_arrays
def by_token(x: Num[Array, "..."], *, tokens: int = -2) -> Num[Array, "..."]:
    """Returns x with its tokens shared among the devices of a sequence, each token as a whole.

        >>> by_token(jnp.ones((1, 4, 8))).shape  # unchanged, since there is no mesh
        (1, 4, 8)

    Args:
      x: an array (*b, t, ..).
      tokens: the axis of the tokens. Default -2.
    Raises: ValueError if the devices cannot share the tokens evenly.
    """
    return _constrain(x, tokens, tokens, "tokens")


def share_of(count: int, what: str = "tokens") -> int:
    """Returns how many of the tokens, or of other things, each device has.

    >>> share_of(8)  # all, since there is no mesh
    8

    Args:
      count: their number.
      what: their name in an error message. Default "tokens".
    Raises: ValueError if the devices cannot share them evenly.
    """
    if count % (n := shares()):
        raise ValueError(f"{count} {what} do not divide by {AXIS}={n} of train.mesh; change one of the two")
    return count // n


def check_whole(what: str, cure: str) -> None:
    """Checks that no devices share tokens, for computations that need whole sequences on every device.

        >>> check_whole("method='fused'", "method='auto'")

    Args:
      what: the argument that needs them, as NAME=VALUE.
      cure: the argument to use instead.
    Raises: ValueError if devices share tokens.
    """
    if (n := shares()) > 1:
        raise ValueError(
            f"{what} needs whole sequences, but train.mesh has {AXIS}={n}; use {cure}, or train.mesh without "
            f"{AXIS}"
        )


def _constrain(x: Array, shared: int, whole: int, what: str) -> Array:
    if shares() == 1 or 0 in x.shape:
        return x
    share_of(x.shape[shared], what)
    first = min(shared % x.ndim, whole % x.ndim)
    axes: list[Any] = [PartitionSpec.UNCONSTRAINED] * first + [None] * (x.ndim - first)
    axes[shared] = AXIS
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*axes))
