"""The layers as their sources write them, in JAX: what the project's own forms are timed against."""

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


def correlate(x: Array, kernel: Array) -> Array:
    """Computes the articles' projection, (b, t, d) to (b, t, h, d): the token next to itself, convolved."""
    b, t, d = x.shape
    h, *axes = kernel.shape
    image = x.reshape(b * t, 1, *axes)
    for axis in range(2, image.ndim):
        image = jnp.concatenate(
            [image, jax.lax.slice_in_dim(image, 0, image.shape[axis] - 1, axis=axis)], axis
        )
    y = jax.lax.conv_general_dilated(image, kernel[:, None], (1,) * len(axes), "VALID")
    return y.reshape(b, t, h, d)


def three_projections(x: Array, query: Array, key: Array, value: Array) -> list[Array]:
    """Correlates x with each of the kernels query, key and value."""
    return [correlate(x, kernel) for kernel in (query, key, value)]


def circular_attention(x: Array, query: Array, key: Array, value: Array) -> Array:
    """Computes the articles' layer: three convolutions, heads in the batch, softmax, and a sum over heads.

    Args:
      x: (b, t, d).
      query, key, value: kernels, one for each head.
    """
    b, t, d = x.shape
    h = query.shape[0]
    q, k, v = (y.swapaxes(1, 2).reshape(b * h, t, d) for y in three_projections(x, query, key, value))
    weights = jax.nn.softmax((q / d**0.25) @ (k / d**0.25).swapaxes(1, 2))
    return (weights @ v).reshape(b, h, t, d).sum(axis=1)


def attention(x: Array, query: Array, key: Array, value: Array, out: Array) -> Array:
    """Computes dense attention with heads of full width.

    Args:
      x: (b, t, d).
      query, key, value: kernels (d, h, k).
      out: kernel (h, k, d).
    """
    q, k, v = (jnp.einsum("btd,dhk->bhtk", x, w) for w in (query, key, value))
    weights = jax.nn.softmax(q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5)
    return jnp.einsum("bhtk,hkd->btd", weights @ v, out)


def lambda_layer(query: Array, key: Array, value: Array, table: Array, grid: tuple[int, ...]) -> Array:
    """Computes one head with u = 1: softmax, content lambda, position lambdas by a grouped convolution.

    query and key (b, n, k), value (b, n, v), table (*r, k); positions on `grid`.
    """
    b, n, v = value.shape
    *taps, k = table.shape
    content = jnp.einsum("bmk,bmv->bkv", jax.nn.softmax(key, axis=1), value)
    image = jnp.moveaxis(value.reshape(b, *grid, v), -1, 1)
    filters = jnp.tile(jnp.moveaxis(table, -1, 0)[None], (v, *[1] * table.ndim)).reshape(v * k, 1, *taps)
    pads = [(r // 2, r // 2) for r in taps]
    y = jax.lax.conv_general_dilated(image, filters, (1,) * len(taps), pads, feature_group_count=v)
    position = y.reshape(b, v, k, n).transpose(0, 3, 2, 1)
    return jnp.einsum("bnk,bnkv->bnv", query, content[:, None] + position)


def global_lambda(query: Array, key: Array, value: Array, table: Array) -> Array:
    """Computes a lambda layer with one head and u = 1 that builds all position lambdas.

    Args:
      query, key, value: (b, n, k), (b, n, k) and (b, n, v).
      table: an embedding for each relative position (2 n - 1, k).
    """
    n = value.shape[1]
    pairs = table[np.arange(n)[None, :] - np.arange(n)[:, None] + n - 1]
    content = jnp.einsum("bmk,bmv->bkv", jax.nn.softmax(key, axis=1), value)
    position = jnp.einsum("nmk,bmv->bnkv", pairs, value)
    return jnp.einsum("bnk,bnkv->bnv", query, content[:, None] + position)


def linear(x: Array, tokens: Array, features: Array) -> Array:
    """Multiplies x (b, t, d) by a matrix of tokens (t, t) and one of features (d, d)."""
    return jnp.einsum("bij,jk,ni->bnk", x, features, tokens)


def token_convolve(x: Array, taps: Array) -> Array:
    """Convolves every feature by itself with XLA's convolution."""
    b, t, d = x.shape
    n = taps.shape[0] // 2
    signal = x.swapaxes(1, 2).reshape(b * d, 1, t)
    y = jax.lax.conv_general_dilated(signal, taps[::-1][None, None], (1,), [(n, n)])
    return y.reshape(b, d, t).swapaxes(1, 2)
