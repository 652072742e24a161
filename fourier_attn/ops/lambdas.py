"""Computes lambda layers: linear maps from the context that are applied to the queries and never stored.

With the scores computed first,

    sum_k q[n, k] lambda[n, k, v] = sum_m (q[n] . R[m - n + ..]) value[m, v]

The position lambdas (b, n, k, v) are not built, and derivatives are sums of the same kind. The softmax and
all sums over positions run in float32, or in float64 if an input has it.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.choices import check_choice
from fourier_attn.ops import relative_position
from fourier_attn.ops.arguments import like_shards, takes_arrays, wide
from fourier_attn.ops.neighbours import check_reach
from fourier_attn.ops.token_shares import check_whole, share_of, shares

METHODS = ("auto", "shift", "matrix", "fft")
NEVER = -1e30  # a logit that no real one comes near; finite, so that differences stay numbers
CHUNK = 32  # positions; of the running sum
STEP = 16.0  # distance of the numbers that can be subtracted from keys
CLIMB = 32.0  # rise of the keys within a chunk from which chunks of one position are used
SMALLEST = 1e-18  # less than exp(-CLIMB - STEP / 2); its square does not underflow in float32


@takes_arrays
def content_lambda(
    query: Float[Array, "b t h k"], key: Float[Array, "b s k u"], value: Float[Array, "b s u v"]
) -> Float[Array, "b t h v"]:
    """Computes $y[n] = lambda^T q[n]$, $lambda = sum_m softmax_m(key[m]) value[m]^T$, one for all positions.

        >>> query, key = jnp.ones((1, 3, 1, 1)), jnp.zeros((1, 3, 1, 1))
        >>> content_lambda(query, key, jnp.array([0.0, 3.0, 6.0]).reshape(1, 3, 1, 1)).ravel()
        Array([3., 3., 3.], dtype=float32)

    Args:
      query: queries (b, t, h, k).
      key: keys (b, s, k, u), before the softmax over positions.
      value: values (b, s, u, v).
    """
    (b, t, h, k), (s, u, v) = query.shape, value.shape[1:]
    dtype = wide(query, key, value)
    if 0 in (*query.shape, *value.shape):
        return jnp.zeros((b, t, h, v), value.dtype)
    flat = key.astype(dtype).reshape(b, s, k * u)
    weights = jax.nn.softmax(flat, axis=1).astype(value.dtype).reshape(key.shape)
    # Products of matrices: axes of size one in between are slow on CPU.
    weights, value = weights.swapaxes(-1, -2).reshape(b, s * u, k), value.reshape(b, s * u, v)
    content = jnp.einsum("bmk,bmv->bkv", weights, value, preferred_element_type=dtype)
    y = jnp.matmul(query.reshape(b, t * h, k), content.astype(value.dtype))
    return y.reshape(b, t, h, v)


@takes_arrays
def causal_content_lambda(
    query: Float[Array, "b t h k"], key: Float[Array, "b t k u"], value: Float[Array, "b t u v"]
) -> Float[Array, "b t h v"]:
    """Computes the content lambda with a running softmax, over the positions $m <= n$.

        y[n] = sum_{m <= n} sum_k q[n, k] (exp(key[m, k] - M[n, k]) / Z[n, k]) value[m]
        Z[n, k] = sum_{m <= n} exp(key[m, k] - M[n, k])

    The result does not depend on M. All positions of a chunk use the same M, near the largest key up to the
    end of the chunk. Each key then needs one exponential, and not one for each n. M is a multiple of `STEP`,
    so that later keys of the chunk rarely change how earlier results are rounded. Exponents are at most
    `STEP / 2`, so they do not overflow. The sums over all earlier chunks are kept as matrices.

    If the keys rise by `CLIMB` or more within a chunk, its first sums Z would underflow in float32. All
    positions are then computed in chunks of one position, which takes longer. If devices share the tokens
    of a sequence, each device gets the sums over the tokens of earlier devices.

        >>> query, key = jnp.ones((1, 3, 1, 1)), jnp.zeros((1, 3, 1, 1))
        >>> causal_content_lambda(query, key, jnp.array([0.0, 3.0, 6.0]).reshape(1, 3, 1, 1)).ravel()
        Array([0. , 1.5, 3. ], dtype=float32)

    Args:
      query: queries (b, t, h, k).
      key: keys (b, t, k, u), before the softmax over positions.
      value: values (b, t, u, v).
    """
    b, t, h, k = query.shape
    u, v = value.shape[2:]
    dtype, n = wide(query, key, value), shares()
    own = share_of(t)  # positions of a device
    chunks = -(-own // CHUNK)
    if 0 in (*query.shape, *value.shape):
        return jnp.zeros((b, t, h, v), value.dtype)

    def pad(x: Array, fill: float) -> Array:
        pads = ((0, 0), (0, chunks * CHUNK - own), (0, 0), (0, 0))
        return jnp.pad(x, pads, constant_values=fill)

    def whole(start: tuple[Array, ...], *arrays: Array) -> Array:
        return _running(start, arrays, CHUNK)[1]

    def one_by_one(start: tuple[Array, ...], *arrays: Array) -> Array:
        split = tuple(x.reshape(b, chunks, CHUNK, *x.shape[2:]).swapaxes(0, 1) for x in arrays)
        one = jax.checkpoint(lambda before, chunk: _running(before, chunk, 1))
        y = jax.lax.scan(one, start, split)[1]
        return y.swapaxes(0, 1).reshape(b, chunks * CHUNK, h, v)

    arrays = [x.astype(dtype) for x in (query, key, value)]
    if n == 1:
        start = (
            jnp.zeros((b, k, u, v), dtype),
            jnp.zeros((b, k, u), dtype),
            jnp.full((b, k, u), NEVER, dtype),
        )
        start = tuple(like_shards(x, *arrays) for x in start)
    else:  # the first axis counts the devices
        arrays = [jnp.moveaxis(x.reshape(b, n, own, *x.shape[2:]), 1, 0) for x in arrays]
        start = _before(*arrays[1:])
    each: Any = jax.vmap if n > 1 else lambda function: function
    arrays = [each(partial(pad, fill=fill))(x) for x, fill in zip(arrays, (0.0, NEVER, 0.0), strict=True)]
    # The backward pass recomputes its branch, so that no arrays of the other branch are stored.
    branches = (jax.checkpoint(each(branch)) for branch in (whole, one_by_one))
    y = jax.lax.cond(each(_climb)(arrays[1]).max() < CLIMB, *branches, start, *arrays)
    y = y[:, :t] if n == 1 else jnp.moveaxis(y[:, :, :own], 0, 1).reshape(b, t, h, v)
    return y.astype(value.dtype)


def _before(key: Array, value: Array) -> tuple[Array, Array, Array]:
    """Returns `before` of `_running` for each device, from keys (n, b, t / n, k, u)."""
    highest = jax.lax.stop_gradient(STEP * jnp.round(key.max(axis=2) / STEP))  # (n, b, k, u)
    weights = jnp.exp(key - highest[:, :, None])
    total, sums = weights.sum(axis=2), jnp.einsum("nbmku,nbmuv->nbkuv", weights, value)
    earlier = jnp.tril(jnp.ones((len(key),) * 2, bool), -1)[:, :, None, None, None]
    seen = jnp.where(earlier, highest[None], jnp.full((), NEVER, key.dtype))
    before = seen.max(axis=1)
    decay = jnp.where(earlier, jnp.exp(seen - before[:, None]), jnp.zeros((), key.dtype))
    sums = jnp.einsum("inbku,nbkuv->ibkuv", decay, sums)
    return sums, jnp.einsum("inbku,nbku->ibku", decay, total), before


def _climb(key: Array) -> Array:
    """Returns the largest rise of the keys' running maximum within any chunk, without padding (NEVER)."""
    key = jax.lax.stop_gradient(key)
    key = key.reshape(key.shape[0], -1, CHUNK, *key.shape[2:])  # an exported program takes any batch
    lowest = jnp.where(key > NEVER, key, jnp.full((), jnp.inf, key.dtype)).min(axis=2)
    highest = jax.lax.cummax(key.max(axis=2), axis=1)
    before = jnp.pad(highest[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0)), constant_values=NEVER)
    return (highest - jnp.maximum(lowest, before)).max()


