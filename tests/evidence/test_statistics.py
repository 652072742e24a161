"""Intervals and comparisons, held to data whose truth is known."""

import itertools

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_ind

from evidence.report.comparisons import COMPARISONS, Comparison, decide
from evidence.suite import cells, statistics
from evidence.suite.statistics import Difference, difference, expected_best, holm, mcnemar, mean_interval

LOGIT_GAP = 0.1


def networks(rng: np.random.Generator, seeds: int, shift: float, easy: np.ndarray, deviation: float):
    """Answers of networks: right where an example is easy enough for this one, at this moment."""
    each = shift + deviation * rng.normal(size=(seeds, 1))
    return easy + each + 0.7 * rng.normal(size=(seeds, len(easy))) > 0


def experiments(seeds: int, deviation: float, shift: float = 0.0, count: int = 200):
    rng = np.random.default_rng(1)
    for _ in range(count):
        easy = 2 + 1.5 * rng.normal(size=2000)
        yield networks(rng, seeds, shift, easy, deviation), networks(rng, seeds, 0.0, easy, deviation)


@pytest.mark.parametrize(("seeds", "deviation"), [(3, 0.0), (3, 0.05), (5, 0.05)])
def test_intervals_cover_and_false_positives_keep_to_their_rate(seeds: int, deviation: float) -> None:
    """200 experiments: 95 % are 190 with a deviation of 3.1, 5 % are 10; bounds are 4 deviations away."""
    found = [difference(a, b, draws=500) for a, b in experiments(seeds, deviation)]
    covered = sum(d.low <= 0 <= d.high for d in found)
    assert covered >= 178
    assert sum(d.above(0.0) < 0.05 for d in found) <= 22
    assert any(d.low > 0 or d.high < 0 for d in found)  # no interval that is always wide enough


@pytest.mark.parametrize("gap", [0.01, 0.03, 0.1])
def test_p_values_and_intervals_of_seeds_are_those_of_welch_s_test(gap: float) -> None:
    """Down to the smallest levels: the best of eight comparisons is held to 5 % / 8."""
    a, b = np.array([0.80, 0.81, 0.83]) + gap, np.array([0.80, 0.82, 0.81])
    p = np.array(ttest_ind(a, b, equal_var=False, alternative="greater"))[1]
    found = Difference(a.mean() - b.mean(), np.zeros(1), *statistics.welch(a, b))
    assert found.above(0.0) == pytest.approx(float(p), rel=1e-9)
    low, high = ttest_ind(a, b, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)


def test_the_interval_of_two_means_is_that_of_welch_s_test() -> None:
    a, b = (0.81, 0.84, 0.86, 0.80), (0.79, 0.80, 0.85)
    found, expected = statistics.welch_interval(a, b), ttest_ind(a, b, equal_var=False).confidence_interval()
    assert found == pytest.approx((np.mean(a) - np.mean(b), expected.low, expected.high))
    assert statistics.welch_interval((0.5, 0.5), (0.25, 0.25)) == (0.25, 0.25, 0.25)  # equal values


def test_seeds_and_examples_are_added() -> None:
    """Against a million draws of both; three of their standard errors."""
    rng = np.random.default_rng(7)
    examples, scale, freedom = 0.3 * rng.normal(size=1000), 0.2, 3.0
    found = Difference(1.0, examples, scale, freedom)
    drawn = scale * rng.standard_t(freedom, 1_000_000) + rng.choice(examples, 1_000_000)
    for bound in (0.0, 0.5, 1.2):
        share = np.mean(drawn >= 1.0 - bound)
        assert abs(found.above(bound) - share) < 3 * np.sqrt(share * (1 - share) / len(drawn))
    for end, share in ((found.low, 0.975), (found.high, 0.025)):
        assert abs(np.mean(drawn <= 1.0 - end) - share) < 3 * np.sqrt(0.025 * 0.975 / len(drawn))


def test_a_verdict_is_no_matter_of_the_draws() -> None:
    """With other draws of the examples p-values stay the same within a hundredth of them."""
    a, b = next(experiments(3, 0.1))
    p_values = [difference(a, b, seed).above(-0.01) for seed in range(8)]
    assert min(p_values) > 0.001
    assert max(p_values) < 1.02 * min(p_values)


def test_a_known_difference_is_found_and_covered() -> None:
    rng = np.random.default_rng(2)
    easy = 2 + 1.5 * rng.normal(size=400_000)
    truth = networks(rng, 1, LOGIT_GAP, easy, 0).mean() - networks(rng, 1, 0.0, easy, 0).mean()
    found = [difference(a, b, draws=500) for a, b in experiments(5, 0.02, LOGIT_GAP)]
    assert sum(d.low <= truth <= d.high for d in found) >= 178
    assert sum(d.above(-0.01) < 0.05 for d in found) > 150  # a is better, so it is not worse
    assert sum(d.above(truth + 0.01) < 0.05 for d in found) <= 22


def test_an_accuracy_s_interval_covers() -> None:
    rng = np.random.default_rng(3)
    truth = networks(rng, 200, 0.0, 2 + 1.5 * rng.normal(size=20_000), 0.1).mean()
    intervals = [mean_interval(a) for a, _ in experiments(3, 0.1)]
    assert 178 <= sum(low <= truth <= high for low, high in intervals) < 200


