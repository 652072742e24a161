"""Scaled dot-product attention with padding."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from fourier_attn.choices import check_choice
from fourier_attn.ops import blockwise_attention, rowwise_attention
from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.blockwise_attention import REFUSED
from fourier_attn.ops.derivatives import reverse_only
from fourier_attn.ops.platforms import by_platform, cpu_or_other
from fourier_attn.ops.token_shares import exchange, give_back, shares

IMPLEMENTATIONS = ("xla", "rows", "cudnn")
METHODS = ("auto", "literal", "fused")


@takes_arrays
def attention(
    query: Float[Array, "b t h k"],
    key: Float[Array, "b s h k"],
    value: Float[Array, "b s h k"],
    *,
    mask: Bool[Array, "b s"] | None = None,
    causal: bool = False,
    implementation: str = "xla",
    dropout: float = 0.0,
    dropout_key: Key[Array, ""] | None = None,
) -> Float[Array, "b t h k"]:
    """Averages values with softmax weights, per head.

        y[i, a] = sum_j softmax_j(q[i, a] . k[j, a] / sqrt(k)) v[j, a]

    Scores and softmax are computed in float32; the result has the input's dtype. Without source tokens (s =
    0) it is 0, the sum over none. Memory grows with $t + s$ on all platforms.

    If devices share the tokens of a sequence and $t = s$, each device computes some of the heads.

        >>> query, key = jnp.zeros((1, 3, 1, 2)), jnp.zeros((1, 2, 1, 2))
        >>> value = jnp.array([[0.0, 2.0], [1.0, 4.0]]).reshape(1, 2, 1, 2)
        >>> attention(query, key, value)[0, 0]  # no score prefers anything: the mean of the values
        Array([[0.5, 3. ]], dtype=float32)

    Args:
      query: projected tokens (b, t, h, k).
      key: projected source tokens (b, s, h, k).
      value: values of the source tokens (b, s, h, k).
      mask: True for the source tokens that may be attended to, (b, s). Default None, all of them.
      causal: lets token i attend to tokens $j <= i$ only; t and s must be equal. Default False.
      implementation: "xla" suits the platform of the program. On CPUs it works in blocks that fit a cache
        (`fourier_attn.ops.blockwise_attention`), and has reverse mode only, once. On other platforms it holds
        all scores of an example up to $2^22$, and is "rows" above. "rows" takes some queries after the other
        (`fourier_attn.ops.rowwise_attention`), and has derivatives of any order in both modes. "cudnn" is the
        fused kernel for NVIDIA GPUs (bfloat16 or float16), which gets the mask as lengths. On a GPU, only its
        forward pass without a mask was run. Default "xla".
      dropout: rate of the softmax weights that are zeroed; the others are divided by 1 - rate. Default 0.0.
      dropout_key: key of the dropped weights. Which ones it drops depends on the implementation and, for
        "xla", on the platform: CPUs draw for each block, "rows" for each step. Default None: no weight is
        dropped.
    Masking: a masked source token gets no weight; where all are masked, the plain average is returned, which
      if causal is that of the tokens up to i. "cudnn" counts the mask, so that there all padding must follow
      the real tokens.
    Raises: ValueError for an unknown implementation, a rate outside [0, 1), cuDNN where it cannot run or with
      dropout. TypeError for a derivative that the blocks on CPUs do not have.
    Source: Vaswani et al., Attention Is All You Need, arXiv 1706.03762.
    """
    check_choice("implementation", implementation, IMPLEMENTATIONS)
    _check(query, key, value, mask, causal)
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout={dropout} must lie in [0, 1)")
    if dropout and implementation == "cudnn":
        raise ValueError(f"dropout={dropout} of attention weights needs implementation='xla'; set it to 0")
    if 0 in (*query.shape, *key.shape):
        return jnp.zeros_like(query)
    heads: Any = {"tokens": 1, "shared": 2, "what": "heads"}
    together = query.shape[1] == key.shape[1]
    back = partial(give_back, **heads) if together else lambda y: y
    query, key, value = (exchange(x, **heads) if together else x for x in (query, key, value))
    if implementation == "cudnn":
        lengths = None if mask is None else jnp.sum(mask, axis=-1, dtype=jnp.int32)
        return back(_fused(query, key, value, lengths, causal))
    if not dropout or dropout_key is None:
        dropout, dropout_key = 0.0, None
    compute = partial(_compute, rate=dropout, causal=causal)
    if implementation == "rows":
        return back(compute("rows", query, key, value, mask, dropout_key))
    many = query.shape[1] * query.shape[2] * key.shape[1] > rowwise_attention.LONG
    choose = partial(best_form, many=many)
    return back(by_platform(choose, compute, query, key, value, mask, dropout_key))


@takes_arrays
def softmax_weights(
    query: Float[Array, "b t h k"],
    key: Float[Array, "b s h k"],
    *,
    mask: Bool[Array, "b s"] | None = None,
    causal: bool = False,
) -> Float[Array, "b h t s"]:
    """Returns the weights with which `attention` averages, in float32.

        A[a, i, j] = softmax_j(q[i, a] . k[j, a] / sqrt(k))

        >>> query, key = jnp.zeros((1, 1, 1, 2)), jnp.ones((1, 4, 1, 2))
        >>> softmax_weights(query, key)[0, 0, 0]
        Array([0.25, 0.25, 0.25, 0.25], dtype=float32)

    Args:
      query: projected tokens (b, t, h, k).
      key: projected source tokens (b, s, h, k).
      mask: True for the source tokens that may be attended to, (b, s). Default None, all of them.
      causal: lets token i attend to tokens $j <= i$ only. Default False.
    Masking: a masked source token gets weight 0; where all are masked, all get the same weight. With `causal`
      source tokens $j > i$ get weight 0 in any case.
    Source: Vaswani et al., arXiv 1706.03762.
    """
    _check(query, key, key, mask, causal)
    if 0 in (*query.shape[:3], *key.shape[:3]):
        return jnp.zeros((*query.shape[:1], query.shape[2], query.shape[1], key.shape[1]), wide(query, key))
    last = jnp.arange(query.shape[1], dtype=jnp.int32) if causal else None
    return rowwise_attention.softmax(query, key, mask, last)


def _check(query: Array, key: Array, value: Array, mask: Array | None, causal: bool) -> None:
    """Says what does not fit, its shape and what it must be."""
    (b, t, h, k), s = query.shape, key.shape[1]
    if causal and t != s:
        raise ValueError(f"causal=True needs as many source tokens as queries, not s={s} for t={t}")
    for name, x in (("key", key), ("value", value)):
        if x.shape != (b, s, h, k):
            raise ValueError(
                f"{name} of shape {x.shape} must be (b, s, h, k) = {(b, s, h, k)} for a query of shape "
                f"{query.shape}"
            )
    _check_mask(mask, (b, s))


def _check_mask(mask: Array | None, shape: tuple[int, ...]) -> None:
    if mask is not None and mask.shape != shape:
        raise ValueError(f"mask of shape {mask.shape} must be (b, s) = {shape}, True for real source tokens")


def best_form(platform: str, many: bool) -> str:
    """Returns "blocks" for CPUs, where scores fit a cache; elsewhere "rows" if there are many, or "whole".

    Args:
      platform: "cpu", "cuda", "rocm" or "tpu".
      many: whether an example has more scores than `rowwise_attention.LONG`.
    """
    return "blocks" if platform == "cpu" else "rows" if many else "whole"


def _compute(
    form: str,
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    dropout_key: Array | None,
    *,
    rate: float,
    causal: bool,
) -> Array:
    if form == "blocks":
        return _in_blocks(query, key, value, mask, dropout_key, rate, causal)
    if form == "rows":
        return rowwise_attention.average_by_rows(query, key, value, mask, dropout_key, rate, causal)
    if causal or dropout_key is not None or not query.dtype == key.dtype == value.dtype != jnp.float64:
        last = jnp.arange(query.shape[1], dtype=jnp.int32) if causal else None
        return rowwise_attention.average(query, key, value, mask, dropout_key, last, rate)
    where = None if mask is None else mask[:, None, None, :]
    return jax.nn.dot_product_attention(query, key, value, mask=where, implementation="xla")


def _in_blocks(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    dropout_key: Array | None,
    rate: float,
    causal: bool,
) -> Array:
    b, _, h, k = query.shape
    dtype = wide(query, key, value)
    scaled = query.astype(dtype) * jnp.asarray(1 / math.sqrt(k), dtype)
    keys = None if dropout_key is None else jax.random.split(dropout_key, (b, h))
    attend = partial(blockwise_attention.attend, causal=causal, dropout=rate)
    if shares() == 1:
        return attend(scaled, key, value, mask=mask, dropout_keys=keys).astype(query.dtype)
    # Treat each head as an example, so that it stays on its device.
    heads = (x.swapaxes(1, 2)[:, :, :, None] for x in (scaled, key, value))
    mask = None if mask is None else jnp.broadcast_to(mask[:, None], (b, h, mask.shape[1]))
    y = attend(*heads, mask=mask, dropout_keys=None if keys is None else keys[:, :, None])
    return y[:, :, :, 0].swapaxes(1, 2).astype(query.dtype)


def _fused(query: Array, key: Array, value: Array, lengths: Array | None, causal: bool) -> Array:
    """cuDNN's kernel. JAX refuses it where cuDNN is not installed, and in programs for other devices."""
    needs = "implementation='cudnn' needs an NVIDIA GPU with cuDNN and bfloat16 or float16"
    if query.dtype == jnp.float32:
        raise ValueError(f"{needs}, not {query.dtype}; use 'xla' or change model.dtype")
    try:
        return jax.nn.dot_product_attention(
            query,
            key,
            value,
            key_value_seq_lengths=lengths,
            is_causal=causal,
            implementation="cudnn",
        )
    except RuntimeError as error:
        raise ValueError(f"{needs} ({error}); use 'xla'") from error


