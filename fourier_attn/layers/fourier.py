"""Fourier mixing as a layer."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.layers.noise import choose
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.optics import Engine, optical_fourier_mix

OPTIONS = {"norm": ("none", "tokens"), "padding": ("invariant", "zero", "tokens")}


class FourierMixing(nn.Module):
    """FNet's mixing sublayer: y = Re F_tokens(F_features(x)), without parameters.

    Args:
      norm: "none" is the published, unnormalised transform; "tokens" divides it by sqrt(t), so
        that the size of the output does not grow with the length.
      padding: what a mask does, see Masking. "tokens" is the published transform; "invariant" is not.
      method: how the transform is computed, see `fourier_attn.ops.fourier.fourier_mix`.
      engine: a Fourier-optical engine that computes the transform; None is exact. With a mask it
        needs padding="zero" or "tokens".
      eval_engine: the one of evaluation; None is the same as in training.
      dtype: of the result; in which precision the transform runs is for `method` to say.
    Masking: "invariant" transforms each example over its own n = mask.sum() tokens: neither the content
      nor the amount of padding has an influence. Padding must follow the real tokens; outputs at padded
      positions are zero, and norm="tokens" divides by sqrt(n). "zero" sets padded tokens to zero first;
      the padded length t still sets the frequencies, and outputs at padded positions are not zero.
      "tokens" ignores the mask: padding is tokens like any other, as published.
    Raises: ValueError for an unknown norm, padding or method, and for padding="invariant" with both an
      engine and a mask.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """

    norm: str = "none"
    padding: str = "invariant"
    method: str = "auto"
    engine: Engine | None = None
    eval_engine: Engine | None = None
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        self._check(mask is not None)
        lengths = mask.sum(-1) if mask is not None and self.padding == "invariant" else None
        if mask is not None and self.padding == "zero":
            x = jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))
        engine, key = choose(self, train)
        if engine is None:
            y = fourier_mix(x, lengths=lengths, method=self.method)
        else:
            y = optical_fourier_mix(x, engine, key)
        if self.norm == "tokens":
            n = jnp.full(x.shape[0], x.shape[1]) if lengths is None else jnp.maximum(lengths, 1)
            y = y / jnp.sqrt(n.astype(jnp.float32)).astype(y.dtype)[:, None, None]
        return y.astype(self.dtype)

    def _check(self, masked: bool) -> None:
        for field, choices in OPTIONS.items():
            if getattr(self, field) not in choices:
                names = ", ".join(map(repr, choices))
                raise ValueError(f"{field}={getattr(self, field)!r} is unknown; choose one of {names}")
        optical = self.engine is not None or self.eval_engine is not None
        if masked and optical and self.padding == "invariant":
            raise ValueError("padding='invariant' has no optical form with a mask; use 'zero' or 'tokens'")
