"""Attention by rows: the definition whatever a step holds, all derivatives, and memory without the scores."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from jax.test_util import check_grads

from fourier_attn.ops import rowwise_attention
from fourier_attn.ops.attention import attention, shared_attention, softmax_weights
from fourier_attn.ops.rowwise_attention import by_rows, queries_per_step

# b, t, s, h, scores of a step: one step; several, with a rest or without; one query; one token
CASES = [(2, 5, 7, 3, 10**6), (2, 7, 5, 3, 60), (3, 8, 8, 1, 48), (2, 9, 4, 2, 1), (1, 1, 1, 1, 1)]


def small(monkeypatch: pytest.MonkeyPatch, scores: int) -> None:
    monkeypatch.setattr(rowwise_attention, "SCORES", scores)
    monkeypatch.setattr(rowwise_attention, "LEAST", 1)
    monkeypatch.setattr(rowwise_attention, "LONG", 4)


def oracle(q: Any, k: Any, v: Any, mask: Any, causal: bool) -> np.ndarray:
    """One query at a time in float64: masked tokens count where a query sees no others."""
    q, k, v, mask = (np.asarray(x, np.float64) for x in (q, k, v, mask))
    y = np.zeros(q.shape)
    for b, i, h in np.ndindex(q.shape[:3]):
        seen = np.arange(k.shape[1]) <= i if causal else np.ones(k.shape[1], bool)
        real = seen & (mask[b] > 0)
        scores = k[b, :, h] @ q[b, i, h] / np.sqrt(q.shape[-1])
        weights = np.where(real, np.exp(scores), 0.0) if real.any() else seen
        y[b, i, h] = weights / weights.sum() @ v[b, :, h]
    return y


@pytest.mark.parametrize("case", CASES)
def test_is_the_definition_whatever_a_step_holds(
    case: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a last example of padding alone; causal where there are as many source tokens as queries."""
    b, t, s, h, scores = case
    small(monkeypatch, scores)
    arrays = normal(b, t, h, 3), normal(b, s, h, 3, seed=1), normal(b, s, h, 3, seed=2)
    mask = jnp.arange(s)[None] < jnp.array([s, s // 2, 0])[:b, None]
    for causal in (False, True)[: 1 + (t == s)]:

        def rows(*x: jax.Array, causal: bool = causal) -> jax.Array:
            return attention(*x, mask=mask, causal=causal, implementation="rows")

        def whole(*x: jax.Array, causal: bool = causal) -> jax.Array:
            weights = softmax_weights(*x[:2], mask=mask, causal=causal)
            return jnp.einsum("bhts,bshk->bthk", weights, x[2])

        def slopes(function: Callable[..., jax.Array]) -> Any:
            return jax.jit(jax.grad(lambda *x: jnp.sum(jnp.sin(function(*x))), (0, 1, 2)))(*arrays)

        # float32 rounding of values and derivatives near 1
        np.testing.assert_allclose(jax.jit(rows)(*arrays), oracle(*arrays, mask, causal), atol=3e-6)
        for found, expected in zip(slopes(rows), slopes(whole), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_vectors_shared_by_heads_are_averaged_alike(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 60)
    q, z = normal(2, 15, 4), normal(2, 5, 4, seed=1)  # three heads of five tokens
    mask = jnp.arange(5)[None] < jnp.array([4, 0])[:, None]

    def step(implementation: str) -> Any:
        def loss(q: jax.Array, z: jax.Array) -> jax.Array:
            y = shared_attention(q, z, mask, causal=causal, implementation=implementation)
            return jnp.sum(jnp.sin(y))

        return jax.jit(jax.value_and_grad(loss, (0, 1)))(q, z)

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), step("rows"), step("xla"))


def test_steps_share_the_queries_evenly() -> None:
    assert queries_per_step(10, 1) == 10
    assert queries_per_step(2**15, 2**18) == 32
    assert queries_per_step(2**15, 2**30) == rowwise_attention.LEAST
    assert queries_per_step(2050, 2**13) == 684  # three steps
    numbers = by_rows(lambda n, i, q: q * 0 + n.astype(float) + i[None] / 100, jnp.ones((1, 5)), 2)
    np.testing.assert_allclose(numbers[0], [0.0, 0.01, 1.02, 1.03, 2.04], rtol=1e-6)


def test_derivatives_of_both_modes_and_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 40)
    q, z = normal(2, 5, 2, 3), normal(2, 5, 3, seed=1)
    mask = jnp.array([[True] * 5, [True] * 3 + [False] * 2])

    def dense(q: jax.Array) -> jax.Array:
        return attention(q, jnp.sin(q), q, mask=mask, causal=True, implementation="rows")

    def shared(q: jax.Array, z: jax.Array) -> jax.Array:
        return shared_attention(q.reshape(2, 10, 3), z, mask, implementation="rows")

    check_grads(jax.jit(dense), (q,), order=2, rtol=3e-2, atol=3e-2)
    check_grads(jax.jit(shared), (q, z), order=2, rtol=3e-2, atol=3e-2)


