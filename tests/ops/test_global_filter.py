from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal
from jax.test_util import check_grads

from fourier_attn.layers.global_filter import GlobalFilter
from fourier_attn.ops.global_filter import bins, global_filter, resample_filter

SIZES = [(1,), (2,), (5,), (8,), (1, 1), (1, 4), (3, 5), (4, 3), (5, 4), (4, 6)]


def filter_of(axes: tuple[int, ...], d: int = 2) -> jax.Array:
    return normal(*bins(axes), d, 2, seed=1)


def full_spectrum(filter: jax.Array, axes: tuple[int, ...]) -> np.ndarray:
    """All bins of the operator that acts, (*axes, d): what remains of W for real output."""
    w = np.asarray(filter, np.float64) @ [1, 1j]
    every = np.zeros((*axes, w.shape[-1]), complex)
    last = axes[-1]
    for f in np.ndindex(*axes):
        minus = tuple(-i % n for i, n in zip(f, axes, strict=True))
        if f[-1] in (0, last / 2):
            every[f] = (w[f] + np.conj(w[minus])) / 2
        else:
            every[f] = w[f] if f[-1] < last / 2 else np.conj(w[minus])
    return every


def kernel_of(every: np.ndarray) -> np.ndarray:
    """k[p] = sum_f W[f] exp(2 pi sqrt(-1) f p / n) / n, term by term."""
    axes = every.shape[:-1]
    kernel = np.zeros(every.shape, complex)
    for p in np.ndindex(*axes):
        for f in np.ndindex(*axes):
            turns = sum(i * j / n for i, j, n in zip(p, f, axes, strict=True))
            kernel[p] += every[f] * np.exp(2j * np.pi * turns) / np.prod(axes)
    np.testing.assert_allclose(kernel.imag, 0, atol=1e-12)
    return kernel.real


