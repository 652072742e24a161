"""A look inside: what the picture and the file show is what the network does."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal, run_here, shrink

from fourier_attn import config, main, model, style, train
from fourier_attn.inference.explain import lit, plot
from fourier_attn.inference.predictor import Predictor
from fourier_attn.layers.circular import CircularAttention
from fourier_attn.layers.controls import Random
from fourier_attn.layers.global_filter import GlobalFilter
from fourier_attn.layers.introspection import attention_maps, inspect
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.layers.learned_filters import learned
from fourier_attn.ops.circular import circular_correlate

SIZES = {"depth": 2, "d": 8, "mlp": 8, "vocab": 11, "positions": 9}


@pytest.mark.parametrize(("shape", "kernel"), [((), ()), ((), (3,)), ((4, 2), (3, 1)), ((4, 2), ())])
def test_the_merged_filter_gives_the_scores(shape: tuple, kernel: tuple) -> None:
    """q_i . k_j, from it alone."""
    layer, x = CircularAttention(2, shape or None, "circular", kernel or None), normal(1, 3, 8)
    params = drawn(layer, x)
    merged, sizes = np.asarray(learned(layer, params, 8)["merged"]), shape or (8,)
    query, key = (circular_correlate(x, params["params"][n], shape=shape or None) for n in ("query", "key"))
    tokens, found = np.asarray(x, np.float64).reshape(3, *sizes), np.zeros((2, 3, 3))
    for s in np.ndindex(*sizes):
        moved = np.roll(tokens, [-i for i in s], range(1, tokens.ndim))
        scores = np.einsum("in,jn->ij", tokens.reshape(3, -1), moved.reshape(3, -1))
        found += merged[(slice(None), *s)][:, None, None] * scores
    np.testing.assert_allclose(found, np.einsum("bihd,bjhd->hij", query, key), atol=1e-5)  # float32


@pytest.mark.parametrize(("shape", "kernel"), [((), (5,)), ((), (1,)), ((4, 2), (3, 2))])
def test_without_wrapping_the_merged_filter_has_its_zero_in_the_middle(shape: tuple, kernel: tuple) -> None:
    layer, x = CircularAttention(2, shape or None, "zero", kernel), normal(1, 3, 8)
    params = drawn(layer, x)
    merged = np.asarray(learned(layer, params, 8)["merged"])
    query, key = (np.asarray(params["params"][name], np.float64) for name in ("query", "key"))
    expected = np.zeros((2, *(2 * r - 1 for r in kernel)))
    for t in np.ndindex(*kernel):
        for u in np.ndindex(*kernel):
            s = tuple(j - i + r - 1 for i, j, r in zip(t, u, kernel, strict=True))
            expected[(slice(None), *s)] += query[(slice(None), *t)] * key[(slice(None), *u)]
    np.testing.assert_allclose(merged, expected, atol=1e-6)  # float32


def test_tables_and_gains() -> None:
    x = normal(1, 5, 8)
    layer = LambdaLayer(k=4, context=3)
    params = drawn(layer, x)
    table = learned(layer, params, 8)["position"]
    np.testing.assert_allclose(table, params["params"]["position"][:, :, 0].T)
    layer = GlobalFilter(length=5)
    params = drawn(layer, x)
    real, imaginary = np.moveaxis(np.asarray(params["params"]["filter"]), -1, 0)
    np.testing.assert_allclose(learned(layer, params, 8)["gain"], np.abs(real + 1j * imaginary).T, rtol=1e-5)


@pytest.mark.parametrize("position", ["post", "pre"])
def test_weights_are_those_that_the_network_uses(position: str) -> None:
    """Rows sum to 1, and padding, which is left out, changes none of them."""
    c = config.default("attention").model
    c.update(SIZES | {"norm_position": position})
    network, ids = model.build(c), jnp.asarray([[3, 4, 5, 6, 1, 1]], jnp.int32)
    params = drawn(network, ids)["params"]
    short = inspect(network, params, ids[:, :4], mask=jnp.ones((1, 4), bool))
    long = inspect(network, params, ids, mask=jnp.arange(6)[None] < 4)
    assert [block.mixer for block in long] == ["Attention"] * 2
    for a, b in zip(short, long, strict=True):
        assert a.weights.shape == (c.mixer.heads, 4, 4)
        np.testing.assert_allclose(a.weights.sum(-1), 1, rtol=1e-5)
        np.testing.assert_allclose(a.weights, b.weights, atol=1e-5)


def test_each_block_shows_its_own_random_matrix() -> None:
    c = config.default("random").model
    c.update(SIZES)
    c.mixer.length = 9
    network, ids = model.build(c), jnp.asarray([[3, 4, 5, 6]], jnp.int32)
    params = drawn(network, ids)["params"]
    for number, block in enumerate(inspect(network, params, ids)):
        np.testing.assert_array_equal(block.weights[0], Random(length=9).matrices(number, 8)[0][:4, :4])


def of_images(mixer: str, others: tuple[str, ...] = (), **changes: Any) -> tuple[Any, Any, jax.Array]:
    """A network of two blocks for images of 2 x 3 patches, its parameters, and two images."""
    c = config.default(mixer, others=others).model
    c.update({"inputs": "patches", "image": (8, 12, 1), "patch": 4, "depth": 2, "d": 8, "mlp": 8})
    c.update({"positions": 7} | changes)
    images = jnp.asarray(np.random.default_rng(0).integers(0, 256, (2, 8, 12, 1), np.uint8))
    network = model.build(c)
    return network, drawn(network, images)["params"], images


@pytest.mark.parametrize(
    ("mixer", "pooling"),
    [
        ("attention", "class"),
        ("circular", "mean"),
        ("lambda", "mean"),
        ("fourier", "mean"),
        ("identity", "mean"),
    ],
)
def test_the_map_of_an_image_is_where_the_answer_looks(mixer: str, pooling: str) -> None:
    """The class token's row of the last block, or the mean over rows; none of what no image changes."""
    network, params, images = of_images(mixer, class_token=pooling == "class", pooling=pooling)
    maps = attention_maps(network, params, images)
    if mixer in ("fourier", "identity"):
        assert maps.shape == (2, 0, 0)
        return
    for found, image in zip(maps, images, strict=True):
        last = inspect(network, params, image[None])[-1].weights
        np.testing.assert_allclose(found, last[:, 0] if pooling == "class" else last.mean(axis=1), atol=1e-6)
    assert np.abs(maps[0] - maps[1]).max() > 1e-6


