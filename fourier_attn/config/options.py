"""The options of a run, of its optimiser and its training, and recipes.

The rooms below own their options: data its `KNOBS` and each task its defaults, the model its `KNOBS`, a mixer
the fields of its layer, an engine its parameters. Those of the optimiser and of the training stand here.
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

    With their ranges an update is finite if the norm of the gradient is.
    """

    name: str = knob(
        "adamw", '"adam", "adamw", "lion", "adafactor", "sgd", "muon", or one that is registered'
    )
    learning_rate: float = knob(5e-4, "at its peak", at_most(1e3, positive))
    schedule: str = knob(
        "cosine",
        'after the warm-up: "cosine" or "linear" to zero, or "constant"',
        one_of("cosine", "linear", "constant"),
    )
    warmup_steps: int = knob(100, "linear, to the peak; 0: none", at_least(0, "none"))
    warmup_share: float = knob(0.0, "share of the schedule; 0: `warmup_steps` counts", rate)
    steps: int = knob(10_000, "of the whole schedule; a run sets epochs x steps per epoch", at_least(1))
    weight_decay: float = knob(
        0.01, 'times the rate, of matrices only; "adam" has none', at_most(1e3, not_negative)
    )
    clip_norm: float = knob(1.0, "global norm of the gradient; 0: not clipped", not_negative)
    b1: float = knob(
        0.9,
        'decay of the mean of the gradient (Adam); "lion": its weight in an update',
        between(0.0, 0.99999),
    )
    b2: float = knob(
        0.999,
        'decay of the mean of the squared gradient (Adam); "lion": of the mean of the gradient, usually 0.99',
        between(0.0, 0.99999),
    )
    eps: float = knob(
        1e-8,
        'added to the root of the mean squared gradient (Adam); "adafactor": eps^2 is added to the squared '
        'gradient; "muon": to the norm of a matrix',
        between(1e-15, 1.0),
    )
    momentum: float = knob(
        0.9, 'decay of the sum of gradients ("sgd"), or of their mean ("muon")', between(0.0, 0.99999)
    )


@runtime_checkable
class TrainConfig(Part, Protocol):
    """Declares the options of the training."""

    epochs: int = knob(3, "passes over train", at_least(1, most=1_000_000))
    self_pretrain: int = knob(
        0,
        "epochs of masked language modelling on the task's own training inputs before the task; 0: none",
        at_least(0, "none"),
    )
    patience: int = knob(
        3, "epochs without a better `monitor` before stopping; 0: never stop", at_least(0, "never stop")
    )
    monitor: str = knob(
        "", 'the metric on validation that chooses the best weights; "": the task\'s first one'
    )
    class_weights: str = knob(
        "", 'in the training loss: "balanced", a number for each class, "1,3", or "NAME=3"; "": all are 1'
    )
    label_smoothing: float = knob(0.0, "share of the training loss that asks for equal probabilities", rate)
    seeds: int = knob(
        1, "networks trained at once on the same batches: mean and deviation from one run", at_least(1)
    )
    mesh: str = knob("", 'devices along each axis, as "data=4,fsdp=2"; "": by seed, then by data')
    accumulate: int = knob(1, "micro-batches per step; the gradient is that of the whole batch", at_least(1))
    remat: str = knob(
        "none",
        'activations that the backward pass computes again: "none", or those in each "block": less memory, '
        "more time",
        one_of(*REMAT),
    )
    log_every: int = knob(50, "steps", at_least(1))
    save_every: int = knob(500, "steps between checkpoints, besides one per epoch", at_least(1))
    skip_limit: int = knob(
        10,
        "updates in a row that are not finite, after which a run goes back once and then stops",
        at_least(1),
    )


@runtime_checkable
class Config(Part, Protocol):
    """Declares a whole configuration: the options of a run, and its parts."""

    seed: int = knob(0, "of initial weights, dropout and the order of the data", at_least(0))
    init_from: str = knob(
        "", "weights to start from, with their architecture: a run's directory, a file, or hf:owner/name"
    )
    init_padding: str = knob(
        "",
        'what padding is for the mixers of `init_from`, see those; "": as the weights have it',
        one_of("", *OPTIONS["padding"]),
    )
    data: DataConfig
    model: ModelConfig
    optim: OptimConfig
    train: TrainConfig


RUN, OPTIM, TRAIN = (knobs_of(part) for part in (Config, OptimConfig, TrainConfig))
PARTS: dict[str, Mapping[str, Knob]] = {"data": DATA, "model": MODEL, "optim": OPTIM, "train": TRAIN}
# How to train, where it is not the defaults. "articles": the articles give 20 epochs, rate 1e-4 and a warm-up
# over 10,000 examples; Adam, batch 4, clipping at 1, 50,000 words and 512 tokens are defaults of the code
# they built on. "small": what two CPU cores can repeat with seeds on IMDb.
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