def oracle(x: np.ndarray, kernel: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Circular convolution, term by term in float64."""
    signal = np.asarray(x, np.float64).reshape(-1, *axes, x.shape[-1])
    y = np.zeros(signal.shape)
    for i in np.ndindex(*axes):
        for p in np.ndindex(*axes):
            m = tuple((a - b) % n for a, b, n in zip(i, p, axes, strict=True))
            y[(slice(None), *i)] += kernel[p] * signal[(slice(None), *m)]
    return y.reshape(x.shape)


@pytest.mark.parametrize("axes", SIZES)
def test_is_circular_convolution_with_the_kernel_of_the_filter(axes: tuple[int, ...]) -> None:
    x, filter = normal(2, int(np.prod(axes)), 2), filter_of(axes)
    y = jax.jit(partial(global_filter, grid=axes if len(axes) > 1 else None))(x, filter)
    np.testing.assert_allclose(y, oracle(x, kernel_of(full_spectrum(filter, axes)), axes), atol=1e-5)


@pytest.mark.parametrize("grid", [None, (2, 4)])
def test_a_filter_of_ones_changes_nothing(grid: tuple[int, int] | None) -> None:
    ones = jnp.broadcast_to(jnp.array([1.0, 0.0]), (*bins(grid or (8,)), 3, 2))
    x = normal(2, 8, 3)
    np.testing.assert_allclose(global_filter(x, ones, grid=grid), x, atol=1e-6)


@pytest.mark.parametrize("axes", [(5,), (6,), (3, 5), (4, 6)])
def test_dead_parameters_are_those_named(axes: tuple[int, ...]) -> None:
    """Their number is that of parameters over that of a real kernel: t for each feature."""
    t, filter = int(np.prod(axes)), filter_of(axes, 1)
    x = normal(1, t, 1)
    f = partial(global_filter, x, grid=axes if len(axes) > 1 else None)
    jacobian = jax.jit(jax.jacobian(f))(filter)
    assert np.linalg.matrix_rank(np.asarray(jacobian).reshape(t, -1), tol=1e-4) == t
    if len(axes) == 1:
        dead = np.abs(jacobian).max((0, 1, 2))[:, 0] < 1e-6
        expected = np.zeros(dead.shape, bool)
        expected[[0, t // 2] if t % 2 == 0 else [0], 1] = True
        np.testing.assert_array_equal(dead, expected)


def interpolated(every: np.ndarray, axis: int, after: int) -> np.ndarray:
    """Real and imaginary part at the frequencies -1/2 < f / t <= 1/2, by `numpy.interp` with its period."""
    n = every.shape[axis]
    known, wanted = np.fft.fftfreq(n), np.fft.fftfreq(after)

    def one(values: np.ndarray) -> np.ndarray:
        return np.interp(wanted, known, values, period=1.0)

    return sum(
        factor * np.apply_along_axis(one, axis, part) for factor, part in ((1, every.real), (1j, every.imag))
    )


@pytest.mark.parametrize("source", [(1,), (5,), (6,), (3, 5), (4, 6)])
@pytest.mark.parametrize("target", [(1, 1), (3, 4), (9, 9), (4, 6)])
def test_resampling_interpolates_over_frequency(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    target = target[-len(source) :]
    filter = filter_of(source)
    expected = full_spectrum(filter, source)
    for axis, after in enumerate(target):
        expected = interpolated(expected, axis, after)
    found = np.asarray(jax.jit(resample_filter, static_argnums=(1, 2))(filter, source, target)) @ [1, 1j]
    half = expected[(*[slice(None)] * (len(target) - 1), slice(bins(target)[-1]))]
    if source == target:  # as it is, dead parameters included
        np.testing.assert_array_equal(found, np.asarray(filter) @ [1, 1j])
    else:
        np.testing.assert_allclose(found, half, atol=1e-6)


def test_resampling_keeps_a_short_kernel() -> None:
    """The filter of a kernel of three taps, made for 512 tokens, at 384: interpolation hardly errs."""

    def spectrum(n: int) -> jax.Array:
        f = 2 * np.pi * np.arange(n // 2 + 1) / n
        w = 0.5 + 0.3 * np.exp(-1j * f) - 0.7 * np.exp(1j * f)
        return jnp.asarray(np.stack([w.real, w.imag], -1)[:, None], jnp.float32)

    # |error| <= (2 pi / 512)^2 / 8 max |W''| = 1.9e-5
    np.testing.assert_allclose(resample_filter(spectrum(512), (512,), (384,)), spectrum(384), atol=2e-5)


@pytest.mark.slow
def test_gradient_of_filter_and_tokens() -> None:
    for axes, grid in (((5,), None), ((6,), None), ((3, 4), (3, 4))):

        def f(x: jax.Array, w: jax.Array, axes: tuple = axes, grid: tuple | None = grid) -> jax.Array:
            source = tuple(n + 1 for n in axes)
            return global_filter(x, resample_filter(w, source, axes), grid=grid)

        filter = filter_of(tuple(n + 1 for n in axes))
        check_grads(jax.jit(f), (normal(2, int(np.prod(axes)), 2), filter), order=1, modes=["rev"], rtol=1e-2)


def test_low_precision_is_computed_in_float32() -> None:
    x, filter = normal(2, 12, 2).astype(jnp.bfloat16), filter_of((12,))
    y = global_filter(x, filter)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y, global_filter(x.astype(jnp.float32), filter).astype(jnp.bfloat16))


def test_layer_masking() -> None:
    """The content of padding has no influence; how much padding there is has."""
    x, other = normal(1, 8, 4), normal(1, 8, 4, seed=1)
    mask = jnp.arange(8)[None] < 5
    layer = GlobalFilter(length=8)
    params, apply = drawn(layer, x), jax.jit(layer.apply)
    y = apply(params, x, mask=mask)
    padded = jnp.where(mask[..., None], x, other)
    np.testing.assert_array_equal(y, apply(params, padded, mask=mask))
    assert np.abs(y[:, 5:]).max() > 1e-3
    shorter = apply(params, x[:, :6], mask=mask[:, :6])
    assert np.abs(y[:, :5] - shorter[:, :5]).max() > 1e-3


@pytest.mark.slow
def test_layer_takes_any_length_and_a_grid() -> None:
    layer, x = GlobalFilter(length=6), normal(2, 6, 3)
    filter = jax.jit(layer.init)(jax.random.key(0), x)["params"]["filter"]
    assert filter.shape == (4, 3, 2)
    for t in (1, 6, 9):
        x = normal(2, t, 3)
        op = jax.jit(lambda x, w: global_filter(x, resample_filter(w, (6,), (x.shape[1],))))
        y = jax.jit(layer.apply)({"params": {"filter": filter}}, x)
        np.testing.assert_array_equal(y, op(x, filter))
    image, x = GlobalFilter(grid=(3, 4)), normal(2, 12, 3)
    filter = jax.jit(image.init)(jax.random.key(0), x)["params"]["filter"]
    assert filter.shape == (3, 3, 3, 2)
    assert float(jax.jit(image.init)(jax.random.key(0), normal(1, 12, 400))["params"]["filter"].std()) == (
        pytest.approx(0.02, rel=0.05)
    )
    expected = jax.jit(partial(global_filter, grid=(3, 4)))(x, filter)
    np.testing.assert_array_equal(jax.jit(image.apply)({"params": {"filter": filter}}, x), expected)


def test_bad_arguments() -> None:
    x = normal(1, 6, 2)
    with pytest.raises(ValueError, match=r"filter of shape \(3, 2, 2\) must be \(4, 2, 2\)"):
        global_filter(x, filter_of((5,)))
    with pytest.raises(ValueError, match=r"grid=\(2, 2\): 6 tokens fill no grid"):
        GlobalFilter(grid=(2, 2)).init(jax.random.key(0), x)
    with pytest.raises(ValueError, match="length=0 and grid="):
        GlobalFilter(length=0).init(jax.random.key(0), x)
    for source, target in (((6,), (3, 4)), ((4,), (5,)), ((6,), (0,))):
        with pytest.raises(ValueError, match=r"source=\(.*\) and target=\(.*\) must fit"):
            resample_filter(filter_of((6,)), source, target)
