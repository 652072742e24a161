"""Long convolution as a layer."""

from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fourier_attn.layers.cache import Cursor, keep_last
from fourier_attn.layers.causality import check_causal
from fourier_attn.layers.fields import from_data, from_model, not_an_option
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.long_conv import check, long_convolve
from fourier_attn.ops.patches import same_proportions, scan_order
from fourier_attn.ops.steps import convolve_step


class LongConvolution(nn.Module):
    """One learned filter for each feature, as long as the sequence: y[i] = sum_k w[k] x[i - k].

        >>> layer, x = LongConvolution(length=4), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `kernel` (2 length - 1, d), two-sided; (length, d) if causal or circular; the order of its
    taps is that of `fourier_attn.ops.long_conv.long_convolve`. Tap k is normal with a deviation
    proportional to 1 / (1 + |k|), and variances that sum to 1: white noise keeps its size, near
    tokens count most, and no tap starts so small that a gradient through it vanishes. (The publication has
    exponential decays of several rates, and shrinks small taps to zero in training.)

    Args:
      length: tokens of the longest sequence. A shorter one uses the taps that reach within it, which for
        "linear" is the same function, and for "circular" another one, since it wraps at t.
      boundary: "linear", nothing outside the sequence; or "circular".
      causal: token i sees tokens up to i only, but for the rounding of transforms.
      grid: (rows, cols) of an image, or of one in the same proportions; () for a sequence. Without it the
        order is that in which tokens come, which is row by row.
      scan: with a grid, how tokens are lined up: "rows", "columns", or "snake", rows to and fro, so that
        neighbours in the line are neighbours in the image.
      dtype: of the result; transforms run in float32.
    Masking: padded tokens are set to zero first, so that their content has no influence. Real tokens before
      "linear" padding get what they get without it, whatever the padded length t; for "circular" t has
      an influence. Outputs at padded positions are not zero.
    Raises: ValueError for a longer sequence, an unknown boundary, and causal with "circular" or a grid.
    Source: Fu et al., Simple Hardware-Efficient Long Convolutions for Sequence Modeling, arXiv 2302.06646.
    """

    length: int = from_model("positions", 512)
    boundary: str = "linear"
    causal: bool = False
    grid: tuple[int, ...] = from_data("grid", ())
    scan: str = "rows"
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    has_step: ClassVar[bool] = True  # see `fourier_attn.layers.cache`

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
        if mask is not None:
            x = jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))
        x = x.astype(self.dtype)
        if cursor is not None:
            window = keep_last(self, "last", x, cursor, mask, longest)
            if cursor.place is not None:
                return convolve_step(window, kernel[:longest])[:, None]
        order = scan_order(same_proportions(t, self.grid) if self.grid else (1, t), self.scan)
        lined = x if self.scan == "rows" else x[:, order]
        y = long_convolve(lined, kernel, boundary=self.boundary, causal=self.causal)
        return y if self.scan == "rows" else y[:, np.argsort(order)]

    def _distance(self) -> np.ndarray:
        """|k| of each row of the kernel."""
        k = np.arange(self.length)
        if self.boundary == "circular":
            return np.minimum(k, self.length - k)
        return k if self.causal else np.abs(np.arange(1 - self.length, self.length))
