"""What an optical engine would gain: python -m fourier_attn.optics.report --config=FILE[:task] [--json=FILE].

Measured on the present device: the share of the transform in a step. Counted: the passes of each preset
(`fourier_attn.optics.plan`). Projected from both: time, energy (`fourier_attn.optics.cost`) and speed-up.
"""

import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from ml_collections import ConfigDict, config_flags

from fourier_attn import command, model, optim, steps
from fourier_attn.data.text import PAD
from fourier_attn.optics import Engine, cost, presets
from fourier_attn.optics.workload import Work, work

CONFIG = config_flags.DEFINE_config_file(
    "config", help_string="configuration, for example configs/fnet.py:imdb"
)
JSON = flags.DEFINE_string("json", None, "file that gets all numbers, per step and in SI units")
ENGINES = flags.DEFINE_integer("engines", 1, "engines side by side", lower_bound=1)
STATIC = flags.DEFINE_float("static_w", 0.0, "power of an engine that is always on, W", lower_bound=0)
LINK = flags.DEFINE_float("link_bytes_per_s", cost.LINK.bytes_per_s, "bandwidth to the engine, B/s")
SECONDS = flags.DEFINE_float("seconds", 10.0, "how long to measure, s; three rounds at least", lower_bound=0)

MODES = {"inference": 1, "training": 2}  # transforms for each of the forward pass: the backward pass has as many
NOTES = """\
share       the transform alone at the model's shapes x depth, over the whole jitted step; medians of {rounds}
            interleaved rounds. Inside a step it may be fused and take less. "no mixer": identity in its place,
            which bounds the share from above up to noise. Training: forward and backward, as many transforms each.
speed-up    (step / step with transform) / (1 - f + f / a + o): f share, a = transform / passes,
            o = (link + digital rest) / step. Below 1 is slower. Link: raw samples at {link:.3g} B/s and {turn:.3g} s per
            stage and batch, nothing overlaps. Left out, all in favour of optics: twiddles, chirps and rearrangement
            between stages, calibration, repeated passes against errors.
energy      per example, inference. Converters 50 fJ per step, modulators 1 pJ per symbol, wall plug 10 %: all
            assumed. Light: the engine's photons and a lossless reference. Link: {byte:.3g} J/B, as the A100 pays.
            Static power: {static}.
            A100: every real number in and out crosses its memory once, 4 B each, and nothing else: arithmetic
            on recalled datasheet figures, not measured. The speed-up is over the present device, not the A100."""


def measure(config: Any, job: Work | None, budget_s: float) -> tuple[dict[str, dict[str, float]], int]:
    """Seconds per step on the present device, for each mode, and how many rounds there were.

    "step" is the configured network (without an engine), "explicit" the one that calls the transform as such,
    "no_mixer" the one with identity; "transform" and "after" are those of all layers.
    """
    exact = {k: None if k in ("engine", "eval_engine") else v for k, v in config.model.mixer.items()}
    networks = {"step": exact, "no_mixer": {"name": "identity"}}
    if job and job.explicit:
        networks["explicit"] = exact | job.explicit
    sides = {}
    for name, fields in networks.items():
        infer, train = _steps(config, model.build(config.model.to_dict() | {"mixer": fields}))
        sides |= {("inference", name): infer, ("training", name): train}
    for name in ("compute", "without", "after") if job else ():
        if getattr(job, name):
            shapes = job.after_arrays if name == "after" else job.arrays
            arrays = [_normal(s, config.model.dtype, i) for i, s in enumerate(shapes)]
            sides["inference", name] = partial(jax.jit(getattr(job, name)), *arrays)
            sides["training", name] = partial(jax.jit(partial(_both, getattr(job, name))), *arrays)
    median, rounds = interleave(sides, budget_s)
    result = {}
    for mode in MODES:
        read, depth = (lambda name, mode=mode: median.get((mode, name), 0.0)), config.model.depth
        result[mode] = {"step": read("step"), "no_mixer": read("no_mixer")}
        if job:
            result[mode] |= {
                "explicit": read("explicit") or read("step"),
                "transform": depth * max(read("compute") - read("without"), 0.0),
                "after": depth * read("after"),
            }
    return result, rounds


def _steps(config: Any, network: model.Classifier) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One step of inference and one of training on random tokens."""
    draw, b = np.random.default_rng(config.seed), config.data.batch
    batch = {
        "tokens": jnp.asarray(draw.integers(PAD + 1, config.model.vocab, (b, config.data.length)), jnp.int32),
        "label": jnp.asarray(draw.integers(0, config.model.classes, b), jnp.int32),
        "weight": jnp.ones(b, jnp.float32),
    }
    optimizer, (init_key, key) = optim.build(config.optim), steps.keys(config.seed, 1)
    state = steps.make_init(network, optimizer, 1)(init_key)
    params = jax.tree.map(jnp.copy, state.params)  # a training step takes its state's memory
    eval_step, train_step = steps.make_eval_step(network), steps.make_train_step(network, optimizer)

    def train() -> Any:
        nonlocal state
        state = train_step(state, batch, key)
        return state.step

    return partial(eval_step, params, batch), train


def _normal(shape: tuple[int, ...], dtype: str, seed: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def _both(function: Callable[..., Any], *arrays: jax.Array) -> Any:
    y, pull = jax.vjp(function, *arrays)
    return pull(y)


def interleave(sides: dict[Any, Callable[[], Any]], budget_s: float) -> tuple[dict[Any, float], int]:
    """Median seconds of each side, all in turn, three rounds at least; and the number of rounds."""
    for side in sides.values():
        jax.block_until_ready(side())
    taken, start = {name: [] for name in sides}, time.perf_counter()
    while len(next(iter(taken.values()))) < 3 or time.perf_counter() - start < budget_s:
        for name, side in sides.items():
            begin = time.perf_counter()
            jax.block_until_ready(side())
            taken[name].append(time.perf_counter() - begin)
    rounds = len(next(iter(taken.values())))
    return {name: statistics.median(values) for name, values in taken.items()}, rounds


def project(config: Any, job: Work, engine: Engine, measured: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What the configured batch takes on an engine; seconds and joules per step, or the reason why not."""
    depth, batch = config.model.depth, config.data.batch
    try:
        layer = job.plan(engine)
    except ValueError as error:
        return {"no_plan": str(error)}
    link = cost.LINK._replace(bytes_per_s=LINK.value)
    result: dict[str, Any] = {"method": layer.method, "passes_per_example": depth * layer.passes / batch}
    for mode, times in MODES.items():
        frames, took = depth * times * layer.frames, measured[mode]
        spent = cost.seconds(
            engine,
            frames * engine.passes,
            engines=ENGINES.value,
            stages=depth * times * job.stages(engine),
            transfer_bytes=cost.link_bytes(engine, frames),
            link=link,
        )
        share = min(took["transform"] / took["explicit"], 1.0)
        gain = took["transform"] / spent.optics if spent.optics else math.inf
        overhead = (spent.turnaround + spent.transfer + took["after"]) / took["explicit"]
        faster = cost.speedup(share, gain, overhead) if gain else 0.0
        result[mode] = {**spent._asdict(), "speedup": faster * took["step"] / took["explicit"]}
    try:
        light = cost.LASER._replace(photons=photons(engine), reference_loss_db=0.0)
        used = cost.energy(engine, depth * layer.frames, laser=light, static_w=STATIC.value, link=link)
        result["energy_j"] = {**used._asdict(), "total": used.total}
    except ValueError as error:
        result["no_energy"] = str(error)
    return result
