"""Computes the product of dense layers as one product of two matrices."""

import math
from typing import Any

import jax
from jaxtyping import Array, Float

from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.ops.token_shares import shares

Dimensions = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


@takes_arrays
def matrix_dot_general(
    lhs: Float[Array, "..."], rhs: Float[Array, "..."], dimension_numbers: Dimensions, **options: Any
) -> Float[Array, "..."]:
    """Computes `jax.lax.dot_general` of trailing and leading axes as one matrix product.

        y[i.., j..] = sum_{n..} lhs[i.., n..] rhs[n.., j..]

    Axes are merged before and split after the product, which is exact. It is for the `dot_general` field of
    Flax's dense layers: the weight gradient of tokens (b, t, d) contracts two axes, which XLA on CPU does by
    transposing a copy of the gradient; one merged axis needs no copy (`python -m benchmarks.dense`). Do not
    use it in layers that contract two axes of the tokens, such as the output layer of attention, because
    Flax's own product is faster there.

    Args:
      lhs: the tokens, for example (b, t, d).
      rhs: the weights, for example (d, h, k).
      dimension_numbers: as `jax.lax.dot_general` takes them: trailing axes of `lhs` with leading axes of
        `rhs`.
      options: other arguments of `jax.lax.dot_general`.
    Raises: ValueError for other axes.
    """
    (left, right), batch = dimension_numbers
    n = len(left)
    if batch != ((), ()) or left != tuple(range(lhs.ndim - n, lhs.ndim)) or right != tuple(range(n)):
        raise ValueError(
            f"dimension_numbers={dimension_numbers} must contract trailing with leading axes, without batch"
        )
    if shares() > 1:  # merged axes of examples and of shared tokens would be gathered
        return jax.lax.dot_general(lhs, rhs, dimension_numbers, **options)
    inner = math.prod(rhs.shape[:n])
    matrix = (((1,), (0,)), ((), ()))
    rows, columns = math.prod(lhs.shape[: lhs.ndim - n]), math.prod(rhs.shape[n:])
    y = jax.lax.dot_general(lhs.reshape(rows, inner), rhs.reshape(inner, columns), matrix, **options)
    return y.reshape(*lhs.shape[: lhs.ndim - n], *rhs.shape[n:])
