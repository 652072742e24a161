"""Short forms of the ops with several fast ones. They take the place of these in standalone files."""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from fourier_attn.ops.circular import _direct, _ends
from fourier_attn.ops.lambdas import NEVER, content_lambda


def check_choice(argument: str, value: Any, choices: Iterable[Any]) -> None:
    """Refuses a value that is not one of the choices."""
    known = tuple(choices)
    if value not in known:
        raise ValueError(f"{argument}={value!r} is unknown; choose one of {', '.join(map(str, known))}")


def check_causal(layer: Any) -> None:
    """Refuses a causal layer with a grid: an image has no order."""
    if layer.causal and getattr(layer, "grid", ()):
        raise ValueError(f"causal=True needs a sequence, not grid={layer.grid}; set grid=()")


def check_trailing(mask: jax.Array, cure: str) -> None:
    """Refuses padding before real tokens, if the values of the mask are known."""
    try:
        with jax.ensure_compile_time_eval():
            early = bool(jnp.any(mask[:, 1:] & ~mask[:, :-1]))
    except jax.errors.ConcretizationTypeError:  # the mask is an argument of a compiled program
        return
    if early:
        raise ValueError(f"mask has padding before real tokens; {cure}")


def dense_initializers(initializer: str, inputs: int) -> dict[str, Any]:
    """Returns initializers of a dense layer: Flax's ("fan_in"), or $U(-1, 1) / sqrt(inputs)$ ("torch")."""
    check_choice("initializer", initializer, ("fan_in", "torch"))
    if initializer == "fan_in":
        return {}

    def uniform(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -(inputs**-0.5), inputs**-0.5)

    return {"kernel_init": uniform, "bias_init": uniform}


