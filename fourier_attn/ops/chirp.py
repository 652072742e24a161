"""Mixes examples of different lengths in one array by chirps (Bluestein), in O(t log t)."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Inexact, Int

from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.transforms import fast_size, irfftn, symmetric

LONGEST = 2**20  # tokens; from there on the integers of `_chirp` do not fit 32 bits
FLOAT32 = jnp.dtype("float32")
COLUMNS = 64  # of the table of roots, which is a product of two narrow ones
_fft, _ifft = symmetric(lambda c: jnp.fft.fft(c), 1), symmetric(lambda c: jnp.fft.ifft(c), 1)


@takes_arrays
def positions(lengths: Int[Array, "*b"], t: int) -> Int[Array, "*b t"]:
    """Returns the positions 0 .. t - 1 of each example.

        >>> positions(jnp.array([2, 3]), 3)[0]
        Array([0, 1, 2], dtype=int32)

    Args:
      lengths: an array (*b), of which only the shape counts.
      t: number of positions.
    """
    return jnp.broadcast_to(jnp.arange(t, dtype=jnp.int32), (*lengths.shape, t))


@takes_arrays
def roots(n: Int[Array, "*b"], size: int, dtype: jnp.dtype = FLOAT32) -> Complex[Array, "*b size"]:
    """Computes $exp(-2 pi sqrt(-1) k / n)$ for $k < size$, by adding the angles of $k = 64 row + column$.

    Right for $k < n$. As a product of matrices it is also computed once: sines and cosines would be computed
    again in every loop that XLA fuses them into.

        >>> roots(jnp.array(4), 4).imag.round().astype(int)
        Array([ 0, -1,  0,  1], dtype=int32)

    Args:
      n: number of roots of each example, (*b).
      size: number of entries.
      dtype: dtype of real and imaginary parts. Default float32.
    """

    def turn(k: Array) -> tuple[Array, Array]:
        phase = k.astype(dtype) / n[..., None].astype(dtype) * jnp.asarray(2 * math.pi, dtype)
        return jnp.cos(phase), -jnp.sin(phase)

    cos, sin = turn(positions(n, -(-size // COLUMNS)) * COLUMNS)
    re, im = turn(positions(n, COLUMNS))
    fine = jnp.stack([jnp.concatenate([re, im], -1), jnp.concatenate([-im, re], -1)], -2)
    table = jnp.matmul(jnp.stack([cos, sin], -1), fine, precision=jax.lax.Precision.HIGHEST)
    rows = table.shape[-2] * COLUMNS
    re, im = (part.reshape(*n.shape, rows)[..., :size] for part in jnp.split(table, 2, -1))
    return jax.lax.complex(re, im)


@takes_arrays
def chirps(n: Int[Array, "*b"], t: int, dtype: jnp.dtype = FLOAT32) -> Complex[Array, "*b t"]:
    """Computes $exp(-pi sqrt(-1) m^2 / n)$ for $m < t$, from $m^2 mod 2 n$.

    Upper bits of one factor first, since $m^2$ need not fit 32 bits.

        >>> chirps(jnp.array(2), 2).imag.round().astype(int)
        Array([ 0, -1], dtype=int32)

    Args:
      n: length of each example, (*b).
      t: number of entries.
      dtype: dtype of real and imaginary parts. Default float32.
    """
    m, turn = positions(n, t).astype(jnp.uint32), 2 * n[..., None].astype(jnp.uint32)
    squares = (m * (m >> 8) % turn * 256 + m * (m & 255)) % turn
    return jnp.take_along_axis(roots(2 * n, 2 * t, dtype), squares.astype(jnp.int32), -1, mode="clip")


@takes_arrays
def mirror(x: Inexact[Array, "*b t d"], n: Int[Array, "*b"]) -> Inexact[Array, "*b t d"]:
    """Returns $x[-m mod n]$ along the last axis but one, and any numbers for $m >= n$.

        >>> mirror(jnp.arange(4.0)[:, None], jnp.array(4))[:, 0]
        Array([0., 3., 2., 1.], dtype=float32)

    Args:
      x: the tokens, (*b, t, d).
      n: length of each example, (*b).
    """
    m = positions(n, x.shape[-2])
    m = jnp.where(m == 0, 0, n[..., None] - m)
    return jnp.take_along_axis(x, m[..., None], -2, mode="clip")


@takes_arrays
def chirp_transform(c: Complex[Array, "*b h t"], w: Complex[Array, "*b t"]) -> Complex[Array, "*b h t"]:
    """Computes $sum_m c[m] conj(w[i - m])$, a convolution with the chirp. All columns share its spectrum.

        >>> w = chirps(jnp.array(2), 2)  # times the chirp before and after, it is a Fourier transform
        >>> (w * chirp_transform(w[None], w)[0]).real.round().astype(int)
        Array([2, 0], dtype=int32)

    Args:
      c: columns of each example, (*b, h, t), times the chirp.
      w: the chirp of each example, (*b, t), see `chirps`.
    """
    t = c.shape[-1]
    size = fast_size(2 * t - 1)
    gap = jnp.zeros((*w.shape[:-1], size - 2 * t + 1), w.dtype)
    kernel = jnp.concatenate([w, gap, jnp.flip(w[..., 1:], -1)], -1).conj()
    padded = jnp.pad(c, [(0, 0)] * (c.ndim - 1) + [(0, size - t)])
    return _ifft(_fft(padded) * _fft(kernel)[..., None, :])[..., :t]


@takes_arrays
def chirp_mix(x: Float[Array, "*b t d"], lengths: Int[Array, "*b"]) -> Float[Array, "*b t d"]:
    """Mixes the first $n = lengths[b]$ tokens of each example by an n by d transform; zero from n on.

        e[m, k] = x[m, k] + x[-m mod n, -k mod d]                     all that the real part depends on
        c[i, k] = w[i] sum_{m < n} (e[m, k] w[m]) conj(w[i - m]),     w[m] = exp(-pi sqrt(-1) m^2 / n)
        y[i, j] = 1/2 sum_{k < d} c[i, k] exp(-2 pi sqrt(-1) j k / d)

    Since e is real and even, $c[i, -k] = conj(c[i, k])$: half of the columns are enough, two real columns
    share one complex transform (they are separated by their mirror images), and the transform of the features
    goes from half a spectrum to real numbers, with nothing to be mirrored after it.

        >>> x = jnp.ones((1, 4, 2))
        >>> chirp_mix(x, jnp.array([3]))[0, :, 0].round().astype(int)  # 3 tokens, 2 features
        Array([6, 0, 0, 0], dtype=int32)

    Args:
      x: the tokens, (*b, t, d).
      lengths: number of tokens of each example, (*b), from 0 to t.
    """
    t, d = x.shape[-2:]
    if 0 in x.shape:
        return x
    half = d // 2 + 1
    n, real = jnp.maximum(lengths, 1), (positions(lengths, t) < lengths[..., None])[..., None]
    chirp = chirps(n, t, wide(x))
    other = jnp.concatenate([x[..., :1], jnp.flip(x[..., d - half + 1 :], -1)], -1)  # -j mod d
    even = x[..., :half] + mirror(other, n)
    even = jnp.pad(even, [(0, 0)] * (x.ndim - 1) + [(0, half % 2)])
    pairs = jax.lax.complex(*jnp.split(even, 2, -1)) * chirp[..., None]
    pairs = jnp.where(real, pairs, jnp.zeros((), pairs.dtype))
    pairs = chirp_transform(pairs.swapaxes(-1, -2), chirp).swapaxes(-1, -2) * (chirp * (d / 4))[..., None]
    mirrored = mirror(pairs, n).conj()
    columns = jnp.concatenate([pairs + mirrored, (pairs - mirrored) * -1j], -1)[..., :half]
    # Conjugated, since the inverse transform has the other sign.
    return irfftn(jnp.where(real, columns.conj(), jnp.zeros((), columns.dtype)), (d,))
