"""Fourier mixing as a layer."""

import math

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.layers.noise import choose
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.optics import Engine, optical_fourier_mix


class FourierMixing(nn.Module):
    """FNet's mixing sublayer: y = Re F_tokens(F_features(x)), without parameters.

    Args:
      norm: "none" is the published, unnormalised transform; "tokens" divides it by sqrt(t), so
        that the size of the output does not grow with the length.
      method: how the transform is computed, see `fourier_attn.ops.fourier.fourier_mix`.
      engine: a Fourier-optical engine that computes the transform; None is exact.
      eval_engine: the one of evaluation; None is the same as in training.
      dtype: of the result; the transform itself runs in float32.
    Masking: padded tokens are set to zero first, so that their content has no influence. The
      padded length t still has: it sets the frequencies. Outputs at padded positions are not zero.
    Raises: ValueError for an unknown norm or method.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """

    norm: str = "none"
    method: str = "auto"
    engine: Engine | None = None
    eval_engine: Engine | None = None
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        if self.norm not in ("none", "tokens"):
            raise ValueError(f"norm={self.norm!r} is unknown; choose 'none' or 'tokens'")
        if mask is not None:
            x = jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))
        engine, key = choose(self, train)
        y = fourier_mix(x, method=self.method) if engine is None else optical_fourier_mix(x, engine, key)
        return (y / math.sqrt(x.shape[-2]) if self.norm == "tokens" else y).astype(self.dtype)
