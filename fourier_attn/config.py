"""Every knob of the project, with its default and its unit. The only list of knobs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from fourier_attn.optics import presets

Config = Any  # a ConfigDict, whose keys type checkers do not know

# Fourier-optical engines: exact without one, or a key of `fourier_attn.optics.presets.PRESETS`. A config that
# asks `default` for an engine has its parameters one by one: `fourier_attn.optics.Engine` lists them.
ENGINES = {
    "engine": None,  # computes the mixer's transforms
    "eval_engine": None,  # the one of evaluation; None: the same
}

MIXERS = {
    "attention": {
        "heads": 8,  # number of heads
        "head_width": "full",  # "full": every head as wide as the model (the articles); "split": d / heads
        "bias": False,  # of queries, keys and values (BERT)
        "dropout": 0.0,  # rate of the softmax weights
        "implementation": "xla",  # "xla", or "cudnn" on NVIDIA GPUs in bfloat16
    },
    "circular": {
        "heads": 8,  # number of heads, each as wide as the model
        "shape": None,  # None: tokens are signals of d values; (d1, d2): images, row by row
        "boundary": "circular",  # "circular", "zero" or "valid" (which needs combine_heads="project")
        "kernel": None,  # taps, (r,) or (r1, r2); None: as many as the token has (the articles)
        "combine_heads": "sum",  # "sum" of the heads (the articles), or "project"
        "method": "auto",  # "auto", "literal" (three correlations) or "fused" (the exact identity)
        **ENGINES,
    },
    "lambda": {
        "heads": 1,  # number of query heads; they share keys and values
        "k": 16,  # depth of queries and keys
        "u": 1,  # intra-depth: sets of keys and values that are summed
        "context": 3,  # taps of the position table, odd; 0: the whole length
        "length": 512,  # positions of a table for the whole length; `default` sets model.positions
        "grid": (),  # (rows, cols) of an image; (): a sequence
        "causal": False,  # position n sees m <= n only
        "norm": "layer",  # of queries and values: "layer" or "none" (the articles)
        "initializer": "fan_in",  # "fan_in", or "uniform" in (-0.5, 0.5) (the articles)
        "method": "auto",  # "auto", "shift", "matrix" or "fft"
        **ENGINES,
    },
    "fourier": {
        "norm": "none",  # "none": unnormalised, as published; "tokens": divided by sqrt(t)
        "padding": "invariant",  # or "own", "zero", "tokens"
        "lengths": (),  # of "invariant"; `train.run` sets the padded lengths of the data
        "method": "auto",  # "auto", "fft" (complex), "rfft" (half of the spectrum), "matmul" or "monarch"
        **ENGINES,
    },
    "global_filter": {
        "length": 512,  # tokens the filter is made for; `default` sets model.positions
        "grid": (),  # (rows, cols) of an image; (): a sequence
    },
    "afno": {
        "blocks": 8,  # blocks of features with weights of their own; they divide d
        "hidden": 1,  # hidden width of a block, as a multiple of its features
        "threshold": 0.01,  # by which new spectra are shrunk towards zero
        "modes": 1.0,  # share of the lowest frequencies that are kept
        "grid": (),  # (rows, cols) of an image; (): a sequence
    },
    "long_conv": {
        "length": 512,  # tokens of the longest sequence; `default` sets model.positions
        "boundary": "linear",  # "linear" (nothing outside the sequence) or "circular"
        "causal": False,  # token i sees tokens up to i only
    },
    "linear": {
        "length": 512,  # tokens of the longest sequence; `default` sets model.positions
        "padding": "zero",  # "zero", or "tokens": padding is tokens like any other (as published)
    },
    "random": {
        "length": 512,  # tokens of the longest sequence; `default` sets model.positions
        "seed": 0,  # of the fixed matrices
        "padding": "zero",  # as for "linear"
    },
    "identity": {},
    "token_conv": {"taps": 3},  # length of the filter, odd
}

# How to train, where it is not the defaults below. "articles": Adam at a constant rate after a warm-up, batch
# 4, 20 epochs, as the articles give it.
RECIPES = {
    "default": {},
    "articles": {
        "data.batch": 4,
        "optim.name": "adam",
        "optim.schedule": "constant",
        "optim.learning_rate": 1e-4,
        "optim.warmup_steps": 2500,
        "train.epochs": 20,
        "train.patience": 0,
    },
}

# What a task wants otherwise than the defaults below. One padded length for `reviews`: each bucket has
# frequencies of its own, which a short training on short texts does not learn.
TASKS = {
    "reviews": {
        "data.length": 48,
        "data.buckets": (),
        "model.positions": 48,
        "model.depth": 3,
        "model.d": 64,
        "model.mlp": 256,
        "optim.learning_rate": 1e-3,
        "train.epochs": 3,
    },
    "imdb": {},  # the articles' sizes are the defaults
    "pretraining": {"data.tokenizer": "bpe", "data.buckets": (), "data.holdout": 0.02},
    **{
        name: {
            "data.tokenizer": "bpe",
            "data.length": 128,
            "data.buckets": (32, 64),
            "optim.warmup_steps": 200,
        }
        for name in ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
    },
}


def default(
    mixer: str = "fourier",
    task: str = "reviews",
    recipe: str = "default",
    engine: str | None = None,
    others: Sequence[str] = (),
) -> Config:
    """The whole configuration for a mixer, a task and a recipe, locked: an unknown key is refused.

    Args:
      engine: the preset that the mixer's engine starts from, parameter by parameter; None is exact.
      others: further mixers, for a `model.layout` that names them.
    """
    for name in (mixer, *others):
        if name not in MIXERS:
            raise ValueError(f"mixer={name!r} is unknown; choose one of {', '.join(MIXERS)}")
    if task not in TASKS:
        raise ValueError(f"task={task!r} is unknown; choose one of {', '.join(TASKS)}")
    if engine is not None and "engine" not in MIXERS[mixer]:
        raise ValueError(f"mixer={mixer!r} has no transform that engine={engine!r} could compute; use None")
    if recipe not in RECIPES:
        raise ValueError(f"recipe={recipe!r} is unknown; choose one of {', '.join(RECIPES)}")
    config = ConfigDict()
    config.seed = 0  # of initial weights, dropout and the order of the data
    config.init_from = ""  # weights to start from, with their architecture: a run's directory, or a file
    config.init_padding = ""  # what padding is for their mixers, see those; "": as the weights have it
    config.data, config.model, config.optim = _data(task), _model(mixer, engine, others), _optim()
    config.train = _train()
    config.update_from_flattened_dict(TASKS[task])
    config.update_from_flattened_dict(RECIPES[recipe])
    return fit_length(config).lock()


def from_dict(values: dict[str, Any]) -> Config:
    """The configuration that was written as a dict."""
    return ConfigDict(values)


def fit_length(config: Config) -> Config:
    """Gives mixers that have a length of their own the model's number of positions."""
    for mixer in (config.model.mixer, *config.model.others.values()):
        if "length" in mixer:
            mixer.length = config.model.positions
    return config


