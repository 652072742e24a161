"""Defines convolution over tokens with one short filter, as a layer."""

from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.layers.cache import Cursor, keep_last
from fourier_attn.layers.causality import check_causal
from fourier_attn.layers.fields import from_data, not_an_option
from fourier_attn.layers.padding import zero_padding
from fourier_attn.layers.shared_tokens import TOKENS, Shared
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.patches import same_proportions
from fourier_attn.ops.steps import convolve_step
from fourier_attn.ops.token_conv import token_convolve


def _impulse(key: jax.Array, shape: tuple[int, ...], dtype: Any, causal: bool) -> Array:
    """Draws a filter near the identity: 1 at the tap of the token itself, plus small normal numbers."""
    noise = nn.initializers.normal(0.02)(key, shape, dtype)
    return noise.at[tuple(0 if causal else r // 2 for r in shape)].add(1)


class TokenConvolution(nn.Module):
    """Convolves the sequence of tokens with one short learned filter, the same for all features.

        y[i] = sum_{k = -N .. N} w[N + k] x[i - k],     r = 2 N + 1 taps, x is zero outside
        y[i] = sum_{k = 0 .. r - 1} w[k] x[i - k],      causal, any r

        >>> layer, x = TokenConvolution(), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `filter` (taps), or (taps, taps) with a grid. It starts as the identity, 1 at the tap of the
    token itself, plus normal numbers of deviation 0.02. These few numbers are shared by all features, so a
    purely random start could decide what the network sees: a centre near -1 cancels the input that a block
    adds, $y + x$.

    Args:
      taps: number of taps r, odd unless causal. Default 3.
      causal: lets taps reach earlier tokens only. Default False.
      grid: (rows, cols) of an image; tokens of other images must have the same proportions. Default (), a
        sequence.
      dtype: dtype of the computation; parameters stay float32. Default float32.
    Masking: padded tokens are set to zero first, as everything outside the sequence is. Padding therefore has
      no influence.
    Raises: ValueError for an even number of taps unless causal, and for causal with a grid.
    Source: Torralba, Isola and Freeman, Foundations of Computer Vision, the chapter on transformers, eq. 1.6;
      filters that start as an impulse: Xiao et al., Dynamical Isometry and a Mean Field Theory of CNNs, arXiv
      1806.05393.
    """

    taps: int = 3
    causal: bool = False
    grid: tuple[int, ...] = from_data("grid", ())
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
        check_causal(self)
        if self.taps < 1 or (self.taps % 2 == 0 and not self.causal):
            raise ValueError(f"taps={self.taps} must be odd and positive")
        shape = (self.taps,) * (len(self.grid) or 1)
        taps = self.param("filter", _impulse, shape, jnp.float32, self.causal)
        grid = same_proportions(x.shape[-2], self.grid) if self.grid else None
        real = zero_padding(x, mask)
        if cursor is not None:
            window = keep_last(self, "last", real.astype(self.dtype), cursor, mask, self.taps)
            if cursor.place is not None:
                return convolve_step(window, taps)[:, None]
        return token_convolve(real.astype(self.dtype), taps, grid=grid, causal=self.causal)
