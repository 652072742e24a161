"""Attention in blocks, so that the scores stay in a CPU's cache: y = softmax(q k^T) v for each head.

A block is some of the heads where they are short and some queries of one head where they are long. Memory
grows with t + s and not with t s: the backward pass computes a block's weights again, from the maximum and
the sum of each of their rows. Every product has its contracted axis last on the left, as XLA's fast ones on
CPUs want it; for the derivatives by keys and values, which need the other order, queries and cotangents
are transposed once, and not the weights:

    w[i, j] = exp(q[i] . k[j] - m[i]),   m[i] = max_j q[i] . k[j],   l[i] = sum_j w[i, j]
    y[i] = sum_j w[i, j] v[j] / l[i],    and for the cotangent g of y, with c[i] = g[i] / l[i],
    v'^T = c^T w,   e[i, j] = w[i, j] (c[i] . v[j] - c[i] . y[i]),   q' = e k,   k'^T = q^T e

With dropout of rate p a weight is kept by a draw z[i, j]: w z / (1 - p) takes the place of w in y and v',
and c[i] . v[j] z[i, j] that of c[i] . v[j], c being g / (l (1 - p)). The draws belong to a head and to the
place of a block in it; they are made anew in the backward pass.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from fourier_attn.ops.transforms import batchwise

SCORES = 2**18  # of a block, 1 MB in float32: between the second and the third level of caches
ROWS = 64  # of a block, at least: products of fewer are slow
NEVER = -1e30  # the score of a masked pair; finite, so that differences stay numbers


class Draws(NamedTuple):
    """Which weights are dropped: the rate, and what kind of keys they are drawn from."""

    rate: float
    kind: str


def attend(
    query: Float[Array, "*n t k"],
    key: Float[Array, "*n s k"],
    value: Float[Array, "*n s v"],
    *,
    mask: Bool[Array, "*n s"] | None = None,
    dropout: float = 0.0,
    dropout_keys: Key[Array, "*n"] | None = None,
) -> Float[Array, "*n t v"]:
    """y[i] = sum_j softmax_j(q[i] . k[j]) v[j], computed in float32, in the dtype of `query`.

    Leading axes may be sharded and stay so. Reverse mode only, and once, as for `jax.custom_vjp`.

    Args:
      dropout_keys: one for each head; without them there is no dropout.
    Masking: a masked source token gets no weight; where all are masked, the plain average is returned.
    """
    arrays = [query, key, value]
    if mask is not None:
        arrays.append(mask)
    draws = None
    if dropout and dropout_keys is not None:
        draws = Draws(dropout, jax.random.key_impl(dropout_keys))
        arrays.append(jax.random.key_data(dropout_keys))
    return _attention(mask is not None, draws)(*arrays)


@lru_cache
def _attention(masked: bool, draws: Draws | None):
    """The differentiable function of query, key, value, and of mask and keys' data where there are such."""
    given = (2, 2, 2, *(1,) * masked, *(1,) * (draws is not None))

    def named(given: tuple[Array, ...]) -> tuple[Array | None, Array | None]:
        return given[0] if masked else None, None if draws is None else given[-1]

    def forward_here(query: Array, key: Array, value: Array, *given: Array) -> tuple[Array, ...]:
        return _forward(query, key, value, *named(given), draws)

    def backward_here(g: Array, y: Array, m: Array, total: Array, *given: Array) -> tuple[Array, ...]:
        return _backward(g, y, m, total, *given[:3], *named(given[3:]), draws)

    forward = batchwise(forward_here, given, (2, 1, 1))
    backward = batchwise(backward_here, (2, 2, 1, 1, *given), (2, 2, 2))

    def pull_back(saved: tuple[Array, ...], g: Array) -> tuple[Array | None, ...]:
        return *backward(g, *saved), *(None for _ in given[3:])

    def run(*given: Array) -> tuple[Array, tuple[Array, ...]]:
        y, m, total = forward(*given)
        return y, (y, m, total, *given)

    function = jax.custom_vjp(lambda *given: forward(*given)[0])
    function.defvjp(run, pull_back)
    return function


class Sizes(NamedTuple):
    """n heads in `groups` of equal size, their t queries in `blocks` of `rows`; the last one may be filled up."""

    groups: int
    blocks: int
    rows: int


