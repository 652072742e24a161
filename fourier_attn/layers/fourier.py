"""Fourier mixing as a layer."""

import math

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.ops.fourier import fourier_mix


class FourierMixing(nn.Module):
    """FNet's mixing sublayer: y = Re F_tokens(F_features(x)), without parameters.

    Args:
      norm: "none" is the published, unnormalised transform; "tokens" divides it by sqrt(t), so
        that the size of the output does not grow with the length.
      method: how the transform is computed, see `fourier_attn.ops.fourier.fourier_mix`.
      dtype: of the result; the transform itself runs in float32.
    Masking: padded tokens are set to zero first, so that their content has no influence. The
      padded length t still has: it sets the frequencies. Outputs at padded positions are not zero.
    Raises: ValueError for an unknown norm or method.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """

    norm: str = "none"
    method: str = "auto"
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        if self.norm not in ("none", "tokens"):
            raise ValueError(f"norm={self.norm!r} is unknown; choose 'none' or 'tokens'")
        if mask is not None:
            x = jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))
        y = fourier_mix(x, method=self.method)
        return (y / math.sqrt(x.shape[-2]) if self.norm == "tokens" else y).astype(self.dtype)