def _running(
    before: tuple[Array, ...], arrays: tuple[Array, ...], size: int
) -> tuple[tuple[Array, ...], Array]:
    """Computes the results of all positions in chunks, and the sums up to the last position.

    Args:
      before: over all earlier positions, the sums of $exp(key - highest) value$ and of
        $exp(key - highest)$, and `highest`, the multiple of `STEP` next to the largest key.
      arrays: query, key and value.
      size: positions of a chunk.
    """
    query, key, value = (x.reshape(x.shape[0], -1, size, *x.shape[2:]) for x in arrays)  # (b, c, size, ..)
    sums, total, highest = before  # (b, k, u, v), (b, k, u), (b, k, u)
    largest = jax.lax.stop_gradient(STEP * jnp.round(key.max(axis=2) / STEP))
    highest = jnp.concatenate([highest[:, None], largest], axis=1)
    highest = jax.lax.cummax(highest, axis=1)  # (b, 1 + c, k, u)
    decay = jnp.exp(highest[:, :-1] - highest[:, 1:])
    weights = jnp.exp(key - highest[:, 1:, None])  # (b, c, m, k, u)
    earlier = jnp.tril(jnp.ones((size, size), key.dtype))
    totals = jnp.einsum("nm,bcmku->bcnku", earlier, weights, precision="highest")
    added = jnp.einsum("bcmku,bcmuv->bckuv", weights, value)

    def add(before: tuple[Array, Array], chunk: tuple[Array, ...]) -> tuple[tuple, tuple]:
        decay, more, count = chunk
        decayed = decay[..., None] * before[0], decay * before[1]
        return (decayed[0] + more, decayed[1] + count), decayed

    chunks = tuple(x.swapaxes(0, 1) for x in (decay, added, totals[:, :, -1]))
    end, kept = jax.lax.scan(add, (sums, total), chunks)
    sums, total = (x.swapaxes(0, 1) for x in kept)
    scaled = query[..., None] / jnp.maximum(totals + total[:, :, None], SMALLEST)[:, :, :, None]
    scores = jnp.tril(jnp.einsum("bcnhku,bcmku->bcuhnm", scaled, weights))
    y = jnp.einsum("bcuhnm,bcmuv->bcnhv", scores, value) + jnp.einsum("bcnhku,bckuv->bcnhv", scaled, sums)
    return (*end, highest[:, -1]), y.reshape(y.shape[0], -1, *y.shape[3:])


