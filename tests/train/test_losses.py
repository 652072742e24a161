import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import array, normal

from fourier_attn.data import TASKS
from fourier_attn.data.skills import IGNORED
from fourier_attn.train import metrics
from fourier_attn.train.evaluate import PERPLEXITIES, compute_metrics, summary
from fourier_attn.train.losses import OBJECTIVES, is_largest


def log_softmax(x: jax.Array) -> np.ndarray:
    x = np.asarray(x, np.float64)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_pretraining_is_the_sum_of_two_means() -> None:
    """Of the masked mlm_positions and of the windows, each over those of weight 1."""
    outputs = {"mlm": normal(3, 2, 5), "nsp": normal(3, 2, seed=1)}
    labels, order = np.array([[0, 4], [2, 2], [1, 3]]), np.array([1, 0, 1])
    mlm_positions = np.array([[1, 1], [1, 0], [0, 0]], np.float32)
    weight = np.array([1, 1, 0], np.float32)
    batch = {
        "mlm_labels": jnp.asarray(labels, jnp.int32),
        "mlm_weights": jnp.asarray(mlm_positions),
        "label": jnp.asarray(order, jnp.int32),
        "weight": jnp.asarray(weight),
    }
    objective = OBJECTIVES["pretraining"]
    sums = objective.sums(outputs, batch)
    mlm = -np.take_along_axis(log_softmax(outputs["mlm"]), labels[..., None], -1)[..., 0]
    nsp = -np.take_along_axis(log_softmax(outputs["nsp"]), order[:, None], -1)[:, 0]
    expected = {"mlm_loss": (mlm * mlm_positions).sum() / 3, "sop_loss": (nsp * weight).sum() / 2}
    found = metrics.mean(jax.device_get(sums))
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    right = np.asarray(outputs["mlm"]).argmax(-1) == labels
    assert found["mlm_accuracy"] == pytest.approx((right * mlm_positions).sum() / 3)
    loss = objective.loss(sums, objective.counts(batch))
    assert float(loss) == pytest.approx(sum(expected.values()), rel=1e-6)


def test_next_tokens_are_scored_in_nats_where_they_are_asked() -> None:
    """Padding rows and ignored places count nothing; no probabilities are kept."""
    logits = normal(3, 4, 5)
    label = np.array([[1, 0, 4, IGNORED], [2, IGNORED, IGNORED, IGNORED], [3, 3, 3, 3]])
    batch = {"label": array(label, np.int32), "weight": array([1.0, 1.0, 0.0], np.float32)}
    batch["words"] = array([2.0, 1.0, 9.0], np.float32)
    objective = OBJECTIVES["lm"]
    sums = objective.sums(logits, batch)
    real = (label != IGNORED) & (np.array([1, 1, 0])[:, None] > 0)
    nats = -np.take_along_axis(log_softmax(logits), np.maximum(label, 0)[..., None], -1)[..., 0]
    np.testing.assert_allclose(sums["loss"], [nats[real].sum(), 4], rtol=1e-6)
    right = (np.asarray(logits).argmax(-1) == label)[real].sum()
    np.testing.assert_allclose(sums["accuracy"], [right, 4])
    loss = objective.loss(sums, objective.counts(batch))
    assert float(loss) == pytest.approx(nats[real].mean(), rel=1e-6)
    answers = np.asarray(objective.answers(logits))
    found = compute_metrics(TASKS["lm"], jax.device_get(sums), answers, label)
    assert found["perplexity"].tolist() == [pytest.approx(np.exp(nats[real].sum() / 4), rel=1e-6)]
    assert found["word_perplexity"].tolist() == [pytest.approx(np.exp(nats[real].sum() / 3), rel=1e-6)]
    assert objective.answers(logits).size == 0
    assert not objective.written


def test_a_right_answer_is_the_first_of_the_largest_logits() -> None:
    """As argmax has it, also among equal logits."""
    logits = array(np.random.default_rng(0).integers(0, 3, (40, 7, 5)), np.float32)
    for label in range(5):
        labels = array(np.full((40, 7), label), np.int32)
        np.testing.assert_array_equal(is_largest(logits, labels), np.asarray(logits).argmax(-1) == label)


def test_a_score_is_judged_by_its_squared_error_and_by_ranks() -> None:
    batch = {"label": jnp.array([1.0, 2.0, 4.0]), "weight": jnp.array([1.0, 1.0, 0.0])}
    sums = OBJECTIVES["score"].sums(jnp.array([0.0, 4.0, 9.0]), batch)
    assert metrics.mean(jax.device_get(sums)) == {"loss": pytest.approx((1 + 4) / 2)}
    answers = np.array([[0.1, 0.5, 0.9], [0.9, 0.5, 0.6]], np.float32)  # of two seeds
    total = {"loss": np.ones((2, 2))}
    judged = compute_metrics(TASKS["stsb"], total, answers, np.array([1.0, 2.0, 4.0], np.float32))
    np.testing.assert_allclose(judged["spearman"], [1.0, -0.5])
    assert judged["pearson"][0] == pytest.approx(np.corrcoef([0.1, 0.5, 0.9], [1, 2, 4])[0, 1], rel=1e-6)
    line = summary({"loss": 1.0} | metrics.over_seeds(judged))
    assert line.startswith("test pearson 0.2027 +- 1.1021, spearman 0.2500 +- 1.0607, mae 1.7500 +- 0.1179,")
    assert line.endswith(" rmse 2.1007 +- 0.0645")


def test_the_tasks_own_metrics_choose_among_classes() -> None:
    answers = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.1, 0.9], [0.6, 0.4]], np.float32)
    labels = np.array([0, 1, 0, 1, 1])
    sums = {"loss": np.array([2.0, 5.0]), "accuracy": np.array([3.0, 5.0])}
    judged = compute_metrics(TASKS["mrpc"], sums, answers, labels)
    assert {name: value.tolist() for name, value in judged.items()} == {
        "loss": [0.4],
        "accuracy": [0.6],
        "f1": [pytest.approx(2 / 3)],  # two right ones, one too many, one missed
    }
    matthews = compute_metrics(TASKS["cola"], sums, answers, labels)["matthews"]
    assert matthews.tolist() == [pytest.approx((2 * 1 - 1 * 1) / np.sqrt(3 * 3 * 2 * 2))]


def test_every_task_has_an_objective_and_known_metrics() -> None:
    from fourier_attn.train import entity_scores, span_scores
    from fourier_attn.train.scores import SCORES

    for task in TASKS.values():
        assert task.head in OBJECTIVES
        assert task.metrics
        assert set(task.metrics) <= {
            *SCORES,
            *PERPLEXITIES,
            *entity_scores.NAMES,
            *span_scores.NAMES,
            *OBJECTIVES[task.head].names,
        }
        assert len(task.texts) in (1, 2)
        assert len(task.submissions) in (0, len(task.tests))
