from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.test_util import check_grads

from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.ops import fourier
from fourier_attn.ops.fourier import METHODS, fourier_mix
from fourier_attn.ops.fourier_matmul import matmul_mix, monarch_mix
from fourier_attn.optics import Engine

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


@pytest.mark.parametrize("size", [(512, 128), (127, 31), (360, 48)])
def test_methods_agree_where_sums_are_long(size: tuple[int, int]) -> None:
    x = normal(2, *size)
    expected = np.fft.fft2(np.asarray(x, np.float64)).real
    for method in METHODS:
        y = fourier_mix(x, method=method)  # measured 3e-6 of the rms at 512 x 128, products
        np.testing.assert_allclose(y, expected, atol=1e-5 * expected.std(), err_msg=method)


@pytest.mark.parametrize("method", METHODS)
def test_gradient(method: str) -> None:
    check_grads(
        jax.jit(lambda x: fourier_mix(x, method=method)),
        (normal(2, 5, 6),),
        order=2,
        modes=["rev"],
        rtol=1e-2,
    )


@pytest.mark.parametrize("method", METHODS)
def test_backward_is_the_derivative_of_the_plain_transform(method: str) -> None:
    x, g = normal(2, 9, 12), normal(2, 9, 12, seed=1)
    expected = jax.vjp(lambda x: jnp.fft.fft2(x).real, x)[1](g)[0]
    pull_back = jax.vjp(partial(fourier_mix, method=method), x)[1]
    np.testing.assert_allclose(pull_back(g)[0], expected, atol=1e-4)
    assert sum(leaf.size for leaf in jax.tree.leaves(pull_back)) == 0  # nothing of the forward pass is kept


def test_is_self_adjoint() -> None:
    x, g = normal(7, 10), normal(7, 10, seed=1)
    np.testing.assert_allclose(jnp.vdot(fourier_mix(x), g), jnp.vdot(x, fourier_mix(g)), rtol=1e-4)


def test_twice_gives_the_even_part() -> None:
    x = normal(6, 9)
    even = (x + jnp.roll(jnp.flip(x), 1, (0, 1))) / 2
    np.testing.assert_allclose(fourier_mix(fourier_mix(x)) / x.size, even, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_jit_and_vmap_change_nothing(method: str) -> None:
    x, mix = normal(3, 4, 6, 5), partial(fourier_mix, method=method)
    y = mix(x)
    np.testing.assert_allclose(jax.jit(mix)(x), y, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.vmap(mix))(x), y, atol=1e-5)


@pytest.mark.parametrize("method", ["auto", "fft", "rfft"])
def test_fast_transforms_of_low_precision_run_in_float32(method: str) -> None:
    x = normal(32, 16).astype(jnp.bfloat16)
    y = fourier_mix(x, method=method)
    assert y.dtype == jnp.bfloat16
    exact = fourier_mix(x.astype(jnp.float32), method=method)
    np.testing.assert_array_equal(y, exact.astype(jnp.bfloat16))


@pytest.mark.parametrize("method", ["matmul", "monarch"])
def test_products_run_in_low_precision(method: str) -> None:
    """Operands, tables and intermediate results have 8 bits, sums have 24."""
    x, fine = normal(2, 96, 32).astype(jnp.bfloat16), 2e-2
    y, exact = fourier_mix(x, method=method), fourier_mix(x.astype(jnp.float32))
    assert y.dtype == jnp.bfloat16
    assert np.any(y != exact.astype(jnp.bfloat16))
    program = str(jax.make_jaxpr({"matmul": matmul_mix, "monarch": monarch_mix}[method])(x))
    assert program.count("dot_general") == program.count("preferred_element_type=float32") >= 2
    error = y.astype(jnp.float32) - exact
    assert float(jnp.std(error)) < fine / 4 * float(jnp.std(exact))
    np.testing.assert_allclose(error, 0, atol=fine * float(jnp.std(exact)))


@pytest.mark.parametrize("method", ["auto", "fft", "matmul", "monarch"])
def test_half_precision_ends_with_the_result_and_not_before(method: str) -> None:
    """The transform runs in float32; what it says fits float16, or is infinite, never NaN."""
    x = 40 * (1 + normal(2, 96, 32).astype(jnp.float16))  # 120,000 at frequency zero
    y, exact = fourier_mix(x, method=method), fourier_mix(x.astype(jnp.float32), method=method)
    np.testing.assert_array_equal(y, exact.astype(jnp.float16))
    assert np.isinf(y).any()
    scaled = FourierMixing(norm="tokens", dtype=jnp.dtype("float16"), method=method).apply({}, x)
    np.testing.assert_allclose(scaled, exact / 96**0.5, rtol=1e-3, atol=0.1)


