"""Scaled dot-product attention with padding."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

IMPLEMENTATIONS = ("xla", "cudnn")


def attention(
    query: Float[Array, "b t h k"],
    key: Float[Array, "b s h k"],
    value: Float[Array, "b s h k"],
    *,
    mask: Bool[Array, "b s"] | None = None,
    implementation: str = "xla",
) -> Float[Array, "b t h k"]:
    """Averages values with softmax weights, per head.

        y[i, a] = sum_j softmax_j(q[i, a] . k[j, a] / sqrt(k)) v[j, a]

    Scores and softmax are computed in float32; the result has the input's dtype.

    Args:
      query, key, value: projected tokens, heads on the third axis.
      mask: True for the source tokens that may be attended to.
      implementation: "xla" on any backend; "cudnn" is the fused kernel for NVIDIA GPUs (bfloat16
        or float16), which is given the mask as lengths. Not yet run on a GPU.
    Masking: a masked source token gets no weight. "cudnn" counts the mask, so that there all
      padding must follow the real tokens.
    Raises: ValueError for an unknown implementation, or cuDNN where it cannot run.
    Source: Vaswani et al., Attention Is All You Need, arXiv 1706.03762.
    """
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f"implementation={implementation!r} is unknown; choose one of {', '.join(IMPLEMENTATIONS)}"
        )
    if implementation == "cudnn":
        if query.dtype == jnp.float32 or jax.default_backend() != "gpu":
            raise ValueError(
                f"implementation='cudnn' needs an NVIDIA GPU and bfloat16 or float16, not {query.dtype} on "
                f"{jax.default_backend()}; use 'xla' or change model.dtype"
            )
        lengths = None if mask is None else jnp.sum(mask, axis=-1, dtype=jnp.int32)
        return jax.nn.dot_product_attention(
            query, key, value, key_value_seq_lengths=lengths, implementation="cudnn"
        )
    where = None if mask is None else mask[:, None, None, :]
    return jax.nn.dot_product_attention(query, key, value, mask=where, implementation="xla")


@jax.custom_vjp
def shared_attention(
    query: Float[Array, "b n d"], shared: Float[Array, "b s d"], mask: Bool[Array, "b s"]
) -> Float[Array, "b n d"]:
    """Attention whose keys and values are the same vectors, shared by all queries (of all heads).

        y[i] = sum_j softmax_j(q[i] . z[j]) z[j]

    Scores are not scaled. Scores and softmax are float32. The backward pass computes the weights again
    instead of keeping them, so that what is saved grows with n + s and not with n s.

    Masking: a masked source token gets no weight; where all are masked, the plain average is returned.
    Source: Shazeer, Fast Transformer Decoding (one head of keys and values), arXiv 1911.02150; Dao et al.,
    FlashAttention (weights computed again from the maximum and the sum), arXiv 2205.14135.
    """
    return _shared_forward(query, shared, mask)[0]


def _products(query: Array, shared: Array) -> Array:
    return jnp.einsum("bnd,bsd->bns", query, shared, preferred_element_type=jnp.float32)


def _scores(query: Array, shared: Array, mask: Array) -> Array:
    return jnp.where(mask[:, None, :], _products(query, shared), jnp.full((), -1e30, jnp.float32))


def _shared_forward(query: Array, shared: Array, mask: Array) -> tuple[Array, tuple[Array, ...]]:
    scores = _scores(query, shared, mask)
    highest = scores.max(axis=-1, keepdims=True)
    weights = jnp.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True)
    sums = jnp.matmul(weights.astype(shared.dtype), shared, preferred_element_type=jnp.float32)
    y = (sums / total).astype(query.dtype)
    return y, (query, shared, mask, highest, total, y)


def _shared_backward(saved: tuple[Array, ...], g: Array) -> tuple[Array, Array, None]:
    query, shared, mask, highest, total, y = saved
    weights = jnp.exp(_scores(query, shared, mask) - highest) / total
    mean = jnp.sum((g * y).astype(jnp.float32), axis=-1, keepdims=True)  # of the scores' cotangents
    by_scores = weights * (_products(g, shared) - mean)
    by_scores = jnp.where(mask[:, None, :], by_scores, jnp.zeros((), jnp.float32)).astype(query.dtype)
    as_value = jnp.einsum("bns,bnd->bsd", weights.astype(g.dtype), g)
    return jnp.matmul(by_scores, shared), as_value + jnp.einsum("bns,bnd->bsd", by_scores, query), None


shared_attention.defvjp(_shared_forward, _shared_backward)
