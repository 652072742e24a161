"""The loss of classes in training: class weights and label smoothing."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from fourier_attn.choices import choose
from fourier_attn.config import Config
from fourier_attn.config.options import TrainConfig
from fourier_attn.data import Task
from fourier_attn.data.tasks import OWN, task_of
from fourier_attn.train.losses import OBJECTIVES, Batch, Objective, asked
from fourier_attn.train.metrics import Sums
from fourier_attn.train.monitor import CLASSES

BALANCED = "balanced"
LEAST, MOST = 1e-6, 1e6  # of a weight
SHOWN = 20  # classes whose weights are printed


def training_objective(head: str, weights: np.ndarray | None = None, smoothing: float = 0.0) -> Objective:
    """Returns the objective of a head whose training loss is weighted and smoothed.

    L = sum_i v_i l_i / sum_i v_i with v_i = weights[y_i],
    l_i = -(1 - s) log p_i[y_i] - s mean_c log p_i[c], over the examples, or over all places with a label. An
    image that is mixed of two counts with both labels, each with its share. Accuracy is that without weights.

    Args:
      weights: of the classes (c); None: all are 1.
      smoothing: s, from 0 to below 1.
    """
    objective = OBJECTIVES[head]
    if weights is None and not smoothing:
        return objective

    def weight(label: Int[Array, "*b"]) -> Float[Array, "*b"]:
        if weights is None:
            return jnp.ones(label.shape, jnp.float32)
        return jnp.asarray(weights, jnp.float32)[label]

    def weighted(batch: Batch) -> Float[Array, "*b"]:
        parts = [weight(label) * share for label, share in _targets(batch)]
        return sum(parts[1:], start=parts[0])

    def sums(logits: Float[Array, "*b c"], batch: Batch) -> Sums:
        losses = [
            jnp.vdot(smoothed_cross_entropy(logits, label, smoothing), weight(label) * share)
            for label, share in _targets(batch)
        ]
        loss = jnp.stack([sum(losses[1:], start=losses[0]), weighted(batch).sum()])
        return {**objective.sums(logits, batch), "loss": loss}

    return objective._replace(losses={"loss": weighted}, sums=sums)


def _targets(batch: Batch) -> list[tuple[Array, Array]]:
    """Returns labels with the weight of each in the batch: one, or two of mixed images."""
    label, weight = batch["label"], batch["weight"]
    if label.ndim > 1:
        return [(jnp.maximum(label, 0), asked(batch))]
    if "second_label" in batch:
        return [(label, weight * batch["share"]), (batch["second_label"], weight * (1 - batch["share"]))]
    return [(label, weight)]


def smoothed_cross_entropy(
    logits: Float[Array, "*b c"], label: Int[Array, "*b"], smoothing: float
) -> Float[Array, "*b"]:
    """Returns -(1 - s) log p[label] - s mean_c log p[c], in nats."""
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, label)
    uniform = jax.nn.logsumexp(logits, axis=-1) - logits.mean(axis=-1)
    return (1 - smoothing) * loss + smoothing * uniform if smoothing else loss


def check(config: Config) -> None:
    """Checks the options before the data are read; own tables first have to say what their classes are.

    Raises: ValueError.
    """
    task = task_of(config.data)
    if config.data.task not in OWN or config.data.labels or task.multi_label:
        check_options(config.train, task)


def check_options(options: TrainConfig, task: Task) -> None:
    """Checks that `train.class_weights` and `train.label_smoothing` fit the classes of a task.

    Raises: ValueError that names the classes.
    """
    given = {"class_weights": options.class_weights, "label_smoothing": options.label_smoothing}
    for name, value in given.items():
        if value and task.multi_label:
            raise ValueError(
                f"train.{name}={value!r} is for examples of one class each, and data.multi_label=True allows "
                "several; leave it out"
            )
        if value and task.head not in CLASSES:
            raise ValueError(
                f"train.{name}={value!r} is for tasks with classes, and this one has the head {task.head!r}; "
                "leave it out"
            )
    if options.class_weights not in ("", BALANCED):
        parsed(options.class_weights, task.labels)


def class_weights(text: str, names: Sequence[str], labels: np.ndarray) -> np.ndarray | None:
    """Returns the weight of each class (c), as `train.class_weights` says; None where it is empty.

    Args:
      labels: of train.
    Raises: ValueError.
    """
    if not text:
        return None
    return balanced(labels, len(names)) if text == BALANCED else parsed(text, names)


def balanced(labels: np.ndarray, classes: int) -> np.ndarray:
    """Returns w_k = n / (m n_k) for n labels, n_k of class k and m classes that have any; 1 for others.

    Negative labels are left out.
    """
    counts = np.bincount(labels[labels >= 0], minlength=classes).astype(np.float64)
    known = counts > 0
    return np.where(known, counts.sum() / (known.sum() * np.maximum(counts, 1)), 1.0)


def parsed(text: str, names: Sequence[str]) -> np.ndarray:
    """Returns the weight of each class from "1,3" or "NAME=3", where other classes weigh 1.

    Raises: ValueError.
    """
    items = [item.strip() for item in text.split(",")]
    known, given = f"{', '.join(names)}"[:200], f"train.class_weights={text!r}"
    if not any("=" in item for item in items):
        if len(items) != len(names):
            raise ValueError(
                f"{given} must be {BALANCED!r}, or a number for each of the {len(names)} classes {known}, or "
                "NAME=NUMBER"
            )
        return np.array([_number(given, item) for item in items])
    weights: dict[str, float] = {}
    for item in items:
        name, _, number = item.rpartition("=")
        if name not in names:
            cure = choose("from", [name or item], names)[:240]
            raise ValueError(f"{given}: {name or item!r} is not a class; {cure}")
        if name in weights:
            raise ValueError(f"{given} names the class {name!r} twice; name it once")
        weights[name] = _number(given, number)
    return np.array([weights.get(name, 1.0) for name in names])


def _number(given: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not LEAST <= value <= MOST:
        raise ValueError(f"{given}: {text!r} must be a number from {LEAST:g} to {MOST:g}")
    return value


def describe(weights: np.ndarray | None, smoothing: float, names: Sequence[str]) -> list[str]:
    """Returns the line about the training loss, none where it is the plain one."""
    said = [f"label smoothing {smoothing:g}"] if smoothing else []
    if weights is not None:
        shown = [f"{name} {weight:.3g}" for name, weight in zip(names, weights, strict=True)]
        said.insert(0, f"class weights {', '.join(shown[:SHOWN])}{', ..' if len(shown) > SHOWN else ''}")
    return [f"loss        {'; '.join(said)}, in training only"] if said else []
