"""Multi-head attention: of tokens to each other, or to other tokens."""

import contextlib
import math
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fourier_attn.choices import check_choice
from fourier_attn.layers import initializers
from fourier_attn.layers.cache import Cursor, keep
from fourier_attn.layers.causality import check_causal
from fourier_attn.layers.fields import from_data, how_computed, not_an_option
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.attention import METHODS, attention, fewest_products, fused_attention, softmax_weights
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.ops.patches import same_proportions
from fourier_attn.ops.positions import places, rotate
from fourier_attn.ops.steps import attend_step, fused_attention_step


class Attention(nn.Module):
    """Multi-head attention with dense projections, of tokens x to a source z: x itself if none is given.

        q, k, v = x W_q, z W_k, z W_v          per head, without bias unless `bias`
        y = concat_a(softmax(q_a k_a^T / sqrt(k)) v_a) W_o + b_o

    With a source (b, s, e) it is cross-attention: a question asks the patches of an image, for example.

        >>> layer, x = Attention(heads=2), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `query/kernel` (d, h, k), `key/kernel`, `value/kernel` (e, h, k), e = d without a source,
    `out/kernel` (h, k, d), `out/bias` (d); with `bias` also `query/bias`, `key/bias`, `value/bias` (h, k).

    Args:
      heads: number of heads h.
      head_width: "full" gives every head the whole width, k = d, as the articles do; "split"
        divides it, k = d / h, as is usual.
      bias: of queries, keys and values, as in BERT.
      causal: token i attends to tokens j <= i only, in self-attention.
      dropout: rate of the softmax weights, in training.
      initializer: of the projections, see `fourier_attn.layers.initializers.dense`.
      method: "literal" computes the lines above; "fused" is the same without keys and values, see
        `fourier_attn.ops.attention.fused_attention`, for which nothing may come between projection and
        product: no bias, no rotation, no dropout, "xla". "auto" is "fused" where that holds and it multiplies
        less: for full heads, unless there are few tokens.
      implementation: see `fourier_attn.ops.attention.attention`.
      grid: (rows, cols) of an image, which `rotary` then knows; () for a sequence.
      rotary: queries and keys are rotated by their places, see `fourier_attn.ops.positions.rotate`.
      dtype: of the computation; parameters stay float32.
    Returns: the result; its weights (b, h, t, s) are `weights` in the collection "intermediates", where that
      is mutable.
    Masking: the mask is the source's, whose padding gets no weight; outputs at padded positions of x are
      finite and meaningless.
    Raises: ValueError where heads do not divide a split width, for an unknown option, for rotary or causal
      with a source, and for causal with a grid.
    Source: Vaswani et al., arXiv 1706.03762; "full" width: P. Bloem, Transformers from scratch; a question
      and an image: Torralba, Isola and Freeman, Foundations of Computer Vision, transformers, eq. 1.18-1.24.
    """

    heads: int = 8
    head_width: str = "full"
    bias: bool = False
    causal: bool = False
    dropout: float = 0.0
    initializer: str = "fan_in"
    method: str = how_computed("auto")
    implementation: str = how_computed("xla")
    grid: tuple[int, ...] = from_data("grid", ())
    rotary: bool = not_an_option(False)
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    has_step: ClassVar[bool] = True  # see `fourier_attn.layers.cache`

    @nn.compact
    @takes_arrays
    def __call__(
        self,
        x: Float[Array, "b t d"],
        *,
        source: Float[Array, "b s e"] | None = None,
        mask: Bool[Array, "b s"] | None = None,
        train: bool = False,
        cursor: Cursor | None = None,
    ) -> Float[Array, "b t d"]:
        source = x if source is None else source
        self.check(x, source)
        (b, t, d), (s, e) = x.shape, source.shape[1:]
        k = d if self.head_width == "full" else d // self.heads
        dropping, method = bool(train and self.dropout), self.method
        if method == "auto" and not dropping and self.fusible:
            method = fewest_products(b, t, s, d, e, self.heads, k)
        place = None if cursor is None else cursor.place
        if cursor is not None:  # of full heads, the tokens are smaller than their keys and values
            method = "fused" if self.fusible and self.head_width == "full" else "literal"

        def dense(name: str, inputs: int, **fields: Any) -> nn.DenseGeneral:
            fields |= initializers.dense(self.initializer, inputs)
            return nn.DenseGeneral(dtype=self.dtype, dot_general=matrix_dot_general, name=name, **fields)

        heads = {"features": (self.heads, k), "use_bias": self.bias}
        projections = [dense(name, n, **heads) for name, n in (("query", d), ("key", e), ("value", e))]
        out = dense("out", self.heads * k, features=d, axis=(-2, -1))
        asked = self.is_mutable_collection("intermediates")  # by `layers.weights` for example
        if method == "fused" and not (asked or self.is_initializing()):
            kernels = [part.get_variable("params", "kernel") for part in (*projections, out)]
            inputs = x.astype(self.dtype), source.astype(self.dtype)
            kept = inputs[1] if cursor is None else keep(self, "tokens", inputs[1], cursor)
            if place is None:
                y = fused_attention(*inputs, *kernels, mask=mask, causal=self.causal)
            else:
                y = fused_attention_step(inputs[0][:, 0], kept, *kernels, place=place)[:, None]
            return y + out.get_variable("params", "bias").astype(self.dtype)[None, None]

        query, key, value = (part(z) for part, z in zip(projections, (x, source, source), strict=True))
        if self.rotary:
            where = self.places(t if cursor is None or place is None else cursor.room)
            query, key = rotate(query, where, place=place), rotate(key, where, place=place)
        if cursor is not None:
            keys, values = keep(self, "keys", key, cursor), keep(self, "values", value, cursor)
            if place is not None:
                return out(attend_step(query[:, 0], keys, values, place)[:, None])
        if asked:
            self.sow("intermediates", "weights", softmax_weights(query, key, mask=mask, causal=self.causal))
        y = attention(
            query,
            key,
            value,
            mask=mask,
            causal=self.causal,
            implementation=self.implementation,
            dropout=self.dropout,
            dropout_key=self.make_rng("dropout") if dropping else None,
        )
        return out(y)

    @property
    def fusible(self) -> bool:
        """Says whether projections are multiplied as they are, so that both can be one product."""
        return not (self.bias or self.rotary) and self.implementation == "xla"

    def places(self, t: int) -> np.ndarray:
        """Returns the places of tokens; an image of another resolution has a grid of the same proportions.

        Raises: ValueError for other proportions.
        """
        grid = tuple(self.grid)
        if grid and t != math.prod(grid) + 1:  # which are the patches and a class token
            with contextlib.suppress(ValueError):
                return places(t, same_proportions(t, grid))
            grid = same_proportions(t - 1, grid)
        return places(t, grid)

    def check(self, x: Array, source: Array) -> None:
        """Checks the fields. Raises: ValueError, see the class."""
        d = x.shape[-1]
        if self.heads < 1 or (self.head_width == "split" and d % self.heads):
            raise ValueError(
                f"heads={self.heads} must divide d={d}; change one of them or use head_width='full'"
            )
        check_choice("head_width", self.head_width, ("full", "split"))
        if self.rotary and source is not x:
            raise ValueError("rotary=True has no places for the tokens of a source; use rotary=False")
        if self.causal and source is not x:
            raise ValueError("causal=True knows no order of x and a source; use causal=False")
        check_causal(self)
        check_choice("method", self.method, METHODS)
        if self.method == "fused" and (self.dropout or not self.fusible):
            raise ValueError(
                "method='fused' needs bias=False, rotary=False, dropout=0 and implementation='xla'; "
                "use method='auto'"
            )