@takes_arrays
def fused_attention(
    x: Float[Array, "b t d"],
    source: Float[Array, "b s e"],
    query: Float[Array, "d h k"],
    key: Float[Array, "e h k"],
    value: Float[Array, "e h k"],
    out: Float[Array, "h k c"],
    *,
    mask: Bool[Array, "b s"] | None = None,
    causal: bool = False,
    implementation: str = "xla",
) -> Float[Array, "b t c"]:
    """Computes attention between dense projections of tokens, without projecting the source.

        y = sum_a softmax((x Q_a) (z K_a)^T / sqrt(k)) (z V_a) O_a
          = sum_a softmax(x M_a z^T) z N_a,     M_a = Q_a K_a^T / sqrt(k),   N_a = V_a O_a

    Products of matrices may be taken in any order: keys and values are the source z itself, the same for all
    heads, and two products of weights, which are small, take the place of two products with all of z. Also,
    $M_a$ and $N_a$ are all that attention has of its weights. It holds where nothing comes between projection
    and product: no bias of queries, no rotation. Where a head is narrower than the tokens, scores cost more:
    `fewest_products` counts.

        >>> x, one = jnp.ones((1, 3, 4)), jnp.ones((4, 2, 4)) / 4  # two heads
        >>> fused_attention(x, x, one, one, one, jnp.ones((2, 4, 4)) / 4)[0, 0]  # means of ones, summed
        Array([2., 2., 2., 2.], dtype=float32)

    Args:
      x: the tokens, (b, t, d).
      source: the source tokens, (b, s, e).
      query: $W_q$ (d, h, k).
      key: $W_k$ (e, h, k).
      value: $W_v$ (e, h, k).
      out: $W_o$ (h, k, c).
      mask: True for the source tokens that may be attended to, (b, s). Default None, all of them.
      causal: lets token i attend to tokens $j <= i$ only. Default False.
      implementation: "xla" or "rows", see `shared_attention`. Default "xla".
    Masking: a masked source token gets no weight; where all are masked, the plain average is returned.
    Source: derived here; for circular attention see `fourier_attn.ops.circular`.
    """
    (b, t, _), (h, e, c) = x.shape, (key.shape[1], key.shape[0], out.shape[-1])
    for name, kernel in (("value", value.shape), ("out", (e, *out.shape[:2]))):
        if kernel != key.shape:
            raise ValueError(f"{name} must have the heads and widths of key {key.shape}, not {kernel}")
    averages = average_source(x, source, query, key, mask, causal, implementation)
    values = jnp.einsum("ehk,hkc->hec", value, out).reshape(h * e, c).astype(x.dtype)
    return (averages.reshape(b * t, h * e) @ values).reshape(b, t, c)


