"""Every knob of the project, with its default and its unit. The only list of knobs."""

import dataclasses
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
        "implementation": "xla",  # "xla", or "cudnn" on NVIDIA GPUs in bfloat16
    },
    "circular": {
        "heads": 8,  # number of heads, each as wide as the model
        "shape": None,  # None: tokens are signals of d values; (d1, d2): images, row by row
        "boundary": "circular",  # "circular", "zero" or "valid" (which needs merge="project")
        "kernel": None,  # taps, (r,) or (r1, r2); None: as many as the token has (the articles)
        "merge": "sum",  # "sum" of the heads (the articles), or "project"
        "method": "auto",  # "auto", "literal" (three correlations) or "merged" (the exact identity)
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
        "method": "auto",  # "auto", "fft" (complex) or "rfft" (half of the spectrum)
        **ENGINES,
    },
    "linear": {"length": 512},  # tokens of the longest sequence; `default` sets model.positions
    "random": {
        "length": 512,  # tokens of the longest sequence; `default` sets model.positions
        "seed": 0,  # of the fixed matrices
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
}


def default(
    mixer: str = "fourier", task: str = "reviews", recipe: str = "default", engine: str | None = None
) -> Config:
    """The whole configuration for a mixer, a task and a recipe, locked: an unknown key is refused.

    Args:
      engine: the preset that the mixer's engine starts from, parameter by parameter; None is exact.
    """
    if mixer not in MIXERS:
        raise ValueError(f"mixer={mixer!r} is unknown; choose one of {', '.join(MIXERS)}")
    if task not in TASKS:
        raise ValueError(f"task={task!r} is unknown; choose one of {', '.join(TASKS)}")
    if engine is not None and "engine" not in MIXERS[mixer]:
        raise ValueError(f"mixer={mixer!r} has no transform that engine={engine!r} could compute; use None")
    if recipe not in RECIPES:
        raise ValueError(f"recipe={recipe!r} is unknown; choose one of {', '.join(RECIPES)}")
    config = ConfigDict()
    config.seed = 0  # of initial weights, dropout and the order of the data
    config.data, config.model, config.optim = _data(task), _model(mixer, engine), _optim()
    config.train = _train()
    config.update_from_flattened_dict(TASKS[task])
    config.update_from_flattened_dict(RECIPES[recipe])
    return _fitted(config).lock()


def from_dict(values: dict[str, Any]) -> Config:
    """The configuration that was written as a dict."""
    return ConfigDict(values)


def _fitted(config: Config) -> Config:
    """A mixer that has a length of its own gets the model's."""
    if "length" in config.model.mixer:
        config.model.mixer.length = config.model.positions
    return config


def _data(task: str) -> ConfigDict:
    part = ConfigDict()
    part.task = task  # a key of fourier_attn.data.TASKS
    part.dir = ""  # where TFDS keeps its data sets; "": TFDS's own default
    part.tokenizer = "words"  # "words" (lower-cased, fitted on train) or "bytes" (UTF-8)
    part.vocab = 50_000  # at most so many words, the most frequent ones
    part.length = 512  # tokens; longer texts are cut at the end
    part.buckets = (128, 192, 256, 384)  # padded lengths below `length`; (): all at `length`
    part.batch = 32  # examples
    part.holdout = 0.2  # share of train kept for validation where the data set has no such split
    part.split_seed = 0  # of that split; apart from `seed`, so that all runs share one split
    part.train_examples = 0  # use only the first so many of (shuffled) train; 0: all
    return part


def _model(mixer: str, engine: str | None) -> ConfigDict:
    part = ConfigDict()
    part.vocab = 50_000  # rows of the token table; `train.run` sets the tokenizer's size
    part.classes = 2  # `train.run` sets the task's number
    part.positions = 512  # rows of the position table: the longest sequence, in tokens
    part.depth = 6  # blocks
    part.d = 128  # model width
    part.mlp = 512  # hidden width of the MLP
    part.activation = "relu"  # "relu" (the articles) or "gelu" (tanh form, FNet)
    part.dropout = 0.0  # rate, after the embedding and after every sublayer
    part.token_dropout = 0.0  # rate of whole tokens zeroed in training
    part.dtype = "float32"  # of the computation, or "bfloat16"; parameters are float32
    part.mixer = ConfigDict({"name": mixer})
    for key, value in MIXERS[mixer].items():
        part.mixer[key] = placeholder(str) if key in ENGINES else value
    if engine is not None:
        del part.mixer["engine"]
        part.mixer["engine"] = _engine(engine)
    return part


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
    part.schedule = "cosine"  # after the warm-up: "cosine" to zero, or "constant"
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
