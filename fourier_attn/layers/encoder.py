"""Defines the encoder: an embedding, then blocks with a mixer and an MLP."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fourier_attn.choices import check_choice
from fourier_attn.layers import cache, initializers
from fourier_attn.layers.cache import Cursor
from fourier_attn.layers.fields import dtype_of
from fourier_attn.layers.shared_tokens import mix_shared
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.ops.token_shares import by_token

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": nn.relu,
    "gelu": partial(nn.gelu, approximate=True),
    "gelu_erf": partial(nn.gelu, approximate=False),
}
REMAT = ("none", "block")
OPTIONS = {"activation": tuple(ACTIVATIONS), "norm_position": ("post", "pre")}


def norm_with(eps: float, **fields: Any) -> nn.LayerNorm:
    """Makes a normalisation with an exact variance for means far from 0.

    Args:
      eps: number that is added to the variance.
      fields: other fields of `flax.linen.LayerNorm`.
    """
    return nn.LayerNorm(eps, use_fast_variance=False, **fields)


class Block(nn.Module):
    """Applies a mixer and an MLP, each with a residual connection and a normalisation.

        x = LN(x + mix(x)),    then x = LN(x + MLP(x))        norm_position "post"
        x = x + mix(LN(x)),    then x = x + MLP(LN(x))        norm_position "pre"

        >>> from fourier_attn.layers.controls import Identity
        >>> block, x = Block(mixer=Identity, mlp=8), jnp.ones((1, 3, 4))
        >>> block.apply(block.init(jax.random.key(0), x), x).shape
        (1, 3, 4)

    Args:
      mixer: makes the mixer; a factory, because one instance in several blocks would share its weights.
      mlp: hidden width of the MLP.
      activation: a key of `ACTIVATIONS`.
      norm_eps: added to the variance in the normalisations.
      mixer_dropout, dropout: rates after the mixer and after the MLP.
      initializer: of the MLP, see `fourier_attn.layers.initializers.dense`.
      norm_position: "post" or "pre", as above.
      dtype: of the computation; parameters and normalisation statistics are float32.
      cursor: in a text that is being continued, see `fourier_attn.layers.cache`.
    Masking: handed to the mixer; the rest works on each token alone.
    Raises: ValueError for an unknown activation, initializer or norm_position.
    """

    mixer: Callable[..., nn.Module]
    mlp: int
    activation: str = "relu"
    norm_eps: float = 1e-5
    mixer_dropout: float = 0.0
    dropout: float = 0.0
    initializer: str = "fan_in"
    norm_position: str = "post"
    dtype: jnp.dtype = jnp.dtype("float32")

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
        for field, choices in OPTIONS.items():
            check_choice(field, getattr(self, field), choices)
        drop = partial(nn.Dropout, deterministic=not train)
        dense = partial(nn.Dense, dtype=self.dtype, dot_general=matrix_dot_general)
        norm = partial(norm_with, self.norm_eps, dtype=self.dtype)
        mixer = self.mixer(**dtype_of(self.mixer, self.dtype), name="mixer")
        mixer_norm, mlp_norm = norm(name="mixer_norm"), norm(name="mlp_norm")
        begin = partial(initializers.dense, self.initializer)

        def mix(x: Array) -> Array:
            if cursor is not None:
                return cache.mix(self, mixer, x, mask, cursor)
            y = mix_shared(mixer, x, mask=mask, train=train)
            if y.shape != x.shape:  # the residual sum could broadcast it
                raise ValueError(
                    f"the mixer {type(mixer).__name__} returns an array of shape {y.shape} for tokens of "
                    f"shape {x.shape}; let it return the same shape"
                )
            return drop(self.mixer_dropout)(y)

        def think(x: Array) -> Array:
            hidden = ACTIVATIONS[self.activation](dense(self.mlp, name="mlp_in", **begin(x.shape[-1]))(x))
            return drop(self.dropout)(dense(x.shape[-1], name="mlp_out", **begin(self.mlp))(hidden))

        x = by_token(x)
        if self.norm_position == "pre":
            x = by_token(x + mix(mixer_norm(x)))
            return x + think(mlp_norm(x))
        x = mixer_norm(by_token(x + mix(x)))
        return mlp_norm(x + think(x))


class Encoder(nn.Module):
    """Applies an embedding, the blocks, and a last normalisation if there is one.

        >>> from fourier_attn.layers.embed import TokenEmbedding
        >>> from fourier_attn.layers.controls import Identity
        >>> embed = partial(TokenEmbedding, vocab=9, positions=3, d=4)
        >>> block = partial(Block, Identity, mlp=8)
        >>> encoder, ids = Encoder(embed=embed, blocks=[block, block]), jnp.array([[2, 5, 8]])
        >>> encoder.init_with_output(jax.random.key(0), ids)[0][0].shape
        (1, 3, 4)

    Args:
      embed: makes the embedding, whose parameters are in the encoder's own scope.
      blocks: each makes a block, a module like `Block`.
      norm: makes the last normalisation, for blocks with norm_position "pre"; None: there is none.
      dropout: rate after the embedding.
      remat: "block": the backward pass computes the activations inside each block again, instead of keeping
        them; "none": all are kept. The results are the same.
      dtype: of the computation, handed to the modules above.
      cursor: in a text that is being continued, see `fourier_attn.layers.cache`.
    Returns: the vectors, and what else the embedding returns: the table to which a language model's head is
      tied, or None.
    Masking: see the mixers.
    Raises: ValueError for another remat.
    """

    embed: Callable[..., nn.Module]
    blocks: Sequence[Callable[..., nn.Module]]
    norm: Callable[..., nn.Module] | None = None
    dropout: float = 0.0
    remat: str = "none"
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    @takes_arrays
    def __call__(
        self,
        inputs: Array,
        *,
        types: Int[Array, "b t"] | None = None,
        mask: Bool[Array, "b t"] | None = None,
        train: bool = False,
        cursor: Cursor | None = None,
    ) -> tuple[Float[Array, "b t d"], Float[Array, "vocab e"] | None]:
        check_choice("remat", self.remat, REMAT)
        embedding = self.embed(dtype=self.dtype, name="embed")
        nn.share_scope(self, embedding)
        at = {} if cursor is None else {"place": cursor.place}
        x, table = embedding(inputs, types=types, train=train, **at)
        x = nn.Dropout(self.dropout, deterministic=not train, name="drop")(x)

        def run(block: nn.Module, x: Array, mask: Array | None) -> Array:
            return block(x, mask=mask, train=train, **({} if cursor is None else {"cursor": cursor}))

        run_block = nn.remat(run) if self.remat == "block" else run
        for layer, make_block in enumerate(self.blocks):
            x = run_block(make_block(dtype=self.dtype, name=f"block_{layer}"), x, mask)
        if self.norm is not None:
            x = self.norm(dtype=self.dtype, name="norm")(x)
        return x, table
