"""Masks of real tokens: those of another shape, and those with padding before real tokens."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from conftest import normal

from fourier_attn.layers.fourier import FourierMixing
from fourier_attn.layers.padding import check_mask, check_trailing, zero_padding
from fourier_attn.model import MIXERS


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Turns off the checks of annotations that only tests have."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("name", sorted(MIXERS.keys() - {"identity"}))
@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (2, 3), (4, 2)])
def test_a_mask_of_another_shape_is_refused(name: str, shape: tuple[int, int]) -> None:
    """Broadcast, it would give examples the mask of another example."""
    mask, x = jnp.ones(shape, bool), normal(2, 4, 8)
    with pytest.raises(ValueError, match=r"mask of shape .* must be .* = \(2, 4\)"):
        jax.eval_shape(lambda: MIXERS[name]().init(jax.random.key(0), x, mask=mask))


def test_padding_becomes_zero_whatever_it_contains() -> None:
    x = np.array([[[1.0, 2.0], [np.nan, np.inf]], [[3.0, 4.0], [5.0, 6.0]]], np.float32)
    y = zero_padding(jnp.asarray(x), jnp.array([[True, False], [True, True]]))
    np.testing.assert_array_equal(y, [[[1, 2], [0, 0]], [[3, 4], [5, 6]]])
    assert zero_padding(y, None) is y
    with pytest.raises(ValueError, match=r"mask of shape \(2, 3\) must be \(b, t\) = \(2, 2\)"):
        check_mask(y, jnp.ones((2, 3), bool))


@pytest.mark.parametrize("padding", ["invariant", "own"])
def test_padding_before_real_tokens_is_refused_where_it_is_known(padding: str) -> None:
    """The transform has the length of the text, so its first tokens must be the real ones."""
    layer, x = FourierMixing(padding=padding), normal(2, 5, 4)
    with pytest.raises(ValueError, match="mask has padding before real tokens; let padding follow"):
        layer.apply({}, x, mask=jnp.array([[True] * 5, [False, False, True, True, True]]))
    mask = jnp.array([[True] * 5, [True, True, False, False, False]])
    np.testing.assert_allclose(
        layer.apply({}, x, mask=mask)[1, :2], np.fft.fft2(np.asarray(x[1, :2], np.float64)).real, atol=1e-5
    )
    FourierMixing(padding="zero").apply({}, x, mask=~mask)
    jax.jit(lambda mask: check_trailing(mask, ""))(~mask)  # no values are known here
