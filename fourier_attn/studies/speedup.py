"""Speed-up and energy that an optical engine would give a network.

    python -m fourier_attn.studies.speedup --config=FILE[:task] [options]

Measured: the time of a step, and of its transforms, on the present device. Counted: the passes that each
preset takes, by the plan that is executed (`fourier_attn.optics.plan`). Projected from both, with assumed
prices (`fourier_attn.optics.cost`): time, energy and speed-up with an engine in the place of the transforms.
Nothing optical is timed.
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

from fourier_attn import atomic, command, model
from fourier_attn.optics import Engine, cost, presets
from fourier_attn.studies.workload import Work, work
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_eval_step, make_init, make_keys, make_train_step

MODES = {"inference": 1, "training": 2}  # transforms, over those of a forward pass: the backward has as many
NOTES = """\
measured    Random tokens of the configured length; one network, no accumulated gradients. The transform:
            alone, warm, at the model's shapes, once for each layer; share: over the whole jitted step;
            medians of {rounds} rounds in which all take turns. "no mixer" has identity in its place: a check
            from above. Training is forward and backward; the backward pass has as many transforms.
speed-up    (step / step with transform) / (1 - f + f / a + o): f the share, a = transform / optics, o = (link
            + digital) / step with transform. Below 1 is slower. Link: raw samples at {link:.3g} B/s, and
            {turn:.3g} s for each stage of a batch (assumed); nothing overlaps. Digital: product with queries.
            Left out, in favour of optics: twiddles, chirps, digital remainders of sizes, unmixing of rows,
            products with kernels' spectra, rearrangement between stages, calibration; and that what
            "homodyne_re" cannot do, correlations and all stages but the last, takes twice its converters.
            Whether results are accurate enough is another question; averages would multiply the passes.
energy      Of an example's inference. Converters 50 fJ per level, modulators 1 pJ per symbol, wall plug 10 %,
            all assumed. Light: the engine's photons, and a lossless reference. Link: {byte:.3g} J/B, as the
            A100 pays. Static power: {static}.
A100        Every real number in and out crosses its memory once, 4 B each, and nothing else: arithmetic on
            recalled datasheet figures, not measured. The speed-up is over the present device, not over it."""


def measure(config: Any, job: Work | None, budget_s: float) -> tuple[dict[str, dict[str, float]], int]:
    """Seconds per step on the present device, for each mode, and how many rounds there were.

    "step" is the configured network (without an engine), "explicit" the one that calls the transform as such,
    "no_mixer" the one with identity; "transform" and "after" are those of all layers.
    """
    exact = dict(config.model.mixer)
    for name in ("engine", "eval_engine"):
        if name in exact:
            exact[name] = None
    networks = {"step": exact, "no_mixer": {"name": "identity"}}
    if job and job.explicit:
        networks["explicit"] = exact | dict(job.explicit)
    sides = {}
    for name, fields in networks.items():
        network = model.build(config.model.to_dict() | {"mixer": fields})
        sides["inference", name], sides["training", name] = step_functions(config, network)
    if job:
        sides |= _parts(config, job)
    median, rounds = interleave(sides, budget_s)
    result = {}
    for mode in MODES:
        compute = median.get((mode, "compute"), 0.0)
        without = median.get((mode, "without"), 0.0)
        result[mode] = {
            "step": median[mode, "step"],
            "no_mixer": median[mode, "no_mixer"],
            "explicit": median.get((mode, "explicit"), median[mode, "step"]),
            "transform": max(compute - without, 0.0),
            "after": median.get((mode, "after"), 0.0),
        }
    return result, rounds


def step_functions(config: Any, network: model.Model) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One step of inference and one of training on random tokens."""
    if config.model.vocab < 3:
        raise ValueError(f"model.vocab={config.model.vocab} has no word besides padding; make it at least 3")
    draw = np.random.default_rng(config.seed)
    b = config.data.batch
    tokens = jnp.asarray(draw.integers(2, config.model.vocab, (b, config.data.length)), jnp.int32)
    batch = {
        "inputs": tokens,
        "label": jnp.asarray(draw.integers(0, config.model.classes, b), jnp.int32),
        "weight": jnp.ones(b, jnp.float32),
    }
    optimizer = build_optimizer(config.optim)
    objective = OBJECTIVES["classes"]
    init_key, key = make_keys(config.seed, 1)
    state = make_init(network, optimizer, objective, model.example(config.model))(init_key)
    params = jax.tree.map(jnp.copy, state.params)  # a training step takes its state's memory
    eval_step = make_eval_step(network, objective)
    train_step = make_train_step(network, optimizer, objective)

    def train() -> Any:
        nonlocal state
        state = train_step(state, batch, key)
        return state.step

    return partial(eval_step, params, batch), train


