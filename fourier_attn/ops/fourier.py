"""Mixes tokens and features by the real part of a two-dimensional discrete Fourier transform."""

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fourier_attn.choices import check_choice
from fourier_attn.ops.arguments import known, takes_arrays, wide
from fourier_attn.ops.chirp import LONGEST, chirp_mix
from fourier_attn.ops.derivatives import linear_map
from fourier_attn.ops.fourier_matmul import divisor, masked_mix, matmul_mix, mirrored, monarch_mix
from fourier_attn.ops.fourier_shared import shared_mix
from fourier_attn.ops.platforms import by_platform
from fourier_attn.ops.token_shares import shares
from fourier_attn.ops.transforms import batchwise

METHODS = ("auto", "fft", "rfft", "matmul", "monarch")
LARGEST_TABLE = 2**25  # numbers in the table of "monarch", $2 t t2$, up to which "auto" chooses it


def _rfft(x: Float[Array, "*b t d"]) -> Float[Array, "*b t d"]:
    """Transforms real x from half of its spectrum."""
    return mirrored(jnp.fft.rfft2(x).real, x.shape[-1])


_PLAIN = {
    "fft": batchwise(lambda x: jnp.fft.fft2(x).real, 2),
    "rfft": batchwise(_rfft, 2),
    "matmul": matmul_mix,
    "monarch": monarch_mix,
}
_MASKED = {"fft": chirp_mix, "rfft": chirp_mix, "matmul": masked_mix}


def best_method(platform: str, t: int, *, low: bool, masked: bool, sized: bool = False) -> str:
    """Returns the method of the table in the docstring of `fourier_mix`.

    Args:
      platform: "cpu", "cuda", "rocm" or "tpu".
      t: number of tokens.
      low: whether the dtype is bfloat16.
      masked: whether there are lengths.
      sized: whether the lengths are among known sizes. Default False.
    """
    if platform == "tpu":
        return _best_on_tpu(t, low=low, masked=masked)
    if sized and platform == "cpu":
        return "each"
    units = platform in ("cuda", "rocm") and low  # products in 16 bits, which are much faster
    if masked:
        return "matmul" if t <= (256 if units else 16) else "rfft"
    if not units:
        return "rfft"
    return "matmul" if t <= 1024 else "monarch" if _splits(t) else "rfft"


def _best_on_tpu(t: int, *, low: bool, masked: bool) -> str:
    """Returns the method that the compiler's estimates for a v5e prefer."""
    if masked:
        return "matmul" if t <= (512 if low else 256) else "rfft"
    if not _splits(t):
        return "matmul" if t <= (2048 if low else 1024) else "rfft"
    if t <= (512 if low else 128):
        return "matmul"
    return "monarch" if low or t < 16384 else "rfft"


