"""Runs of earlier versions are read, evaluated and resumed."""

import copy
import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import final_state

from fourier_attn import config, train
from fourier_attn.inference import evaluation
from fourier_attn.model import MIXERS
from fourier_attn.train import init_from
from fourier_attn.train.rundir.checkpoint import CheckpointId, Checkpoints
from fourier_attn.train.step import EarlierState


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_an_earlier_run_is_read(toy: config.Config, tmp_path: Path) -> None:
    toy.model.mixer.padding, toy.train.epochs = "own", 1
    result = train.run(toy, tmp_path)
    state = final_state(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(CheckpointId(6), EarlierState(*state))
    checkpoints.close()
    facts = json.loads((tmp_path / "config.json").read_text())
    del facts["fingerprints"]
    (tmp_path / "config.json").write_text(json.dumps(facts))

    assert evaluation.evaluate(tmp_path)["test"]["accuracy"] == result["accuracy"]
    again = init_from.restore_state(tmp_path)[3]
    jax.tree.map(np.testing.assert_array_equal, again, state)
    assert train.run(toy, tmp_path)["accuracy"] == result["accuracy"]  # finished


def test_engines_of_any_mixer_are_read() -> None:
    """Of the mixer of all blocks or of another one, for training or for evaluation."""
    c = config.default("attention", others=("fourier",), engine=None)
    values = c.to_dict()
    values["model"]["others"]["fourier"]["eval_engine"] = {"shape": [4, 4], "adc_bits": 6}
    read = config.from_dict(values).model.others.fourier
    assert (tuple(read.eval_engine.shape), read.eval_engine.receiver.adc_bits) == ((4, 4), 6)
    del values["model"]["others"]
    assert config.from_dict(values).model.others.to_dict() == {}


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_missing_option_has_its_default(mixer: str) -> None:
    """As in the file of a run that is older than the option."""
    written = config.default(mixer).to_dict()
    parts = {
        "": written,
        **{part: written[part] for part in config.PARTS},
        "mixer": written["model"]["mixer"],
    }
    for part, values in parts.items():
        for name in values.keys() - {"name", "task", "mixer", *config.PARTS}:
            lacking = copy.deepcopy(written)
            target = lacking["model"]["mixer"] if part == "mixer" else lacking[part] if part else lacking
            del target[name]
            assert config.from_dict(lacking).to_dict() == written, (part, name)
