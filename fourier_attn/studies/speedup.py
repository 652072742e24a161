"""What an optical engine would gain: python -m fourier_attn.studies.speedup --config=FILE[:task].

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

from fourier_attn import command, model
from fourier_attn.optics import Engine, cost, presets
from fourier_attn.optics.detection import DETECTIONS
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
    exact = {k: None if k in ("engine", "eval_engine") else v for k, v in config.model.mixer.items()}
    networks = {"step": exact, "no_mixer": {"name": "identity"}}
    if job and job.explicit:
        networks["explicit"] = exact | dict(job.explicit)
    sides = {}
    for name, fields in networks.items():
        infer, train = step_functions(config, model.build(config.model.to_dict() | {"mixer": fields}))
        sides |= {("inference", name): infer, ("training", name): train}
    median, rounds = interleave(sides | (_parts(config, job) if job else {}), budget_s)
    result = {}
    for mode in MODES:
        took = {name: median.get((mode, name), 0.0) for name in ("compute", "without", "after")}
        result[mode] = {
            "step": median[mode, "step"],
            "no_mixer": median[mode, "no_mixer"],
            "explicit": median.get((mode, "explicit"), median[mode, "step"]),
            "transform": max(took["compute"] - took["without"], 0.0),
            "after": took["after"],
        }
    return result, rounds


def step_functions(config: Any, network: model.Model) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One step of inference and one of training on random tokens."""
    if config.model.vocab < 3:
        raise ValueError(f"model.vocab={config.model.vocab} has no word besides padding; make it at least 3")
    draw, b = np.random.default_rng(config.seed), config.data.batch
    tokens = jnp.asarray(draw.integers(2, config.model.vocab, (b, config.data.length)), jnp.int32)
    batch = {
        "tokens": tokens,
        "label": jnp.asarray(draw.integers(0, config.model.classes, b), jnp.int32),
        "weight": jnp.ones(b, jnp.float32),
    }
    optimizer, (init_key, key) = build_optimizer(config.optim), make_keys(config.seed, 1)
    objective = OBJECTIVES["classes"]
    state = make_init(network, optimizer, objective)(init_key)
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
    sides = {}
    for name in ("compute", "without", "after"):
        function, shapes = getattr(job, name), job.after_arrays if name == "after" else job.arrays
        if function:
            arrays = [_normal(shape, config.model.dtype, seed) for seed, shape in enumerate(shapes)]
            for mode, whole in (("inference", function), ("training", partial(_both, function))):
                sides[mode, name] = partial(_repeat, jax.jit(whole), config.model.depth, arrays)
    return sides


