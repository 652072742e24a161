"""Runs of the version before updates were watched and lengths were shared: read, evaluated, gone on from."""

import json
import shutil
from pathlib import Path

import jax
import pytest
from conftest import final_state

from fourier_attn import config, train
from fourier_attn.inference import predictor
from fourier_attn.train import init_from
from fourier_attn.train.rundir import workdir
from fourier_attn.train.rundir.checkpoint import Checkpoints, Name
from fourier_attn.train.step import HEALTH, EarlierState


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_an_earlier_run_is_read(toy: config.Config, tmp_path: Path) -> None:
    toy.model.mixer.padding, toy.train.epochs = "own", 1
    result = train.run(toy, tmp_path)
    state = final_state(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    kept = {name: getattr(state, name) for name in EarlierState._fields}
    kept["sums"] = {name: value for name, value in state.sums.items() if name not in HEALTH}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Name(6), EarlierState(**kept))
    checkpoints.close()
    facts = json.loads((tmp_path / "config.json").read_text())
    facts["config"]["init"] = facts["config"].pop("init_from")
    facts["config"]["model"]["mixer"]["padding"] = "invariant"  # which was at each one's own length
    del facts["config"]["model"]["mixer"]["lengths"], facts["config"]["train"]["skip_limit"]
    del facts["config"]["model"]["inputs"], facts["fingerprints"]
    (tmp_path / "config.json").write_text(json.dumps(facts))

    assert workdir.load(tmp_path).model.mixer.padding == "own"
    assert predictor.evaluate(tmp_path)["test"]["accuracy"] == result["accuracy"]
    again = init_from.restore_state(tmp_path)[3]
    jax.tree.map(lambda a, b: None, again, state)  # the structure of today
    assert int(again.skipped) == int(again.rollbacks) == 0
    assert train.run(toy, tmp_path)["accuracy"] == result["accuracy"]  # finished


def test_values_under_earlier_names_are_read() -> None:
    values = config.default("attention").to_dict()
    values["model"]["positions_kind"] = "concatenated"
    assert config.from_dict(values).model.positions_kind == "sines_appended"


def test_engines_of_any_mixer_are_read() -> None:
    """Of the mixer of all blocks or of another one, for training or for evaluation."""
    c = config.default("attention", others=("fourier",), engine=None)
    values = c.to_dict()
    values["model"]["others"]["fourier"]["eval_engine"] = {"shape": [4, 4], "adc_bits": 6}
    read = config.from_dict(values).model.others.fourier
    assert (tuple(read.eval_engine.shape), read.eval_engine.receiver.adc_bits) == ((4, 4), 6)
    del values["model"]["others"]
    assert config.from_dict(values).model.others.to_dict() == {}
