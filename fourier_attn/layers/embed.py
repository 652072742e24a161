"""From what a batch holds to vectors: the one place that knows whether inputs are ids of tokens."""

from functools import partial
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fourier_attn.layers import initial
from fourier_attn.ops.dense import matrix_dot_general


class TokenEmbedding(nn.Module):
    """Ids of tokens, their positions and types to vectors of width d.

        e_i = W[token_i] + P[i] (+ S[type_i])
        x_i = e_i                       emb = 0: the tables have width d (the articles)
        x_i = LN(e_i) A + a             emb > 0: they have width emb (BERT, FNet)

    Parameters: `tokens/embedding` (vocab, e), `positions` (positions, e), `types/embedding` (types, e),
    normal with deviation 0.02, or 1 with initializer="torch"; with `emb` also `embedding_norm/scale`, `/bias`
    (e) and `projection/kernel` (e, d), `/bias` (d).

    Args:
      vocab, positions, types: rows of the tables; with types=0 there is no table and types are not used.
      d, emb: widths of the model and of the tables.
      norm_eps: added to the variance in the normalisation.
      initializer: see `fourier_attn.layers.initial`.
      token_dropout: rate at which whole tokens are zeroed in training, before positions are added.
      dtype: of the computation; parameters are float32.
    Returns: the vectors, and the table of tokens, to which a language model's head is tied.
    Raises: ValueError for a sequence longer than `positions`.
    """

    vocab: int
    positions: int
    d: int
    types: int = 0
    emb: int = 0
    norm_eps: float = 1e-5
    token_dropout: float = 0.0
    initializer: str = "fan_in"
    dtype: jnp.dtype = jnp.dtype("float32")

    axes: ClassVar[int] = 1  # of the inputs of one example

    @staticmethod
    def example() -> jax.ShapeDtypeStruct:
        """Inputs of a batch of one, from which parameters can be initialised."""
        return jax.ShapeDtypeStruct((1, 1), jnp.int32)

    @nn.compact
    def __call__(
        self, tokens: Int[Array, "b t"], *, types: Int[Array, "b t"] | None = None, train: bool = False
    ) -> tuple[Float[Array, "b t d"], Float[Array, "vocab e"]]:
        t, e = tokens.shape[-1], self.emb or self.d
        if t > self.positions:
            raise ValueError(
                f"a sequence of {t} tokens exceeds positions={self.positions}; shorten it or raise positions"
            )
        init = initial.table(self.initializer)
        embed = partial(nn.Embed, features=e, embedding_init=init, dtype=self.dtype)
        words = embed(self.vocab, name="tokens")
        drop = nn.Dropout(
            self.token_dropout, broadcast_dims=(2,), deterministic=not train, name="drop_tokens"
        )
        x = drop(words(tokens)) + self.param("positions", init, (self.positions, e))[None, :t].astype(
            self.dtype
        )
        if self.types:
            x = x + embed(self.types, name="types")(jnp.zeros_like(tokens) if types is None else types)
        if self.emb:
            norm = partial(nn.LayerNorm, epsilon=self.norm_eps, use_fast_variance=False, dtype=self.dtype)
            dense = partial(nn.Dense, dtype=self.dtype, dot_general=matrix_dot_general)
            begin = initial.dense(self.initializer, e)
            x = dense(self.d, name="projection", **begin)(norm(name="embedding_norm")(x))
        return x, words.embedding
