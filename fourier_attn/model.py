"""The one model: an embedding, post-norm blocks around mixers, a vector of the sequence, a head."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fourier_attn.knobs import Knob, at_least, at_most, check, one_of, positive, rate, texts, unusable
from fourier_attn.layers import initial
from fourier_attn.layers.afno import AFNO
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.embed import TokenEmbedding
from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.layers.global_filter import GlobalFilter
from fourier_attn.layers.heads import Features, Head, Pretraining, mean
from fourier_attn.layers.initial import CHOICES as INITIALIZERS
from fourier_attn.layers.initial import SMALL
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.long_conv import LongConvolution
from fourier_attn.layers.tokens import Identity, Linear, Random, TokenConvolution
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.optics import Engine, presets

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

EMBEDDINGS: dict[str, Any] = {"tokens": TokenEmbedding}

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": nn.relu,
    "gelu": partial(nn.gelu, approximate=True),
}


# What makes the head, from the model part of the configuration.
HEADS: dict[str, Callable[[Any], Callable[..., nn.Module]]] = {
    "classes": lambda c: partial(Head, c["classes"], initializer=c["initializer"]),  # of the sequence
    "score": lambda c: partial(
        Head, 0, initializer=c["initializer"]
    ),  # one number, of the sequence or of each of several choices
    "tokens": lambda c: partial(Head, c["classes"], "tokens", c["initializer"]),  # classes of each token
    "spans": lambda c: partial(
        Head, 2, "tokens", c["initializer"]
    ),  # of each token as the first and the last of an answer
    "pretraining": lambda c: partial(Pretraining, norm_eps=c["norm_eps"]),
    "mlm": lambda c: partial(Pretraining, norm_eps=c["norm_eps"], nsp=False),
    "nsp": lambda c: partial(Pretraining, norm_eps=c["norm_eps"], mlm=False),
    "features": lambda c: Features,
}

# The knobs of the model. A mixer's are the fields of its layer.
KNOBS = {
    "inputs": Knob("tokens", "what the model reads: a key of EMBEDDINGS", one_of(*EMBEDDINGS)),
    "vocab": Knob(50_000, "rows of the token table; a run sets its tokenizer's size", at_least(1)),
    "classes": Knob(2, "of the head; a run sets its task's number", at_least(1)),
    "types": Knob(0, "rows of the table of types, which tell segments apart; 0: none", at_least(0, "none")),
    "positions": Knob(512, "rows of the position table: the longest sequence, in tokens", at_least(1)),
    "depth": Knob(6, "blocks", at_least(1, most=1_000)),
    "d": Knob(128, "model width", at_least(1)),
    "emb": Knob(
        0, "width of the tables, normalised and projected to d (BERT, FNet); 0: d", at_least(0, "none")
    ),
    "mlp": Knob(512, "hidden width of the MLP", at_least(1)),
    "activation": Knob("relu", '"relu" (the articles) or "gelu" (tanh form, FNet)', one_of(*ACTIVATIONS)),
    "norm_eps": Knob(1e-5, "added to variances in normalisations (FNet: 1e-12)", at_most(1.0, positive)),
    "pooling": Knob(
        "mean",
        '"mean" of the real tokens, or "first": tanh of a map of the first one',
        one_of("mean", "first"),
    ),
    "masked": Knob(
        True,
        "whether mixers and the mean know what is padding; the articles' listing does not say it to them",
    ),
    "initializer": Knob(
        "fan_in",
        'of tables and dense layers: "fan_in", or "torch", see `layers.initial`; mixers have their own',
        one_of(*INITIALIZERS),
    ),
    "head": Knob("classes", "a run sets its task's", one_of(*HEADS)),
    "dropout": Knob(0.0, "rate, after the embedding and after every MLP", rate),
    "mixer_dropout": Knob(0.0, "rate, after every mixer (FNet: none)", rate),
    "token_dropout": Knob(0.0, "rate of whole tokens zeroed in training", rate),
    "dtype": Knob(
        "float32",
        'of the computation, or "bfloat16"; parameters are float32',
        one_of("float32", "bfloat16"),
    ),
    "layout": Knob(
        (), "the name of each block's mixer; (): all the same; see `fourier_attn.family.placed`", texts
    ),
}


ENCODER = (
    "mlp",
    "activation",
    "norm_eps",
    "dropout",
    "mixer_dropout",
    "initializer",
)  # of these, as they are


class Block(nn.Module):
    """One post-norm block: x = LN(x + mix(x)), then x = LN(x + MLP(x)).

    Args:
      mixer: makes the mixer; a factory, because one instance in several blocks would share its weights.
      mlp: hidden width of the MLP.
      activation: "relu" (the articles) or "gelu" (tanh form, FNet).
      norm_eps: added to the variance in the normalisations.
      mixer_dropout, dropout: rates after the mixer and after the MLP.
      initializer: of the MLP, see `fourier_attn.layers.initial.dense`.
      dtype: of the computation; parameters and normalisation statistics are float32.
    Masking: handed to the mixer; the rest works on each token alone.
    """

    mixer: Callable[..., nn.Module]
    mlp: int
    activation: str = "relu"
    norm_eps: float = 1e-5
    mixer_dropout: float = 0.0
    dropout: float = 0.0
    initializer: str = "fan_in"
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
        begin = partial(initial.dense, self.initializer)
        hidden = ACTIVATIONS[self.activation](dense(self.mlp, name="mlp_in", **begin(x.shape[-1]))(x))
        output = dense(x.shape[-1], name="mlp_out", **begin(self.mlp))(hidden)
        return norm(name="mlp_norm")(x + drop(self.dropout)(output))


class Encoder(nn.Module):
    """An embedding, then one block for each mixer.

    Args:
      embed: makes the embedding, whose parameters stand in the encoder's own scope.
      mixers: makes each block's mixer.
      mlp, activation, norm_eps, mixer_dropout, initializer, dtype: see `Block`.
      dropout: rate after the embedding and after every MLP.
    Returns: the vectors, and what else the embedding returns: the table to which a language model's head is
      tied, or None.
    Masking: see the mixers.
    """

    embed: Callable[..., nn.Module]
    mixers: Sequence[Callable[..., nn.Module]]
    mlp: int
    activation: str = "relu"
    norm_eps: float = 1e-5
    dropout: float = 0.0
    mixer_dropout: float = 0.0
    initializer: str = "fan_in"
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self,
        inputs: Array,
        *,
        types: Int[Array, "b t"] | None = None,
        mask: Bool[Array, "b t"] | None = None,
        train: bool = False,
    ) -> tuple[Float[Array, "b t d"], Float[Array, "vocab e"] | None]:
        embedding = self.embed(dtype=self.dtype, name="embed")
        nn.share_scope(self, embedding)
        x, table = embedding(inputs, types=types, train=train)
        x = nn.Dropout(self.dropout, deterministic=not train, name="drop")(x)
        for layer, mixer in enumerate(self.mixers):
            block = Block(
                mixer,
                self.mlp,
                self.activation,
                self.norm_eps,
                self.mixer_dropout,
                self.dropout,
                self.initializer,
                self.dtype,
                name=f"block_{layer}",
            )
            x = block(x, mask=mask, train=train)
        return x, table


class Model(nn.Module):
    """A head on an encoder: head(x, pooled) with x = encoder(inputs), in float32.

        pooled = (sum_i m_i x_i) / sum_i m_i        pooling "mean": of the real tokens
        pooled = tanh(W x_0 + b)                    pooling "first": of the first token (BERT, FNet)

    With masked=False nothing is told what is padding, and the mean is over all positions, as in the articles'
    listing.

    Inputs may have more leading axes: a score of (b, choices, t) tokens is (b, choices).

    Args:
      axes: number of axes that the inputs of one example have: 1 for ids of tokens.
      mlm_positions: where a masked language model is to answer, (b, p); None: everywhere.
    Masking: padded tokens are left out of the mean; see the mixers for the rest.
    """

    encoder: Callable[..., Encoder]
    head: Callable[..., nn.Module]
    pooling: str = "mean"
    masked: bool = True
    axes: int = 1

    @nn.compact
    def __call__(
        self,
        inputs: Array,
        *,
        types: Int[Array, "*b t"] | None = None,
        mask: Bool[Array, "*b t"] | None = None,
        mlm_positions: Int[Array, "*b p"] | None = None,
        train: bool = False,
    ) -> Any:
        def flat(a: Array | None) -> Array | None:
            return a if a is None else a.reshape(-1, a.shape[-1])

        lead = inputs.shape[: inputs.ndim - self.axes]
        examples, mask = inputs.reshape(-1, *inputs.shape[len(lead) :]), flat(mask if self.masked else None)
        x, table = self.encoder(name="encoder")(examples, types=flat(types), mask=mask, train=train)
        x = x.astype(jnp.float32)
        pooled = self.pool(x, mask)
        answers = self.head(name="head")(x, pooled, table=table, mlm_positions=flat(mlm_positions))
        return jax.tree.map(lambda y: y.reshape(*lead, *y.shape[1:]), answers)

    def pool(self, x: Array, mask: Array | None) -> Array:
        if self.pooling == "mean":
            return mean(x, mask)
        return nn.tanh(nn.Dense(x.shape[-1], kernel_init=SMALL, name="pooler")(x[:, 0]))


def build(config: Any) -> Model:
    """Turns the `model` part of the configuration (a ConfigDict or a dict) into the model.

    Raises: ValueError for an unknown mixer, a field that the mixer does not have, and sizes that do not fit.
    """
    check("model.", KNOBS, config)
    embedding = EMBEDDINGS[config["inputs"]]
    embed_fields = [field.name for field in dataclasses.fields(embedding) if field.name in KNOBS]
    embed = partial(embedding, **{name: config[name] for name in embed_fields if name != "dtype"})
    encoder = partial(
        Encoder,
        embed=embed,
        mixers=_mixers(config),
        **{key: config[key] for key in ENCODER},
        dtype=jnp.dtype(config["dtype"]),
    )
    return Model(encoder, HEADS[config["head"]](config), config["pooling"], config["masked"], embedding.axes)


def engines(network: Model) -> list[tuple[Engine, ...]]:
    """The engines of each block, of training first; none where it is exact."""
    found = []
    for mixer in _keywords(network.encoder)["mixers"]:
        given = (_keywords(mixer).get(name) for name in ("engine", "eval_engine"))
        found.append(tuple(engine for engine in given if engine is not None))
    return found


def _keywords(factory: Any) -> dict[str, Any]:
    """What `build` has given to a factory."""
    return factory.keywords


def with_engines(network: Model, change: Callable[[Engine], Engine]) -> Model:
    """The model with the first engine of each block, of training or else of evaluation, changed, for both."""
    mixers = []
    for mixer, given in zip(_keywords(network.encoder)["mixers"], engines(network), strict=True):
        changed = {"engine": change(given[0]), "eval_engine": None} if given else {}
        mixers.append(partial(mixer, **changed))
    return network.clone(encoder=partial(network.encoder, mixers=tuple(mixers)))


def example(config: Any) -> jax.ShapeDtypeStruct:
    """The inputs of a batch of one, of the model with this `model` part of the configuration."""
    return EMBEDDINGS[config["inputs"]].example()


def _mixers(config: Any) -> tuple[Callable[..., nn.Module], ...]:
    """What makes the mixer of each block."""
    name = config["mixer"]["name"]
    table = {other: _mixer({"name": other, **fields}) for other, fields in dict(config["others"]).items()}
    table[name] = _mixer(config["mixer"])
    layout = config["layout"] or (name,) * config["depth"]
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
    return tuple(table[name] for name in layout)


def fields(mixer: str) -> tuple[dataclasses.Field, ...]:
    """The fields of a mixer that are knobs.

    Raises: ValueError for an unknown mixer.
    """
    if mixer not in MIXERS:
        raise ValueError(f"model.mixer.name={mixer!r} is unknown; choose one of {', '.join(MIXERS)}")
    every = dataclasses.fields(MIXERS[mixer])
    return tuple(field for field in every if field.name not in ("parent", "name", "dtype"))


def _mixer(config: Any) -> Callable[..., nn.Module]:
    values = dict(config)
    name = values.pop("name")
    known = [field.name for field in fields(name)]
    if unknown := set(values) - set(known):
        raise ValueError(
            f"mixer {name!r} has no {', '.join(sorted(unknown))}; it has {', '.join(known) or 'no fields'}: "
            f"start from config.default(mixer={name!r})"
        )
    for key, value in values.items():
        if key in ("engine", "eval_engine"):
            values[key] = presets.build(value)
        elif message := unusable(value):
            raise ValueError(f"model.mixer.{key}={value!r} {message}")
        elif isinstance(value, list):
            values[key] = tuple(value)
    return partial(MIXERS[name], **values)