@takes_arrays
def lambda_layer(
    query: Float[Array, "*b t h k"],
    key: Float[Array, "..."],
    value: Float[Array, "..."],
    position: Float[Array, "..."] | None,
    *,
    grid: tuple[int, ...] | None = None,
    causal: bool = False,
    mask: Bool[Array, "..."] | None = None,
    method: str = "auto",
) -> Float[Array, "*b t h v"]:
    """Applies to each query a linear map from the context: a content lambda and a position lambda.

        lambda = sum_m softmax_m(key[m]) value[m]^T                        over all positions m
        lambda[n] = sum_m R[m - n + (r - 1) / 2] value[m]^T                cross-correlation, zero outside
        y[n, a] = (lambda + lambda[n])^T q[n, a]                           for each head a

    Products run over the intra-depth u too. The result has the dtype of `value`.

        >>> query, key = jnp.ones((1, 3, 1, 1)), jnp.zeros((1, 3, 1, 1))
        >>> value = jnp.array([0.0, 3.0, 6.0]).reshape(1, 3, 1, 1)
        >>> before = jnp.array([1.0, 0.0, 0.0]).reshape(3, 1, 1)
        >>> lambda_layer(query, key, value, before).ravel()  # the mean, 3, and the value of the token before
        Array([3., 3., 6.], dtype=float32)

    Args:
      query: (*b, t, h, k), the heads of multi-query lambdas: they share key, value and position.
      key: (*b, t, k, u), before the softmax over positions.
      value: (*b, t, v, u).
      position: R. (r, k, u) with an odd context r, where $r = 2 t - 1$ is global; with `grid`, (r1, r2, k,
        u), both odd, on an image; without, (t, t, k, u) has an entry for each pair of positions, query first.
        Taps that reach beyond every position are not used. With `causal`, the taps (r, k, u) are the
        positions $n - r + 1$ to n, the last one being n itself; $r = t$ is global. None leaves the content
        lambda alone.
      grid: (rows, cols), the positions row by row.
      causal: position n sees $m <= n$ only: the softmax becomes a running one, normalised at each n.
      mask: (*b, t), True for real positions.
      method: of the position part. "shift" adds up shifted values, for few taps; "matrix" multiplies by the
        (banded) matrix of scores, a block of queries at a time; "fft" filters the values with one column of R
        after the other, in n log n steps. "auto" takes the cheapest by a count of operations that `python -m
        benchmarks.mixers` bears out on CPU. If devices share the tokens of a sequence,
        only "shift" works ("auto" uses it), and no tap may reach further than the tokens of one device.
    Masking: a masked position gets no weight in the softmax and its value counts as zero.
    Raises: ValueError for shapes that do not fit, an even context, or an unknown method.
    Source: Bello, LambdaNetworks, arXiv 2102.08602; Optalysys' articles. Their listing permutes an image in a
      way that scrambles channels and positions in its "tokens"; here, as their equations have it, position n
      of the grid is token n.
    """
    _check(query, key, value, position, grid, causal, mask, method)
    *lead, t, h, _ = query.shape
    if 0 in (*query.shape, *key.shape, *value.shape):
        return jnp.zeros((*lead, t, h, value.shape[-2]), value.dtype)
    y = _apply(query, key, value, position, grid, causal, mask, method)
    return y.astype(value.dtype).reshape(*lead, t, h, value.shape[-2])


