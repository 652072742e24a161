"""Adds up the parts of a batch in an order that does not depend on the devices.

Floating-point sums depend on their order, and a sum over devices has another order for each number of
devices. Here a batch has a fixed number of parts. Each part is computed by itself, by the same program
whatever the number of devices is, and the results are added in pairs:

    ((p0 + p1) + (p2 + p3)) + ((p4 + p5) + (p6 + p7))

Each of 1, 2, 4 or 8 devices adds the pairs of its own parts. Then all devices gather these sums, and each of
them adds the rest of the pairs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from fourier_attn.train.distributed.sharding import Placement

Compute = Callable[[Any, Any, Any], Any]


def make_in_parts(parts: int, placement: Placement) -> Callable[..., Any]:
    """Returns a function (compute, params, batch, key) -> (sums, answers) that computes a batch by parts.

    `compute` has the arguments (params, rows, key) and returns (sums, answers). The sums are added over the
    parts. The answers have one row for each row of the batch; without answers, `compute` returns (). Sums and
    answers have the same bits for any number of devices.

    Args:
      parts: number of parts, a power of two; the devices along `data` must divide it.
      placement: devices of the batch.
    """
    axes = placement.parts("data")
    count = parts // placement.mesh.shape["data"]
    rows = PartitionSpec(axes)

    def share(compute: Compute, params: Any, batch: Any, keys: Any) -> Any:
        def part(_: None, one: Any) -> tuple[None, Any]:
            return None, _apart(compute, one[0]["weight"], params, *one)

        split = jax.tree.map(lambda x: x.reshape(count, -1, *x.shape[1:]), batch)
        _, (sums, answers) = jax.lax.scan(part, None, (split, keys))
        gathered = jax.tree.map(lambda x: jax.lax.all_gather(in_pairs(x), axes), sums)
        total = _apart(lambda x: jax.tree.map(in_pairs, x), batch["weight"], gathered)
        return total, jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), answers)

    def in_parts(compute: Compute, params: Any, batch: Any, key: Any) -> Any:
        return jax.shard_map(
            partial(share, compute),
            mesh=placement.refined,
            in_specs=(PartitionSpec(), rows, rows),
            out_specs=(PartitionSpec(), rows),
            check_vma=False,
        )(params, batch, jax.random.split(key, parts))

    return in_parts


def _apart(function: Callable[..., Any], weight: jax.Array, *arguments: Any) -> Any:
    """Computes a function in a branch, which the compiler does not fuse with what surrounds it.

    What surrounds a part depends on the devices, and fusion changes the last bits. The compiler does not know
    that weights are finite, so that it cannot dissolve the branch. With a weight that is not, the sums are
    NaN, so that the step is skipped.
    """
    like = jax.eval_shape(function, *arguments)
    unknown = jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), like)
    return jax.lax.cond(jnp.isfinite(weight[0]), function, lambda *_: unknown, *arguments)


def in_pairs(x: jax.Array) -> jax.Array:
    """Returns the sum over the first axis, whose size is a power of two, by adding neighbours.

        >>> in_pairs(jax.numpy.arange(4.0))
        Array(6., dtype=float32)

    Args:
      x: numbers, with a first axis of a power of two.
    Raises: ValueError for another size.
    """
    if len(x).bit_count() != 1:
        raise ValueError(f"x has {len(x)} parts; give a power of two")
    while len(x) > 1:
        x = x[0::2] + x[1::2]
    return x[0]
