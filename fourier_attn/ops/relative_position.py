"""The position part of lambda layers: neighbours weighted by what the query says of their relative place.

    y[n, h] = sum_r sum_u S[n, h, u, r] v[n + r - before, u],    S[n, h, u, r] = q[n, h] . R[r, :, u]

Three forms of one sum. `axes` are the axes of the positions, (t,) or (rows, cols), and `before` the taps
before the query's own place on each of them, less than its size. Queries are (b, *axes, h, k), values
(b, *axes, u, v), tables (*r, k, u), results (b, *axes, h, v). Values are zero outside. No form builds the
position lambda, which would be (b, *axes, k, v).
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fourier_attn.ops.arguments import like_shards, takes_arrays, wide
from fourier_attn.ops.derivatives import linear_map
from fourier_attn.ops.neighbours import neighbours
from fourier_attn.ops.platforms import by_platform, cpu_or_other
from fourier_attn.ops.transforms import fast_size, irfftn, rfftn

BLOCK = 128  # rows of the banded matrix at a time


def _nothing(query: Array, value: Array) -> Array:
    """Returns zeros of the result's shape, for an empty sum."""
    return jnp.zeros((*query.shape[:-1], value.shape[-1]), wide(query, value))


def _scores(query: Array, table: Array) -> Array:
    """$S[n, h, u, r] = q[n, h] . R[r, :, u]$: what each neighbour's value is weighted with."""
    k, u = table.shape[-2:]
    flat = jnp.moveaxis(table, -1, 0).reshape(-1, k).astype(query.dtype)
    return jnp.tensordot(query, flat.T, 1).reshape(*query.shape[:-1], u, *table.shape[:-2])


def _shifted_sum(scores: Array, value: Array, before: tuple[int, ...], taps: tuple[int, ...]) -> Array:
    """Weights the neighbours of each position.

        y[n, h] = sum_r sum_u S[n, h, u, r] v[n + r - before, u]

    Args:
      scores: S (b, *axes, h, u, prod(r)).
    """
    heads, units = (range(n) for n in scores.shape[-3:-1])
    near = neighbours(value, before, taps)
    terms = (
        [scores[..., h, u, i, None] * x[..., u, :] for i, x in enumerate(near) for u in units] for h in heads
    )
    return jnp.stack([sum(term[1:], term[0]) for term in terms], axis=-2)


def _shift_backward(before, taps, saved, g):
    """Derivatives are shifts again, and written as such: JAX's own would be padded sums."""
    scores, value = saved
    heads, units = (range(n) for n in scores.shape[-3:-1])
    near = neighbours(value, before, taps)
    by_scores = [jnp.sum(g[..., h, :] * x[..., u, :], axis=-1) for h in heads for u in units for x in near]
    after = tuple(r - 1 - f for f, r in zip(before, taps, strict=True))
    back = list(zip(neighbours(scores, after, taps), neighbours(g, after, taps), strict=True))[::-1]
    terms = (
        [s[..., h, u, i, None] * c[..., h, :] for i, (s, c) in enumerate(back) for h in heads] for u in units
    )
    by_value = jnp.stack([sum(term[1:], term[0]) for term in terms], axis=-2)
    return jnp.stack(by_scores, axis=-1).reshape(scores.shape), by_value


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _shift(scores: Array, value: Array, before: tuple[int, ...], taps: tuple[int, ...]) -> Array:
    return _shifted_sum(scores, value, before, taps)


@_shift.defjvp
def _shift_jvp(before, taps, inputs, tangents):
    def forward(tangents: tuple[Array, Array], scores: Array, value: Array) -> Array:
        by_scores, by_value = tangents
        return _shifted_sum(by_scores, value, before, taps) + _shifted_sum(scores, by_value, before, taps)

    def backward(g: Array, *inputs: Array) -> tuple[Array, Array]:
        return _shift_backward(before, taps, inputs, g)

    return _shift(*inputs, before, taps), linear_map(forward, backward, tuple(tangents), *inputs)


