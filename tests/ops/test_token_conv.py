import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal

from fourier_attn.layers.token_conv import TokenConvolution
from fourier_attn.ops.token_conv import token_convolve


@pytest.mark.parametrize(("t", "r"), [(1, 1), (1, 3), (5, 3), (4, 7), (6, 5)])
def test_token_convolution_is_the_definition(t: int, r: int) -> None:
    x, w = normal(2, t, 3), normal(r, seed=1)
    expected, n = np.zeros((2, t, 3)), r // 2
    for i in range(t):
        for k in range(-n, n + 1):
            if 0 <= i - k < t:
                expected[:, i] += np.float64(w[n + k]) * np.asarray(x[:, i - k], np.float64)
    np.testing.assert_allclose(token_convolve(x, w), expected, atol=1e-6)


def test_an_even_filter_is_refused() -> None:
    with pytest.raises(ValueError, match="filter has r=4 taps; make it odd"):
        token_convolve(normal(1, 2, 3), normal(4))
    with pytest.raises(ValueError, match="taps=2 must be odd"):
        TokenConvolution(taps=2).init(jax.random.key(0), normal(1, 2, 3))


@pytest.mark.parametrize("grid", [(), (3, 4)])
def test_a_token_convolution_starts_as_the_identity_whatever_the_seed(grid: tuple[int, ...]) -> None:
    """A block adds its input, y + x: a centre near -1 would erase it, and some seed draws one."""
    layer, x = TokenConvolution(taps=3, grid=grid), normal(2, 12, 8)
    for seed in range(20):
        params = jax.jit(layer.init)(jax.random.key(seed), x)
        y = jax.jit(layer.apply)(params, x)
        assert np.abs(y - x).max() < 0.5 * np.abs(x).max()
        assert np.abs(y - x).max() > 0  # no symmetry: the neighbours' taps differ
        (filter,) = params["params"].values()
        assert filter.dtype == jnp.float32
