"""Shifts arrays by the few places of a short filter, also where devices share the tokens."""

import itertools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Num

from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.token_shares import check_whole, share_of, shares


@takes_arrays
def neighbours(x: Num[Array, "b ..."], before: tuple[int, ...], taps: tuple[int, ...]) -> list[Array]:
    """Returns x at $n + r - before$ for each tap r, zero outside.

    Where devices share the tokens, each device gets the few tokens next to its own from its neighbours, and
    then shifts without communication. Call `check_reach` first there.

        >>> [y.ravel().tolist() for y in neighbours(jnp.array([[1, 2, 3]]), (1,), (2,))]
        [[0, 1, 2], [1, 2, 3]]

    Args:
      x: an array (b, *axes, ..); its positions are on as many axes as there are numbers of taps.
      before: number of taps before the position itself, on each axis.
      taps: number of taps r, on each axis.
    Returns: prod(taps) arrays of the shape of x.
    """
    pads = [(f, r - 1 - f) for f, r in zip(before, taps, strict=True)]
    sizes = x.shape[1 : 1 + len(taps)]
    if (n := shares()) > 1:
        (front, back), t = pads[0], x.shape[1] // n
        parts = x.reshape(len(x), n, t, *x.shape[2:])
        sides = _next(parts[:, :, t - front :], 1), parts, _next(parts[:, :, :back], -1)
        padded = jnp.concatenate(sides, axis=2)
        return [padded[:, :, i : i + t].reshape(x.shape) for i in range(taps[0])]
    padded = jnp.pad(x, [(0, 0), *pads, *[(0, 0)] * (x.ndim - 1 - len(taps))])
    return [
        padded[(slice(None), *(slice(i, i + n) for i, n in zip(tap, sizes, strict=True)))]
        for tap in itertools.product(*map(range, taps))
    ]


def _next(parts: Array, step: int) -> Array:
    """Moves parts (b, n, ..) to the next device (step 1) or the previous one (-1), and fills with zeros."""
    pads = [(0, 0, 0), (step, -step, 0), *[(0, 0, 0)] * (parts.ndim - 2)]
    return jax.lax.pad(parts, jnp.zeros((), parts.dtype), pads)


def check_reach(what: str, axes: tuple[int, ...], taps: int, *, causal: bool, name: str) -> None:
    """Checks that taps reach no further than the next device that shares the tokens.

        >>> check_reach("a filter", (8,), 5, causal=False, name="taps")

    Args:
      what: what has the taps, for a message.
      axes: the axes of the positions.
      taps: number of taps along the first axis.
      causal: whether taps reach earlier tokens only.
      name: the argument with the number of taps.
    Raises: ValueError if they reach further, or if there are two axes.
    """
    if len(axes) > 1:
        check_whole(f"grid={axes}", "a sequence")
    most = (1 if causal else 2) * share_of(math.prod(axes)) + 1
    if taps > most:
        check_whole(f"{what} with {taps} taps", f"{name} of at most {most}")
