"""Images as tokens, one for each pixel."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import pixels
from fourier_attn import config, data, model
from fourier_attn.data import images as pictures
from fourier_attn.data import reading
from fourier_attn.data.examples import Pictures
from fourier_attn.inference import export
from fourier_attn.inference.predictor import Predictor


def test_pixels_are_no_program() -> None:
    c = pixels.get_config("fnet")
    c.data.task, c.model.classes = "pixels", 10
    predictor = Predictor(c, model.build(c.model), {})
    with pytest.raises(ValueError, match="'pixels' reads images as tokens, which programs cannot read"):
        export.check_programs(predictor)


def test_grey_values() -> None:
    images = np.array([[[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [10, 20, 30]]]], np.uint8)
    np.testing.assert_array_equal(pictures.grey(images), [[76, 150, 29, 18]])
    np.testing.assert_array_equal(pictures.grey(images[..., :1]), [[255, 0, 0, 10]])


def test_pixels_as_tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Batches of 1,024 grey values without padding, of a task that needs no tokenizer."""
    random = np.random.default_rng(0)

    def some(count: int) -> Pictures:
        images = random.integers(0, 256, (count, 32, 32, 3), np.uint8)
        none = np.zeros(count, bool)
        return Pictures(images, random.integers(0, 10, count), np.arange(count), none, np.full(count, ""))

    parts = {"train": some(8), "validation": some(4), "test": some(4), "batch_5": some(4)}
    monkeypatch.setattr(reading, "read_images", lambda config: (dict(parts), {}, ()))
    c = pixels.get_config("fnet")
    c.data.batch = 4
    splits = data.load(c.data, directory=tmp_path)
    batch = splits.validation[0]
    np.testing.assert_array_equal(batch["inputs"], pictures.grey(parts["validation"].images))
    assert batch["mask"].all()
    assert splits.tokenizer is None
    assert "batch_5" in splits.evals
    fitted = config.fitted(c, splits)
    assert (fitted.model.inputs, fitted.model.vocab, fitted.model.classes) == ("tokens", 256, 10)
    shapes_ = jax.eval_shape(
        model.build(fitted.model).init, jax.random.key(0), jnp.zeros((1, 1024), jnp.int32)
    )
    assert shapes_["params"]["encoder"]["tokens"]["embedding"].shape == (256, 128)
    c.data.length = 512
    with pytest.raises(ValueError, match="data.length=512 must be 1024, the number of pixels of an image"):
        data.load(c.data, directory=tmp_path)
