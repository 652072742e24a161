"""Turns token ids or images into vectors, with their positions."""

import contextlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, UInt8

from fourier_attn.choices import check_choice
from fourier_attn.layers import initializers
from fourier_attn.ops import positions as codes
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.ops.patches import grid_of_patches, patches, same_proportions

CODES = {"sinusoidal": codes.sinusoids, "sines": codes.sines}
APPENDED = "_appended"
POSITIONS = ("learned", *CODES, *(name + APPENDED for name in CODES), "rotary", "none")


@takes_arrays
def with_positions(
    x: Float[Array, "b t e"],
    kind: str,
    width: int,
    where: Num[np.ndarray, "n a"],
    table: Callable[[], Array],
    place: Int[Array, " b"] | None = None,
) -> Float[Array, "b t f"]:
    """Returns the vectors with codes of their positions.

    Args:
      x: the vectors, (b, t, e).
      kind: "learned" adds a table, "sinusoidal" adds sines and cosines, "sines" adds the chapter's sines;
        "sinusoidal_appended" and "sines_appended" append them (the chapter); "rotary", which is attention's
        own affair, and "none" do nothing.
      width: number of features of appended codes.
      where: positions (n, axes), see `fourier_attn.ops.positions.places`.
      table: makes the learned table for these positions.
      place: number of the position of the only token of each example, (b). Default None: x has all tokens.
    Raises: ValueError for another kind.
    """
    check_choice("positions_kind", kind, POSITIONS)

    def rows(codes: Array) -> Array:
        return codes[None] if place is None else codes[place][:, None]

    if kind == "learned":
        return x + rows(table()).astype(x.dtype)
    if code := CODES.get(kind):
        return x + rows(jnp.asarray(code(where, x.shape[-1]), x.dtype))
    if code := CODES.get(kind.removesuffix(APPENDED)):
        appended = rows(jnp.asarray(code(where, width), x.dtype))
        return jnp.concatenate([x, jnp.broadcast_to(appended, (x.shape[0], *appended.shape[1:]))], axis=-1)
    return x


def content_width(whole: int, kind: str, width: int) -> int:
    """Returns the number of features that appended codes leave.

        >>> content_width(32, "sines_appended", 8), content_width(32, "learned", 8)
        (24, 32)

    Args:
      whole: width of the tables.
      kind: kind of positions.
      width: number of features of appended codes.
    """
    left = whole - width * kind.endswith(APPENDED)
    if left < 1:
        raise ValueError(
            f"model.position_width={width} leaves nothing of a width of {whole}; make it smaller"
        )
    return left


