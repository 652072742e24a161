"""Accuracy versus bits and noise: which examples are evaluated, and what the picture shows."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import configuration, run_here, small_family

from fourier_attn import config, train
from fourier_attn.data.prepare import prepare
from fourier_attn.inference import evaluation
from fourier_attn.optics import Engine
from fourier_attn.optics.parts import Receiver
from fourier_attn.studies.engine import evaluator as judged
from fourier_attn.studies.engine import pareto, photons, robustness, robustness_sweep
from fourier_attn.studies.engine.evaluator import EngineEvaluator, run_engine

BITS, NOISES = [2, 3, 8], [0.0, 1.0]


def rows() -> list[dict[str, Any]]:
    """Of two runs on three devices; accuracy grows with the bits, falls with the noise."""
    found = []
    for run, exact in (("exact", 0.9), ("optical", 0.88)):
        found.append({"run": run, "split": "test", "accuracy": exact})
        for bits in BITS:
            for noise in NOISES:
                for device in range(3):
                    accuracy = exact - 0.1 / bits - 0.01 * noise - 0.001 * device
                    found.append(found[0] | {"run": run, "bits": bits, "noise": noise, "device": device})
                    found[-1]["accuracy"] = accuracy
    return found


def test_curves_are_losses_side_by_side_with_keys_of_their_own() -> None:
    axes = robustness_sweep.plot({"rows": rows()}).axes[0]
    curves = [bar.lines[0] for bar in axes.containers]
    assert len(curves) == 4
    loss = 100 * (0.1 / 2 + 0.001)  # mean of three devices at 2 bit
    assert curves[0].get_ydata()[0] == pytest.approx(loss)
    assert curves[1].get_ydata()[0] == pytest.approx(loss + 1)
    assert len({tuple(curve.get_xdata()) for curve in curves}) == 4
    assert all(np.abs(curve.get_xdata() - np.array(BITS)).max() < 0.5 for curve in curves)
    assert len({curve.get_marker() for curve in curves}) == 4
    assert len({(curve.get_color(), curve.get_linestyle()) for curve in curves}) == 4
    assert list(axes.get_xticks()) == BITS


def test_maps_say_their_numbers() -> None:
    _, first, second, *_ = robustness_sweep.plot({"rows": rows()}).axes
    assert first.get_title("left") == "exact: exact transform 90.00 %"
    assert [text.get_text() for text in first.texts] == ["84.9", "86.6", "88.7", "83.9", "85.6", "87.7"]
    assert second.texts[0].get_text() == "82.9"
    assert [label.get_text() for label in first.get_xticklabels()] == ["2", "3", "8"]


@pytest.fixture
def pair_run(tmp_path: Path) -> Path:
    """A run on RTE, whose examples are pairs of texts, in tiny files."""
    folder = tmp_path / "source" / "RTE"
    folder.mkdir(parents=True)
    answers = ("entailment", "not_entailment")
    for split in ("train", "dev", "test"):
        lines = ["index\tsentence1\tsentence2" + ("" if split == "test" else "\tlabel")]
        for i in range(24):
            line = f"{i}\tIt {'rains' if i % 2 else 'snows'} {i}.\tWet {split}."
            lines.append(line if split == "test" else f"{line}\t{answers[i % 2]}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    prepare("glue/rte", tmp_path / "source", str(tmp_path / "tfds"))
    c = small_family(configuration("finetune", "rte"))
    c.data.dir, c.train.epochs = str(tmp_path / "tfds"), 1
    c.model.mixer.padding = "zero"
    train.run(c, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_pair_of_texts_keeps_its_segment_types(pair_run: Path) -> None:
    """On validation, since the labels of test are not public; of the first examples as of all."""
    evaluator, few = EngineEvaluator(pair_run), EngineEvaluator(pair_run, examples=5)
    whole, part = evaluator.splits["validation"], few.splits["validation"]
    assert evaluator.public == "validation"
    assert (len(whole.rows), len(part.rows)) == (24, 5)
    assert whole[0]["types"].max() == 1
    np.testing.assert_array_equal(part[0]["types"][:5], whole[0]["types"][:5])
    np.testing.assert_array_equal(part[0]["inputs"][:5], whole[0]["inputs"][:5])
    exact, ideal = robustness_sweep.accuracies(evaluator, Engine(shape=(4, 4)), [24], [0.0], 1)
    assert exact["accuracy"] == evaluation.evaluate(pair_run)["validation"]["accuracy"]
    assert ideal["accuracy"] == exact["accuracy"]
    assert (ideal["bits"], ideal["noise"], ideal["device"]) == (24, 0.0, 0)


@pytest.mark.parametrize("study", [robustness, pareto, photons])
def test_a_measured_device_has_no_others_beside_it(
    study: ModuleType, toy_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said before anything is evaluated."""
    measured = Engine.from_measured(np.eye(16), shape=(4, 4), receiver=Receiver("hybrid90"), power_w=1e-5)
    monkeypatch.setattr(judged, "run_engine", lambda *given: measured)
    monkeypatch.setattr(EngineEvaluator, "through", pytest.fail)
    monkeypatch.setattr(EngineEvaluator, "exact", pytest.fail)
    code, _, said = run_here(study, f"--workdir={toy_run}", "--devices=2")
    assert code == 2
    assert "devices=2, noise=" in said
    assert "no seed and no factor changes the errors of a measured device" in said


def test_a_mixer_without_optical_form_is_named() -> None:
    with pytest.raises(ValueError, match="has the mixer 'identity', without optical form"):
        run_engine(Path("run"), config.default("identity"))


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_all_optical_blocks_of_a_hybrid_are_on_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ideal engine is the exact network. Two bits are not. Attention stays exact."""
    c = config.default("attention", "recall", others=("long_conv",))
    c.model.layout = ("long_conv", "attention")
    small = {"model.d": 16, "model.mlp": 16, "data.length": 16, "data.pairs": 2, "model.positions": 16}
    sizes = {"data.train_examples": 512, "data.eval_examples": 32, "data.test_examples": 64}
    c = config.with_values(c, small | sizes | {"train.epochs": 1})
    train.run(c, tmp_path / "run")
    built = []
    build = judged.model.build
    monkeypatch.setattr(judged.model, "build", lambda fields: built.append(fields) or build(fields))
    evaluator = EngineEvaluator(tmp_path / "run")
    assert (evaluator.optical, evaluator.engine) == (["long_conv"], None)
    exact, ideal = robustness_sweep.accuracies(evaluator, Engine(shape=(4, 4)), [24], [0.0], 1)
    assert ideal["accuracy"] == exact["accuracy"]
    assert isinstance(built[-1]["others"]["long_conv"]["engine"], Engine)
    assert built[-1]["mixer"]["name"] == "attention"
