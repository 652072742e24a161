"""Defines multi-head attention, of tokens to each other or to the tokens of a source."""

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
from fourier_attn.layers.shared_tokens import HEADS, Shared
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.attention import METHODS, attention, fewest_products, fused_attention, softmax_weights
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.ops.patches import same_proportions
from fourier_attn.ops.positions import places, rotate
from fourier_attn.ops.steps import attend_step, fused_attention_step
from fourier_attn.ops.token_shares import check_whole, shares


class Attention(nn.Module):
    """Attends from each token to all tokens with dense queries, keys and values (multi-head attention).

        q, k, v = x W_q, z W_k, z W_v          per head, without bias unless `bias`
        y = concat_a(softmax(q_a k_a^T / sqrt(k)) v_a) W_o + b_o

    The source z is x itself unless `source` (b, s, e) is given. With a source the layer is cross-attention:
    for example, a question attends to the patches of an image.

        >>> layer, x = Attention(heads=2), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `query/kernel` (d, h, k), `key/kernel` and `value/kernel` (e, h, k), with $e = d$ without a
    source, `out/kernel` (h, k, d) and `out/bias` (d). `bias` adds `query/bias`, `key/bias` and `value/bias`
    (h, k).

    Args:
      heads: number of heads h. Default 8.
      head_width: "full" gives each head the whole width, $k = d$, as in the articles; "split" gives it
        $k = d / h$, as in most implementations. Default "full".
      bias: adds biases to queries, keys and values, as in BERT. Default False.
      causal: lets token i attend to tokens $j <= i$ only; for self-attention. Default False.
      dropout: rate of the softmax weights that are dropped in training. Default 0.0.
      initializer: "fan_in" (Flax's default) or "torch" (uniform within $1 / sqrt(inputs)$). Default "fan_in".
      method: "literal" computes the two lines above. "fused" computes the same result without keys and
        values, see `fourier_attn.ops.attention.fused_attention`; it needs bias=False, rotary=False, dropout=0
        and another implementation than "cudnn". "auto" uses "fused" where that is possible and takes fewer
        multiplications, which holds for full heads unless there are few tokens. If devices share the tokens
        of a sequence, "auto" uses "literal", and "fused" raises a ValueError. Default "auto".
      implementation: "xla", "rows" or "cudnn", see `fourier_attn.ops.attention.attention`. Default "xla".
      grid: (rows, cols) of an image, which sets the positions of `rotary`. Default (), a sequence.
      rotary: rotates queries and keys by their positions, see `fourier_attn.ops.positions.rotate`. The model
        sets it. Default False.
      dtype: dtype of the computation; parameters stay float32. Default float32.
    Returns: the mixed tokens (b, t, d). If the collection "intermediates" is mutable, it gets the softmax
      weights (b, h, t, s) as `weights`.
    Masking: `mask` (b, s) belongs to the source. Padding of the source gets no weight. Outputs at padded
      positions of x are finite and have no meaning.
    Raises: ValueError if heads does not divide a split width, for an unknown option, for rotary or causal
      with a source, and for causal with a grid.
    Source: Vaswani et al., Attention Is All You Need, arXiv 1706.03762; full width: P. Bloem, Transformers
      from scratch; a question and an image: Torralba, Isola and Freeman, Foundations of Computer Vision, the
      chapter on transformers, eq. 1.18-1.24.
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
    shared: ClassVar[Shared] = HEADS

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
        dropping = bool(train and self.dropout)
        method = "literal" if shares() > 1 and self.method == "auto" and source is x else self.method
        if method == "auto" and not dropping and self.fusible:
            method = fewest_products(b, t, s, d, e, self.heads, k)
        place = None if cursor is None else cursor.place
        if cursor is not None:  # of full heads, the tokens are smaller than their keys and values
            method = "fused" if self.fusible and self.head_width == "full" else "literal"

        def dense(name: str, inputs: int, **fields: Any) -> nn.DenseGeneral:
            fields |= initializers.dense(self.initializer, inputs)
            return nn.DenseGeneral(
                dtype=self.dtype,
                dot_general=None if name == "out" else matrix_dot_general,
                name=name,
                **fields,
            )

        heads = {"features": (self.heads, k), "use_bias": self.bias}
        projections = [dense(name, n, **heads) for name, n in (("query", d), ("key", e), ("value", e))]
        out = dense("out", self.heads * k, features=d, axis=(-2, -1))
        asked = self.is_mutable_collection("intermediates")  # by `layers.weights` for example
        if method == "fused" and not (asked or self.is_initializing()):
            kernels = [part.get_variable("params", "kernel") for part in (*projections, out)]
            inputs = x.astype(self.dtype), source.astype(self.dtype)
            kept = inputs[1] if cursor is None else keep(self, "tokens", inputs[1], cursor)
            if place is None:
                how = {"causal": self.causal, "implementation": self.implementation}
                y = fused_attention(*inputs, *kernels, mask=mask, **how)
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
        """Returns whether queries and keys are multiplied unchanged, so that "fused" is possible."""
        return not (self.bias or self.rotary) and self.implementation != "cudnn"

    def places(self, t: int) -> np.ndarray:
        """Returns the positions (t, axes) of t tokens, on a grid of the stored proportions where there is a
        grid.

        Args:
          t: number of tokens, with or without a class token.
        Raises: ValueError for a number of tokens that fills no such grid.
        """
        grid = tuple(self.grid)
        if grid and t != math.prod(grid) + 1:  # which are the patches and a class token
            with contextlib.suppress(ValueError):
                return places(t, same_proportions(t, grid))
            grid = same_proportions(t - 1, grid)
        return places(t, grid)

    def check(self, x: Array, source: Array) -> None:
        """Checks the fields against the inputs.

        Args:
          x: the tokens (b, t, d).
          source: the tokens (b, s, e) that are attended to; x itself for self-attention.
        Raises: ValueError, see the class.
        """
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
                "method='fused' needs bias=False, rotary=False, dropout=0 and another implementation than "
                "'cudnn'; use method='auto'"
            )
        if self.method == "fused" and source is x:
            check_whole("method='fused'", "method='auto'")
