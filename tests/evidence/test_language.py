"""Language models: tables of perplexities, equal numbers of parameters, and the chosen learning rates."""

import math
from pathlib import Path

import pytest
from agreement import parameters
from conftest import ROOT

from evidence.pages import language, values
from evidence.pages.markdown import NOT_RUN, Results
from evidence.suite import cells, rates
from evidence.suite import language as suite


def test_language_models_have_equally_many_parameters() -> None:
    for kind, networks in suite.NETWORKS.items():
        counts = [parameters(cells.EVERY[f"lm_equal-{kind}-{network}-0"].read()) for network in networks]
        assert max(counts) / counts[0] - 1 <= 2e-4
        assert min(counts) / counts[0] - 1 >= -2e-4


def test_the_rate_with_the_lowest_perplexity_is_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends = dict(zip(suite.TRIED, (60.0, 50.0, None, 50.0), strict=True))  # one diverged
    found = {
        f"masked-{network}-rate-{rate}": [{"validation": [90.0, end]}]
        for network in suite.NETWORKS["masked"]
        for rate, end in ends.items()
    }
    monkeypatch.setattr(rates, "published", lambda *_: found)
    assert rates.language_rates(tmp_path) == {"masked": dict.fromkeys(suite.NETWORKS["masked"], "2e-3")}
    rows = language.trials_table(found).splitlines()
    assert rows[2] == "| causal | `attention` | not yet run | not yet run | not yet run | not yet run |"
    assert rows[-1] == "| masked | `identity` | 60.0 (1) | 50.0 (1) | failed | 50.0 (1) |"
    for rate in suite.TRIED:
        found[f"masked-identity-rate-{rate}"] = [{"validation": [None]}]
    assert rates.language_rates(tmp_path)["masked"].keys() == suite.NETWORKS["masked"].keys()


def test_the_chosen_rates_of_language_models_are_those_of_the_trials() -> None:
    assert rates.language_rates(ROOT) == suite.RATES


def test_networks_of_equal_size_are_listed_by_perplexity() -> None:
    def found(perplexity: float) -> dict:
        costs = {"parameters": 9, "cpu_seconds": 36.0, "counted": 1, "processes": 1, "peak_memory_mib": 1}
        scores = {"test": {"perplexity": perplexity}, "validation": [perplexity + 5, perplexity + 1]}
        return {"metric": "perplexity", "hardware": {}, "epochs": [{"train": {}}], **costs, **scores}

    groups = {"causal-linear": [found(70.0), found(72.0), found(math.nan)], "causal-lambda": [found(60.0)]}
    rows = [line.strip("| ").split(" | ") for line in language.equal_table(groups, "causal").splitlines()[2:]]
    rate = language.tried_rate(suite.RATES["causal"]["lambda"])
    assert rows[0] == ["`lambda`", "61.0 (1)", "60.0 (1)", rate, "9", "0.01"]
    assert rows[1][:3] == ["`linear`", "72.0 ± 1.4 (2, 1 failed)", "71.0 ± 1.4 (2, 1 failed)"]
    assert rows[2][1:3] == ["not yet run", "not yet run"]
    assert [language.tried_rate(rate) for rate in suite.TRIED] == [
        "0.001 (lowest tried)",
        "0.002",
        "0.004",
        "0.008 (highest tried)",
    ]


def test_all_seeds_must_be_lower() -> None:
    assert language.lower((1.0, 2.0, 3.0), (4.0, 5.0, math.nan)) is True
    assert language.lower((1.0, 2.0, 4.0), (4.0, 5.0, 6.0)) is False
    assert language.lower((1.0, math.nan, 2.0), (4.0, 5.0, 6.0)) is False
    assert language.lower((5.0,), (4.0,)) is False
    assert language.lower((1.0, 2.0, 3.0), (4.0, 5.0)) is None
    assert language.lower((), ()) is None


def test_predictions_for_language_models_are_judged() -> None:
    def seeds(*values: float) -> list[dict]:
        return [{"metric": "perplexity", "test": {"perplexity": value}} for value in values]

    groups = {
        "masked-fourier": seeds(50, 51, 52),
        "masked-attention": seeds(60, 61, 62),
        "masked-linear": seeds(55, 61, 56),
        "masked-circular": seeds(70, 71, 72),
        "masked-long_conv": seeds(40, 41, 42),
    }
    rows = [line.strip("| ").split(" | ") for line in language.verdicts(groups).splitlines()[2:]]
    assert [row[2] for row in rows] == ["open", "holds", "fails", "open"]
    assert rows[1][3] == "`masked-fourier` 51.0 ± 1.0 (3), `masked-attention` 61.0 ± 1.0 (3)"


def test_a_mean_perplexity_leaves_out_failed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [{"metric": "perplexity", "test": {"perplexity": value}} for value in (36.0, None, 40.0)]
    monkeypatch.setattr(values, "published", lambda *_: {"causal-long_conv": found})
    assert values.mean_perplexity(Results(ROOT), "causal-long_conv") == "38.0 ± 2.8 (2, 1 failed)"
    assert values.mean_perplexity(Results(ROOT), "causal-attention") == NOT_RUN
