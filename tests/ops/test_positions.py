import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal

from fourier_attn import config, model
from fourier_attn.layers.attention import Attention
from fourier_attn.layers.embed import POSITIONS
from fourier_attn.ops.positions import interpolate, places, rotate, sines, sinusoids


def test_places() -> None:
    assert places(3).tolist() == [[0], [1], [2]]
    assert places(4, (2, 2)).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert places(5, (2, 2)).tolist() == [[0, 0], [0, 0], [0, 1], [1, 0], [1, 1]]
    with pytest.raises(ValueError, match=r"grid=\(2, 2\) must have the 6 tokens"):
        places(6, (2, 2))


@pytest.mark.parametrize(("grid", "width"), [((), 3), ((2, 3), 8), ((4, 4), 2)])
def test_the_chapters_code_is_its_equation(grid: tuple, width: int) -> None:
    """1.33 and 1.34: sin(x / B^p), with B^P the base."""
    where = places(int(np.prod(grid)) if grid else 5, grid)
    axes, count = where.shape[1], width // where.shape[1]
    ratio = 100.0 ** (1 / max(count - 1, 1))
    expected = [[np.sin(n / ratio**p) for n in place for p in range(count)] for place in where]
    found = sines(where, width, base=100.0)
    assert found.shape == (len(where), axes * count)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("grid", "width"), [((), 6), ((2, 3), 8)])
def test_the_usual_code_is_its_equation(grid: tuple, width: int) -> None:
    where = places(6, grid)
    n = width // where.shape[1]
    expected = [
        [f(x / 10_000 ** (2 * i / n)) for x in place for i in range(n // 2) for f in (np.sin, np.cos)]
        for place in where
    ]
    np.testing.assert_allclose(sinusoids(where, width), expected, atol=1e-6)


@pytest.mark.parametrize("grid", [(), (3, 4)])
def test_rotated_products_know_distances_only(grid: tuple) -> None:
    """q and k at two places have the product that they have at two others, as far apart."""
    where = places(12, grid)
    q, k = (jnp.tile(normal(1, 1, 2, 8, seed=seed), (1, 12, 1, 1)) for seed in (1, 2))
    products = np.einsum("thk,shk->hts", rotate(q, where)[0], rotate(k, where)[0])
    distance = (where[:, None] - where[None]) @ np.array([100, 1])[: where.shape[1]]
    for d in np.unique(distance):
        same = products[:, distance == d]
        np.testing.assert_allclose(same, np.tile(same[:, :1], same.shape[1]), atol=1e-4)
    assert np.abs(products[:, 0] - products[:, 0, :1]).max() > 0.1
    np.testing.assert_allclose(
        jnp.linalg.norm(rotate(q, where), axis=-1), jnp.linalg.norm(q, axis=-1), rtol=1e-5
    )


def test_rotations_are_by_the_equations_angles() -> None:
    x, where = normal(1, 4, 1, 4), places(4)
    angles = np.arange(4)[:, None] / 10_000 ** (np.array([0, 2]) / 4)
    turned = (np.asarray(x[0, :, 0, ::2]) + 1j * np.asarray(x[0, :, 0, 1::2])) * np.exp(1j * angles)
    np.testing.assert_allclose(rotate(x, where)[0, :, 0, ::2], turned.real, atol=1e-6)
    np.testing.assert_allclose(rotate(x, where)[0, :, 0, 1::2], turned.imag, atol=1e-6)


def test_attention_is_told_of_places_by_rotations() -> None:
    """Without them it does not know the order of tokens; with them it does, of all but the class token."""
    x, order = normal(1, 4, 8), np.array([1, 0, 3, 2])
    for rotary in (False, True):
        layer = Attention(heads=2, grid=(2, 2), rotary=rotary)
        params = drawn(layer, x)
        change = np.abs(
            jax.jit(layer.apply)(params, x[:, order]) - jax.jit(layer.apply)(params, x)[:, order]
        ).max()
        assert (change > 1e-3) == rotary


def test_widths_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="a width of 6 must be a multiple of 4 for positions with 2"):
        sinusoids(places(4, (2, 2)), 6)


def test_interpolated_tables() -> None:
    table = normal(7, 3)
    assert interpolate(table, (2, 3), (2, 3)) is table
    larger = interpolate(table, (2, 3), (4, 6))
    np.testing.assert_array_equal(larger[0], table[0])  # of a class token
    assert larger.shape == (25, 3)
    constant = interpolate(jnp.ones((6, 2)), (2, 3), (5, 4))
    np.testing.assert_allclose(constant, np.ones((20, 2)), atol=1e-6)
    with pytest.raises(ValueError, match="a table of 3 rows does not fit"):
        interpolate(table[:3], (2, 3), (4, 6))


@pytest.mark.parametrize("kind", POSITIONS)
def test_every_kind_in_the_model(kind: str) -> None:
    """With "none" attention and the mean do not know the order of tokens; with any other kind they do."""
    settings = config.default("attention").model
    settings.update({"vocab": 11, "positions": 9, "depth": 1, "d": 8, "mlp": 12, "position_width": 4})
    settings.update({"positions_kind": kind})
    network, ids = model.build(settings), jnp.asarray(np.arange(1, 7)[None], jnp.int32)
    params = drawn(network, ids)
    params = jax.tree.map(lambda p: p + 0.3 * normal(*p.shape), params)
    assert ("positions" in params["params"]["encoder"]) == (kind == "learned")
    apply = jax.jit(network.apply)
    change = np.abs(apply(params, ids) - apply(params, ids[:, ::-1])).max()
    assert (change > 1e-4) == (kind != "none")


def test_rotary_needs_attention() -> None:
    settings = config.default("fourier").model
    settings.positions_kind = "rotary"
    with pytest.raises(ValueError, match="model.positions_kind='rotary' needs attention in some block"):
        model.build(settings)
