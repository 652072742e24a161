"""Attention in blocks, so that the scores stay in a CPU's cache: $y = softmax(q k^T) v$ for each head.

A block is some heads where they are short, and some queries of one head where they are long. Memory grows
with $t + s$ and not with $t s$: the backward pass computes a block's weights again, from the maximum and the
sum of each of their rows. Every product has its contracted axis last on the left, as XLA's fast ones on CPUs
want it: for the derivatives by keys and values a block's queries and cotangents are transposed, which are
small, and not its weights.

    w[i, j] = exp(q[i] . k[j] - m[i]),   m[i] = max_j q[i] . k[j],   l[i] = sum_j w[i, j]
    y[i] = sum_j w[i, j] v[j] / l[i],    and for the cotangent g of y, with c[i] = g[i] / l[i],
    v'^T = c^T w,   e[i, j] = w[i, j] (c[i] . v[j] - c[i] . y[i]),   q' = e k,   k'^T = q^T e

With dropout of rate p a weight is kept by a draw $z[i, j]$: $w z / (1 - p)$ takes the place of w in y and v',
and $c[i] . v[j] z[i, j]$ that of $c[i] . v[j]$, c being $g / (l (1 - p))$. The draws belong to a head and
to the place of a block in it; they are made anew in the backward pass.

Causal attention is cut into a few parts: the queries of a part are given only the source tokens up to the
last one that they may see, so that most blocks above the diagonal are never computed. Each part is attention
with a derivative of its own, and JAX adds up those of keys and values.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from fourier_attn.ops.arguments import like_shards, takes_arrays, wide
from fourier_attn.ops.derivatives import not_differentiable, reverse_only
from fourier_attn.ops.transforms import batchwise

SCORES = 2**18  # of a block: 1 MB in float32, about the second level of caches
LONGEST = 2**12  # source tokens up to which blocks keep to that; from there on they have 64 queries
NEVER = -1e30  # the score of a masked pair; finite, so that differences stay numbers
REFUSED = (
    "on CPUs attention has first derivatives in reverse mode only; pass implementation='rows' to attention, "
    "shared_attention, fused_attention or circular_attention"
)

PART, PARTS = 256, 4  # of causal attention: the fewest source tokens of a part, and the most parts


class Diagonal(NamedTuple):
    """Says what queries see: query i of a problem sees source tokens $j <= (first + i) // queries$."""

    first: int
    queries: int


class Draws(NamedTuple):
    """Says which weights are dropped: the rate, and the kind of keys that they are drawn from."""

    rate: float
    kind: Any


