"""The one model: embeddings, post-norm blocks around mixers, a vector of the sequence, a head."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fourier_attn.layers.afno import AFNO
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.layers.global_filter import GlobalFilter
from fourier_attn.layers.heads import SMALL, Features, Head, Pretraining, mean
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.long_conv import LongConvolution
from fourier_attn.layers.tokens import Identity, Linear, Random, TokenConvolution
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.optics import presets

MIXERS: dict[str, type[nn.Module]] = {
    "attention": Attention,
    "circular": CircularAttention,
    "lambda": LambdaLayer,
    "fourier": FourierMixing,
    "global_filter": GlobalFilter,
    "afno": AFNO,
    "long_conv": LongConvolution,
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
      norm_eps: added to the variance in the normalisations.
      mixer_dropout, dropout: rates after the mixer and after the MLP.
      dtype: of the computation; parameters and normalisation statistics are float32.
    Masking: handed to the mixer; the rest works on each token alone.
    """

    mixer: Callable[..., nn.Module]
    mlp: int
    activation: str = "relu"
    norm_eps: float = 1e-5
    mixer_dropout: float = 0.0
    dropout: float = 0.0
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        drop = partial(nn.Dropout, deterministic=not train)
        dense = partial(nn.Dense, dtype=self.dtype, dot_general=matrix_dot_general)
        norm = partial(nn.LayerNorm, epsilon=self.norm_eps, use_fast_variance=False, dtype=self.dtype)
        mixed = self.mixer(dtype=self.dtype, name="mixer")(x, mask=mask, train=train)
        x = norm(name="mixer_norm")(x + drop(self.mixer_dropout)(mixed))
        hidden = ACTIVATIONS[self.activation](dense(self.mlp, name="mlp_in")(x))
        output = dense(x.shape[-1], name="mlp_out")(hidden)
        return norm(name="mlp_norm")(x + drop(self.dropout)(output))


class Encoder(nn.Module):
    """Tokens, positions and types to vectors of width d, then one block for each mixer.

        e_i = W[token_i] + P[i] (+ S[type_i])
        x_i = e_i                       emb = 0: the tables have width d (the articles)
        x_i = LN(e_i) A + a             emb > 0: they have width emb (BERT, FNet)

    Args:
      mixers: makes each block's mixer.
      vocab, positions, types: rows of the tables; with types=0 there is no table and types are not used.
      d, emb: widths of the model and of the tables.
      token_dropout: rate at which whole tokens are zeroed in training, before positions are added.
    Returns: the vectors, and the table of tokens, to which a language model's head is tied.
    Masking: see the mixers.
    Raises: ValueError for a sequence longer than `positions`.
    """

    mixers: Sequence[Callable[..., nn.Module]]
    vocab: int
    positions: int
    d: int
    mlp: int
    types: int = 0
    emb: int = 0
    activation: str = "relu"
    norm_eps: float = 1e-5
    dropout: float = 0.0
    mixer_dropout: float = 0.0
    token_dropout: float = 0.0
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "b t"],
        *,
        types: Int[Array, "b t"] | None = None,
        mask: Bool[Array, "b t"] | None = None,
        train: bool = False,
    ) -> tuple[Float[Array, "b t d"], Float[Array, "vocab e"]]:
        x, table = self.embed(tokens, types, train)
        for layer, mixer in enumerate(self.mixers):
            x = Block(
                mixer,
                self.mlp,
                self.activation,
                self.norm_eps,
                self.mixer_dropout,
                self.dropout,
                self.dtype,
                name=f"block_{layer}",
            )(x, mask=mask, train=train)
        return x, table

    def embed(self, tokens: Array, types: Array | None, train: bool) -> tuple[Array, Array]:
        t, e = tokens.shape[-1], self.emb or self.d
        if t > self.positions:
            raise ValueError(
                f"a sequence of {t} tokens exceeds positions={self.positions}; shorten it or raise positions"
            )
        embed = partial(nn.Embed, features=e, embedding_init=SMALL, dtype=self.dtype)
        words = embed(self.vocab, name="tokens")
        x = nn.Dropout(self.token_dropout, broadcast_dims=(2,), deterministic=not train)(words(tokens))
        x = x + self.param("positions", SMALL, (self.positions, e))[None, :t].astype(self.dtype)
        if self.types:
            x = x + embed(self.types, name="types")(jnp.zeros_like(tokens) if types is None else types)
        if self.emb:
            norm = partial(nn.LayerNorm, epsilon=self.norm_eps, use_fast_variance=False, dtype=self.dtype)
            dense = partial(nn.Dense, dtype=self.dtype, dot_general=matrix_dot_general)
            x = dense(self.d, name="projection")(norm(name="embedding_norm")(x))
        return nn.Dropout(self.dropout, deterministic=not train)(x), words.embedding


