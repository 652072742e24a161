"""Builds the model: an embedding, blocks with mixers, pooling, and a head."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from fourier_attn import plugins
from fourier_attn.choices import check_choice
from fourier_attn.knobs import (
    Part,
    at_least,
    at_most,
    check,
    knob,
    knobs_of,
    numbers,
    one_of,
    positive,
    rate,
    sizes,
    texts,
    unusable,
)
from fourier_attn.layers import fields
from fourier_attn.layers.afno import AFNO
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.cache import Cursor
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.controls import Identity, Linear, Random
from fourier_attn.layers.embed import POSITIONS, PatchEmbedding, TokenEmbedding
from fourier_attn.layers.encoder import ACTIVATIONS, Block, Encoder, norm_with
from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.layers.global_filter import GlobalFilter
from fourier_attn.layers.heads import HEADS, mean
from fourier_attn.layers.initializers import CHOICES as INITIALIZERS
from fourier_attn.layers.initializers import SMALL
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.long_conv import LongConvolution
from fourier_attn.layers.token_conv import TokenConvolution
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

EMBEDDINGS: dict[str, Any] = {"tokens": TokenEmbedding, "patches": PatchEmbedding}

POOLINGS = ("mean", "first", "class")  # ways to make one vector of a sequence


@runtime_checkable
class ModelConfig(Part, Protocol):
    """Declares the options of the network. The options of a mixer are the fields of its layer."""

    inputs: str = knob("tokens", "inputs of the model", one_of(*EMBEDDINGS))
    vocab: int = knob(
        50_000, "rows of the token table; a run sets it to the size of its tokenizer", at_least(1)
    )
    classes: int = knob(
        2, "number of outputs of the head; a run sets it to the number of classes of its task", at_least(1)
    )
    types: int = knob(
        0, "rows of the table of token types, which distinguish two segments; 0: none", at_least(0, "none")
    )
    positions: int = knob(512, "rows of the position table: the longest sequence, in tokens", at_least(1))
    positions_kind: str = knob(
        "learned",
        'position codes: "learned", "sinusoidal" and "sines" are added to the tokens, "sinusoidal_appended" '
        'and "sines_appended" are appended to them, "rotary" rotates queries and keys in attention, and '
        '"none" omits positions',
        one_of(*POSITIONS),
    )
    position_width: int = knob(
        16, "number of appended position features, out of the d features of a token", at_least(1)
    )
    image: tuple[int, ...] = knob(
        (), "rows, columns and channels of an image; a run sets it to the shape of its images", sizes
    )
    patch: int = knob(4, "side of a square patch, in pixels", at_least(1))
    stride: int = knob(
        0,
        "distance between the starts of neighbouring patches, in pixels; 0: `patch`",
        at_least(0, "`patch`"),
    )
    pad_image: bool = knob(
        False, "whether images are padded with zeros if their size is not a multiple of the patch"
    )
    pixel_mean: tuple[float, ...] = knob(
        (), "mean of each channel, from 0 to 1; a run sets it to the mean of its training set", numbers
    )
    pixel_deviation: tuple[float, ...] = knob(
        (), "standard deviation of each channel; a run sets it to that of its training set", numbers
    )
    class_token: bool = knob(False, "whether a learned class token precedes the patches (ViT)")
    depth: int = knob(6, "number of blocks", at_least(1, most=1_000))
    d: int = knob(128, "model width: number of features of a token", at_least(1))
    emb: int = knob(
        0,
        "width of the embedding tables; their sum is normalised and projected to d (BERT, FNet); 0: d, "
        "without a projection",
        at_least(0, "d"),
    )
    mlp: int = knob(512, "hidden width of the MLP", at_least(1))
    activation: str = knob(
        "relu",
        'activation of the MLP: "relu", "gelu" (tanh approximation, FNet) or "gelu_erf" (exact, ViT)',
        one_of(*ACTIVATIONS),
    )
    norm_position: str = knob(
        "post",
        'position of the normalisation: "post" after each residual sum (FNet), or "pre" before each sublayer '
        "and at the end (ViT)",
        one_of("post", "pre"),
    )
    norm_eps: float = knob(
        1e-5, "number added to the variance in normalisations (FNet: 1e-12)", at_most(1.0, positive)
    )
    pooling: str = knob(
        "mean",
        'how a sequence becomes one vector: "mean" of the real tokens, "first" (a dense layer and tanh '
        'on the first token, BERT), or "class" (the class token, ViT)',
        one_of(*POOLINGS),
    )
    masked: bool = knob(True, "whether mixers and the mean over tokens ignore padding")
    initializer: str = knob(
        "fan_in",
        "initializer of the tables and the dense layers, see `layers.initializers`; mixers have their own",
        one_of(*INITIALIZERS),
    )
    head: str = knob("classes", "head of the network; a run sets it to the head of its task", one_of(*HEADS))
    dropout: float = knob(0.0, "dropout rate after the embedding and after each MLP", rate)
    mixer_dropout: float = knob(0.0, "dropout rate after each mixer (FNet: none)", rate)
    token_dropout: float = knob(0.0, "share of whole tokens that training sets to zero", rate)
    dtype: str = knob(
        "float32",
        "dtype of the computation; parameters are always float32",
        one_of("float32", "bfloat16"),
    )
    layout: tuple[str, ...] = knob(
        (),
        "mixer of each block, by name, see `fourier_attn.family.placed`; (): all blocks have `model.mixer`",
        texts,
    )
    mixer: Any  # the name of all blocks' mixer, and the fields of its layer
    others: Any  # by their names, the fields of further mixers, which a layout has


KNOBS = knobs_of(ModelConfig)
Fields = ModelConfig | Mapping[str, Any]  # where a dict serves, too


class Model(nn.Module):
    """Applies a head to the output of an encoder. The head computes in float32.

        pooled = (sum_i m_i x_i) / (sum_i m_i)      pooling "mean": of the real tokens
        pooled = tanh(W x_0 + b)                    pooling "first": of the first token (BERT, FNet)
        pooled = x_0                                pooling "class": the first token (ViT)

    x is the output of the encoder, and $m_i$ is 1 for a real token and 0 for padding.

    Args:
      encoder: factory of the encoder.
      head: factory of the head, which gets x and the pooled vector.
      pooling: "mean", "first" or "class".
      masked: whether mixers and the mean ignore padding. If False, padding counts as tokens.
      axes: number of axes of one example's inputs: 1 for token ids, 3 for images.
    Masking: the mean excludes padded tokens. Each mixer documents how it treats padding.
    Raises: ValueError for an unknown pooling.
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
        answer_positions: Int[Array, "*b p"] | None = None,
        question: Int[Array, "*b q"] | None = None,
        train: bool = False,
        cursor: Cursor | None = None,
    ) -> Any:
        """Returns the output of the head for a batch.

        Args:
          inputs: token ids (b, t), or images (b, rows, columns, channels). They can have more leading axes:
            for ids (b, choices, t), a head with one score returns (b, choices).
          types: token types, which distinguish two segments; None: all are 0.
          mask: True for real tokens; None: all are real.
          answer_positions: positions at which a token head predicts; None: all positions.
          question: ids of the words of a question about each example, negative after its last word.
          train: whether dropout is on.
          cursor: position in a text that is being generated, see `fourier_attn.layers.cache`.
        """

        def flat(a: Array | None) -> Array | None:
            return a if a is None else a.reshape(-1, a.shape[-1])

        lead = inputs.shape[: inputs.ndim - self.axes]
        examples, mask = inputs.reshape(-1, *inputs.shape[len(lead) :]), flat(mask if self.masked else None)
        options: dict[str, Any] = {"types": flat(types), "mask": mask, "train": train}
        if cursor is not None:
            options["cursor"] = cursor
        x, table = self.encoder(name="encoder")(examples, **options)
        x = x.astype(jnp.float32)
        pooled = self.pool(x, mask)
        asked = {"answer_positions": flat(answer_positions), "question": flat(question)}
        answers = self.head(name="head")(x, pooled, table=table, **asked)
        return jax.tree.map(lambda y: y.reshape(*lead, *y.shape[1:]), answers)

    def pool(self, x: Array, mask: Array | None) -> Array:
        """Returns one vector (b, d) for each sequence x (b, t, d); `mask` (b, t) is True for real tokens."""
        check_choice("pooling", self.pooling, POOLINGS)
        if self.pooling == "mean":
            return mean(x, mask)
        if self.pooling == "class":
            return x[:, 0]
        return nn.tanh(nn.Dense(x.shape[-1], kernel_init=SMALL, name="pooler")(x[:, 0]))


