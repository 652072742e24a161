"""Transforms of a sharded batch: those of NumPy, without an all-gather, with derivatives in both modes."""

import json
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal, on_devices
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.test_util import check_grads

from fourier_attn.ops import sharded_fft

N = 7  # odd and prime; 12 is even
FUNCTIONS: dict[str, tuple[Callable, Callable]] = {  # ours and NumPy's
    "fft": (sharded_fft.fft, np.fft.fft),
    "ifft": (sharded_fft.ifft, np.fft.ifft),
    "fft2": (sharded_fft.fft2, np.fft.fft2),
    "ifft2": (sharded_fft.ifft2, np.fft.ifft2),
    "rfft": (sharded_fft.rfft, np.fft.rfft),
    "irfft": (
        lambda x: sharded_fft.irfft(x, 2 * x.shape[-1] - 1),
        lambda x: np.fft.irfft(x, 2 * x.shape[-1] - 1),
    ),
}
COMPLEX = ("fft", "ifft", "fft2", "ifft2", "irfft")


def drawn(name: str, *shape: int) -> jax.Array:
    x = normal(*shape)
    return jax.lax.complex(x, normal(*shape, seed=1)) if name in COMPLEX else x


@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_numpys(name: str) -> None:
    """In float64, for odd, even and single lengths; float32 rounding."""
    ours, reference = FUNCTIONS[name]
    for shape in ((2, 3, N), (3, 12), (2, 1)):
        x = drawn(name, *shape)
        expected = reference(np.asarray(x, np.complex128 if name in COMPLEX else np.float64))
        np.testing.assert_allclose(ours(x), expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_and_vmap(name: str) -> None:
    """Both modes and a second derivative, by finite differences; vmap over any axis, inside and outside."""
    ours, _ = FUNCTIONS[name]
    x = drawn(name, 2, 3, N)

    def energy(x: jax.Array) -> jax.Array:
        y = ours(x)
        return jnp.sum(y.real**2 * y.imag + jnp.sin(y.real)) if jnp.iscomplexobj(y) else jnp.sum(y**3)

    check_grads(energy, (x,), order=2, modes=["fwd", "rev"], rtol=2e-2)
    each = jax.vmap(ours, in_axes=1, out_axes=1)(jnp.moveaxis(x[None], 0, 1))
    np.testing.assert_allclose(each[:, 0], ours(x), atol=1e-5)
    slopes = jax.vmap(jax.grad(energy))(x)
    np.testing.assert_allclose(slopes, jax.grad(energy)(x), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("n", [N, 12, 509])
def test_low_precision(n: int) -> None:
    """The error that the module states, against NumPy's float64 of the same bfloat16 numbers."""
    x = normal(4, 6, n).astype(jnp.bfloat16)
    back = jax.jit(lambda spectrum: sharded_fft.irfft(spectrum, n, low_precision=True))
    exact = np.asarray(x, np.float64)
    for ours, expected in (
        (jax.jit(sharded_fft.rfft)(x), np.fft.rfft(exact)),
        (jax.jit(sharded_fft.fft2)(x), np.fft.fft2(exact)),
        (back(np.fft.rfft(exact)).astype(jnp.float32), exact),
    ):
        error = np.sqrt(np.mean(np.abs(ours - expected) ** 2) / np.mean(np.abs(expected) ** 2))
        assert error < 0.01
    assert back(np.fft.rfft(exact)).dtype == jnp.bfloat16


def test_bad_length() -> None:
    with pytest.raises(ValueError, match="n=8 needs n // 2 . 1 frequencies, but x has 4; give the length"):
        sharded_fft.irfft(jnp.ones(4, jnp.complex64), 8)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "irfft"])
def test_an_empty_axis(name: str) -> None:
    """An empty batch has a transform, and no numbers have none."""
    dtypes = (jnp.float32, jnp.bfloat16) if name in ("rfft", "fft2") else (jnp.float32,)
    for dtype in dtypes:
        assert FUNCTIONS[name][0](jnp.ones((0, 2, 4), dtype)).shape == (0, 2, 3 if name == "rfft" else 4)
        with pytest.raises(ValueError, match=r"x of shape \(2, 0\) has nothing to transform; give"):
            FUNCTIONS[name][0](jnp.ones((2, 0), dtype))


def gathers() -> dict[str, list[int]]:
    """The all-gathers of each function and of its gradient, on a batch that 8 devices share."""
    split = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))

    def count(function: Callable, x: jax.Array) -> int:
        compiled = jax.jit(function, in_shardings=split, out_shardings=split).lower(x).compile()
        np.testing.assert_allclose(compiled(jax.device_put(x, split)), function(x), atol=1e-4)
        return (compiled.as_text() or "").count("all-gather(")

    def both(function: Callable, x: jax.Array) -> list[int]:
        slope = jax.grad(lambda x: jnp.sum(jnp.abs(function(x)) ** 2))
        return [count(function, x), count(slope, x)]

    counts = {name: both(ours, drawn(name, 8, 3, N)) for name, (ours, _) in FUNCTIONS.items()}
    low = normal(8, 3, N).astype(jnp.bfloat16)
    counts |= {f"{name}, low": [count(FUNCTIONS[name][0], low)] for name in ("rfft", "fft2")}
    return counts | {"jax": [count(jnp.fft.fft, drawn("fft", 8, 3, N))]}


@pytest.mark.slow
def test_a_sharded_batch_is_not_gathered() -> None:
    """If the last line fails, JAX keeps a sharded batch itself: `batchwise` and this module can go."""
    counts = json.loads(on_devices(__file__))
    [jax_itself] = counts.pop("jax")
    assert not any(count for each in counts.values() for count in each), counts
    assert jax_itself > 0, "jnp.fft.fft gathers no more: ops.sharded_fft has become unnecessary"


if __name__ == "__main__":
    print(json.dumps(gathers()))