def sizes(n: int, t: int, s: int) -> Sizes:
    """Blocks of about `SCORES` scores: several heads, or a part of one."""
    most = max(SCORES // max(s, 1), ROWS)
    blocks = max(1, -(-t // most))
    rows = -(-t // blocks)
    fitting = max(1, SCORES // max(t * s, 1))
    heads = next(heads for heads in range(min(n, fitting), 0, -1) if n % heads == 0) if n else 1
    return Sizes(max(n // heads, 1), blocks, rows)


def _split(x: Array, size: Sizes, axes: int) -> Array:
    """Arrays (*n, t, ..), the last `axes` of them trailing, as (groups, blocks, heads, rows, ..)."""
    t, *rest = x.shape[-axes:]
    x = x.reshape(size.groups, math.prod(x.shape[:-axes]) // size.groups, t, *rest)
    x = jnp.pad(x, [(0, 0), (0, 0), (0, size.blocks * size.rows - t)] + [(0, 0)] * len(rest))
    return x.reshape(*x.shape[:2], size.blocks, size.rows, *rest).swapaxes(1, 2)


def _join(x: Array, shape: tuple[int, ...]) -> Array:
    """The inverse of `_split`: to (*n, t, ..)."""
    groups, blocks, heads, rows, *rest = x.shape
    t = shape[len(shape) - len(rest) - 1]
    return x.swapaxes(1, 2).reshape(groups * heads, blocks * rows, *rest)[:, :t].reshape(shape)


def _grouped(x: Array | None, lead: int, groups: int) -> Array | None:
    """What all queries of a head share, (*n, ..) with `lead` leading axes, as (groups, heads, ..)."""
    if x is None:
        return None
    return x.reshape(groups, math.prod(x.shape[:lead]) // groups, *x.shape[lead:])


def _scores(query: Array, key: Array, mask: Array | None) -> Array:
    scores = jnp.einsum("nik,njk->nij", query, key)
    if mask is None:
        return scores
    return jnp.where(mask[:, None, :], scores, jnp.full((), NEVER, jnp.float32))


def _kept(seeds: Array | None, draws: Draws | None, block: Array, rows: int, s: int) -> Array | None:
    """Which weights of a block stay, (heads, rows, s)."""
    if seeds is None or draws is None:
        return None
    keys = jax.random.wrap_key_data(seeds, impl=draws.kind)
    return jax.vmap(
        lambda key: jax.random.bernoulli(jax.random.fold_in(key, block), 1 - draws.rate, (rows, s))
    )(keys)


def _where(kept: Array | None, x: Array) -> Array:
    return x if kept is None else jnp.where(kept, x, jnp.zeros((), x.dtype))


def _forward(
    query: Array, key: Array, value: Array, mask: Array | None, seeds: Array | None, draws: Draws | None
) -> tuple[Array, Array, Array]:
    """The averages, and maximum and sum of each row of weights."""
    *lead, t, _ = query.shape
    s, v = value.shape[-2:]
    size, share = sizes(math.prod(lead), t, s), 1.0 if draws is None else 1 - draws.rate

    def heads(group: tuple[Any, ...]) -> tuple[Array, Array, Array]:
        queries, key, value, mask, seeds = group
        key, value = key.astype(jnp.float32), value.astype(jnp.float32)

        def block(one: tuple[Array, Array]) -> tuple[Array, Array, Array]:
            number, q = one
            scores = _scores(q.astype(jnp.float32), key, mask)
            m = scores.max(axis=-1)
            weights = jnp.exp(scores - m[..., None])
            total = weights.sum(axis=-1)
            weights = _where(_kept(seeds, draws, number, size.rows, s), weights)
            sums = jnp.einsum("nij,njv->niv", weights, value)
            return (sums / (share * total)[..., None]).astype(query.dtype), m, total

        return jax.lax.map(block, (jnp.arange(size.blocks), queries))

    shared = [_grouped(x, len(lead), size.groups) for x in (key, value, mask, seeds)]
    y, m, total = jax.lax.map(heads, (_split(query, size, 2), *shared))
    return _join(y, (*lead, t, v)), _join(m, (*lead, t)), _join(total, (*lead, t))


def _backward(
    g: Array,
    y: Array,
    m: Array,
    total: Array,
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    seeds: Array | None,
    draws: Draws | None,
) -> tuple[Array, Array, Array]:
    """The cotangents of query, key and value."""
    *lead, t, _ = query.shape
    s = key.shape[-2]
    size, share = sizes(math.prod(lead), t, s), 1.0 if draws is None else 1 - draws.rate
    c = g.astype(jnp.float32) / total[..., None]
    mean = jnp.sum(c * y.astype(jnp.float32), axis=-1)
    queries = _split(query.astype(jnp.float32), size, 2)
    cotangents = _split(c / share, size, 2)
    rows = (
        jnp.broadcast_to(jnp.arange(size.blocks), (size.groups, size.blocks)),
        queries,
        queries.swapaxes(-1, -2),
        cotangents,
        cotangents.swapaxes(-1, -2),
        _split(m, size, 1),
        _split(mean, size, 1),
    )

    def heads(group: tuple[Any, ...]) -> tuple[Array, Array, Array]:
        rows, key, value, mask, seeds = group
        key, value = key.astype(jnp.float32), value.astype(jnp.float32)

        def block(sums: tuple[Array, Array], one: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
            number, q, q_transposed, c, c_transposed, m, mean = one
            weights = jnp.exp(_scores(q, key, mask) - m[..., None])
            kept = _kept(seeds, draws, number, size.rows, s)
            slopes = _where(kept, jnp.einsum("niv,njv->nij", c, value))
            slopes = weights * (slopes - mean[..., None])
            by_key = jnp.einsum("nki,nij->nkj", q_transposed, slopes)
            by_value = jnp.einsum("nvi,nij->nvj", c_transposed, _where(kept, weights))
            by_query = jnp.einsum("nij,njk->nik", slopes, key)
            return (sums[0] + by_key, sums[1] + by_value), by_query

        start = jnp.zeros_like(key.swapaxes(-1, -2)), jnp.zeros_like(value.swapaxes(-1, -2))
        (by_key, by_value), by_query = jax.lax.scan(block, start, rows)
        if mask is not None:  # where all scores are masked they are constant
            real = mask.any(axis=-1)[:, None, None]
            by_key = _where(real, by_key)
            by_query = _where(real[None], by_query)
        return by_query.astype(query.dtype), by_key, by_value

    shared = [_grouped(x, len(lead), size.groups) for x in (key, value, mask, seeds)]
    by_query, by_key, by_value = jax.lax.map(heads, (rows, *shared))
    by_key, by_value = (x.swapaxes(-1, -2) for x in (by_key, by_value))
    return (
        _join(by_query, query.shape),
        by_key.reshape(key.shape).astype(key.dtype),
        by_value.reshape(value.shape).astype(value.dtype),
    )
