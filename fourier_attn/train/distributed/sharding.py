"""Shards the state and the batches of a run over a mesh of devices."""

import contextlib
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fourier_attn.config import TrainConfig
from fourier_attn.ops import token_shares

AXES = ("seed", "data", "fsdp", token_shares.AXIS)
SMALL = 4096  # arrays with fewer numbers are not sharded


class Placement(NamedTuple):
    """Places the arrays of a run on devices. The axes of the mesh are:

        seed    networks of a run with several seeds, without communication
        data    examples of a batch; every device has all parameters, and gradients are summed
        fsdp    examples as well; parameters and optimizer state are split along their longest axis,
                gathered for each step, and gradients are summed where their parameters are
        tokens  tokens of each example; mixers exchange tokens for features or heads, see
                `fourier_attn.ops.token_shares`

    One device, several devices and several processes differ only in `mesh`. Shardings use one axis for each
    prime factor, for example ("data0", "data1", "data2") for 8 devices. An optical engine makes four pairs of
    eight examples, and JAX can express that each pair is on two devices only with an axis of size two. Tokens
    keep one axis, because XLA makes one all-to-all for each axis, and no engine has its tokens split.

    Args:
      mesh: devices with the axes `AXES`.
      seeds: number of networks; with several, every array of the state has a leading axis. Default 1.
    Source: Rajbhandari et al., ZeRO, arXiv 1910.02054 (its third stage is fsdp).
    """

    mesh: Mesh
    seeds: int = 1

    @property
    def refined(self) -> Mesh:
        """Returns the mesh with one axis for each prime factor, which the shardings name."""
        return _refined(self.mesh)

    def sharding(self, *spec: str | tuple[str, ...] | None) -> NamedSharding:
        """Returns a sharding; `spec` has for each axis of an array an axis of `mesh`, several, or None."""
        names = [(axes,) if isinstance(axes, str) else axes or () for axes in spec]
        parts = [tuple(part for axis in axes for part in self.parts(axis)) for axes in names]
        return NamedSharding(self.refined, PartitionSpec(*parts))

    def parts(self, axis: str) -> tuple[str, ...]:
        """Returns the axes of the refined mesh that form the `axis` of `mesh`."""
        return _parts(axis, self.mesh.shape[axis])

    def spec(self, shape: tuple[int, ...]) -> PartitionSpec:
        """Returns the partition of an array with a `shape` in one network's state.

        The longest divisible axis is split over `fsdp`; small arrays are not split.
        """
        n = self.mesh.shape["fsdp"]
        axes = [i for i, size in enumerate(shape) if size % n == 0]
        if n == 1 or not axes or math.prod(shape) < SMALL:
            return PartitionSpec()
        longest = max(axes, key=lambda i: shape[i])
        return PartitionSpec(*("fsdp" if i == longest else None for i in range(longest + 1)))

    def state(self, tree: Any) -> Any:
        """Returns the sharding of each array in a `tree`, a state of arrays or shapes."""

        def of(leaf: Any) -> NamedSharding:
            spec = self.spec(leaf.shape) if self.seeds == 1 else ("seed", *self.spec(leaf.shape[1:]))
            return self.sharding(*spec)

        return jax.tree.map(of, tree)

    @property
    def batch(self) -> NamedSharding:
        """Returns the sharding of the arrays of a batch."""
        return self.sharding(("data", "fsdp"))

    @property
    def keys(self) -> NamedSharding:
        """Returns the sharding of one key, or of one key for each seed."""
        return self.sharding("seed") if self.seeds > 1 else self.sharding()

    @property
    def replicated(self) -> NamedSharding:
        """Returns the sharding of arrays that all devices have."""
        return self.sharding()

    def entered(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a context in which a step is traced, so that mixers find the axis of the tokens."""
        return jax.sharding.use_abstract_mesh(self.refined.abstract_mesh)

    def abstract(self, tree: Any) -> Any:
        """Returns shapes, dtypes and shardings of a state `tree`."""

        def of(leaf: Any, where: NamedSharding) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where)

        return jax.tree.map(of, tree, self.state(tree))

    def constrain(self, tree: Any) -> Any:
        """Constrains a state `tree` to its sharding, inside a jitted function."""
        return jax.lax.with_sharding_constraint(tree, self.state(tree))

    def gather(self, params: Any) -> Any:
        """Replicates the parameters `params` on every device, inside the step of one network."""
        if self.mesh.shape["fsdp"] == 1:
            return params
        return jax.tree.map(lambda p: jax.lax.with_sharding_constraint(p, self.replicated), params)

    def scatter(self, grads: Any) -> Any:
        """Shards the gradients `grads` like their parameters, inside the step of one network."""
        if self.mesh.shape["fsdp"] == 1:
            return grads
        return jax.tree.map(
            lambda g: jax.lax.with_sharding_constraint(g, self.sharding(*self.spec(g.shape))), grads
        )

    def shard_batch(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        """Shards a `batch`; every process has all rows and keeps its own."""
        if self.mesh.size == 1:
            return batch  # the compiled step moves it to the device faster
        if jax.process_count() == 1:
            return jax.device_put(batch, self.batch)

        def own(array: np.ndarray) -> jax.Array:
            array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
            return jax.make_array_from_callback(array.shape, self.batch, lambda index: array[index])

        return {name: own(array) for name, array in batch.items()}

    def highest(self, value: int) -> jax.Array:
        """Returns the largest `value` of all processes, without waiting for it."""
        ours = np.full(self.mesh.devices.size, value, np.int32)  # each device gets one element
        everywhere = self.sharding(AXES)
        values = jax.make_array_from_callback(ours.shape, everywhere, lambda index: ours[index])
        return values.max()

    def __str__(self) -> str:
        sizes = [f"{name} {size}" for name, size in self.mesh.shape.items() if size > 1]
        return ", ".join(sizes) or "data 1"


@lru_cache
def _refined(mesh: Mesh) -> Mesh:
    """Returns the same devices in the same order, with an axis for each prime factor of each axis."""
    names = [name for axis, size in mesh.shape.items() for name in _parts(axis, size)]
    shape = [factor for axis, size in mesh.shape.items() for factor in _factors(axis, size)]
    return Mesh(mesh.devices.reshape(shape), names)


def _factors(axis: str, size: int) -> list[int]:
    return [size] if axis == token_shares.AXIS else primes(size)


def _parts(axis: str, size: int) -> tuple[str, ...]:
    if axis == token_shares.AXIS:
        return (axis,)
    return tuple(f"{axis}{i}" for i in range(len(primes(size))))


def primes(n: int) -> list[int]:
    """Returns the prime factors of n in increasing order, with repetitions; [1] for 1."""
    factors, factor = [], 2
    while n > 1:
        if n % factor == 0:
            factors.append(factor)
            n //= factor
        else:
            factor += 1
    return factors or [1]


def to_host(tree: Any) -> Any:
    """Returns a tree with complete NumPy arrays on every process."""

    def one(leaf: Any) -> np.ndarray:
        if isinstance(leaf, jax.Array) and not (leaf.is_fully_addressable or leaf.is_fully_replicated):
            leaf = multihost_utils.process_allgather(leaf, tiled=True)
        return np.asarray(leaf)

    return jax.tree.map(one, tree)


def sizes(mesh: str, seeds: int, rows: int, devices: int) -> dict[str, int]:
    """Returns the number of devices along each axis of the mesh.

    Args:
      mesh: value of `train.mesh`, for example "data=4,fsdp=2"; other axes have one device. "": seeds are
        split by the greatest common divisor of seeds and devices, and rows over the remaining devices as far
        as possible.
      seeds: number of networks.
      rows: number of rows of a batch or micro-batch.
      devices: number of devices.
    Raises: ValueError for a mesh that cannot be parsed, does not fit the devices, or splits rows or seeds
      unevenly.
    """
    if not mesh:
        seed = math.gcd(seeds, devices)
        return dict.fromkeys(AXES, 1) | {"seed": seed, "data": math.gcd(rows, devices // seed)}
    counts: dict[str, int] = {}
    for part in mesh.split(","):
        match = re.fullmatch(rf"\s*({'|'.join(AXES)})\s*=\s*([1-9]\d{{0,5}})\s*", part)
        if not match:
            raise ValueError(
                f"train.mesh={mesh!r} is invalid; write it like 'data=4,fsdp=2', with the axes "
                f"{', '.join(AXES)}"
            )
        if match[1] in counts:
            raise ValueError(f"train.mesh={mesh!r} has {match[1]} twice; give it once")
        counts[match[1]] = int(match[2])
    counts = {axis: counts.get(axis, 1) for axis in AXES}
    if math.prod(counts.values()) != devices:
        raise ValueError(
            f"train.mesh={mesh!r} needs {math.prod(counts.values())} devices, but {devices} are available; "
            "change it, or leave it empty"
        )
    if seeds % counts["seed"]:
        raise ValueError(
            f"train.mesh={mesh!r}: seed={counts['seed']} must divide train.seeds={seeds}; change either"
        )
    if rows % (counts["data"] * counts["fsdp"]):
        raise ValueError(
            f"train.mesh={mesh!r}: the {rows} rows of a (micro-)batch do not divide by data x fsdp = "
            f"{counts['data'] * counts['fsdp']}; change data.batch"
        )
    return counts


def here(seeds: int = 1) -> Placement:
    """Returns a placement on the first device of this process, for `seeds` networks."""
    return Placement(Mesh(np.array(jax.local_devices()[:1]).reshape(1, 1, 1, 1), AXES), seeds)


def place(config: TrainConfig, batch: int, devices: Sequence[Any] = ()) -> Placement:
    """Returns the placement of a run on the available devices.

    Args:
      config: the `train` part of the configuration.
      batch: number of rows of a batch.
      devices: other devices, which need not exist; default (): those of JAX.
    Raises: ValueError as `sizes`, and if a process would have no device to use.
    """
    devices, rows = devices or jax.devices(), batch // config.accumulate
    parts = config.fixed_parts or rows
    mesh = sizes(config.mesh, config.seeds, rows if config.mesh else math.gcd(rows, parts), len(devices))
    if config.fixed_parts and (parts % mesh["data"] or mesh["fsdp"] * mesh["tokens"] > 1):
        raise ValueError(
            f"train.mesh={config.mesh!r} does not fit train.fixed_parts={parts}, which needs the axis data "
            "alone, with a number of devices that divides it; change either"
        )
    used = math.prod(mesh.values())
    if used < len(devices) and jax.process_count() > 1:
        raise ValueError(
            f"a (micro-)batch of {rows} rows does not divide by the {len(devices)} devices of "
            f"{jax.process_count()} processes; change data.batch"
        )
    shape = tuple(mesh[axis] for axis in AXES)
    return Placement(Mesh(np.array(devices[:used]).reshape(shape), AXES), config.seeds)