def rfftn(x: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Transforms the real trailing axes, zero-padded to `sizes`."""
    return jnp.fft.rfftn(x.astype(jnp.float32), sizes, tuple(range(-len(sizes), 0)))


def irfftn(x: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Inverts `rfftn`."""
    return jnp.fft.irfftn(x, sizes, tuple(range(-len(sizes), 0)))


def fast_size(n: int) -> int:
    """Returns the least power of two from n on."""
    return 1 << (n - 1).bit_length()


def fourier_mix(x: jax.Array, *, lengths: jax.Array | None = None) -> jax.Array:
    """Returns Re F_tokens(F_features(x)), over the first lengths[b] tokens of each example if given.

    With lengths it multiplies by a table (t, t) of cosines and sines for each example.
    """
    if lengths is None:
        return jnp.fft.fft2(x.astype(jnp.float32)).real.astype(x.dtype)
    m = jnp.arange(x.shape[1])
    n = jnp.maximum(lengths, 1)[:, None, None]
    phase = 2 * jnp.pi * ((m[:, None] * m[None])[None] % n / n)  # whole turns are taken off first
    real = m[None] < lengths[:, None]
    both = real[:, :, None] & real[:, None, :]
    cos, sin = (jnp.where(both, table, 0.0) for table in (jnp.cos(phase), jnp.sin(phase)))
    z = jnp.fft.fft(jnp.where(real[..., None], x.astype(jnp.float32), 0.0), axis=-1)
    return (cos @ z.real + sin @ z.imag).astype(x.dtype)


def fourier_mix_grid(x: jax.Array, grid: tuple[int, ...], *, features: bool = True) -> jax.Array:
    """Returns the real part of the transform over rows and columns, and over features if asked."""
    image = x.astype(jnp.float32).reshape(x.shape[0], *grid, x.shape[-1])
    axes = (1, 2, 3) if features else (1, 2)
    return jnp.fft.fftn(image, axes=axes).real.reshape(x.shape).astype(x.dtype)


def attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    mask: jax.Array | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """Averages values (b, s, h, k) with the weights $softmax(q . k / sqrt(k))$ of each query (b, t, h, k)."""
    scores = jnp.einsum("bthk,bshk->bhts", query, key, preferred_element_type=jnp.float32)
    scores = scores / query.shape[-1] ** 0.5
    if mask is not None:
        scores = jnp.where(mask[:, None, None, :], scores, jnp.finfo(jnp.float32).min)
    if causal:  # lower than the scores of padding, so that no row averages later tokens
        earlier = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(earlier[None, None], scores, -jnp.inf)
    weights = jax.nn.softmax(scores)
    if dropout_key is not None:
        kept = jax.random.bernoulli(dropout_key, 1 - dropout, weights.shape)
        weights = jnp.where(kept, weights / (1 - dropout), 0.0)
    return jnp.einsum("bhts,bshk->bthk", weights.astype(value.dtype), value)


def circular_attention(
    x: jax.Array,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    shape: tuple[int, ...] | None,
    boundary: str,
    mask: jax.Array | None,
    causal: bool,
    combine_heads: str,
) -> jax.Array:
    """Attends with queries, keys and values that are correlations of each token with the heads' kernels."""
    check_choice("boundary", boundary, ("circular", "zero", "valid"))
    signal = x.reshape(-1, *(shape or x.shape[-1:]))
    ends = _ends(query.shape[1:], boundary, False)
    kernels = (kernel.astype(x.dtype) for kernel in (query, key, value))
    projected = (_direct(signal, kernel, ends, boundary) for kernel in kernels)
    y = attention(*(p.reshape(*x.shape[:2], len(query), -1) for p in projected), mask=mask, causal=causal)
    return y.sum(axis=-2) if combine_heads == "sum" else y


def causal_content_lambda(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Applies the content lambda of the positions $m <= n$ to the query of position n.

    Memory grows with $t^2 k u$.
    """
    highest = jax.lax.stop_gradient(jax.lax.cummax(key.astype(jnp.float32), axis=1))
    earlier = jnp.tril(jnp.ones((key.shape[1], key.shape[1]), bool))[None, :, :, None, None]
    exponents = jnp.where(earlier, key[:, None].astype(jnp.float32) - highest[:, :, None], NEVER)
    weights = jax.nn.softmax(exponents, axis=2)  # (b, n, m, k, u)
    scores = jnp.einsum("bnhk,bnmku->bhnmu", query.astype(jnp.float32), weights)
    return jnp.einsum("bhnmu,bmuv->bnhv", scores, value.astype(jnp.float32)).astype(value.dtype)


def lambda_layer(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    position: jax.Array,
    *,
    grid: tuple[int, ...] | None,
    causal: bool,
    mask: jax.Array | None,
) -> jax.Array:
    """Applies the content lambda and the position lambdas to the queries, without building the latter."""
    value = value.swapaxes(-1, -2)
    if mask is not None:
        key = jnp.where(mask[:, :, None, None], key.astype(jnp.float32), NEVER)
        value = jnp.where(mask[:, :, None, None], value, 0)
    content = (causal_content_lambda if causal else content_lambda)(query, key, value)
    if position.ndim == 4 and grid is None:
        weights = jnp.einsum("bthk,tsku->bhtsu", query, position)
    else:
        weights = position_weights(query, position, grid or query.shape[1:2], causal)
    return content + jnp.einsum("bhtsu,bsuv->bthv", weights, value).astype(content.dtype)


def position_weights(query: jax.Array, position: jax.Array, axes: tuple[int, ...], causal: bool) -> jax.Array:
    """Returns $q[n, a] . R[m - n + before]$, (b, h, n, m, u): zero where the table has no tap."""
    *taps, k, u = position.shape
    places = jnp.stack([i.ravel() for i in jnp.indices(axes)])
    offset = places[:, None, :] - places[:, :, None]  # m - n on each axis
    before = [r - 1 if causal else r // 2 for r in taps]
    tap, inside = jnp.zeros(offset.shape[1:], int), jnp.ones(offset.shape[1:], bool)
    for axis, r in enumerate(taps):
        here = offset[axis] + before[axis]
        tap, inside = tap * r + here, inside & (here >= 0) & (here < r)
    scores = jnp.einsum("bthk,rku->bhtru", query, position.reshape(-1, k, u))
    index = jnp.where(inside, tap, 0)[None, None, :, :, None]
    return jnp.where(inside[None, None, :, :, None], jnp.take_along_axis(scores, index, axis=3), 0)
