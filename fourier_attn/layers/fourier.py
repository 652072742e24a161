"""Fourier mixing as a layer."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fourier_attn.choices import check_choice
from fourier_attn.layers.engine_choice import OnEngine
from fourier_attn.layers.fields import from_data, from_run, how_computed, not_an_option
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.fourier import fourier_mix, fourier_mix_grid
from fourier_attn.ops.patches import same_proportions
from fourier_attn.optics import optical_fourier_mix

OPTIONS = {"norm": ("none", "tokens"), "padding": ("invariant", "own", "zero", "tokens")}


class FourierMixing(OnEngine):
    """FNet's mixing sublayer: y = Re F_tokens(F_features(x)). Its only parameters are engines' ranges.

        >>> layer, x = FourierMixing(), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Args:
      norm: "none" is the published, unnormalised transform; "tokens" divides it by sqrt(n), n the number of
        positions it runs over, so that the size of the output does not grow with the length.
      padding: what a mask does, see Masking. "tokens" is the published transform.
      lengths: of "invariant", rising: each example is transformed at the smallest that holds it, with zeros
        after its tokens. So examples of unlike lengths share their frequencies, which is what a network can
        learn from. A run sets the lengths to which its data are padded. (): the same as "own".
      grid: (rows, cols) of an image, or of one in the same proportions: the transform then runs over rows,
        columns and features; () for a sequence. It has no padding and no mask.
      features: with a grid, whether features are transformed, too.
      method: how the transform is computed, see `fourier_attn.ops.fourier.fourier_mix`; not with a grid.
      engine: a Fourier-optical engine that computes the transform; None is exact. With a mask it
        needs padding="zero" or "tokens". Neighbours in the batch share passes and the converters' scale, so
        that an example's errors depend on its partner; normalised inputs keep partners alike.
      dtype: of the result; in which precision the transform runs is for `method` to say.
    Masking: "invariant" transforms each example over a length that follows from its number of tokens n =
      mask.sum() alone, "own" over exactly n: neither the content nor the amount of padding has an influence
      on real tokens. Padding must follow them. Where all of `lengths` are the padded one, "invariant" costs
      what "zero" does. "zero" sets padded tokens to zero first; the padded length t sets the frequencies.
      "tokens" ignores the mask: padding is tokens like any other, as published. Outputs at padded positions
      mean nothing.
    Raises: ValueError for an unknown norm, padding or method, for more tokens than the last of `lengths`,
      for padding="invariant" or "own" with both an engine and a mask, and for a grid with one of them.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """

    norm: str = "none"
    padding: str = from_run("init_padding", "invariant", {"invariant": "zero"})
    lengths: tuple[int, ...] = from_data("lengths", ())
    grid: tuple[int, ...] = from_data("grid", ())
    features: bool = True
    method: str = how_computed("auto")
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

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
        if mask is not None and self.padding in ("zero", "invariant"):
            x = jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))
        engine, key = self.choose_engine(train)
        lengths, sizes = None, ()
        if self.padding in ("invariant", "own"):  # an engine has no mask then
            x, lengths = self._sized(x, mask)
            sizes = () if self.padding == "own" else tuple(n for n in self.lengths if n <= x.shape[1])
        if engine is None:
            y = fourier_mix(x, lengths=lengths, sizes=sizes, method=self.method)
        else:
            y = optical_fourier_mix(x, engine, key, prefer=self.prefer)
        if self.norm == "tokens":
            n = jnp.full(x.shape[0], x.shape[1]) if lengths is None else jnp.maximum(lengths, 1)
            y = y / jnp.sqrt(n.astype(jnp.float32)).astype(y.dtype)[:, None, None]
        return y[:, :t].astype(self.dtype)

    def _sized(self, x: Array, mask: Array | None) -> tuple[Array, Array | None]:
        """Returns the tokens, padded with zeros where that is needed, and the length of each transform."""
        if not self.lengths or self.padding == "own":
            return x, None if mask is None else mask.sum(-1)
        t, table = x.shape[1], np.asarray(self.lengths)
        longest = int(table[np.searchsorted(table, t)])
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
