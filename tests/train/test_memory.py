"""A run that no memory holds is refused by its shapes alone."""

import jax
import pytest

from fourier_attn import config, model
from fourier_attn.train import memory
from fourier_attn.train.optimizer import OPTIMIZERS


def needing(**knobs: object) -> config.Config:
    c = config.default("linear")
    c.update_from_flattened_dict({key.replace("__", "."): value for key, value in knobs.items()})
    return c


BOMBS = [
    ({"model__d": 10**8}, "the MLP|the mixers' matrices|the tables"),
    ({"model__types": 10**9}, "the parameters"),
    ({"model__positions": 10**9}, "the tables"),
    ({"model__mlp": 10**9}, "the MLP|activations"),
    ({"model__mixer__length": 10**6}, "the mixers' matrices"),
    ({"data__batch": 10**9}, "activations|batches"),
    ({"train__seeds": 10**8}, "the tables"),
]


@pytest.mark.parametrize(("knobs", "part"), BOMBS, ids=[next(iter(knobs)) for knobs, _ in BOMBS])
def test_what_is_too_large_is_named(knobs: dict, part: str) -> None:
    with pytest.raises(ValueError, match=rf"needs at least .* of memory, .* of it for ({part})"):
        memory.check(needing(**knobs))


def test_an_aperture_that_no_memory_holds_is_named() -> None:
    c = config.default("fourier", engine="chip_11x11")
    c.model.mixer.engine.shape = (10**6, 10**6)
    with pytest.raises(ValueError, match="for a field of light"):
        memory.check(c)


def test_parameters_are_counted_by_shape() -> None:
    """A block of each kind is traced, and counted as often as it stands in the network."""
    c = config.default("linear")
    [(_, needed)] = memory.traced(c).items()
    c.model.depth += 1
    [(_, more)] = memory.traced(c).items()
    m = c.model
    block = m.mixer.length**2 + m.d**2 + 2 * m.d * m.mlp + m.mlp + m.d + 4 * m.d
    assert more - needed == 4 * (memory.COPIES + 2) * block  # Adam has two means


def test_the_optimizer_counts_with_its_own_state() -> None:
    """As many copies of the large kernels as it has: Adafactor of two sums for rows and columns."""
    found = {}
    for name in OPTIMIZERS:
        c = needing(optim__name=name, model__d=512, model__mlp=1024)
        [(_, size)] = memory.traced(c).items()
        params = jax.eval_shape(model.build(c.model).init, jax.random.key(0), model.example(c.model))[
            "params"
        ]
        found[name] = size / (4 * sum(leaf.size for leaf in jax.tree.leaves(params))) - memory.COPIES
        name, size = next(item for item in memory.cheap(c).items() if "MLP" in item[0])
        cheaply = size / (4 * 2 * c.model.depth * 512 * 1024) - memory.COPIES
        assert cheaply == pytest.approx({"muon": 1}.get(c.optim.name, found[c.optim.name]), abs=0.01)
    assert {name: found[name] for name in ("adam", "adamw", "lion", "sgd")} == {
        "adam": 2,
        "adamw": 2,
        "lion": 1,
        "sgd": 1,
    }
    assert 0 < found["adafactor"] < 0.02
    assert 1 < found["muon"] < 2  # Adam's for the tables and the head


def test_what_fits_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    c = config.default()
    memory.check(c)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(ValueError, match="the machine has 1e\\+03 B|the machine has 1 kB"):
        memory.check(c)


@pytest.mark.parametrize("mixer", ["long_conv", "random"])
def test_mixers_with_a_length_get_that_of_the_patches(mixer: str) -> None:
    """Which the run gives them once the data are read, after this check."""
    c = config.default(mixer, "cifar10")
    c.model.patch, c.model.d, c.model.mlp = 1, 4, 4
    assert config.tokens(c) > c.model.mixer.length
    memory.check(c)
    assert c.model.mixer.length == config.default(mixer, "cifar10").model.mixer.length, "it is only looked at"


def test_what_is_too_large_is_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrices of "random" are drawn where they are traced."""
    monkeypatch.setattr(memory, "traced", None)
    with pytest.raises(ValueError, match="the mixers' matrices"):
        memory.check(needing(model__d=10**8))
