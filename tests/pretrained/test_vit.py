"""Vision transformers in Hugging Face's layout: read, and the same as in its PyTorch model."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from flax import traverse_util
from PIL import Image
from safetensors.numpy import save_file

from fourier_attn import config, model, pretrained, train
from fourier_attn.pretrained import vit
from fourier_attn.train import init_from

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
SIZES |= {"image_size": 12, "patch_size": 4}


def shapes(d: int = 16, f: int = 24, c: int = 3, k: int = 4, t: int = 9, classes: int = 5) -> dict:
    """Those of google/vit-*, in small."""
    found = {
        "vit.embeddings.cls_token": (1, 1, d),
        "vit.embeddings.position_embeddings": (1, t + 1, d),
        "vit.embeddings.patch_embeddings.projection.weight": (d, c, k, k),
        "vit.embeddings.patch_embeddings.projection.bias": (d,),
        "vit.layernorm.weight": (d,),
        "vit.layernorm.bias": (d,),
        "classifier.weight": (classes, d),
        "classifier.bias": (classes,),
    }
    for i in range(2):
        for name, (out, inner) in {
            "attention.attention.query": (d, d),
            "attention.attention.key": (d, d),
            "attention.attention.value": (d, d),
            "attention.output.dense": (d, d),
            "intermediate.dense": (f, d),
            "output.dense": (d, f),
        }.items():
            found |= {f"vit.encoder.layer.{i}.{name}.weight": (out, inner)}
            found |= {f"vit.encoder.layer.{i}.{name}.bias": (out,)}
        for name in ("layernorm_before", "layernorm_after"):
            found |= {f"vit.encoder.layer.{i}.{name}.{leaf}": (d,) for leaf in ("weight", "bias")}
    return found


def written(where: Path, **changes: Any) -> Path:
    arrays = {key: np.asarray(normal(*shape, seed=i)) for i, (key, shape) in enumerate(shapes().items())}
    for key, value in changes.items():
        arrays.pop(key, None) if value is None else arrays.update({key: value})
    save_file(arrays, where / "model.safetensors")
    (where / "config.json").write_text(json.dumps(SIZES | {"hidden_act": "gelu"}))
    return where / "model.safetensors"


def test_a_file_is_read(tmp_path: Path) -> None:
    """Every number of the file is in one place, and settings are those of the files."""
    path = written(tmp_path)
    settings, params, notes = pretrained.read(path)
    found = (settings.image, settings.patch, settings.mixer.heads, settings.depth, settings.classes)
    assert found == ((12, 12, 3), 4, 2, 2, 5)
    assert (settings.norm_position, settings.pooling, settings.head) == ("pre", "class", "classes")
    count = sum(np.prod(shape) for shape in shapes().values())
    assert sum(p.size for p in jax.tree.leaves(params)) == count
    assert "names of google/vit" in notes[0]
    pixels = jnp.zeros((1, 12, 12, 3), jnp.uint8)
    assert jax.eval_shape(model.build(settings).apply, {"params": params}, pixels).shape == (1, 5)
    assert "image (12, 12, 3), patch 4" in pretrained.read(path).report()


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    settings, params = pretrained.load(written(tmp_path))
    pretrained.save(tmp_path / "again.safetensors", settings, params)
    again, same = pretrained.load(tmp_path / "again.safetensors")
    assert again.to_dict() == settings.to_dict()
    jax.tree.map(np.testing.assert_array_equal, params, same)


def test_heads_and_statistics_from_the_files_beside(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(SIZES | {"num_attention_heads": 4}))
    statistics = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(statistics))
    settings = pretrained.read(path).config
    assert (settings.mixer.heads, settings.pixel_mean) == (4, (0.1, 0.2, 0.3))
    assert settings.pixel_deviation == (0.4, 0.5, 0.6)


def test_pixels_that_are_not_normalised_or_otherwise_scaled(tmp_path: Path) -> None:
    """Pixels are x / 255 here; what is not normalised, or not scaled so, is that by its statistics."""
    path, statistics = written(tmp_path), {"image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    for more, mean, deviation in [
        ({"do_normalize": True, "do_rescale": True, "rescale_factor": 1 / 255}, 0.5, 0.25),
        ({"do_normalize": False}, 0.0, 1.0),
        ({"rescale_factor": 1 / 127.5}, 0.25, 0.125),
        ({"do_rescale": False}, 0.5 / 255, 0.25 / 255),
        ({"do_rescale": False, "do_normalize": False}, 0.0, 1 / 255),
    ]:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(statistics | more))
        settings = pretrained.read(path).config
        assert settings.pixel_mean == pytest.approx((mean,) * 3)
        assert settings.pixel_deviation == pytest.approx((deviation,) * 3)
    for wrong in (0, -1, "x", None):
        (tmp_path / "preprocessor_config.json").write_text(json.dumps({"rescale_factor": wrong}))
        with pytest.raises(ValueError, match="not a vision transformer in the layout"):
            pretrained.read(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classifier.bias": None}, "classifier.bias is missing"),
        ({"vit.more": np.zeros(3, np.float32)}, "vit.more is unknown"),
        ({"vit.layernorm.bias": np.zeros(3, np.float32)}, r"layernorm.bias has the shape \(3,\) instead of"),
        (
            {"vit.embeddings.position_embeddings": np.zeros((1, 9, 16), np.float32)},
            "do not form a square image",
        ),
        (
            {"vit.embeddings.position_embeddings": None},
            "not a vision transformer in the layout of google/vit",
        ),
        ({"vit.embeddings.cls_token": np.zeros((1, 1, 16), np.int32)}, "weights are"),
    ],
)
def test_damaged_files(tmp_path: Path, changes: dict, message: str) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        pretrained.read(path)


def test_a_configuration_beside_that_does_not_fit(tmp_path: Path) -> None:
    path = written(tmp_path)
    for text in ("[]", "{", json.dumps({"hidden_act": "swish"}), json.dumps({"num_attention_heads": 3})):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"model\.safetensors: "):
            pretrained.read(path)


def test_names_are_given_to_every_parameter() -> None:
    settings = config.default("attention", "cifar10").model
    settings.update({"class_token": True, "depth": 2})
    network = model.build(settings)
    found = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 32, 32, 3), jnp.uint8))["params"]
    paths = ["/".join(path) for path in traverse_util.flatten_dict(found)]
    assert all(vit.name(path, "vit.")[0] for path in paths)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ViTForImageClassification", "ViTModel"])
def test_it_is_the_model_of_hugging_face(name: str, tmp_path: Path) -> None:
    """On random weights, images and biases; float32 on both sides."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    network = getattr(transformers, name)(transformers.ViTConfig(**SIZES)).eval()
    with torch.no_grad():
        for weights in network.parameters():
            weights += 0.3 * torch.randn_like(weights)
    network.save_pretrained(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 12, 12, 3), np.uint8)
    given = torch.tensor((pixels / 255 - 0.5) / 0.5, dtype=torch.float32).permute(0, 3, 1, 2)
    with torch.no_grad():
        theirs = network(given)
    settings, params = pretrained.load(tmp_path)
    ours = jax.jit(model.build(settings).apply)({"params": params}, jnp.asarray(pixels))
    pairs = (
        [(ours, theirs.logits)]
        if name != "ViTModel"
        else [(ours["hidden"], theirs.last_hidden_state), (ours["pooled"], theirs.pooler_output)]
    )
    for mine, other in pairs:
        np.testing.assert_allclose(mine, other.numpy(), atol=1e-4)


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_begins_with_a_folder(tmp_path: Path) -> None:
    """For images of another size, in classes of their own."""
    folder = tmp_path / "weights"
    folder.mkdir()
    written(folder)
    for name, size in (("train", 16), ("test", 8)):
        for number in range(size):
            path = tmp_path / name / ("dark", "light")[number % 2] / f"{number:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((16, 16, 3), 150 * (number % 2) + number, np.uint8)).save(path)
    c = config.default("attention", "image_files")
    c.init_from, c.train.epochs = str(folder), 1
    c.data.update({"dir": "", "batch": 8, "image_size": 16})
    c.data.update({name: str(tmp_path / name) for name in ("train", "test")})
    train.run(c, tmp_path / "run")
    made, _, params = init_from.restore(tmp_path / "run")
    assert (tuple(made.model.image), made.model.patch, made.model.classes) == ((16, 16, 3), 4, 2)
    assert params["encoder"]["positions"].shape == (17, 16)