def _parts(config: Any, job: Work) -> dict[tuple[str, str], Callable[[], Any]]:
    """The transform of all layers by itself, and what is subtracted from it and added to it."""
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
        sides["inference", name] = partial(_repeat, forward, config.model.depth, arrays)
        sides["training", name] = partial(_repeat, both, config.model.depth, arrays)
    return sides


def _normal(shape: tuple[int, ...], dtype: str, seed: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def _repeat(function: Callable[..., Any], times: int, arrays: list[jax.Array]) -> None:
    for _ in range(times):
        jax.block_until_ready(function(*arrays))


def _both(function: Callable[..., Any], *arrays: jax.Array) -> Any:
    """Forward and backward."""
    y, pull = jax.vjp(function, *arrays)
    return pull(y)


def interleave(sides: dict[Any, Callable[[], Any]], budget_s: float) -> tuple[dict[Any, float], int]:
    """Median seconds of each side, all in turn, three rounds at least; and the number of rounds.

    A call before the timed one fills the caches, which the others have emptied.
    """
    for side in sides.values():  # compiles
        jax.block_until_ready(side())
    taken = {name: [] for name in sides}
    rounds, start = 0, time.perf_counter()
    while rounds < 3 or time.perf_counter() - start < budget_s:
        rounds += 1
        for name, side in sides.items():
            jax.block_until_ready(side())
            begin = time.perf_counter()
            jax.block_until_ready(side())
            taken[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in taken.items()}, rounds


def project(config: Any, job: Work, engine: Engine, measured: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What the configured batch takes on an engine; seconds and joules per step, or the reason why not."""
    depth = config.model.depth
    try:
        layer = job.plan(engine)
    except ValueError as error:
        return {"no_plan": str(error)}
    link = cost.LINK._replace(bytes_per_s=flags.FLAGS.link_bytes_per_s)
    passes = depth * layer.passes / config.data.batch
    result: dict[str, Any] = {"method": layer.method, "passes_per_example": passes}
    for mode, times in MODES.items():
        took = measured[mode]
        frames = depth * times * layer.frames
        spent = cost.seconds(
            engine,
            frames * engine.passes,
            engines=flags.FLAGS.engines,
            stages=depth * times * layer.stages,
            transfer_bytes=cost.link_bytes(engine, frames),
            link=link,
        )
        added = (spent.total + took["after"]) / took["explicit"]  # f / a + o, also where f is 0
        faster = cost.speedup(share(took), math.inf, added) * took["step"] / took["explicit"]
        result[mode] = {**spent._asdict(), "digital": took["after"], "speedup": faster}
    try:
        used = energy(engine, depth * layer.frames, link)
        result["energy_j"] = {**used._asdict(), "total": used.total}
    except ValueError as error:
        result["no_energy"] = str(error)
    return result


def energy(engine: Engine, frames: int, link: cost.Link) -> cost.Energy:
    """Of so many frames, with the engine's own photons and a reference that loses no light."""
    photons = None
    if engine.photons is not None:
        photons = engine.detector.passes * engine.photons
    laser = cost.LASER._replace(photons=photons, reference_loss_db=0.0)
    return cost.energy(engine, frames, laser=laser, static_w=flags.FLAGS.static_w, link=link)


def share(took: dict[str, float]) -> float:
    """Of the transform in the step; alone it may take longer than inside."""
    return min(took["transform"] / took["explicit"], 1.0)


def align(rows: list[list[str]]) -> str:
    """Rows of cells in columns, the first to the left and numbers to the right; a single cell runs on."""
    full = [row for row in rows if len(row) > 2]
    widths = [max(len(cell) for cell in column) for column in zip(*full, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = rest
        if len(rest) > 1:
            cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join(lines)


def measured_table(measured: dict[str, dict[str, float]], batch: int) -> str:
    """Times of a step and of its transforms, and the speed-up were the transforms for nothing."""
    rows = [
        [
            "",
            "step ms",
            "no mixer ms",
            "with transform ms",
            "transform ms",
            "share %",
            "us / example",
            "limit of speed-up",
        ]
    ]
    for mode, took in measured.items():
        rest = took["explicit"] * (1 - share(took))
        limit = took["step"] / rest if rest else math.inf
        rows.append(
            [
                mode,
                f"{1e3 * took['step']:.3f}",
                f"{1e3 * took['no_mixer']:.3f}",
                f"{1e3 * took['explicit']:.3f}",
                f"{1e3 * took['transform']:.3f}",
                f"{100 * share(took):.1f}",
                f"{1e6 * took['transform'] / batch:.2f}",
                f"{limit:.3f}",
            ]
        )
    return align(rows)


ENERGIES = ("dac", "mod.", "adc", "laser", "static", "link", "total")  # in the order of `cost.Energy`


def preset_table(results: dict[str, dict[str, Any]], batch: int) -> str:
    """Passes, projected times, speed-ups and energies of each preset; then how sizes are planned."""
    head = ["per example", "passes", "optics us", "link us", "digital us", "inference x", "training x"]
    rows = [head + [f"{name} uJ" for name in ENERGIES]]
    for name, result in results.items():
        if "no_plan" in result:
            rows.append([name, f"no plan: {result['no_plan']}"])
        else:
            rows.append([name, *_preset_cells(result, batch)])
    lines = [align(rows), ""]
    for title, key in (("plan", "method"), ("no energy", "no_energy")):
        presets_of = {}
        for name, result in results.items():
            if key in result:
                presets_of.setdefault(result[key], []).append(name)
        for text, names in presets_of.items():
            lines.append(f"{title:<10}  {text} ({', '.join(names)})")
    return "\n".join(lines)


def _preset_cells(result: dict[str, Any], batch: int) -> list[str]:
    took = result["inference"]
    times = [took["optics"], took["turnaround"] + took["transfer"], took["digital"]]
    energies = ["-"] * len(ENERGIES)
    if "energy_j" in result:
        energies = [f"{1e6 * joule / batch:.3g}" for joule in result["energy_j"].values()]
    return [
        f"{result['passes_per_example']:.6g}",
        *(f"{1e6 * seconds / batch:.3g}" for seconds in times),
        *(f"{result[mode]['speedup']:.3g}" for mode in MODES),
        *energies,
    ]


def report(config: Any) -> dict[str, Any]:
    """Measures, counts, projects, prints; returns all numbers."""
    fields = config.model.mixer.to_dict()
    b, t, d, depth = config.data.batch, config.data.length, config.model.d, config.model.depth
    device = jax.devices()[0]
    where = f"{device.device_kind} ({device.platform}), {os.cpu_count()} CPU cores"
    job = work(fields, b, t, d)
    title = f"{job.title}, in each layer" if job else f"none in mixer {fields['name']!r}"
    print(f"device      {where}")
    print(f"model       {fields['name']}, {depth} layers, {b} examples of {t} tokens, d = {d}")
    print(f"transform   {title}\n", flush=True)
    measured, rounds = measure(config, job, flags.FLAGS.seconds)
    result = {
        "device": where,
        "mixer": fields["name"],
        "batch": b,
        "length": t,
        "d": d,
        "depth": depth,
        "rounds": rounds,
        "measured_s": measured,
    }
    if job is None:
        steps_ms = ", ".join(f"{mode} {1e3 * took['step']:.3f} ms" for mode, took in measured.items())
        print(f"A step takes: {steps_ms}.\nNothing for an optical engine to compute: the speed-up is 1.")
        return result
    engines = {name: entry.engine for name, entry in presets.PRESETS.items()}
    configured = presets.build(fields["engine"])
    if configured is not None:
        engines["configured"] = configured
    projected = {name: project(config, job, engine, measured) for name, engine in engines.items()}
    reference = cost.electronic_energy(depth * 4 * job.values)
    print(f"measured on {where}")
    print(measured_table(measured, b))
    print("\npasses counted; times, energies and speed-ups (x) projected")
    print(preset_table(projected, b))
    print(f"A100        {1e6 * reference / b:.3g} uJ per example\n")
    print(notes(rounds))
    assumed = {type(part).__name__: part._asdict() for part in (cost.CONVERTERS, cost.LASER, cost.LINK)}
    return result | {"presets": projected, "a100_j": reference, "assumed": assumed}


def notes(rounds: int) -> str:
    """What the numbers mean, and what they leave out."""
    static = "not counted; each W adds 1 uJ per us of optics (--static_w)"
    if flags.FLAGS.static_w:
        static = f"{flags.FLAGS.static_w:g} W"
    return NOTES.format(
        rounds=rounds,
        static=static,
        link=flags.FLAGS.link_bytes_per_s,
        turn=cost.LINK.turnaround_s,
        byte=cost.LINK.joule_per_byte,
    )


def define_flags() -> None:
    config_flags.DEFINE_config_file("config", help_string="configuration, for example configs/fnet.py:imdb")
    flags.DEFINE_string("json", None, "file that gets all numbers, per step and in SI units")
    flags.DEFINE_integer("engines", 1, "engines side by side", lower_bound=1)
    flags.DEFINE_float("static_w", 0.0, "power of an engine that is always on, W", lower_bound=0)
    flags.DEFINE_float(
        "link_bytes_per_s", cost.LINK.bytes_per_s, "bandwidth to the engine, B/s", lower_bound=1
    )
    flags.DEFINE_float("seconds", 10.0, "how long to measure, s; three rounds at least", lower_bound=0)


def main() -> None:
    """Reports on one configuration."""
    if not isinstance(flags.FLAGS.config, ConfigDict):  # None, or what config_flags could not read
        name = (
            config_flags.get_config_filename(flags.FLAGS["config"]) if flags.FLAGS.config is not None else ""
        )
        raise ValueError(f"--config={name} cannot be read; name a file like --config=configs/fnet.py")
    numbers = report(flags.FLAGS.config)
    if flags.FLAGS.json:
        atomic.write(Path(flags.FLAGS.json), json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
