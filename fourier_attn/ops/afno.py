"""The adaptive Fourier neural operator (AFNO): one small complex network for every frequency."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.global_filter import as_signals, as_tokens, bins
from fourier_attn.ops.transforms import irfftn, rfftn


def kept(axes: tuple[int, ...], modes: float) -> tuple[int, ...]:
    """Returns the number K of bins on each axis, $|f| < ceil(modes (n // 2 + 1))$; half of them on the last.

        >>> kept((8, 8), 0.5)  # frequencies -2 .. 2 of rows, 0 .. 2 of columns
        (5, 3)

    Args:
      axes: number of tokens n on each axis.
      modes: share in (0, 1] of the frequencies.
    """
    lowest = [math.ceil(round(modes * (n // 2 + 1), 6)) or 1 for n in axes]
    both = (min(2 * k - 1, n) for k, n in zip(lowest[:-1], axes[:-1], strict=True))
    return (*both, lowest[-1])


def _cut(spectrum: Array, sizes: tuple[int, ...]) -> Array:
    """Cuts out the lowest frequencies; those of both signs have the order -(K // 2) .. (K - 1) // 2."""
    axes, shifts = tuple(range(-len(sizes), -1)), tuple(k // 2 for k in sizes[:-1])
    return jnp.roll(spectrum, shifts, axes)[(..., *(slice(k) for k in sizes))]


def _fill(spectrum: Array, full: tuple[int, ...]) -> Array:
    """Inverts `_cut`, with zeros at all other frequencies."""
    sizes = spectrum.shape[-len(full) :]
    ends = [(0, n - k) for n, k in zip(full, sizes, strict=True)]
    padded = jnp.pad(spectrum, [(0, 0)] * (spectrum.ndim - len(full)) + ends)
    axes, shifts = tuple(range(-len(sizes), -1)), tuple(-(k // 2) for k in sizes[:-1])
    return jnp.roll(padded, shifts, axes)


def _dense(z: Array, kernel: Array, bias: Array) -> Array:
    """Computes $W z + b$ in each block of a complex z (*b, n, p, f, 2), with real products."""
    re, im = kernel[..., 0], kernel[..., 1]
    matrix = jnp.stack([jnp.stack([re, im], -1), jnp.stack([-im, re], -1)], axis=2)  # (n, p, 2, h, 2)
    y = jnp.einsum("...npfc,npche->...nhfe", z, matrix)
    return y + jnp.broadcast_to(bias[:, :, None], y.shape)


@takes_arrays
def softshrink(x: Float[Array, "..."], threshold: float) -> Float[Array, "..."]:
    """Moves numbers towards zero, $sign(x) max(|x| - threshold, 0)$.

        >>> softshrink(jnp.array([-3.0, 0.5, 2.0]), 1.0)
        Array([-2.,  0.,  1.], dtype=float32)

    Args:
      x: numbers of any shape.
      threshold: amount, at least 0.
    """
    return x - jnp.clip(x, -threshold, threshold)


@takes_arrays
def spectral_mlp(
    x: Float[Array, "*b t d"],
    kernels: tuple[Float[Array, "n p h 2"], Float[Array, "n h p 2"]],
    biases: tuple[Float[Array, "n h 2"], Float[Array, "n p 2"]],
    *,
    threshold: float = 0.01,
    modes: float = 1.0,
    grid: tuple[int, ...] | None = None,
) -> Float[Array, "*b t d"]:
    """Applies the same network of two complex layers to the features of each frequency (AFNO).

        z = rfft(x),    y = irfft(shrink(W_2 relu(W_1 z + b_1) + b_2)) + x

    Features are n blocks of p, $d = n p$, and $W_1$ (p to h) and $W_2$ (h to p) act within a block. relu and
    shrink, see `softshrink`, act on real and imaginary parts separately. Both transforms are orthonormal, so
    that `threshold` means the same at every length: nothing here depends on t. With `grid=(rows, cols)`
    tokens are an image, row by row, and transforms have two axes. It all runs in float32. Complex arrays are
    real ones with a last axis (real, imaginary).

        >>> x = jnp.arange(8.0).reshape(1, 4, 2)
        >>> kernels, biases = (jnp.zeros((1, 2, 2, 2)),) * 2, (jnp.zeros((1, 2, 2)),) * 2
        >>> bool((spectral_mlp(x, kernels, biases) == x).all())  # what is left is the residual
        True

    Args:
      x: the tokens, (*b, t, d).
      kernels: $W_1$ (n, p, h, 2) and $W_2$ (n, h, p, 2).
      biases: $b_1$ (n, h, 2) and $b_2$ (n, p, 2).
      threshold: amount by which `softshrink` moves numbers towards zero. Default 0.01.
      modes: share of the frequencies that are computed, in (0, 1]: on each axis the bins
        $|f| < ceil(modes (n // 2 + 1))$ for n tokens. All other bins of the result's spectrum are zero.
        Default 1.0.
      grid: (rows, cols) of an image whose tokens are read row by row. Default None, a sequence.
    Masking: none; every output depends on every token, padding included.
    Raises: ValueError for weights, grid, threshold or modes that do not fit.
    Source: Guibas et al., Adaptive Fourier Neural Operators, arXiv 2111.13587. Its code computes how many
      bins it keeps from rows x cols, and so keeps all for most fractions; here each axis counts its own.
    """
    (n, p, *_), (t, d) = kernels[0].shape, x.shape[-2:]
    if n * p != d:
        raise ValueError(f"kernels of n={n} blocks of p={p} features must have n p = d = {d}")
    check(threshold, modes)
    if 0 in x.shape:
        return x
    axes, signal = tuple(grid or (t,)), as_signals(x, grid)
    sizes, scale = kept(axes, modes), math.sqrt(t)
    first, second = ([part.astype(wide(x)) for part in layer] for layer in zip(kernels, biases, strict=True))
    spectrum = _cut(rfftn(signal, axes), sizes)
    z = spectrum.reshape(*x.shape[:-2], n, p, math.prod(sizes)) / scale
    hidden = jax.nn.relu(_dense(jnp.stack([z.real, z.imag], -1), *first))
    z = softshrink(_dense(hidden, *second), threshold) * scale
    spectrum = jax.lax.complex(z[..., 0], z[..., 1]).reshape(spectrum.shape)
    return as_tokens(irfftn(_fill(spectrum, bins(axes)), axes) + signal, x)


def check(threshold: float, modes: float) -> None:
    """Checks the threshold and the share of modes.

    Args:
      threshold: must not be negative.
      modes: must be in (0, 1].
    """
    if threshold < 0:
        raise ValueError(f"threshold={threshold} must not be negative")
    if not 0 < modes <= 1:
        raise ValueError(f"modes={modes} must lie in (0, 1]; it is a share of the frequencies")
