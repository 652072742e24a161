import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal

from fourier_attn.ops.dense import matrix_dot_general

CASES = [((2, 3, 4), (4, 5), 1), ((2, 3, 4), (4, 2, 5), 1), ((2, 3, 4, 5), (4, 5, 6), 2), ((4,), (4, 3), 1)]


@pytest.mark.parametrize(("left", "right", "n"), CASES)
def test_is_dot_general(left: tuple, right: tuple, n: int) -> None:
    a, b = normal(*left), normal(*right, seed=1)
    expected = np.tensordot(np.asarray(a, np.float64), np.asarray(b, np.float64), n)
    axes = ((tuple(range(len(left) - n, len(left))), tuple(range(n))), ((), ()))
    y = matrix_dot_general(a, b, axes)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    plain = jax.grad(lambda a, b: (jax.lax.dot_general(a, b, axes) ** 2).sum(), (0, 1))(a, b)
    ours = jax.grad(lambda a, b: (matrix_dot_general(a, b, axes) ** 2).sum(), (0, 1))(a, b)
    for p, o in zip(plain, ours, strict=True):
        np.testing.assert_allclose(o, p, rtol=1e-4, atol=1e-4)


def test_serves_flax() -> None:
    x = normal(2, 3, 4, 5)
    plain, ours = (nn.DenseGeneral((2, 3), axis=(-2, -1), dot_general=f) for f in (None, matrix_dot_general))
    params = drawn(plain, x)
    np.testing.assert_allclose(jax.jit(ours.apply)(params, x), jax.jit(plain.apply)(params, x), atol=1e-5)


def test_other_axes_are_refused() -> None:
    with pytest.raises(ValueError, match="must contract trailing with leading axes"):
        matrix_dot_general(jnp.ones((2, 3)), jnp.ones((2, 3)), (((0,), (0,)), ((), ())))
