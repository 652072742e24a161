"""Verdicts on the predictions of the skills: what missing seeds leave open, and what they cannot."""

from typing import Any

from evidence.pages import skill_predictions as predictions
from evidence.pages.skill_predictions import Scores
from evidence.suite.skills import BETTER, HYBRID_TASKS


def scores(*values: float, complete: bool = True) -> Scores:
    return Scores("conv_x", values, complete)


def test_a_seed_that_fails_decides_and_missing_seeds_do_not() -> None:
    assert predictions.all_solve([scores(1.0, 0.95)]) is True
    assert predictions.all_solve([scores(1.0, complete=False)]) is None
    assert predictions.all_solve([scores(1.0, complete=False), scores(0.94, complete=False)]) is False
    assert predictions.some_solve([scores(0.1, 0.95, complete=False)]) is True
    assert predictions.some_solve([scores(0.1, complete=False)]) is None
    assert predictions.some_solve([scores(0.1, 0.2), scores(1.0)]) is False
    assert predictions.none_exceed([scores(0.5)], 0.5) is True
    assert predictions.none_exceed([scores(0.51, complete=False)], 0.5) is False
    assert predictions.none_exceed([scores(complete=False)], 0.5) is None
    assert predictions.above(scores(0.5, 0.7), [scores(0.4, 0.7), scores(0.1)]) is True
    assert predictions.above(scores(0.5, 0.7), [scores(0.6, 0.6)]) is False
    assert predictions.above(scores(0.9), [scores(complete=False)]) is None


def finding(accuracy: float) -> dict[str, Any]:
    return {"test": {"accuracy": accuracy}, "metric": "accuracy"}


def test_lambda_layers_that_recall_once_contradict_their_prediction() -> None:
    skills = {"recall-conv_lambda": [finding(0.14), finding(0.97)]}
    row = predictions.rows({"skills": skills})[3]
    assert row == ["4", "Lambda layers do not recall.", "fails", "seeds that solve it: `conv_lambda` 1 of 2"]
    assert [line[2] for line in predictions.rows({})] == ["open"] * 12


def test_hybrids_need_attention_behind_a_long_convolution_always_and_behind_fourier_once() -> None:
    skills = {
        "recall-long_conv+attention": [finding(1.0)] * 5,
        "recall-fourier+attention": [finding(0.1)] * 4,
    }
    assert predictions.rows({"skills": skills})[2][2] == "open"
    skills["recall-fourier+attention"] = [finding(0.1)] * 5
    assert predictions.rows({"skills": skills})[2][2] == "fails"
    skills["recall-fourier+attention"][0] = finding(0.99)
    assert predictions.rows({"skills": skills})[2][2] == "holds"


def test_equal_flops_and_parameters_are_judged_by_their_own_tier() -> None:
    equal = {f"flops-{name}": [finding(0.2)] * 3 for name in predictions.FIXED}
    equal |= {f"parameters-{name}": [finding(1.0)] * 3 for name in predictions.NARROW}
    assert [row[2] for row in predictions.rows({"recall_equal": equal})[6:8]] == ["holds", "holds"]
    equal["flops-conv_linear"] = [finding(0.51)]
    equal["parameters-conv_attention"] = [finding(1.0)] * 2
    assert [row[2] for row in predictions.rows({"recall_equal": equal})[6:8]] == ["fails", "open"]


def test_hybrids_with_other_mixers_are_judged_by_their_own_tier() -> None:
    mixed = {f"{task}-long_conv+circular": [finding(1.0)] * 3 for task in HYBRID_TASKS}
    mixed["recall-long_conv+circular"] = [finding(1.0)] * 5
    mixed["fuzzy_recall-long_conv+lambda"] = [finding(0.94)] * 3
    assert [row[2] for row in predictions.rows({"skills": mixed})[8:10]] == ["open", "open"]
    assert [row[2] for row in predictions.rows({"hybrids": mixed})[8:10]] == ["holds", "holds"]
    mixed["recall-long_conv+circular"].pop()
    mixed["fuzzy_recall-long_conv+lambda"][0] = finding(0.95)
    ninth, tenth = predictions.rows({"hybrids": mixed})[8:10]
    assert (ninth[2], tenth[2]) == ("open", "fails")
    counts = "`recall` 4 of 4, `fuzzy_recall` 3 of 3, `noisy_recall` 3 of 3, `selective_copy` 3 of 3"
    assert ninth[3] == f"seeds that solve each task: {counts}"