@takes_arrays
def by_shift(
    query: Float[Array, "b *n h k"],
    value: Float[Array, "b *n u v"],
    table: Float[Array, "*r k u"],
    before: tuple[int, ...],
) -> Float[Array, "b *n h v"]:
    """Sums values that are shifted by each tap.

        >>> value, table = jnp.arange(3.0).reshape(1, 3, 1, 1), jnp.ones((2, 1, 1))
        >>> by_shift(jnp.ones((1, 3, 1, 1)), value, table, (1,)).ravel()  # with the token before
        Array([0., 1., 3.], dtype=float32)

    Args:
      query: queries (b, *axes, h, k).
      value: values (b, *axes, u, v).
      table: taps (*r, k, u).
      before: number of taps before the query's own position, on each axis.
    """
    taps = table.shape[:-2]
    if 0 in (*query.shape, *value.shape, *taps):
        return _nothing(query, value)
    scores = _scores(query, table)
    scores = scores.reshape(*scores.shape[: -len(taps)], math.prod(taps))
    dtype = wide(query, value)
    return _shift(scores.astype(dtype), value.astype(dtype), before, taps)


def _skew(x: Array, axis: int, before: int, width: int) -> Array:
    """Axes (n, r) become (n, m) with $m = n + r - before$, zero where no tap is, without a gather.

    Rows of $n + width - 1$ cells that hold every offset are read as rows of one cell less.
    """
    n, r = x.shape[axis : axis + 2]
    pads = [(0, 0, 0)] * x.ndim
    pads[axis + 1] = (n - 1 - before, width + before - r, 0)  # negative: cut off
    full = jax.lax.pad(x, jnp.zeros((), x.dtype), pads)
    if n == 1:
        return full
    length = n + width - 1
    flat = full.reshape(*full.shape[:axis], n * length, *full.shape[axis + 2 :])
    flat = jax.lax.slice_in_dim(flat, n - 1, n - 1 + n * (length - 1), axis=axis)
    rows = flat.reshape(*full.shape[:axis], n, length - 1, *full.shape[axis + 2 :])
    return jax.lax.slice_in_dim(rows, 0, width, axis=axis + 1)


def _from_scores(query: Array, table: Array, before: tuple[int, ...], source: tuple[int, ...]) -> Array:
    """Skews the scores: the result is zero where no tap is.

        A[(h, n), (m, u)] = S[n, h, u, m - n + before]

    Args:
      table: float32 at least, so that what blocks give to its derivative is summed in it.
      source: the axes of the values that are seen.
    Returns: (b, h prod(axes), prod(source) u).
    """
    b, *axes, h, _ = query.shape
    count = len(axes)
    query, table = jnp.moveaxis(query, -2, 1), jnp.moveaxis(table.astype(query.dtype), -2, 0)
    scores = jnp.tensordot(query, table, 1)  # (b, h, *axes, *r, u)
    pairs = [axis for i in range(count) for axis in (2 + i, 2 + count + i)]
    scores = scores.transpose(0, 1, *pairs, 2 + 2 * count)
    for i in reversed(range(count)):
        scores = _skew(scores, 2 + 2 * i, before[i], source[i])
    rows, columns = range(2, 2 + 2 * count, 2), range(3, 3 + 2 * count, 2)
    return scores.transpose(0, 1, *rows, *columns, 2 + 2 * count).reshape(b, h * math.prod(axes), -1)


def _place(table: Array, axes: tuple[int, ...], before: tuple[int, ...], source: tuple[int, ...]) -> Array:
    """Skews the table: the result is zero where no tap is.

        T[n, k, (m, u)] = R[m - n + before, k, u]

    On one or two axes. Returns: (prod(axes), k, prod(source) u).
    """
    last = len(axes) - 1
    placed = jnp.moveaxis(table, -2, 0)  # (k, *r, u)
    shape = (*placed.shape[: last + 1], axes[last], *placed.shape[last + 1 :])
    placed = _skew(jnp.broadcast_to(placed[..., None, :, :], shape), last + 1, before[last], source[last])
    placed = jnp.moveaxis(placed, last + 1, 0)
    if last:  # each row has the table of the first one, moved: less to move than by a skew
        moved = [(n - before[0], source[0] - table.shape[0] - n + before[0]) for n in range(axes[0])]
        pads = [[(0, 0, 0), (0, 0, 0), (*pad, 0), (0, 0, 0), (0, 0, 0)] for pad in moved]
        placed = jnp.stack([jax.lax.pad(placed, jnp.zeros((), table.dtype), pad) for pad in pads])
    return placed.reshape(math.prod(axes), table.shape[-2], -1)


def _from_placed(query: Array, placed: Array) -> Array:
    """Computes the matrix from the skewed table.

        A[(h, n), (m, u)] = sum_k q[n, h, k] T[n, k, (m, u)]

    It is one product for each position.
    """
    b, h, k = query.shape[0], *query.shape[-2:]
    query = jnp.moveaxis(query.reshape(b, -1, h, k), 1, 0)  # (n, b, h, k)
    matrix = jnp.matmul(query.reshape(-1, b * h, k), placed.astype(query.dtype))
    return jnp.moveaxis(matrix.reshape(-1, b, h, placed.shape[-1]), 0, 2).reshape(b, -1, placed.shape[-1])


