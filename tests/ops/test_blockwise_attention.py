"""Attention in blocks: the same mathematics whatever a block holds, and memory without the scores."""

import itertools
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal, on_devices
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.test_util import check_grads

from fourier_attn.ops.attention import attention, shared_attention
from fourier_attn.ops.blockwise_attention import attend, sizes
from fourier_attn.train.target.program import collectives

# b, t, s, h, scores of a block: one block; groups of heads, of examples; parts of a head, with a rest
SHAPES = [
    (1, 1, 1, 1, 4),
    (3, 5, 7, 2, 10_000),
    (2, 4, 6, 6, 48),
    (6, 4, 6, 2, 100),
    (2, 7, 5, 3, 10),
    (1, 11, 3, 2, 1),
    (2, 9, 8, 1, 32),
]


def oracle(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """One query at a time in float64; the plain average where everything is masked."""
    y = np.zeros((*q.shape[:3], v.shape[-1]))
    for b, i, h in np.ndindex(q.shape[:3]):
        seen = mask[b] if mask[b].any() else np.ones_like(mask[b])
        weights = np.where(seen, np.exp(k[b, :, h] @ q[b, i, h]), 0.0)
        if not mask[b].any():
            weights = np.ones(len(weights))
        y[b, i, h] = weights / weights.sum() @ v[b, :, h]
    return y


def inputs(b: int, t: int, s: int, h: int) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Query, key, value of unlike widths, and a mask; the last of several examples is all padding."""
    arrays = normal(b, t, h, 3), normal(b, s, h, 3, seed=1), normal(b, s, h, 2, seed=2)
    real = [0 if b > 1 and i == b - 1 else max(1, s - i) for i in range(b)]
    return arrays, jnp.arange(s)[None] < jnp.array(real)[:, None]


def whole(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """The plain form, for JAX to differentiate."""
    scores = jnp.einsum("bthk,bshk->bhts", q, k)
    weights = jax.nn.softmax(jnp.where(mask[:, None, None], scores, jnp.float32(-1e30)))
    return jnp.einsum("bhts,bshv->bthv", weights, v)


@pytest.mark.parametrize("shape", SHAPES)
def test_is_the_definition_whatever_a_block_holds(shape: tuple[int, ...]) -> None:
    *size, scores = shape
    arrays, mask = inputs(*size)
    exact = [np.asarray(x, np.float64) for x in arrays]
    ones = jnp.ones(mask.shape, bool)
    compute = jax.jit(partial(attend, scores=scores))
    # float32 rounding of values near 1
    np.testing.assert_allclose(compute(*arrays, mask=mask), oracle(*exact, np.asarray(mask)), atol=3e-6)
    np.testing.assert_allclose(compute(*arrays), oracle(*exact, np.asarray(ones)), atol=3e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_is_that_of_the_plain_form(shape: tuple[int, ...]) -> None:
    """Where everything is masked the values alone have one."""
    *size, scores = shape
    arrays, mask = inputs(*size)

    def slopes(function: Callable[..., jax.Array]) -> Any:
        return jax.grad(lambda *x: jnp.sum(jnp.sin(function(*x, mask=mask))), (0, 1, 2))

    found, expected = jax.jit(lambda *x: (slopes(partial(attend, scores=scores))(*x), slopes(whole)(*x)))(
        *arrays
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)  # sums of float32 numbers near 1


def test_blocks_hold_what_they_are_meant_to() -> None:
    assert sizes(4, 32, 64, 8, 2**18) == (4, 8, 32, 1)  # everything
    assert sizes(8, 256, 256, 8, 2**18) == (1, 4, 256, 1)
    assert sizes(8, 100, 64, 8, 2**18) == (4, 8, 100, 1)
    assert sizes(1, 2048, 2048, 8, 2**18) == (1, 1, 128, 16)
    assert sizes(1, 1000, 2048, 8, 2**18) == (1, 1, 125, 8)
    assert sizes(1, 2**15, 2**15, 1, 2**18) == (1, 1, 64, 512)
    assert sizes(7, 300, 300, 5, 2**18) == (1, 1, 300, 1)


def drawn(scores: int, rate: float = 0.3) -> Callable[..., jax.Array]:
    def compute(*arrays: jax.Array) -> jax.Array:
        keys = jax.random.split(jax.random.key(5), (arrays[0].shape[0], arrays[0].shape[2]))
        return attend(*arrays, dropout=rate, dropout_keys=keys, scores=scores)

    return compute


@pytest.mark.parametrize("scores", [10_000, 30, 10])
def test_dropped_weights_are_the_same_in_the_backward_pass(scores: int) -> None:
    """With one-hot values the output is the dropped weights themselves."""
    b, t, s, h = 2, 7, 5, 2
    q, k = normal(b, t, h, 3), normal(b, s, h, 3, seed=1)
    v = jnp.broadcast_to(jnp.eye(s)[None, :, None], (b, s, h, s))
    compute = jax.jit(drawn(scores))
    weights = np.asarray(compute(q, k, v)).transpose(0, 2, 1, 3)
    plain = np.asarray(attend(q, k, v)).transpose(0, 2, 1, 3)
    kept = weights > 0
    assert 0.5 < kept.mean() < 0.9
    np.testing.assert_allclose(weights, np.where(kept, plain / 0.7, 0), rtol=1e-5)
    if scores == 30:
        np.testing.assert_array_equal(drawn(scores)(q, k, v), compute(q, k, v))  # eager

    def written_out(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        softmax = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k))
        return jnp.einsum("bhts,bshv->bthv", jnp.where(kept, softmax / 0.7, 0.0), v)

    def slopes(function: Callable[..., jax.Array]) -> Any:
        return jax.jit(jax.grad(lambda *x: jnp.sum(jnp.sin(function(*x))), (0, 1, 2)))(q, k, v)

    for a, expected in zip(slopes(drawn(scores)), slopes(written_out), strict=True):
        np.testing.assert_allclose(a, expected, atol=1e-5)


def test_draws_differ_between_examples_heads_and_blocks() -> None:
    q, v = jnp.zeros((2, 12, 2, 1)), jnp.broadcast_to(jnp.eye(16)[None, :, None], (2, 16, 2, 16))
    y = np.asarray(drawn(64)(q, jnp.zeros((2, 16, 2, 1)), v))  # 3 blocks of 4 rows
    blocks = {(y[b, i : i + 4, h] > 0).tobytes() for b in (0, 1) for h in (0, 1) for i in (0, 4, 8)}
    assert len(blocks) == 12


def test_check_grads() -> None:
    arrays, mask = inputs(2, 6, 5, 2)
    compute = jax.jit(partial(attend, mask=mask, scores=15))
    check_grads(compute, arrays, order=1, modes=["rev"], rtol=2e-2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_low_precision_is_computed_in_float32(dtype: str) -> None:
    arrays, mask = inputs(2, 6, 8, 2)
    low = [x.astype(dtype) for x in arrays]
    y = attention(low[0], low[1], low[0].repeat(2, 1)[:, :8], mask=mask)
    assert y.dtype == dtype
    upcast = [x.astype(jnp.float32) for x in (low[0], low[1], low[0].repeat(2, 1)[:, :8])]
    np.testing.assert_array_equal(y, attention(*upcast, mask=mask).astype(dtype))
    slopes = jax.grad(lambda q: jnp.sum(attention(q, q, q).astype(jnp.float32)))(low[0])
    assert slopes.dtype == dtype


def test_vmap_changes_nothing() -> None:
    """Over all arguments, or over some."""
    q, k, v = (normal(3, 2, 7, 2, 4, seed=i) for i in range(3))
    mask, keys = jnp.arange(7)[None] < jnp.array([[7], [4]]), jax.random.split(jax.random.key(0), 3)

    def loss(q: jax.Array, k: jax.Array, v: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(attention(q, k, v, mask=mask, dropout=0.2, dropout_key=key)))

    step = jax.value_and_grad(loss, (0, 1, 2))
    for axes in ((0, 0, 0, 0), (0, None, 0, None)):
        given = [x if axis == 0 else x[0] for x, axis in zip((q, k, v, keys), axes, strict=True)]
        together = jax.jit(jax.vmap(step, axes))(*given)
        for i in range(3):
            alone = jax.jit(step)(*(x[i] if axis == 0 else x for x, axis in zip(given, axes, strict=True)))
            jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=1e-5), together, alone)


@pytest.mark.parametrize(("t", "width"), [(16, 8), (20, 8), (16, 4), (64, 16)])
def test_a_jacobian_has_the_rows_of_single_pullbacks(t: int, width: int) -> None:
    """Compiled, of one example: its arrays are there once, whatever the number of cotangents."""
    arrays = [normal(1, t, 1, width, seed=i) for i in range(3)]
    cotangents = normal(128, 1, t, 1, width, seed=3)

    def pull_back(cotangent: jax.Array, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        return jax.vjp(attention, *arrays)[1](cotangent)

    together = jax.jit(jax.vmap(pull_back, (0, None, None, None)))(cotangents, *arrays)
    single = jax.jit(pull_back)
    for i in range(0, 128, 16):
        for found, expected in zip(together, single(cotangents[i], *arrays), strict=True):
            np.testing.assert_allclose(found[i], expected, atol=2e-5)  # sums of up to 64 terms of order 1


@pytest.mark.usefixtures("optimised")
def test_memory_does_not_grow_with_the_scores() -> None:
    """Twice as many tokens need twice the memory, also with dropout in checkpoints in a scan over layers."""

    def layers(x: jax.Array, key: jax.Array) -> jax.Array:
        @jax.checkpoint
        def one(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            return attention(x, x, x, dropout=0.1, dropout_key=key), None

        return jnp.sum(jnp.sin(jax.lax.scan(one, x, None, length=3)[0]))

    def loss(x: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(attention(x, x, x)))

    for function in (loss, layers):
        needed = []
        for t in (4096, 8192):
            x = jax.ShapeDtypeStruct((1, t, 2, 8), jnp.float32)
            program = jax.jit(jax.value_and_grad(function)).lower(x, jax.random.key(0)).compile()
            analysis: Any = program.memory_analysis()
            needed.append(analysis.temp_size_in_bytes)
        assert needed[1] < 2.2 * needed[0]
        assert needed[1] < 2**26  # scores would be 2^29 bytes


def test_shared_vectors_in_blocks_are_the_same() -> None:
    """As many scores as are computed in blocks, against keys and values given twice."""
    q, z = normal(1, 2100, 4), normal(1, 1100, 4, seed=1)
    mask = jnp.arange(1100)[None] < 1000

    def plain(q: jax.Array, z: jax.Array, mask: jax.Array) -> jax.Array:
        return whole(q[:, :, None], z[:, :, None], z[:, :, None], mask)[:, :, 0]

    def both(function: Callable[..., jax.Array]) -> Any:
        loss = jax.value_and_grad(lambda q, z: jnp.sum(jnp.sin(function(q, z, mask))), (0, 1))
        return jax.jit(loss)(q, z)

    text = jax.jit(shared_attention).lower(q, z, mask).as_text()
    assert "while" in text
    assert "while" not in jax.jit(shared_attention).lower(q[:, :9], z, mask).as_text()
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), both(shared_attention), both(plain)
    )


def sharded() -> dict[str, Any]:
    """Attention over 8 devices: whether it is what one computes, and the collectives of its programs."""
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    q = normal(16, 600, 2, 4)
    mask = jnp.arange(600)[None] < 300 + jnp.arange(16)[:, None]

    def loss(q: jax.Array, mask: jax.Array, rate: float, implementation: str) -> jax.Array:
        options = {"dropout": rate, "dropout_key": jax.random.key(1), "implementation": implementation}
        y = attention(q, q + 1, q - 1, mask=mask, **options)
        z = shared_attention(q[:, :, 0], q[:, :, 1], mask, implementation=implementation)
        return jnp.sum(jnp.sin(y), axis=(1, 2, 3)) + jnp.sum(jnp.sin(z), axis=(1, 2))

    result = {}
    for how in itertools.product((0.0, 0.2), ("xla", "rows")):
        function = jax.grad(lambda q, mask, how=how: loss(q, mask, *how).sum())
        one = jax.jit(function)(q, mask)
        program = jax.jit(function, in_shardings=(split, split)).lower(q, mask).compile()
        many = program(jax.device_put(q, split), jax.device_put(mask, split))
        kinds = collectives(program.as_text())
        moved = sum(kind["count"] for name, kind in kinds.items() if name != "all-reduce")
        result[str(how)] = {"moved": moved, "difference": float(jnp.abs(one - np.asarray(many)).max())}
    return result


@pytest.mark.slow
def test_a_sharded_batch_is_computed_where_it_is_with_the_same_draws() -> None:
    for found in json.loads(on_devices(__file__)).values():
        assert found["moved"] == 0
        assert found["difference"] < 1e-5


if __name__ == "__main__":
    print(json.dumps(sharded()))
