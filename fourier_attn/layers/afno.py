"""Defines the layer of the adaptive Fourier neural operator."""

from functools import partial
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.layers.engine_choice import OnEngine
from fourier_attn.layers.fields import from_data, not_an_option
from fourier_attn.layers.padding import zero_padding
from fourier_attn.layers.shared_tokens import BLOCKS, Shared
from fourier_attn.ops.afno import spectral_mlp
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.patches import same_proportions


class AFNO(OnEngine):
    """Applies one small complex network to the features of every frequency (AFNO).

        y = irfft(shrink(W_2 relu(W_1 rfft(x) + b_1) + b_2)) + x

    The transforms run over tokens and are orthonormal. `+ x` belongs to the published layer. A block adds the
    layer's input once more. Nothing depends on the number of tokens.

        >>> layer, x = AFNO(blocks=2), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `in_kernel` (n, p, h, 2), `in_bias` (n, h, 2), `out_kernel` (n, h, p, 2) and `out_bias` (n, p,
    2), with n = `blocks`, $p = d / n$ and h = `hidden` p. The last axis holds real and imaginary parts.
    Kernels start normal with $E |W|^2 = 1 / inputs$, biases zero. The published code starts all of them with
    deviation 0.02. In narrow blocks nearly everything that two such layers let through is below the
    threshold, where the derivative is zero.

    Args:
      blocks: number n of blocks of features, which must divide d. Default 8.
      hidden: hidden features of the network for each feature of a block. Default 1.
      threshold: `shrink` moves real and imaginary parts towards zero by this amount. Default 0.01.
      modes: share in (0, 1] of the frequencies that are kept on each axis, lowest first. Default 1.0.
      grid: (rows, cols) of an image; tokens of other images must have the same proportions. Default (), a
        sequence.
      engine: optical engine that computes the transforms, see `fourier_attn.optics.through`. Two
        real signals share a pass and its scale. Default None, exact.
      eval_engine: engine of evaluation. Default None, the same as in training.
      prefer: plan for sizes that the engine does not have, "error" or "passes". Default "error".
      dtype: dtype of the result; transforms and products run in float32. Default float32.
    Masking: padded tokens are set to zero first, so that their content has no influence. The padded length t
      has an influence, because it sets the frequencies. Outputs at padded positions are not zero.
    Raises: ValueError if blocks does not divide d, or if another field is out of range.
    Source: Guibas et al., Adaptive Fourier Neural Operators, arXiv 2111.13587.
    """

    blocks: int = 8
    hidden: int = 1
    threshold: float = 0.01
    modes: float = 1.0
    grid: tuple[int, ...] = from_data("grid", ())
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    shared: ClassVar[Shared] = BLOCKS

    @nn.compact
    @takes_arrays
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        d, n = x.shape[-1], self.blocks
        if n < 1 or d % n:
            raise ValueError(f"blocks={n} must divide d={d}; change one of them")
        if self.hidden < 1:
            raise ValueError(f"hidden={self.hidden} must be at least 1")
        p, h = d // n, d // n * self.hidden

        def dense(name: str, inputs: int, outputs: int) -> tuple[Array, Array]:
            init = nn.initializers.normal((2 * inputs) ** -0.5)
            bias = self.param(f"{name}_bias", nn.initializers.zeros, (n, outputs, 2), jnp.float32)
            return self.param(f"{name}_kernel", init, (n, inputs, outputs, 2), jnp.float32), bias

        kernels, biases = zip(dense("in", p, h), dense("out", h, p), strict=True)
        x = zero_padding(x, mask)
        f = partial(
            spectral_mlp,
            threshold=self.threshold,
            modes=self.modes,
            grid=same_proportions(x.shape[-2], self.grid) if self.grid else None,
        )
        return self.on_engine(f, x.astype(self.dtype), kernels, biases, train=train)
