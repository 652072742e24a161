import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.test_util import check_grads

from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.ops.fourier import METHODS, fourier_mix

SIZES = [(1, 1), (1, 5), (6, 1), (2, 2), (4, 6), (7, 5), (8, 9), (9, 8), (13, 11), (16, 12)]


def oracle(x: np.ndarray) -> np.ndarray:
    """y[i, j] = sum_mn x[m, n] cos(2 pi (i m / t + j n / d)), term by term in float64."""
    t, d = x.shape[-2:]
    y = np.zeros(x.shape)
    for i in range(t):
        for j in range(d):
            phase = 2 * np.pi * (i * np.arange(t)[:, None] / t + j * np.arange(d)[None, :] / d)
            y[..., i, j] = (x * np.cos(phase)).sum(axis=(-2, -1))
    return y


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", SIZES)
def test_is_the_definition(size: tuple[int, int], method: str) -> None:
    x = normal(3, *size)
    expected = oracle(np.asarray(x, np.float64))
    # float32 rounding of sums of t d terms, measured 1e-6 of the output's rms
    np.testing.assert_allclose(fourier_mix(x, method=method), expected, atol=5e-6 * expected.std() + 1e-6)


def test_methods_agree_at_the_articles_size() -> None:
    x = normal(2, 512, 128)
    fft, rfft = fourier_mix(x, method="fft"), fourier_mix(x, method="rfft")
    np.testing.assert_allclose(rfft, fft, atol=5e-6 * float(fft.std()))


@pytest.mark.parametrize("method", METHODS)
def test_gradient(method: str) -> None:
    check_grads(
        jax.jit(lambda x: fourier_mix(x, method=method)),
        (normal(2, 5, 6),),
        order=2,
        modes=["rev"],
        rtol=1e-2,
    )


def test_backward_is_the_derivative_of_the_plain_transform() -> None:
    x, g = normal(2, 9, 12), normal(2, 9, 12, seed=1)
    expected = jax.vjp(lambda x: jnp.fft.fft2(x).real, x)[1](g)[0]
    np.testing.assert_allclose(jax.vjp(fourier_mix, x)[1](g)[0], expected, atol=1e-4)


def test_is_self_adjoint() -> None:
    x, g = normal(7, 10), normal(7, 10, seed=1)
    np.testing.assert_allclose(jnp.vdot(fourier_mix(x), g), jnp.vdot(x, fourier_mix(g)), rtol=1e-4)


def test_backward_keeps_nothing_of_the_forward_pass() -> None:
    _, pull_back = jax.vjp(fourier_mix, normal(16, 16))
    assert sum(leaf.size for leaf in jax.tree.leaves(pull_back)) == 0


def test_twice_gives_the_even_part() -> None:
    x = normal(6, 9)
    even = (x + jnp.roll(jnp.flip(x), 1, (0, 1))) / 2
    np.testing.assert_allclose(fourier_mix(fourier_mix(x)) / x.size, even, atol=1e-5)


def test_jit_and_vmap_change_nothing() -> None:
    x = normal(3, 4, 5, 6)
    y = fourier_mix(x)
    np.testing.assert_allclose(jax.jit(fourier_mix)(x), y, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.vmap(fourier_mix))(x), y, atol=1e-5)


def test_low_precision_is_computed_in_float32() -> None:
    x = normal(32, 16).astype(jnp.bfloat16)
    y = fourier_mix(x)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y, fourier_mix(x.astype(jnp.float32)).astype(jnp.bfloat16))


def test_unknown_method() -> None:
    with pytest.raises(ValueError, match="method='dct' is unknown; choose one of auto, fft, rfft"):
        fourier_mix(normal(2, 2), method="dct")


def test_layer_norm_divides_by_the_root_of_the_length() -> None:
    x = normal(2, 25, 4)
    plain, scaled = FourierMixing().apply({}, x), FourierMixing(norm="tokens").apply({}, x)
    np.testing.assert_allclose(scaled, plain / 5, rtol=1e-6)
    np.testing.assert_allclose(plain, fourier_mix(x), rtol=1e-6)


def test_layer_masking() -> None:
    """The content of padding has no influence; how much padding there is has."""
    x, other = normal(1, 8, 4), normal(1, 8, 4, seed=1)
    mask = jnp.arange(8)[None] < 5
    padded = jnp.where(mask[..., None], x, other)
    y = FourierMixing().apply({}, x, mask=mask)
    np.testing.assert_array_equal(y, FourierMixing().apply({}, padded, mask=mask))
    shorter = FourierMixing().apply({}, x[:, :6], mask=mask[:, :6])
    assert np.abs(y[:, :5] - shorter[:, :5]).max() > 0.1


def test_layer_refuses_an_unknown_norm() -> None:
    with pytest.raises(ValueError, match="norm='ortho' is unknown"):
        FourierMixing(norm="ortho").apply({}, normal(1, 2, 2))
