"""Class weights and label smoothing of the training loss."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import normal

from fourier_attn import config, data, train
from fourier_attn.train import class_loss
from fourier_attn.train.class_loss import balanced, class_weights, parsed, training_objective
from fourier_attn.train.losses import OBJECTIVES, Objective

NAMES = ("cat", "dog", "a=b")
WEIGHTS = np.array([0.5, 3.0, 2.0])


def log_softmax(x: Any) -> np.ndarray:
    x = np.asarray(x, np.float64)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def batch_of(head: str) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Logits and a batch whose last example does not count; of tokens one place has no label."""
    if head == "tokens":
        labels, logits = np.array([[0, 1], [2, -100], [1, 1]]), normal(3, 2, 3)
    else:
        labels, logits = np.array([0, 2, 1]), normal(3, 3)
    batch = {"label": jnp.asarray(labels, jnp.int32), "weight": jnp.array([1.0, 1.0, 0.0])}
    if head == "mixed":
        batch |= {"second_label": jnp.array([1, 0, 2], jnp.int32), "share": jnp.array([0.7, 1.0, 0.5])}
    return logits, batch


def written_out(
    logits: Any, batch: dict[str, Any], weights: np.ndarray, smoothing: float
) -> tuple[float, float]:
    """The sum of v l and of v, place by place."""
    log_p = log_softmax(logits).reshape(-1, 3)
    label = np.asarray(batch["label"])
    counts = np.repeat(np.asarray(batch["weight"]), label.size // len(batch["weight"])) * (label.ravel() >= 0)
    shares = np.asarray(batch.get("share", np.ones(label.shape))).ravel()
    second = np.asarray(batch.get("second_label", label)).ravel()
    loss = total = 0.0
    for p, one, two, count, share in zip(log_p, label.ravel(), second, counts, shares, strict=True):
        for known, part in ((max(one, 0), share), (max(two, 0), 1 - share)):
            v = weights[known] * count * part
            loss += v * (-(1 - smoothing) * p[known] - smoothing * p.mean())
            total += v
    return loss, total


def loss_of(objective: Objective, logits: jax.Array, batch: dict[str, Any]) -> jax.Array:
    return objective.loss(objective.sums(logits, batch), objective.counts(batch))


@pytest.mark.parametrize("head", ["classes", "mixed", "tokens"])
@pytest.mark.parametrize(("weights", "smoothing"), [(WEIGHTS, 0.0), (None, 0.1), (WEIGHTS, 0.3)])
def test_is_the_definition(head: str, weights: np.ndarray | None, smoothing: float) -> None:
    """The loss, its divisor, and the gradient by central differences of the loop."""
    logits, batch = batch_of(head)
    objective = training_objective("classes" if head == "mixed" else head, weights, smoothing)
    weights = np.ones(3) if weights is None else weights
    sums = objective.sums(logits, batch)
    loss, total = written_out(logits, batch, weights, smoothing)
    np.testing.assert_allclose(sums["loss"], [loss, total], rtol=1e-5)
    assert float(objective.counts(batch)["loss"]) == pytest.approx(total)
    plain = OBJECTIVES["tokens" if head == "tokens" else "classes"].sums(logits, batch)
    np.testing.assert_array_equal(sums["accuracy"], plain["accuracy"])
    slope, step = np.asarray(jax.grad(loss_of, 1)(objective, logits, batch)), 1e-5
    for place in np.ndindex(*logits.shape):
        values = []
        for side in (step, -step):
            moved = np.asarray(logits, np.float64).copy()
            moved[place] += side
            values.append(written_out(moved, batch, weights, smoothing)[0] / total)
        assert slope[place] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-6)


def test_smoothing_is_that_of_optax() -> None:
    logits, label = normal(5, 4), jnp.array([0, 1, 2, 3, 0], jnp.int32)
    peer = optax.softmax_cross_entropy(logits, optax.smooth_labels(jax.nn.one_hot(label, 4), 0.2))
    np.testing.assert_allclose(class_loss.smoothed_cross_entropy(logits, label, 0.2), peer, rtol=1e-5)


