"""The same weights in Keras Hub's FNet, on random weights; skipped where that is not installed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import published
import pytest

from fourier_attn import model, pretrained
from fourier_attn.inference.predictor import Predictor
from fourier_attn.pretrained.rewrite import rewrite

os.environ.setdefault("KERAS_BACKEND", "jax")
pytest.importorskip("h5py")
keras_hub = pytest.importorskip("keras_hub", exc_type=ImportError)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("their_promotion"),
    pytest.mark.filterwarnings("ignore"),  # theirs
]

TINY = {
    "vocabulary_size": 40,
    "num_layers": 3,
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "max_sequence_length": 12,
    "num_segments": 3,
}
# Both compute in float32; the largest difference seen was 4e-6, on values of about 1.
TOLERANCE = {"atol": 3e-5, "rtol": 0}


@pytest.fixture
def their_promotion(standard_promotion: None) -> Iterator[None]:
    """Their layers add vectors to matrices."""
    with jax.numpy_rank_promotion("allow"):
        yield


def theirs() -> Any:
    """Their backbone with random weights."""
    return drawn(keras_hub.models.FNetBackbone(**TINY))


def drawn(network: Any) -> Any:
    """Their model with random weights; biases and scales too, which it initialises to about 0 and 1."""
    random = np.random.default_rng(0)
    for weights in network.weights:
        weights.assign(weights + random.normal(scale=0.5, size=weights.shape))
    return network


def inputs() -> dict[str, np.ndarray]:
    random, shape = np.random.default_rng(1), (2, 9)
    return {"token_ids": random.integers(0, 40, shape), "segment_ids": random.integers(0, 3, shape)}


def ours(folder: Path, given: dict[str, np.ndarray]) -> Any:
    settings, params = pretrained.load(folder)
    tokens, types = (jnp.asarray(given[name], jnp.int32) for name in ("token_ids", "segment_ids"))
    return model.build(settings).apply({"params": params}, tokens, types=types)


def same(mine: Any, other: Any) -> None:
    print(f"{np.shape(mine)}: {np.abs(np.asarray(mine) - np.asarray(other)).max():.1e}")
    np.testing.assert_allclose(mine, other, **TOLERANCE)


def there_and_back(folder: Path, tmp_path: Path) -> Path:
    """Their preset as safetensors and as a preset again."""
    for name in ("middle", "back"):
        (tmp_path / name).mkdir()
    rewrite(folder, tmp_path / "middle" / "model.safetensors")
    rewrite(tmp_path / "middle", tmp_path / "back" / "model.weights.h5")
    return tmp_path / "back"


def test_backbone(tmp_path: Path) -> None:
    backbone, given = theirs(), inputs()
    backbone.save_to_preset(str(tmp_path / "preset"))
    expected, mine = backbone(given), ours(tmp_path / "preset", given)
    same(mine["hidden"], expected["sequence_output"])
    same(mine["pooled"], expected["pooled_output"])
    back = keras_hub.models.FNetBackbone.from_preset(str(there_and_back(tmp_path / "preset", tmp_path)))
    assert back.get_config() == backbone.get_config()
    for one, other in zip(backbone.weights, back.weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("classes", [1, 3])
def test_classifier(classes: int, tmp_path: Path) -> None:
    task, given = drawn(keras_hub.models.FNetTextClassifier(theirs(), classes)), inputs()
    task.save_to_preset(str(tmp_path / "preset"))
    mine = ours(tmp_path / "preset", given)
    same(mine if mine.ndim == 2 else mine[:, None], task(given))
    folder = there_and_back(tmp_path / "preset", tmp_path)
    back = keras_hub.models.TextClassifier.from_preset(str(folder), preprocessor=None)
    assert type(back) is type(task)
    for one, other in zip(task.weights, back.weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_masked_lm_gives_its_backbone(tmp_path: Path) -> None:
    task, given = drawn(keras_hub.models.FNetMaskedLM(theirs())), inputs()
    task.save_to_preset(str(tmp_path / "preset"))
    assert "left out: task.weights.h5:layers/masked_lm_head" in pretrained.read(tmp_path / "preset").report()
    same(ours(tmp_path / "preset", given)["hidden"], task.backbone(given)["sequence_output"])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_low_precision(dtype: str, tmp_path: Path) -> None:
    backbone = keras_hub.models.FNetBackbone(**TINY, dtype=dtype)
    backbone.save_to_preset(str(tmp_path / "preset"))
    _, params = pretrained.load(tmp_path / "preset")
    table = np.asarray(backbone.token_embedding.embeddings.value)
    np.testing.assert_array_equal(params["encoder"]["tokens"]["embedding"], table.astype(np.float32))


@pytest.mark.parametrize("row", published.LOADS)
def test_which_exported_folders_load(row: str, tmp_path: Path, sentencepiece_file: Path) -> None:
    """Folders of docs/export.md give the answers of the predictor; others are refused."""
    changes, _, loads = published.LOADS[row]
    if not loads:
        with pytest.raises(ValueError, match="Keras Hub only has FNet"):
            published.exported(tmp_path / "out", sentencepiece_file, "keras_hub", **changes)
        return
    folder = published.exported(tmp_path / "out", sentencepiece_file, "keras_hub", **changes)
    texts = ["The cats saw one red dog.", "one and two"]
    task = keras_hub.models.TextClassifier.from_preset(str(folder), activation="softmax")
    answers = np.asarray(task(task.preprocessor(texts)))
    expected = [list(answer["probabilities"].values()) for answer in Predictor.load(folder)(texts)]
    np.testing.assert_allclose(answers, expected, **TOLERANCE)


def test_folders_of_transformers_do_not_load(tmp_path: Path, sentencepiece_file: Path) -> None:
    """Keras Hub reads other architectures of theirs, and not FNet."""
    folder = published.exported(tmp_path / "out", sentencepiece_file)
    with pytest.raises(ValueError, match="KerasHub has no converter for huggingface/transformers models"):
        keras_hub.models.Backbone.from_preset(str(folder))
