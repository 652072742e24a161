"""The one model: embeddings, post-norm blocks around a mixer, mean pooling, a linear head."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fourier_attn.layers.attention import Attention
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.tokens import Identity, Linear, Random, TokenConvolution
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.optics import presets

MIXERS: dict[str, type[nn.Module]] = {
    "attention": Attention,
    "circular": CircularAttention,
    "lambda": LambdaLayer,
    "fourier": FourierMixing,
    "linear": Linear,
    "random": Random,
    "identity": Identity,
    "token_conv": TokenConvolution,
}

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": nn.relu,
    "gelu": partial(nn.gelu, approximate=True),
}


class Block(nn.Module):
    """One post-norm block: x = LN(x + mix(x)), then x = LN(x + MLP(x)).

    Args:
      mixer: makes the mixer; a factory, because one instance in several blocks would share its weights.
      mlp: hidden width of the MLP.
      activation: "relu" (the articles) or "gelu" (tanh form, FNet).
      dropout: rate after the mixer and after the MLP.
      dtype: of the computation; parameters and normalisation statistics are float32.
    Masking: handed to the mixer; the rest works on each token alone.
    """

    mixer: Callable[..., nn.Module]
    mlp: int
    activation: str = "relu"
    dropout: float = 0.0
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        drop = nn.Dropout(self.dropout, deterministic=not train)
        dense = partial(nn.Dense, dtype=self.dtype, dot_general=matrix_dot_general)
        norm = partial(nn.LayerNorm, epsilon=1e-5, use_fast_variance=False, dtype=self.dtype)
        mixed = self.mixer(dtype=self.dtype, name="mixer")(x, mask=mask, train=train)
        x = norm(name="mixer_norm")(x + drop(mixed))
        hidden = ACTIVATIONS[self.activation](dense(self.mlp, name="mlp_in")(x))
        output = dense(x.shape[-1], name="mlp_out")(hidden)
        return norm(name="mlp_norm")(x + drop(output))


class Encoder(nn.Module):
    """Token embedding plus learned positions, then `depth` blocks.

    Args:
      vocab: rows of the token table.
      positions: rows of the position table, the longest sequence there can be.
      depth, d: number of blocks and model width.
      token_dropout: rate at which whole tokens are zeroed in training, before positions are added.
    Masking: see the mixer.
    Raises: ValueError for a sequence longer than `positions`.
    """

    mixer: Callable[..., nn.Module]
    vocab: int
    positions: int
    depth: int
    d: int
    mlp: int
    activation: str = "relu"
    dropout: float = 0.0
    token_dropout: float = 0.0
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, tokens: Int[Array, "b t"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        t = tokens.shape[-1]
        if t > self.positions:
            raise ValueError(
                f"a sequence of {t} tokens exceeds positions={self.positions}; shorten it or raise positions"
            )
        table = nn.initializers.normal(0.02)
        x = nn.Embed(self.vocab, self.d, embedding_init=table, dtype=self.dtype, name="tokens")(tokens)
        x = nn.Dropout(self.token_dropout, broadcast_dims=(2,), deterministic=not train)(x)
        position = self.param("positions", table, (self.positions, self.d))
        x = nn.Dropout(self.dropout, deterministic=not train)(x + position[None, :t].astype(self.dtype))
        for layer in range(self.depth):
            x = Block(self.mixer, self.mlp, self.activation, self.dropout, self.dtype, name=f"block_{layer}")(
                x, mask=mask, train=train
            )
        return x


class Classifier(nn.Module):
    """Logits of a sequence: linear in the mean of its encoded real tokens.

        logits = W mean_{i: mask_i} encoder(tokens)_i + b            in float32

    Masking: padded tokens are left out of the mean; see the mixer for the rest.
    """

    encoder: Callable[..., Encoder]
    classes: int

    @nn.compact
    def __call__(
        self, tokens: Int[Array, "b t"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b c"]:
        x = self.encoder(name="encoder")(tokens, mask=mask, train=train).astype(jnp.float32)
        real = jnp.ones(tokens.shape, jnp.float32) if mask is None else mask.astype(jnp.float32)
        count = jnp.maximum(real.sum(axis=1), 1.0)
        mean = jnp.einsum("btd,bt->bd", x, real) / count[:, None]
        return nn.Dense(self.classes, name="head")(mean)


def build(config: Any) -> Classifier:
    """Turns the `model` part of the configuration (a ConfigDict or a dict) into the model.

    Raises: ValueError for an unknown mixer, a field that the mixer does not have, and sizes that do not fit.
    """
    fields = dict(config["mixer"])
    name = fields.pop("name")
    fields |= {key: presets.build(fields[key]) for key in ("engine", "eval_engine") if key in fields}
    if name not in MIXERS:
        raise ValueError(f"model.mixer.name={name!r} is unknown; choose one of {', '.join(MIXERS)}")
    known = [f.name for f in dataclasses.fields(MIXERS[name]) if f.name not in ("parent", "name", "dtype")]
    if unknown := set(fields) - set(known):
        raise ValueError(
            f"mixer {name!r} has no {', '.join(sorted(unknown))}; it has {', '.join(known) or 'no fields'}: "
            f"start from config.default(mixer={name!r})"
        )
    for key in ("vocab", "classes", "positions", "depth", "d", "mlp"):
        if config[key] < 1:
            raise ValueError(f"model.{key}={config[key]} must be at least 1")
    if config["activation"] not in ACTIVATIONS:
        raise ValueError(
            f"model.activation={config['activation']!r} is unknown; choose one of {', '.join(ACTIVATIONS)}"
        )
    for key in ("dropout", "token_dropout"):
        if not 0.0 <= config[key] < 1.0:
            raise ValueError(f"model.{key}={config[key]} must lie in [0, 1)")
    if config["dtype"] not in ("float32", "bfloat16"):
        raise ValueError(f"model.dtype={config['dtype']!r} is unknown; choose 'float32' or 'bfloat16'")
    encoder = partial(
        Encoder,
        mixer=partial(MIXERS[name], **fields),
        vocab=config["vocab"],
        positions=config["positions"],
        depth=config["depth"],
        d=config["d"],
        mlp=config["mlp"],
        activation=config["activation"],
        dropout=config["dropout"],
        token_dropout=config["token_dropout"],
        dtype=jnp.dtype(config["dtype"]),
    )
    return Classifier(encoder, config["classes"])
