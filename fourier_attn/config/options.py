"""Declares the options of a run, its optimizer and its training, and the recipes.

Each other package owns its options: `data` and `model` their `KNOBS`, a task its defaults, a mixer the
fields of its layer, an engine its parameters.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from fourier_attn.data.knobs import KNOBS as DATA
from fourier_attn.data.knobs import DataConfig
from fourier_attn.knobs import (
    Knob,
    Part,
    at_least,
    at_most,
    between,
    knob,
    knobs_of,
    not_negative,
    one_of,
    positive,
    rate,
)
from fourier_attn.layers.encoder import REMAT
from fourier_attn.layers.fourier import OPTIONS
from fourier_attn.model import KNOBS as MODEL
from fourier_attn.model import ModelConfig


@runtime_checkable
class OptimConfig(Part, Protocol):
    """Declares the options of the optimizer.

    Within these ranges, an update is finite if the norm of the gradient is finite.
    """

    name: str = knob(
        "adamw", '"adam", "adamw", "lion", "adafactor", "sgd", "muon", or a registered optimizer'
    )
    learning_rate: float = knob(5e-4, "peak learning rate", at_most(1e3, positive))
    schedule: str = knob(
        "cosine",
        'learning rate after the warm-up: "cosine" or "linear" decay to zero, or "constant"',
        one_of("cosine", "linear", "constant"),
    )
    warmup_steps: int = knob(
        100, "steps of the linear warm-up to the peak learning rate; 0: none", at_least(0, "none")
    )
    warmup_share: float = knob(
        0.0, "length of the warm-up as a share of all steps; 0: use `warmup_steps`", rate
    )
    steps: int = knob(
        10_000, "length of the schedule; a run sets it to epochs x steps per epoch", at_least(1)
    )
    weight_decay: float = knob(
        0.01,
        'decoupled weight decay of matrices, multiplied by the learning rate; "adam" ignores it',
        at_most(1e3, not_negative),
    )
    clip_norm: float = knob(1.0, "largest global norm of the gradient; 0: no clipping", not_negative)
    b1: float = knob(
        0.9,
        'decay of the mean of the gradient (Adam); for "lion" the weight of that mean in an update',
        between(0.0, 0.99999),
    )
    b2: float = knob(
        0.999,
        'decay of the mean of the squared gradient (Adam); for "lion" that of the mean of the gradient, '
        "usually 0.99",
        between(0.0, 0.99999),
    )
    eps: float = knob(
        1e-8,
        'added to the root of the mean squared gradient (Adam); for "adafactor" $eps^2$ is added to the '
        'squared gradient; for "muon" eps is added to the norm of a matrix',
        between(1e-15, 1.0),
    )
    momentum: float = knob(
        0.9, 'decay of the sum of gradients ("sgd"), or of their mean ("muon")', between(0.0, 0.99999)
    )


@runtime_checkable
class TrainConfig(Part, Protocol):
    """Declares the options of the training."""

    epochs: int = knob(3, "passes over the training set", at_least(1, most=1_000_000))
    self_pretrain: int = knob(
        0,
        "epochs of masked language modelling on the task's own training inputs before the task; 0: none",
        at_least(0, "none"),
    )
    patience: int = knob(
        3,
        "early stopping: epochs without a better `monitor` before the run stops; 0: never stop",
        at_least(0, "never stop"),
    )
    monitor: str = knob(
        "", 'validation metric that chooses the best weights; "": the first metric of the task'
    )
    class_weights: str = knob(
        "",
        'weights of the classes in the training loss: "balanced", one number per class ("1,3"), or "NAME=3"; '
        '"": all are 1',
    )
    label_smoothing: float = knob(0.0, "label smoothing of the training loss", rate)
    seeds: int = knob(
        1,
        "networks trained together on the same batches; metrics are their mean and deviation",
        at_least(1),
    )
    mesh: str = knob(
        "",
        'number of devices along each axis, for example "data=4,fsdp=2" or "data=2,tokens=4"; "": first '
        "seeds, then data",
    )
    accumulate: int = knob(
        1, "micro-batches per step; their gradients are accumulated to that of the whole batch", at_least(1)
    )
    fixed_parts: int = knob(
        0,
        "parts of each batch that are computed one by one and summed in a fixed order, for example 8; the "
        "parameters and metrics on 1, 2, 4 and 8 CPU devices are then equal bit for bit; 0: off",
        at_least(0, "off"),
    )
    remat: str = knob(
        "none",
        'rematerialisation: "none", or "block" to recompute the activations of each block in the backward '
        "pass, which saves memory and costs time",
        one_of(*REMAT),
    )
    log_every: int = knob(50, "steps between lines of training metrics", at_least(1))
    save_every: int = knob(500, "steps between checkpoints; each epoch also ends with one", at_least(1))
    skip_limit: int = knob(
        10,
        "consecutive non-finite updates after which the run returns to its last checkpoint once, then stops",
        at_least(1),
    )


@runtime_checkable
class Config(Part, Protocol):
    """Declares a complete configuration: the options of a run, and its four parts.

    Args:
      data, model, optim, train: options of the data, the network, the optimizer and the training.
    """

    seed: int = knob(0, "seed of initial weights, dropout and data order", at_least(0))
    init_from: str = knob(
        "",
        "pretrained weights, which also set the architecture: a run's directory, a file, or hf:owner/name",
    )
    init_padding: str = knob(
        "",
        'how mixers of the `init_from` weights treat padding (their option `padding`); "": unchanged',
        one_of("", *OPTIONS["padding"]),
    )
    data: DataConfig
    model: ModelConfig
    optim: OptimConfig
    train: TrainConfig


RUN, OPTIM, TRAIN = (knobs_of(part) for part in (Config, OptimConfig, TrainConfig))
PARTS: dict[str, Mapping[str, Knob]] = {"data": DATA, "model": MODEL, "optim": OPTIM, "train": TRAIN}
# Named sets of options that differ from the defaults.
# "articles": the articles give 20 epochs, learning rate 1e-4 and a warm-up over 10,000 examples. Adam, batch
# size 4, clipping at 1, 50,000 words and 512 tokens are defaults of the code that they built on.
# "small": two CPU cores can train several seeds of it on IMDb.
RECIPES: dict[str, Mapping[str, Any]] = {
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
    "small": {
        "data.vocab": 20_000,
        "data.length": 192,
        "data.buckets": (128,),
        "model.positions": 192,
        "model.depth": 2,
        "model.d": 64,
        "model.mlp": 256,
        "model.dropout": 0.3,
        "model.mixer_dropout": 0.3,
        "model.token_dropout": 0.3,
        "train.epochs": 4,
        "train.patience": 0,
    },
}
