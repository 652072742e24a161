"""Cuts images into patches and puts them together again."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from fourier_attn.choices import check_choice
from fourier_attn.ops.arguments import takes_arrays


def grid_of_patches(
    image: tuple[int, ...], patch: int, stride: int = 0, pad: bool = False
) -> tuple[int, int]:
    """Returns rows and columns of the patches of an image.

        rows = (I - k) / s + 1        rounded up with `pad`

        >>> grid_of_patches((32, 48), 8)
        (4, 6)

    Args:
      image: rows I and columns J, in pixels; further axes are not looked at.
      patch: rows and columns k of a patch.
      stride: pixels s from one patch to the next; 0: k, without overlap.
      pad: whether zeros may be put below and on the right, until patches divide the image.
    Raises: ValueError for an image that the patches do not divide, and for sizes below 1.
    """
    step = stride or patch
    if min(patch, step, *image[:2]) < 1:
        raise ValueError(f"patch={patch}, stride={stride} and the image {image[:2]} must be at least 1 pixel")
    if step > patch:
        raise ValueError(
            f"stride={stride} leaves pixels out between patches of {patch}; make it at most that"
        )
    divides = all(n >= patch and (n - patch) % step == 0 for n in image[:2])
    if not divides and not pad:
        padded = [step * max(-(-(n - patch) // step), 0) + patch for n in image[:2]]
        raise ValueError(
            f"patch={patch} with stride={step} does not divide an image of {image[0]} x {image[1]} pixels; "
            "choose another patch, or pad=True (of a run --config.model.pad_image=True), which adds zeros up "
            f"to {padded[0]} x {padded[1]}"
        )
    rows, cols = (max(-(-(n - patch) // step), 0) + 1 for n in image[:2])
    return rows, cols


def _indices(count: int, patch: int, step: int) -> np.ndarray:
    """Returns the pixels of each patch along one axis, (count, patch)."""
    return step * np.arange(count)[:, None] + np.arange(patch)


@takes_arrays
def patches(
    x: Num[Array, "*b i j c"], patch: int, stride: int = 0, pad: bool = False
) -> Num[Array, "*b t k l c"]:
    """Returns the patches of an image, row by row.

        y[t] = x[s u .. s u + k - 1, s v .. s v + k - 1],     t = u cols + v

    Vectorised in this order, channels last and innermost, and multiplied by a matrix, they are the
    convolution with stride s whose kernels are the matrix's columns (cross-correlation, as usual).

        >>> image = jnp.arange(16.0).reshape(1, 4, 4, 1)
        >>> patches(image, 2)[0, :, :, :, 0].reshape(4, 4)  # a patch a row
        Array([[ 0.,  1.,  4.,  5.],
               [ 2.,  3.,  6.,  7.],
               [ 8.,  9., 12., 13.],
               [10., 11., 14., 15.]], dtype=float32)

    Args:
      x: images (*b, rows, columns, channels).
      patch: rows and columns k of a patch, in pixels.
      stride: pixels s from one patch to the next. Default 0: k.
      pad: whether zeros may be added below and on the right. Default False.
    Raises: ValueError as `grid_of_patches`.
    Source: Torralba, Isola and Freeman, Foundations of Computer Vision, the chapter on transformers, section
      1.3.3; Dosovitskiy et al., arXiv 2010.11929.
    """
    *b, i, j, c = x.shape
    step = stride or patch
    rows, cols = grid_of_patches((i, j), patch, stride, pad)
    missing = [max(step * (n - 1) + patch - size, 0) for n, size in ((rows, i), (cols, j))]
    if any(missing):
        x = jnp.pad(x, [*[(0, 0)] * len(b), (0, missing[0]), (0, missing[1]), (0, 0)])
    if step == patch:
        cut = x.reshape(*b, rows, patch, cols, patch, c)
    else:
        cut = jnp.take(x, _indices(cols, patch, step), axis=-2)  # (*b, i, cols, k, c)
        cut = jnp.take(cut, _indices(rows, patch, step), axis=-4)  # (*b, rows, k, cols, k, c)
    return jnp.swapaxes(cut, -4, -3).reshape(*b, rows * cols, patch, patch, c)


@takes_arrays
def fold(
    y: Float[Array, "*b t k l c"], image: tuple[int, ...], patch: int, stride: int = 0, pad: bool = False
) -> Float[Array, "*b i j c"]:
    """Returns the image of its patches: the inverse of `patches`, with the mean where they overlap.

        >>> image = jnp.arange(16.0).reshape(1, 4, 4, 1)
        >>> bool((fold(patches(image, 2), (4, 4), 2) == image).all())
        True

    Args:
      y: patches (*b, t, k, k, channels).
      image: its rows and columns; what was padded is cut off.
      patch: rows and columns k of a patch, in pixels.
      stride: pixels from one patch to the next. Default 0: k.
      pad: whether zeros were added. Default False.
    Raises: ValueError as `grid_of_patches`, and for another number of patches.
    """
    *b, t, _, _, c = y.shape
    step, (rows, cols) = stride or patch, grid_of_patches(image, patch, stride, pad)
    if t != rows * cols:
        raise ValueError(
            f"{t} patches do not fill the grid of {rows} x {cols} of an image {image[:2]}; give {rows * cols}"
        )
    whole = jnp.swapaxes(y.reshape(*b, rows, cols, patch, patch, c), -4, -3)
    whole = _joined(_joined(whole, -3, cols, patch, step), -4, rows, patch, step)
    return whole[..., : image[0], : image[1], :]


def _joined(y: Array, axis: int, count: int, patch: int, step: int) -> Array:
    """Merges the axes (count, patch), starting at `axis`, into one axis of pixels."""
    first = y.ndim + axis
    size = step * (count - 1) + patch
    if step == patch:
        return y.reshape(*y.shape[:first], size, *y.shape[first + 2 :])
    places, moved = (
        _indices(count, patch, step).ravel(),
        y.reshape(*y.shape[:first], -1, *y.shape[first + 2 :]),
    )
    moved = jnp.moveaxis(moved, first, 0)
    sums = jnp.zeros((size, *moved.shape[1:]), y.dtype).at[places].add(moved)
    times = np.bincount(places, minlength=size).reshape(-1, *[1] * (sums.ndim - 1))
    mean = sums / jnp.broadcast_to(jnp.asarray(times, y.dtype), sums.shape)
    return jnp.moveaxis(mean, 0, first)


def scan_order(grid: tuple[int, ...], scan: str) -> np.ndarray:
    """Returns which token of the grid comes at each position of a line through it, (t).

        >>> scan_order((2, 3), "snake").tolist()
        [0, 1, 2, 5, 4, 3]

    Args:
      grid: (rows, cols).
      scan: "rows", "columns", or "snake", which reverses every second row.
    Raises: ValueError for another one.
    """
    check_choice("scan", scan, ("rows", "columns", "snake"))
    order = np.arange(math.prod(grid)).reshape(grid)
    if scan == "columns":
        return order.T.ravel()
    if scan == "snake":
        odd = np.arange(grid[0])[:, None] % 2 == 1
        order = np.where(odd, order[:, ::-1], order)
    return order.ravel()


def same_proportions(t: int, grid: tuple[int, ...]) -> tuple[int, int]:
    """Returns the grid of t tokens with the proportions of `grid`, for an image of another resolution.

        >>> same_proportions(24, (4, 6))
        (4, 6)
        >>> same_proportions(96, (4, 6))
        (8, 12)

    Args:
      t: number of tokens.
      grid: (rows, cols) with the wanted proportions.
    Raises: ValueError where there is none.
    """
    rows, cols = grid
    divisor = math.gcd(rows, cols)
    height, width = rows // divisor, cols // divisor
    times = math.isqrt(t // (height * width))
    if times < 1 or height * width * times**2 != t:
        raise ValueError(
            f"grid={tuple(grid)}: {t} tokens fill no grid of its proportions; use images of the same "
            "proportions, without class_token, or change grid"
        )
    return height * times, width * times
