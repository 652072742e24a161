"""Labels of patches: from data to a trained run, its scores and its answers."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT, normal, run_here
from pictures import small_shapes
from sklearn.metrics import jaccard_score

from fourier_attn import config, main, train
from fourier_attn.data.image_reading import read_image
from fourier_attn.data.sources import shapes
from fourier_attn.inference import export, predictor
from fourier_attn.inference.classify import Classifier
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.scores import mean_iou


@pytest.fixture(scope="module")
def trained(few_shapes: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    """A run on labels of patches, and its scores."""
    where = tmp_path_factory.mktemp("runs") / "patches"
    with jax.numpy_dtype_promotion("standard"):
        return where, train.run(small_shapes(few_shapes, "segmentation"), where)


@pytest.fixture
def patches(trained: tuple[Path, dict[str, float]]) -> Path:
    return trained[0]


def test_scores_are_those_of_the_predictions(trained: tuple[Path, dict[str, float]]) -> None:
    where, result = trained
    assert 0 <= result["mean_iou"] <= 1
    rows = [json.loads(line) for line in (where / "predictions.jsonl").read_text().splitlines()]
    label, chosen = (np.array([row[name] for row in rows]) for name in ("label", "prediction"))
    assert label.shape == (20, 25)
    assert result["mean_iou"] == pytest.approx(mean_iou(chosen, label))
    assert result["accuracy"] == pytest.approx(np.mean(chosen == label), abs=1e-6)


def test_a_run_labels_an_image(patches: Path, shapes_picture: str) -> None:
    words = ("--mode=predict", f"--workdir={patches}", f"--image={shapes_picture}")
    code, out, error = run_here(main, *words)
    assert code == 0, error
    assert [line.split()[:2] for line in out.splitlines()] == [[str(i // 5), str(i % 5)] for i in range(25)]
    assert {line.split()[2] for line in out.splitlines()} <= set(shapes.LABELS)
    code, _, error = run_here(main, *words, "--text=what colour is the circle?")
    assert code == 2
    assert "leave --text out" in error


def test_a_folder_is_loaded_back(patches: Path, shapes_picture: str, tmp_path: Path) -> None:
    export.export(patches, tmp_path / "out", "huggingface")
    found = predictor.Predictor.load(tmp_path / "out")([shapes_picture])
    assert found == predictor.Predictor.load(patches)([shapes_picture])
    assert not (tmp_path / "out" / "tokenizer.json").exists()


@pytest.mark.slow
def test_a_program_of_images_asks_for_arrays(patches: Path, shapes_picture: str, tmp_path: Path) -> None:
    """The file name of one gets one line; its bytes get the answers of the run."""
    pytest.importorskip("flatbuffers")
    folder = tmp_path / "out"
    words = [sys.executable, "-m", "fourier_attn.export", f"--workdir={patches}", f"--to={folder}"]
    subprocess.run(words, check=True, cwd=ROOT)  # without annotations that are checked: rows may be `b` there
    words = [sys.executable, folder / "classify.py", shapes_picture]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert f"error: {shapes_picture!r}: this network takes images" in done.stderr
    assert "an array of bytes (n, 40, 40, 3)" in done.stderr
    image = read_image(Path(shapes_picture), (40, 40, 3))[None]
    [answer] = predictor.Predictor.load(patches)([shapes_picture])
    expected = [list(p["probabilities"].values()) for row in answer["patches"] for p in row]
    np.testing.assert_allclose(Classifier(folder)(image)[0], expected, atol=1e-5)


def test_labels_of_other_patches_are_refused(few_shapes: str, tmp_path: Path) -> None:
    c = small_shapes(few_shapes, "segmentation")
    c.model.patch = 4
    with pytest.raises(ValueError, match="labels 25 patches, but the network has 100"):
        train.run(c, tmp_path / "run")


def test_mean_iou_is_the_mean_jaccard_index() -> None:
    random = np.random.default_rng(0)
    label, prediction = random.integers(0, 4, (2, 6, 25))
    expected = jaccard_score(label.ravel(), prediction.ravel(), average="macro")
    assert mean_iou(prediction, label) == pytest.approx(expected)
    assert mean_iou(label, label) == 1
    assert mean_iou(np.array([[0, 1]]), np.array([[0, 0]])) == pytest.approx((1 / 2 + 0) / 2)


def test_each_patch_counts_alike_and_padded_examples_do_not() -> None:
    logits, label = normal(3, 4, 5), jnp.asarray(np.random.default_rng(0).integers(0, 5, (3, 4)), jnp.int32)
    batch = {"label": label, "weight": jnp.array([1.0, 1.0, 0.0])}
    sums = OBJECTIVES["tokens"].sums(logits, batch)
    log_p = jax.nn.log_softmax(logits)
    loss = -np.mean([log_p[b, t, label[b, t]] for b in range(2) for t in range(4)])
    np.testing.assert_allclose(sums["loss"], [8 * loss, 8], rtol=1e-5)
    right = np.mean(np.argmax(logits[:2], axis=-1) == label[:2])
    np.testing.assert_allclose(sums["accuracy"], [8 * right, 8], rtol=1e-6)


def test_a_class_token_has_no_label() -> None:
    c = config.default("attention", "shapes_patches")
    c.model.class_token = True
    with pytest.raises(ValueError, match="model.class_token=True has no label among those of the patches"):
        config.check(c)
