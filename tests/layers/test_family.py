from itertools import pairwise

import jax
import jax.numpy as jnp
import pytest
from published import PARAMETERS

from fourier_attn import model
from fourier_attn.family import ARCHITECTURES, SIZES, family, placed


def shapes(name: str, size: str) -> dict:
    network = model.build(family(name, size).model)
    return jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 4), jnp.int32))["params"]


@pytest.mark.parametrize(("name", "size"), PARAMETERS)
def test_parameters_are_the_published_ones_to_the_digit(name: str, size: str) -> None:
    params = shapes(name, size)
    count = {part: sum(p.size for p in jax.tree.leaves(params[part])) for part in params}
    assert (count["encoder"] + count["pooler"], sum(count.values())) == PARAMETERS[name, size]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_keys_of_an_architecture(name: str) -> None:
    params = shapes(name, "tiny")
    assert params.keys() == {"encoder", "pooler", "head"}
    assert params["head"].keys() == {"mlm_dense", "mlm_norm", "mlm_bias", "nsp"}
    tables = {"tokens", "positions", "types", "embedding_norm", "projection"}
    assert params["encoder"].keys() == tables | {"block_0", "block_1"}
    mixer = {"bert": {"query", "key", "value", "out"}, "linear": {"tokens", "features"}}.get(name)
    mixer = mixer or ({"query", "key", "value", "out"} if name == "hybrid" else set())
    block = params["encoder"]["block_1"]
    assert block.keys() == {"mixer_norm", "mlp_norm", "mlp_in", "mlp_out"} | ({"mixer"} if mixer else set())
    assert set(block.get("mixer", {})) == mixer
    if name in ("bert", "hybrid"):
        assert all(block["mixer"][key].keys() == {"kernel", "bias"} for key in mixer)


def test_layouts_of_the_paper() -> None:
    def where(place: str, depth: int, count: int) -> list[int]:
        layout = placed(depth, count, place, "fourier")
        assert set(layout) <= {"fourier", "attention"}
        return [n for n, name in enumerate(layout) if name == "attention"]

    assert where("bottom", 12, 2) == [0, 1]
    assert where("middle", 12, 2) == [5, 6]
    assert where("middle", 12, 3) == [5, 6, 7]
    assert where("mixed", 12, 2) == [0, 6]
    assert where("top", 12, 2) == [10, 11]
    for depth in range(1, 13):
        for count in range(depth + 1):
            for place in ("bottom", "middle", "mixed", "top"):
                assert len(where(place, depth, count)) == count, (place, depth, count)
            if count and depth % count == 0:  # where the published formula is right
                assert where("mixed", depth, count) == [n for n in range(depth) if n % (depth // count) == 0]
    spread = where("mixed", 12, 5)
    assert max(b - a for a, b in pairwise(spread)) <= 3


@pytest.mark.parametrize("size", SIZES)
def test_a_hybrid_has_attention_where_it_should(size: str) -> None:
    c = family("hybrid", size, attention=1, where="bottom")
    params = jax.eval_shape(model.build(c.model).init, jax.random.key(0), jnp.zeros((1, 4), jnp.int32))[
        "params"
    ]["encoder"]
    having = [n for n in range(c.model.depth) if "mixer" in params[f"block_{n}"]]
    assert having == [0]
    layout = family("hybrid", size).model.layout
    assert layout.count("attention") == min(2, len(layout) // 2)
    assert set(layout) == {"fourier", "attention"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gpt",), "name='gpt' is unknown; choose one of fnet, hybrid"),
        (("fnet", "huge"), "size='huge' is unknown"),
        (("hybrid", "base", "pretraining", 13), "count=13 must lie between 0 and depth=12"),
        (("fnet", "base", "pretraining", 2), "attention=2 and where=None are of 'hybrid', not"),
        (("bert", "base", "pretraining", None, "top"), "where='top' are of 'hybrid'"),
        (("hybrid", "base", "pretraining", 2, "left"), "where='left' is unknown; choose one of bottom"),
    ],
)
def test_bad_arguments(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        family(*arguments)


def test_a_layout_that_does_not_fit_is_refused() -> None:
    c = family("hybrid", "tiny").model
    with pytest.raises(ValueError, match=r"model.layout has 3 mixers for model.depth=2"):
        model.build(c.to_dict() | {"layout": ("fourier",) * 3})
    with pytest.raises(
        ValueError, match=r"model.layout has linear, but model.mixer and model.others describe"
    ):
        model.build(c.to_dict() | {"layout": ("fourier", "linear")})
