"""One more token, against the equations in float64 and against the whole sequence at every position."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import array, normal

from fourier_attn.ops import steps
from fourier_attn.ops.attention import attention, fused_attention
from fourier_attn.ops.lambdas import lambda_layer
from fourier_attn.ops.long_conv import long_convolve
from fourier_attn.ops.token_conv import token_convolve

T = 6
ATOL = 3e-6  # float32 sums of few numbers near 1
EVERY = [jnp.array([n, T - 1 - n]) for n in range(T)]  # two examples at different places


def f64(*arrays: jax.Array) -> list[np.ndarray]:
    return [np.asarray(x, np.float64) for x in arrays]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def compare(step: object, whole: jax.Array) -> None:
    """Compares a function of places with the rows of the whole sequence's result."""
    call = jax.jit(step)
    for place in EVERY:
        expected = np.asarray(whole)[np.arange(2), np.asarray(place)]
        np.testing.assert_allclose(call(place), expected, atol=ATOL)


def behind(x: jax.Array, place: jax.Array) -> jax.Array:
    """What is kept when tokens after the place are not those of the text."""
    later = (jnp.arange(x.shape[1])[None] > place[:, None]).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
    return jnp.where(later, jnp.full((), 7.0), x)


@pytest.mark.parametrize("shared", [False, True])
def test_attention(shared: bool) -> None:
    query, key, value = (normal(2, T, 2, 3, seed=i) for i in range(3))
    if shared:
        key, value = key[:, :, :1], value[:, :, :1]
    q, k, v = f64(query, key, value)
    place = jnp.array([3, 0])
    found = steps.attend_step(query[:, 1], behind(key, place), behind(value, place), place)
    for b, h in np.ndindex(2, 2):
        n, g = int(place[b]) + 1, 0 if shared else h
        weights = softmax(k[b, :n, g] @ q[b, 1, h] / np.sqrt(3))
        np.testing.assert_allclose(found[b, h], weights @ v[b, :n, g], atol=ATOL)
    whole = attention(query, *(jnp.broadcast_to(x, query.shape) for x in (key, value)), causal=True)
    compare(
        lambda place: steps.attend_step(
            query[jnp.arange(2), place], behind(key, place), behind(value, place), place
        ),
        whole,
    )


def test_other_heads_are_refused() -> None:
    x = normal(1, 3, 2, 4)
    with pytest.raises(ValueError, match=r"key of shape \(1, 3, 2, 4\) has 2 heads; give it those of the"):
        steps.attend_step(normal(1, 4, 4), x, x, jnp.array([1]))


def test_fused_attention() -> None:
    """With heads narrower than the tokens, too."""
    x, kernels = normal(2, T, 4), [normal(4, 2, 3, seed=i) / 2 for i in range(3)]
    out = normal(2, 3, 5, seed=3)
    whole = fused_attention(x, x, *kernels, out, causal=True)

    def step(place: jax.Array) -> jax.Array:
        one = x[jnp.arange(2), place]
        return steps.fused_attention_step(one, behind(x, place), *kernels, out, place)

    compare(step, whole)


def test_a_row_of_a_matrix() -> None:
    matrix, x = normal(T + 2, T + 2), normal(2, T, 3, seed=1)
    m, y = f64(matrix, x)
    expected = np.einsum("ij,bjd->bid", np.tril(m[:T, :T]), y)
    compare(lambda place: steps.mix_step(matrix, behind(x, place), place), expected)


@pytest.mark.parametrize("r", [1, 3, T + 2])
def test_convolutions(r: int) -> None:
    """One filter of all features, and one for each."""
    x, filters = normal(2, T, 3), normal(r, 3, seed=1)
    for filter, whole in (
        (filters[:, 0], token_convolve(x, filters[:, 0], causal=True)),
        (filters, long_convolve(x, filters, causal=True)),
    ):
        compare(lambda place, w=filter: steps.convolve_step(steps.last(x, place + 1, r), w), whole)
    window, w = f64(steps.last(x, jnp.array([T, T]), r), filters)
    expected = sum(w[k] * window[:, r - 1 - k] for k in range(r))
    found = steps.convolve_step(array(window, np.float32), filters)
    np.testing.assert_allclose(found, expected, atol=ATOL)


def test_the_last_of_few_tokens_have_zeros_before_them() -> None:
    x = normal(3, 4, 2)
    found = steps.last(x, jnp.array([0, 2, 4]), 3)
    np.testing.assert_array_equal(found[0], 0)
    np.testing.assert_array_equal(found[1], np.concatenate([np.zeros((1, 2)), x[1, :2]]))
    np.testing.assert_array_equal(found[2], x[2, 1:])


def test_a_row_is_put_at_its_place_alone() -> None:
    kept, new = normal(2, 4, 3), normal(2, 1, 3, seed=1)
    expected = np.array(kept)
    expected[0, 3], expected[1, 0] = new[0, 0], new[1, 0]
    np.testing.assert_array_equal(steps.put(kept, new, jnp.array([3, 0])), expected)


@pytest.mark.parametrize("offset", [0.0, 500.0])
def test_running_sums(offset: float) -> None:
    """The softmax of all tokens in float64; offsets that grow or fall by hundreds change nothing."""
    key, value = normal(1, T, 2, 2) + offset * jnp.linspace(-1, 1, T)[None, :, None, None], normal(1, T, 2, 3)
    sums = steps.content_sums(key[:, :2], value[:, :2])
    for n in range(2, T):
        sums = steps.content_sums_step(sums, key[:, n : n + 1], value[:, n : n + 1])
        k, v = f64(key[:, : n + 1], value[:, : n + 1])
        for a, u in np.ndindex(2, 2):
            expected = softmax(k[0, :, a, u]) @ v[0, :, u]
            np.testing.assert_allclose(sums[0][0, a, u] / sums[1][0, a, u], expected, atol=ATOL)
    np.testing.assert_array_equal(sums[2], key.max(axis=1))


@pytest.mark.parametrize("r", [1, 3, T])
def test_lambda(r: int) -> None:
    query, key, value = normal(2, T, 2, 4), normal(2, T, 4, 2, seed=1), normal(2, T, 3, 2, seed=2)
    position, rows = normal(r, 4, 2, seed=3), value.swapaxes(-1, -2)
    whole = lambda_layer(query, key, value, position, causal=True)
    for n in range(T):
        sums, window = (
            steps.content_sums(key[:, : n + 1], rows[:, : n + 1]),
            steps.last(rows, jnp.full(2, n + 1), r),
        )
        found = steps.lambda_step(query[:, n], sums, window, position)
        np.testing.assert_allclose(found, whole[:, n], atol=1e-5)  # sums over k and u, too


def test_empty_batches() -> None:
    none, place = jnp.zeros((0, 3, 2, 4)), jnp.zeros(0, int)
    assert steps.attend_step(none[:, 0], none, none, place).shape == (0, 2, 4)
    assert jax.eval_shape(partial(steps.put, none), none[:, :1], place).shape == none.shape
