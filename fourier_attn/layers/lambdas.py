"""Defines lambda layers and lambda convolutions with their weights."""

import math
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.choices import check_choice
from fourier_attn.layers.cache import Cursor, keep_last
from fourier_attn.layers.causality import check_causal
from fourier_attn.layers.engine_choice import OnEngine
from fourier_attn.layers.fields import from_data, from_model, how_computed, not_an_option
from fourier_attn.layers.shared_tokens import TOKENS, Shared
from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.ops.lambdas import NEVER, lambda_layer
from fourier_attn.ops.patches import same_proportions
from fourier_attn.ops.steps import content_sums, content_sums_step, lambda_step
from fourier_attn.optics import optical_position_lambda

NORMS, INITIALIZERS, TABLES = ("layer", "none"), ("fan_in", "uniform"), ("relative", "pairs")


class LambdaLayer(OnEngine):
    """Turns the context into a linear map and applies it to each query (lambda layer).

        q, key, v = x W_q, x W_k, x W_v       (t, h, k), (t, k, u), (t, v, u) with v = d / h
        y[n, a] = (sum_m softmax_m(key[m]) v[m]^T + sum_m R[m - n] v[m]^T)^T q[n, a]

    The first sum is the content lambda, the same map for all positions. The second sum is the position
    lambda, from a table R of relative positions. It is never built: `fourier_attn.ops.lambdas.lambda_layer`
    multiplies by the queries first.

        >>> layer, x = LambdaLayer(heads=2, k=4), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `query/kernel` (d, h, k), `key/kernel` (d, k, u), `value/kernel` (d, v, u), `position` (taps,
    k, u), and with norm="layer" `query_norm/scale` (k) and `value_norm/scale` (v u). There is no output
    projection.

    Args:
      heads: number of query heads h, which share keys, values and positions. Default 1.
      k: width of queries and keys. Default 16.
      u: intra-depth: number of sets of keys and values, which are summed. Default 1.
      context: number of taps r of the position table, odd unless causal; r by r with a grid. 0 covers all of
        `length` or `grid`. Default 3.
      length: number of positions that a global table is made for, used if `context` is 0 and there is no
        grid. A run sets it. Default 512.
      table: "relative" has an entry for each distance; "pairs" has one for each pair of positions, and needs
        context=0 and no grid. Default "relative".
      grid: (rows, cols) of an image; tokens of other images must have the same proportions. Default (), a
        sequence.
      causal: lets position n see positions $m <= n$ only; the taps are then the last r positions. Default
        False.
      norm: "layer" normalises each query head and each value with a learned scale; "none" does not. The
        paper's BatchNorm would let padding and other examples into every token. Default "layer".
      initializer: "fan_in" is normal with variance $1 / d$, and $1 / (k r)$ for the table; "uniform" is
        U(-0.5, 0.5) for all. Default "fan_in".
      method: form of the position part, see `fourier_attn.ops.lambdas.lambda_layer`. Default "auto".
      engine: optical engine that computes the position lambdas as convolutions of the values along the
        positions, one for each column of the table. Two neighbouring features share a
        pass and its scale; if v is odd, they can belong to two examples. The error of one therefore depends
        on the other. Normalised inputs keep both at similar scales. Default None, exact.
      eval_engine: engine of evaluation. Default None, the same as in training.
      prefer: plan for sizes that the engine does not have, "error" or "passes". Default "error".
      dtype: dtype of the computation; parameters, softmax and sums over positions stay float32. Default
        float32.
    Masking: padding gets no weight in the softmax, and values of padded tokens count as zero. Outputs at
      padded positions have no meaning.
    Raises: ValueError if heads does not divide d, for an even context, or for an unknown option.
    Source: Bello, LambdaNetworks: Modeling Long-Range Interactions Without Attention, arXiv 2102.08602;
      Optalysys' articles on lambda layers, which use norm="none" and initializer="uniform".
    """

    heads: int = 1
    k: int = 16
    u: int = 1
    context: int = 3
    length: int = from_model("positions", 512)
    table: str = "relative"
    grid: tuple[int, ...] = from_data("grid", ())
    causal: bool = False
    norm: str = "layer"
    initializer: str = "fan_in"
    method: str = how_computed("auto")
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    has_step: ClassVar[bool] = True  # see `fourier_attn.layers.cache`
    shared: ClassVar[Shared] = TOKENS

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
        b, t, d = x.shape
        self._check(t if cursor is None else cursor.room, d)
        uniform = self.initializer == "uniform"

        def project(name: str, *features: int) -> Array:
            init = _centred if uniform else nn.initializers.lecun_normal()
            dense = nn.DenseGeneral(
                features,
                use_bias=False,
                kernel_init=init,
                dtype=self.dtype,
                dot_general=matrix_dot_general,
                name=name,
            )
            return dense(x)

        def norm(name: str, y: Array) -> Array:
            if self.norm == "none":
                return y
            return nn.LayerNorm(epsilon=1e-5, use_bias=False, dtype=self.dtype, name=name)(y)

        query = norm("query_norm", project("query", self.heads, self.k))
        key = project("key", self.k, self.u)
        value = project("value", d // self.heads, self.u)
        # One axis: over two, the derivative of the norm is more than twice as slow on CPU.
        value = norm("value_norm", value.reshape(b, t, d // self.heads * self.u)).reshape(value.shape)
        taps = self._taps()
        summed = self.length if self.table == "pairs" else math.prod(taps)
        scale = nn.initializers.normal((self.k * summed) ** -0.5)
        init, shape = _centred if uniform else scale, (*taps, self.k, self.u)
        position = self.param("position", init, shape, jnp.float32)
        position = position.astype(self.dtype)
        grid = same_proportions(t, self.grid) if self.grid else None
        if cursor is not None:
            y = self._continue(query, key, value, self.used_taps(position, cursor.room), mask, cursor)
            if cursor.place is not None:
                return y.reshape(b, t, d)
        engine, noise = self.choose_engine(train)
        y = lambda_layer(
            query,
            key,
            value,
            self.used_taps(position, t) if engine is None else None,
            grid=grid,
            causal=self.causal,
            mask=mask,
            method=self.method,
        )
        if engine is not None:
            y = y + optical_position_lambda(
                query, value, position, engine, noise, grid=grid, mask=mask, prefer=self.prefer
            )
        return y.reshape(b, t, d)

    def _continue(
        self,
        query: Array,
        key: Array,
        value: Array,
        position: Array,
        mask: Array | None,
        cursor: Cursor,
    ) -> Array:
        """Updates the kept sums and values, and returns the result (b, 1, h, v) of the last token."""
        value = value.swapaxes(-1, -2)
        query, key = query.astype(value.dtype), key.astype(wide(query, key, value))
        if mask is not None:
            real = mask[:, :, None, None]
            key = jnp.where(real, key, jnp.full((), NEVER, key.dtype))
            value = jnp.where(real, value, jnp.zeros((), value.dtype))
        if cursor.place is None:
            sums = content_sums(key, value)
        else:
            sums = content_sums_step(self.get_variable("cache", "sums"), key, value)
        self.put_variable("cache", "sums", sums)
        window = keep_last(self, "last", value, cursor, mask, len(position))
        return lambda_step(query[:, -1], sums, window, position)[:, None]

    def used_taps(self, position: Array, t: int) -> Array:
        """Returns the part of the table that a sequence of t tokens uses.

        Args:
          position: the table, (taps, k, u).
          t: number of tokens.
        """
        if self.table == "pairs":
            return position[:t, :t]
        return position[-t:] if self.causal else position

    def _taps(self) -> tuple[int, ...]:
        if self.table == "pairs":
            return (self.length, self.length)
        if self.context:
            return (self.context,) * (len(self.grid) or 1)
        if self.causal:
            return (self.length,)
        return tuple(2 * n - 1 for n in self.grid or (self.length,))

    def _check(self, t: int, d: int) -> None:
        if self.heads < 1 or d % self.heads:
            raise ValueError(f"heads={self.heads} must divide d={d}; change one of them")
        if min(self.k, self.u, self.length) < 1:
            raise ValueError(f"k={self.k}, u={self.u} and length={self.length} must be at least 1")
        check_causal(self)
        if self.context < 0 or (self.context % 2 == 0 and self.context and not self.causal):
            raise ValueError(f"context={self.context} must be odd, or 0 for the whole length")
        if not self.context and not self.grid and t > self.length:
            raise ValueError(f"a sequence of {t} positions exceeds length={self.length}; raise length")
        width = d // self.heads * self.u
        if self.norm == "layer" and 1 in (self.k, width):
            raise ValueError(
                f"k={self.k} and d / heads * u = {width} must exceed 1, since norm='layer' makes a single "
                "number zero; use norm='none'"
            )
        self._check_options()

    def _check_options(self) -> None:
        pairs = self.table == "pairs"
        if pairs and (self.context or self.grid or self.causal or self.optical):
            raise ValueError("table='pairs' needs context=0, no grid, causal=False and no engine; set these")
        for field, choices in (("norm", NORMS), ("initializer", INITIALIZERS), ("table", TABLES)):
            check_choice(field, getattr(self, field), choices)


def _centred(key: Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Array:
    """Draws from U(-0.5, 0.5), as the articles do."""
    return jax.random.uniform(key, shape, dtype, -0.5, 0.5)