def test_parts_of_a_batch_have_the_gradient_of_the_whole() -> None:
    """The divisor is that of the whole batch, as with `train.accumulate`."""
    logits, batch = batch_of("classes")
    objective = training_objective("classes", WEIGHTS, 0.1)
    counts = objective.counts(batch)
    parts = [jax.tree.map(lambda x, i=i: x[i : i + 1], (logits, batch)) for i in range(3)]
    summed = sum(float(objective.loss(objective.sums(*part), counts)) for part in parts)
    assert summed == pytest.approx(float(loss_of(objective, logits, batch)), rel=1e-6)


def test_without_options_the_loss_is_the_plain_one() -> None:
    assert training_objective("classes") is OBJECTIVES["classes"]


def test_balanced_weights() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.random.default_rng(0).choice(3, 50, p=[0.7, 0.1, 0.2])
    peer = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    np.testing.assert_allclose(balanced(labels, 3), peer)
    tokens = np.array([[0, 0, -100], [0, 1, -100]])  # no class 2
    np.testing.assert_allclose(balanced(tokens, 3), [4 / 6, 4 / 2, 1])
    assert class_weights("", NAMES, labels) is None


def test_weights_by_name_or_in_order() -> None:
    np.testing.assert_array_equal(parsed("dog=3, a=b=0.5", NAMES), [1, 3, 0.5])
    np.testing.assert_array_equal(parsed("1,3,0.5", NAMES), [1, 3, 0.5])
    assert class_loss.describe(WEIGHTS, 0.1, NAMES) == [
        "loss        class weights cat 0.5, dog 3, a=b 2; label smoothing 0.1, in training only"
    ]
    assert class_loss.describe(None, 0.0, NAMES) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cow=2", "'cow' is not a class; choose from cat, dog, a=b"),
        ("dog=2,3", "'3' is not a class; choose from cat, dog, a=b"),
        ("1,3", "must be 'balanced', a number for each of the 3 classes cat, dog, a=b, or NAME=NUMBER"),
        ("balance", "must be 'balanced', a number"),
        ("dog=1,dog=2", "contains the class 'dog' twice; give it once"),
        *(
            (f"1,1,{bad}", f"'{bad}' must be a number from 1e-06 to 1e\\+06")
            for bad in ("0", "-1", "nan", "x")
        ),
    ],
)
def test_what_are_no_weights(text: str, said: str) -> None:
    c = config.default()
    c.train.class_weights = text
    with pytest.raises(ValueError, match=f"train.class_weights='{text}'.*{said}"):
        class_loss.check_options(c.train, data.Task("", NAMES))


@pytest.mark.parametrize("options", [{"class_weights": "balanced"}, {"label_smoothing": 0.1}])
@pytest.mark.parametrize("task", ["stsb", "pretraining"])
def test_only_classes_have_weights(options: dict[str, Any], task: str) -> None:
    c = config.default(task=task)
    c.train.update(options)
    with pytest.raises(ValueError, match=r"needs a task with classes, but this one has the head"):
        class_loss.check(c)


@pytest.mark.usefixtures("standard_promotion")
def test_own_tables_say_their_classes_when_they_are_read(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "".join(f"word {i},{'ab'[i % 2]}\n" for i in range(40)))
    c = config.default(task="files")
    c.data.train, c.train.class_weights, c.data.tokenizer = str(table), "c=2", "words"
    class_loss.check(c)
    with pytest.raises(ValueError, match="'c' is not a class; choose from a, b"):
        train.run(c, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_run_reports_the_weighted_loss_of_training_and_the_plain_one_of_validation(
    toy: config.Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At rate 1e-12 the network stays as it is, so that both losses are known from one evaluation."""
    from fourier_attn.train.rundir.metrics_log import read_lines

    toy.optim.learning_rate, toy.train.epochs = 1e-12, 1
    train.run(toy, tmp_path / "plain")
    toy.train.class_weights, toy.train.label_smoothing = "negative=5", 0.5
    train.run(toy, tmp_path / "weighted")
    assert "class weights negative 5, positive 1; label smoothing 0.5" in capsys.readouterr().out
    plain, weighted = (
        {line["split"]: line["loss"] for line in read_lines(tmp_path / name)}
        for name in ("plain", "weighted")
    )
    assert weighted["validation"] == pytest.approx(plain["validation"], rel=1e-4)
    assert abs(weighted["train"] - plain["train"]) > 1e-3