def test_two_long_convolutions_solve_no_task_with_any_seed() -> None:
    doubled = {f"{task}-long_conv": [finding(0.94)] * 3 for task in HYBRID_TASKS}
    assert predictions.rows({"hybrids": doubled})[10][2] == "open"
    doubled["recall-long_conv"] = [finding(0.94)] * 5
    assert predictions.rows({"hybrids": doubled})[10][2] == "holds"
    doubled["selective_copy-long_conv"] = [finding(0.95)]
    eleventh = predictions.rows({"hybrids": doubled})[10]
    assert eleventh[2] == "fails"
    counts = "`recall` 0 of 5, `fuzzy_recall` 0 of 3, `noisy_recall` 0 of 3, `selective_copy` 1 of 1"
    assert eleventh[3] == f"seeds that solve each task: {counts}"


def test_a_higher_rate_fails_as_soon_as_a_network_solves_its_task_with_all_seeds() -> None:
    higher = {f"{task}-{name}": [finding(0.94)] * 5 for task, names in BETTER.items() for name in names}
    assert predictions.rows({"higher": higher})[11][2] == "holds"
    assert predictions.rows({})[11][2] == "open"
    (left,) = (higher.pop(name) for name in ["sort-conv_random"])
    assert predictions.rows({"higher": higher})[11][2] == "open"
    higher["sort-conv_random"] = [*left[:4], finding(0.95)]
    assert predictions.rows({"higher": higher})[11][2] == "holds"
    higher["sort-conv_random"] = [finding(0.95)] * 3
    row = predictions.rows({"higher": higher})[11]
    rest = f"no seed of the other {len(higher) - 1} pairs of a network and a task"
    assert row[2:] == ["fails", f"seeds that solve it: `conv_random` 3 of 3 on `sort`, {rest}"]


def test_copying_and_sorting_are_judged_by_means() -> None:
    names = ("conv_attention", *predictions.MATRICES)
    skills = {f"{task}-{name}": [finding(0.7)] * 3 for task in ("selective_copy", "sort") for name in names}
    skills["selective_copy-conv_attention"] = skills["sort-conv_attention"] = [finding(0.8)] * 3
    row = predictions.rows({"skills": skills})[4]
    assert (row[2], "`conv_attention` 80.000 and 80.000, `conv_fourier` 70.000" in row[3]) == ("holds", True)
    skills["sort-conv_linear"] = [finding(0.8)] * 3
    assert predictions.rows({"skills": skills})[4][2] == "fails"
    skills["sort-conv_linear"] = [finding(0.7)] * 2
    row = predictions.rows({"skills": skills})[4]
    assert row[2] == "open"


def test_the_first_prediction_shows_both_numbers_of_pairs() -> None:
    skills = {f"recall-{name}": [finding(1.0)] * 5 for name in ("conv_attention", "conv_circular")}
    pairs = {f"64-{name}": [finding(1.0)] * 3 for name in ("conv_attention", "conv_circular")}
    eight = "seeds that solve it: `conv_attention` 5 of 5, `conv_circular` 5 of 5"
    many = "seeds that solve it with 64 pairs: `conv_attention` 3 of 3, `conv_circular` 3 of 3"
    assert predictions.rows({"skills": skills})[0][2:] == ["open", eight]
    assert predictions.rows({"skills": skills, "recall_pairs": pairs})[0][2:] == ["holds", f"{eight}; {many}"]


def test_predictions_with_a_bound_name_the_best_seed() -> None:
    equal = {"flops-conv_afno": [finding(0.14), finding(0.16)], "flops-conv_linear": [finding(0.15)]}
    assert predictions.rows({"recall_equal": equal})[6][2:] == [
        "open",
        "best of all seeds, %: `conv_afno` 16.0",
    ]
    assert predictions.rows({})[1][2:] == ["open", ""]
    pairs = {"64-conv_linear": [finding(0.51)]}
    assert predictions.rows({"recall_pairs": pairs})[1][2:] == [
        "fails",
        "best of all seeds, %: `conv_linear` 51.0",
    ]
