"""Attention from whole rows of scores: all of them, or some queries after the other in the same memory.

Programs for GPUs and TPUs use it. A step of the loop takes some queries of all examples and heads, so that a
batch that is sharded over devices stays where it is. The backward pass computes a step's weights again. With
a fixed number of scores in a step, memory grows with $t + s$ and not with $t s$. All of it consists of plain
operations of JAX: derivatives of any order exist, in both modes.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fourier_attn.ops.arguments import wide

LONG = 2**22  # scores of an example up to which all rows are taken at once: 16 MB in float32
SCORES = 2**23  # of a step, 32 MB in float32
LEAST = 32  # least number of queries of a step, so that products fill matrix units


def queries_per_step(t: int, rows: int) -> int:
    """Returns how many of t queries a step takes; all steps but the last take the same number.

    Args:
      t: number of queries.
      rows: scores that one query has, over all examples and heads: b h s.
    """
    most = max(SCORES // max(rows, 1), LEAST)
    return -(-t // -(-t // most))


def by_rows(compute: Callable[[Array, Array, Array], Array], query: Array, count: int) -> Array:
    """Computes some queries after the other, and their derivatives again from the queries.

    Args:
      compute: computes the results (b, count, ..) of a step from its number, the positions (count,) of its
        queries, and the queries (b, count, ..). The last step is filled up with zeros.
      query: queries (b, t, ..).
      count: number of queries of a step.
    """
    b, t, *rest = query.shape
    steps = -(-t // count)
    if steps == 1:
        return jax.checkpoint(compute)(jnp.int32(0), jnp.arange(t, dtype=jnp.int32), query)
    padded = jnp.pad(query, [(0, 0), (0, steps * count - t), *[(0, 0)] * len(rest)])
    parts = padded.reshape(b, steps, count, *rest).swapaxes(0, 1)

    @jax.checkpoint
    def one_step(step: tuple[Array, Array]) -> Array:
        number, part = step
        return compute(number, number * count + jnp.arange(count, dtype=jnp.int32), part)

    y = jax.lax.map(one_step, (jnp.arange(steps, dtype=jnp.int32), parts)).swapaxes(0, 1)
    return y.reshape(b, steps * count, *y.shape[3:])[:, :t]


def softmax(query: Array, key: Array, mask: Array | None, last: Array | None) -> Array:
    """Returns softmax weights (b, h, t, s) in float32.

    Args:
      query: queries (b, t, h, k).
      key: keys (b, s, h, k).
      mask: True for the source tokens that may be attended to, (b, s), or None.
      last: last source token that each query sees, (t,), or None.
    """
    scores = jnp.einsum("bthk,bshk->bhts", query, key, preferred_element_type=wide(query, key))
    scores = scores / math.sqrt(max(query.shape[-1], 1))
    if mask is not None:
        lowest = jnp.full((), jnp.finfo(jnp.float32).min, scores.dtype)
        scores = jnp.where(mask[:, None, None, :], scores, lowest)
    # Below the score of what is masked: a row that sees padding alone averages no later tokens.
    return jax.nn.softmax(scores if last is None else _hide(scores, last))


def _hide(scores: Array, last: Array) -> Array:
    """Sets the scores (.., t, s) of source tokens after `last` to minus infinity."""
    seen = jnp.arange(scores.shape[-1], dtype=jnp.int32)[None, :] <= last[:, None]
    seen = seen.reshape(*[1] * (scores.ndim - 2), *seen.shape)
    return jnp.where(seen, scores, jnp.full((), -jnp.inf, scores.dtype))


def average(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    dropout_key: Array | None,
    last: Array | None,
    rate: float,
) -> Array:
    """Returns the averages (b, t, h, k) of the values with all softmax weights at once.

    It has what JAX's attention has not: dropout, a causal form in which rows that see padding alone see no
    later tokens, and float64.

    Args:
      query, key, value, mask, last: see `softmax`.
      dropout_key: key of the dropped weights, or None.
      rate: rate of the weights that are dropped.
    """
    weights = softmax(query, key, mask, last)
    if dropout_key is not None:
        kept = jax.random.bernoulli(dropout_key, 1 - rate, (weights.size,)).reshape(weights.shape)
        weights = jnp.where(kept, weights / (1 - rate), jnp.zeros((), weights.dtype))
    return jnp.einsum("bhts,bshk->bthk", weights.astype(value.dtype), value).astype(query.dtype)


def average_by_rows(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    dropout_key: Array | None,
    rate: float,
    causal: bool,
) -> Array:
    """Returns `average`, some queries after the other.

    Args:
      query, key, value, mask, rate: see `average`.
      dropout_key: key of the dropped weights; each step folds its number into it.
      causal: whether query i sees source tokens $j <= i$ only.
    """
    b, t, h, _ = query.shape
    keys, values = (x.astype(wide(x)) for x in (key, value))  # whose derivatives are sums over the steps

    def compute(number: Array, positions: Array, part: Array) -> Array:
        own = None if dropout_key is None else jax.random.fold_in(dropout_key, number)
        last = positions if causal else None
        return average(part, keys.astype(key.dtype), values.astype(value.dtype), mask, own, last, rate)

    return by_rows(compute, query, queries_per_step(t, b * h * key.shape[1]))


def shared_average(query: Array, shared: Array, mask: Array, last: Array | None) -> Array:
    """Returns the averages (b, n, d) of vectors that are keys and values, all rows at once; no scaling.

    Args:
      query: queries (b, n, d).
      shared: the vectors (b, s, d).
      mask: True for the vectors that may be attended to, (b, s).
      last: last vector that each query sees, (n,), or None.
    """
    scores = jnp.einsum("bnd,bsd->bns", query, shared, preferred_element_type=wide(query, shared))
    scores = jnp.where(mask[:, None, :], scores, jnp.full((), -1e30, scores.dtype))
    weights = jax.nn.softmax(scores if last is None else _hide(scores, last))
    sums = jnp.matmul(weights.astype(shared.dtype), shared, preferred_element_type=weights.dtype)
    return sums.astype(query.dtype)


def shared_average_by_rows(query: Array, shared: Array, mask: Array, causal: bool) -> Array:
    """Returns `shared_average`, some queries after the other.

    Args:
      query, shared, mask: see `shared_average`.
      causal: whether each of s vectors has $n / s$ queries, which see the vectors up to it.
    """
    (b, n, _), s = query.shape, shared.shape[1]
    vectors = shared.astype(wide(shared))

    def compute(number: Array, positions: Array, part: Array) -> Array:
        last = positions // (n // s) if causal else None
        return shared_average(part, vectors.astype(shared.dtype), mask, last)

    return by_rows(compute, query, n if n * s <= LONG else queries_per_step(n, b * s))