def _weighted(matrix: Array, value: Array, query: Array) -> Array:
    """$y = A v$, (b, *axes, h, v), for queries (b, *axes, h, k), of a batch of any size."""
    b, *axes, h, _ = query.shape
    value = value.reshape(b, matrix.shape[-1], -1)
    y = jnp.matmul(matrix, value, preferred_element_type=wide(matrix, value))
    return jnp.moveaxis(y.reshape(b, h, *axes, -1), 1, -2)


def _rows(n: int, across: int, r: int, placing: bool, h: int) -> int:
    """Returns how many of n rows, with `across` positions in each, are in a block."""
    narrow = placing and r < n  # the fewer positions in a block, the less of its window is beyond its taps
    size = min(n, max(1, BLOCK // (across * h if narrow else across)))
    if 2 * r < n:  # a window little wider than the block
        size = min(size, max(r, 32 // across))
    return size


def _worth_placing(query: tuple, r: int) -> bool:
    """Says whether a CPU skews the table faster than the scores, by `python -m benchmarks.images`.

    There are k columns to move, against b h scores of each position: of one block if all blocks have the
    same, of every block otherwise, and of a sequence by a skew, which moves each number twice.
    """
    b, n, *axes, h, k = query
    if not isinstance(b, int):  # as in an exported program, which takes any
        return False
    across = math.prod(axes)
    size = _rows(n, across, r, True, h)
    same = size == n or size + r - 1 < n
    return 2 * b * h >= k * (1 if same else 4 if axes else 8)


@takes_arrays
def by_matrix(
    query: Float[Array, "b *n h k"],
    value: Float[Array, "b *n u v"],
    table: Float[Array, "*r k u"],
    before: tuple[int, ...],
    placing: bool | None = None,
) -> Float[Array, "b *n h v"]:
    """Computes $y = A v$, one block of rows at a time, with memory for a block instead of $n^2$.

    Where the window of a block is smaller than the whole, the values are cut, otherwise the table. Neighbours
    get under their places by a skew: of the scores, for each of b h queries, or of the table, for each of its
    k columns, which serve all queries and, where values are cut, all blocks.

        >>> value, table = jnp.arange(3.0).reshape(1, 3, 1, 1), jnp.ones((2, 1, 1))
        >>> by_matrix(jnp.ones((1, 3, 1, 1)), value, table, (1,)).ravel()  # with the token before
        Array([0., 1., 3.], dtype=float32)

    Args:
      query: queries (b, *axes, h, k).
      value: values (b, *axes, u, v).
      table: taps (*r, k, u).
      before: number of taps before the query's own position, on each axis.
      placing: whether the table is skewed instead of the scores. Default None: where that is faster, on CPUs.
        On other platforms it has not been measured, and among several devices its derivative, which they sum,
        is larger than that of R.
    """
    if 0 in (*query.shape, *value.shape, *table.shape):
        return _nothing(query, value)
    if placing is None:
        worth = _worth_placing(query.shape, table.shape[0])
        return by_platform(
            cpu_or_other("table" if worth else "scores", "scores"),
            lambda skewed, q, v, taps: by_matrix(q, v, taps, before, placing=skewed == "table"),
            query,
            value,
            table,
        )
    b, n, *axes, h, k = query.shape
    r, f = table.shape[0], before[0]
    size = _rows(n, math.prod(axes), r, placing, h)
    table = table.astype(wide(query, value))

    def matrix_of(taps: Array, above: int, rows: int) -> Callable[[Array], Array]:
        """Returns a function that makes A of a block's queries; its first row has `above` taps before it."""
        offsets, source = (above, *before[1:]), (rows, *axes)
        if placing:
            return partial(_from_placed, placed=_place(taps, (size, *axes), offsets, source))
        return partial(_from_scores, table=taps, before=offsets, source=source)

    if size == n:
        return _weighted(matrix_of(table, f, n)(query), value, query)
    blocks, local = -(-n // size), size + r - 1 < n
    rest = [(0, 0)] * (value.ndim - 2)
    query = jnp.pad(query, [(0, 0), (0, blocks * size - n), *rest])
    query = query.reshape(b, blocks, size, *axes, h, k).swapaxes(0, 1)
    if local:
        value = jnp.pad(value, [(0, 0), (f, blocks * size - n + r - 1 - f), *rest])
    else:
        left = blocks * size - 1 - f
        table = jax.lax.pad(
            table, jnp.zeros((), table.dtype), [(left, f + n - r, 0)] + [(0, 0, 0)] * (table.ndim - 1)
        )
    shared = matrix_of(table, 0, size + r - 1) if local else None

    @jax.checkpoint
    def one(block: tuple[Array, Array]) -> Array:
        q, begin = block
        if shared is not None:
            near = jax.lax.dynamic_slice_in_dim(value, begin, size + r - 1, axis=1)
            return _weighted(shared(q), near, q)
        taps = jax.lax.dynamic_slice_in_dim(table, (blocks - 1) * size - begin, size + n - 1)
        return _weighted(matrix_of(taps, size - 1, n)(q), value, q)

    y = jax.lax.map(one, (query, size * jnp.arange(blocks)))
    return y.swapaxes(0, 1).reshape(b, blocks * size, *axes, h, -1)[:, :n]


@takes_arrays
def by_fft(
    query: Float[Array, "b *n h k"],
    value: Float[Array, "b *n u v"],
    table: Float[Array, "*r k u"],
    before: tuple[int, ...],
) -> Float[Array, "b *n h v"]:
    """Computes the position lambdas with Fourier transforms, one filter at a time, with memory $b n v$.

        y = sum_k q[k] IDFT(sum_u conj(DFT(R_k)) DFT(v))

        >>> value, table = jnp.arange(3.0).reshape(1, 3, 1, 1), jnp.ones((2, 1, 1))
        >>> by_fft(jnp.ones((1, 3, 1, 1)), value, table, (1,)).ravel().round().astype(int)
        Array([0, 1, 3], dtype=int32)

    Args:
      query: queries (b, *axes, h, k).
      value: values (b, *axes, u, v).
      table: taps (*r, k, u).
      before: number of taps before the query's own position, on each axis.
    """
    b, *axes, h, _ = query.shape
    count, taps = len(axes), table.shape[:-2]
    if 0 in (*query.shape, *value.shape, *taps):
        return _nothing(query, value)
    reach = [n + max(f, r - 1 - f) for n, r, f in zip(axes, taps, before, strict=True)]
    sizes = tuple(fast_size(n) for n in reach)
    places = tuple(range(1, 1 + count))
    dtype = wide(query, value)
    table = like_shards(table.astype(dtype), query, value)
    kernel = jnp.moveaxis(table, (-2, -1), (0, 1))  # (k, u, *r)
    kernel = jnp.pad(kernel, [(0, 0), (0, 0), *((0, n - r) for n, r in zip(sizes, taps, strict=True))])
    kernel = jnp.roll(kernel, [-f for f in before], tuple(range(2, 2 + count)))
    filters = jnp.conj(rfftn(kernel, sizes))[:, None, :, None]  # (k, 1, u, 1, *f)
    last = tuple(range(-count, 0))
    values = rfftn(jnp.moveaxis(value.astype(dtype), places, last), sizes)  # (b, u, v, *f)
    queries = jnp.moveaxis(query.astype(dtype), (-1, *places), (0, *last))[:, :, :, None]  # (k, b, h, 1, *n)

    @jax.checkpoint
    def add(y: Array, one: tuple[Array, Array]) -> tuple[Array, None]:
        q, f = one
        filtered = irfftn((f * values).sum(axis=1), sizes)[(..., *(slice(n) for n in axes))]
        return y + q * filtered[:, None], None

    start = like_shards(jnp.zeros((b, h, value.shape[-1], *axes), dtype), query, value)
    y, _ = jax.lax.scan(add, start, (queries, filters))
    return jnp.moveaxis(y, last, places)


@takes_arrays
def by_pairs(
    query: Float[Array, "b t h k"], value: Float[Array, "b s u v"], table: Float[Array, "t s k u"]
) -> Float[Array, "b t h v"]:
    """Uses a table with an entry for each pair of positions.

        >>> value, table = jnp.arange(3.0).reshape(1, 3, 1, 1), jnp.ones((3, 3, 1, 1))
        >>> by_pairs(jnp.ones((1, 3, 1, 1)), value, table).ravel()  # the sum of all
        Array([3., 3., 3.], dtype=float32)

    Args:
      query: queries (b, t, h, k).
      value: values (b, s, u, v).
      table: entries (t, s, k, u).
    """
    weights = jnp.einsum("bthk,tsku->bhtsu", query, table.astype(query.dtype))
    return jnp.einsum("bhtsu,bsuv->bthv", weights, value, preferred_element_type=wide(weights, value))