def build(config: Fields) -> Model:
    """Builds the model from the `model` part of a configuration.

    Args:
      config: the `model` part, a ConfigDict or a dict.
    Raises: ValueError for an unknown mixer, for an option that the mixer does not have, and for sizes that do
      not fit each other.
    """
    check("model.", KNOBS, config)
    if getattr(HEADS[config["head"]], "causal", False):
        check_causal(config, f"model.head={config['head']!r}")
    if config["inputs"] == "patches":
        _check_image(config)
        if found := [name for name, fields in mixers(config).items() if fields.get("causal")]:
            raise ValueError(
                f"causal=True of mixer {found[0]!r} needs a sequence, not patches; an image has no order"
            )
    embedding, pre = EMBEDDINGS[config["inputs"]], config["norm_position"] == "pre"
    encoder: Any = partial(
        _with_options(Encoder, config),
        embed=_with_options(embedding, config),
        blocks=tuple(partial(_with_options(Block, config), mixer=mixer) for mixer in _mixers(config)),
        norm=partial(norm_with, config["norm_eps"]) if pre else None,
        dtype=jnp.dtype(config["dtype"]),
    )
    head = _with_options(HEADS[config["head"]], config, outputs=config["classes"])
    return Model(encoder, head, config["pooling"], config["masked"], embedding.axes)


