"""Defines control mixers: the identity, and maps between tokens that are learned or random."""

import re
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.choices import check_choice
from fourier_attn.layers.cache import Cursor, keep
from fourier_attn.layers.fields import from_model, from_run, not_an_option
from fourier_attn.layers.padding import zero_padding
from fourier_attn.layers.shared_tokens import MIXED_FEATURES, TOKENS, Shared
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.ops.steps import mix_step
from fourier_attn.ops.token_shares import exchange, give_back, shares


def _tokens(x: Array, mask: Array | None, padding: str) -> Array:
    """Sets padded tokens to zero, unless `padding` is "tokens"."""
    check_choice("padding", padding, ("zero", "tokens"))
    return zero_padding(x, mask if padding == "zero" else None)


def _mix(layer: Any, x: Array, tokens: Array, features: Array | None, cursor: Cursor | None = None) -> Array:
    """Computes $y[i] = sum_j T[i, j] (x_j F)$, over $j <= i$ if causal.

    Args:
      layer: the layer that keeps earlier tokens; its field `causal` counts.
      x: the tokens (b, t, d).
      tokens: T (length, length); its first t rows and columns are used.
      features: F (d, d); None leaves the features as they are.
      cursor: position in a text that is continued, see `fourier_attn.layers.cache`.
    """
    t, length = x.shape[-2] if cursor is None else cursor.room, len(tokens)
    if t > length:
        raise ValueError(f"a sequence of {t} tokens exceeds length={length}; raise length")
    if features is not None:
        x = matrix_dot_general(x, features.astype(x.dtype), (((x.ndim - 1,), (0,)), ((), ())))
    if cursor is not None:
        kept = keep(layer, "tokens", x, cursor)
        if cursor.place is not None:
            return mix_step(tokens, kept, cursor.place)[:, None]
        t = x.shape[-2]
    rows = used_rows(tokens, t, layer.causal).astype(x.dtype)
    if shares() != 1:
        return give_back(jnp.einsum("ij,bjd->bid", rows, exchange(x)))
    return jnp.einsum("ij,bjd->bid", rows, x)


def used_rows(tokens: Float[Array, "n n"], t: int, causal: bool) -> Float[Array, "t t"]:
    """Returns the part of T for t tokens, without the entries $T[i, j]$, $j > i$, if causal.

        >>> used_rows(jnp.ones((3, 3)), 2, causal=True)
        Array([[1., 0.],
               [1., 1.]], dtype=float32)

    Args:
      tokens: T, (n, n).
      t: number of tokens, at most n.
      causal: whether later tokens are left out.
    """
    return jnp.tril(tokens[:t, :t]) if causal else tokens[:t, :t]


class Identity(nn.Module):
    """Returns its input, $y = x$: the control without any mixing ("FF-only" in the FNet paper).

        y = x

        >>> layer, x = Identity(), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Args:
      causal: always True, because tokens do not meet. It is not an option.
      dtype: dtype of the result. Default float32.
    Masking: tokens do not meet, so padding has no influence on them.
    Source: Lee-Thorpe et al., FNet: Mixing Tokens with Fourier Transforms, arXiv 2105.03824.
    """

    causal: bool = not_an_option(True)
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
        return x.astype(self.dtype)


class Linear(nn.Module):
    """Multiplies by two learned matrices, one over tokens and one over features ("Linear" in the FNet paper).

        y = T x F

    With use_features=False and use_bias=True it is the fully connected layer over tokens, $y = T x + b$, with
    a vector $b[i]$ for each position. The chapter's W is N2 x N1; here $N1 = N2$, because a block returns as
    many tokens as it gets.

        >>> layer, x = Linear(length=4), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `tokens` (length, length) and `features` (d, d), both normal with deviation 0.02. `use_bias`
    adds `bias` (length, d), zero at the start. A shorter sequence uses the first t rows and columns of
    `tokens`.

    Args:
      length: number of tokens of the longest sequence. A run sets it. Default 512.
      use_features: whether there is a matrix F. Default True.
      use_bias: whether there is a bias b. Default False.
      causal: sets $T[i, j] = 0$ for $j > i$, so that token i sees tokens $j <= i$ only. Default False.
      padding: "zero", or "tokens", which treats padding as tokens, as published. Default "zero".
      dtype: dtype of the computation; parameters stay float32. Default float32.
    Masking: with padding="zero" padded tokens are set to zero first and have no influence. Outputs at padded
      positions are not zero. With "tokens" the mask is ignored.
    Raises: ValueError for a longer sequence or another padding.
    Source: Lee-Thorpe et al., FNet: Mixing Tokens with Fourier Transforms, arXiv 2105.03824; $y = T x + b$:
      Torralba, Isola and Freeman, Foundations of Computer Vision, the chapter on transformers, eq. 1.4.
    """

    length: int = from_model("positions", 512)
    use_features: bool = True
    use_bias: bool = False
    causal: bool = False
    padding: str = from_run("init_padding", "zero")
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    has_step: ClassVar[bool] = True  # see `fourier_attn.layers.cache`
    shared: ClassVar[Shared] = MIXED_FEATURES

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
        init = nn.initializers.normal(0.02)
        tokens = self.param("tokens", init, (self.length, self.length), jnp.float32)
        d = x.shape[-1]
        features = self.param("features", init, (d, d), jnp.float32) if self.use_features else None
        y = _mix(self, _tokens(x, mask, self.padding).astype(self.dtype), tokens, features, cursor=cursor)
        if not self.use_bias:
            return y
        bias = self.param("bias", nn.initializers.zeros, (self.length, d), jnp.float32)
        if cursor is not None and cursor.place is not None:
            return y + bias[cursor.place][:, None].astype(self.dtype)
        return y + bias[None, : x.shape[1]].astype(self.dtype)