def _normal(shape: tuple[int, ...], dtype: str, seed: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def _repeat(function: Callable[..., Any], times: int, arrays: list[jax.Array]) -> None:
    for _ in range(times):
        jax.block_until_ready(function(*arrays))


def _both(function: Callable[..., Any], *arrays: jax.Array) -> Any:
    y, pull = jax.vjp(function, *arrays)
    return pull(y)


def interleave(sides: dict[Any, Callable[[], Any]], budget_s: float) -> tuple[dict[Any, float], int]:
    """Median seconds of each side, all in turn, three rounds at least; and the number of rounds.

    A call before the timed one fills the caches, which the others have emptied.
    """
    for side in sides.values():  # compiles
        jax.block_until_ready(side())
    taken, start = {name: [] for name in sides}, time.perf_counter()
    while len(next(iter(taken.values()))) < 3 or time.perf_counter() - start < budget_s:
        for name, side in sides.items():
            jax.block_until_ready(side())
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
    link = cost.LINK._replace(bytes_per_s=flags.FLAGS.link_bytes_per_s)
    result: dict[str, Any] = {"method": layer.method, "passes_per_example": depth * layer.passes / batch}
    for mode, times in MODES.items():
        frames, took = depth * times * layer.frames, measured[mode]
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
        shots = DETECTIONS[engine.detection].passes
        photons = None if engine.photons_fs is None else shots * engine.photons_fs
        light = cost.LASER._replace(photons=photons, reference_loss_db=0.0)
        used = cost.energy(
            engine, depth * layer.frames, laser=light, static_w=flags.FLAGS.static_w, link=link
        )
        result["energy_j"] = {**used._asdict(), "total": used.total}
    except ValueError as error:
        result["no_energy"] = str(error)
    return result


def share(took: dict[str, float]) -> float:
    """Of the transform in the step; alone it may take longer than inside."""
    return min(took["transform"] / took["explicit"], 1.0)


def align(rows: list[list[str]]) -> str:
    """Rows of cells in columns, the first to the left and numbers to the right; a single cell runs on."""
    width = [max(len(row[i]) for row in rows if len(row) > 2) for i in range(max(map(len, rows)))]
    lines = []
    for first, *rest in rows:
        cells = rest if len(rest) == 1 else [c.rjust(w) for c, w in zip(rest, width[1:], strict=True)]
        lines.append("  ".join([first.ljust(width[0]), *cells]))
    return "\n".join(lines)


def measured_table(measured: dict[str, dict[str, float]], batch: int) -> str:
    head = ["", "step ms", "no mixer ms", "with transform ms", "transform ms", "share %", "us / example"]
    rows = [[*head, "limit of speed-up"]]
    for mode, took in measured.items():
        names = ("step", "no_mixer", "explicit", "transform")
        rest = took["explicit"] * (1 - share(took))
        limit = took["step"] / rest if rest else math.inf
        times = [f"{1e3 * took[name]:.3f}" for name in names]
        example = 1e6 * took["transform"] / batch
        rows.append([mode, *times, f"{100 * share(took):.1f}", f"{example:.2f}", f"{limit:.3f}"])
    return align(rows)


def preset_table(results: dict[str, dict[str, Any]], batch: int) -> str:
    head = ["per example", "passes", "optics us", "link us", "digital us", "inference x", "training x"]
    rows = [[*head, "dac uJ", "mod. uJ", "adc uJ", "laser uJ", "static uJ", "link uJ", "total uJ"]]
    for name, result in results.items():
        if "no_plan" in result:
            rows.append([name, f"no plan: {result['no_plan']}"])
            continue
        took = result["inference"]
        times = [took["optics"], took["turnaround"] + took["transfer"], took["digital"]]
        cells = [f"{result['passes_per_example']:.6g}", *(f"{1e6 * s / batch:.3g}" for s in times)]
        cells += [f"{result[mode]['speedup']:.3g}" for mode in MODES]
        joules = result.get("energy_j", {})
        cells += [f"{1e6 * joule / batch:.3g}" for joule in joules.values()] or ["-"] * 7
        rows.append([name, *cells])
    lines = [align(rows), ""]
    for title, key in (("plan", "method"), ("no energy", "no_energy")):
        for text in dict.fromkeys(result[key] for result in results.values() if key in result):
            names = ", ".join(name for name, result in results.items() if result.get(key) == text)
            lines.append(f"{title:<10}  {text} ({names})")
    return "\n".join(lines)


def report(config: Any) -> dict[str, Any]:
    """Measures, counts, projects, prints; returns all numbers."""
    fields, data, device = config.model.mixer.to_dict(), config.data, jax.devices()[0]
    b, t, d = data.batch, data.length, config.model.d
    where = f"{device.device_kind} ({device.platform}), {os.cpu_count()} CPU cores"
    job = work(fields, b, t, d)
    title = f"{job.title}, in each layer" if job else f"none in mixer {fields['name']!r}"
    print(f"device      {where}")
    print(f"model       {fields['name']}, {config.model.depth} layers, {b} examples of {t} tokens, d = {d}")
    print(f"transform   {title}\n", flush=True)
    measured, rounds = measure(config, job, flags.FLAGS.seconds)
    result = {"device": where, "mixer": fields["name"], "batch": b, "length": t, "d": d}
    result |= {"depth": config.model.depth, "rounds": rounds, "measured_s": measured}
    if job is None:
        steps_ms = ", ".join(f"{mode} {1e3 * took['step']:.3f} ms" for mode, took in measured.items())
        print(f"A step takes: {steps_ms}.\nNothing for an optical engine to compute: the speed-up is 1.")
        return result
    engines = {name: entry.engine for name, entry in presets.PRESETS.items()}
    if given := presets.build(fields["engine"]):
        engines["configured"] = given
    results = {name: project(config, job, engine, measured) for name, engine in engines.items()}
    reference = cost.electronic_energy(config.model.depth * 4 * job.values)
    print(measured_table(measured, b), preset_table(results, b), sep="\n\n")
    print(f"A100        {1e6 * reference / b:.3g} uJ per example\n")
    watts = (
        f"{flags.FLAGS.static_w:g} W"
        if flags.FLAGS.static_w
        else "not counted; each W adds 1 uJ per us of optics (--static_w)"
    )
    link = {
        "link": flags.FLAGS.link_bytes_per_s,
        "turn": cost.LINK.turnaround_s,
        "byte": cost.LINK.joule_per_byte,
    }
    print(NOTES.format(rounds=rounds, static=watts, **link))
    assumed = {type(part).__name__: part._asdict() for part in (cost.CONVERTERS, cost.LASER, cost.LINK)}
    return result | {"presets": results, "a100_j": reference, "assumed": assumed}


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
    if not isinstance(flags.FLAGS.config, ConfigDict):  # None, or what config_flags could not read
        name = (
            config_flags.get_config_filename(flags.FLAGS["config"]) if flags.FLAGS.config is not None else ""
        )
        raise ValueError(f"--config={name} cannot be read; name a file like --config=configs/fnet.py")
    numbers = report(flags.FLAGS.config)
    if flags.FLAGS.json:
        Path(flags.FLAGS.json).write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
