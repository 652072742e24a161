"""Circular correlation of token vectors, and attention whose projections are such correlations.

Let $C_w$ be the matrix that correlates a token with the kernel w. Then, for tokens $x_i$ and one head,

    q_i . k_j = (C_k^T C_q x_i) . x_j          one merged map per head; the keys are the tokens themselves
    y_i = C_v (sum_j A[i, j] x_j)              the values are the tokens, one map after the average

so that all heads share the tokens as keys and values, for every boundary. For the circular one the C are
diagonal in the Fourier basis: tokens are transformed once, filtered by $conj(W_q) W_k$ for each head,
attended to there, since the basis is orthonormal, filtered by $conj(W_v)$, summed over heads and transformed
back once. It follows that query and key kernels act only through their cross-correlation: the same phase on
both, such as the same shift, or a gain that is moved from one to the other, changes nothing. The identity
holds only without a bias, normalisation or noise between correlation and product.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.choices import check_choice
from fourier_attn.ops import hartley
from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.attention import attention, average_source, shared_attention
from fourier_attn.ops.platforms import by_platform
from fourier_attn.ops.token_shares import check_whole, shares
from fourier_attn.ops.transforms import fast_size, irfftn, rfftn

BOUNDARIES = ("circular", "zero", "valid")
METHODS = ("auto", "fft", "matmul", "direct")
ATTENTION_METHODS = ("auto", "literal", "fused")


def signal_axes(
    x: tuple[int, ...], kernel: tuple[int, ...], shape: tuple[int, ...] | None, boundary: str
) -> tuple[int, ...]:
    """Returns the axes of vectors as signals, (d,) or (d1, d2), after checking all arguments.

        >>> signal_axes((5, 8), (3, 2, 2), (4, 2), "circular")
        (4, 2)

    Args:
      x: shape of the vectors.
      kernel: shape of the kernels.
      shape: (d1, d2), or None for a signal.
      boundary: "circular", "zero" or "valid".
    """
    d = x[-1]
    if len(kernel) not in (2, 3):
        raise ValueError(f"kernel of shape {kernel} must be (h, r) or (h, r1, r2)")
    if (len(kernel) == 3) != (shape is not None):
        raise ValueError(
            f"kernel of shape {kernel} does not fit shape={shape}; a kernel (h, r1, r2) needs "
            "shape=(d1, d2), a kernel (h, r) none"
        )
    axes = (d,) if shape is None else tuple(shape)
    if len(axes) != len(kernel) - 1 or math.prod(axes) != d:
        raise ValueError(f"shape={shape} must be (d1, d2) with d1 * d2 = d = {d}")
    if any(not 1 <= r <= n for r, n in zip(kernel[1:], axes, strict=True)):
        raise ValueError(f"kernel has taps r={kernel[1:]} on axes d={axes}; r must lie between 1 and d")
    check_choice("boundary", boundary, BOUNDARIES)
    return axes


Ends = list[tuple[int, int]]  # cells before and after, for each axis


def _ends(taps: tuple[int, ...], boundary: str, convolution: bool) -> Ends:
    """Returns how many cells the window reaches before and after its place, on each axis."""
    ends = []
    for r in taps:
        before = r // 2 if boundary == "zero" else 0
        if convolution and boundary != "valid":  # the window runs backward
            before = r - 1 - before
        ends.append((before, r - 1 - before))
    return ends


def _pad(x: Array, ends: Ends, mode: str = "constant") -> Array:
    """Pads the last axes of x by what the boundary asks for."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - len(ends)) + ends, mode=mode)


def _fit(kernel: Array, sizes: tuple[int, ...], ends: Ends, boundary: str) -> Array:
    """Pads kernels to the width of the signal."""
    full = _pad(kernel, [(0, n - r) for n, r in zip(sizes, kernel.shape[1:], strict=True)])
    if boundary != "circular" or not any(before for before, _ in ends):
        return full
    return jnp.roll(full, [-before for before, _ in ends], tuple(range(1, full.ndim)))


def _fft(signal: Array, kernel: Array, ends: Ends, boundary: str) -> Array:
    """Computes one transform of the signal for all kernels, and cuts off the places that wrap."""
    if boundary == "zero":
        signal = _pad(signal, ends)
    sizes = places = signal.shape[1:]
    if boundary != "circular":
        places = tuple(n - before - after for n, (before, after) in zip(sizes, ends, strict=True))
        sizes = tuple(fast_size(n) for n in sizes)
    spectrum = jnp.conj(rfftn(_fit(kernel, sizes, ends, boundary), sizes))
    y = irfftn(rfftn(signal, sizes)[:, None] * spectrum[None], sizes)
    return y[(..., *(slice(n) for n in places))]


