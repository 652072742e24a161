"""Overlapping tiles of the aperture's size (overlap-save) for signals that are not of that size."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fourier_attn.optics.parameters import Engine
from fourier_attn.optics.planner import frames


def tile(signal: tuple[int, ...], kernel: tuple[int, ...], engine: Engine, boundary: str) -> tuple[int, ...]:
    """Overlapping frames on each axis, or () where the signal as a whole takes fewer."""
    (count, *sizes), (h, *taps) = signal, kernel
    sides = engine.shape[-len(sizes) :]
    if tuple(sizes) == sides or any(r > n for r, n in zip(taps, sides, strict=True)):
        return ()
    wrapped, square = boundary == "circular", min(engine.shape) > 1 and engine.shape[0] == engine.shape[1]
    tiles = tuple(
        -(-(n if wrapped else n - r + 1) // (side - r + 1))
        for n, r, side in zip(sizes, taps, sides, strict=True)
    )
    total = count * math.prod(tiles)
    if not square:  # nor are there stages
        return tiles
    by_tiles = frames(sides, total, engine) + frames(sides, total * h, engine)
    whole = frames(tuple(sizes), count, engine) + frames(tuple(sizes), count * h, engine)
    return tiles if by_tiles < whole else ()


def cut(
    z: Array, tiles: tuple[int, ...], taps: tuple[int, ...], sides: tuple[int, ...], boundary: str
) -> Array:
    """(v, *n) becomes (v, *tiles, *N): windows of N points, every N - r + 1."""
    for axis, (count, r, side) in enumerate(zip(tiles, taps, sides, strict=True)):
        place, step = 1 + 2 * axis, side - r + 1
        more = max(0, (count - 1) * step + side - z.shape[place])
        ends = [(0, 0)] * z.ndim
        if boundary == "circular":  # what is kept reaches r - 1 points around
            ends[place] = (0, r - 1)
            z, more = jnp.pad(z, ends, "wrap"), max(0, more - r + 1)
        ends[place] = (0, more)
        windows = step * np.arange(count)[:, None] + np.arange(side)
        z = jnp.take(jnp.pad(z, ends), windows, axis=place)
    return z.transpose(0, *range(1, z.ndim, 2), *range(2, z.ndim, 2))


def join(y: Array, tiles: tuple[int, ...], taps: tuple[int, ...]) -> Array:
    """(v, h, *tiles, *N) becomes (v, h, *n): the first N - r + 1 points of each tile, in a row."""
    n = len(tiles)
    kept = tuple(side - r + 1 for side, r in zip(y.shape[-n:], taps, strict=True))
    y = y[(..., *(slice(k) for k in kept))]
    y = y.transpose(0, 1, *(axis for i in range(n) for axis in (2 + i, 2 + n + i)))
    return y.reshape(*y.shape[:2], *(t * k for t, k in zip(tiles, kept, strict=True)))
