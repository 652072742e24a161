"""Pre-training: learning rates that train, curves of the loss, and tables of networks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from evidence.pages import claims
from evidence.pages import pretraining_predictions as predictions
from evidence.pages.markdown import NOT_RUN, Results
from evidence.report import glue, loss_curves, stability, write
from evidence.suite import cells, ledger
from evidence.suite.ledger import published
from evidence.suite.pretraining import GLUE, RATES, SCRATCH, TRIED


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
        "pretrain": {
            name: [{"test": {"mlm_accuracy": share, "sop_accuracy": share / 2}}]
            for name, share in (("a", 0.3), ("b", 0.2))
        },
        "glue": {
            f"{task}-{name}": [scored(task, 0.6), scored(task, at)]
            for task in GLUE
            for name, at in (("a", 0.62), ("b", 0.8), (SCRATCH, 0.9))
        },
    }
    monkeypatch.setattr(glue, "published", lambda _, tier: found[tier])
    rows = glue.pretrained_table(Results(tmp_path), wiki=False).splitlines()[2:]
    assert [row.split(" | ")[:3] for row in rows] == [
        ["| `a`", "30.0", "15.0"],
        ["| `b`", "20.0", "10.0"],
        [f"| `{SCRATCH}`", "not pre-trained", ""],
    ]
    assert SCRATCH not in glue.pretrained_table(Results(tmp_path), wiki=True)
    assert rows[0].endswith("| 61.0 ± 1.4 (2) | 61.0 ± 1.4 (2) |")
    for each, end in zip(
        found["glue"]["stsb-b"],
        ("(2), 1 of 10 runs failed |", "| not comparable, a task failed |"),
        strict=True,
    ):
        each["epochs"][-1]["validation"]["spearman"] = None
        rows = glue.pretrained_table(Results(tmp_path), wiki=False).splitlines()[2:]
        assert rows[1].endswith(end)
    assert "| failed |" in rows[1]
    found["glue"]["sst2-b"].pop()
    assert [
        row.split(" | ")[0] for row in glue.pretrained_table(Results(tmp_path), wiki=False).splitlines()[2:]
    ] == ["| `a`", f"| `{SCRATCH}`"]
    found["glue"] = {}
    assert NOT_RUN in glue.pretrained_table(Results(tmp_path), wiki=False)


def test_the_curve_has_the_mean_loss_between_lines() -> None:
    """Lines have means over the epoch so far: of the losses 8, 8, 4, 4, 4, and 3, 3, 1 in the second."""
    means = [(2, 0.4, 8.0), (4, 0.8, 6.0), (4, 0.8, 6.0), (5, 1.0, 5.6)]  # a resumed run repeats a line
    means += [(7, 1.4, 3.0), (8, 1.6, 7 / 3)]
    lines = [{"split": "train", "step": step, "epoch": at, "mlm_loss": mean} for step, at, mean in means]
    lines.insert(2, {"split": "validation", "step": 4, "epoch": 0.8, "mlm_loss": 1.0})
    assert ledger.curve(lines) == [(2, 8.0), (4, 4.0), (5, 4.0), (7, 3.0), (8, 1.0)]


def test_networks_are_listed_by_their_last_loss() -> None:
    """Points are lists, as read from JSON; a network without a curve is left out."""
    test = {"test": {"mlm_loss": 5.0}}
    groups = {
        "bert-mini": [{"curve": [[50, 7.0], [100, 6.0]], **test}],
        "linear-wiki-tiny": [{"curve": [[50, 5.5], [1000, 4.9], [1050, 5.2]], **test}],
        "ff-tiny": [{}],
    }
    rows = [line.strip("| ").split(" | ") for line in loss_curves.steps_table(groups).splitlines()[2:]]
    assert rows == [
        ["`linear-wiki-tiny`", "0.002", "50", "1,000", "not reached", "5.20", "5.00"],
        ["`bert-mini`", "0.0005", "100", "not reached", "not reached", "6.00", "5.00"],
    ]
    assert NOT_RUN in loss_curves.steps_table({"ff-tiny": [{}]})


def test_the_curves_of_an_architecture_have_one_colour() -> None:
    names = ("bert-tiny", "fnet-tiny", "fnet-mini", "hybrid-3-tiny")
    drawn = loss_curves.loss_curves({name: [{"curve": [[50, 7.0], [100, 6.0]]}] for name in names})
    lines = {str(line.get_label()): line for line in drawn.axes[0].get_lines()}
    assert tuple(lines) == names
    assert np.asarray(lines["fnet-mini"].get_ydata()).tolist() == [7.0, 6.0]
    assert lines["fnet-tiny"].get_color() == lines["fnet-mini"].get_color() != lines["bert-tiny"].get_color()
    assert (lines["fnet-tiny"].get_linestyle(), lines["fnet-mini"].get_linestyle()) == ("-", "--")


def test_parts_of_pre_training_are_not_compared() -> None:
    parts = write.parts({name: [] for name in ("fnet-tiny", "fnet-wiki-tiny", "bert-mini")})
    assert {part: list(models) for part, models in parts.items()} == {
        "": ["fnet-tiny", "bert-mini"],
        "-wiki": ["fnet-wiki-tiny"],
    }


def test_a_share_of_glue_needs_a_control_that_does_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seeds on five tasks, of which the control fails one, which then counts as 0."""

    def scores(values: Sequence[float], fails: bool = False) -> dict[str, list[dict]]:
        lines = {task: [{"accuracy": v, "f1": v, "spearman": v} for v in values] for task in GLUE}
        for line in lines["stsb"] if fails else ():
            line["spearman"] = None
        return {
            task: [{"task": task, "epochs": [{"validation": line}]} for line in lines[task]] for task in GLUE
        }

    def verdict(control: Sequence[float], fails: bool) -> str:
        models = {
            "bert-wiki-tiny": scores((0.6, 0.61, 0.62)),
            "fnet-wiki-tiny": scores((0.61, 0.62, 0.6)),
            claims.CONTROL: scores(control, fails),
        }
        groups = {
            f"{task}-{name}": found for name, by_task in models.items() for task, found in by_task.items()
        }
        monkeypatch.setattr(claims, "published", lambda *_: groups)
        prediction, judge = list(predictions.SHARES.items())[2]
        return predictions.judged(prediction, judge(Results(Path("nowhere"))))[1]

    assert verdict((0.3, 0.31, 0.32), fails=False) == "holds"
    assert verdict((0.6, 0.61, 0.62), fails=False) == "fails"
    assert verdict((0.6, 0.61, 0.62), fails=True) == "holds"
    assert verdict((0.6, 0.61), fails=False) == "open"