def _with_options(factory: Any, config: Fields, **others: Any) -> Callable[..., nn.Module]:
    """Gives a module's factory each option, or other value, that is a field of it and not given yet.

    The encoder hands its dtype on itself.
    """
    module, given = getattr(factory, "func", factory), getattr(factory, "keywords", {})
    options = {name: config[name] for name in KNOBS if name != "dtype"} | others
    names = {field.name for field in dataclasses.fields(module)} & options.keys() - given.keys()
    values = {name: options[name] for name in names}
    return partial(factory, **{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _check_image(config: Fields) -> None:
    """Raises: ValueError for an image that patches do not divide, or statistics of other channels."""
    if len(config["image"]) != 3:
        raise ValueError(f"model.image={config['image']!r} must be rows, columns and channels")
    grid(config)
    if config["pooling"] == "class" and not config["class_token"]:
        raise ValueError("model.pooling='class' needs model.class_token=True; 'mean' is that of the patches")
    if config["class_token"] and config["head"] == "tokens":
        raise ValueError("model.class_token=True has no label among those of the patches; use False")
    for name in ("pixel_mean", "pixel_deviation"):
        if len(config[name]) not in (0, config["image"][2]):
            raise ValueError(
                f"model.{name}={config[name]!r} must have a number for each channel of model.image"
            )
    if 0 in config["pixel_deviation"]:
        raise ValueError("model.pixel_deviation has a channel without variation; use images that have one")


def grid(config: Fields) -> tuple[int, ...]:
    """Returns rows and columns of the patches; () where inputs are not images."""
    return PatchEmbedding.grid(config) if config["inputs"] == "patches" else ()


def layout(config: Fields) -> tuple[str, ...]:
    """Returns the name of each block's mixer, from the first block to the last."""
    return tuple(config["layout"]) or (config["mixer"]["name"],) * config["depth"]


def engines(network: Model) -> list[tuple[Engine, ...]]:
    """Returns the engines of each block, that of training first; an exact block has none."""
    per_block = []
    for block in _keywords(network.encoder)["blocks"]:
        mixer = _keywords(block)["mixer"]
        given = (_keywords(mixer).get(name) for name in fields.engines(mixer.func))
        per_block.append(tuple(engine for engine in given if engine is not None))
    return per_block


def _keywords(factory: Any) -> dict[str, Any]:
    """Returns what `build` has given to a factory."""
    return factory.keywords


def with_engines(network: Model, change: Callable[[Engine], Engine], which: int = 0) -> Model:
    """Returns a model in which each block uses one changed engine, both for training and for evaluation.

    Args:
      network: the model.
      change: returns the new engine for an old one.
      which: index of the old engine among the `engines` of a block: 0 for that of training.
    """
    blocks = []
    for block, given in zip(_keywords(network.encoder)["blocks"], engines(network), strict=True):
        mixer = _keywords(block)["mixer"]
        names = fields.engines(mixer.func) if given else ()
        changed = {name: change(given[which]) if i == 0 else None for i, name in enumerate(names)}
        blocks.append(partial(block, mixer=partial(mixer, **changed)))
    return network.clone(encoder=partial(network.encoder, blocks=tuple(blocks)))


def with_remat(network: Model, remat: str) -> Model:
    """Returns the same model with another `Encoder.remat`, which changes memory and time only."""
    return network.clone(encoder=partial(network.encoder, remat=remat))


def example(config: Fields) -> jax.ShapeDtypeStruct:
    """Returns shape and dtype of the inputs of one example, for the `model` part of a configuration."""
    return EMBEDDINGS[config["inputs"]].example(config)


def _mixers(config: Fields) -> tuple[Callable[..., nn.Module], ...]:
    """Returns the factory of each block's mixer."""
    name = config["mixer"]["name"]
    table = {
        other: mixer_factory({"name": other, **fields}) for other, fields in dict(config["others"]).items()
    }
    table[name] = mixer_factory(config["mixer"])
    names = layout(config)
    if len(names) != config["depth"]:
        raise ValueError(
            f"model.layout has {len(names)} mixers for model.depth={config['depth']}; name one for each block"
        )
    if unknown := set(names) - set(table):
        raise ValueError(
            f"model.layout has {', '.join(sorted(unknown))}, but model.mixer and model.others describe "
            f"{', '.join(table)} only; start from config.default(mixer, others=(...))"
        )
    if config["positions_kind"] == "rotary":
        if "attention" not in names:
            raise ValueError(
                "model.positions_kind='rotary' needs attention in some block; choose another kind"
            )
        table["attention"] = partial(table["attention"], rotary=True)
    return tuple(table[name] for name in names)


def register_mixer(name: str, mixer: type[nn.Module]) -> None:
    """Adds a custom mixer to `MIXERS`. The fields of the class become its options.

    Call it in a configuration file, or in the module that defines the class. An installed package can declare
    the class as an entry point in the group "fourier_attn.mixers" instead.

    Args:
      name: name of the mixer, for `model.mixer.name`.
      mixer: a Flax module with the interface of a mixer, and with a default for each field.
    Raises: ValueError for a name that another mixer has, and for a class that is not a mixer.
    """
    _add_mixer(name, mixer)
    plugins.note("mixers", name, mixer.__module__)


def _add_mixer(name: str, mixer: Any) -> None:
    if not (isinstance(mixer, type) and issubclass(mixer, nn.Module)):
        raise ValueError(f"the mixer {name!r} is {mixer!r}; give a class, a subclass of flax.linen.Module")
    known = MIXERS.get(name)
    if known is not None and (
        known.__module__.startswith("fourier_attn.") or known.__name__ != mixer.__name__
    ):
        raise ValueError(f"the mixer {name!r} already exists ({known.__name__}); choose another name")
    for field in dataclasses.fields(mixer):
        empty = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if empty and field.name not in ("parent", "name"):
            raise ValueError(f"the mixer {name!r} has no default for its field {field.name}; give it one")
    call = mixer.__call__  # without one of its own, a class has that of its metaclass, not a function
    accepted = inspect.signature(call).parameters.values() if inspect.isfunction(call) else ()
    lacking = {"mask", "train"} - {parameter.name for parameter in accepted}
    if lacking and all(parameter.kind != parameter.VAR_KEYWORD for parameter in accepted):
        raise ValueError(
            f"the mixer {name!r} must accept {' and '.join(sorted(lacking))}; define "
            "__call__(self, x, *, mask=None, train=False)"
        )
    MIXERS[name] = mixer


def find_mixer(name: str) -> type[nn.Module]:
    """Returns the class of a mixer of `MIXERS`, or of an installed package, which it adds there.

    Raises: ValueError for an unknown one.
    """
    if name not in MIXERS and (entry := plugins.entry("mixers", name)) is not None:
        _add_mixer(name, entry)
    check_choice("model.mixer.name", name, MIXERS)
    return MIXERS[name]


def mixers(config: Fields) -> dict[str, Any]:
    """Returns the mixers of a `model` part by their names: that of all blocks, and the others of a layout.

    Raises: ValueError where the part lacks them.
    """
    if missing := [f"model.{name}" for name in ("mixer", "others") if name not in config]:
        raise ValueError(f"{', '.join(missing)} is missing; start from config.default()")
    return {**config["others"], config["mixer"]["name"]: config["mixer"]}


def engine_fields(mixer: str) -> tuple[str, ...]:
    """Returns the names of a mixer's fields that are engines. Raises: ValueError for an unknown mixer."""
    return fields.engines(find_mixer(mixer))


def engine_of(mixer: Any) -> Engine | None:
    """Returns the engine on which the mixer of a `model.mixer` part trains; None: it is exact."""
    return presets.build(next((mixer[name] for name in engine_fields(mixer["name"])), None))


def is_causal(mixer: Part | Mapping[str, Any]) -> bool:
    """Says whether token i of a mixer's result depends on tokens $j <= i$ only, for a `model.mixer`.

    The layer says it, by a field or an attribute `causal`.

        >>> is_causal({"name": "attention", "causal": True}), is_causal({"name": "fourier"})
        (True, False)
    """
    return bool(getattr(mixer_factory(mixer)(), "causal", False))


def check_causal(config: Fields, reason: str) -> None:
    """Checks that the mixers of all blocks are causal.

    `build` calls this function for a head with the attribute `causal = True`, which predicts the next token.
    Tasks with answers in their own inputs call it, too.

    Args:
      config: the `model` part of the configuration.
      reason: the option that needs causal mixers, as NAME=VALUE.
    Raises: ValueError for a mixer that is not causal.
    """
    for name in dict.fromkeys(layout(config)):
        given = {"name": name, **mixers(config)[name]}
        if not is_causal(given):
            where = "mixer" if name == config["mixer"]["name"] else f"others.{name}"
            cure = f"set model.{where}.causal=True" if "causal" in given else can_be_causal()
            raise ValueError(f"{reason} needs causal mixers, not {name!r}; {cure}")


def can_be_causal() -> str:
    """Returns the advice for a mixer that cannot be causal, since it transforms all tokens at once."""
    return f"choose one of {', '.join(name for name, layer in MIXERS.items() if hasattr(layer, 'causal'))}"


def mixer_factory(config: Part | Mapping[str, Any]) -> Callable[..., nn.Module]:
    """Returns the factory of a mixer, for a `model.mixer` part.

    Raises: ValueError for an unknown mixer, and for values that its fields cannot have.
    """
    values = dict(config)
    name = values.pop("name")
    layer = find_mixer(name)
    known = [field.name for field in fields.options(layer)]
    unknown = set(values) - set(known)
    if "causal" in unknown:
        raise ValueError(f"mixer {name!r} has no option causal; {can_be_causal()}")
    if unknown:
        raise ValueError(
            f"mixer {name!r} has no {', '.join(sorted(unknown))}; it has {', '.join(known) or 'no fields'}: "
            f"start from config.default(mixer={name!r})"
        )
    for key, value in values.items():
        if key in fields.engines(layer):
            values[key] = presets.build(value)
        elif message := unusable(value):
            raise ValueError(f"model.mixer.{key}={value!r} {message}")
        elif fields.source(layer, key) == fields.POSITIONS and value < 1:
            raise ValueError(f"model.mixer.{key}={value!r} must be at least 1")
        elif isinstance(value, list):
            values[key] = tuple(value)
    return partial(layer, **values)