@takes_arrays
def attend(
    query: Float[Array, "*b t h k"],
    key: Float[Array, "*b s h k"],
    value: Float[Array, "*b s h v"],
    *,
    mask: Bool[Array, "*b s"] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    dropout_keys: Key[Array, "*b h"] | None = None,
    scores: int = SCORES,
) -> Float[Array, "*b t h v"]:
    """Averages values with softmax weights for each head.

        y[i] = sum_j softmax_j(q[i] . k[j]) v[j]

    It is computed in float32, or in float64 where one of them has it.

    Leading axes may be sharded and stay so. It has first derivatives in reverse mode only.

        >>> x = jnp.ones((2, 6, 1, 4))  # two examples of six tokens
        >>> attend(x, x, x).shape
        (2, 6, 1, 4)

    Args:
      query: queries (*b, t, h, k).
      key: keys (*b, s, h, k).
      value: values (*b, s, h, v).
      mask: True for the source tokens that may be attended to, (*b, s). Default None, all of them.
      causal: query i sees source tokens $j <= i$. Where t is a multiple of s, each source token has $t / s$
        queries, one after the other (of heads that share keys, for example): $j <= i // (t / s)$.
      dropout: rate of the weights that are dropped. Default 0.0.
      dropout_keys: keys (*b, h), one for each head. Default None: no weight is dropped.
      scores: approximate number of scores in a block. Draws depend on it. Default `SCORES`.
    Masking: a masked source token gets no weight; where all are masked, the plain average is returned, of
      those that a query sees.
    Raises: ValueError for causal where s does not divide t. TypeError for other derivatives.
    """
    t, s = query.shape[-3], key.shape[-3]
    if causal and t % max(s, 1):
        raise ValueError(f"causal=True needs as many source tokens as queries, not s={s} for t={t}")
    if 0 in (*query.shape[:-1], *value.shape):
        return jnp.zeros((*query.shape[:-1], value.shape[-1]), query.dtype)
    whole = partial(_attend, dropout=dropout, scores=scores)
    if not causal:
        return whole(query, key, value, mask, dropout_keys, diagonal=None)
    parts, queries, axis = min(max(s // PART, 1), PARTS), t // s, query.ndim - 3
    ends = [s * part // parts for part in range(parts + 1)]
    results = []
    for part, (begin, end) in enumerate(pairwise(ends)):
        results.append(
            whole(
                jax.lax.slice_in_dim(query, begin * queries, end * queries, axis=axis),
                jax.lax.slice_in_dim(key, 0, end, axis=axis),
                jax.lax.slice_in_dim(value, 0, end, axis=axis),
                None if mask is None else mask[..., :end],
                None if dropout_keys is None else _keys_of_part(dropout_keys, part),
                diagonal=Diagonal(begin * queries, queries),
            )
        )
    return jnp.concatenate(results, axis=axis)


def _keys_of_part(keys: Array, part: int) -> Array:
    return jax.vmap(partial(jax.random.fold_in, data=part))(keys.reshape(-1)).reshape(keys.shape)


def _attend(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    dropout_keys: Array | None,
    *,
    diagonal: Diagonal | None,
    dropout: float,
    scores: int,
) -> Array:
    arrays = [query, key, value]
    if mask is not None:
        arrays.append(mask)
    draws = None
    if dropout and dropout_keys is not None:
        draws = Draws(dropout, jax.random.key_impl(dropout_keys))
        arrays.append(jax.random.key_data(dropout_keys))
    return _attention(mask is not None, diagonal, draws, scores)(*arrays)


@lru_cache
def _attention(
    masked: bool, diagonal: Diagonal | None, draws: Draws | None, scores: int
) -> Callable[..., Array]:
    """Returns the differentiable function of query, key and value, and of a mask and keys if any."""
    axes = (3, 3, 3, *(1,) * masked, *(2,) * (draws is not None))

    def problem(arrays: tuple[Array, ...]) -> Problem:
        query, key, value, *rest = _flat(arrays, axes)
        mask, seeds = rest[0] if masked else None, None if draws is None else rest[-1]
        return Problem(query, key, value, mask, seeds, diagonal, draws, scores)

    def forward_here(*arrays: Array) -> tuple[Array, ...]:
        lead = arrays[0].shape[:-3]
        return tuple(x.reshape(*lead, *x.shape[1:]) for x in _forward(problem(arrays)))

    def backward_here(*arrays: Array) -> tuple[Array, ...]:
        results = _backward(problem(arrays[4:]), *_flat(arrays[:4], (3, 3, 2, 2)))
        return tuple(x.reshape(like.shape) for x, like in zip(results, arrays[4:], strict=False))

    forward = batchwise(forward_here, axes, (3, 2, 2))
    # One by one: for c . v[j] - c . y[i] with values that are repeated over an axis, XLA on CPUs (JAX 0.10.2)
    # makes one fusion with wrong results, after a barrier, too.
    backward = batchwise(backward_here, (3, 3, 2, 2, *axes), (3, 3, 3), one_by_one=True)

    def run(*arrays: Array) -> tuple[Array, tuple[Array, ...]]:
        arrays = *(not_differentiable(REFUSED, x) for x in arrays[:3]), *arrays[3:]
        y, m, total = forward(*arrays)
        return y, (y, m, total, *arrays)

    def pull_back(saved: tuple[Array, ...], g: Array) -> tuple[Array, ...]:
        return backward(g, *saved)

    return reverse_only(REFUSED, run, pull_back)


def _flat(arrays: tuple[Array, ...], axes: tuple[int, ...]) -> list[Array]:
    """Merges all axes except the trailing ones."""
    return [x.reshape(-1, *x.shape[x.ndim - n :]) for x, n in zip(arrays, axes, strict=True)]


class Sizes(NamedTuple):
    """Holds the sizes of a block: examples, heads and rows (queries of each head), and blocks of a head."""

    examples: int
    heads: int
    rows: int
    blocks: int


def sizes(b: int, t: int, s: int, h: int, scores: int) -> Sizes:
    """Returns blocks of about a given number of scores: a part of a head, or several heads.

    Args:
      b: examples.
      t: queries.
      s: source tokens.
      h: heads.
      scores: scores of a block.
    """

    def divisor(n: int, most: int) -> int:
        return next((m for m in range(min(n, most), 0, -1) if n % m == 0), 1)

    blocks = max(1, -(-t // max(scores // min(max(s, 1), LONGEST), 1)))
    fitting = max(1, scores // max(t * s, 1))
    heads = divisor(h, fitting)
    return Sizes(divisor(b, fitting // h) if heads == h else 1, heads, -(-t // blocks), blocks)


class Problem(NamedTuple):
    """Holds query (b, t, h, k), key (b, s, h, k), value (b, s, h, v), mask (b, s) and keys (b, h, ..)."""

    query: Array
    key: Array
    value: Array
    mask: Array | None
    seeds: Array | None
    diagonal: Diagonal | None
    draws: Draws | None
    scores: int

    @property
    def dtype(self) -> jnp.dtype:
        return wide(self.query, self.key, self.value)

    @property
    def sizes(self) -> Sizes:
        b, t, h, _ = self.query.shape
        return sizes(b, t, self.key.shape[1], h, self.scores)

    def start(self, *zeros: Array) -> tuple[Array, ...]:
        """Returns the first values of a loop, with the types that it needs inside `jax.shard_map`.

        Args:
          zeros: the values.
        """
        return tuple(like_shards(x, self.query, self.key, self.value) for x in zeros)


class Group(NamedTuple):
    """Cuts the examples and heads of a block out of arrays, and puts results into such."""

    example: Array
    head: Array
    sizes: Sizes
    dtype: jnp.dtype

    def rows(self, x: Array, begin: Array | int, count: int) -> Array:
        """Cuts rows (heads, count, k) out of x (b, t, h, k), in the dtype of the computation.

        Args:
          x: the array.
          begin: first row.
          count: number of rows.
        """
        cut = jax.lax.dynamic_slice(
            x, (self.example, begin, self.head, 0), (self.sizes.examples, count, self.sizes.heads, x.shape[3])
        )
        return cut.swapaxes(1, 2).reshape(-1, count, x.shape[3]).astype(self.dtype)

    def put_rows(self, x: Array, part: Array, begin: Array | int) -> Array:
        """Writes rows into an array (b, t, h, k) and returns it.

        Args:
          x: the array.
          part: the rows, (heads, count, k).
          begin: first row.
        """
        part = part.reshape(self.sizes.examples, self.sizes.heads, *part.shape[1:]).swapaxes(1, 2)
        return jax.lax.dynamic_update_slice(x, part.astype(x.dtype), (self.example, begin, self.head, 0))

    def sums(self, x: Array, begin: Array | int, count: int) -> Array:
        """Cuts (heads, count) out of x (b, h, t).

        Args:
          x: the array.
          begin: first row.
          count: number of rows.
        """
        cut = jax.lax.dynamic_slice(
            x, (self.example, self.head, begin), (self.sizes.examples, self.sizes.heads, count)
        )
        return cut.reshape(-1, count)

    def put_sums(self, x: Array, part: Array, begin: Array | int) -> Array:
        """Writes numbers of rows into an array (b, h, t) and returns it.

        Args:
          x: the array.
          part: the numbers, (heads, count).
          begin: first row.
        """
        part = part.reshape(self.sizes.examples, self.sizes.heads, -1)
        return jax.lax.dynamic_update_slice(x, part, (self.example, self.head, begin))

    def mask(self, problem: Problem) -> Array | None:
        """Returns the mask of the block, (heads, s)."""
        if problem.mask is None:
            return None
        cut = jax.lax.dynamic_slice_in_dim(problem.mask, self.example, self.sizes.examples)
        return jnp.repeat(cut, self.sizes.heads, axis=0)

    def seen(self, problem: Problem, begin: Array) -> Array | None:
        """Returns which source tokens the rows of a block may see, (rows, s); None: all of them."""
        if problem.diagonal is None:
            return None
        first, queries = problem.diagonal
        rows = (first + begin + jnp.arange(self.sizes.rows, dtype=jnp.int32)) // queries
        return jnp.arange(problem.key.shape[1], dtype=jnp.int32)[None, :] <= rows[:, None]

    def kept(self, problem: Problem, block: Array) -> Array | None:
        """Draws which weights of a block stay, (heads, rows, s)."""
        if problem.draws is None or problem.seeds is None:
            return None
        rate, kind = problem.draws
        width = problem.seeds.shape[2]
        seeds = jax.lax.dynamic_slice(
            problem.seeds, (self.example, self.head, 0), (self.sizes.examples, self.sizes.heads, width)
        )
        keys = jax.random.wrap_key_data(seeds.reshape(-1, width), impl=kind)
        shape = (self.sizes.rows, problem.key.shape[1])
        draw = jax.vmap(lambda key: jax.random.bernoulli(jax.random.fold_in(key, block), 1 - rate, shape))
        return draw(keys)


def _group(problem: Problem, number: Array) -> Group:
    size, across = problem.sizes, problem.query.shape[2] // problem.sizes.heads
    return Group(number // across * size.examples, number % across * size.heads, size, problem.dtype)


def _filled(x: Array, sizes: Sizes, axis: int) -> Array:
    """Pads an axis to the rows of all blocks."""
    pads = [(0, 0)] * x.ndim
    pads[axis] = (0, sizes.rows * sizes.blocks - x.shape[axis])
    return jnp.pad(x, pads)


def _scores(query: Array, key: Array, mask: Array | None, seen: Array | None) -> Array:
    scores = jnp.einsum("nik,njk->nij", query, key)
    if mask is not None:
        scores = jnp.where(mask[:, None, :], scores, jnp.full((), NEVER, scores.dtype))
    if seen is not None:  # a row sees one token at least, so that its maximum is finite
        scores = jnp.where(seen[None], scores, jnp.full((), -jnp.inf, scores.dtype))
    return scores


def _where(kept: Array | None, x: Array) -> Array:
    return x if kept is None else jnp.where(kept, x, jnp.zeros((), x.dtype))


def _forward(problem: Problem) -> tuple[Array, Array, Array]:
    """Returns the averages (b, t, h, v), and maximum and sum of each row of weights, (b, h, t)."""
    size, share = problem.sizes, 1.0 if problem.draws is None else 1 - problem.draws.rate
    b, t, h, _ = problem.query.shape
    s, v = problem.value.shape[1], problem.value.shape[-1]
    query = _filled(problem.query, size, 1)

    def one_group(number: Array, results: tuple[Array, ...]) -> tuple[Array, ...]:
        group = _group(problem, number)
        key, value = group.rows(problem.key, 0, s), group.rows(problem.value, 0, s)
        mask = group.mask(problem)

        def one_block(block: Array, results: tuple[Array, ...]) -> tuple[Array, ...]:
            begin = block * size.rows
            rows = group.rows(query, begin, size.rows)
            scores = _scores(rows, key, mask, group.seen(problem, begin))
            m = scores.max(axis=-1)
            weights = jnp.exp(scores - m[..., None])
            total = weights.sum(axis=-1)
            weights = _where(group.kept(problem, block), weights)
            y = jnp.einsum("nij,njv->niv", weights, value) / (share * total)[..., None]
            return (
                group.put_rows(results[0], y, begin),
                group.put_sums(results[1], m, begin),
                group.put_sums(results[2], total, begin),
            )

        return jax.lax.fori_loop(0, size.blocks, one_block, results)

    rows = jnp.zeros((b, h, size.rows * size.blocks), problem.dtype)
    start = problem.start(jnp.zeros((*query.shape[:3], v), query.dtype), rows, rows)
    y, m, total = jax.lax.fori_loop(0, b * h // (size.examples * size.heads), one_group, start)
    return y[:, :t], m[..., :t], total[..., :t]


def _backward(problem: Problem, g: Array, y: Array, m: Array, total: Array) -> tuple[Array, Array, Array]:
    """Returns the cotangents of query, key and value."""
    size, share = problem.sizes, 1.0 if problem.draws is None else 1 - problem.draws.rate
    b, t, h, _ = problem.query.shape
    s = problem.key.shape[1]
    query, g, y = (_filled(x, size, 1) for x in (problem.query, g, y))
    m, total = _filled(m, size, 2), _filled(total, size, 2)
    total = jnp.maximum(total, jnp.ones((), total.dtype))  # which it is, but for rows that are filled up

    def one_group(number: Array, results: tuple[Array, ...]) -> tuple[Array, ...]:
        group = _group(problem, number)
        key, value = group.rows(problem.key, 0, s), group.rows(problem.value, 0, s)
        mask = group.mask(problem)

        def one_block(block: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            begin, by_query, by_key, by_value = block * size.rows, *sums
            q, cotangent, average = (group.rows(x, begin, size.rows) for x in (query, g, y))
            cotangent = cotangent / group.sums(total, begin, size.rows)[..., None]
            mean = jnp.sum(cotangent * average, axis=-1, keepdims=True)
            c = cotangent / share
            scores = _scores(q, key, mask, group.seen(problem, begin))
            weights = jnp.exp(scores - group.sums(m, begin, size.rows)[..., None])
            kept = group.kept(problem, block)
            slopes = weights * (_where(kept, jnp.einsum("niv,njv->nij", c, value)) - mean)
            if mask is not None:  # masked scores are constant, which matters where a row has no others
                slopes = _where(mask[:, None, :], slopes)
            q, c = jax.lax.optimization_barrier((q.swapaxes(1, 2), c.swapaxes(1, 2)))
            return (
                group.put_rows(by_query, jnp.einsum("nij,njk->nik", slopes, key), begin),
                by_key + jnp.einsum("nki,nij->nkj", q, slopes),
                by_value + jnp.einsum("nvi,nij->nvj", c, _where(kept, weights)),
            )

        by_query, by_key, by_value = results
        sums = (jnp.zeros_like(x.swapaxes(1, 2)) for x in (key, value))
        start = by_query, *problem.start(*sums)
        by_query, key, value = jax.lax.fori_loop(0, size.blocks, one_block, start)
        by_key = group.put_rows(by_key, key.swapaxes(1, 2), 0)
        return by_query, by_key, group.put_rows(by_value, value.swapaxes(1, 2), 0)

    start = problem.start(*(jnp.zeros_like(x) for x in (query, problem.key, problem.value)))
    groups = b * h // (size.examples * size.heads)
    by_query, by_key, by_value = jax.lax.fori_loop(0, groups, one_group, start)
    return by_query[:, :t], by_key, by_value