def _splits(t: int) -> bool:
    """Says whether t has factors for "monarch" that are large enough, and a table that is small enough."""
    first = divisor(t)
    return first >= 16 and 2 * t * (t // first) <= LARGEST_TABLE


@lru_cache
def _mixing(method: str, sizes: tuple[int, ...]) -> Callable[..., Array]:
    """Returns the transform of tokens, and of lengths if any.

    <Re F x, g> = <x, Re F g>: the operator is self-adjoint, with lengths too, so that the backward pass is
    the forward pass applied to the cotangent, and nothing but the lengths has to be kept.
    """
    mix = partial(_mix, method=method, sizes=sizes)
    return partial(linear_map, mix, mix)


def _mix(x: Array, lengths: Array | None = None, *, method: str, sizes: tuple[int, ...]) -> Array:
    if shares() > 1:
        return shared_mix(x, lengths).astype(x.dtype)
    compute = partial(_compute, sizes=sizes)
    if method != "auto":
        return compute(method, x, lengths)
    low = x.dtype == jnp.bfloat16
    choose = partial(best_method, t=x.shape[-2], low=low, masked=lengths is not None, sized=bool(sizes))
    return by_platform(choose, compute, x, lengths)


def _compute(method: str, x: Array, lengths: Array | None, *, sizes: tuple[int, ...]) -> Array:
    native = x.dtype == jnp.bfloat16 and method in ("matmul", "monarch")
    values = x if native else x.astype(wide(x))
    plain = _PLAIN["rfft" if method == "each" else method]
    if lengths is None:
        return plain(values).astype(x.dtype)
    masked = _each(sizes) if method == "each" else _MASKED[method]
    whole = (lengths == x.shape[-2]).all()
    y = jax.lax.cond(whole, lambda x, n: plain(x), masked, values, lengths)
    return y.astype(x.dtype)


@lru_cache
def _each(sizes: tuple[int, ...]):
    """Returns a function that transforms one example at a time by the plain transform of its length."""

    def transform(n: int, x: Array) -> Array:
        return jnp.pad(_rfft(x[:n]), ((0, x.shape[0] - n), (0, 0))) if n else jnp.zeros_like(x)

    def one(x: Array, lengths: Array) -> Array:
        flat, used = x.reshape(-1, *x.shape[-2:]), [0, *(n for n in sizes if n <= x.shape[-2])]
        branches = [partial(transform, n) for n in used]
        which = sum((lengths.reshape(-1) > n).astype(jnp.int32) for n in used[:-1])
        which = jnp.broadcast_to(which, flat.shape[:1])
        y = jax.lax.map(lambda pair: jax.lax.switch(pair[0], branches, pair[1]), (which, flat))
        return y.reshape(x.shape)

    return batchwise(one, (2, 0))


@takes_arrays
def fourier_mix(
    x: Float[Array, "*b t d"],
    *,
    lengths: Int[Array, "..."] | None = None,
    sizes: tuple[int, ...] = (),
    method: str = "auto",
) -> Float[Array, "*b t d"]:
    """Mixes tokens and features by the real part of the two-dimensional Fourier transform.

        y[i, j] = Re sum_{m < t, n < d} x[m, n] exp(-2 pi sqrt(-1) (i m / t + j n / d))

    Forward sign, no normalisation (white noise comes out $sqrt(t d / 2)$ times larger), any t and d, the
    input's dtype. The map is linear and self-adjoint; its derivative in both modes is the same transform and
    saves no activations. A batch that is sharded over devices stays where it is. float16 is computed in
    float32, but the result is infinite from 65,520 on, and at frequency zero it is t d times the mean: use
    bfloat16.

        >>> x = jnp.array([[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])  # one example, three tokens of two features
        >>> fourier_mix(x)[0]  # the spectrum of an impulse is flat
        Array([[1., 1.],
               [1., 1.],
               [1., 1.]], dtype=float32)

    Args:
      x: the tokens, (*b, t, d).
      lengths: every example is transformed by itself over its first lengths[b] tokens, a number that takes
        the place of t and may be traced. Outside 0 .. t it is refused, or clipped where it is traced and its
        value unknown.
      sizes: what all lengths but 0 are among, rising and up to t, where that is known. On CPUs "auto" then
        takes the plain transform of one example after the other, which is faster than chirps. Another length
        is the caller's error: there it is rounded up to the next of them.
      method: "fft" is the complex transform of the definition; "rfft" computes half of the spectrum and
        mirrors it, $y[i, j] = y[-i mod t, -j mod d]$. Both run in float32. "matmul" is one product per axis
        with real cosines and sines, "monarch" two with t1 and t2 for $t = t1 t2$ tokens; both run in bfloat16
        as such, with sums in float32. With lengths, "fft" and "rfft" are chirps, O(t log t), and "matmul" is
        products with a table for each example, $O(t^2)$; where all lengths are t, both are the plain
        transforms. "auto", by backend, dtype and t:

            CPU, any dtype (measured)          "rfft"; with lengths "matmul" to t = 16, then "rfft"
            GPU, float32 (estimate)            the same
            GPU, bfloat16 (estimate)           "matmul" to t = 1024, then "monarch", or "rfft" where t has no
                                               divisor from 16 to sqrt(t) or the table exceeds 2^25 numbers;
                                               with lengths "matmul" to t = 256, then "rfft"
            TPU, float32 (the compiler's       "matmul" to t = 128, "monarch" below 16,384, then "rfft";
            estimate for v5e)                  without such a divisor "matmul" to t = 1024, then "rfft";
                                               with lengths "matmul" to t = 256, then "rfft"
            TPU, bfloat16 (the same)           "matmul" to t = 512, then "monarch"; without such a divisor or
                                               table "matmul" to t = 2048, then "rfft"; with lengths "matmul"
                                               to t = 512, then "rfft"

        Where devices share the tokens (`fourier_attn.ops.token_shares`), it is always a transform in float32.
        `python -m benchmarks.fourier` measures; `python -m benchmarks.aot v5e` has the compiler's cycles.
        On an H200, the choices for 128 tokens were the fastest. The other estimates were not run.
    Masking: without lengths every output depends on every input, padding included. With lengths neither
      content nor number of the positions from lengths[b] on has an influence; outputs there are 0.
    Raises: ValueError for an unknown method, and with lengths for "monarch", for lengths outside 0 .. t or of
      another shape than the examples', for sizes that do not fit and for t above $2^20$.
    Source: Lee-Thorpe et al., FNet: Mixing Tokens with Fourier Transforms, arXiv 2105.03824.
    """
    _check(x, lengths, sizes, method)
    if 0 in x.shape:
        return x
    if lengths is None:
        return _mixing(method, ())(x)
    lengths = lengths if lengths.dtype.itemsize > 4 else lengths.astype(jnp.int32)
    return _mixing(method, sizes)(x, jnp.clip(lengths, 0, x.shape[-2]).astype(jnp.int32))


def _check(x: Array, lengths: Array | None, sizes: tuple[int, ...], method: str) -> None:
    """Checks the arguments of `fourier_mix`."""
    check_choice("method", method, METHODS)
    if lengths is None:
        return
    if method == "monarch":
        raise ValueError("method='monarch' has no form with lengths; use 'auto', 'rfft' or 'matmul'")
    if lengths.shape != x.shape[:-2]:
        raise ValueError(f"lengths of shape {lengths.shape} must be one for each example, {x.shape[:-2]}")
    used = np.asarray(lengths) if known(lengths) else np.zeros(0, int)
    if used.size and not 0 <= used.min() <= used.max() <= x.shape[-2]:
        raise ValueError(f"lengths={used.tolist()} must lie between 0 and t={x.shape[-2]}")
    if sizes and (list(sizes) != sorted(set(sizes)) or not 1 <= sizes[0] <= sizes[-1] <= x.shape[-2]):
        raise ValueError(f"sizes={sizes} must rise, be positive and not exceed t={x.shape[-2]}")
    if x.shape[-2] > LONGEST:
        raise ValueError(f"t={x.shape[-2]} exceeds {LONGEST}, the most with lengths; cut the sequences")


def _rfft_of_images(x: Float[Array, "*b i j d"]) -> Float[Array, "*b i j d"]:
    half, d = jnp.fft.rfftn(x, axes=(-3, -2, -1)).real, x.shape[-1]
    rest = jnp.flip(half[..., 1 : (d + 1) // 2], axis=(-3, -2, -1))
    return jnp.concatenate([half, jnp.roll(rest, (1, 1), axis=(-3, -2))], axis=-1)


_IMAGES = batchwise(_rfft_of_images, 3)


@lru_cache
def _grid_mixing(grid: tuple[int, ...], features: bool) -> Callable[[Array], Array]:
    """Returns the transform of images, which is self-adjoint, too."""
    mix = partial(_grid_mix, grid=grid, features=features)
    return partial(linear_map, mix, mix)


def _grid_mix(x: Array, *, grid: tuple[int, ...], features: bool) -> Array:
    image = x.astype(wide(x)).reshape(*x.shape[:-2], *grid, x.shape[-1])
    if features:
        return _IMAGES(image).reshape(x.shape).astype(x.dtype)
    y = _PLAIN["rfft"](jnp.moveaxis(image, -1, -3))
    return jnp.moveaxis(y, -3, -1).reshape(x.shape).astype(x.dtype)


@takes_arrays
def fourier_mix_grid(
    x: Float[Array, "*b t d"], grid: tuple[int, ...], *, features: bool = True
) -> Float[Array, "*b t d"]:
    """Returns the real part of the Fourier transform of an image of tokens over rows, columns and features.

        y[i, j, f] = Re sum_{m, n, g} x[m, n, g] exp(-2 pi sqrt(-1) (i m / rows + j n / cols + f g / d))

    Linear, self-adjoint, unnormalised, as `fourier_mix`.

        >>> x = jnp.ones((1, 6, 4))  # an image of 2 x 3 tokens
        >>> fourier_mix_grid(x, (2, 3))[0, 0]  # all of it is at frequency zero
        Array([24.,  0.,  0.,  0.], dtype=float32)

    Args:
      x: the tokens (*b, t, d), row by row.
      grid: (rows, cols) with $rows cols = t$.
      features: whether features are transformed, too. Default True.
    Raises: ValueError for a grid that the tokens do not fill.
    """
    if len(grid) != 2 or grid[0] * grid[1] != x.shape[-2]:
        raise ValueError(f"grid={grid} must be (rows, cols) with rows * cols = t = {x.shape[-2]}")
    if shares() > 1:
        raise ValueError(f"grid={grid} has no form with shared tokens; use train.mesh without tokens")
    return x if 0 in x.shape else _grid_mixing(grid, features)(x)