class Random(nn.Module):
    """Multiplies by two random matrices that are never trained ("Random" in the FNet paper).

        y = T x F

    T (length, length) and F (d, d) are normal, cut at two deviations, with variances $1 / length$ and
    $1 / d$. A shorter sequence uses the first t rows and columns of T, so its output is smaller. The matrices
    are not parameters: seed and block number determine them, so checkpoints do not store them. They are drawn
    exactly as the paper's code draws them, so that published weights can be used: starting at
    `PRNGKey(seed)`, each block takes `key, mixing = split(key)` and then `key_F, key_T = split(mixing)`.

        >>> layer, x = Random(length=4), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Args:
      length: number of tokens of the longest sequence. A run sets it. Default 512.
      seed: seed of the matrices, independent of the training seed. Default 0.
      causal: sets $T[i, j] = 0$ for $j > i$, so that token i sees tokens $j <= i$ only. Default False.
      block_number: number of the block. Default None: read from the layer's path ("block_2"), or 0 for a
        layer outside of a network. Layers with the same number and seed have the same matrices.
      padding: "zero", or "tokens", which treats padding as tokens, as published. Default "zero".
      dtype: dtype of the computation. Default float32.
    Masking: with padding="zero" padded tokens are set to zero first and have no influence. Outputs at padded
      positions are not zero. With "tokens" the mask is ignored.
    Raises: ValueError for a longer sequence, another padding, a negative seed or number, and in a module
      without a block in its path if no number is given.
    Source: Lee-Thorpe et al., FNet: Mixing Tokens with Fourier Transforms, arXiv 2105.03824.
    """

    length: int = from_model("positions", 512)
    seed: int = 0
    causal: bool = False
    padding: str = from_run("init_padding", "zero")
    block_number: int | None = not_an_option(None)
    dtype: jnp.dtype = not_an_option(jnp.dtype("float32"))

    has_step: ClassVar[bool] = True  # see `fourier_attn.layers.cache`
    shared: ClassVar[Shared] = MIXED_FEATURES

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
        if self.seed < 0 or self.length < 1 or (self.block_number or 0) < 0:
            raise ValueError(
                f"seed={self.seed} and block_number={self.block_number} must not be negative, and "
                f"length={self.length} be at least 1"
            )
        tokens, features = self.matrices(self.block, x.shape[-1])
        return _mix(self, _tokens(x, mask, self.padding).astype(self.dtype), tokens, features, cursor=cursor)

    @property
    def block(self) -> int:
        """Returns the number of the block that the layer is in.

        Raises: ValueError if neither `block_number` nor the path has one.
        """
        if self.block_number is not None:
            return self.block_number
        path = "/".join(self.path) if self.scope else ""
        blocks = re.findall(r"block_(\d+)", path)
        if path and not blocks:
            raise ValueError(f"Random at {path!r} is in no block_N, whose matrices it has; give block_number")
        return int(blocks[-1]) if blocks else 0

    def matrices(self, block: int, d: int) -> tuple[Float[Array, "n n"], Float[Array, "d d"]]:
        """Returns T (length, length) and F (d, d) of a block, as constants of the compiled program.

        Args:
          block: number of the block.
          d: model width.
        """
        draw = nn.initializers.lecun_normal()
        with jax.ensure_compile_time_eval(), jax.threefry_partitionable(False):
            key = jax.random.PRNGKey(self.seed, impl="threefry2x32")
            for _ in range(block):
                key, _ = jax.random.split(key)
            features, tokens = jax.random.split(jax.random.split(key)[1])
            return draw(tokens, (self.length, self.length)), draw(features, (d, d))
