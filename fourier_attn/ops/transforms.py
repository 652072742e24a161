"""Fast Fourier transforms of trailing axes that leave a sharded batch where it is.

Up to JAX 0.11, XLA gathers the whole batch on every CPU or GPU for a transform of sharded arrays, although
each transform needs one example only. This module declares that to the partitioner; on one device nothing
changes. The compiler for TPUs splits transforms by itself, and knows nothing of marks.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Complex, Float
from scipy.fft import next_fast_len

from fourier_attn.ops.arguments import like_shards, takes_arrays, wide
from fourier_attn.ops.derivatives import linear_map


def batchwise(
    function: Callable[..., Any],
    axes: int | tuple[int, ...],
    results: tuple[int, ...] | None = None,
    one_by_one: bool = False,
) -> Callable[..., Any]:
    """Marks a function of arrays as acting on their trailing axes, on each example separately.

    The leading axes, the same ones in all arguments and results, may be sharded and stay so; trailing axes
    are gathered if they are sharded. The marked function can be compiled and vmapped, but has no derivative
    of its own.

    Args:
      function: the function, of one or several arrays.
      axes: how many axes trail, in the one argument or in each of several.
      results: the same of each of several results; without it there is one, with as many as the first
        argument has.
      one_by_one: whether `vmap` over some of the arguments is a loop, and does not repeat the others. An axis
        that it goes over is gathered if it is sharded.
    """
    takes = (axes,) if isinstance(axes, int) else axes
    gives = (takes[0],) if results is None else results
    marked = custom_partitioning(function)

    def leading(shape: jax.ShapeDtypeStruct) -> PartitionSpec:
        spec = (*shape.sharding.spec, *(None,) * len(shape.shape))[: len(shape.shape) - takes[0]]
        return PartitionSpec(*spec)

    def shardings(mesh: Mesh, arguments: tuple[jax.ShapeDtypeStruct, ...]) -> Any:
        sharding = NamedSharding(mesh, leading(arguments[0]))
        return sharding if results is None else (sharding,) * len(results)

    def partition(mesh, arguments, _):
        sharding = NamedSharding(mesh, leading(arguments[0]))
        return mesh, function, shardings(mesh, arguments), (sharding,) * len(arguments)

    names = [
        [f"{side}{i}{n}" for n in range(count)]
        for side, counts in zip("io", (takes, gives), strict=True)
        for i, count in enumerate(counts)
    ]
    sides = [" ".join(("...", *trailing)) for trailing in names]
    marked.def_partition(
        partition=partition,
        infer_sharding_from_operands=lambda mesh, arguments, _: shardings(mesh, arguments),
        sharding_rule=f"{', '.join(sides[: len(takes)])} -> {', '.join(sides[len(takes) :])}",
        need_replication_factors=tuple(name for trailing in names for name in trailing),
    )
    batched = custom_vmap(lambda *x: jax.lax.platform_dependent(*x, tpu=function, default=marked))

    def vmapped(size: int, is_batched: list[bool], *x: Array) -> tuple[Any, Any]:
        all_batched = True if results is None else (True,) * len(results)
        if one_by_one and not all(is_batched):
            own = {i: a for i, (a, its_own) in enumerate(zip(x, is_batched, strict=True)) if its_own}
            transformed = jax.lax.map(lambda one: batched(*(one.get(i, x[i]) for i in range(len(x)))), own)
            return transformed, all_batched
        whole = [
            a if its_own else jnp.broadcast_to(a, (size, *a.shape))
            for a, its_own in zip(x, is_batched, strict=True)
        ]
        return batched(*whole), all_batched

    batched.def_vmap(vmapped)
    return batched


def symmetric(function: Callable[[Array], Array], axes: int) -> Callable[[Array], Array]:
    """Marks a linear map whose matrix is symmetric as `batchwise` does, and gives it all derivatives.

        >>> doubled = symmetric(lambda x: 2 * x, axes=1)
        >>> jax.jvp(doubled, (jnp.ones(2),), (jnp.ones(2),))[1]
        Array([2., 2.], dtype=float32)

    Args:
      function: the map of one array.
      axes: how many axes trail.
    """
    marked = batchwise(function, axes)
    return partial(linear_map, marked, marked)


@lru_cache
def _linear(function: Callable[[Array, tuple[int, ...]], Array], sizes: tuple[int, ...], inner, dtype):
    """Returns a linear transform of trailing axes of the shape `inner`."""
    axes = len(sizes)
    forward = batchwise(lambda x: function(x, sizes), axes)

    def transpose(g: Array) -> Array:
        example = like_shards(jnp.zeros((*g.shape[:-axes], *inner), dtype), g)
        return jax.linear_transpose(lambda x: function(x, sizes), example)(g)[0]

    return partial(linear_map, forward, batchwise(transpose, axes))


def fast_size(n: int) -> int:
    """Returns the smallest size from n on with small prime factors only, for which transforms are fast.

        >>> fast_size(13), fast_size(16)
        (15, 16)

    Args:
      n: least size.
    """
    return next_fast_len(n, real=True) or n


def _rfftn(x: Array, sizes: tuple[int, ...]) -> Array:
    return jnp.fft.rfftn(x, sizes, tuple(range(-len(sizes), 0)))


def _irfftn(x: Array, sizes: tuple[int, ...]) -> Array:
    return jnp.fft.irfftn(x, sizes, tuple(range(-len(sizes), 0)))


@takes_arrays
def rfftn(x: Float[Array, "..."], sizes: tuple[int, ...]) -> Complex[Array, "..."]:
    """Transforms real trailing axes, zero-padded to `sizes`.

        X[f] = sum_n x[n] exp(-2 pi sqrt(-1) f n / N)

    Half of the last axis, $f = 0 .. N // 2$; unnormalised.

        >>> rfftn(jnp.ones(4), (4,)).real.round().astype(int)
        Array([4, 0, 0], dtype=int32)

    Args:
      x: real numbers, with at least as many axes as `sizes`.
      sizes: sizes N of the trailing axes.
    """
    _check(sizes)
    x = x.astype(wide(x))  # no transform has low precision
    return _linear(_rfftn, sizes, x.shape[-len(sizes) :], x.dtype)(x)


@takes_arrays
def irfftn(x: Complex[Array, "..."], sizes: tuple[int, ...]) -> Float[Array, "..."]:
    """Inverts `rfftn`, with the factor $1 / N$. The result is real.

        >>> irfftn(rfftn(jnp.arange(4.0), (4,)), (4,)).round().astype(int)
        Array([0, 1, 2, 3], dtype=int32)

    Args:
      x: half spectra.
      sizes: sizes N of the trailing axes of the result.
    """
    _check(sizes)
    return _linear(_irfftn, sizes, x.shape[-len(sizes) :], x.dtype)(x)


def _check(sizes: tuple[int, ...]) -> None:
    if not sizes or any(isinstance(n, int) and n < 1 for n in sizes):
        raise ValueError(
            f"sizes={sizes} must not be empty and must be positive; give a size of 1 or more for each axis"
        )


_FFTS = {
    1: symmetric(lambda x: jnp.fft.fft(x), 1),
    2: symmetric(lambda x: jnp.fft.fft2(x), 2),
}
_IFFTS = {
    1: symmetric(lambda x: jnp.fft.ifft(x), 1),
    2: symmetric(lambda x: jnp.fft.ifft2(x), 2),
}


@takes_arrays
def fftn(x: Complex[Array, "..."], axes: int) -> Complex[Array, "..."]:
    """Computes the orthonormal transform of the last axis or the last two, $exp(-2 pi sqrt(-1) f n / N)$.

        >>> fftn(jnp.ones(4, jnp.complex64), 1).real.round().astype(int)
        Array([2, 0, 0, 0], dtype=int32)

    Args:
      x: complex numbers.
      axes: number of transformed axes, 1 or 2.
    """
    return _FFTS[axes](x) * math.prod(x.shape[-axes:]) ** -0.5


@takes_arrays
def ifftn(x: Complex[Array, "..."], axes: int) -> Complex[Array, "..."]:
    """Inverts `fftn`.

        >>> ifftn(fftn(jnp.arange(4.0, dtype=jnp.complex64), 1), 1).real.round().astype(int)
        Array([0, 1, 2, 3], dtype=int32)

    Args:
      x: complex numbers.
      axes: number of transformed axes, 1 or 2.
    """
    return _IFFTS[axes](x) * math.prod(x.shape[-axes:]) ** 0.5
