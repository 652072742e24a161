"""JAX's own settings: a run's arrays do not depend on them, and a resumed run compares them."""

from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import final_state
from jaxtyping import Array

from fourier_attn import config, model
from fourier_attn.layers.embed import POSITIONS
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import OPTIMIZERS, build_optimizer
from fourier_attn.train.rundir import config_file, fingerprints
from fourier_attn.train.rundir.checkpoint import CheckpointId, Checkpoints
from fourier_attn.train.step import make_eval_step, make_init, make_keys, make_train_step

pytestmark = pytest.mark.usefixtures("standard_promotion")


def small(*mixers: str, engine: str | None = None, **choices: Any) -> config.Config:
    """A network with a block for each of the mixers."""
    first, *others = mixers or ("fourier",)
    c = config.default(first, engine=engine, others=others)
    c.model.update({"depth": 1 + len(others), "layout": (first, *others), "d": 16, "mlp": 16, "vocab": 30})
    c.model.update({"positions": 16, "position_width": 4} | choices)
    for mixer in model.mixers(c.model).values():
        if "shape" in mixer:
            mixer.shape, mixer.kernel = (4, 4), ()
    return config.fit_length(c)


def doubles(c: config.Config, **optim: Any) -> list[str]:
    """Returns the 64-bit arrays that a network begins with or, with `optim`, those of a run's first steps."""
    c.optim.update(optim)
    network, example = model.build(c.model), model.example(c.model)
    init_key, key = make_keys(0, 1)
    found: list[Any] = []
    if not optim:
        found.append(jax.eval_shape(network.init, init_key, example))
    else:
        optimizer, objective = build_optimizer(c.optim), OBJECTIVES[c.model.head]
        state = jax.eval_shape(make_init(network, optimizer, objective, example), init_key, {})
        batch = {"inputs": np.zeros((2, 16), np.int32), "mask": np.ones((2, 16), bool)}
        batch |= {"weight": np.ones(2, np.float32), "label": np.zeros(2, np.int32)}
        after = jax.eval_shape(make_train_step(network, optimizer, objective), state, batch, key)
        judged = jax.eval_shape(make_eval_step(network, objective), state.params, batch)
        found += [state, after, judged]
    leaves = jax.tree_util.tree_leaves_with_path(found)
    return [f"{jax.tree_util.keystr(path)} {leaf.dtype}" for path, leaf in leaves if leaf.dtype.itemsize > 4]


IMAGES = {"inputs": "patches", "image": (8, 8, 3), "patch": 2}
CHOICES: list[dict[str, Any]] = [
    {"emb": 8, "types": 2, "norm_position": "pre", "pooling": "first", "initializer": "torch"},
    *({"positions_kind": kind} for kind in POSITIONS if kind != "rotary"),
    *(IMAGES | choice for choice in ({"class_token": True, "pooling": "class"}, {"head": "tokens"})),
    *({"head": head} for head in ("question", "score", "pretraining")),
]


def test_every_array_of_a_run_is_of_single_precision_whatever_the_flags_say() -> None:
    with jax.enable_x64(True):
        assert doubles(small(*model.MIXERS)) == []
        assert [(choice, found) for choice in CHOICES if (found := doubles(small(**choice)))] == []
        calibrated = small(engine="ideal")
        calibrated.model.mixer.engine.shape = (32, 32)
        calibrated.model.mixer.engine.receiver.adc_range = "calibrated"
        assert doubles(calibrated, name="adam", schedule="linear") == []
        assert doubles(small(dtype="bfloat16"), name="adamw", clip_norm=0.0) == []
        assert [(name, found) for name in OPTIMIZERS if (found := doubles(small(), name=name))] == []


class Own(nn.Module):
    """A mixer whose author thought of no dtype."""

    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(self, x: Array, *, mask: Array | None = None, train: bool = False) -> Array:
        return x * self.param("scale", nn.initializers.normal(), (1, 1, x.shape[-1]))


def test_the_layers_of_others_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model.MIXERS, "own", Own)
    with jax.enable_x64(True):
        assert doubles(small("own"), name="adam") == []


def test_a_checkpoint_is_read_in_the_precision_in_which_it_was_written(tmp_path: Path) -> None:
    """Its sums are compared before it is cast."""
    written = {"params": np.arange(3) / 3, "step": np.int32(4)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(CheckpointId(4), written)
    checkpoints.wait()
    like = {"params": jnp.zeros(3, jnp.float32), "step": jnp.zeros((), jnp.int32)}
    for form in (like, jax.eval_shape(lambda: like)):
        found = checkpoints.restore(form)
        assert found
        assert found[1]["params"].dtype == np.float32
        np.testing.assert_array_equal(found[1]["params"], written["params"].astype(np.float32))
    checkpoints.close()


def test_settings_that_change_results_are_part_of_a_run(toy_run: Path) -> None:
    there = config_file.record(toy_run)["fingerprints"]
    assert there["settings"] == fingerprints.settings_fingerprint()
    with jax.default_prng_impl("rbg"), jax.threefry_partitionable(False):
        now = there | {"settings": fingerprints.settings_fingerprint()}
        with pytest.raises(ValueError, match=r"impl threefry2x32 -> rbg, .*--allow_drift=settings"):
            fingerprints.check_drift(toy_run, now)
    assert final_state(toy_run).step.dtype == np.int32