class Model(nn.Module):
    """A head on an encoder: head(x, pooled) with x = encoder(tokens), in float32.

        pooled = (sum_i m_i x_i) / sum_i m_i        pooling "mean": of the real tokens (the articles)
        pooled = tanh(W x_0 + b)                    pooling "first": of the first token (BERT, FNet)

    Tokens may have more leading axes: a score of (b, choices, t) tokens is (b, choices).

    Args:
      mlm_positions: where a masked language model is to answer, (b, p); None: everywhere.
    Masking: padded tokens are left out of the mean; see the mixers for the rest.
    """

    encoder: Callable[..., Encoder]
    head: Callable[..., nn.Module]
    pooling: str = "mean"

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "*b t"],
        *,
        types: Int[Array, "*b t"] | None = None,
        mask: Bool[Array, "*b t"] | None = None,
        mlm_positions: Int[Array, "*b p"] | None = None,
        train: bool = False,
    ) -> Any:
        def flat(a: Array | None) -> Array | None:
            return a if a is None else a.reshape(-1, a.shape[-1])

        mask = flat(mask)
        ids = tokens.reshape(-1, tokens.shape[-1])
        x, table = self.encoder(name="encoder")(ids, types=flat(types), mask=mask, train=train)
        x = x.astype(jnp.float32)
        pooled = self.pool(x, mask)
        answers = self.head(name="head")(x, pooled, table=table, mlm_positions=flat(mlm_positions))
        return jax.tree.map(lambda y: y.reshape(*tokens.shape[:-1], *y.shape[1:]), answers)

    def pool(self, x: Array, mask: Array | None) -> Array:
        if self.pooling == "mean":
            return mean(x, mask)
        return nn.tanh(nn.Dense(x.shape[-1], kernel_init=SMALL, name="pooler")(x[:, 0]))


def build(config: Any) -> Model:
    """Turns the `model` part of the configuration (a ConfigDict or a dict) into the model.

    Raises: ValueError for an unknown mixer, a field that the mixer does not have, and sizes that do not fit.
    """
    _check(config)
    others = {name: {"name": name, **fields} for name, fields in dict(config["others"]).items()}
    table = {name: _mixer(fields) for name, fields in others.items()}
    table[config["mixer"]["name"]] = _mixer(config["mixer"])
    layout = config["layout"] or (config["mixer"]["name"],) * config["depth"]
    if len(layout) != config["depth"]:
        raise ValueError(
            f"model.layout has {len(layout)} mixers for model.depth={config['depth']}; "
            "name one for each block"
        )
    if unknown := set(layout) - set(table):
        raise ValueError(
            f"model.layout has {', '.join(sorted(unknown))}, but model.mixer and model.others describe "
            f"{', '.join(table)} only; start from config.default(mixer, others=(...))"
        )
    encoder = partial(
        Encoder,
        mixers=tuple(table[name] for name in layout),
        **{key: config[key] for key in ("vocab", "positions", "d", "mlp", "types", "emb", "activation")},
        **{key: config[key] for key in ("norm_eps", "dropout", "mixer_dropout", "token_dropout")},
        dtype=jnp.dtype(config["dtype"]),
    )
    return Model(encoder, _heads(config)[config["head"]], config["pooling"])


def _heads(config: Any) -> dict[str, Callable[..., nn.Module]]:
    both = partial(Pretraining, norm_eps=config["norm_eps"])
    return {
        "classes": partial(Head, config["classes"]),  # of the sequence
        "score": partial(Head, 0),  # one number, of the sequence or of each of several choices
        "tokens": partial(Head, config["classes"], "tokens"),  # classes of each token
        "spans": partial(Head, 2, "tokens"),  # of each token as the first and the last of an answer
        "pretraining": both,
        "mlm": partial(both, nsp=False),
        "nsp": partial(both, mlm=False),
        "features": Features,
    }


def _mixer(config: Any) -> Callable[..., nn.Module]:
    fields = dict(config)
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
    return partial(MIXERS[name], **fields)


def _check(config: Any) -> None:
    for key in ("vocab", "classes", "positions", "depth", "d", "mlp"):
        if config[key] < 1:
            raise ValueError(f"model.{key}={config[key]} must be at least 1")
    for key in ("types", "emb"):
        if config[key] < 0:
            raise ValueError(f"model.{key}={config[key]} must not be negative; 0 means none")
    if config["norm_eps"] <= 0:
        raise ValueError(f"model.norm_eps={config['norm_eps']} must be positive")
    for key in ("dropout", "mixer_dropout", "token_dropout"):
        if not 0 <= config[key] < 1:
            raise ValueError(f"model.{key}={config[key]} must lie in [0, 1)")
    choices = {
        "activation": tuple(ACTIVATIONS),
        "pooling": ("mean", "first"),
        "head": tuple(_heads(config)),
        "dtype": ("float32", "bfloat16"),
    }
    for key, known in choices.items():
        if config[key] not in known:
            raise ValueError(f"model.{key}={config[key]!r} is unknown; choose one of {', '.join(known)}")