def test_the_map_is_that_of_the_last_block_that_has_one() -> None:
    network, params, images = of_images("fourier", ("circular",), layout=("circular", "fourier"))
    maps, blocks = attention_maps(network, params, images[:1]), inspect(network, params, images[:1])
    np.testing.assert_allclose(maps[0], blocks[0].weights.mean(axis=1), atol=1e-6)


def test_the_map_does_not_depend_on_padding() -> None:
    """Of a mean over tokens only real ones ask; where the network does not know them, all do."""
    c = config.default("attention").model
    c.update(SIZES | {"depth": 1})
    ids, mask = jnp.asarray([[3, 4, 5, 6]], jnp.int32), jnp.arange(8)[None] < 4
    padded = jnp.concatenate([ids, jnp.full((1, 4), 7, jnp.int32)], axis=1)
    network = model.build(c)
    params = jax.tree.map(lambda p: 20 * p, drawn(network, ids)["params"])
    maps = attention_maps(network, params, padded, mask=mask)
    np.testing.assert_allclose(maps[:, :, :4], attention_maps(network, params, ids), atol=1e-5)
    c.masked = False
    without = attention_maps(model.build(c), params, padded, mask=mask)
    np.testing.assert_allclose(without, attention_maps(network, params, padded), atol=1e-5)


def test_the_picture_shows_the_image_under_the_map() -> None:
    random = np.random.default_rng(0)
    pixels, maps = random.integers(0, 256, (8, 12, 3), np.uint8), random.random((2, 2, 3), np.float32)
    cut = {"patch": 4, "stride": 0, "pad_image": False}
    pictures = lit(pixels, maps.mean(axis=0).ravel(), cut)
    figure = plot({"tokens": [], "pictures": pictures, "map": maps.tolist(), "blocks": []})
    image, bright, *heads = [axes.images[0] for axes in figure.axes if axes.images]
    np.testing.assert_array_equal(image.get_array(), pixels)
    mean = maps.mean(axis=0).astype(np.float64)
    expected = pixels * np.kron(mean, np.ones((4, 4)))[..., None] / mean.max()
    np.testing.assert_allclose(bright.get_array(), expected, atol=1)  # bytes
    np.testing.assert_allclose([head.get_array() for head in heads], maps, rtol=1e-6)


