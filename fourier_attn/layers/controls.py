"""Control mixers: the identity, and maps between tokens that are learned or random."""

import re
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fourier_attn.choices import check_choice
from fourier_attn.layers.cache import Cursor, keep
from fourier_attn.layers.fields import from_model, from_run, not_an_option
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.ops.steps import mix_step


def _real(x: Array, mask: Array | None) -> Array:
    return x if mask is None else jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))


def _tokens(x: Array, mask: Array | None, padding: str) -> Array:
    """The tokens that are mixed: padding zeroed, or kept as it is."""
    check_choice("padding", padding, ("zero", "tokens"))
    return _real(x, mask if padding == "zero" else None)


def _mix(
    layer: "Linear | Random", x: Array, tokens: Array, features: Array | None, cursor: Cursor | None
) -> Array:
    """y[i] = sum_j T[i, j] (x_j F), j <= i if causal; of T the part for t tokens is used.

    No F is an identity.
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
    return jnp.einsum("ij,bjd->bid", used_rows(tokens, t, layer.causal).astype(x.dtype), x)


def used_rows(tokens: Float[Array, "n n"], t: int, causal: bool) -> Float[Array, "t t"]:
    """Returns the part of T for t tokens; if causal, without the entries T[i, j], j > i.

    >>> used_rows(jnp.ones((3, 3)), 2, causal=True)
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return jnp.tril(tokens[:t, :t]) if causal else tokens[:t, :t]


class Identity(nn.Module):
    """No mixing, y = x: the feed-forward-only control ("FF-only") of the FNet paper.

        >>> layer, x = Identity(), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Masking: tokens do not meet, so padding has no influence on them, and the layer is causal as it is.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """

    causal: bool = not_an_option(True)
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
        return x.astype(self.dtype)


class Linear(nn.Module):
    """Two learned matrices, y = T x F: T mixes tokens, F features ("Linear" of the FNet paper).

    With use_features=False and use_bias=True it is the fully connected layer over tokens, y = T x + b, with a
    vector b[i] for each place. The chapter's W is N2 x N1; here N1 = N2, since a block gives back as many
    tokens as it takes, and shorter inputs use the first t rows and columns.

        >>> layer, x = Linear(length=4), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Parameters: `tokens` (length, length), `features` (d, d), both normal with deviation 0.02; with `use_bias`
    also `bias` (length, d), 0 at the start. A shorter sequence uses the first t rows and columns of T.

    Args:
      length: tokens of the longest sequence.
      use_features: whether there is F; without it the features stay apart.
      use_bias: whether there is b.
      causal: T[i, j] = 0 for j > i, so that token i sees tokens j <= i only.
      padding: "zero", or "tokens", where padding is tokens like any other (as published).
      dtype: of the computation; parameters stay float32.
    Masking: with "zero" padded tokens are set to zero first and have no influence; outputs there are not
      zero. With "tokens" the mask is not used.
    Raises: ValueError for a longer sequence or another padding.
    Source: Lee-Thorpe et al., arXiv 2105.03824; y = T x + b: Torralba, Isola and Freeman, Foundations of
      Computer Vision, the chapter on transformers, eq. 1.4.
    """

    length: int = from_model("positions", 512)
    use_features: bool = True
    use_bias: bool = False
    causal: bool = False
    padding: str = from_run("init_padding", "zero")
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
        init = nn.initializers.normal(0.02)
        tokens = self.param("tokens", init, (self.length, self.length), jnp.float32)
        d = x.shape[-1]
        features = self.param("features", init, (d, d), jnp.float32) if self.use_features else None
        y = _mix(self, _tokens(x, mask, self.padding).astype(self.dtype), tokens, features, cursor)
        if not self.use_bias:
            return y
        bias = self.param("bias", nn.initializers.zeros, (self.length, d), jnp.float32)
        if cursor is not None and cursor.place is not None:
            return y + bias[cursor.place][:, None].astype(self.dtype)
        return y + bias[None, : x.shape[1]].astype(self.dtype)


class Random(nn.Module):
    """Two random matrices that are never trained, y = T x F ("Random" of the FNet paper).

    T (length, length) and F (d, d) are normal, cut at two deviations, with variance 1 / length and 1 / d; a
    shorter sequence uses the first t rows and columns of T, so that its output is smaller. They are no
    parameters: the seed and the number of the block determine them, so that checkpoints need not hold
    them. They are drawn exactly as the paper's code draws them, so that its weights can be used: starting at
    `PRNGKey(seed)`, each block takes `key, mixing = split(key)` and then `key_F, key_T = split(mixing)`.

        >>> layer, x = Random(length=4), jnp.ones((1, 4, 8))
        >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
        (1, 4, 8)

    Args:
      length: tokens of the longest sequence.
      seed: of the matrices, apart from that of the training.
      causal: as for `Linear`.
      block_number: of the block; None: the last one in the layer's path, "block_2" as `Encoder` names it, or
        0 for a layer by itself. Layers with one number and one seed have the same matrices.
      padding: "zero", or "tokens", where padding is tokens like any other (as published).
      dtype: of the computation.
    Masking: as for `Linear`.
    Raises: ValueError for a longer sequence, another padding, a negative seed or number, and in a module
      whose path has no block, without a number.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """

    length: int = from_model("positions", 512)
    seed: int = 0
    causal: bool = False
    padding: str = from_run("init_padding", "zero")
    block_number: int | None = not_an_option(None)
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
        if self.seed < 0 or self.length < 1 or (self.block_number or 0) < 0:
            raise ValueError(
                f"seed={self.seed} and block_number={self.block_number} must not be negative, and "
                f"length={self.length} be at least 1"
            )
        tokens, features = self.matrices(self.block, x.shape[-1])
        return _mix(self, _tokens(x, mask, self.padding).astype(self.dtype), tokens, features, cursor)

    @property
    def block(self) -> int:
        """The number of the block that the layer is in. Raises: ValueError where nothing says it."""
        if self.block_number is not None:
            return self.block_number
        path = "/".join(self.path) if self.scope else ""
        blocks = re.findall(r"block_(\d+)", path)
        if path and not blocks:
            raise ValueError(f"Random at {path!r} is in no block_N, whose matrices it has; give block_number")
        return int(blocks[-1]) if blocks else 0

    def matrices(self, block: int, d: int) -> tuple[Float[Array, "n n"], Float[Array, "d d"]]:
        """T and F of a block; constants of the compiled program."""
        draw = nn.initializers.lecun_normal()
        with jax.ensure_compile_time_eval(), jax.threefry_partitionable(False):
            key = jax.random.PRNGKey(self.seed, impl="threefry2x32")
            for _ in range(block):
                key, _ = jax.random.split(key)
            features, tokens = jax.random.split(jax.random.split(key)[1])
            return draw(tokens, (self.length, self.length)), draw(features, (d, d))
