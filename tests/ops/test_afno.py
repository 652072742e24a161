import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal
from jax.test_util import check_grads

from fourier_attn.layers.afno import AFNO
from fourier_attn.ops.afno import kept, softshrink, spectral_mlp

SIZES = [(1,), (2,), (5,), (8,), (1, 4), (3, 5), (4, 3), (5, 4), (4, 6)]


def weights(n: int = 2, p: int = 2, h: int = 3) -> tuple:
    kernels = (normal(n, p, h, 2, seed=1), normal(n, h, p, 2, seed=2))
    return kernels, (normal(n, h, 2, seed=3), normal(n, p, 2, seed=4))


def grid_of(axes: tuple[int, ...]) -> tuple[int, ...] | None:
    return axes if len(axes) > 1 else None


def lowest(axes: tuple[int, ...], modes: float) -> np.ndarray:
    """Which bins are kept: |f| < ceil(modes (n // 2 + 1)) on each axis."""
    keep = np.ones(axes, bool)
    for f in np.ndindex(*axes):
        for i, n in zip(f, axes, strict=True):
            keep[f] &= min(i, n - i) < math.ceil(modes * (n // 2 + 1) - 1e-9)
    return keep


def oracle(
    x: np.ndarray, kernels: tuple, biases: tuple, axes: tuple, threshold: float, modes: float
) -> np.ndarray:
    """The equation in float64 complex numbers, frequency by frequency, over all bins of the inverse."""
    w1, w2, b1, b2 = (np.asarray(a, np.float64) @ [1, 1j] for a in (*kernels, *biases))
    n, p, _ = w1.shape
    signal = np.asarray(x, np.float64).reshape(-1, *axes, n, p)
    every = tuple(range(1, 1 + len(axes)))
    spectrum = np.fft.fftn(signal, axes=every, norm="ortho")
    new = np.zeros(spectrum.shape, complex)
    keep = lowest(axes, modes)

    def both(f, z: np.ndarray) -> np.ndarray:
        return f(z.real) + 1j * f(z.imag)

    for f in np.ndindex(*axes):
        if keep[f] and f[-1] <= axes[-1] // 2:
            for block in range(n):
                z = spectrum[(slice(None), *f)][:, block]
                hidden = both(lambda a: np.maximum(a, 0), z @ w1[block] + b1[block])
                z = both(
                    lambda a: np.sign(a) * np.maximum(np.abs(a) - threshold, 0),
                    hidden @ w2[block] + b2[block],
                )
                new[(slice(None), *f)][:, block] = z
    half = new[(*[slice(None)] * len(axes), slice(axes[-1] // 2 + 1))]
    return np.fft.irfftn(half, axes, every, norm="ortho").reshape(x.shape) + x


@pytest.mark.parametrize("axes", SIZES)
def test_is_the_definition(axes: tuple[int, ...]) -> None:
    x, (kernels, biases) = normal(2, int(np.prod(axes)), 4), weights()
    f = partial(spectral_mlp, threshold=0.3, grid=grid_of(axes))
    ys = jax.jit(lambda *arrays: [f(*arrays, modes=modes) for modes in (1.0, 0.5)])(x, kernels, biases)
    for y, modes in zip(ys, (1.0, 0.5), strict=True):
        np.testing.assert_allclose(y, oracle(x, kernels, biases, axes, 0.3, modes), atol=2e-5)


@pytest.mark.parametrize("axes", [(1,), (11,), (5, 8), (8, 6)])
def test_every_share_of_modes_counts(axes: tuple[int, ...]) -> None:
    """New spectra hold the kept frequencies and no others, of both signs on all axes."""
    kernels, biases = weights(1, 1, 1)
    biases = (jnp.ones_like(biases[0]), jnp.ones_like(biases[1]))
    kernels = (jnp.zeros_like(kernels[0]), jnp.zeros_like(kernels[1]))
    x = jnp.zeros((1, int(np.prod(axes)), 1))
    shares, f = (1.0, 0.75, 0.3, 0.01), partial(spectral_mlp, grid=grid_of(axes))
    ys = jax.jit(lambda *arrays: [f(*arrays, modes=modes) for modes in shares])(x, kernels, biases)
    for y, modes in zip(ys, shares, strict=True):
        found = np.abs(np.fft.fftn(np.asarray(y).reshape(axes))) > 1e-3
        np.testing.assert_array_equal(found, lowest(axes, modes))
        assert math.prod(kept(axes, modes)) == lowest(axes, modes)[..., : axes[-1] // 2 + 1].sum()


def test_a_share_that_is_a_whole_number_of_bins_keeps_that_many() -> None:
    for n in range(1, 200):
        for k in range(1, n // 2 + 2):
            assert kept((n,), k / (n // 2 + 1)) == (k,)


def test_shrinking() -> None:
    x = jnp.array([-2.0, -0.5, -0.1, 0.0, 0.5, 0.7])
    np.testing.assert_allclose(softshrink(x, 0.5), [-1.5, 0, 0, 0, 0, 0.2], atol=1e-7)
    np.testing.assert_array_equal(softshrink(x, 0.0), x)


def test_below_the_threshold_only_the_skip_remains() -> None:
    x, (kernels, biases) = normal(2, 6, 4), weights()
    np.testing.assert_allclose(spectral_mlp(x, kernels, biases, threshold=1e3), x, atol=1e-6)


def test_repeating_the_sequence_repeats_the_result() -> None:
    """Twice the length, the same function: without bias and threshold the network is homogeneous."""
    x, (kernels, biases) = normal(1, 6, 4), weights()
    biases = (0 * biases[0], 0 * biases[1])
    f = jax.jit(partial(spectral_mlp, threshold=0.0))
    y = f(x, kernels, biases)
    twice = f(jnp.concatenate([x, x], 1), kernels, biases)
    np.testing.assert_allclose(twice, jnp.concatenate([y, y], 1), atol=2e-5)


@pytest.mark.parametrize(("axes", "modes"), [((6,), 1.0), ((5,), 0.5), ((3, 4), 0.5)])
def test_gradient(axes: tuple[int, ...], modes: float) -> None:
    def f(x: jax.Array, kernels: tuple, biases: tuple) -> jax.Array:
        return spectral_mlp(x, kernels, biases, threshold=0.3, modes=modes, grid=grid_of(axes))

    check_grads(
        jax.jit(f),
        (normal(2, int(np.prod(axes)), 4), *weights()),
        order=1,
        modes=["rev"],
        rtol=2e-2,
        eps=1e-3,  # small, because of the kinks
    )


def test_low_precision_is_computed_in_float32() -> None:
    x, (kernels, biases) = normal(2, 12, 4).astype(jnp.bfloat16), weights()
    f = jax.jit(spectral_mlp)
    y = f(x, kernels, biases)
    assert y.dtype == jnp.bfloat16
    full = f(x.astype(jnp.float32), kernels, biases)
    np.testing.assert_array_equal(y, full.astype(jnp.bfloat16))


def test_layer_masking() -> None:
    """The content of padding has no influence; how much padding there is has."""
    x, other = normal(1, 8, 4), normal(1, 8, 4, seed=1)
    mask = jnp.arange(8)[None] < 5
    layer = AFNO(blocks=2)
    params, apply = drawn(layer, x), jax.jit(layer.apply)
    y = apply(params, x, mask=mask)
    padded = jnp.where(mask[..., None], x, other)
    np.testing.assert_array_equal(y, apply(params, padded, mask=mask))
    assert np.abs(y[:, 5:]).max() > 0.01
    shorter = apply(params, x[:, :6], mask=mask[:, :6])
    assert np.abs(y[:, :5] - shorter[:, :5]).max() > 0.01


def test_layer_is_the_op() -> None:
    layer, x = AFNO(blocks=2, hidden=3, threshold=0.1, modes=0.5, grid=(3, 4)), normal(2, 12, 8)
    p = jax.eval_shape(layer.init, jax.random.key(0), x)["params"]
    shapes = {"in_kernel": (2, 4, 12, 2), "in_bias": (2, 12, 2)}
    shapes |= {"out_kernel": (2, 12, 4, 2), "out_bias": (2, 4, 2)}
    assert {name: value.shape for name, value in p.items()} == shapes
    p = jax.tree.map(lambda a: normal(*a.shape), p)
    op = jax.jit(partial(spectral_mlp, threshold=0.1, modes=0.5, grid=(3, 4)))
    expected = op(x, (p["in_kernel"], p["out_kernel"]), (p["in_bias"], p["out_bias"]))
    np.testing.assert_array_equal(jax.jit(layer.apply)({"params": p}, x), expected)


@pytest.mark.parametrize(("blocks", "hidden"), [(8, 1), (1, 2)])
def test_initial_values_train(blocks: int, hidden: int) -> None:
    """Of white input, hidden values keep the size and most of the new spectrum lies above the threshold."""
    layer, x = AFNO(blocks=blocks, hidden=hidden), normal(4, 32, 64)
    params = jax.jit(layer.init)(jax.random.key(0), x)
    w = np.asarray(params["params"]["in_kernel"], np.float64)
    assert (w**2).sum((1, 3)).mean() == pytest.approx(1, rel=0.2)
    grad = jax.jit(jax.grad(lambda p: jnp.sum(layer.apply(p, x) * normal(4, 32, 64, seed=1))))(params)
    assert all(np.mean(np.abs(g) > 1e-3) > 0.9 for g in jax.tree.leaves(grad))


def test_bad_arguments() -> None:
    x, (kernels, biases) = normal(1, 6, 4), weights()
    with pytest.raises(ValueError, match="n=2 blocks of p=2 features must have n p = d = 6"):
        spectral_mlp(normal(1, 6, 6), kernels, biases)
    for fields, message in (
        ({"blocks": 3}, "blocks=3 must divide d=4"),
        ({"blocks": 0}, "blocks=0 must divide d=4"),
        ({"hidden": 0}, "hidden=0 must be at least 1"),
        ({"threshold": -0.1}, "threshold=-0.1 must not be negative"),
        ({"modes": 0.0}, r"modes=0.0 must lie in \(0, 1\]"),
        ({"modes": 1.1}, r"modes=1.1 must lie in \(0, 1\]"),
        ({"grid": (2, 2)}, r"grid=\(2, 2\): 6 tokens fill no grid"),
    ):
        with pytest.raises(ValueError, match=message):
            AFNO(**({"blocks": 2} | fields)).init(jax.random.key(0), x)