def _direct(signal: Array, kernel: Array, ends: Ends, boundary: str) -> Array:
    """Correlates with XLA's convolution of the padded signal."""
    if boundary == "circular":
        signal = _pad(signal, ends, "wrap")
    elif boundary == "zero":
        signal = _pad(signal, ends)
    return jax.lax.conv_general_dilated(signal[:, None], kernel[:, None], (1,) * len(ends), "VALID")


def _windows(kernel: Array, axis: int) -> Array:
    """Turns axis n into axes (p, n) with entries w[(n - p) mod size], by tiling and reshaping."""
    n = kernel.shape[axis]
    tiled = jnp.concatenate([kernel] * (2 * n), axis)
    rows = jax.lax.slice_in_dim(tiled, 0, n * (2 * n - 1), axis=axis)
    rows = rows.reshape(*kernel.shape[:axis], n, 2 * n - 1, *kernel.shape[axis + 1 :])
    return jax.lax.slice_in_dim(rows, 0, n, axis=axis + 1)


def _matrix(kernel: Array, axes: tuple[int, ...], ends: Ends, boundary: str) -> Array:
    """Returns the matrices (h, p, d) of the kernels, circulant or Toeplitz on each axis."""
    padded = axes
    if boundary == "zero":
        padded = tuple(n + before + after for n, (before, after) in zip(axes, ends, strict=True))
    full = _fit(kernel, padded, ends, boundary)
    for axis in reversed(range(len(axes))):  # (h, n1, n2) -> (h, p1, n1, p2, n2), the last axis first
        before, after = ends[axis]
        places = axes[axis] - before - after if boundary == "valid" else axes[axis]
        begin = before if boundary == "zero" else 0
        full = _windows(full, axis + 1)
        full = jax.lax.slice_in_dim(full, 0, places, axis=axis + 1)
        full = jax.lax.slice_in_dim(full, begin, begin + axes[axis], axis=axis + 2)
    places, cells = range(1, full.ndim, 2), range(2, full.ndim, 2)
    return full.transpose(0, *places, *cells).reshape(kernel.shape[0], -1, math.prod(axes))


def _matmul(signal: Array, kernel: Array, ends: Ends, boundary: str) -> Array:
    """Multiplies by all kernels' matrices at once."""
    matrix = _matrix(kernel, signal.shape[1:], ends, boundary)
    y = signal.reshape(-1, matrix.shape[-1]) @ matrix.reshape(-1, matrix.shape[-1]).T
    return y.reshape(len(signal), *matrix.shape[:2])


def _best_method(platform: str, d: int, boundary: str) -> str:
    """Returns the faster method: a product with a matrix up to some width."""
    most = 512 if platform != "cpu" else 64 if boundary == "circular" else 256
    return "matmul" if d <= most else "fft"


def _compute(method: str, signal: Array, kernel: Array, *, ends: Ends, boundary: str) -> Array:
    dtype = wide(signal) if method == "fft" else signal.dtype  # no transform has low precision
    function = {"fft": _fft, "matmul": _matmul, "direct": _direct}[method]
    y = function(signal.astype(dtype), kernel.astype(dtype), ends, boundary)
    return y.reshape(*y.shape[:2], math.prod(y.shape[2:])).astype(signal.dtype)


