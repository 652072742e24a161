"""Times training steps with `train.fixed_parts=8` against ordinary ones.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m benchmarks.fixed_parts

The steps are those of the default configurations for IMDb, with 256 tokens. They run on one device and on all
devices of the process, which are virtual here. --tiny measures a small batch of one mixer, as a test, and
writes fixed-parts-tiny-cpu.json.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from absl import flags

from benchmarks.gpu_training import random_batch
from benchmarks.timing import Row, compare, report
from fourier_attn import command, config, model
from fourier_attn.studies.side_by_side import interleave
from fourier_attn.train.distributed import sharding
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_init, make_keys
from fourier_attn.train.target.step import training_step

MIXERS = ("fourier", "lambda", "attention")
SIDES = {"whole": 0, "parts": 8}  # train.fixed_parts
TOKENS = 256


def side(mixer: str, b: int, devices: int, parts: int) -> tuple[Callable[[], jax.Array], int]:
    """Returns a function that runs a training step, and the temporary bytes of its program on a device.

    Args:
      mixer: name of the mixer.
      b: batch size.
      devices: number of devices, which share the batch.
      parts: value of `train.fixed_parts`.
    """
    c = config.default(mixer, "imdb")
    c.data.batch, c.data.length, c.train.fixed_parts = b, TOKENS, parts
    c = config.fitted_without_data(config.fit_length(c))
    placement = sharding.place(c.train, b, jax.devices()[:devices])
    step = training_step(c, placement)
    program = step.function.trace(*step.arguments).lower().compile()
    network, optimizer, objective = model.build(c.model), build_optimizer(c.optim), OBJECTIVES[c.model.head]
    first, key = make_keys(0, 1, placement)
    state = make_init(network, optimizer, objective, model.example(c.model), 1, placement)(first, {})
    batch = jax.device_put(random_batch(c), placement.batch)

    def call() -> jax.Array:
        nonlocal state
        state = program(state, batch, key)
        return jnp.asarray(state.step)

    memory: Any = program.memory_analysis()
    return call, memory.temp_size_in_bytes


def rows(mixers: tuple[str, ...], b: int, rounds: int) -> Iterator[Row]:
    """Yields the times of ordinary steps and of steps by parts, for each mixer and number of devices."""
    for mixer in mixers:
        for devices in sorted({1, jax.device_count()}):
            made = {name: side(mixer, b, devices, parts) for name, parts in SIDES.items()}
            seconds = interleave({name: call for name, (call, _) in made.items()}, rounds)
            yield {
                "what": f"{mixer}: whole batch / 8 parts",
                "size": f"{b} x {TOKENS} tokens, {devices} device{'s' * (devices > 1)}",
                "pass": "training step",
                **compare(seconds, "whole", "parts"),
                **{f"{name}_mb": round(size / 1e6, 1) for name, (_, size) in made.items()},
            }


def define_flags() -> None:
    flags.DEFINE_bool("tiny", False, "a small batch of one mixer, as a test")
    flags.DEFINE_integer("rounds", 15, "rounds, each with one step of each side")


def main() -> None:
    setting = f"{jax.device_count()} virtual devices in one process"
    if flags.FLAGS.tiny:
        report("fixed-parts-tiny", [*rows(MIXERS[:1], 8, 2)], setting=setting)
    else:
        report("fixed-parts", [*rows(MIXERS, 32, flags.FLAGS.rounds)], setting=setting)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
