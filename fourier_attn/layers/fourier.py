"""Defines Fourier mixing as a layer."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fourier_attn.choices import check_choice
from fourier_attn.layers.engine_choice import OnEngine
from fourier_attn.layers.fields import from_data, from_run, how_computed, not_an_option
from fourier_attn.layers.padding import check_mask, check_trailing, zero_padding
from fourier_attn.layers.shared_tokens import PAIRS, Shared
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.fourier import fourier_mix, fourier_mix_grid
from fourier_attn.ops.patches import same_proportions
from fourier_attn.optics import optical_fourier_mix

OPTIONS = {"norm": ("none", "tokens"), "padding": ("invariant", "own", "zero", "tokens")}


class FourierMixing(OnEngine):
    """Mixes tokens and features by the real part of a two-dimensional Fourier transform (FNet).

        y[i, j] = Re sum_{m < t, n < d} x[m, n] exp(-2 pi sqrt(-1) (i m / t + j n / d))

    The layer has no parameters, except the ranges of a calibrated optical engine.

        >>> layer, x = FourierMixing(), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Args:
      norm: "none" is the published, unnormalised transform; "tokens" divides it by the square root of its
        length in tokens, so that the size of the output does not grow with the length. Default "none".
      padding: effect of a mask, "invariant", "own", "zero" or "tokens", see Masking. "tokens" is the
        published layer. Default "invariant".
      lengths: increasing lengths in tokens, used by "invariant": each example is transformed at the smallest
        one that holds it, with zeros after its tokens. Examples of different lengths then share their
        frequencies. A run sets the padded lengths of its data. Default (), the same as "own".
      grid: (rows, cols) of an image; tokens of other images must have the same proportions. The transform
        then runs over rows, columns and features, without padding and mask. Default (), a sequence.
      features: whether features are transformed, too; False needs a grid. Default True.
      method: how a sequence is transformed, see `fourier_attn.ops.fourier.fourier_mix`. Default "auto".
      engine: optical engine that computes the transform. With a mask it needs padding="zero" or "tokens".
        Two neighbouring examples of a batch share a pass and its scale, so the error of one depends on the
        other. Normalised inputs keep both at similar scales. Default None, exact.
      eval_engine: engine of evaluation. Default None, the same as in training.
      prefer: plan for sizes that the engine does not have, "error" or "passes". Default "error".
      dtype: dtype of the result; transforms run in float32 at least, or as `method` says. Default float32.
    Masking: with "invariant" and "own", the length of each example's transform depends only on its number of
      tokens. Padding then influences real tokens neither by its content nor by its amount. Padding must
      follow the real tokens. With "zero", padded tokens are set to zero first, but the padded length t still
      sets the frequencies. "tokens" ignores the mask: padding is treated as tokens, as published. Outputs at
      padded positions have no meaning. "invariant" costs as much as "zero" if `lengths` has the padded length
      only.
    Raises: ValueError for an unknown norm, padding or method, for more tokens than the last of `lengths`, for
      padding="invariant" or "own" with both an engine and a mask, for a grid with a mask or an engine, and
      outside of compiled programs for padding before real tokens with "invariant" and "own".
    Source: Lee-Thorpe et al., FNet: Mixing Tokens with Fourier Transforms, arXiv 2105.03824.
    """

    norm: str = "none"
    padding: str = from_run("init_padding", "invariant", {"invariant": "zero"})
    lengths: tuple[int, ...] = from_data("lengths", ())
    grid: tuple[int, ...] = from_data("grid", ())
    features: bool = True
    method: str = how_computed("auto")
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    shared: ClassVar[Shared] = PAIRS

    @nn.compact
    @takes_arrays
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        t = x.shape[1]
        self._check(t, mask is not None)
        if x.dtype == jnp.float16:  # which ends before the sums do that the norm divides
            x = x.astype(jnp.float32)
        if self.grid:
            y = fourier_mix_grid(x, same_proportions(t, self.grid), features=self.features)
            return (y / t**0.5 if self.norm == "tokens" else y).astype(self.dtype)
        if self.padding in ("zero", "invariant"):
            x = zero_padding(x, mask)
        engine, key = self.choose_engine(train)
        lengths = None
        known_lengths = ()
        if self.padding in ("invariant", "own"):  # an engine has no mask then
            x, lengths = self._sized(x, mask)
            known_lengths = () if self.padding == "own" else tuple(n for n in self.lengths if n <= x.shape[1])
        if engine is None:
            y = fourier_mix(x, lengths=lengths, sizes=known_lengths, method=self.method)
        else:
            y = optical_fourier_mix(x, engine, key, prefer=self.prefer)
        if self.norm == "tokens":
            n = jnp.full(x.shape[0], x.shape[1]) if lengths is None else jnp.maximum(lengths, 1)
            y = y / jnp.sqrt(n.astype(jnp.float32)).astype(y.dtype)[:, None, None]
        return y[:, :t].astype(self.dtype)

    def _sized(self, x: Array, mask: Array | None) -> tuple[Array, Array | None]:
        """Returns the tokens, padded with zeros where that is needed, and the length of each transform."""
        if mask is not None:
            check_mask(x, mask)
            check_trailing(mask, "let padding follow the real tokens, or use padding='zero'")
        if not self.lengths or self.padding == "own":
            return x, None if mask is None else mask.sum(-1)
        t, table = x.shape[1], np.asarray(self.lengths)
        longest = min(n for n in self.lengths if n >= t)
        x = jnp.pad(x, ((0, 0), (0, longest - t), (0, 0)))
        if mask is None:
            return x, None
        return x, jnp.asarray(table)[jnp.searchsorted(jnp.asarray(table), mask.sum(-1))]

    def _check(self, t: int, masked: bool) -> None:
        for field, choices in OPTIONS.items():
            check_choice(field, getattr(self, field), choices)
        if list(self.lengths) != sorted(set(self.lengths)) or min(self.lengths, default=1) < 1:
            raise ValueError(f"lengths={self.lengths} must be positive and rise")
        if self.padding == "invariant" and self.lengths and t > self.lengths[-1]:
            raise ValueError(
                f"a sequence of {t} tokens exceeds the last of lengths={self.lengths}; add a longer one"
            )
        if self.grid and (masked or self.optical):
            raise ValueError(f"grid={tuple(self.grid)} goes with no mask and no engine; use grid=()")
        if not (self.grid or self.features):
            raise ValueError("features=False needs a grid; set it, or leave features as they are")
        if masked and self.optical and self.padding in ("invariant", "own"):
            raise ValueError(
                f"padding={self.padding!r} has no optical form with a mask; use 'zero' or 'tokens'"
            )