def test_no_interval_leaves_what_an_accuracy_can_be() -> None:
    """Of two networks one has not left chance: with one degree of freedom that says nothing, not more."""
    right = np.array([[True, False] * 500, [True] * 999 + [False]])
    assert mean_interval(right) == (0.0, 1.0)


def test_luck_of_single_answers_is_counted_once() -> None:
    """Answers that depend on nothing: what remains of the examples' part is below 1 % of the seeds'."""
    right = np.random.default_rng(6).random((3, 50_000)) < 0.8
    low, high = mean_interval(right)
    seeds = student.ppf(0.975, 2) * right.mean(1).std(ddof=1) / np.sqrt(3)
    np.testing.assert_allclose((high - low) / 2, seeds, rtol=0.01)


def test_luck_that_twins_share_is_no_luck_of_their_difference() -> None:
    """Twins whose seeds are alike but for a new example in ten: the examples' part is that of other examples.

    Of 40,000 differences a tenth is -1, 0, 0 or 1, a variance of 0.05 (5 %: five deviations). If each
    network's luck were counted by itself, nothing of it would be left.
    """
    rng = np.random.default_rng(9)
    examples = 40_000
    a = rng.random((3, examples)) < 0.5
    other = rng.random(examples) < 0.1  # examples that the twins answer each in its own way, all seeds alike
    own = rng.random((2, examples)) < 0.5
    a, b = np.where(other, own[0], a), np.where(other, own[1], a)
    found = difference(a, b)
    np.testing.assert_allclose(found.examples.var() * examples, 0.1 * 0.5, rtol=0.05)


def test_draws_have_the_variance_of_theory() -> None:
    """Examples: the variance of their mean. 100,000 draws: 0.5 %, bounds at 6 times it."""
    rng = np.random.default_rng(4)
    right = rng.integers(0, 4, size=50) / 3
    moved = statistics.examples_drawn(right, rng, 100_000)
    np.testing.assert_allclose(moved.var(), right.var() / 50, rtol=0.03)
    np.testing.assert_allclose(moved.mean(), 0, atol=6 * right.std() / np.sqrt(50 * 100_000))


def test_holm_by_hand() -> None:
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert list(found) == ["a", "b", "c", "d"]
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}


def test_expected_best_is_the_mean_over_all_draws() -> None:
    values = [0.8, 0.7, 0.9]
    best = [np.mean([max(c) for c in itertools.product(values, repeat=n)]) for n in (1, 2, 3)]
    np.testing.assert_allclose(expected_best(values), best, rtol=1e-12)


def test_verdicts() -> None:
    rng = np.random.default_rng(5)
    easy = 2 + 1.5 * rng.normal(size=10_000)
    right = {
        "plain": networks(rng, 5, 0.0, easy, 0.0),
        "same": networks(rng, 5, 0.0, easy, 0.0),
        "good": networks(rng, 5, 0.5, easy, 0.0),
        "bad": networks(rng, 5, -0.5, easy, 0.0),
        "wild": networks(rng, 2, 0.0, easy, 0.5),
    }
    claims = tuple(Comparison(1, name, "plain") for name in ("same", "good", "bad", "wild"))
    claims += (Comparison(2, "good", "plain", better=True), Comparison(3, "absent", "plain"))
    found = decide(claims, right)
    assert [v.words for v in found] == ["not worse", "better", "worse", "undecided", "better"]
    assert all(v.adjusted >= v.p for v in found)
    alone = decide(claims[:1], right)
    assert alone[0].adjusted == alone[0].p < found[0].adjusted  # those that are absent count


def test_a_deviation_s_interval_covers() -> None:
    """Of 4 values, 1,000 times: 950 with a deviation of 6.9, bounds at 4."""
    rng = np.random.default_rng(8)
    found = [statistics.spread_interval(3 * rng.normal(size=4)) for _ in range(1000)]
    assert 922 <= sum(low <= 3 <= high for low, high in found) <= 978
    with pytest.raises(ValueError, match="needs at least 2 values, not 1"):
        statistics.spread_interval([3.0])


def test_one_seed_is_refused() -> None:
    two = np.ones((2, 5), bool)
    with pytest.raises(ValueError, match="needs at least 2, not 1"):
        difference(two, two[:1])


def test_comparisons_are_of_models_of_their_tier() -> None:
    for tier, claims in COMPARISONS.items():
        models = {model.name for model in cells.MODELS[tier]}
        assert {name for claim in claims for name in (claim.model, claim.against)} <= models


def test_mcnemar_counts_examples_that_one_model_alone_answers() -> None:
    a = np.array([True] * 30 + [False] * 20 + [True] * 50)
    b = np.array([False] * 14 + [True] * 86)
    assert mcnemar(a, b) == pytest.approx((14 - 20) / 34**0.5)
    assert mcnemar(a, b) == -mcnemar(b, a)
    assert mcnemar(a, a) == 0.0


def test_mcnemar_is_standard_normal_for_equal_models() -> None:
    """Of 2,000 experiments 5 % reach 1.96, which are 100 with a deviation of 9.7."""
    rng = np.random.default_rng(3)
    hard = rng.random((2000, 1, 400))
    right = rng.random((2000, 2, 400)) < hard
    assert 61 <= sum(abs(mcnemar(a, b)) > 1.96 for a, b in right) <= 139