@takes_arrays
def average_source(
    x: Float[Array, "b t d"],
    source: Float[Array, "b s e"],
    query: Float[Array, "d h k"],
    key: Float[Array, "e h k"],
    mask: Bool[Array, "b s"] | None = None,
    causal: bool = False,
    implementation: str = "xla",
) -> Float[Array, "b t h e"]:
    """Averages the source's tokens in each head: $softmax(x M_a z^T) z$, see `fused_attention`.

        >>> source = jnp.array([[[0.0, 2.0], [1.0, 4.0]]])
        >>> zero = jnp.zeros((2, 1, 2))  # one head, to which all tokens are alike
        >>> average_source(source, source, zero, zero)[0, 0]
        Array([[0.5, 3. ]], dtype=float32)

    Args:
      x: the tokens, (b, t, d).
      source: the source tokens, (b, s, e).
      query: $W_q$ of each head.
      key: $W_k$ of each head.
      mask: True for the source tokens that may be attended to, (b, s). Default None, all of them.
      causal: lets token i attend to tokens $j <= i$ only.
      implementation: "xla" or "rows", see `shared_attention`.
    """
    (b, t, d), (e, h, k) = x.shape, key.shape
    if query.shape != (d, h, k) or source.shape[::2] != (b, e):
        raise ValueError(
            f"x {x.shape}, source {source.shape}, query {query.shape} and key {key.shape} must be (b, t, d), "
            "(b, s, e), (d, h, k) and (e, h, k)"
        )
    merged = jnp.einsum("dhk,ehk->dhe", query, key).reshape(d, h * e) / math.sqrt(max(k, 1))
    queries = x.reshape(b * t, d) @ merged.astype(x.dtype)
    mask = jnp.ones(source.shape[:2], bool) if mask is None else mask
    queries = queries.reshape(b, t * h, e)
    y = shared_attention(queries, source, mask, causal=causal, implementation=implementation)
    return y.reshape(b, t, h, e)


