"""Defines the global filter as a layer."""

from functools import partial
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.layers.engine_choice import OnEngine
from fourier_attn.layers.fields import from_data, from_model, not_an_option
from fourier_attn.layers.padding import zero_padding
from fourier_attn.layers.shared_tokens import FEATURES, Shared
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.global_filter import bins, global_filter, resample_filter
from fourier_attn.ops.patches import same_proportions


class GlobalFilter(OnEngine):
    """Multiplies the spectrum of each feature by a learned transfer function (GFNet).

        y[:, j] = irfft(W[:, j] rfft(x[:, j]))         over tokens, for each feature j

        >>> layer, x = GlobalFilter(length=4), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `filter` (length // 2 + 1, d, 2), or (rows, cols // 2 + 1, d, 2) with a grid. The last axis
    holds real and imaginary parts. They start normal with deviation 0.02, as published. The result is real,
    so a few of them have no effect: the imaginary parts of bin 0 and, for even lengths, of the last bin.

    Args:
      length: number of tokens that the filter is stored for. For other numbers of tokens its spectrum is
        interpolated over frequency, which is approximate. A run sets it. Default 512.
      grid: (rows, cols) of the image that the filter is stored for. For images of the same proportions its
        spectrum is interpolated. Default (), a sequence.
      engine: optical engine that computes the transforms, see `fourier_attn.optics.through`. Two
        real signals share a pass and its scale. Default None, exact.
      eval_engine: engine of evaluation. Default None, the same as in training.
      prefer: plan for sizes that the engine does not have, "error" or "passes". Default "error".
      dtype: dtype of the result; transforms run in float32. Default float32.
    Masking: padded tokens are set to zero first, so that their content has no influence. The padded length t
      has an influence, because the convolution wraps around at t. Outputs at padded positions are not zero.
    Raises: ValueError for a grid that the tokens do not fill, and for length or grid below 1.
    Source: Rao et al., Global Filter Networks for Image Classification, arXiv 2107.00645.
    """

    length: int = from_model("positions", 512)
    grid: tuple[int, ...] = from_data("grid", ())
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    shared: ClassVar[Shared] = FEATURES

    @nn.compact
    @takes_arrays
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        stored = tuple(self.grid) or (self.length,)
        if min(stored) < 1:
            raise ValueError(f"length={self.length} and grid={self.grid} must be at least 1")
        shape = (*bins(stored), x.shape[-1], 2)
        filter = self.param("filter", nn.initializers.normal(0.02), shape, jnp.float32)
        x = zero_padding(x, mask)
        t = x.shape[-2]
        there = same_proportions(t, stored) if self.grid else (t,)
        filter = resample_filter(filter, stored, there)
        f = partial(global_filter, grid=there if self.grid else None)
        return self.on_engine(f, x.astype(self.dtype), filter, train=train)
