"""Fields of mixers: an option whatever its name, unless the declaration says where its value comes from."""

from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fourier_attn import config, data, model
from fourier_attn.layers.fields import from_data, from_model, from_run, how_computed, not_an_option, options
from fourier_attn.model import MIXERS
from fourier_attn.optics import Engine
from fourier_attn.train.rundir import config_file
from launch import grid


class Plain(nn.Module):
    """Fields that mean something else than those of this project's mixers with the same names."""

    length: int = 7
    grid: tuple[int, ...] = ()
    lengths: tuple[int, ...] = (3, 5)
    padding: str = "invariant"
    heads: int = 3
    engine: str = "fast"
    eval_engine: int = 2
    dtype: str = "half"
    seed: int = 11
    rotary: bool = True
    block_number: int = 4
    method: str = "mine"
    implementation: str = "plain"

    @nn.compact
    def __call__(self, x: Any, *, mask: Any = None, train: bool = False) -> Any:
        return self.param(self.dtype, nn.initializers.ones, (self.length,))[0] * x


class Declared(nn.Module):
    """The same meanings under other names."""

    rows: int = from_model("positions", 5)
    plane: tuple[int, ...] = from_data("grid", ())
    sizes: tuple[int, ...] = from_data("lengths", ())
    filled: str = from_run("init_padding", "invariant", {"invariant": "zero"})
    way: str = how_computed("auto")
    chip: Engine | None = None
    dtype: Any = not_an_option(jnp.float32)
    place: int = not_an_option(9)

    @nn.compact
    def __call__(self, x: Any, *, mask: Any = None, train: bool = False) -> Any:
        return x


@pytest.fixture(autouse=True)
def mixers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MIXERS, "plain", Plain)
    monkeypatch.setitem(MIXERS, "declared", Declared)


def test_plain_fields_are_options(few_reviews: str, tmp_path: Path) -> None:
    """Through default, the data, weights to start from, and the file of a run."""
    defaults = {field.name: field.default for field in options(Plain)}
    assert len(defaults) == 13
    c = config.default("plain", others=("declared", "fourier"))
    c.data.dir, c.data.train_examples, c.data.length, c.model.positions = few_reviews, 96, 48, 48
    c = config.with_absolute_paths(config.fitted(config.fit_length(c), data.load(c.data, directory=tmp_path)))
    config.check(c)
    assert c.model.mixer.to_dict() == {"name": "plain", **defaults}
    assert config.from_dict(c.to_dict()).to_dict() == c.to_dict()
    assert config.device_files(c) == {}
    assert model.engine_of(c.model.mixer) is None
    other = c.copy_and_resolve_references()
    other.model.mixer.length, other.model.mixer.lengths, other.model.mixer.grid = 8, (1,), (2, 3)
    config_file.save(tmp_path, c)
    assert config_file.differing(tmp_path, other).keys() == {
        f"model.mixer.{n}" for n in ("length", "lengths", "grid")
    }


def test_plain_fields_reach_the_layer() -> None:
    c = config.default("plain")
    c.model.update({"depth": 1, "d": 4, "mlp": 4, "vocab": 9})
    network = model.build(c.model)
    assert model.engines(network) == [()]
    for dtype in ("half", "double"):
        c.model.mixer.dtype = dtype
        params: Any = model.build(c.model).init(jax.random.key(0), jnp.ones((1, 3), int))["params"]
        assert params["encoder"]["block_0"]["mixer"][dtype].shape == (7,)


def test_declared_fields_are_filled(few_reviews: str, tmp_path: Path) -> None:
    c = config.default("declared")
    names = ["rows", "plane", "sizes", "filled", "way", "chip"]
    assert [field.name for field in options(Declared)] == names
    assert c.model.mixer.rows == c.model.positions == 48
    c.data.dir, c.data.train_examples, c.data.length, c.data.buckets = few_reviews, 96, 48, (16,)
    fitted = config.fitted(c, data.load(c.data, directory=tmp_path)).model.mixer
    assert (fitted.plane, fitted.sizes) == ((), (16, 48))
    images = config.default("declared", "shapes")
    images = config.fit_grid(images)
    assert images.model.mixer.rows == np.prod(images.model.mixer.plane) > 1
    chip = config.default("declared", engine="chip_11x11")
    assert chip.model.mixer.filled == "zero"
    assert chip.model.mixer.chip.shape == (11, 11)
    assert config.from_dict(chip.to_dict()).to_dict() == chip.to_dict()
    (engines,) = model.engines(model.build(dict(chip.model) | {"depth": 1}))
    assert isinstance(engines[0], Engine)
    assert isinstance(model.engine_of(chip.model.mixer), Engine)
    config.set_optional(chip, "model.mixer.chip", None)
    assert chip.model.mixer.chip is None


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(ValueError, match="name='width' is unknown; choose one of positions"):
        from_model("width", 5)


def test_a_plain_engine_on_the_command_line(tmp_path: Path) -> None:
    file, knob = tmp_path / "mine.py", "--config.model.mixer"
    file.write_text("from fourier_attn.config import default\ndef get_config(): return default('plain')\n")
    c = grid.read([f"--config={file}", f"{knob}.engine=slow", f"{knob}.eval_engine=5", f"{knob}.dtype=third"])
    found = c.model.mixer
    assert (found.engine, found.eval_engine, found.dtype, found.length) == ("slow", 5, "third", 7)
    with pytest.raises(
        ValueError, match="engine=None: this option cannot be None; give a value such as 'fast'"
    ):
        grid.read([f"--config={file}", f"{knob}.engine=None"])
