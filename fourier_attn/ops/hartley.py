"""Computes the discrete Hartley transform as a matrix product, and circular correlation in its basis.

The Hartley transform is the real relative of the Fourier transform, $X_H = Re X - Im X$. Its basis is
orthonormal, symmetric and exactly as wide as the signal, for any number of axes. Inner products and attention
can therefore be computed in it unchanged. As a matrix product it runs in low precision, on matrix units, and
with a sharded batch.
"""

import math
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fourier_attn.ops.arguments import takes_arrays


@lru_cache
def basis(axes: tuple[int, ...]) -> np.ndarray:
    """Returns two bases (d, 2 d), $cos + sin$ and $cos - sin$ of $2 pi (f . n / axes)$, over $sqrt(d)$.

    The second one is the first at negated frequencies; f and n run over the cells of `axes`, row by row.

        >>> basis((4,)).shape
        (4, 8)

    Args:
      axes: shape of the signal, with d cells.
    """
    d = math.prod(axes)
    cells = np.indices(axes).reshape(len(axes), d)
    turns = sum(np.outer(n, n) % size / size for n, size in zip(cells, axes, strict=True))
    cos, sin = np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)
    return np.concatenate([cos + sin, cos - sin], axis=1) / math.sqrt(d)


@takes_arrays
def transform(x: Float[Array, "*b d"], axes: tuple[int, ...]) -> Float[Array, "*b 2*d"]:
    """Returns x_H at all frequencies, then at all negated frequencies.

        >>> transform(jnp.array([1.0, 0.0, 0.0, 0.0]), (4,))[:4]
        Array([0.5, 0.5, 0.5, 0.5], dtype=float32)

    Args:
      x: signals, (*b, d).
      axes: shape of a signal.
    """
    *lead, d = x.shape
    return (x.reshape(math.prod(lead), d) @ basis(axes).astype(x.dtype)).reshape(*lead, 2 * d)


@takes_arrays
def adjoint(x: Float[Array, "*b _"], axes: tuple[int, ...]) -> Float[Array, "*b d"]:
    """Returns the adjoint of `transform`, the sum of the signals of both halves.

        >>> x = jnp.arange(4.0)
        >>> adjoint(transform(x, (4,)), (4,)).round().astype(int)  # twice, since there are two halves
        Array([0, 2, 4, 6], dtype=int32)

    Args:
      x: coefficients, (*b, 2 d).
      axes: shape of a signal.
    """
    *lead, d = x.shape
    return (x.reshape(math.prod(lead), d) @ basis(axes).T.astype(x.dtype)).reshape(*lead, d // 2)


@takes_arrays
def spectrum(
    kernel: Float[Array, "h *r"], axes: tuple[int, ...]
) -> tuple[Float[Array, "h d"], Float[Array, "h d"]]:
    """Returns the real part and the negated imaginary part of each kernel's Fourier transform.

        re[f] = sum_j w[j] cos(2 pi f . j / axes),    im[f] = sum_j w[j] sin(2 pi f . j / axes)

    Kernels are zero-padded to `axes`. In the Hartley basis correlation is multiplication by
    $conj(W) = re + sqrt(-1) im$: $y_H[f] = re[f] x_H[f] - im[f] x_H[-f]$.

        >>> re, im = spectrum(jnp.array([[1.0, 1.0]]), (4,))
        >>> re.round().astype(int)
        Array([[2, 1, 0, 1]], dtype=int32)

    Args:
      kernel: kernels (h, *r), at most as large as `axes`.
      axes: shape of a signal.
    """
    padding = [(0, n - r) for n, r in zip(axes, kernel.shape[1:], strict=True)]
    both = transform(jnp.pad(kernel, [(0, 0), *padding]).reshape(kernel.shape[0], math.prod(axes)), axes)
    plus, minus = jnp.split(both * math.sqrt(math.prod(axes)), 2, axis=-1)
    return (plus + minus) / 2, (plus - minus) / 2
