from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal
from jax.test_util import check_grads

from fourier_attn.layers.long_conv import LongConvolution
from fourier_attn.ops.long_conv import long_convolve
from fourier_attn.ops.token_conv import token_convolve

KINDS = {
    "linear": {"boundary": "linear"},
    "causal": {"boundary": "linear", "causal": True},
    "circular": {"boundary": "circular"},
}


def oracle(x: np.ndarray, w: np.ndarray, kind: str) -> np.ndarray:
    """The sum of the docstring, tap by tap in float64."""
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    (r, _), t = w.shape, x.shape[-2]
    rows = {
        "linear": {k: r // 2 + k for k in range(-(r // 2), r // 2 + 1)},
        "causal": {k: k for k in range(r)},
        "circular": {
            k: k % r for k in range(-(r // 2), (r + 1) // 2) if r <= t or -(t // 2) <= k <= (t - 1) // 2
        },
    }[kind]
    y = np.zeros(x.shape)
    for i in range(t):
        for k, row in rows.items():
            if kind == "circular" or 0 <= i - k < t:
                y[..., i, :] += w[row] * x[..., (i - k) % t, :]
    return y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("t", "r"), [(1, 1), (1, 5), (5, 1), (5, 9), (6, 11), (8, 3), (5, 5), (6, 13), (7, 21)]
)
def test_is_the_definition(t: int, r: int, kind: str) -> None:
    x, w = normal(2, t, 3), normal(r, 3, seed=1)
    y = jax.jit(partial(long_convolve, **KINDS[kind]))(x, w)
    np.testing.assert_allclose(y, oracle(x, w, kind), atol=1e-5)


@pytest.mark.parametrize("kind", ["causal", "circular"])
@pytest.mark.parametrize(("t", "r"), [(1, 2), (2, 2), (6, 6), (5, 4), (4, 6), (3, 8)])
def test_is_the_definition_for_even_kernels(t: int, r: int, kind: str) -> None:
    x, w = normal(2, t, 3), normal(r, 3, seed=1)
    y = jax.jit(partial(long_convolve, **KINDS[kind]))(x, w)
    np.testing.assert_allclose(y, oracle(x, w, kind), atol=1e-5)


def test_one_filter_for_all_features_is_a_token_convolution() -> None:
    x, w = normal(2, 9, 3), normal(5, seed=1)
    kernel = jnp.broadcast_to(w[:, None], (5, 3))
    np.testing.assert_allclose(long_convolve(x, kernel), token_convolve(x, w), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_who_sees_whom(kind: str) -> None:
    """By gradient: d y[i] / d x[m] is exactly 0, up to rounding, for m > i if and only if causal."""
    t, w = 7, 1 + jnp.abs(normal(13, 1))
    jacobian = jax.jit(jax.jacobian(partial(long_convolve, kernel=w, **KINDS[kind])))(normal(t, 1))[
        :, 0, :, 0
    ]
    sees = np.abs(jacobian) > 1e-4
    np.testing.assert_array_equal(sees, np.tri(t, dtype=bool) if kind == "causal" else np.ones((t, t), bool))


def test_circular_shifts_pass_through() -> None:
    x, w = normal(2, 8, 3), normal(8, 3, seed=1)
    convolve = partial(long_convolve, kernel=w, boundary="circular")
    np.testing.assert_allclose(convolve(jnp.roll(x, 3, 1)), jnp.roll(convolve(x), 3, 1), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient(kind: str) -> None:
    f = jax.jit(partial(long_convolve, **KINDS[kind]))
    check_grads(f, (normal(2, 5, 2), normal(7, 2, seed=1)), order=1, modes=["rev"], rtol=1e-2)


def test_low_precision_is_computed_in_float32() -> None:
    x, w = normal(2, 12, 2).astype(jnp.bfloat16), normal(23, 2, seed=1)
    y = long_convolve(x, w)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y, long_convolve(x.astype(jnp.float32), w).astype(jnp.bfloat16))


@pytest.mark.parametrize("kind", KINDS)
def test_layer_masking(kind: str) -> None:
    """Content of padding never has influence; the padded length has for a circular convolution only."""
    x, other = normal(1, 9, 4), normal(1, 9, 4, seed=1)
    mask = jnp.arange(9)[None] < 5
    layer = LongConvolution(length=11, **KINDS[kind])
    params, apply = drawn(layer, x), jax.jit(layer.apply)
    y = apply(params, x, mask=mask)
    padded = jnp.where(mask[..., None], x, other)
    np.testing.assert_array_equal(y, apply(params, padded, mask=mask))
    assert np.abs(y[:, 5:]).max() > 0.01
    difference = np.abs(y[:, :5] - apply(params, x[:, :5])).max()
    assert difference > 0.01 if kind == "circular" else difference < 1e-5


@pytest.mark.parametrize(("kind", "taps"), [("linear", 599), ("causal", 300), ("circular", 300)])
def test_initial_values_keep_the_size_of_white_noise_and_decay(kind: str, taps: int) -> None:
    x = normal(1, 300, 400)
    layer = LongConvolution(length=300, **KINDS[kind])
    params = jax.jit(layer.init)(jax.random.key(0), x)
    kernel = np.asarray(params["params"]["kernel"], np.float64)
    assert kernel.shape == (taps, 400)
    assert (kernel**2).sum(0).mean() == pytest.approx(1, rel=0.1)
    size = (kernel**2).mean(1) ** 0.5
    centre = 299 if kind == "linear" else 0
    assert size[centre] / size[centre + 3] == pytest.approx(4, rel=0.2)  # 1 / (1 + |k|), 400 draws each
    assert size[centre] / size[centre + 99] == pytest.approx(100, rel=0.2)
    if kind != "causal":  # as large on the other side
        assert size[centre] / size[centre - 3] == pytest.approx(4, rel=0.2)
    assert float(jax.jit(layer.apply)(params, x).std()) == pytest.approx(1, rel=0.1)


def test_bad_arguments() -> None:
    x, w = normal(1, 4, 2), normal(5, 2)
    for options, message in (
        ({"boundary": "zero"}, "boundary='zero' is unknown; choose one of linear, circular"),
        ({"boundary": "circular", "causal": True}, "causal=True needs boundary='linear'"),
    ):
        with pytest.raises(ValueError, match=message):
            long_convolve(x, w, **options)
        with pytest.raises(ValueError, match=message):
            LongConvolution(**options).init(jax.random.key(0), x)
    with pytest.raises(ValueError, match="kernel has r=4 taps; make it odd"):
        long_convolve(x, w[:4])
    with pytest.raises(ValueError, match=r"kernel of shape \(5, 3\) must be \(r, 2\)"):
        long_convolve(x, normal(5, 3))
    with pytest.raises(ValueError, match="a sequence of 4 tokens exceeds length=3"):
        LongConvolution(length=3).init(jax.random.key(0), x)
