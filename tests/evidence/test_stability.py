"""Pre-training: learning rates that train, curves of the loss, and tables of networks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from evidence.pages import claims
from evidence.pages.markdown import NOT_RUN, Results
from evidence.report import glue, loss_curves, stability
from evidence.suite import cells, ledger
from evidence.suite.ledger import published
from evidence.suite.pretraining import GLUE, RATES, TRIED


def trials(**accuracies: list[float | None]) -> dict[str, list[dict[str, Any]]]:
    """Returns three equal seeds for each architecture and rate."""
    return {
        f"{name}-rate-{rate}": [{"validation": [0.1, value]}] * 3
        for name, values in accuracies.items()
        for rate, value in zip(TRIED, values, strict=True)
    }


def test_a_row_has_the_seeds_that_train_and_the_smallest_best_rate() -> None:
    table = stability.stability_table(trials(bert=[0.3, 0.3, 0.24, None]))
    assert "| `bert` | 30.0 (3 of 3) | 30.0 (3 of 3) | 24.0 (0 of 3) | 0.0 (0 of 3) | 0.0005 |" in table
    only = {"fnet-rate-2e-3": [{"validation": [0.4]}, {"validation": [0.2]}]}
    assert (
        f"| `fnet` | {NOT_RUN} | {NOT_RUN} | 30.0 (1 of 2) | {NOT_RUN} | 0.002 |"
        in stability.stability_table(only)
    )


def test_pretrained_networks_have_a_row_when_all_tasks_are_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def scored(task: str, accuracy: float) -> dict:
        line = {"accuracy": accuracy, "f1": accuracy, "spearman": accuracy}
        return {"task": task, "epochs": [{"validation": {"accuracy": 0.0}}, {"validation": line}]}

    found = {
        "pretrain": {name: [{"test": {"mlm_accuracy": share}}] for name, share in (("a", 0.3), ("b", 0.2))},
        "glue": {
            f"{task}-{name}": [scored(task, 0.6), scored(task, at)]
            for task in GLUE
            for name, at in (("a", 0.62), ("b", 0.8))
        },
    }
    monkeypatch.setattr(glue, "published", lambda _, tier: found[tier])
    rows = glue.pretrained_table(Results(tmp_path)).splitlines()[2:]
    assert [row.split(" | ")[:2] for row in rows] == [["| `a`", "30.0"], ["| `b`", "20.0"]]
    assert rows[0].endswith("| 61.0 ± 1.4 (2) | 61.0 ± 1.4 (2) |")
    for each in found["glue"]["stsb-b"]:
        each["epochs"][-1]["validation"]["spearman"] = None
    rows = glue.pretrained_table(Results(tmp_path)).splitlines()[2:]
    assert "| failed |" in rows[1]
    assert rows[1].endswith(" (2), 1 of 5 failed |")
    found["glue"]["sst2-b"].pop()
    assert [row.split(" | ")[0] for row in glue.pretrained_table(Results(tmp_path)).splitlines()[2:]] == [
        "| `a`"
    ]
    found["glue"] = {}
    assert NOT_RUN in glue.pretrained_table(Results(tmp_path))


def test_the_curve_has_the_mean_loss_between_lines() -> None:
    """Lines have means over the epoch so far: of the losses 8, 8, 4, 4, 4, and 3, 3, 1 in the second."""
    means = [(2, 0.4, 8.0), (4, 0.8, 6.0), (4, 0.8, 6.0), (5, 1.0, 5.6)]  # a resumed run repeats a line
    means += [(7, 1.4, 3.0), (8, 1.6, 7 / 3)]
    lines = [{"split": "train", "step": step, "epoch": at, "mlm_loss": mean} for step, at, mean in means]
    lines.insert(2, {"split": "validation", "step": 4, "epoch": 0.8, "mlm_loss": 1.0})
    assert ledger.curve(lines) == [(2, 8.0), (4, 4.0), (5, 4.0), (7, 3.0), (8, 1.0)]


def test_networks_are_listed_by_their_last_loss() -> None:
    """Raw lists are as read from JSON; a network without a curve is left out."""
    groups = {
        "slow": [{"curve": [[50, 7.0], [100, 6.0]]}],
        "fast": [{"curve": [[50, 5.5], [1000, 4.9], [1050, 5.2]]}],
        "unknown": [{}],
    }
    rows = [line.strip("| ").split(" | ") for line in loss_curves.steps_table(groups).splitlines()[2:]]
    assert rows == [
        ["`fast`", "50", "1,000", "not reached", "5.20"],
        ["`slow`", "100", "not reached", "not reached", "6.00"],
    ]
    assert NOT_RUN in loss_curves.steps_table({"unknown": [{}]})
    drawn = loss_curves.loss_curves(groups).axes[0].get_lines()
    assert {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in drawn} == {
        "slow": [7.0, 6.0],
        "fast": [5.5, 4.9, 5.2],
    }


@pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")  # of config_flags
def test_pre_training_uses_the_best_rates() -> None:
    found = stability.accuracies(published(ROOT, "stability"))
    tried = {name: rate for name, rate in RATES.items() if name not in ("random", "bert-half")}
    assert tried == {name: stability.best_rate(found[name]) for name in tried}
    rates = {cell.name: cell.read().optim.learning_rate for cell in cells.cells("pretrain")}
    assert rates["pretrain-bert-tiny-0"] == 2 * rates["pretrain-bert-mini-0"] == float(RATES["bert"])


@pytest.mark.parametrize(
    ("bert", "verdict"),
    [
        ([0.3, 0.3, 0.2, 0.2], claims.SUPPORTED),
        ([0.3, 0.3, 0.3, 0.2], claims.REFUTED),
        ([0.2, 0.2, 0.2, 0.3], claims.UNDECIDED),
    ],
)
def test_more_rates_at_which_all_seeds_train(
    bert: list[float | None], verdict: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = trials(fnet=[0.3, 0.3, 0.3, 0.2], bert=bert)
    monkeypatch.setattr(claims, "published", lambda *_: found)
    results = Results(tmp_path)
    assert claims.steadier(results, "fnet", "bert").verdict == verdict
    found["bert-rate-4e-3"] = found["bert-rate-4e-3"][:2]
    assert claims.steadier(results, "fnet", "bert").verdict == claims.UNTESTED


def test_the_share_of_glue_leaves_failures_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def found(task: str, value: float | None) -> dict[str, Any]:
        return {"task": task, "epochs": [{"validation": {"accuracy": value, "f1": value, "spearman": value}}]}

    groups = {
        f"{task}-{kind}": [found(task, scale * value) for value in (0.5, 0.52, 0.51)]
        for task in GLUE
        for kind, scale in (("a", 1.0), ("b", 0.8))
    }
    np.testing.assert_allclose(glue.seed_means(groups, "a"), [0.5, 0.52, 0.51])
    monkeypatch.setattr(claims, "published", lambda *_: groups)
    judged = claims.share_of_glue(Results(tmp_path), "b", "a", 0.92)
    assert judged.verdict == claims.REFUTED
    assert "80.0 % of `a`" in judged.result
    groups["stsb-b"][0] = found("stsb", None)
    np.testing.assert_allclose(glue.seed_means(groups, "b"), [0.4, 0.416, 0.408])
    del groups["rte-b"]
    assert claims.share_of_glue(Results(tmp_path), "b", "a", 0.92).verdict == claims.UNTESTED


def test_two_fourier_blocks_return_each_token_and_the_opposite_one() -> None:
    """The property of Fourier blocks that docs/fnet.md states."""
    x = np.random.default_rng(0).normal(size=(6, 4))
    twice = np.fft.fft2(np.fft.fft2(x).real).real
    opposite = np.roll(x[::-1, ::-1], 1, (0, 1))
    np.testing.assert_allclose(twice, (x + opposite) * x.size / 2)