def fewest_products(b: int, t: int, s: int, d: int, e: int, h: int, k: int) -> str:
    """Returns the form that needs fewer products, "fused" or "literal"; empty inputs use "literal".

        >>> fewest_products(32, 256, 256, 128, 128, 8, 128), fewest_products(32, 256, 256, 128, 128, 8, 16)
        ('fused', 'literal')

    Args:
      b: examples.
      t: tokens.
      s: source tokens.
      d: width of the tokens.
      e: width of the source tokens.
      h: heads.
      k: width of a head.
    """
    literal = b * h * k * (2 * t * d + 2 * s * e + 2 * t * s)
    fused = 2 * d * e * h * k + b * h * e * (2 * t * d + 2 * t * s)
    return "fused" if b * t * s and fused < literal else "literal"


@takes_arrays
def shared_attention(
    query: Float[Array, "b n d"],
    shared: Float[Array, "b s d"],
    mask: Bool[Array, "b s"],
    *,
    causal: bool = False,
    implementation: str = "xla",
) -> Float[Array, "b n d"]:
    """Computes attention in which all queries (of all heads) share vectors that are both keys and values.

        y[i] = sum_j softmax_j(q[i] . z[j]) z[j]

    Scores are not scaled. Scores and softmax are float32. The backward pass computes the weights again
    instead of keeping them, so that memory grows with $n + s$ and not with $n s$.

        >>> tokens = jnp.array([[[1.0, 0.0], [0.0, 1.0]]])
        >>> shared_attention(100 * tokens, tokens, jnp.ones((1, 2), bool))[0]  # each finds itself
        Array([[1., 0.],
               [0., 1.]], dtype=float32)

    Args:
      query: queries (b, n, d), some for each token.
      shared: tokens (b, s, d), which are keys and values.
      mask: True for the tokens that may be attended to, (b, s).
      causal: queries of $n / s$ heads for each token, one token after the other, see tokens up to their own.
      implementation: "xla" suits the platform of the program. On CPUs it holds all scores up to $2^21$, where
        this was faster, and works in blocks above; first derivatives have reverse mode only. On other
        platforms it is "rows". "rows" takes some queries after the other, or all of them up to $2^22$ scores
        of an example, and has derivatives of any order in both modes. Default "xla".
    Masking: a masked source token gets no weight; where all are masked, the plain average is returned.
    Raises: ValueError for shapes that do not fit. TypeError for a derivative that CPUs do not have.
    Source: Shazeer, Fast Transformer Decoding (one head of keys and values), arXiv 1911.02150; Dao et al.,
    FlashAttention (weights computed again from the maximum and the sum), arXiv 2205.14135.
    """
    check_choice("implementation", implementation, ("xla", "rows"))
    if query.shape[::2] != shared.shape[::2]:
        raise ValueError(f"query {query.shape} and shared {shared.shape} must be (b, n, d) and (b, s, d)")
    _check_mask(mask, shared.shape[:2])
    if causal and query.shape[1] % max(shared.shape[1], 1):
        raise ValueError(
            f"causal=True needs some queries for each token, not {query.shape} for {shared.shape}"
        )
    if 0 in (*query.shape, *shared.shape):
        return jnp.zeros_like(query)
    compute = partial(_shared, causal=causal)
    if implementation == "rows":
        return compute("rows", query, shared, mask)
    many = query.shape[0] * query.shape[1] * shared.shape[1] > 2**21
    return by_platform(cpu_or_other("blocks" if many else "whole", "rows"), compute, query, shared, mask)