@pytest.mark.parametrize(
    ("platform", "dtype", "choices"),
    [
        ("cpu", "float32", ["rfft"] * 4 + ["matmul", "rfft", "rfft", "rfft"]),
        ("cpu", "bfloat16", ["rfft"] * 4 + ["matmul", "rfft", "rfft", "rfft"]),
        ("cuda", "float32", ["rfft"] * 4 + ["matmul", "rfft", "rfft", "rfft"]),
        ("cuda", "float16", ["rfft"] * 4 + ["matmul", "rfft", "rfft", "rfft"]),
        ("rocm", "bfloat16", ["matmul", "matmul", "monarch", "rfft", "matmul", "matmul", "rfft", "rfft"]),
        ("tpu", "float32", ["matmul", "monarch", "monarch", "rfft", "matmul", "matmul", "rfft", "rfft"]),
        ("tpu", "bfloat16", ["matmul", "matmul", "monarch", "rfft", "matmul", "matmul", "rfft", "rfft"]),
    ],
)
def test_auto_is_chosen_by_platform_dtype_and_length(platform: str, dtype: str, choices: list[str]) -> None:
    low = jnp.dtype(dtype) == jnp.bfloat16
    assert choices == [
        fourier.best_method(platform, t, low=low, masked=masked)
        for masked in (False, True)
        for t in (16, 256, 2048, 2 * 1031)  # the last has no divisors for two stages
    ]


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_auto_makes_no_huge_table(platform: str) -> None:
    # The table of "monarch" has 2 t t2 numbers: 4 GB in bfloat16 for 2^20 tokens, 1 GB for 16 * 4093.
    methods = [fourier.best_method(platform, t, low=True, masked=False) for t in (2**16, 2**20, 16 * 4093)]
    assert methods == ["monarch", "rfft", "rfft"]


def test_unknown_method() -> None:
    with pytest.raises(
        ValueError, match="method='dct' is unknown; choose one of auto, fft, rfft, matmul, monarch"
    ):
        fourier_mix(normal(2, 2), method="dct")


def test_layer_norm_divides_by_the_root_of_the_length() -> None:
    x = normal(2, 25, 4)
    plain, scaled = FourierMixing().apply({}, x), FourierMixing(norm="tokens").apply({}, x)
    np.testing.assert_allclose(scaled, plain / 5, rtol=1e-6)
    np.testing.assert_allclose(plain, fourier_mix(x), rtol=1e-6)


def test_layer_zeroes_padding() -> None:
    """The content of padding has no influence; how much padding there is has."""
    x, other = normal(1, 8, 4), normal(1, 8, 4, seed=1)
    mask = jnp.arange(8)[None] < 5
    padded = jnp.where(mask[..., None], x, other)
    mix = partial(FourierMixing(padding="zero", norm="tokens").apply, {})
    y = mix(x, mask=mask)
    np.testing.assert_array_equal(y, mix(padded, mask=mask))
    np.testing.assert_allclose(y, fourier_mix(jnp.where(mask[..., None], x, 0.0)) / 8**0.5, rtol=1e-5)
    assert np.abs(y[:, :5] - mix(x[:, :6], mask=mask[:, :6])[:, :5]).max() > 0.1


def test_layer_takes_padding_for_tokens() -> None:
    """As published: the mask is ignored."""
    x, mask = normal(2, 8, 4), jnp.arange(8)[None] < jnp.array([[5], [8]])
    y = FourierMixing(padding="tokens").apply({}, x, mask=mask)
    np.testing.assert_array_equal(y, FourierMixing().apply({}, x))


def test_layer_refuses_unknown_options() -> None:
    with pytest.raises(ValueError, match="norm='ortho' is unknown"):
        FourierMixing(norm="ortho").apply({}, normal(1, 2, 2))
    with pytest.raises(ValueError, match="padding='mask' is unknown; choose one of invariant, own, zero, t"):
        FourierMixing(padding="mask").apply({}, normal(1, 2, 2))


@pytest.mark.parametrize("engines", [{"engine": Engine()}, {"eval_engine": Engine()}])
def test_layer_needs_another_padding_on_an_engine(engines: dict) -> None:
    x, mask = normal(1, 4, 4), jnp.ones((1, 4), bool)
    FourierMixing(**engines).apply({}, x)
    with pytest.raises(ValueError, match="padding='invariant' has no optical form with a mask; use 'zero'"):
        FourierMixing(**engines).apply({}, x, mask=mask, train=True)
