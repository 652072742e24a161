"""Times a network's step on the present device, and its transforms alone: medians, in turn."""

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fourier_attn import model
from fourier_attn.config import Config
from fourier_attn.optics import components
from fourier_attn.studies.engine.cpu_power import Power, cpu_power
from fourier_attn.studies.engine.workload import Work, layers
from fourier_attn.studies.side_by_side import interleave
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_eval_step, make_init, make_keys, make_train_step

MODES = {"inference": 1, "training": 2}  # transforms, over those of a forward pass: the backward has as many
POWER_S = 1.0  # for so long its watts are measured


class Taken(NamedTuple):
    """Holds the time of one step in s.

    Args:
      step: the configured network, without an engine.
      explicit: the network that calls the transform as such.
      no_mixer: with identity in its place.
      transform, after: those of all layers, by themselves; what optics leave to be done.
    """

    step: float
    explicit: float
    no_mixer: float
    transform: float
    after: float

    @property
    def share(self) -> float:
        """Returns the transform's share of the step; alone it may take longer than inside, so at most 1."""
        return min(self.transform / self.explicit, 1.0)


class Measured(NamedTuple):
    """Times by mode, the number of rounds, and the processor's power if it does the work."""

    taken: dict[str, Taken]
    rounds: int
    power: Power | None


def measure(config: Config, job: Work | None, budget_s: float, library: components.Library) -> Measured:
    """Returns the time of a step on the present device for each mode, and the power if that is the processor.

    Args:
      config: of the network.
      job: its transforms; None if it has none.
      budget_s: time of the measurement in s.
      library: components, for the power of a core.
    """
    part = config.model.to_dict()
    exact = part["mixer"]
    for name, mixer in model.mixers(part).items():
        mixer |= dict.fromkeys(model.engine_fields(name))
    networks = {"step": exact, "no_mixer": {"name": "identity"}}
    if job and job.explicit:
        networks["explicit"] = exact | dict(job.explicit)
    sides = {}
    for name, fields in networks.items():
        layout = [fields["name"] if each == exact["name"] else each for each in part["layout"]]
        network = model.build(part | {"mixer": fields, "layout": layout})
        sides["inference", name], sides["training", name] = step_functions(config, network)
    if job:
        sides |= _parts(config, job)
    seconds = interleave(sides, rounds=3, budget_s=budget_s, refill=True)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    taken = {}
    for mode in MODES:
        compute = median.get((mode, "compute"), 0.0)
        without = median.get((mode, "without"), 0.0)
        taken[mode] = Taken(
            step=median[mode, "step"],
            explicit=median.get((mode, "explicit"), median[mode, "step"]),
            no_mixer=median[mode, "no_mixer"],
            transform=max(compute - without, 0.0),
            after=median.get((mode, "after"), 0.0),
        )
    power = None
    if jax.devices()[0].platform == "cpu":
        step = sides["inference", "step"]
        duration = min(budget_s, POWER_S)
        power = cpu_power(lambda: jax.block_until_ready(step()), duration, library=library)
    return Measured(taken, len(seconds["inference", "step"]), power)


def step_functions(config: Config, network: model.Model) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Returns a step of inference and one of training, on random tokens or random images."""
    rng, b, example = np.random.default_rng(config.seed), config.data.batch, model.example(config.model)
    if config.model.inputs == "tokens":
        if config.model.vocab < 3:
            raise ValueError(
                f"model.vocab={config.model.vocab} has no word other than padding; make it at least 3"
            )
        inputs = rng.integers(2, config.model.vocab, (b, config.data.length))
    else:
        inputs = rng.integers(0, 256, (b, *example.shape[1:]))
    batch = {
        "inputs": jnp.asarray(inputs, example.dtype),
        "label": jnp.asarray(rng.integers(0, config.model.classes, b), jnp.int32),
        "weight": jnp.ones(b, jnp.float32),
    }
    optimizer = build_optimizer(config.optim)
    objective = OBJECTIVES["classes"]
    init_key, key = make_keys(config.seed, 1)
    state = make_init(network, optimizer, objective, example)(init_key)
    params = jax.tree.map(jnp.copy, state.params)  # a training step takes its state's memory
    eval_step = make_eval_step(network, objective)
    train_step = make_train_step(network, optimizer, objective)

    def train() -> Any:
        nonlocal state
        state = train_step(state, batch, key)
        return state.step

    return partial(eval_step, params, batch), train


def _parts(config: Config, job: Work) -> dict[tuple[str, str], Callable[[], Any]]:
    """Returns the transform of all layers by itself, and the parts to subtract from it and to add."""
    parts = {
        "compute": (job.compute, job.arrays),
        "without": (job.without, job.arrays),
        "after": (job.after, job.after_arrays),
    }
    sides = {}
    for name, (function, shapes) in parts.items():
        if function is None:
            continue
        arrays = [_normal(shape, config.model.dtype, seed) for seed, shape in enumerate(shapes)]
        forward, both = jax.jit(function), jax.jit(partial(_both, function))
        sides["inference", name] = partial(_repeat, forward, layers(config), arrays)
        sides["training", name] = partial(_repeat, both, layers(config), arrays)
    return sides


def _normal(shape: tuple[int, ...], dtype: str, seed: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def _repeat(function: Callable[..., Any], times: int, arrays: list[jax.Array]) -> None:
    for _ in range(times):
        jax.block_until_ready(function(*arrays))


def _both(function: Callable[..., Any], *arrays: jax.Array) -> Any:
    """Computes a function's pullback of its own result: forward and backward."""
    y, pull = jax.vjp(function, *arrays)
    return pull(y)