class TokenEmbedding(nn.Module):
    """Maps token ids, their positions and types to vectors of width d.

        e_i = W[token_i] + P[i] (+ S[type_i])
        x_i = e_i                       emb = 0: the tables have width d (the articles)
        x_i = LN(e_i) A + a             emb > 0: they have width emb (BERT, FNet)

        >>> layer, tokens = TokenEmbedding(vocab=10, positions=6, d=8), jnp.zeros((1, 4), jnp.int32)
        >>> layer.apply(layer.init(jax.random.key(0), tokens), tokens)[0].shape
        (1, 4, 8)

    Parameters: `tokens/embedding` (vocab, e), `positions` (positions, e), `types/embedding` (types, e),
    normal with deviation 0.02, or 1 with initializer="torch"; with `emb` also `embedding_norm/scale`, `/bias`
    (e) and `projection/kernel` (e, d), `/bias` (d).

    Args:
      vocab, positions, types: rows of the tables; with types=0 types are not used.
      d, emb: widths of the model and of the tables.
      positions_kind, position_width: see `with_positions`; only "learned" has a table P.
      norm_eps: added to the variance in the normalisation.
      initializer: see `fourier_attn.layers.initializers`.
      token_dropout: rate at which whole tokens are zeroed in training, before positions are added.
      dtype: of the computation; parameters are float32.
      place: the position of each example's only token; None: tokens are at positions 0 to t - 1.
    Returns: the vectors, and the table of tokens, to which a language model's head is tied.
    Raises: ValueError for a sequence longer than `positions`.
    """

    vocab: int
    positions: int
    d: int
    types: int = 0
    emb: int = 0
    positions_kind: str = "learned"
    position_width: int = 16
    norm_eps: float = 1e-5
    token_dropout: float = 0.0
    initializer: str = "fan_in"
    dtype: jnp.dtype = jnp.dtype("float32")

    axes: ClassVar[int] = 1  # of the inputs of one example

    @staticmethod
    def example(config: Any) -> jax.ShapeDtypeStruct:
        """Returns shape and dtype of the inputs of a batch of one.

        Args:
          config: the part `model` of the configuration.
        """
        return jax.ShapeDtypeStruct((1, 1), jnp.int32)

    @nn.compact
    @takes_arrays
    def __call__(
        self,
        tokens: Int[Array, "b t"],
        *,
        types: Int[Array, "b t"] | None = None,
        train: bool = False,
        place: Int[Array, " b"] | None = None,
    ) -> tuple[Float[Array, "b t d"], Float[Array, "vocab e"]]:
        t, e = tokens.shape[-1] if place is None else self.positions, self.emb or self.d
        if t > self.positions:
            raise ValueError(
                f"a sequence of {t} tokens exceeds positions={self.positions}; shorten it "
                "(data.length) or raise positions (model.positions)"
            )
        init, kind = initializers.table(self.initializer), self.positions_kind
        content = content_width(e, kind, self.position_width)
        embed = partial(nn.Embed, embedding_init=init, dtype=self.dtype)
        words = embed(self.vocab, content, name="tokens")
        drop = nn.Dropout(
            self.token_dropout, broadcast_dims=(2,), deterministic=not train, name="drop_tokens"
        )

        def table() -> Array:
            return self.param("positions", init, (self.positions, e), jnp.float32)[:t]

        x = with_positions(drop(words(tokens)), kind, self.position_width, codes.places(t), table, place)
        if self.types:
            x = x + embed(self.types, e, name="types")(jnp.zeros_like(tokens) if types is None else types)
        if self.emb:
            norm = partial(nn.LayerNorm, epsilon=self.norm_eps, use_fast_variance=False, dtype=self.dtype)
            dense = partial(nn.Dense, dtype=self.dtype, dot_general=matrix_dot_general)
            begin = initializers.dense(self.initializer, e)
            x = dense(self.d, name="projection", **begin)(norm(name="embedding_norm")(x))
        return x, words.embedding


def check_proportions(grid: tuple[int, int], stored: tuple[int, int]) -> None:
    """Checks that mixers, which see only the number of patches, would not assume another grid.

        >>> check_proportions((8, 8), (4, 4))  # twice as large; (2, 8) would be taken for (4, 4)

    Args:
      grid: (rows, cols) of the patches.
      stored: (rows, cols) that the network was made for.
    Raises: ValueError for as many patches as an image of the stored proportions has, in other ones.
    """
    taken = grid
    with contextlib.suppress(ValueError):
        taken = same_proportions(math.prod(grid), stored)
    if taken != grid:
        raise ValueError(
            f"{grid[0]} x {grid[1]} patches would be taken for {taken[0]} x {taken[1]}, since the network "
            f"was made for {stored[0]} x {stored[1]}; use images of these proportions"
        )