def test_dropped_weights_belong_to_a_step_and_return_in_the_backward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one-hot values the output is the weights. Equal scores: steps differ by their draws alone."""
    b, t, h = 2, 12, 2
    small(monkeypatch, 4 * b * t * h)  # three steps
    q, v = jnp.zeros((b, t, h, t)), jnp.broadcast_to(jnp.eye(t)[None, :, None], (b, t, h, t))

    def drop(q: jax.Array, v: jax.Array) -> jax.Array:
        options = {"dropout": 0.3, "dropout_key": jax.random.key(3)}
        return attention(q, q, v, implementation="rows", **options)

    weights = np.asarray(jax.jit(drop)(q, v))
    kept = weights > 0
    assert 0.6 < kept.mean() < 0.8
    np.testing.assert_allclose(weights[kept], 1 / t / 0.7, rtol=1e-5)
    assert (
        len({kept[i, 4 * n : 4 * n + 4, a].tobytes() for i in (0, 1) for n in range(3) for a in (0, 1)}) == 12
    )
    g = normal(b, t, h, t, seed=1)
    by_value = jax.jit(lambda v: jax.vjp(lambda v: drop(q, v), v)[1](g)[0])(v)
    np.testing.assert_allclose(by_value, np.einsum("bthj,bthk->bjhk", weights, g), atol=1e-5)


def test_bfloat16_sums_derivatives_of_keys_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 1,024 steps, each with a contribution that would be rounded away next to their sum."""
    small(monkeypatch, 1)
    q, key = jnp.ones((1, 1024, 1, 4), jnp.bfloat16), jnp.ones((1, 2, 1, 4), jnp.bfloat16)

    def total(value: jax.Array) -> jax.Array:
        y = attention(q, key, value, implementation="rows")
        assert y.dtype == jnp.bfloat16
        return jnp.sum(y.astype(jnp.float32)) * 1.01

    slopes = jax.jit(jax.grad(total))(key)
    assert slopes.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(slopes, np.float32), 512 * 1.01, rtol=2**-8)


def test_vmap_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 40)
    q = normal(3, 2, 7, 2, 4)

    def step(q: jax.Array) -> jax.Array:
        return jax.grad(lambda q: jnp.sum(jnp.sin(attention(q, q, q, implementation="rows"))))(q)

    together = jax.jit(jax.vmap(step))(q)
    for i in range(3):
        np.testing.assert_allclose(together[i], jax.jit(step)(q[i]), atol=1e-5)


@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_long_sequences_are_computed_by_rows_off_cpus(platform: str) -> None:
    """The largest array of the program's loss and gradient says whether all scores are there at once."""

    def loss(x: jax.Array) -> jax.Array:
        y = attention(x, x, x, causal=True)
        return jnp.sum(y + shared_attention(x[:, :, 0], x[:, :, 0], jnp.ones(x.shape[:2], bool))[:, :, None])

    def largest(t: int) -> int:
        x = jax.ShapeDtypeStruct((1, t, 1, 64), jnp.float32)
        program = jax.export.export(jax.jit(jax.grad(loss)), platforms=[platform])(x).mlir_module()
        shapes = re.findall(r"tensor<([\dx]+)xf32>", program)
        return max(int(np.prod([int(n) for n in shape.split("x")])) for shape in shapes)

    assert largest(2048) == 2048**2
    assert largest(8192) == rowwise_attention.SCORES


@pytest.mark.usefixtures("optimised")
def test_memory_grows_with_the_tokens() -> None:
    def temporary(t: int) -> int:
        x = jax.ShapeDtypeStruct((1, t, 2, 8), jnp.float32)
        step = jax.value_and_grad(lambda x: jnp.sum(jnp.sin(attention(x, x, x, implementation="rows"))))
        analysis: Any = jax.jit(step).lower(x).compile().memory_analysis()
        return analysis.temp_size_in_bytes

    assert temporary(16384) < 2.2 * temporary(8192)
    assert temporary(16384) < 2**28  # all scores would be 2^31 bytes
