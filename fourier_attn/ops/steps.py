"""Computes causal ops for one more token, from the state that is kept of the tokens before.

`place` (b) is the number of tokens before the new one, n. What is kept of every token, (b, s, ..), has room
for s of them, the new one among them; rows beyond n may hold any finite numbers. A window (b, r, ..) holds
the last r tokens, the new one last, and zeros where there are fewer.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.lambdas import NEVER


@takes_arrays
def put(
    kept: Float[Array, "b s *_"], new: Float[Array, "b 1 *_"], place: Int[Array, " b"]
) -> Float[Array, "b s *_"]:
    """Returns the kept rows with the row of the new token at its position.

        >>> put(jnp.zeros((2, 3)), jnp.ones((2, 1)), jnp.array([0, 2]))
        Array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)

    Args:
      kept: rows of all tokens, (b, s, ..).
      new: row of the new token, (b, 1, ..).
      place: number of tokens before the new one, (b).
    """
    if 0 in kept.shape:
        return kept
    return kept.at[jnp.arange(len(kept)), place].set(new[:, 0].astype(kept.dtype))


@takes_arrays
def last(x: Float[Array, "b t *_"], count: Int[Array, " b"], r: int) -> Float[Array, "b r *_"]:
    """Returns the last r of the first `count` tokens, with zeros before them where there are fewer.

        >>> last(jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), jnp.array([1, 3]), 2)
        Array([[0., 1.],
               [5., 6.]], dtype=float32)

    Args:
      x: rows of the tokens, (b, t, ..).
      count: number of tokens of each example, (b).
      r: number of rows to return.
    """
    padded = jnp.pad(x, [(0, 0), (r, 0)] + [(0, 0)] * (x.ndim - 2))
    return jax.vmap(lambda row, begin: jax.lax.dynamic_slice_in_dim(row, begin, r))(padded, count)


def _up_to(place: Array, s: int) -> Array:
    """Says which of s tokens are the new one or before it, (b, s)."""
    return jnp.arange(s, dtype=place.dtype)[None] <= place[:, None]


@takes_arrays
def attend_step(
    query: Float[Array, "b h k"],
    key: Float[Array, "b s g k"],
    value: Float[Array, "b s g v"],
    place: Int[Array, " b"],
) -> Float[Array, "b h v"]:
    """Computes attention of one token to itself and the tokens before it, for each head.

        y[a] = sum_{j <= n} softmax_j(q[a] . k[j, a] / sqrt(k)) v[j, a]

    Scores and softmax are computed in float32; the result has the dtype of `value`.

        >>> value = jnp.array([0.0, 2.0, 9.0]).reshape(1, 3, 1, 1)
        >>> attend_step(jnp.zeros((1, 1, 1)), value, value, jnp.array([1])).ravel()  # the mean of two
        Array([1.], dtype=float32)

    Args:
      query: query of the new token, (b, h, k).
      key, value: of all tokens, with the new one's at `place`; $g = h$, or $g = 1$ where all heads share
        them.
      place: number of tokens before the new one, (b).
    Source: Vaswani et al., arXiv 1706.03762; shared keys and values: Shazeer, arXiv 1911.02150.
    """
    b, h, k = query.shape
    s, g = key.shape[1:3]
    if g not in (1, h):
        raise ValueError(f"key of shape {key.shape} has {g} heads; give it those of the query, {h}, or one")
    dtype = wide(query, key)
    asks = query.reshape(b, g, h // g, k)
    scores = jnp.einsum("bgrk,bsgk->bgrs", asks, key, preferred_element_type=dtype)
    scores = scores / math.sqrt(max(k, 1))
    seen = _up_to(place, s)[:, None, None]
    weights = jax.nn.softmax(jnp.where(seen, scores, jnp.full((), -jnp.inf, dtype)))
    y = jnp.einsum("bgrs,bsgv->bgrv", weights.astype(value.dtype), value)
    return y.reshape(b, h, value.shape[-1])


@takes_arrays
def fused_attention_step(
    x: Float[Array, "b d"],
    tokens: Float[Array, "b s d"],
    query: Float[Array, "d h k"],
    key: Float[Array, "d h k"],
    value: Float[Array, "d h k"],
    out: Float[Array, "h k c"],
    place: Int[Array, " b"],
) -> Float[Array, "b c"]:
    """Computes one row of `fourier_attn.ops.attention.fused_attention`: the tokens serve as keys and values.

        y = sum_a (sum_{j <= n} softmax_j((x Q_a) K_a^T z_j / sqrt(k)) z_j) V_a O_a

    For one token the products with its own vector are taken one after the other, without merged matrices.

        >>> x, one = jnp.ones((1, 3, 4)), jnp.ones((4, 2, 4)) / 4  # two heads
        >>> fused_attention_step(x[:, 0], x, one, one, one, jnp.ones((2, 4, 4)) / 4, jnp.array([2]))
        Array([[2., 2., 2., 2.]], dtype=float32)

    Args:
      x: the new token, (b, d).
      tokens: all tokens z (b, s, d), with x at `place`.
      query, key, value, out: the projections of each head.
      place: number of tokens before the new one, (b).
    """
    query, key, value, out = (kernel.astype(x.dtype) for kernel in (query, key, value, out))
    d, _, k = key.shape
    asks = jnp.einsum("bhk,ehk->bhe", jnp.einsum("bd,dhk->bhk", x, query), key)
    shared = tokens[:, :, None]
    averages = attend_step(asks * jnp.asarray(math.sqrt(d / max(k, 1)), x.dtype), shared, shared, place)
    return jnp.einsum("bhk,hkc->bc", jnp.einsum("bhe,ehk->bhk", averages, value), out)


@takes_arrays
def mix_step(
    matrix: Float[Array, "n n"], x: Float[Array, "b s d"], place: Int[Array, " b"]
) -> Float[Array, "b d"]:
    """Computes one row of a fixed matrix over tokens, $y = sum_{j <= n} T[n, j] x[j]$.

        >>> mix_step(jnp.ones((4, 4)), jnp.array([1.0, 2.0, 9.0]).reshape(1, 3, 1), jnp.array([1]))
        Array([[3.]], dtype=float32)

    Args:
      matrix: T, (n, n).
      x: all tokens, (b, s, d).
      place: number of tokens before the new one, (b).
    """
    s = x.shape[1]
    row = jnp.where(_up_to(place, s), matrix[place, :s].astype(x.dtype), jnp.zeros((), x.dtype))
    return jnp.einsum("bj,bjd->bd", row, x)


@takes_arrays
def convolve_step(window: Float[Array, "b r d"], filter: Float[Array, "r *_"]) -> Float[Array, "b d"]:
    """Computes a causal convolution's value for the last token of a window, $y = sum_{k < r} w[k] x[n - k]$.

        >>> convolve_step(jnp.array([1.0, 2.0, 3.0]).reshape(1, 3, 1), jnp.array([0.0, 1.0, 0.0]))
        Array([[2.]], dtype=float32)

    Args:
      window: the last r tokens, (b, r, d).
      filter: taps (r), the same for all features, or (r, d).
    """
    taps = jnp.flip(filter, 0).astype(window.dtype)
    taps = taps[:, None] if filter.ndim == 1 else taps
    return jnp.sum(window * jnp.broadcast_to(taps, window.shape[1:])[None], axis=1)


Sums = tuple[Float[Array, "b k u v"], Float[Array, "b k u"], Float[Array, "b k u"]]


@takes_arrays
def content_sums(key: Float[Array, "b t k u"], value: Float[Array, "b t u v"]) -> Sums:
    """Returns the sums that a running content lambda keeps, for any number of tokens.

        sums[k] = sum_m exp(key[m, k] - highest[k]) value[m],    total[k] = sum_m exp(key[m, k] - highest[k])

    with $highest[k] = max_m key[m, k]$. The content lambda of these tokens is $sums / total$.

        >>> sums, total, highest = content_sums(jnp.ones((1, 2, 1, 1)), jnp.ones((1, 2, 1, 3)))
        >>> sums.ravel(), float(total.squeeze()), float(highest.squeeze())
        (Array([2., 2., 2.], dtype=float32), 2.0, 1.0)

    Args:
      key: keys (b, t, k, u).
      value: values (b, t, u, v).
    """
    dtype = wide(key, value)
    key, value = key.astype(dtype), value.astype(dtype)
    highest = key.max(axis=1, initial=NEVER)
    weights = jnp.exp(key - highest[:, None])
    return jnp.einsum("bmku,bmuv->bkuv", weights, value), weights.sum(axis=1), highest


@takes_arrays
def content_sums_step(before: Sums, key: Float[Array, "b 1 k u"], value: Float[Array, "b 1 u v"]) -> Sums:
    """Updates `content_sums` with one more token; no exponent is positive.

        >>> before = content_sums(jnp.ones((1, 2, 1, 1)), jnp.ones((1, 2, 1, 3)))
        >>> content_sums_step(before, jnp.ones((1, 1, 1, 1)), jnp.ones((1, 1, 1, 3)))[0].ravel()
        Array([3., 3., 3.], dtype=float32)

    Args:
      before: the sums of the tokens before.
      key: key of the new token, (b, 1, k, u).
      value: value of the new token, (b, 1, u, v).
    """
    sums, total, highest = before
    new, one, now = content_sums(key, value)
    maximum = jnp.maximum(highest, now)
    old, add = jnp.exp(highest - maximum), jnp.exp(now - maximum)
    return old[..., None] * sums + add[..., None] * new, old * total + add * one, maximum


@takes_arrays
def lambda_step(
    query: Float[Array, "b h k"],
    sums: Sums,
    window: Float[Array, "b r u v"],
    position: Float[Array, "r k u"],
) -> Float[Array, "b h v"]:
    """Returns the result of a causal `fourier_attn.ops.lambdas.lambda_layer` for the last token.

        y[a] = (sums / total + sum_{j < r} R[j] window[j]^T)^T q[a]

    Scores come before sums, so that the position lambda is not built. The result has the dtype of `window`.

        >>> sums = content_sums(jnp.zeros((1, 2, 1, 1)), jnp.array([0.0, 3.0]).reshape(1, 2, 1, 1))
        >>> query, window = jnp.ones((1, 1, 1)), jnp.array([0.0, 3.0]).reshape(1, 2, 1, 1)
        >>> lambda_step(query, sums, window, jnp.array([0.0, 1.0]).reshape(2, 1, 1)).ravel()  # 1.5 + 3
        Array([4.5], dtype=float32)

    Args:
      query: query of the last token, (b, h, k).
      sums: `content_sums` of all tokens.
      window: the last r values, (b, r, u, v).
      position: R (r, k, u); the last tap is that of the token itself.
    """
    dtype = wide(query, window)
    asks, values, table = (x.astype(dtype) for x in (query, window, position))
    content = jnp.einsum("bhk,bkuv->bhv", asks, sums[0].astype(dtype) / sums[1].astype(dtype)[..., None])
    scores = jnp.einsum("bhk,rku->bhru", asks, table)
    return (content + jnp.einsum("bhru,bruv->bhv", scores, values)).astype(window.dtype)