@takes_arrays
def circular_correlate(
    x: Float[Array, "*b d"],
    kernel: Float[Array, "..."],
    *,
    shape: tuple[int, ...] | None = None,
    boundary: str = "circular",
    convolution: bool = False,
    method: str = "auto",
) -> Float[Array, "*b h _"]:
    """Correlates each vector with h kernels, along its features: tokens do not meet.

        y[.., a, p] = sum_{j < r} w[a, j] x[.., (p + j) mod d]            boundary "circular"
        y[.., a, p] = sum_{j < r} w[a, j] x[.., p + j - r // 2]           "zero": x is zero outside
        y[.., a, p] = sum_{j < r} w[a, j] x[.., p + j],  p <= d - r       "valid"

    Cross-correlation, as the articles' "convolution" is: tap 0 is at p and the window runs forward; for
    "zero" tap r // 2 is at p. With `shape=(d1, d2)` the vector is an image, row by row, and all of the above
    holds on both axes. Any d and any r from 1 to d.

        >>> x, kernel = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([[0.0, 1.0]])  # one kernel of two taps
        >>> circular_correlate(x, kernel)  # the next number; after the last comes the first
        Array([[2., 3., 4., 1.]], dtype=float32)

    Args:
      x: vectors (*b, d), for example tokens (b, t, d).
      kernel: kernels (h, r), or (h, r1, r2) with `shape`.
      shape: (d1, d2) makes each vector an image, read row by row. Default None, a signal.
      boundary: "circular", "zero" or "valid", as above. Default "circular".
      convolution: $p - j$ instead of $p + j$; the centre tap of "zero" stays at p, and "valid" keeps the
        places where the whole window lies inside.
      method: "fft" transforms x once for all kernels, in float32; "matmul" is a product with the (circulant)
        matrix; "direct" is XLA's convolution. "auto" is "matmul" up to d = 64, or 256 for the other
        boundaries, and "fft" above: so forward + backward cross in `python -m benchmarks.mixers` on CPU
        (forward alone, "matmul" wins up to d = 128); on other backends 512 (not yet run).
    Masking: none needed; vectors do not mix.
    Raises: ValueError for kernels that do not fit, and for an unknown boundary or method.
    Source: Optalysys' articles on transformers by convolution (1-D and 2-D listings).
    """
    axes = signal_axes(x.shape, kernel.shape, shape, boundary)
    check_choice("method", method, METHODS)
    if shares() > 1 and x.ndim > 2:
        # The reshape below would merge examples with shared tokens, and XLA would gather all of them.
        options: Any = {"shape": shape, "boundary": boundary, "convolution": convolution, "method": method}
        return jax.vmap(lambda one: circular_correlate(one, kernel, **options))(x)
    if convolution:
        kernel = jnp.flip(kernel, tuple(range(1, kernel.ndim)))
    compute = partial(_compute, ends=_ends(kernel.shape[1:], boundary, convolution), boundary=boundary)
    signal = x.reshape(math.prod(x.shape[:-1]), *axes)
    if method == "auto":
        choose = partial(_best_method, d=x.shape[-1], boundary=boundary)
        y = by_platform(choose, compute, signal, kernel)
    else:
        y = compute(method, signal, kernel)
    return y.reshape(*x.shape[:-1], *y.shape[1:])


@takes_arrays
def circular_attention(
    x: Float[Array, "*b t d"],
    query: Float[Array, "..."],
    key: Float[Array, "..."],
    value: Float[Array, "..."],
    *,
    shape: tuple[int, ...] | None = None,
    boundary: str = "circular",
    mask: Bool[Array, "..."] | None = None,
    causal: bool = False,
    combine_heads: str = "sum",
    method: str = "auto",
    implementation: str = "xla",
) -> Float[Array, "..."]:
    """Computes self-attention in which a kernel per head correlates each token to query, key and value.

        q, k, v = query * x, key * x, value * x           `circular_correlate`, each (t, h, p)
        y[i] = sum_a sum_j softmax_j(q[i, a] . k[j, a] / sqrt(p)) v[j, a]

    Every head is as wide as the token. See the module for the identity of `method="fused"`, and for what it
    says of query and key kernels.

        >>> x, kernel = jnp.ones((2, 5, 8)), jnp.ones((3, 8)) / 8  # three heads
        >>> y = circular_attention(x, kernel, kernel, kernel)
        >>> y.shape, round(float(y[0, 0, 0]), 3)  # means of ones, summed over heads
        ((2, 5, 8), 3.0)

    Args:
      x: the tokens, (*b, t, d).
      query, key, value: kernels (h, r), or (h, r1, r2) with `shape=(d1, d2)`.
      shape, boundary: see `circular_correlate`.
      mask: (*b, t), True for the tokens that may be attended to.
      causal: token i attends to $j <= i$ only. The correlations run along the features of each token, for
        every boundary, so that they need no causal form: tokens meet in the softmax alone.
      combine_heads: "sum" over heads, (*b, t, p); "none" keeps them, (*b, t, h, p).
      method: "literal" computes the lines above; "fused" uses the identity, with matrices where the boundary
        is not circular. "auto" is "fused" up to d = 512, or 256 where it needs matrices: there it was the
        faster one in `python -m benchmarks.mixers`. If devices share the tokens of a sequence, "auto" uses
        "literal", and "fused" raises a ValueError.
      implementation: "xla" or "rows", see `fourier_attn.ops.attention.shared_attention`. Default "xla".
    Masking: a masked token gets no weight.
    Raises: ValueError for kernels or a mask that do not fit, and for an unknown option.
    Source: Optalysys' articles; the identity is derived here, and the methods are tested to be equal.
    """
    axes = signal_axes(x.shape, query.shape, shape, boundary)
    _check_attention(x, (query, key, value), mask, combine_heads, method)
    check_choice("implementation", implementation, ("xla", "rows"))
    *lead, t, d = x.shape
    tokens = x.reshape(math.prod(lead), t, d)
    if mask is not None:
        mask = mask.reshape(tokens.shape[:2])
    if method == "auto":
        most = 512 if boundary == "circular" else 256
        method = "fused" if d <= most and shares() == 1 else "literal"
    if method == "fused":
        check_whole("method='fused'", "method='auto'")
    if method == "literal":
        kernels = jnp.concatenate([w.astype(wide(query, key, value)) for w in (query, key, value)])
        projected = circular_correlate(tokens, kernels, shape=shape, boundary=boundary)
        heads = jnp.split(projected, 3, axis=-2)
        y = attention(*heads, mask=mask, causal=causal, implementation=implementation)
        if combine_heads == "sum":
            y = y.sum(axis=-2)
    elif boundary == "circular":
        average = partial(_attend, mask=mask, causal=causal, implementation=implementation)
        y = _fused_in_hartley_basis(tokens, (query, key, value), axes, average, combine_heads)
    else:
        average = partial(average_source, mask=mask, causal=causal, implementation=implementation)
        y = _fused(tokens, (query, key, value), axes, boundary, average, combine_heads)
    return y.reshape(*lead, *y.shape[1:])


