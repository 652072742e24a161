"""Checks, before anything is allocated, that a run fits into the memory of the machine."""

import math
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fourier_attn import model, provenance
from fourier_attn.config import Config, fit_grid, tokens
from fourier_attn.data import task_of
from fourier_attn.train.distributed import processes, sharding
from fourier_attn.train.optimizer import build_optimizer

ONE: dict[str, int] = dict.fromkeys(sharding.AXES, 1)
COPIES = 3  # copies of the parameters: current, gradient, best; the optimizer's state is extra
PREFETCHED = 8  # number of prefetched batches
FIELD = 8  # bytes of a complex number


def check(config: Config, mesh: Mapping[str, int] = ONE) -> None:
    """Checks that each device has at least the memory that a run needs. Nothing is allocated.

    Args:
      config: configuration of the run.
      mesh: number of devices along each axis; default one device.
    Raises: ValueError that names the largest part.
    """
    free, config = available(), fit_grid(config)
    for needs in (cheap, traced):  # in this order, because a model that is too large must not be traced
        needed = needs(config, mesh)
        total = sum(needed.values())
        if total > free:
            largest = max(needed, key=lambda name: needed[name])
            raise ValueError(
                f"this run needs at least {_size(total)} of memory, {_size(needed[largest])} of it for "
                f"{largest}, but the {_owner(mesh)} has {_size(free)}; reduce these options"
            )


def available() -> int:
    """Returns the bytes of memory of the first device.

    For a CPU this is its share of the memory of the machine or container, which all devices of all processes
    share.
    """
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    limit = Path("/sys/fs/cgroup/memory.max")
    allowed = limit.read_text().strip() if limit.exists() else "max"
    whole = provenance.memory_bytes()
    least = min(whole, int(allowed)) if allowed.isdigit() else whole
    return least // (jax.local_device_count() * processes.neighbours())


def used_gib() -> float:
    """Returns the peak memory of the first device, or else of the process, in GiB."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"] / 2**30
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**30 if sys.platform == "darwin" else 2**20)  # bytes on macOS, KiB on Linux


def _owner(mesh: Mapping[str, int]) -> str:
    return "machine" if math.prod(mesh.values()) == 1 else "share of each device"


def _held(config: Config, mesh: Mapping[str, int], params: Any) -> int:
    """Returns the bytes that a device needs for some parameters.

    These are its parts of all copies and of the optimizer's state, and the parameters gathered for a step.

    Args:
      config: configuration of the run.
      mesh: number of devices along each axis.
      params: parameters of one network, or their shapes.
    """
    state = jax.eval_shape(build_optimizer(config.optim).init, params)
    own = (COPIES * _bytes(params) + _bytes(state)) / mesh["fsdp"]
    gathered = _bytes(params) if mesh["fsdp"] > 1 else 0
    return int((own + gathered) * config.train.seeds / mesh["seed"])


def cheap(config: Config, mesh: Mapping[str, int] = ONE) -> dict[str, int]:
    """Estimates the bytes of each part from the options alone, without tracing the model."""
    c, m, mixers = config.data, config.model, model.mixers(config.model)
    images = m.inputs == "patches"
    t = tokens(config)
    rows, e, seeds = c.batch * t, m.emb or m.d, config.train.seeds // mesh["seed"]
    split, parts = mesh["data"] * mesh["fsdp"] * mesh["tokens"], config.train.accumulate
    item, inside = np.dtype(np.float32).itemsize, 2 * m.d + m.mlp
    kept = m.depth * m.d + inside if config.train.remat == "block" else m.depth * inside
    mlp = {"mlp_in": {"kernel": _array(m.d, m.mlp)}, "mlp_out": {"kernel": _array(m.mlp, m.d)}}
    squares = [
        {"tokens": _array(fields["length"], fields["length"]), "features": _array(m.d, m.d)}
        for mixer, fields in mixers.items()
        if mixer in ("linear", "random")
    ]
    needed = {
        "the tables (model.vocab, model.positions, model.d)": _held(
            config, mesh, {"embedding": _array(t if images else m.vocab + m.positions, e)}
        ),
        "the MLP (model.d, model.mlp, model.depth)": m.depth * _held(config, mesh, {"block_0": mlp}),
        "the mixers' matrices (model.d, model.positions)": _held(config, mesh, squares),
    }
    needed["activations (data.batch, data.length, model.d, model.mlp)"] = (
        (2 if m.dtype == "bfloat16" else item) * seeds * rows // (parts * split) * kept
    )
    engines = [model.engine_of({"name": name, **fields}) for name, fields in mixers.items()]
    needed["a field of light (model.mixer.engine.shape)"] = sum(
        FIELD * math.prod(engine.shape) for engine in engines if engine
    )
    held = c.batch * math.prod(m.image) if images else rows * 9
    needed["batches (data.batch, data.length)"] = held * PREFETCHED
    return needed


def traced(config: Config, mesh: Mapping[str, int] = ONE) -> dict[str, int]:
    """Returns the bytes of the parameters, by tracing one block for each kind of mixer."""
    m = config.model
    layout = model.layout(m)
    kinds = sorted(set(layout))
    fields: Any = dict(m) | {"depth": len(kinds), "layout": tuple(kinds)}
    network, inputs = model.build(fields), longest(config)
    mask = jax.ShapeDtypeStruct(inputs.shape[:2], bool)
    # windows of corpora and images have no mask, because they have no padding
    padded = not task_of(config.data).corpora and config.model.inputs == "tokens"

    def init(key: jax.Array, inputs: jax.Array, mask: jax.Array) -> Any:
        return network.init(key, inputs, mask=mask if padded else None)

    shapes = jax.eval_shape(init, jax.random.key(0), inputs, mask)["params"]
    blocks = {f"block_{i}": layout.count(kind) for i, kind in enumerate(kinds)}
    encoder = shapes.pop("encoder")
    repeated = sum(count * _held(config, mesh, {name: encoder.pop(name)}) for name, count in blocks.items())
    return {"the parameters (model.*)": repeated + _held(config, mesh, shapes | {"encoder": encoder})}


def _array(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.float32)


def longest(config: Config) -> jax.ShapeDtypeStruct:
    """Returns the inputs of a batch with one example of the largest length."""
    inputs = model.example(config.model)
    if config.model.inputs != "tokens":
        return inputs
    return jax.ShapeDtypeStruct((1, config.data.length), inputs.dtype)


def _bytes(tree: Any) -> int:
    """Returns the bytes of the arrays of a tree, without counters."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree) if leaf.ndim)


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.4g} TB"
