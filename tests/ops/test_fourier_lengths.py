"""Examples of unlike lengths in one array: each is transformed as if it stood alone."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.test_util import check_grads

from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.ops.fourier import fourier_mix

METHODS = ("rfft", "matmul")  # `auto` is one of them
SIZES = [(1, 1), (1, 5), (6, 1), (2, 2), (7, 5), (8, 9), (16, 12), (70, 4)]
mix = jax.jit(fourier_mix, static_argnames="method")


def alone(x: np.ndarray, n: int) -> np.ndarray:
    """y[i, j] = sum_{m < n, k < d} x[m, k] cos(2 pi (i m / n + j k / d)), zero for i >= n; in float64."""
    t, d = x.shape
    y = np.zeros((t, d))
    m, k = np.arange(n), np.arange(d)
    for i in range(n):
        for j in range(d):
            y[i, j] = (x[:n] * np.cos(2 * np.pi * ((i * m / n)[:, None] + (j * k / d)[None]))).sum()
    return y


def some(t: int) -> list[int]:
    return sorted({0, 1, 2, t // 2, t - 1, t} & set(range(t + 1)))


@pytest.mark.parametrize("size", SIZES)
def test_is_the_definition_for_each_example(size: tuple[int, int]) -> None:
    lengths = some(size[0])
    x = normal(len(lengths), *size)
    ys = jax.jit(lambda x, n: [fourier_mix(x, lengths=n, method=m) for m in METHODS])(x, jnp.array(lengths))
    for y in map(np.asarray, ys):
        for example, n, result in zip(np.asarray(x, np.float64), lengths, y, strict=True):
            expected = alone(example, n)
            # float32 rounding, measured 2e-6 of the rms
            np.testing.assert_allclose(result, expected, atol=1e-5 * expected.std() + 1e-6)
            assert not result[n:].any()


def test_chirps_are_exact_where_squares_do_not_fit_in_32_bits() -> None:
    """Phases come from integers: 69,997^2 > 2^32. Checked against NumPy's transform in float64."""
    n = [69_997, 65_537]
    x = normal(2, 70_000, 2)
    y = mix(x, lengths=jnp.array(n), method="rfft")
    for example, m, result in zip(np.asarray(x, np.float64), n, y, strict=True):
        expected = np.fft.fft2(example[:m]).real
        np.testing.assert_allclose(result[:m], expected, atol=1e-5 * expected.std())  # measured 2e-6


@pytest.mark.parametrize("method", METHODS)
def test_neither_content_nor_amount_of_padding_has_an_influence(method: str) -> None:
    x, lengths = normal(3, 40, 6), jnp.array([5, 9, 12])
    real = jnp.arange(40)[None, :, None] < lengths[:, None, None]
    y = mix(jnp.where(real, x, jnp.nan), lengths=lengths, method=method)
    assert np.isfinite(y).all()
    np.testing.assert_array_equal(y, mix(x, lengths=lengths, method=method))
    for t in (12, 17):  # sizes of transforms differ, and so does the rounding
        np.testing.assert_allclose(mix(x[:, :t], lengths=lengths, method=method), y[:, :t], atol=1e-4)


@pytest.mark.parametrize("size", [(7, 5), (16, 12)])
def test_lengths_among_known_sizes(size: tuple[int, int]) -> None:
    """Each example by itself, whatever leads it; backward is the transform itself; rounding as above."""
    t, d = size
    sizes, lengths = (1, 3, t - 1, t), [3, t, 1, t - 1, 3, 3]
    x = normal(2, 3, *size)
    n = jnp.array(lengths).reshape(2, 3)
    apply = jax.jit(partial(fourier_mix, sizes=sizes))
    y, [slope] = apply(x, lengths=n), jax.vjp(lambda x: apply(x, lengths=n), x)[1](x)
    each = jax.jit(jax.vmap(jax.vmap(lambda x, n: fourier_mix(x, lengths=n, sizes=sizes))))(x, n)
    np.testing.assert_allclose(each, y, atol=1e-5)
    np.testing.assert_allclose(slope, y, atol=1e-5)
    nothing = apply(x, lengths=n.at[0, 0].set(0))
    assert not nothing[0, 0].any()
    np.testing.assert_array_equal(nothing[1], y[1])
    for example, m, result in zip(
        np.asarray(x, np.float64).reshape(6, t, d), lengths, np.asarray(y).reshape(6, t, d), strict=True
    ):
        expected = alone(example, m)
        np.testing.assert_allclose(result, expected, atol=1e-5 * expected.std() + 1e-6)
    assert "while" in apply.lower(x, lengths=n).as_text()


