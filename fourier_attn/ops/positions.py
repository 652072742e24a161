"""Computes codes of positions: sinusoids, rotations, and tables at another resolution."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from fourier_attn.ops.arguments import takes_arrays, wide

BASE = 10_000.0


def places(t: int, grid: tuple[int, ...] = ()) -> np.ndarray:
    """Returns the position (t, axes) of each token: row and column on a grid, otherwise its number.

    One token more than the grid has is a class token before the others. It has no place of its own, and its
    code must not depend on the size of the grid, so it is at place 0, as the first of the others is; the
    vector that is learned for it separates the two.

        >>> places(4, (2, 2)).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]

    Args:
      t: number of tokens.
      grid: (rows, cols). Default (), a sequence.
    Raises: ValueError for any other number of tokens.
    """
    if not grid:
        return np.arange(t)[:, None]
    cells = np.indices(grid).reshape(len(grid), -1).T
    extra = t - len(cells)
    if extra not in (0, 1):
        raise ValueError(f"grid={tuple(grid)} must have the {t} tokens, or all but the class token")
    return np.concatenate([np.zeros((extra, len(grid)), cells.dtype), cells])


@takes_arrays
def sines(where: Num[np.ndarray, "t a"], width: int, base: float = BASE) -> np.ndarray:
    """Returns the chapter's code (t, width): sines of each coordinate, one coordinate after the other.

        p = [sin(x), sin(x / B), sin(x / B^2), .., sin(x / B^P)]        for x, then for y

    with $width = axes (P + 1)$ and $B^P$ = `base`.

        >>> sines(places(3), 4).shape  # three places, codes of four numbers
        (3, 4)

    Args:
      where: positions (t, axes), see `places`.
      width: features of the code, a multiple of `axes`.
      base: largest wavelength over 2 pi. Default 10,000.
    Raises: ValueError for a width that the axes do not divide.
    Source: Torralba, Isola and Freeman, Foundations of Computer Vision, eq. 1.33-1.34.
    """
    count = _share(where, width, 1)
    waves = _angles(where, base ** (-np.arange(count) / max(count - 1, 1)))
    return np.sin(waves).reshape(len(where), width).astype(np.float32)


@takes_arrays
def sinusoids(where: Num[np.ndarray, "t a"], width: int, base: float = BASE) -> np.ndarray:
    """Returns the usual code (t, width): sines and cosines of one coordinate after the other.

        p[2 i] = sin(x / base^(2 i / n)),    p[2 i + 1] = cos(x / base^(2 i / n)),    n = width / axes

        >>> sinusoids(places(1), 4)  # at place 0 all sines are 0 and all cosines 1
        array([[0., 1., 0., 1.]], dtype=float32)

    Args:
      where: positions (t, axes), see `places`.
      width: features of the code, a multiple of 2 axes.
      base: as in the equation. Default 10,000.
    Raises: ValueError for a width that is not a multiple of 2 axes.
    Source: Vaswani et al., arXiv 1706.03762, 3.5.
    """
    count = _share(where, width, 2)
    waves = _angles(where, base ** (-np.arange(count) / count))
    return np.stack([np.sin(waves), np.cos(waves)], -1).reshape(len(where), width).astype(np.float32)


@takes_arrays
def rotate(
    x: Float[Array, "b t h k"],
    where: Num[np.ndarray, "n a"],
    base: float = BASE,
    place: Int[Array, " b"] | None = None,
) -> Float[Array, "b t h k"]:
    """Rotates pairs of features by angles that grow with the position, so that products depend on distances.

        (y[2 i], y[2 i + 1]) = R(x / base^(2 i / n)) (x[2 i], x[2 i + 1]),    n = k / axes

    With several axes each one turns its own share of the features, so rotate(q, a) . rotate(k, b) is a
    function of a - b. Computed in float32; the result has the input's dtype.

        >>> x = jnp.ones((1, 2, 1, 2))
        >>> bool((rotate(x, places(2))[0, 0] == x[0, 0]).all())  # nothing turns at place 0
        True

    Args:
      x: queries or keys, (b, t, h, k).
      where: position (n, axes) of each token, $n = t$; with `place`, of all positions.
      base: as in the equation. Default 10,000.
      place: row of `where` for the only token of each example, (b), $t = 1$. Default None.
    Raises: ValueError for a width k that is not a multiple of 2 axes.
    Source: Su et al., RoFormer, arXiv 2104.09864.
    """
    count = _share(where, x.shape[-1], 2)
    if 0 in x.shape:
        return x
    angles = _angles(where, base ** (-np.arange(count) / count)).reshape(len(where), -1)
    cos, sin = (jnp.asarray(f(angles), wide(x)) for f in (np.cos, np.sin))
    cos, sin = (a[None, :, None] if place is None else a[place][:, None, None] for a in (cos, sin))
    pairs = x.astype(wide(x)).reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
    even, odd = pairs[..., 0], pairs[..., 1]
    cos, sin = jnp.broadcast_to(cos, even.shape), jnp.broadcast_to(sin, even.shape)
    turned = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return turned.reshape(x.shape).astype(x.dtype)


@takes_arrays
def interpolate(
    table: Float[Array, "s e"], source: tuple[int, ...], target: tuple[int, ...]
) -> Float[Array, "t e"]:
    """Interpolates a learned table for another grid, linearly, with pixel centres aligned.

    Rows before those of the grid, as that of a class token, stay as they are.

        >>> table = jnp.array([[0.0], [1.0]])
        >>> interpolate(table, (2,), (4,)).ravel()
        Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)

    Args:
      table: rows of vectors, (s, e); additional first rows, such as that of a class token, stay unchanged.
      source: sizes of its grid.
      target: sizes of the wanted grid.
    Raises: ValueError for a table with fewer rows than `source` has places.
    """
    if tuple(source) == tuple(target):
        return table
    extra = table.shape[0] - math.prod(source)
    if extra < 0 or len(source) != len(target):
        raise ValueError(
            f"a table of {table.shape[0]} rows does not fit the grids {source} and {target}; give at least "
            f"{math.prod(source)} rows, and grids with equally many axes"
        )
    width = table.shape[-1]
    if 0 in (width, *source, *target):
        return jnp.zeros((extra + math.prod(target), width), table.dtype)
    image = table[extra:].reshape(*source, width)
    resized = jax.image.resize(image, (*target, width), "linear", antialias=False)
    return jnp.concatenate([table[:extra], resized.reshape(-1, width)])


def _share(where: np.ndarray, width: int, of: int) -> int:
    """Returns the number of wavelengths of each coordinate."""
    axes = where.shape[-1]
    if width < 1 or width % (of * axes):
        raise ValueError(
            f"a width of {width} must be a multiple of {of * axes} for positions with {axes} coordinates; "
            "change model.d, model.position_width or heads"
        )
    return width // (of * axes)


def _angles(where: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """(t, axes, n): each coordinate times each frequency, in float64."""
    return where[..., None].astype(np.float64) * frequencies