def _apply(query, key, value, position, grid, causal, mask, method) -> Array:
    *_, t, h, k = query.shape
    v, u = value.shape[-2:]
    query, key = query.reshape(-1, t, h, k).astype(value.dtype), key.reshape(-1, t, k, u)
    value = value.reshape(-1, t, v, u).swapaxes(-1, -2)
    if mask is not None:
        real = mask.reshape(-1, t, 1, 1)
        key = key.astype(wide(query, key, value))
        key = jnp.where(real, key, jnp.full((), NEVER, key.dtype))
        value = jnp.where(real, value, jnp.zeros((), value.dtype))
    content = (causal_content_lambda if causal else content_lambda)(query, key, value)
    if position is None:
        return content
    if position.ndim == 4 and grid is None:
        check_whole("a position table of pairs", "table='relative'")
        y = relative_position.by_pairs(query, value, position)
    else:
        axes = (t,) if grid is None else grid
        y = _relative(
            query.reshape(-1, *axes, h, k), value.reshape(-1, *axes, u, v), position, causal, method
        )
    return content.astype(y.dtype) + y.reshape(content.shape)


def _relative(query: Array, value: Array, table: Array, causal: bool, method: str) -> Array:
    """Cuts off the taps that reach beyond every position, then computes by the method, or by the cheapest."""
    axes, (*heads, k) = query.shape[1:-2], query.shape[-2:]
    if shares() > 1:
        method = _for_shares(axes, table.shape, causal, method)
    before = []
    for axis, n in enumerate(axes):
        r = table.shape[axis]
        first = r - 1 if causal else r // 2
        used = min(first, n - 1)
        table = jax.lax.slice_in_dim(table, first - used, min(r, first + n), axis=axis)
        before.append(used)
    taps, (u, v), n = table.shape[:-2], value.shape[-2:], math.prod(axes)
    if method == "auto":
        columns = math.prod(min(m, r + relative_position.BLOCK) for m, r in zip(axes, taps, strict=True))
        # Multiply-adds of the matrix against those of the transforms, which run some 40 times slower.
        dense, filtered = n * columns * u * heads[0] * (k + v), 40 * n * k * u * v * math.log2(2 * n)
        few = math.prod(taps) <= 16 and math.prod(taps) * heads[0] * u <= 64
        method = "shift" if few else "matrix" if dense <= filtered else "fft"
    compute = {
        "shift": relative_position.by_shift,
        "matrix": relative_position.by_matrix,
        "fft": relative_position.by_fft,
    }[method]
    return compute(query, value, table, tuple(before))


