"""Defines attention with convolutional queries, keys and values."""

import math
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.choices import check_choice
from fourier_attn.layers.cache import Cursor, keep
from fourier_attn.layers.causality import check_causal
from fourier_attn.layers.engine_choice import OnEngine
from fourier_attn.layers.fields import how_computed, not_an_option
from fourier_attn.layers.shared_tokens import HEADS, Shared
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.attention import attention
from fourier_attn.ops.circular import circular_attention, circular_correlate
from fourier_attn.ops.steps import attend_step
from fourier_attn.optics import optical_circular_correlate


class CircularAttention(OnEngine):
    """Attends with queries, keys and values that are circular correlations of each token.

        q_a, k_a, v_a = w_a * x, u_a * x, s_a * x       correlation along the features of each token
        y = sum_a softmax(q_a k_a^T / sqrt(d)) v_a

    All heads are as wide as the token. By default heads are summed without an output projection, so that the
    kernels are the only weights: $3 h r$ numbers, where dense projections have $4 h d^2$.

        >>> layer, x = CircularAttention(heads=2), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `query`, `key` and `value` (h, r), or (h, r1, r2) with `shape`, uniform within
    $1 / sqrt(taps)$. combine_heads="project" adds `out/kernel` (h, p, d) and `out/bias` (d).

    Args:
      heads: number of heads h. Default 8.
      shape: (d1, d2) makes each token an image of d1 rows, read row by row. Default None, a signal of d
        values.
      boundary: "circular", "zero" or "valid": what lies outside the token. "valid" makes tokens shorter and
        needs combine_heads="project". Default "circular".
      kernel: number of taps, (r,) or (r1, r2). Default None, as many as the token has, as in the articles.
      causal: lets token i attend to tokens $j <= i$ only. Correlations run along the features of one token,
        so they need no causal form. Default False.
      combine_heads: "sum" adds the heads; "project" maps their concatenation back to d, as dense attention
        does. Default "sum".
      method: "literal" computes three correlations; "fused" uses an exact identity: all heads share
        the tokens as keys and values, see `fourier_attn.ops.circular.circular_attention`; "auto" chooses by
        d. Default "auto".
      implementation: "xla" or "rows", see `fourier_attn.ops.attention.shared_attention`. Default "xla".
      engine: optical engine that computes the three projections from one transform of each token. With an
        engine the method is "literal", because noise comes between correlation and product. Two
        neighbouring tokens, including padding, share a pass and its scale, so the error of one depends on the
        other. Normalised inputs keep both at similar scales. Default None, exact.
      eval_engine: engine of evaluation. Default None, the same as in training.
      prefer: plan for sizes that the engine does not have, "error" or "passes". Default "error".
      dtype: dtype of the computation; parameters stay float32. Default float32.
    Masking: padding gets no weight. Outputs at padded positions are finite and have no meaning.
    Raises: ValueError if shape or kernel do not fit d, for an unknown option, and for causal with an engine.
    Source: Optalysys' articles on transformers by convolution.
    """

    heads: int = 8
    shape: tuple[int, ...] | None = None
    boundary: str = "circular"
    kernel: tuple[int, ...] | None = None
    causal: bool = False
    combine_heads: str = "sum"
    method: str = how_computed("auto")
    implementation: str = how_computed("xla")
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    has_step: ClassVar[bool] = True  # see `fourier_attn.layers.cache`
    shared: ClassVar[Shared] = HEADS

    @nn.compact
    @takes_arrays
    def __call__(
        self,
        x: Float[Array, "b t d"],
        *,
        mask: Bool[Array, "b t"] | None = None,
        train: bool = False,
        cursor: Cursor | None = None,
    ) -> Float[Array, "b t d"]:
        d = x.shape[-1]
        axes = tuple(self.shape or (d,))
        taps = tuple(self.kernel or axes)
        check_causal(self)
        check_choice("combine_heads", self.combine_heads, ("sum", "project"))
        check_choice("implementation", self.implementation, ("xla", "rows"))
        if self.heads < 1 or len(taps) != len(axes) or min(taps) < 1:
            raise ValueError(
                f"heads={self.heads} and kernel={taps} must be positive, kernel with {len(axes)} axes"
            )
        if self.boundary == "valid" and math.prod(taps) > 1 and self.combine_heads == "sum":
            raise ValueError(
                "boundary='valid' makes tokens shorter than d; use combine_heads='project' or 'zero'"
            )
        bound = math.prod(taps) ** -0.5

        def init(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
            return nn.initializers.uniform(2 * bound)(key, shape, dtype) - bound

        shape = (self.heads, *taps)
        kernels = [self.param(name, init, shape, jnp.float32) for name in ("query", "key", "value")]
        x, image = x.astype(self.dtype), tuple(self.shape or ()) or None
        engine, key = self.choose_engine(train)
        if cursor is not None:
            y = self._continue(x, jnp.concatenate(kernels), mask, cursor)
        elif engine is None:
            y = circular_attention(
                x,
                *kernels,
                shape=image,
                boundary=self.boundary,
                mask=mask,
                causal=self.causal,
                combine_heads="sum" if self.combine_heads == "sum" else "none",
                method=self.method,
                implementation=self.implementation,
            )
        else:
            filters = jnp.concatenate(kernels)
            projected = optical_circular_correlate(
                x, filters, engine, key, shape=image, boundary=self.boundary, prefer=self.prefer
            )
            heads = jnp.split(projected, 3, axis=-2)
            y = attention(*heads, mask=mask, implementation=self.implementation)
            y = y.sum(axis=-2) if self.combine_heads == "sum" else y
        if self.combine_heads == "sum":
            return y
        return nn.DenseGeneral(d, axis=(-2, -1), dtype=self.dtype, name="out")(y)

    def _continue(self, x: Array, kernels: Array, mask: Array | None, cursor: Cursor) -> Array:
        """Attention of a prompt, or of one more token, to the keys and values that are kept."""
        image = tuple(self.shape or ()) or None
        projected = circular_correlate(x, kernels, shape=image, boundary=self.boundary)
        query, key, value = jnp.split(projected, 3, axis=-2)
        keys, values = keep(self, "keys", key, cursor), keep(self, "values", value, cursor)
        if cursor.place is None:
            y = attention(query, key, value, mask=mask, causal=True, implementation=self.implementation)
        else:
            y = attend_step(query[:, 0], keys, values, cursor.place)[:, None]
        return y.sum(axis=-2) if self.combine_heads == "sum" else y