def _data(task: str) -> ConfigDict:
    part = ConfigDict()
    part.task = task  # a key of fourier_attn.data.TASKS
    part.dir = ""  # where TFDS keeps its data sets; "": TFDS's own default
    part.tokenizer = (
        "words"  # "words", "unigram" or "bpe", lower-cased and fitted on train; "bytes"; or a file
    )
    part.vocab = 50_000  # at most so many words or pieces of words, the most frequent ones
    part.fit_examples = 0  # texts that a tokenizer is fitted on; 0: all of train
    part.length = 512  # tokens; longer texts are cut at the end
    part.buckets = (128, 192, 256, 384)  # padded lengths below `length`; (): all at `length`
    part.batch = 32  # examples
    part.holdout = 0.2  # share of train kept for validation where the data set has no such split
    part.split_seed = 0  # of that split; apart from `seed`, so that all runs share one split
    part.train_examples = 0  # use only the first so many of (shuffled) train; 0: all
    part.corpora = ()  # texts for the task "pretraining": TFDS names (name or name:split), or text files
    part.exclude = ()  # texts to keep out of these, as name:split or files
    part.mask_rate = 0.15  # share of tokens that a masked language model has to find
    return part


def _model(mixer: str, engine: str | None, others: Sequence[str]) -> ConfigDict:
    part = ConfigDict()
    part.vocab = 50_000  # rows of the token table; `train.run` sets the tokenizer's size
    part.classes = 2  # `train.run` sets the task's number
    part.types = 0  # rows of the table of types, which tell segments apart; 0: none
    part.positions = 512  # rows of the position table: the longest sequence, in tokens
    part.depth = 6  # blocks
    part.d = 128  # model width
    part.emb = 0  # width of the tables, normalised and projected to d (BERT, FNet); 0: d, as they are
    part.mlp = 512  # hidden width of the MLP
    part.activation = "relu"  # "relu" (the articles) or "gelu" (tanh form, FNet)
    part.norm_eps = 1e-5  # added to variances in normalisations (FNet: 1e-12)
    part.pooling = "mean"  # of the real tokens, or "first": tanh of a map of the first one (BERT, FNet)
    part.head = "classes"  # `train.run` sets the task's; all of them: fourier_attn.model.build
    part.dropout = 0.0  # rate, after the embedding and after every MLP
    part.mixer_dropout = 0.0  # rate, after every mixer (FNet: none)
    part.token_dropout = 0.0  # rate of whole tokens zeroed in training
    part.dtype = "float32"  # of the computation, or "bfloat16"; parameters are float32
    part.mixer = _mixer(mixer)
    part.mixer.name = mixer
    part.layout = ()  # the name of each block's mixer; (): all `mixer`; see family.placed
    part.others = ConfigDict({name: _mixer(name) for name in others})  # the other mixers of the layout
    if engine is not None:
        del part.mixer["engine"]
        part.mixer["engine"] = _engine(engine)
        if mixer == "fourier":
            part.mixer.padding = "zero"  # an engine has one size for all examples
    return part