def _check_attention(
    x: Array, kernels: tuple[Array, ...], mask: Array | None, combine_heads: str, method: str
) -> None:
    query, key, value = [kernel.shape for kernel in kernels]
    if not query == key == value:
        raise ValueError(f"query {query}, key {key} and value {value} must have one shape")
    if mask is not None and mask.shape != x.shape[:-1]:
        raise ValueError(f"mask of shape {mask.shape} must be (*b, t) = {x.shape[:-1]}")
    check_choice("combine_heads", combine_heads, ("sum", "none"))
    check_choice("method", method, ATTENTION_METHODS)


def _attend(queries: Array, tokens: Array, *, mask: Array | None, causal: bool, implementation: str) -> Array:
    """Heads (b, t, h, d) of queries to shared tokens (b, s, d)."""
    b, t, h, d = queries.shape
    if mask is None:
        mask = jnp.ones(tokens.shape[:2], bool)
    scaled = queries * jnp.asarray(1 / math.sqrt(d), queries.dtype)
    scaled = scaled.reshape(b, t * h, d)
    y = shared_attention(scaled, tokens, mask, causal=causal, implementation=implementation)
    return y.reshape(b, t, h, d)


def _fused(
    tokens: Array,
    kernels: tuple[Array, Array, Array],
    axes: tuple[int, ...],
    boundary: str,
    average: Callable[..., Array],
    combine_heads: str,
) -> Array:
    """The identity with matrices, for any boundary."""
    b, t, d = tokens.shape
    ends = _ends(kernels[0].shape[1:], boundary, convolution=False)
    query, key, value = [_matrix(w, axes, ends, boundary) for w in kernels]
    h, p, _ = query.shape
    asks = query.transpose(2, 0, 1), key.transpose(2, 0, 1)
    averages = average(tokens, tokens, *asks)
    value = value.astype(tokens.dtype)
    if combine_heads == "none":
        return jnp.einsum("bthd,hpd->bthp", averages, value)
    summed = averages.reshape(b * t, h * d) @ value.swapaxes(1, 2).reshape(h * d, p)
    return summed.reshape(b, t, p)


def _fused_in_hartley_basis(
    tokens: Array,
    kernels: tuple[Array, Array, Array],
    axes: tuple[int, ...],
    average: Callable[..., Array],
    combine_heads: str,
) -> Array:
    """The identity for the circular boundary; the products of spectra are those of `hartley.spectrum`."""
    (qr, qi), (kr, ki), (vr, vi) = [hartley.spectrum(w.astype(wide(w, tokens)), axes) for w in kernels]
    dtype = tokens.dtype
    re = (qr * kr + qi * ki).astype(dtype)  # of the merged map conj(W_q) W_k, (h, d)
    im = (qi * kr - qr * ki).astype(dtype)
    vr, vi = vr.astype(dtype), vi.astype(dtype)
    plus, minus = jnp.split(hartley.transform(tokens, axes), 2, axis=-1)
    # Head by head: products that broadcast over heads have a slow derivative on CPU.
    queries = [re[a][None, None] * plus - im[a][None, None] * minus for a in range(len(re))]
    averages = average(jnp.stack(queries, axis=2), plus)
    heads_plus = [averages[:, :, a] * vr[a][None, None] for a in range(len(vr))]
    heads_minus = [averages[:, :, a] * vi[a][None, None] for a in range(len(vi))]
    if combine_heads == "sum":
        halves = [sum(heads_plus), sum(heads_minus)]
    else:
        halves = [jnp.stack(heads_plus, axis=2), jnp.stack(heads_minus, axis=2)]
    return hartley.adjoint(jnp.concatenate(halves, axis=-1), axes)