def test_a_map_of_any_sign_has_a_scale_that_says_so() -> None:
    """Colours around 0, and light from the least weight to the largest."""
    pixels, maps = np.full((4, 8, 1), 200, np.uint8), np.array([[[-3.0, 1.0]]], np.float32)
    pictures = lit(pixels, maps[0].ravel(), {"patch": 4, "stride": 0, "pad_image": False})
    assert [pictures[1][0, column, 0] for column in (0, 4)] == [0, 200]
    figure = plot({"tokens": [], "pictures": pictures, "map": maps.tolist(), "blocks": []})
    (head,) = [axes.images[0] for axes in figure.axes if axes.get_title("left") == "head 1"]
    assert (head.get_clim(), head.get_cmap().name) == ((-3, 3), style.DIVERGING)
    assert "colours from -3 to 3" in figure.subfigs[0].get_suptitle()


def test_the_picture_over_an_image_names_its_parts_question_and_answer() -> None:
    maps = np.ones((2, 1, 2), np.float32) / 2
    pictures = lit(
        np.full((4, 8, 3), 9, np.uint8), maps[0].ravel(), {"patch": 4, "stride": 0, "pad_image": False}
    )
    answer = {"label": "red", "probability": 0.987, "probabilities": {}}
    document = {"tokens": [], "question": "what colour?", "answer": answer, "map": maps, "blocks": []}
    document["pictures"] = pictures
    figure = plot(document)
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == ["image", "mean of heads", "head 1", "head 2"]
    assert figure.get_suptitle() == "what colour? red (98.7 %)"
    assert plot(document | {"question": None}).get_suptitle() == "red (98.7 %)"
    patches = {"patches": [[answer, answer]]}
    assert plot(document | {"question": None, "answer": patches}).get_suptitle() == ""


def test_light_falls_where_patches_lie_that_overlap_or_reach_over_the_edge() -> None:
    pixels = np.full((1, 5, 1), 200, np.uint8)
    for stride, expected in ((0, [0, 0, 0, 0, 200]), (1, [0, 100, 100, 100, 200])):
        cut = {"patch": 4, "stride": stride, "pad_image": True}
        _, bright = lit(pixels, np.array([0.0, 1.0], np.float32), cut)
        assert bright[0, :, 0].tolist() == expected


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize(
    "mixer",
    ["circular", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lambda", "global_filter"))],
)
def test_the_command_writes_what_it_sees(mixer: str, few_reviews: str, tmp_path: Path) -> None:
    c = shrink(config.default(mixer), few_reviews)
    c.train.epochs = 1
    train.run(c, tmp_path / "run")
    words = ("--mode=explain", f"--workdir={tmp_path / 'run'}", f"--output={tmp_path / 'inside'}")
    code, out, error = run_here(main, *words, "--text=the film was not dull")
    assert code == 0, error
    assert out.count("written to") == 2
    document = json.loads((tmp_path / "inside.json").read_text())
    assert document["tokens"] == ["the", "film", "was", "not", "dull"]
    assert document["answer"]["label"] in {"negative", "positive"}
    assert document["map"] == []
    (block,) = document["blocks"]
    shown = {"circular": "merged", "lambda": "position", "global_filter": "gain"}[mixer]
    assert np.isfinite(np.array(block[shown])).all()
    if mixer != "global_filter":
        assert np.array(block["weights"]).shape[1:] == (5, 5)
    assert (tmp_path / "inside.png").read_bytes().startswith(b"\x89PNG")
    seen = Predictor.load(tmp_path / "run", batch=1).explain("the film was not dull")
    assert seen.document() == {name: document[name] for name in seen._fields}
    assert len(seen.plot().axes) == len(plot(document).axes)
    for more in (["--text="], ["--text=a", "--text_pair=b"], ["--image=a.png"]):
        assert run_here(main, *words, *more)[0] == 2


def test_blocks_share_one_scale_of_colours() -> None:
    """Uniform attention does not look bright only because its block has no larger weight."""
    weights = {"uniform": np.full((3, 2, 2), 0.5).tolist(), "sharp": np.eye(2)[None].tolist()}
    blocks = [{"mixer": name, "weights": array} for name, array in weights.items()]
    figure = plot({"tokens": ["good", "film"], "blocks": blocks})
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert [image.get_clim() for image in images] == [(0.0, 1.0)] * 4
    named = [axes for axes in figure.axes if axes.images and len(axes.get_xticks())]
    assert [axes.get_title("left") for axes in named] == ["head 2", "head 3", "head 1"]
    assert not any(
        line.get_visible() for axes in figure.axes if axes.images for line in axes.get_xgridlines()
    )
