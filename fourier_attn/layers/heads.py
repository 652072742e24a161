"""Defines the heads of a network, which turn the output of the encoder into predictions."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fourier_attn.choices import check_choice
from fourier_attn.layers import initializers
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.initializers import SMALL
from fourier_attn.ops.arguments import takes_arrays


@takes_arrays
def mean(x: Float[Array, "b t d"], mask: Bool[Array, "b t"] | None) -> Float[Array, "b d"]:
    """Returns the mean over the real tokens, $(sum_i m_i x_i) / sum_i m_i$; 0 if there is none.

        >>> x = jnp.array([[[1.0], [3.0], [9.0]]])
        >>> mean(x, jnp.array([[True, True, False]]))
        Array([[2.]], dtype=float32)

    Args:
      x: the tokens, (b, t, d).
      mask: True for real tokens, (b, t); None: all are real.
    """
    real = jnp.ones(x.shape[:2], jnp.float32) if mask is None else mask.astype(jnp.float32)
    return jnp.einsum("btd,bt->bd", x, real) / jnp.maximum(real.sum(axis=1), 1.0)[:, None]


def at_positions(x: Float[Array, "b t d"], positions: Int[Array, "b p"] | None) -> Float[Array, "b p d"]:
    """Returns the tokens at some positions, $y[b, i] = x[b, positions[b, i]]$.

        >>> at_positions(jnp.array([[[1.0], [3.0], [9.0]]]), jnp.array([[2, 0]]))[..., 0]
        Array([[9., 1.]], dtype=float32)

    Args:
      x: the tokens, (b, t, d).
      positions: their numbers, (b, p); None: all tokens.
    """
    return x if positions is None else jnp.take_along_axis(x, positions[..., None], axis=1)


class Head(nn.Module):
    """Applies a linear map to one vector, of the sequence or of each token: $y = W x + b$, in float32.

        >>> head, x, pooled = Head(outputs=2), jnp.ones((1, 3, 4)), jnp.ones((1, 4))
        >>> head.apply(head.init(jax.random.key(0), x, pooled), x, pooled).shape
        (1, 2)

    Parameters: `output/kernel` (d, outputs), `output/bias` (outputs).

    Args:
      outputs: number of them; 0: there is one, without an axis of its own.
      of: "pooled", the sequence's vector, (b, c), or "tokens", each token's, (b, t, c); with
        `answer_positions` (b, p) those of these places alone, (b, p, c).
      initializer: see `fourier_attn.layers.initializers.dense`.
    Raises: ValueError for another `of` or initializer.
    """

    outputs: int
    of: str = "pooled"
    initializer: str = "fan_in"

    @nn.compact
    @takes_arrays
    def __call__(
        self,
        x: Float[Array, "b t d"],
        pooled: Float[Array, "b d"],
        *,
        answer_positions: Int[Array, "b p"] | None = None,
        **_: Any,
    ) -> Float[Array, "b ..."]:
        check_choice("of", self.of, ("pooled", "tokens"))
        begin = initializers.dense(self.initializer, x.shape[-1])
        of = pooled if self.of == "pooled" else at_positions(x, answer_positions)
        y = nn.Dense(self.outputs or 1, name="output", **begin)(of)
        return y if self.outputs else y[..., 0]


class Question(nn.Module):
    """Answers a question about the tokens x of an image, which a question token attends to.

        q = LN(mean_i E[word_i])                  the question token; the order of its words is not seen
        z = LN(q + attention(q; x)),    y = W (z + B relu(A z + a) + b) + c

        >>> head, x, pooled = Question(outputs=2, vocab=5), jnp.ones((1, 3, 8)), jnp.ones((1, 8))
        >>> words = {"question": jnp.array([[4, 1, -1]])}
        >>> head.apply(head.init(jax.random.key(0), x, pooled, **words), x, pooled, **words).shape
        (1, 2)

    Parameters: `words/embedding` (vocab, d), normal with deviation 0.02; `words_norm` and `norm`, each with
    `scale` and `bias` (d); `attention`, see there; `mlp_in`, `mlp_out` and `output`, each with `kernel` and
    `bias`.

    Args:
      outputs: number of answers.
      vocab: words.
      heads: of the attention.
      initializer: see `fourier_attn.layers.initializers.dense`.
    Masking: words below 0 are none; without any, the question token is the bias of the norm of words.
    Source: Torralba, Isola and Freeman, Foundations of Computer Vision, transformers, eq. 1.18-1.24.
    """

    outputs: int
    vocab: int
    heads: int = 4
    initializer: str = "fan_in"

    @nn.compact
    @takes_arrays
    def __call__(
        self,
        x: Float[Array, "b t d"],
        pooled: Float[Array, "b d"],
        *,
        question: Int[Array, "b q"] | None = None,
        **_: Any,
    ) -> Float[Array, "b c"]:
        b, d = len(x), x.shape[-1]
        begin, end = (initializers.dense(self.initializer, width) for width in (d, 2 * d))
        question = jnp.full((b, 1), -1) if question is None else question
        words = nn.Embed(self.vocab, d, embedding_init=initializers.table(self.initializer), name="words")
        norm = partial(nn.LayerNorm, use_fast_variance=False)
        token = norm(name="words_norm")(mean(words(jnp.maximum(question, 0)), question >= 0))[:, None]
        attention = Attention(heads=self.heads, initializer=self.initializer, name="attention")
        z = norm(name="norm")(token + attention(token, source=x))[:, 0]
        hidden = nn.relu(nn.Dense(2 * d, name="mlp_in", **begin)(z))
        z = z + nn.Dense(d, name="mlp_out", **end)(hidden)
        return nn.Dense(self.outputs, name="output", **begin)(z)


class Autoencoder(nn.Module):
    """Decodes every token of a sequence from its last one.

        y_i = W relu(A (x_last + p_i) + b_1) + b_2

        >>> head, x, pooled = Autoencoder(5, positions=3), jnp.ones((1, 3, 4)), jnp.ones((1, 4))
        >>> head.apply(head.init(jax.random.key(0), x, pooled), x, pooled).shape
        (1, 3, 5)

    Parameters: `place` (positions, d), p, normal with deviation 0.02; `hidden` and `output`, each
    with `kernel` and `bias`.

    Args:
      outputs: number of classes of a token.
      positions: most tokens of a sequence.
      initializer: see `fourier_attn.layers.initializers.dense`.
    Source: the compression task of Poli et al., MAD, arXiv 2403.17844.
    """

    outputs: int
    positions: int
    initializer: str = "fan_in"

    @nn.compact
    @takes_arrays
    def __call__(
        self, x: Float[Array, "b t d"], pooled: Float[Array, "b d"], **_: Any
    ) -> Float[Array, "b t c"]:
        t, d = x.shape[1:]
        begin, end = (initializers.dense(self.initializer, width) for width in (d, 2 * d))
        place = self.param("place", SMALL, (self.positions, d), jnp.float32)[:t]
        hidden = nn.relu(nn.Dense(2 * d, name="hidden", **begin)(x[:, -1:] + place[None]))
        return nn.Dense(self.outputs, name="output", **end)(hidden)


class Features(nn.Module):
    """Returns the encoder's output as it is: {"hidden": (b, t, d), "pooled": (b, d)}.

    >>> sorted(Features().apply({}, jnp.ones((1, 3, 4)), jnp.ones((1, 4))))
    ['hidden', 'pooled']
    """

    @nn.compact
    @takes_arrays
    def __call__(
        self, x: Float[Array, "b t d"], pooled: Float[Array, "b d"], **_: Any
    ) -> dict[str, Float[Array, "..."]]:
        return {"hidden": x, "pooled": pooled}


class Pretraining(nn.Module):
    """Predicts masked tokens, tied to the table of tokens E, and the order of two segments.

        mlm_i = LN(gelu(A x_i + a)) E^T + c          (b, t, vocab)
        nsp = W pooled + b                           (b, 2); 1: swapped

        >>> head, x, pooled = Pretraining(), jnp.ones((1, 3, 4)), jnp.ones((1, 4))
        >>> tied = {"table": jnp.ones((7, 4))}
        >>> params = head.init(jax.random.key(0), x, pooled, **tied)
        >>> head.apply(params, x, pooled, **tied)["mlm"].shape
        (1, 3, 7)

    Parameters: `mlm_dense/kernel` (d, e), `/bias`; `mlm_norm/scale`, `/bias` (e); `mlm_bias` (vocab);
    `nsp/kernel` (d, 2), `/bias`. GELU in its tanh form.

    Args:
      mlm, nsp: which of the two there are.
      norm_eps: added to the variance in the normalisation.
    Returns: a dict with `mlm` and `nsp`; with `answer_positions` (b, p) the first is (b, p, vocab).
    Source: Devlin et al., BERT, arXiv 1810.04805; Lee-Thorpe et al., arXiv 2105.03824 (order of segments).
    """

    mlm: bool = True
    nsp: bool = True
    norm_eps: float = 1e-12

    @nn.compact
    @takes_arrays
    def __call__(
        self,
        x: Float[Array, "b t d"],
        pooled: Float[Array, "b d"],
        *,
        table: Float[Array, "v e"],
        answer_positions: Int[Array, "b p"] | None = None,
        **_: Any,
    ) -> dict[str, Float[Array, "..."]]:
        outputs = {}
        if self.mlm:
            x = at_positions(x, answer_positions)
            x = nn.gelu(nn.Dense(table.shape[-1], kernel_init=SMALL, name="mlm_dense")(x), approximate=True)
            x = nn.LayerNorm(self.norm_eps, use_fast_variance=False, name="mlm_norm")(x)
            bias = self.param("mlm_bias", nn.initializers.zeros, (table.shape[0],), jnp.float32)
            outputs["mlm"] = jnp.einsum("bte,ve->btv", x, table.astype(jnp.float32)) + bias[None, None]
        if self.nsp:
            outputs["nsp"] = nn.Dense(2, kernel_init=SMALL, name="nsp")(pooled)
        return outputs


class NextToken(nn.Module):
    """Predicts the token that follows each token, tied to the table of tokens E (language model).

        logits_i = x_i E^T + c                  (b, t, vocab), in float32
        logits_i = (x_i A + a) E^T + c          where the table has another width (emb, appended positions)

        >>> head, x, pooled = NextToken(), jnp.ones((1, 3, 4)), jnp.ones((1, 4))
        >>> tied = {"table": jnp.ones((7, 4))}
        >>> head.apply(head.init(jax.random.key(0), x, pooled, **tied), x, pooled, **tied).shape
        (1, 3, 7)

    Parameters: `bias` (vocab), zero at first; `projection/kernel` (d, e), `/bias`, where E has another width.

    Args:
      initializer: see `fourier_attn.layers.initializers.dense`.
    Returns: with `answer_positions` (b, p) the logits at these places alone, (b, p, vocab).
    Masking: none; only causal mixers keep token $i + 1$ out of $x_i$, so `fourier_attn.model.build` asks for
      them.
    Source: Press and Wolf, Using the Output Embedding to Improve Language Models, arXiv 1608.05859.
    """

    initializer: str = "fan_in"

    causal: ClassVar[bool] = True  # see `fourier_attn.model.check_causal`

    @nn.compact
    @takes_arrays
    def __call__(
        self,
        x: Float[Array, "b t d"],
        pooled: Float[Array, "b d"],
        *,
        table: Float[Array, "v e"],
        answer_positions: Int[Array, "b p"] | None = None,
        **_: Any,
    ) -> Float[Array, "b p v"]:
        vocab, e = table.shape
        x = at_positions(x, answer_positions)
        if e != x.shape[-1]:
            x = nn.Dense(e, name="projection", **initializers.dense(self.initializer, x.shape[-1]))(x)
        bias = self.param("bias", nn.initializers.zeros, (vocab,), jnp.float32)
        return jnp.einsum("bpe,ve->bpv", x, table.astype(jnp.float32)) + bias[None, None]


# What makes each head; the model gives it those of its fields that are left open.
HEADS: dict[str, Callable[..., nn.Module]] = {
    "classes": Head,  # of the sequence
    "labels": Head,  # any number of classes of the sequence
    "score": partial(Head, outputs=0),  # one number, of the sequence or of each of several choices
    "tokens": partial(Head, of="tokens"),  # classes of each token
    "autoencoder": Autoencoder,  # classes of each token, all from the last one
    "question": Question,  # classes of what is asked about the tokens
    "spans": partial(Head, outputs=2, of="tokens"),  # each token as the first and the last of an answer
    "lm": NextToken,  # the token that follows each token
    "pretraining": Pretraining,
    "mlm": partial(Pretraining, nsp=False),
    "nsp": partial(Pretraining, mlm=False),
    "features": Features,
}
