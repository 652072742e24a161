"""Compiles the training step of a configuration for devices that need not exist."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fourier_attn import model
from fourier_attn.config import Config
from fourier_attn.data.expected import expected_batch
from fourier_attn.data.tasks import task_of
from fourier_attn.knobs import copied
from fourier_attn.train.class_loss import BALANCED, parsed, training_objective
from fourier_attn.train.distributed.sharding import Placement
from fourier_attn.train.losses import OBJECTIVES, Objective
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_init, make_keys, make_train_step
from fourier_attn.train.target.program import collectives, products

Facts = dict[str, float]  # quantities that grow by the same amount with each block


class Step(NamedTuple):
    """Holds a training step and the shapes of its arguments, with their devices.

    Args:
      function: the jitted step, (state, batch, key) -> state.
      arguments: state, batch and key.
    """

    function: Any
    arguments: tuple[Any, Any, Any]


def training_step(config: Config, placement: Placement | None = None) -> Step:
    """Returns the training step of a configuration and the shapes of its arguments. Nothing is allocated.

    Args:
      config: the configuration with the options of the data, see `fourier_attn.config.fitted_without_data`.
      placement: devices of the state; None: one device, which is not named.
    """
    network, optimizer = model.build(config.model), build_optimizer(config.optim)
    objective, options = _objective(config), config.train
    init = make_init(network, optimizer, objective, model.example(config.model), options.seeds)
    first, key = jax.eval_shape(lambda: make_keys(0, options.seeds))
    state = jax.eval_shape(init, first, {})
    spec = expected_batch(config.data, config.model)
    batch = {name: _array((config.data.batch, *shape), dtype) for name, (shape, dtype) in spec.items()}
    if placement:
        state, where = placement.abstract(state), placement.batch
        batch = {name: _array(a.shape, a.dtype, sharding=where) for name, a in batch.items()}
        key = _array(key.shape, key.dtype, sharding=placement.keys)
    step = make_train_step(
        network,
        optimizer,
        objective,
        options.seeds,
        options.accumulate,
        options.skip_limit,
        placement,
        options.remat,
        options.fixed_parts,
    )
    return Step(step, (state, batch, key))


class TargetFull(Exception):
    """Is raised if a step does not fit the memory of the target; a `MemoryError` is about this machine."""


def compiled_facts(config: Config, placement: Placement) -> Facts:
    """Compiles the training step of a configuration, and returns its facts for each device.

    Args:
      config: the configuration with the options of the data.
      placement: the devices.
    Raises: ValueError if the compiler refuses the step, and `TargetFull` if the devices lack memory for it.
    """
    step = training_step(config, placement)
    platform: str = placement.mesh.devices.flat[0].platform
    traced = step.function.trace(*step.arguments)
    flops = products(traced.jaxpr.jaxpr, "cuda" if platform == "gpu" else platform)
    facts = {f"flops {dtype}": count / placement.mesh.size for dtype, count in flops.items()}
    state, batch, _ = step.arguments
    used = _held((state.params, state.opt_state))
    facts |= {"parameters": float(_count(state.params)), "touched": 2.0 * used + _held(batch)}
    program = _compiled(traced)
    memory: Any = program.memory_analysis()
    facts |= {
        "arguments": float(memory.argument_size_in_bytes),
        "new results": float(memory.output_size_in_bytes - memory.alias_size_in_bytes),
        "temporary": float(memory.temp_size_in_bytes),
    }
    estimated = program.cost_analysis() or {}
    names = [name for name in ("flops", "bytes accessed") if name in estimated]
    facts |= {f"estimated {name}": estimated[name] for name in names}
    for kind, found in collectives(program.as_text() or "").items():
        facts |= {f"{kind} count": float(found["count"]), f"{kind} bytes": float(found["bytes"])}
    return facts


def _compiled(traced: Any) -> Any:
    try:
        return traced.lower().compile()
    except MemoryError:
        raise
    except Exception as error:
        first = " ".join(str(error).split())[:300]
        if "RESOURCE_EXHAUSTED" in str(error):
            raise TargetFull(first) from error
        raise ValueError(f"the compiler refuses this training step ({first}); change the mixer") from error


def scaled_facts(config: Config, placement: Placement) -> tuple[Facts, int]:
    """Returns the facts of a training step from those of few blocks, and the number of blocks compiled.

        f(n) = f(m) + sum_k (n_k - m_k) (f(m + e_k) - f(m))

    $n_k$ is the number of blocks with the mixer k, and $m_k$ is 2, or 1 for a mixer of one block. The
    compiler gets the programs with m blocks, and with one block more of each kind. Parameters and products
    are exact. Memory and communication are estimates, because the compiler orders the operations of each
    program anew.

    Args:
      config: the configuration with the options of the data.
      placement: the devices.
    """
    layout = model.layout(config.model)
    kinds = {kind: layout.count(kind) for kind in dict.fromkeys(layout)}
    few = {kind: min(count, 2) for kind, count in kinds.items()}
    if sum(few.values()) + 1 >= len(layout):
        return compiled_facts(config, placement), len(layout)
    base = compiled_facts(_with_blocks(config, layout, few), placement)
    total = dict(base)
    for kind, count in kinds.items():
        if count == few[kind]:
            continue
        more = compiled_facts(_with_blocks(config, layout, few | {kind: few[kind] + 1}), placement)
        for name in base | more:
            slope = more.get(name, 0.0) - base.get(name, 0.0)
            total[name] = total.get(name, 0.0) + (count - few[kind]) * slope
    return {name: max(value, 0.0) for name, value in total.items()}, sum(few.values())


def _with_blocks(config: Config, layout: tuple[str, ...], counts: dict[str, int]) -> Config:
    """Returns a copy with the first `counts[kind]` blocks of each kind.

    Args:
      config: the configuration.
      layout: the mixers of all blocks.
      counts: number of blocks of each kind.
    """
    kept = [kind for i, kind in enumerate(layout) if layout[:i].count(kind) < counts[kind]]
    config = copied(config)
    config.model.depth = len(kept)
    if config.model.layout:
        config.model.layout = tuple(kept)
    return config


def _objective(config: Config) -> Objective:
    """Returns the training loss; balanced weights of classes, which only the data tell, count as ones."""
    head, options = config.model.head, config.train
    if not options.class_weights and not options.label_smoothing:
        return OBJECTIVES[head]
    weights = None
    if options.class_weights == BALANCED:
        weights = np.ones(config.model.classes)
    elif options.class_weights:
        weights = parsed(options.class_weights, task_of(config.data).labels)
    return training_objective(head, weights, options.label_smoothing)


def _array(shape: tuple[int, ...], dtype: Any, **where: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype) if isinstance(dtype, np.dtype) else dtype, **where)


def _count(tree: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def _held(tree: Any) -> int:
    """Returns the bytes of a tree of shapes on each device."""
    return sum(
        int(np.prod(leaf.sharding.shard_shape(leaf.shape))) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )
