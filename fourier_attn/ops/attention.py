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