def _for_shares(axes: tuple[int, ...], table: tuple[int, ...], causal: bool, method: str) -> str:
    """Returns "shift", the only method for shared tokens, if the taps do not reach beyond the next device."""
    if method not in ("auto", "shift"):
        check_whole(f"method={method!r}", "method='auto'")
    check_reach("a position table", axes, table[0], causal=causal, name="a context")
    return "shift"


def _check(query, key, value, position, grid, causal, mask, method) -> None:
    """Checks the shapes and the method."""
    *lead, t, _, k = query.shape
    if key.ndim != query.ndim or key.shape[:-1] != (*lead, t, k):
        raise ValueError(f"key of shape {key.shape} must be (*b, t, k, u) = {(*lead, t, k)} and any u")
    u = key.shape[-1]
    if value.ndim != query.ndim or (*value.shape[:-2], value.shape[-1]) != (*lead, t, u):
        raise ValueError(f"value of shape {value.shape} must be (*b, t, v, u) = {(*lead, t)}, any v, and {u}")
    if mask is not None and mask.shape != (*lead, t):
        raise ValueError(f"mask of shape {mask.shape} must be (*b, t) = {(*lead, t)}")
    check_choice("method", method, METHODS)
    if position is None:
        return
    if position.ndim not in (3, 4) or position.shape[-2:] != (k, u):
        raise ValueError(f"position of shape {position.shape} must be taps and then (k, u) = {(k, u)}")
    _check_places(position.shape, t, grid, causal)


def _check_places(shape: tuple[int, ...], t: int, grid: tuple[int, ...] | None, causal: bool) -> None:
    dense = len(shape) == 4 and grid is None
    if grid is not None and (len(grid) != 2 or math.prod(grid) != t):
        raise ValueError(f"grid={grid} must be (rows, cols) with rows * cols = t = {t}")
    if grid is not None and len(shape) != 4:
        raise ValueError(f"position of shape {shape} must be (r1, r2, k, u) on a grid")
    if 0 in shape:
        raise ValueError(f"position of shape {shape} is empty; give it at least one tap")
    if causal and (len(shape) == 4 or shape[0] > t):
        raise ValueError(
            f"position of shape {shape} is not causal: with causal=True pass (r, k, u), r <= t = {t}, for "
            "the positions n - r + 1 to n"
        )
    if dense and shape[:2] != (t, t):
        raise ValueError(f"position of shape {shape} must be (t, t, k, u) with t={t}, or pass its grid")
    if not (dense or causal) and any(r % 2 == 0 for r in shape[:-2]):
        raise ValueError(f"position has an even context, {shape[:-2]}; make it odd, so that it has a centre")
