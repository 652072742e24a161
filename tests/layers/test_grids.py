"""Mixers on images: what their grid means, at their own resolution and at another one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal
from scipy.signal import convolve2d

from configs import circular
from fourier_attn import config, model
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.fields import GRID, named
from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.layers.global_filter import GlobalFilter
from fourier_attn.layers.long_conv import LongConvolution
from fourier_attn.layers.token_conv import TokenConvolution
from fourier_attn.model import MIXERS
from fourier_attn.ops import positions
from fourier_attn.ops.fourier import fourier_mix_grid
from fourier_attn.ops.patches import scan_order
from fourier_attn.ops.token_conv import token_convolve

WITH_GRID = [name for name in MIXERS if named(MIXERS[name], GRID)]


def test_which_mixers_have_a_grid() -> None:
    names = {"attention", "lambda", "fourier", "global_filter", "afno", "long_conv", "token_conv"}
    assert set(WITH_GRID) == names


@pytest.mark.parametrize(("grid", "d"), [((3, 4), 5), ((4, 3), 6), ((1, 5), 1), ((2, 2), 2)])
def test_fourier_over_rows_columns_and_features(grid: tuple, d: int) -> None:
    x = normal(2, grid[0] * grid[1], d)
    image = np.asarray(x, np.float64).reshape(2, *grid, d)
    for features, axes in ((True, (1, 2, 3)), (False, (1, 2))):
        expected = np.fft.fftn(image, axes=axes).real.reshape(x.shape)
        np.testing.assert_allclose(fourier_mix_grid(x, grid, features=features), expected, atol=1e-4)


@pytest.mark.parametrize("features", [True, False])
def test_fourier_on_a_grid_is_its_own_derivative(features: bool) -> None:
    x, g = normal(2, 12, 3), normal(2, 12, 3, seed=1)

    def mix(x: jax.Array) -> jax.Array:
        return fourier_mix_grid(x, (3, 4), features=features)

    pulled = jax.vjp(mix, x)[1](g)[0]
    np.testing.assert_allclose(jnp.vdot(g, mix(x)), jnp.vdot(pulled, x), rtol=1e-4)


def test_token_convolution_on_a_grid() -> None:
    x, filter = normal(1, 12, 2), normal(3, 5, seed=1)
    y = token_convolve(x, filter, grid=(3, 4)).reshape(3, 4, 2)
    for j in range(2):
        expected = convolve2d(np.asarray(x[0, :, j]).reshape(3, 4), np.asarray(filter), mode="same")
        np.testing.assert_allclose(y[..., j], expected, atol=1e-5)


@pytest.mark.parametrize("scan", ["rows", "columns", "snake"])
def test_long_convolution_along_a_scan(scan: str) -> None:
    """The tokens lined up, convolved, and put back."""
    x = normal(1, 12, 3)
    layer, line = LongConvolution(length=12, grid=(3, 4), scan=scan), LongConvolution(length=12)
    params, order = drawn(layer, x), scan_order((3, 4), scan)
    y = jax.jit(layer.apply)(params, x)
    np.testing.assert_allclose(y[:, order], jax.jit(line.apply)(params, x[:, order]), atol=1e-5)


@pytest.mark.parametrize("name", WITH_GRID)
def test_another_resolution(name: str) -> None:
    """The same weights take an image twice as large; proportions that differ are refused."""
    x, larger = normal(1, 16, 8), normal(1, 64, 8)
    options = {"long_conv": {"length": 64}, "attention": {"rotary": True, "heads": 2}}
    layer = MIXERS[name](grid=(4, 4), **options.get(name, {}))
    params = drawn(layer, x)
    assert jax.eval_shape(layer.apply, params, larger).shape == larger.shape
    with pytest.raises(ValueError, match="fill no grid of its proportions"):
        jax.eval_shape(layer.apply, params, larger[:, :60])


@pytest.mark.parametrize("first", [0, 1], ids=["patches", "class token"])
def test_rotations_at_another_resolution_are_those_of_its_grid(first: int) -> None:
    small, large = Attention(heads=2, rotary=True, grid=(2, 3)), Attention(heads=2, rotary=True, grid=(4, 6))
    x = normal(1, 24 + first, 8)
    params = jax.jit(large.init)(jax.random.key(0), x)
    np.testing.assert_array_equal(jax.jit(small.apply)(params, x), jax.jit(large.apply)(params, x))
    np.testing.assert_array_equal(small.places(6 + first), positions.places(6 + first, (2, 3)))


def test_a_global_filter_of_an_even_image_at_another_resolution() -> None:
    """One that passes everything still does."""
    layer, x = GlobalFilter(grid=(4, 4)), normal(1, 64, 2)
    ones = jnp.stack([jnp.ones((4, 3, 2)), jnp.zeros((4, 3, 2))], -1)
    np.testing.assert_allclose(jax.jit(layer.apply)({"params": {"filter": ones}}, x), x, atol=1e-5)


@pytest.mark.parametrize("name", ["lambda", "token_conv"])
def test_short_filters_move_with_the_image(name: str) -> None:
    """Away from the edges. The content lambda, which is one for all tokens, is the same for both images."""
    layer = MIXERS[name](grid=(8, 8))
    image = np.zeros((1, 8, 8, 8), np.float32)
    image[:, 2:4, 2:4] = np.asarray(normal(1, 2, 2, 8))
    moved = np.roll(image, (2, 1), (1, 2))
    params = drawn(layer, jnp.asarray(image.reshape(1, 64, 8)))
    first, second = (
        np.asarray(jax.jit(layer.apply)(params, jnp.asarray(x.reshape(1, 64, 8)))).reshape(1, 8, 8, 8)
        for x in (image, moved)
    )
    np.testing.assert_allclose(second, np.roll(first, (2, 1), (1, 2)), atol=1e-5)


def test_a_grid_takes_no_mask() -> None:
    x, mask = normal(1, 4, 2), jnp.ones((1, 4), bool)
    with pytest.raises(ValueError, match=r"grid=\(2, 2\) goes with no mask and no engine"):
        FourierMixing(grid=(2, 2)).apply({}, x, mask=mask)
    with pytest.raises(ValueError, match="features=False needs a grid"):
        FourierMixing(features=False).apply({}, x)


@pytest.mark.parametrize("name", MIXERS)
def test_a_model_of_images(name: str) -> None:
    """Every mixer reads images; those with a grid get that of the patches from the run."""
    c = config.default(name, "mnist")
    c.model.update({"image": (8, 12, 1), "patch": 4, "depth": 1, "d": 8, "mlp": 8})
    c = config.fit_grid(c)
    grid = c.model.mixer.get("grid")
    assert grid == ((2, 3) if name in WITH_GRID else None)
    network = model.build(c.model)
    shapes = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((2, 8, 12, 1), jnp.uint8))
    out = jax.eval_shape(network.apply, shapes, jnp.zeros((2, 8, 12, 1), jnp.uint8))
    assert out.shape == (2, 2)


@pytest.mark.parametrize(
    ("argument", "shape", "width"),
    [
        ("mnist", None, 128),
        ("fashion_mnist-2d", (16, 8), 128),
        ("cifar10-3x3", (16, 8), 128),
        ("mnist-11x11", (11, 11), 121),
        ("shapes-2d", (8, 8), 64),
        ("shapes_patches-11x11", (11, 11), 121),
    ],
)
def test_circular_attention_over_patches_by_its_configuration(
    argument: str, shape: tuple | None, width: int
) -> None:
    """With the epochs of the images' task."""
    c, task = circular.get_config(argument), argument.partition("-")[0]
    assert (c.model.mixer.shape, c.model.d) == (shape, width)
    assert c.train.epochs == config.default("circular", task).train.epochs
    config.check(c)
    c.model.depth = 1
    network, images = model.build(c.model), jnp.zeros((1, *c.model.image), jnp.uint8)
    question = {"question": jnp.zeros((1, 8), jnp.int32)} if task == "shapes" else {}
    shapes = jax.eval_shape(network.init, jax.random.key(0), images, **question)
    assert jax.eval_shape(network.apply, shapes, images, **question).shape[0] == 1


def test_a_grid_that_is_given_stays() -> None:
    c = config.default("fourier", "mnist")
    c.model.mixer.grid = (1, 49)
    assert config.fit_grid(c).model.mixer.grid == (1, 49)
    assert not config.fit_grid(config.default("fourier")).model.mixer.grid


def test_token_convolution_layer_has_a_square_filter() -> None:
    shapes = jax.eval_shape(TokenConvolution(grid=(2, 2)).init, jax.random.key(0), normal(1, 4, 2))
    assert shapes["params"]["filter"].shape == (3, 3)
