"""Overlapping tiles of the aperture's size (overlap-save) for signals that are not of that size."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def cut(
    z: Array, tiles: tuple[int, ...], taps: tuple[int, ...], sides: tuple[int, ...], boundary: str
) -> Array:
    """Cuts signals (v, *n) into windows (v, *tiles, *N) of N points, one every $N - r + 1$ points.

    Args:
      z: the signals.
      tiles: number of windows along each axis.
      taps: r, the kernel's size along each axis.
      sides: N, the aperture's size along each axis.
      boundary: "circular", "zero" or "valid".
    """
    for axis, (count, r, side) in enumerate(zip(tiles, taps, sides, strict=True)):
        place = 1 + 2 * axis  # the axes before have become two each
        step = side - r + 1
        if boundary == "circular":  # what is kept reaches r - 1 points around
            z = _pad_end(z, place, r - 1, "wrap")
        z = _pad_end(z, place, max(0, (count - 1) * step + side - z.shape[place]), "constant")
        windows = step * np.arange(count)[:, None] + np.arange(side)
        z = jnp.take(z, windows, axis=place)
    return z.transpose(0, *range(1, z.ndim, 2), *range(2, z.ndim, 2))


def _pad_end(z: Array, axis: int, width: int, mode: str) -> Array:
    ends = [(0, 0)] * z.ndim
    ends[axis] = (0, width)
    return jnp.pad(z, ends, mode)


def join(y: Array, tiles: tuple[int, ...], taps: tuple[int, ...]) -> Array:
    """Joins the first $N - r + 1$ points of each tile: (v, h, *tiles, *N) becomes (v, h, *n).

    Args:
      y: the tiles.
      tiles: number of tiles along each axis.
      taps: r, the kernel's size along each axis.
    """
    n = len(tiles)
    kept = tuple(side - r + 1 for side, r in zip(y.shape[-n:], taps, strict=True))
    y = y[(..., *(slice(k) for k in kept))]
    in_turn = []  # each axis' tiles, then its points
    for axis in range(n):
        in_turn += [2 + axis, 2 + n + axis]
    sizes = [count * k for count, k in zip(tiles, kept, strict=True)]
    return y.transpose(0, 1, *in_turn).reshape(*y.shape[:2], *sizes)
