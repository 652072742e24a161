"""Gains of self-pretraining: seeds in pairs, intervals, and verdicts."""

import pytest

from evidence.pages import self_pretraining
from evidence.pages.self_pretraining import gain_difference, gains_by_seed, mean_gain
from evidence.suite import cells


def findings(*accuracies: float) -> list[dict]:
    """What the files of a model's cells say that the tables need."""
    return [
        {
            "seed": seed,
            "metric": "accuracy",
            "test": {"accuracy": accuracy},
            "validation": [accuracy],
            "self_pretrained": {"perplexity": 600.0 + 10 * seed},
        }
        for seed, accuracy in enumerate(accuracies)
    ]


def verdicts(text: str) -> list[str]:
    return [line.split("|")[3].strip() for line in text.splitlines()[2:]]


def test_a_gain_pairs_seeds() -> None:
    # The gains are 2, 1 and 3 points: mean 2, deviation 1. t is 4.3027 for two degrees of freedom.
    before = {0: 0.80, 1: 0.85, 2: 0.83, 3: 0.99}
    found = mean_gain(gains_by_seed(before, {2: 0.86, 0: 0.82, 1: 0.86}))
    half = 4.302653 * 0.01 / 3**0.5
    assert found == pytest.approx((0.02, 0.02 - half, 0.02 + half))
    assert gains_by_seed(before, {2: 0.84}) == pytest.approx([0.01])
    assert mean_gain([0.01]) is None


def test_both_tiers_have_the_same_networks_with_the_same_seeds() -> None:
    for tier, scratch in self_pretraining.SCRATCH.items():
        assert {model.name: model.seeds for model in cells.MODELS[tier]} == self_pretraining.SEEDS
        alone = {model.name: model for model in cells.MODELS[scratch]}
        for model in cells.MODELS[tier]:
            own = alone[model.name]
            assert (model.config, model.task) == (own.config, own.task)
            assert set(model.knobs) - set(own.knobs) == {("train.self_pretrain", "4")}
            assert set(own.knobs) <= set(model.knobs)
            assert own.seeds >= model.seeds


def test_gains_are_compared_by_welch() -> None:
    # Equal deviations of 1 point: the error is sqrt(2 / 3) points, with four degrees of freedom.
    half = 2.776445 * 0.01 * (2 / 3) ** 0.5
    found = gain_difference((0.04, 0.05, 0.06), (0.01, 0.02, 0.03))
    assert found == pytest.approx((0.03, 0.03 - half, 0.03 + half))
    assert gain_difference((0.04, 0.05, 0.06), ()) is None


def test_the_table_has_shared_seeds_of_the_mixers_that_were_self_pretrained() -> None:
    scratch = {"fnet": findings(0.80, 0.81, 0.82, 0.99), "attention": findings(0.8, 0.8)}
    text = self_pretraining.format_gains(scratch, {"fnet": findings(0.83, 0.84, 0.85)})
    rows = {line.split("`")[1]: line for line in text.splitlines()[2:]}
    assert (
        "| 81.00 ± 1.00 (3) | 84.00 ± 1.00 (3) | +3.00 points (+3.00 to +3.00) | 610 ± 10 (3) |"
        in rows["fnet"]
    )
    assert list(rows) == ["fnet"]
    pretrained = {"fnet": findings(0.5, 0.84, 0.86)[1:], "lambda": findings(0.8)}
    text = self_pretraining.format_gains(scratch | {"fnet": findings(0.80, 0.82)}, pretrained)
    assert text.splitlines()[2:] == ["| `fnet` | 82.00 (1) | 84.00 (1) | 610 (1) |"]
    assert "not yet run" in self_pretraining.format_gains(scratch, {})


def test_predictions_are_judged_by_their_intervals() -> None:
    scratch = {name: findings(0.80, 0.80, 0.80) for name in ("attention", "fnet", "circular-1d")}
    pretrained = {
        "attention": findings(0.84, 0.85, 0.86),
        "fnet": findings(0.81, 0.82, 0.83),
        "circular-1d": findings(0.84, 0.85, 0.86),
    }
    text = self_pretraining.format_verdicts(scratch, pretrained)
    assert verdicts(text) == ["holds", "holds", "fails", "open"]


def test_a_prediction_is_open_until_all_seeds_are_finished() -> None:
    scratch = {"attention": findings(0.80, 0.80, 0.80)}
    text = self_pretraining.format_verdicts(scratch, {"attention": findings(0.90, 0.90)})
    assert verdicts(text) == ["open"] * 4