def _shared(form: str, query: Array, shared: Array, mask: Array, *, causal: bool) -> Array:
    if form == "rows":
        return rowwise_attention.shared_average_by_rows(query, shared, mask, causal)
    if form == "whole":
        forward, backward = partial(_shared_forward, causal=causal), partial(_shared_backward, causal)
        return reverse_only(REFUSED, forward, backward)(query, shared, mask)
    one = shared[:, :, None]
    return blockwise_attention.attend(query[:, :, None], one, one, mask=mask, causal=causal)[:, :, 0]


def _products(query: Array, shared: Array) -> Array:
    return jnp.einsum("bnd,bsd->bns", query, shared, preferred_element_type=wide(query, shared))


def _scores(query: Array, shared: Array, mask: Array, causal: bool) -> Array:
    scores = _products(query, shared)
    scores = jnp.where(mask[:, None, :], scores, jnp.full((), -1e30, scores.dtype))
    if not causal:
        return scores
    n, s = scores.shape[1:]
    seen = jnp.arange(s)[None, :] <= (jnp.arange(n) // (n // s))[:, None]
    return jnp.where(seen[None], scores, jnp.full((), -jnp.inf, scores.dtype))


def _shared_forward(
    query: Array, shared: Array, mask: Array, causal: bool
) -> tuple[Array, tuple[Array, ...]]:
    scores = _scores(query, shared, mask, causal)
    highest = scores.max(axis=-1, keepdims=True)
    weights = jnp.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True)
    sums = jnp.matmul(weights.astype(shared.dtype), shared, preferred_element_type=weights.dtype)
    y = (sums / total).astype(query.dtype)
    return y, (query, shared, mask, highest, total, y)


def _shared_backward(causal: bool, saved: tuple[Array, ...], g: Array) -> tuple[Array, Array]:
    query, shared, mask, highest, total, y = saved
    weights = jnp.exp(_scores(query, shared, mask, causal) - highest) / total
    mean = jnp.sum((g * y).astype(weights.dtype), axis=-1, keepdims=True)  # of the scores' cotangents
    by_scores = weights * (_products(g, shared) - mean)
    by_scores = jnp.where(mask[:, None, :], by_scores, jnp.zeros((), weights.dtype)).astype(query.dtype)
    as_value = jnp.einsum("bns,bnd->bsd", weights.astype(g.dtype), g)
    return jnp.matmul(by_scores, shared), as_value + jnp.einsum("bns,bnd->bsd", by_scores, query)
