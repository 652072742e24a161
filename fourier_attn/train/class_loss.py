"""Builds the training loss of classes, with class weights and label smoothing."""

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
LEAST, MOST = 1e-6, 1e6  # range of a class weight
SHOWN = 20  # largest number of class weights that are printed


def training_objective(head: str, weights: np.ndarray | None = None, smoothing: float = 0.0) -> Objective:
    """Returns the objective of a head, with class weights and label smoothing in its training loss.

        L = (sum_i v_i l_i) / (sum_i v_i),    v_i = weights[y_i]
        l_i = -(1 - s) log p_i[y_i] - s mean_c log p_i[c]

    The sum is over examples, or over all tokens with a label. A mixed image (mixup, cutmix) counts with both
    labels, each with its share. The accuracy is not weighted.

    Args:
      head: a key of `OBJECTIVES` whose answers are classes.
      weights: weights of the classes (c,); None: all are 1.
      smoothing: s, from 0 to below 1; default 0.
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
    """Returns pairs of labels and their weights in the batch: one pair, or two for mixed images."""
    label, weight = batch["label"], batch["weight"]
    if label.ndim > 1:
        return [(jnp.maximum(label, 0), asked(batch))]
    if "second_label" in batch:
        return [(label, weight * batch["share"]), (batch["second_label"], weight * (1 - batch["share"]))]
    return [(label, weight)]


def smoothed_cross_entropy(
    logits: Float[Array, "*b c"], label: Int[Array, "*b"], smoothing: float
) -> Float[Array, "*b"]:
    """Returns the smoothed cross-entropy of each label, in nats.

        l = -(1 - s) log p[label] - s mean_c log p[c]

    Args:
      logits: (*b, c).
      label: indices of classes (*b,).
      smoothing: s, from 0 to below 1.
    """
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, label)
    uniform = jax.nn.logsumexp(logits, axis=-1) - logits.mean(axis=-1)
    return (1 - smoothing) * loss + smoothing * uniform if smoothing else loss


def check(config: Config) -> None:
    """Checks the options before the data are read.

    The classes of custom tables are known only after reading them, so that these are checked later.

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
                f"train.{name}={value!r} needs examples with one class each, but data.multi_label=True "
                "allows several; leave it out"
            )
        if value and task.head not in CLASSES:
            raise ValueError(
                f"train.{name}={value!r} needs a task with classes, but this one has the head {task.head!r}; "
                "leave it out"
            )
    if options.class_weights not in ("", BALANCED):
        parsed(options.class_weights, task.labels)


def class_weights(text: str, names: Sequence[str], labels: np.ndarray) -> np.ndarray | None:
    """Returns the class weights (c,) that `train.class_weights` describes.

    Args:
      text: "balanced", "1,3", or "NAME=3"; "": no weights, so that the result is None.
      names: names of the classes.
      labels: labels of the training set.
    Raises: ValueError for an invalid text.
    """
    if not text:
        return None
    return balanced(labels, len(names)) if text == BALANCED else parsed(text, names)


def balanced(labels: np.ndarray, classes: int) -> np.ndarray:
    """Returns weights (c,) that make all classes count the same: $w_k = n / (m n_k)$.

    There are n labels, $n_k$ of class k, and m classes with any label. Classes without labels get the weight
    1, and negative labels are ignored.
    """
    counts = np.bincount(labels[labels >= 0], minlength=classes).astype(np.float64)
    known = counts > 0
    return np.where(known, counts.sum() / (known.sum() * np.maximum(counts, 1)), 1.0)


def parsed(text: str, names: Sequence[str]) -> np.ndarray:
    """Returns the weight of each class from "1,3" or "NAME=3"; classes without a weight get 1.

    Raises: ValueError.
    """
    items = [item.strip() for item in text.split(",")]
    known, given = f"{', '.join(names)}"[:200], f"train.class_weights={text!r}"
    if not any("=" in item for item in items):
        if len(items) != len(names):
            raise ValueError(
                f"{given} must be {BALANCED!r}, a number for each of the {len(names)} classes {known}, or "
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
            raise ValueError(f"{given} contains the class {name!r} twice; give it once")
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
    """Returns a line about the training loss; no line for the plain cross-entropy.

    Args:
      weights: weights of the classes (c,); None: all are 1.
      smoothing: label smoothing, from 0 to below 1.
      names: names of the classes.
    """
    said = [f"label smoothing {smoothing:g}"] if smoothing else []
    if weights is not None:
        shown = [f"{name} {weight:.3g}" for name, weight in zip(names, weights, strict=True)]
        said.insert(0, f"class weights {', '.join(shown[:SHOWN])}{', ..' if len(shown) > SHOWN else ''}")
    return [f"loss        {'; '.join(said)}, in training only"] if said else []