class PatchEmbedding(nn.Module):
    """Maps an image to the vectors of its patches, with their positions, by one product.

        x_t = vec(patch_t((pixels / 255 - mean) / deviation)) W + b (+ P[t])

    Equal to a convolution with stride. With `class_token` a learned vector precedes the patches.

        >>> layer, images = PatchEmbedding(d=8, image=(8, 8, 3), patch=4), jnp.zeros((1, 8, 8, 3), jnp.uint8)
        >>> layer.apply(layer.init(jax.random.key(0), images), images)[0].shape
        (1, 4, 8)

    Parameters: `patches/kernel` (k, k, c, d), `patches/bias` (d), `positions` (t, d), and with `class_token`
    `class_token` (d), and a row of `positions` more; the tables are normal with deviation 0.02.

    Args:
      d: model width, including appended codes.
      image: rows, columns and channels c that the table of positions is for. An image of another resolution
        has it interpolated, linearly.
      patch, stride, pad_image: see `fourier_attn.ops.patches.grid_of_patches`.
      pixel_mean, pixel_deviation: of each channel, as shares of 255; (): 0 and 1.
      class_token: whether there is one.
      positions_kind, position_width: see `with_positions`.
      token_dropout: rate at which whole patches are zeroed in training, before positions are added.
      initializer: see `fourier_attn.layers.initializers.dense`. Default "fan_in".
      dtype: of the computation; parameters are float32.
    Returns: the vectors, and None in place of a table of tokens.
    Raises: ValueError for an image that patches do not divide, with other channels, or see
      `check_proportions`.
    Source: Dosovitskiy et al., arXiv 2010.11929; the chapter's 1.3.3.
    """

    d: int
    image: tuple[int, ...]
    patch: int = 4
    stride: int = 0
    pad_image: bool = False
    pixel_mean: tuple[float, ...] = ()
    pixel_deviation: tuple[float, ...] = ()
    class_token: bool = False
    positions_kind: str = "learned"
    position_width: int = 16
    token_dropout: float = 0.0
    initializer: str = "fan_in"
    dtype: jnp.dtype = jnp.dtype("float32")

    axes: ClassVar[int] = 3

    @staticmethod
    def example(config: Any) -> jax.ShapeDtypeStruct:
        """Returns shape and dtype of the inputs of a batch of one.

        Args:
          config: the part `model` of the configuration.
        """
        return jax.ShapeDtypeStruct((1, *config["image"]), jnp.uint8)

    @staticmethod
    def grid(config: Any) -> tuple[int, int]:
        """Returns rows and columns of the patches.

        Args:
          config: the part `model` of the configuration.
        """
        return grid_of_patches(tuple(config["image"]), config["patch"], config["stride"], config["pad_image"])

    @nn.compact
    @takes_arrays
    def __call__(
        self, pixels: UInt8[Array, "b i j c"], *, types: None = None, train: bool = False
    ) -> tuple[Float[Array, "b t d"], None]:
        b, *size, c = pixels.shape
        if c != self.image[2]:
            raise ValueError(f"an image has {c} channels, and the network takes {self.image[2]}; convert it")
        cutting = (self.patch, self.stride, self.pad_image)
        stored, grid = (grid_of_patches(tuple(image), *cutting) for image in (self.image, size))
        check_proportions(grid, stored)
        kind, init = self.positions_kind, initializers.table(self.initializer)
        dense = nn.DenseGeneral(
            content_width(self.d, kind, self.position_width),
            axis=(-3, -2, -1),
            dtype=self.dtype,
            dot_general=matrix_dot_general,
            name="patches",
            **initializers.dense(self.initializer, self.patch**2 * c),
        )
        x = dense(patches(self._standardised(pixels), *cutting))
        x = nn.Dropout(self.token_dropout, broadcast_dims=(2,), deterministic=not train, name="drop_tokens")(
            x
        )
        if self.class_token:
            first = self.param("class_token", init, (x.shape[-1],), jnp.float32).astype(x.dtype)
            x = jnp.concatenate([jnp.broadcast_to(first, (b, 1, x.shape[-1])), x], axis=1)

        def table() -> Array:
            rows = math.prod(stored) + self.class_token
            return codes.interpolate(self.param("positions", init, (rows, self.d), jnp.float32), stored, grid)

        where = codes.places(x.shape[1], grid)
        return with_positions(x, kind, self.position_width, where, table), None

    def _standardised(self, pixels: Array) -> Array:
        """Each channel with mean 0 and deviation 1, in the dtype of the computation."""
        c = pixels.shape[-1]
        mean = 255 * np.asarray(self.pixel_mean or (0.0,) * c, np.float32)
        scale = 1 / (255 * np.asarray(self.pixel_deviation or (1.0,) * c, np.float32))
        x = pixels.astype(jnp.float32)
        scaled = (x - jnp.broadcast_to(mean, x.shape)) * jnp.broadcast_to(scale, x.shape)
        return scaled.astype(self.dtype)