def _mixer(name: str) -> ConfigDict:
    return ConfigDict({k: placeholder(str) if k in ENGINES else v for k, v in MIXERS[name].items()})


def _engine(preset: str) -> ConfigDict:
    """The parameters of a preset; those that are None can be set, too."""
    values, part = presets.preset(preset), ConfigDict()
    kinds = {"int | None": int, "float | None": float, "tuple[float, float] | None": tuple}
    for field in dataclasses.fields(values):
        value, kind = getattr(values, field.name), kinds.get(str(field.type))
        if field.name != "hardware":  # a function is no configuration
            part[field.name] = placeholder(kind) if value is None and kind else value
    return part


def _optim() -> ConfigDict:
    part = ConfigDict()
    part.name = "adamw"  # "adam" or "adamw"
    part.learning_rate = 5e-4  # at its peak
    part.schedule = "cosine"  # after the warm-up: "cosine" or "linear" to zero, or "constant"
    part.warmup_steps = 100  # linear, to the peak
    part.steps = 10_000  # of the whole schedule; `train.run` sets epochs x steps per epoch
    part.weight_decay = 0.01  # decoupled, on matrices only ("adamw")
    part.clip_norm = 1.0  # global norm of the gradient; 0: not clipped
    part.b1 = 0.9
    part.b2 = 0.999
    part.eps = 1e-8
    return part


def _train() -> ConfigDict:
    part = ConfigDict()
    part.epochs = 3
    part.patience = 3  # epochs without a better validation accuracy before stopping; 0: never stop
    part.seeds = 1  # networks trained at once on the same batches: mean and deviation from one run
    part.accumulate = 1  # micro-batches per step; the gradient is that of the whole batch
    part.log_every = 50  # steps
    part.save_every = 500  # steps between checkpoints, besides one per epoch
    return part