def test_predictions_about_rates_stay_open_without_seeds() -> None:
    high, low = [0.4] * 3, [0.1] * 3
    found = {
        "bert": {"4e-3": low},
        "fnet": {"4e-3": high},
        "linear": {"4e-3": high[:2]},
        "ff": dict.fromkeys(TRIED, low),
    }
    attention, mixing = predictions.of_rates(found)
    assert attention[1:] == [
        "open",
        "seeds that train at 0.004: `bert` 0 of 3, `fnet` 3 of 3, `linear` 2 of 2",
    ]
    assert mixing[1] == "holds"
    found["linear"]["4e-3"] = [0.4, 0.4, 0.2]
    found["ff"] = {**found["ff"], "5e-4": [0.3]}
    assert [row[1] for row in predictions.of_rates(found)] == ["fails", "fails"]


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


def test_the_share_of_glue_replaces_failures_by_the_other_seeds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
    replaced = (4 * 0.4 + (0.416 + 0.408) / 2) / 5
    np.testing.assert_allclose(glue.seed_means(groups, "b"), [replaced, 0.416, 0.408])
    np.testing.assert_allclose(glue.seed_means(groups, "b", zeros=True), [4 * 0.4 / 5, 0.416, 0.408])
    groups["stsb-b"] = [found("stsb", None)] * 3
    np.testing.assert_allclose(glue.seed_means(groups, "b"), [0.4, 0.416, 0.408])  # of the other tasks
    del groups["rte-b"]
    assert claims.share_of_glue(Results(tmp_path), "b", "a", 0.92).verdict == claims.UNTESTED


def test_two_fourier_blocks_return_each_token_and_the_opposite_one() -> None:
    """The property of Fourier blocks that docs/fnet.md states."""
    x = np.random.default_rng(0).normal(size=(6, 4))
    twice = np.fft.fft2(np.fft.fft2(x).real).real
    opposite = np.roll(x[::-1, ::-1], 1, (0, 1))
    np.testing.assert_allclose(twice, (x + opposite) * x.size / 2)