@pytest.mark.parametrize("method", METHODS)
def test_whole_lengths_are_the_plain_transform(method: str) -> None:
    x = normal(2, 3, 20, 7)
    y = mix(x, lengths=jnp.full((2, 3), 20), method=method)
    np.testing.assert_allclose(y, mix(x), atol=1e-4)
    np.testing.assert_array_equal(y, mix(x, lengths=jnp.full((2, 3), 25), method=method))  # clipped
    assert not mix(x, lengths=jnp.full((2, 3), -1), method=method).any()
    single = mix(x[0, 0], lengths=jnp.array(20), method=method)
    np.testing.assert_allclose(single, y[0, 0], atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_vmap_changes_nothing(method: str) -> None:
    x, lengths = normal(2, 3, 20, 7), jnp.array([[20, 3, 0], [11, 19, 1]])
    y = mix(x, lengths=lengths, method=method)
    each = jax.vmap(lambda x, n: fourier_mix(x, lengths=n, method=method))
    np.testing.assert_allclose(jax.jit(jax.vmap(each))(x, lengths), y, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_backward_is_the_transform_itself(method: str) -> None:
    lengths, x, g = jnp.array([0, 1, 5, 6]), normal(4, 6, 4), normal(4, 6, 4, seed=1)
    apply = jax.jit(partial(fourier_mix, lengths=lengths, method=method))
    check_grads(apply, (x,), order=1, modes=["rev"], rtol=1e-2)
    np.testing.assert_allclose(jnp.vdot(apply(x), g), jnp.vdot(x, apply(g)), rtol=1e-4)
    _, pull_back = jax.vjp(lambda x, n: fourier_mix(x, lengths=n, method=method), x, lengths)
    assert sum(leaf.size for leaf in jax.tree.leaves(pull_back)) == lengths.size  # all that is kept
    np.testing.assert_allclose(pull_back(g)[0], apply(g), atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_low_precision(method: str) -> None:
    x, lengths = normal(3, 60, 16).astype(jnp.bfloat16), jnp.array([60, 37, 8])
    y = mix(x, lengths=lengths, method=method)
    assert y.dtype == jnp.bfloat16
    exact = mix(x.astype(jnp.float32), lengths=lengths, method="rfft")
    if method == "matmul":  # tables and intermediate results have 8 bits
        np.testing.assert_allclose(y.astype(jnp.float32), exact, atol=2e-2 * float(exact.std()), rtol=4e-3)
    else:
        np.testing.assert_array_equal(y, exact.astype(jnp.bfloat16))


def test_bad_arguments() -> None:
    x = normal(2, 4, 3)
    with pytest.raises(ValueError, match="method='monarch' has no form with lengths; use 'auto', 'rfft' or"):
        fourier_mix(x, lengths=jnp.array([1, 2]), method="monarch")
    with pytest.raises(ValueError, match=r"lengths of shape \(3,\) must be one for each example, \(2,\)"):
        fourier_mix(x, lengths=jnp.array([1, 2, 3]))
    for sizes in ((3, 2), (0, 4), (5,)):
        with pytest.raises(ValueError, match="sizes=.* must rise, be positive and not exceed t=4"):
            fourier_mix(x, lengths=jnp.array([1, 2]), sizes=sizes)
    with pytest.raises(ValueError, match="t=1048577 exceeds 1048576, the most with lengths"):
        jax.eval_shape(lambda x: fourier_mix(x, lengths=jnp.array([1])), jnp.zeros((1, 2**20 + 1, 1)))


@pytest.mark.parametrize(("norm", "t"), [("none", 30), ("tokens", 8)])
def test_layer_does_not_know_how_much_padding_there_is(norm: str, t: int) -> None:
    """Every review comes out as it does alone, whatever it is padded to."""
    x, lengths = normal(3, t, 6), [7, 4, 0]
    mask = jnp.arange(t)[None] < jnp.array(lengths)[:, None]
    layer = FourierMixing(norm=norm)
    apply = jax.jit(layer.apply)
    y = np.asarray(apply({}, x, mask=mask))
    for i, n in enumerate(lengths):
        if n:
            np.testing.assert_allclose(y[i : i + 1, :n], apply({}, x[i : i + 1, :n]), atol=1e-4)
        assert not y[i, n:].any()


LENGTHS = (4, 8, 12)


@pytest.mark.parametrize("norm", [pytest.param("none", marks=pytest.mark.slow), "tokens"])
def test_a_common_grid_of_lengths(norm: str) -> None:
    """Each example is zero-padded to the smallest of the lengths that holds it, whatever the batch has."""
    layer, x, lengths = FourierMixing(norm=norm, lengths=LENGTHS), normal(4, 12, 6), [3, 4, 5, 12]
    mask = jnp.arange(12)[None] < jnp.array(lengths)[:, None]
    apply = jax.jit(layer.apply)
    y = np.asarray(apply({}, x, mask=mask))
    for i, n in enumerate(lengths):
        size = next(length for length in LENGTHS if length >= n)
        padded = np.zeros((size, 6))
        padded[:n] = x[i, :n]
        expected = alone(padded, size) / (size**0.5 if norm == "tokens" else 1)
        np.testing.assert_allclose(y[i, :n], expected[:n], atol=1e-4)
        for t in (n, min(n + 1, 12)):  # cut shorter, with and without a mask
            real = jnp.arange(t)[None] < n
            np.testing.assert_allclose(apply({}, x[i : i + 1, :t], mask=real)[0, :n], y[i, :n], atol=1e-4)
        np.testing.assert_allclose(apply({}, x[i : i + 1, :n])[0], y[i, :n], atol=1e-4)


def test_a_common_grid_is_zero_padding_where_all_have_the_padded_length() -> None:
    x, mask = normal(2, 8, 6), jnp.arange(8)[None] < jnp.array([[5], [8]])
    zero = jax.jit(FourierMixing(padding="zero").apply)({}, x, mask=mask)
    y = jax.jit(FourierMixing(lengths=LENGTHS).apply)({}, x, mask=mask)
    np.testing.assert_allclose(y, zero, atol=1e-5)  # products instead of a transform, at this size


def test_bad_lengths() -> None:
    with pytest.raises(ValueError, match="13 tokens exceeds the last of lengths=.*; add a longer one"):
        FourierMixing(lengths=LENGTHS).apply({}, normal(1, 13, 6))
    with pytest.raises(ValueError, match="lengths=.* must be positive and rise"):
        FourierMixing(lengths=(4, 4)).apply({}, normal(1, 3, 6))
