"""Multi-head self-attention."""

from functools import partial

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.layers import initial
from fourier_attn.ops.attention import attention
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.ops.positions import places, rotate


class Attention(nn.Module):
    """Multi-head self-attention with dense projections.

        q, k, v = x W_q, x W_k, x W_v          per head, without bias unless `bias`
        y = concat_a(softmax(q_a k_a^T / sqrt(k)) v_a) W_o + b_o

    Parameters: `query/kernel`, `key/kernel`, `value/kernel` (d, h, k), `out/kernel` (h, k, d),
    `out/bias` (d); with `bias` also `query/bias`, `key/bias`, `value/bias` (h, k).

    Args:
      heads: number of heads h.
      head_width: "full" gives every head the whole width, k = d, as the articles do; "split"
        divides it, k = d / h, as is usual.
      bias: of queries, keys and values, as in BERT.
      dropout: rate of the softmax weights, in training.
      initializer: of the projections, see `fourier_attn.layers.initial.dense`.
      implementation: see `fourier_attn.ops.attention.attention`.
      grid: (rows, cols) of an image, which `rotary` then knows; () for a sequence.
      rotary: queries and keys are rotated by their places, see `fourier_attn.ops.positions.rotate`.
      dtype: of the computation; parameters stay float32.
    Masking: padding gets no weight; outputs at padded positions are finite and meaningless.
    Raises: ValueError where heads do not divide a split width, or for an unknown option.
    Source: Vaswani et al., arXiv 1706.03762; "full" width: P. Bloem, Transformers from scratch.
    """

    heads: int = 8
    head_width: str = "full"
    bias: bool = False
    dropout: float = 0.0
    initializer: str = "fan_in"
    implementation: str = "xla"
    grid: tuple[int, ...] = ()
    rotary: bool = False
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        d = x.shape[-1]
        if self.heads < 1 or (self.head_width == "split" and d % self.heads):
            raise ValueError(
                f"heads={self.heads} must divide d={d}; change one of them or use head_width='full'"
            )
        if self.head_width not in ("full", "split"):
            raise ValueError(f"head_width={self.head_width!r} is unknown; choose 'full' or 'split'")
        if self.initializer not in initial.CHOICES:
            raise ValueError(
                f"initializer={self.initializer!r} is unknown; choose one of {', '.join(initial.CHOICES)}"
            )
        k = d if self.head_width == "full" else d // self.heads

        dense = partial(nn.DenseGeneral, dtype=self.dtype, dot_general=matrix_dot_general)

        def project(name: str) -> Float[Array, "b t h k"]:
            begin = initial.dense(self.initializer, d)
            return dense((self.heads, k), use_bias=self.bias, name=name, **begin)(x)

        query, key, value = (project(name) for name in ("query", "key", "value"))
        if self.rotary:
            where = places(x.shape[-2], tuple(self.grid))
            query, key = rotate(query, where), rotate(key, where)
        y = attention(
            query,
            key,
            value,
            mask=mask,
            implementation=self.implementation,
            dropout=self.dropout,
            dropout_key=self.make_rng("dropout") if train and self.dropout else None,
        )
        begin = initial.dense(self.initializer, self.heads * k)
        return dense(d, axis=(-2, -1), name="out", **begin)(y)
