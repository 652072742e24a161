import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal

from fourier_attn.layers.embed import PatchEmbedding
from fourier_attn.ops.patches import fold, grid_of_patches, patches, same_proportions, scan_order
from fourier_attn.ops.positions import sines, sinusoids

SIZES = [  # image, patch, stride, pad
    ((8, 12), 4, 0, False),
    ((9, 5), 3, 2, False),
    ((7, 7), 1, 0, False),
    ((5, 6), 4, 0, True),
    ((6, 9), 4, 3, True),
    ((2, 3), 4, 0, True),
]


@pytest.mark.parametrize(("image", "patch", "stride", "pad"), SIZES)
def test_patches_are_pieces_of_the_image(image: tuple, patch: int, stride: int, pad: bool) -> None:
    x, step = np.asarray(normal(2, *image, 3)), stride or patch
    rows, cols = grid_of_patches(image, patch, stride, pad)
    padded = np.zeros((2, step * (rows - 1) + patch, step * (cols - 1) + patch, 3), np.float32)
    padded[:, : image[0], : image[1]] = x
    expected = [
        padded[:, step * u : step * u + patch, step * v : step * v + patch]
        for u in range(rows)
        for v in range(cols)
    ]
    cut = patches(jnp.asarray(x), patch, stride, pad)
    np.testing.assert_array_equal(cut, np.stack(expected, 1))
    np.testing.assert_allclose(fold(cut, image, patch, stride, pad), x, atol=1e-6)  # means of equal numbers


def bytes_of(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).integers(0, 256, shape, np.uint8))


def test_folded_patches_that_differ_are_averaged() -> None:
    y = jnp.arange(3.0)[None, :, None, None, None] * jnp.ones((1, 3, 2, 2, 1))
    folded = fold(y, (2, 4), 2, 1)[0, 0, :, 0]
    np.testing.assert_allclose(folded, [0, 0.5, 1.5, 2])


@pytest.mark.parametrize(("image", "patch", "stride", "pad"), SIZES)
def test_the_embedding_is_a_convolution(image: tuple, patch: int, stride: int, pad: bool) -> None:
    """With the same weights, which have the same form."""
    layer = PatchEmbedding(
        d=6, image=(*image, 3), patch=patch, stride=stride, pad_image=pad, positions_kind="none"
    )
    pixels = bytes_of(2, *image, 3)
    params = drawn(layer, pixels)
    params = jax.tree.map(lambda p: p + 0.1 * normal(*p.shape), params)
    (rows, cols), step = grid_of_patches(image, patch, stride, pad), stride or patch
    more = [max(step * (n - 1) + patch - size, 0) for n, size in ((rows, image[0]), (cols, image[1]))]
    convolution = nn.Conv(6, (patch, patch), step, padding=[(0, n) for n in more])
    weights = {"params": params["params"]["patches"]}
    expected = jax.jit(convolution.apply)(weights, jnp.asarray(pixels, jnp.float32) / 255)
    x, table = jax.jit(layer.apply)(params, pixels)
    assert table is None
    np.testing.assert_allclose(x, expected.reshape(2, rows * cols, 6), atol=1e-5)  # float32, other order


def test_channels_are_standardised() -> None:
    pixels = bytes_of(1, 4, 4, 2)
    mean, deviation = (0.3, 0.5), (0.2, 0.4)
    plain = {"d": 3, "image": (4, 4, 2), "patch": 2, "positions_kind": "none"}
    layer = PatchEmbedding(**plain, pixel_mean=mean, pixel_deviation=deviation)
    params = jax.jit(layer.init)(jax.random.key(0), pixels)
    kernel = np.asarray(params["params"]["patches"]["kernel"], np.float64).reshape(8, 3)
    scaled = (np.asarray(pixels) / 255 - np.asarray(mean)) / np.asarray(deviation)
    cut = patches(jnp.asarray(scaled, jnp.float32), 2).reshape(1, 4, 8)
    np.testing.assert_allclose(jax.jit(layer.apply)(params, pixels)[0], np.asarray(cut) @ kernel, atol=1e-5)


def test_the_class_token_stands_first_and_has_its_own_position() -> None:
    layer = PatchEmbedding(d=3, image=(4, 4, 1), patch=2, class_token=True)
    pixels = jnp.zeros((2, 4, 4, 1), jnp.uint8)
    params = drawn(layer, pixels)
    p = params["params"]
    x, _ = jax.jit(layer.apply)(params, pixels)
    assert (x.shape, p["positions"].shape) == ((2, 5, 3), (5, 3))
    np.testing.assert_allclose(x[:, 0], np.tile(p["class_token"] + p["positions"][0], (2, 1)), atol=1e-6)


