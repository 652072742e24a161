"""Defines the training losses and the evaluation metrics of each kind of head."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from fourier_attn.data.skills import IGNORED
from fourier_attn.train.metrics import Sums

Batch = Mapping[str, Any]


class Objective(NamedTuple):
    """Defines the loss, the metrics and the answers of a head.

    Args:
      names: names of the sums.
      losses: for each loss a function of a batch that returns the weights of its examples; training minimises
        the sum of the losses' weighted means.
      sums: (outputs, batch) -> sums and counts, including the losses.
      answers: outputs -> an answer for each example: class probabilities (b, c) or (b, t, c), logits of the
        ends of answers (b, p, 2), or scores (b,).
      written: whether a run writes the answer of each example; default True.
    """

    names: tuple[str, ...]
    losses: Mapping[str, Callable[[Batch], Array]]
    sums: Callable[[Any, Batch], Sums]
    answers: Callable[[Any], Array]
    written: bool = True

    def loss(self, sums: Sums, counts: Mapping[str, Array]) -> Array:
        """Returns the sum of the losses' means from their `sums` and the `counts` of the whole batch."""
        return sum((sums[name][0] / counts[name] for name in self.losses), start=jnp.zeros(()))

    def counts(self, batch: Batch) -> dict[str, Array]:
        """Returns the divisor of each loss for a batch."""
        return self.divisors(self.weights(batch))

    def weights(self, batch: Batch) -> dict[str, Array]:
        """Returns the sum of the weights in a batch, or in a part of one, for each loss."""
        return {name: of(batch).sum() for name, of in self.losses.items()}

    def divisors(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the divisor of each loss from the `weights` of the whole batch, positive without any."""
        return {name: jnp.maximum(total, 1e-6) for name, total in weights.items()}


def sum_and_count(values: Float[Array, "..."], weight: Float[Array, "..."]) -> Float[Array, " 2"]:
    """Returns the weighted sum of `values`, and the sum of the weights."""
    return jnp.stack([jnp.vdot(values, weight), weight.sum()])


def class_sums(
    logits: Float[Array, "*b c"], label: Int[Array, "*b"], weight: Float[Array, "*b"]
) -> tuple[Float[Array, " 2"], Float[Array, " 2"]]:
    """Returns weighted sums and counts (2,) of the cross-entropy, in nats, and of the accuracy.

    Args:
      logits: (*b, c).
      label: indices of classes (*b,).
      weight: weights of the examples (*b,); 0: not counted.
    """
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, label)
    return sum_and_count(loss, weight), sum_and_count(is_largest(logits, label), weight)


def is_largest(logits: Float[Array, "*b c"], label: Int[Array, "*b"]) -> Float[Array, "*b"]:
    """Returns 1 where the label is the first of the largest logits, else 0.

    This equals $argmax(logits) = label$, but is faster on CPUs: it saves a fifth of a training step with
    8,000 classes.

        >>> is_largest(jnp.array([[1.0, 2.0, 2.0], [1.0, 2.0, 2.0]]), jnp.array([1, 2]))
        Array([1., 0.], dtype=float32)
    """
    own = jnp.take_along_axis(logits, label[..., None], axis=-1)
    place = jnp.arange(logits.shape[-1]).reshape((1,) * label.ndim + (-1,))
    before = place < label[..., None]
    return jnp.all(jnp.where(before, logits < own, logits <= own), axis=-1).astype(jnp.float32)


def asked(batch: Batch) -> Float[Array, "b p"]:
    """Returns the weight of each place: that of its example, or 0 if the label is `IGNORED`."""
    return jnp.where(batch["label"] == IGNORED, 0.0, batch["weight"][:, None])


def _classes(logits: Float[Array, "b c"], batch: Batch) -> Sums:
    """Sums loss and accuracy; for mixed images the loss uses both labels and the accuracy only the first."""
    loss, accuracy = class_sums(logits, batch["label"], batch["weight"])
    if "second_label" in batch:  # mixed images
        share = batch["share"]
        own_label, _ = class_sums(logits, batch["label"], batch["weight"] * share)
        other_label, _ = class_sums(logits, batch["second_label"], batch["weight"] * (1 - share))
        loss = own_label + other_label
    return {"loss": loss, "accuracy": accuracy}


def _tokens(logits: Float[Array, "b p c"], batch: Batch) -> Sums:
    """Sums loss and accuracy over all places with a label, which have equal weights."""
    sums = class_sums(logits, jnp.maximum(batch["label"], 0), asked(batch))
    return dict(zip(("loss", "accuracy"), sums, strict=True))


def _spans(logits: Float[Array, "b p 2"], batch: Batch) -> Sums:
    """Sums loss and accuracy over the first and the last token of each answer."""
    real = jnp.arange(logits.shape[1])[None] < batch["places"][:, None]
    scores = jnp.where(real[:, None], jnp.swapaxes(logits, 1, 2), -1e9)
    return dict(zip(BY_CLASS, class_sums(scores, batch["label"], _both(batch)), strict=True))


def _both(batch: Batch) -> Float[Array, "b 2"]:
    """Returns the weight of the first and of the last place of each answer."""
    return jnp.broadcast_to(batch["weight"][:, None], batch["label"].shape)


def _labels(logits: Float[Array, "b c"], batch: Batch) -> Sums:
    """Sums the binary cross-entropy of each example, in nats.

        l = -mean_c (y_c log(sigmoid(x_c)) + (1 - y_c) log(1 - sigmoid(x_c)))

    It is the mean over classes.
    """
    known = batch["label"].astype(jnp.float32)
    loss = optax.sigmoid_binary_cross_entropy(logits, known).mean(axis=-1)
    return {"loss": sum_and_count(loss, batch["weight"])}


def _score(score: Float[Array, " b"], batch: Batch) -> Sums:
    return {"loss": sum_and_count((score - batch["label"]) ** 2, batch["weight"])}


def _pretraining(outputs: dict[str, Array], batch: Batch) -> Sums:
    mlm = class_sums(outputs["mlm"], batch["mlm_labels"], batch["mlm_weights"])
    nsp = class_sums(outputs["nsp"], batch["label"], batch["weight"])
    return dict(zip(PRETRAINING, (*mlm, *nsp), strict=True))


def _next_tokens(logits: Float[Array, "b t v"], batch: Batch) -> Sums:
    """Sums loss and accuracy over tokens; `word_loss` is the same loss, divided by the number of words."""
    sums = _tokens(logits, batch)
    words = jnp.vdot(batch["words"], batch["weight"])
    return {**sums, "word_loss": jnp.stack([sums["loss"][0], words])}


def _unanswered(logits: Float[Array, "b p v"]) -> Float[Array, "b 0"]:
    """Returns empty answers, because the probabilities of all tokens of a split would fill the memory."""
    return jnp.zeros((len(logits), 0))


PRETRAINING = ("mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy")
BY_CLASS = ("loss", "accuracy")
EXAMPLES, MASKED = itemgetter("weight"), itemgetter("mlm_weights")  # weights in a batch

# The objective of each head.
OBJECTIVES: dict[str, Objective] = {
    "classes": Objective(BY_CLASS, {"loss": EXAMPLES}, _classes, jax.nn.softmax),
    "question": Objective(BY_CLASS, {"loss": EXAMPLES}, _classes, jax.nn.softmax),
    "labels": Objective(("loss",), {"loss": EXAMPLES}, _labels, jax.nn.sigmoid),
    "tokens": Objective(BY_CLASS, {"loss": asked}, _tokens, jax.nn.softmax),
    "autoencoder": Objective(BY_CLASS, {"loss": asked}, _tokens, jax.nn.softmax),
    "spans": Objective(BY_CLASS, {"loss": _both}, _spans, lambda logits: logits),
    "score": Objective(("loss",), {"loss": EXAMPLES}, _score, lambda score: score),
    "lm": Objective((*BY_CLASS, "word_loss"), {"loss": asked}, _next_tokens, _unanswered, written=False),
    "mlm": Objective(
        BY_CLASS,
        {"loss": asked},
        lambda outputs, batch: _tokens(outputs["mlm"], batch),
        lambda outputs: _unanswered(outputs["mlm"]),
        written=False,
    ),
    "pretraining": Objective(
        PRETRAINING,
        {"mlm_loss": MASKED, "sop_loss": EXAMPLES},
        _pretraining,
        lambda outputs: jax.nn.softmax(outputs["nsp"]),
        written=False,
    ),
}
