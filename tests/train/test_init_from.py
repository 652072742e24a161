"""Weights of another run: what is taken of them, what is said, and what cannot be set beside them."""

from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import configuration

from fourier_attn import config, model, train
from fourier_attn.train import init_from
from fourier_attn.train.init_from import check_overrides, restore
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_init, make_keys

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture
def source(toy: config.Config, tmp_path: Path) -> Path:
    toy.train.epochs = 1
    train.run(toy, tmp_path / "source")
    return tmp_path / "source"


@pytest.mark.slow
def test_a_head_of_the_same_task_is_kept_and_another_is_new(
    source: Path, toy: config.Config, tmp_path: Path
) -> None:
    trained = restore(source)[2]
    toy.init_from = str(source)
    start = init_from.load(toy, tmp_path / "next")
    jax.tree.map(np.testing.assert_array_equal, start.params, trained)
    assert start.notes == ("the head is kept: it has the same task",)
    assert start.tokenizer == source / "tokenizer.json"
    toy.data.task = "imdb"
    start = init_from.load(toy, tmp_path / "next")
    assert set(start.params) == set(trained) - {"head"}
    assert start.notes == ("the head is new: that of the weights is for 'reviews'",)


@pytest.mark.slow
def test_a_run_goes_on_from_another(
    source: Path, toy: config.Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the architecture of the weights; without them it can be resumed all the same."""
    toy.init_from, toy.model.d, toy.model.dropout = str(source), 24, 0.1
    result = train.run(toy, tmp_path / "next")
    assert np.isfinite(result["loss"])
    assert "the head is kept" in capsys.readouterr().out
    there = restore(tmp_path / "next")[0].model
    assert (there.d, there.dropout) == (8, 0.1)
    source.rename(tmp_path / "elsewhere")
    assert train.run(toy, tmp_path / "next") == result


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "model.d",
            "model.d cannot be set together with init_from=x, which determines the architecture; leave it",
        ),
        ("model.classes", "model.classes cannot be set because the data determine it"),
    ],
)
def test_knobs_without_effect_are_refused(name: str, message: str, toy: config.Config) -> None:
    toy.init_from = "x"
    with pytest.raises(ValueError, match=message):
        check_overrides(toy, [name])
    check_overrides(toy, ["data.dir", "model.dropout", "model.mixer.method"])


def test_exact_weights_get_an_engine(toy: config.Config) -> None:
    """That of the configuration in place of none, and of another; without one they keep their own."""
    insitu: config.Config = configuration("optical_insitu", "reviews")
    exact = toy.model.to_dict()
    insitu.init_from = "x"
    adopted = config.with_architecture(insitu, exact)
    assert adopted.model.mixer.engine.to_dict() == insitu.model.mixer.engine.to_dict()
    assert (adopted.model.mixer.padding, adopted.model.d) == ("zero", toy.model.d)
    config.check(adopted)
    again = config.default(engine="hostile")
    again = config.with_architecture(again, adopted.model.to_dict())
    assert again.model.mixer.engine.modulator.dac_bits_amp == 3
    kept = config.with_architecture(toy, adopted.model.to_dict())
    assert kept.model.mixer.engine.to_dict() == insitu.model.mixer.engine.to_dict()
    check_overrides(insitu, ["model.mixer.engine", "model.mixer.engine.receiver.adc_bits"])


def test_what_weights_lack_is_drawn_from_a_key_of_its_own(toy: config.Config) -> None:
    """With equal seeds the "new" head would be the one with which the given encoder was trained."""
    toy.model.vocab = 8
    network, optimizer = model.build(toy.model), build_optimizer(toy.optim)
    init = make_init(network, optimizer, OBJECTIVES["classes"], model.example(toy.model))
    key, _ = make_keys(toy.seed, 1)
    parent = init(key).params
    trained = jax.tree.map(lambda p: p * 1.5 + 0.1, parent)
    heads = [parent["head"]]
    for encoder in (parent["encoder"], trained["encoder"]):
        params = init(key, {"encoder": encoder}).params
        jax.tree.map(np.testing.assert_array_equal, params["encoder"], encoder)
        heads.append(params["head"])
    kernels = [np.asarray(head["output"]["kernel"]) for head in heads]
    assert all(np.abs(a - b).max() > 0.01 for a, b in zip(kernels, (*kernels[1:], kernels[0]), strict=True))
    again = init(key, {"encoder": trained["encoder"]}).params["head"]
    jax.tree.map(np.testing.assert_array_equal, again, heads[2])  # the run can be repeated


def test_positions_of_longer_texts_are_interpolated(toy: config.Config) -> None:
    """As those of images are. Mixers whose own weights have a length refuse longer texts themselves."""
    table = np.arange(48.0, dtype=np.float32)[:, None] + np.zeros((1, 8), np.float32)
    params = {"encoder": {"positions": table}}
    toy.data.length = 96
    longer, made, notes = init_from._for_longer_texts(toy.copy_and_resolve_references(), params)
    assert longer.model.positions == 96
    found = made["encoder"]["positions"]
    assert found.shape == (96, 8)
    np.testing.assert_allclose(found[1:95, 0], np.arange(1, 95) / 2 - 0.25, atol=1e-5)
    assert notes == ("its table of 48 positions is interpolated to 96",)
    toy.data.length = 48
    assert init_from._for_longer_texts(toy, params) == (toy, params, ())
    sized = config.default("linear")
    sized.model.positions, sized.data.length = 48, 96
    assert init_from._for_longer_texts(sized, params)[2] == ()