@pytest.mark.parametrize("first", [False, True], ids=["patches", "class token"])
@pytest.mark.parametrize("kind", ["sinusoidal", "sines", "sinusoidal_appended", "sines_appended"])
def test_patches_get_the_codes_of_their_rows_and_columns(kind: str, first: bool) -> None:
    layer = PatchEmbedding(
        d=16, image=(4, 6, 1), patch=2, positions_kind=kind, position_width=8, class_token=first
    )
    images = jnp.ones((1, 4, 6, 1), jnp.uint8)
    params = jax.tree.map(jnp.zeros_like, drawn(layer, images))
    where = np.array([[0, 0]] * first + [[row, col] for row in range(2) for col in range(3)])
    code, appended = sinusoids if kind.startswith("sinusoidal") else sines, kind.endswith("appended")
    codes = np.pad(code(where, 8), ((0, 0), (8, 0))) if appended else code(where, 16)
    np.testing.assert_array_equal(jax.jit(layer.apply)(params, images)[0][0], codes)


def test_an_image_that_mixers_would_take_for_another_one_is_refused() -> None:
    layer = PatchEmbedding(d=4, image=(8, 8, 1), patch=2)
    params = jax.jit(layer.init)(jax.random.key(0), jnp.zeros((1, 8, 8, 1), jnp.uint8))
    with pytest.raises(ValueError, match="2 x 8 patches would be taken for 4 x 4, since"):
        layer.apply(params, jnp.zeros((1, 4, 16, 1), jnp.uint8))


def test_another_resolution_has_its_table_interpolated() -> None:
    """Exact for a table that is linear in the place, but for places outside the outermost ones."""
    layer = PatchEmbedding(d=2, image=(8, 8, 1), patch=2)
    small, large = (jnp.zeros((1, n, n, 1), jnp.uint8) for n in (8, 16))
    params = jax.jit(layer.init)(jax.random.key(0), small)["params"]
    rows, cols = np.indices((4, 4)).reshape(2, -1)
    params |= {"positions": jnp.asarray(np.stack([rows, cols], 1), jnp.float32)}
    x, _ = jax.jit(layer.apply)({"params": params}, large)
    expected = np.clip((np.arange(8) + 0.5) / 2 - 0.5, 0, 3)
    np.testing.assert_allclose(x[0, :, 0].reshape(8, 8), np.tile(expected[:, None], 8), atol=1e-6)
    np.testing.assert_allclose(x[0, :, 1].reshape(8, 8), np.tile(expected, (8, 1)), atol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not divide an image of 28 x 30 pixels.*up to 30 x 30"):
        grid_of_patches((28, 30), 5)
    with pytest.raises(ValueError, match="stride=5 leaves pixels out"):
        grid_of_patches((28, 28), 4, 5)
    with pytest.raises(ValueError, match="3 patches do not fill the grid of 2 x 2"):
        fold(normal(1, 3, 2, 2, 1), (4, 4), 2)
    layer = PatchEmbedding(d=2, image=(4, 4, 3), patch=2)
    with pytest.raises(ValueError, match="an image has 1 channels, and the network takes 3"):
        jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros((1, 4, 4, 1), jnp.uint8))


@pytest.mark.parametrize(
    ("grid", "t", "found"),
    [((7, 7), 49, (7, 7)), ((4, 6), 6, (2, 3)), ((2, 3), 24, (4, 6)), ((5, 5), 1, (1, 1))],
)
def test_grids_of_the_same_proportions(grid: tuple, t: int, found: tuple) -> None:
    assert same_proportions(t, grid) == found


@pytest.mark.parametrize("t", [0, 5, 25])
def test_tokens_that_fill_no_grid(t: int) -> None:
    with pytest.raises(ValueError, match=f"{t} tokens fill no grid of its proportions"):
        same_proportions(t, (2, 3))


def test_scans() -> None:
    assert scan_order((2, 3), "rows").tolist() == [0, 1, 2, 3, 4, 5]
    assert scan_order((2, 3), "columns").tolist() == [0, 3, 1, 4, 2, 5]
    assert scan_order((2, 3), "snake").tolist() == [0, 1, 2, 5, 4, 3]
    with pytest.raises(ValueError, match="scan='spiral' is unknown"):
        scan_order((2, 3), "spiral")
