"""Tables of the skills: chance next to accuracies, and cells whose examples ask for several answers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from evidence.pages import skills
from evidence.pages.markdown import NOT_RUN
from evidence.report import figures
from evidence.suite import rates
from evidence.suite import skills as suite
from evidence.suite.ledger import one_answer, published, score
from fourier_attn.data.skills import Knobs


def found(cell: str, accuracy: float, epochs: Sequence[float] = ()) -> dict[str, Any]:
    entries = [{"epoch": n + 1, "validation": {"accuracy": value}} for n, value in enumerate(epochs)]
    return {"cell": cell, "test": {"accuracy": accuracy}, "metric": "accuracy", "epochs": entries}


def test_a_column_has_the_chance_of_its_task_and_says_what_was_not_run() -> None:
    groups = {"recall-identity": [found("", 0.01)], "induction-conv_attention": [found("", 1.0)]}
    lines = skills.accuracies(groups).splitlines()
    assert lines[0] == "| network | `recall` | `induction` |"
    assert lines[2] == "| chance | 0.8 | 7.1 |"  # one of 128 values, 1 / 14
    assert f"| `identity` | 1.0 (1) | {NOT_RUN} |" in lines
    assert f"| `conv_attention` | {NOT_RUN} | 100.0 (1) |" in lines


def test_a_guess_by_position_is_the_probability_of_the_likeliest_pair() -> None:
    """Two pairs with two gaps: the first question has gap 1 with p = 1 / (1 + 2^(a - 1))."""
    for power, expected in ((0.01, 1 / (1 + 2**-0.99)), (1.0, 0.5)):
        knobs = Knobs(vocab=64, length=8, pairs=2, power=power)
        assert skills.guess_by_position(knobs) == pytest.approx(expected, abs=0.01)


def test_numbers_of_pairs_have_the_guess_by_position_of_their_size() -> None:
    groups = {"64-identity": [found("", 0.01)], "4-conv_linear": [found("", 0.25)]}
    lines = skills.pair_accuracies(groups).splitlines()
    assert lines[0] == "| network | 4 pairs | 64 pairs |"
    assert lines[2] == "| chance | 0.8 | 0.8 |"
    low, high = (float(cell) / 100 for cell in lines[3].removeprefix("| guess by position |").split("|")[:2])
    knobs = skills.task_knobs("recall")._replace(pairs=64, length=256)
    assert high == pytest.approx(skills.guess_by_position(knobs), abs=5e-4)
    assert 1 / 64 < high < 0.05 < 1 / 4 < low
    assert lines[4:] == [f"| `conv_linear` | 25.0 (1) | {NOT_RUN} |", f"| `identity` | {NOT_RUN} | 1.0 (1) |"]


def test_the_map_leaves_out_tasks_on_which_networks_are_missing() -> None:
    names = ("recall-identity", "recall-conv_linear", "induction-identity")
    (axes,) = figures.task_map({name: [found("", 0.5), found("", 1.0)] for name in names}).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["recall"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["identity", "conv_linear"]
    assert [text.get_text() for text in axes.texts] == ["75", "75"]


def test_the_share_of_seeds_that_solve_a_task_has_an_interval_and_a_step() -> None:
    """Two of three: Wilson's interval is 21 to 94 %."""
    cell = "skills-recall-conv_attention-0"
    learned = [found(cell, 0.99, (0.2, 0.96, 1.0)), found(cell, 0.95, (0.2, 0.3, 0.3, 0.95))]
    line = skills.solved_table({"recall-conv_attention": [*learned, found(cell, 0.14, (0.1, 0.94))]})
    row = line.splitlines()[2]
    assert row == "| `conv_attention` | 2 of 3 | 21 to 94 | 750 | 99.0, 95.0, 14.0 | 0.0008 |"


def test_the_chosen_rates_are_those_of_the_trials() -> None:
    assert rates.skill_rates(ROOT) == suite.RATES
    assert rates.hybrid_rates(ROOT) == suite.HYBRID_RATES


def test_seeds_at_a_higher_rate_need_a_better_trial() -> None:
    assert rates.better(ROOT) == suite.BETTER


def test_a_higher_rate_is_tried_where_the_highest_was_best_and_did_not_suffice() -> None:
    """Networks that do not mix over long distances are left out."""
    found = {**published(ROOT, "skills"), **published(ROOT, "hybrids")}
    best = {task: suite.RATES[task] | suite.HYBRID_RATES.get(task, {}) for task in suite.RATES}
    failed = {
        task: {
            name
            for name, rate in best[task].items()
            if rate == suite.TRIED[-1] and min(map(score, found[f"{task}-{name}"])) < suite.SOLVED
        }
        for task in best
    }
    local = {"identity", "token_conv"}
    assert {task: {*names} for task, names in suite.AT_HIGHEST.items()} == {
        task: names - local for task, names in failed.items()
    }


def test_the_best_rate_has_the_best_last_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {"8e-4": [0.9, 0.1], "2e-3": [0.2, 0.3], "5e-3": [0.2, 0.2]}
    trials = {
        f"sort-{name}-rate-{rate}": [{"validation": values}]
        for name in suite.NETWORKS
        for rate, values in ends.items()
    }
    monkeypatch.setattr(rates, "published", lambda *_: trials)
    assert rates.skill_rates(tmp_path) == {"sort": dict.fromkeys(suite.NETWORKS, "2e-3")}
    del trials["sort-identity-rate-5e-3"]
    assert not rates.skill_rates(tmp_path)


def test_examples_with_a_label_for_each_token_have_several_answers(tmp_path: Path) -> None:
    for label, one in ((1, True), ([1, -100], False)):
        (tmp_path / "predictions.jsonl").write_text(json.dumps({"label": label, "prediction": label}) + "\n")
        assert one_answer(tmp_path) == one


def test_epochs_at_equal_flops_follow_from_the_counts() -> None:
    rows = json.loads((ROOT / "results/evidence/skills/flops.json").read_text())["rows"]
    flops = {row["network"]: row["flops"] for row in rows}
    for network, epochs in suite.EPOCHS_AT_EQUAL_FLOPS.items():
        assert epochs == round(suite.EPOCHS * flops["conv_attention"] / flops[network])
    assert {*suite.EPOCHS_AT_EQUAL_FLOPS, *suite.WIDE_HEADS} == {*suite.NETWORKS}
