"""Defines long convolution as a layer."""

from functools import partial
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fourier_attn.layers.cache import Cursor, keep_last
from fourier_attn.layers.causality import check_causal
from fourier_attn.layers.engine_choice import OnEngine
from fourier_attn.layers.fields import from_data, from_model, not_an_option
from fourier_attn.layers.padding import zero_padding
from fourier_attn.layers.shared_tokens import FEATURES, Shared
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.long_conv import check, long_convolve
from fourier_attn.ops.patches import same_proportions, scan_order
from fourier_attn.ops.steps import convolve_step


class LongConvolution(OnEngine):
    """Convolves each feature with its own learned filter, which reaches all other tokens (long convolution).

        y[i, j] = sum_k w[k, j] x[i - k, j]

        >>> layer, x = LongConvolution(length=4), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `kernel` (2 length - 1, d), with lag 0 in the middle; (length, d) if causal, from lag 0 on, or
    circular, with lag k in row k mod length. Tap k starts normal with a deviation proportional to
    $1 / (1 + |k|)$, and the variances sum to 1. White noise then keeps its size, near tokens count most, and
    no tap starts so small that its gradient vanishes. The publication uses exponential decays of several
    rates, and shrinks small taps to zero in training.

    Args:
      length: number of tokens of the longest sequence. A shorter sequence uses the taps that reach within it.
        That is the same function if `boundary` is "linear", and another one if it is "circular". A run sets
        it. Default 512.
      boundary: "linear", zero outside the sequence, or "circular". Default "linear".
      causal: lets token i see tokens up to i only, except for rounding errors of the transforms. Default
        False.
      grid: (rows, cols) of an image; tokens of other images must have the same proportions. It is needed for
        `scan` only. Default (), a sequence.
      scan: order of a grid's tokens in a line: "rows", "columns", or "snake", which reverses
        every second row so that neighbours in the line are neighbours in the image. Default "rows".
      engine: optical engine that computes the transforms, see `fourier_attn.optics.through`. Two
        real signals share a pass and its scale. Default None, exact.
      eval_engine: engine of evaluation. Default None, the same as in training.
      prefer: plan for sizes that the engine does not have, "error" or "passes". Default "error".
      dtype: dtype of the result; transforms run in float32. Default float32.
    Masking: padded tokens are set to zero first, so that their content has no influence. With
      boundary="linear" real tokens get the same result as without padding. With "circular" the padded length
      t has an influence. Outputs at padded positions are not zero.
    Raises: ValueError for a longer sequence, an unknown boundary, and causal with "circular", a grid or an
      engine.
    Source: Fu et al., Simple Hardware-Efficient Long Convolutions for Sequence Modeling, arXiv 2302.06646.
    """

    length: int = from_model("positions", 512)
    boundary: str = "linear"
    causal: bool = False
    grid: tuple[int, ...] = from_data("grid", ())
    scan: str = "rows"
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    has_step: ClassVar[bool] = True  # see `fourier_attn.layers.cache`
    shared: ClassVar[Shared] = FEATURES

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
        t, d = x.shape[-2:]
        longest = t if cursor is None else cursor.room
        check(self.boundary, self.causal)
        check_causal(self)
        if longest > self.length:
            raise ValueError(f"a sequence of {longest} tokens exceeds length={self.length}; raise length")
        scale = 1 / (1 + self._distance())
        scale = jnp.asarray(scale / np.sqrt(np.sum(scale**2)), jnp.float32)[:, None]

        def init(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
            return scale.astype(dtype) * nn.initializers.normal(1.0)(key, shape, dtype)

        kernel = self.param("kernel", init, (scale.shape[0], d), jnp.float32)
        x = zero_padding(x, mask)
        x = x.astype(self.dtype)
        if cursor is not None:
            window = keep_last(self, "last", x, cursor, mask, longest)
            if cursor.place is not None:
                return convolve_step(window, kernel[:longest])[:, None]
        order = scan_order(same_proportions(t, self.grid) if self.grid else (1, t), self.scan)
        lined = x if self.scan == "rows" else x[:, order]
        f = partial(long_convolve, boundary=self.boundary, causal=self.causal)
        y = self.on_engine(f, lined, kernel, train=train)
        return y if self.scan == "rows" else y[:, np.argsort(order)]

    def _distance(self) -> np.ndarray:
        """Returns the distance |k| of each row of the kernel."""
        k = np.arange(self.length)
        if self.boundary == "circular":
            return np.minimum(k, self.length - k)
        return k if self.causal else np.abs(np.arange(1 - self.length, self.length))
