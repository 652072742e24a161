"""Speed-up and energy that an optical engine would give a network.

    python -m fourier_attn.studies.engine.speedup --config=FILE[:task] [options]

Measured: the time of a step, and of its transforms, on the present device, and its processor's power.
Counted: the passes that each preset takes, by the plan that is executed (`fourier_attn.optics.plan`).
Projected from both, with the prices of a library of components (`fourier_attn.optics.components`): time,
energy and speed-up with an engine in the place of the transforms. Nothing optical is timed.

Each projection has a range: all parts as cheap as they may be, and all as expensive. --out=NAME writes
NAME.json, all numbers, and NAME.png: how far each assumption alone moves the answer.
"""

import contextlib
import json
import math
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
from absl import flags

from fourier_attn import command, config_flag, model, paths, provenance, style
from fourier_attn.choices import check_choices
from fourier_attn.columns import aligned
from fourier_attn.config import Config, fit_grid, tokens
from fourier_attn.optics import Engine, components, presets
from fourier_attn.optics.components import CORNERS
from fourier_attn.studies.engine import tornado
from fourier_attn.studies.engine.cpu_power import Power
from fourier_attn.studies.engine.projection import (
    Options,
    energy_at_corners,
    gpu_joules,
    make_case,
    project,
    sensitivity,
)
from fourier_attn.studies.engine.step_timing import MODES, Measured, Taken, measure
from fourier_attn.studies.engine.workload import Work, layers, transforms

NOTES = """\
measured    Inputs are random, of the configured size. Gradients are not accumulated. The transform is timed
            alone, warm, at the model's shapes, once for each layer. Its share is its time over that of the
            jitted step with transform. Times are medians of {rounds} rounds, in which all parts take turns.
            "no mixer" has identity instead of the mixer, as a check: no engine can make a step faster than
            that. A training step is a forward and a backward pass, and the backward pass has as many
            transforms.
range       typical (low to high). The two ends have all parts of the component library at their best, or all
            at their worst. They are bounds, not a confidence interval.
            `python -m fourier_attn.optics.components` prints each part with its source;
            --components=FILE.toml replaces parts.
speed-up    (step / step with transform) / (1 - f + f / a + o), where f is the share, a = transform / optics,
            and o = (link + digital) / step with transform. Below 1 is slower. The link carries raw samples,
            with a turnaround for each stage of a batch; nothing overlaps. Digital work is the product with
            queries, as measured, and, at the A100's prices: remainders of sizes; products with twiddle
            factors, chirps and kernels' spectra; and the separation of rows that share a frame. Remainders
            cross the A100's memory once, like its own transform.
            These omissions favour optics: rearranging numbers between stages; calibrating an engine without
            recalibrate_s; and twice the converters for "homodyne_re" where it needs them, in correlations and
            in all stages but the last.
            Whether the results are accurate enough is not asked here; averages would multiply the passes.
energy      Joules of the inference of one example. An array is written and sent once for all steps of the
            reference's phase and all averages. hold: heat of the modulators during all passes. laser: the
            engine's power, and a reference on a path without loss. static: {static}.
processor   {power}
            Its joules are these watts times the time of the transform.
A100        Calculated from its specification, not measured: every real number in and out crosses its memory
            once, 4 B each, and nothing else counts. The speed-up is over the present device, not over the
            A100."""


def measured_table(taken: dict[str, Taken], batch: int) -> str:
    """Times of a step and of its transforms, and the speed-up were the transforms for nothing."""
    head = ["", "step ms", "no mixer ms", "with transform ms", "transform ms", "share %", "us / example"]
    rows = [[*head, "limit of speed-up"]]
    for mode, took in taken.items():
        rest = took.explicit * (1 - took.share)
        limit = took.step / rest if rest else math.inf
        times = (took.step, took.no_mixer, took.explicit, took.transform)
        cells = [f"{1e3 * seconds:.3f}" for seconds in times]
        share, each = f"{100 * took.share:.1f}", f"{1e6 * took.transform / batch:.2f}"
        rows.append([mode, *cells, share, each, f"{limit:.3f}"])
    return "\n".join(aligned(rows, right=True))


def spread(values: dict[str, float], scale: float = 1.0) -> str:
    """Returns the typical value, and the range if it is not a single value."""
    typical, low, high = (f"{scale * value:.3g}" for value in (values["typical"], *ends(values)))
    return typical if low == high else f"{typical} ({low} to {high})"


def ends(values: dict[str, float]) -> tuple[float, float]:
    """Returns the least and the largest value: a speed-up is largest if all costs are low."""
    return min(values.values()), max(values.values())


def time_table(results: dict[str, dict[str, Any]], batch: int) -> str:
    """Formats passes, projected times and speed-ups of each preset, then the plan of the sizes."""
    head = ["per example", "passes", "optics us", "link us", "digital us", "inference x", "training x"]
    rows = [head]
    for name, result in results.items():
        if "no_plan" in result:
            rows.append([name, f"no plan: {result['no_plan']}"])
        else:
            rows.append([name, *_time_cells(result, batch)])
    lines = [*aligned(rows, right=True), ""]
    for title, key in (("plan", "method"), ("no energy", "no_energy")):
        presets_of: dict[str, list[str]] = {}
        for name, result in results.items():
            if key in result:
                presets_of.setdefault(result[key], []).append(name)
        for text, names in presets_of.items():
            lines.append(f"{title:<10}  {text} ({', '.join(names)})")
    return "\n".join(lines)


def _time_cells(result: dict[str, Any], batch: int) -> list[str]:
    took = result["inference"]
    link = {corner: at["turnaround"] + at["transfer"] for corner, at in took.items()}
    optics = {corner: at["optics"] for corner, at in took.items()}
    faster = [{corner: at["speedup"] for corner, at in result[mode].items()} for mode in MODES]
    return [
        f"{result['passes_per_example']:.6g}",
        spread(optics, 1e6 / batch),
        spread(link, 1e6 / batch),
        f"{1e6 * took['typical']['digital'] / batch:.3g}",
        *map(spread, faster),
    ]


def energy_table(results: dict[str, dict[str, Any]], batch: int) -> str:
    """Microjoules of an example, line by line with typical parts, and together with their range."""
    rows = []
    for name, result in results.items():
        if "energy_j" not in result:
            continue
        lines = dict(result["energy_j"]["typical"])
        totals = {corner: result["energy_j"][corner]["total"] for corner in CORNERS}
        del lines["total"]
        if not rows:
            rows.append(["uJ / example", *lines, "total"])
        cells = [f"{1e6 * joule / batch:.3g}" for joule in lines.values()]
        rows.append([name, *cells, spread(totals, 1e6 / batch)])
    return "\n".join(aligned(rows, right=True)) if rows else "no preset has an energy"


def report(config: Config, options: Options, chosen: list[str]) -> dict[str, Any]:
    """Measures, counts, projects and prints; returns all numbers.

    Args:
      config: of the network.
      options: of the study.
      chosen: engines for which the sensitivity to each component is computed.
    """
    fields = config.model.mixer.to_dict()
    b, t, d, depth = config.data.batch, tokens(config), config.model.d, layers(config)
    device = jax.devices()[0]
    where = f"{device.device_kind} ({device.platform}), {provenance.cores()} CPU cores"
    job = transforms(config, b)
    title = f"{job.title}, in each layer" if job else f"none in mixer {fields['name']!r}"
    setting = f"{fields['name']}, {depth} layers, {b} examples of {t} tokens, d = {d}"
    engines = _engines(fields, chosen)
    print(f"device      {where}")
    print(f"model       {setting}")
    print(f"transform   {title}\n", flush=True)
    if flags.FLAGS.measured is None:
        setting += f"; load {provenance.BEFORE} before, {provenance.cores()} cores for this process"
        measured = measure(config, job, flags.FLAGS.seconds, options.library)
    else:
        setting, measured = earlier(paths.given(flags.FLAGS.measured), setting)
    rows = [{"part": "measured", "mode": mode, **took._asdict()} for mode, took in measured.taken.items()]
    document = {"setting": setting, "batch": b, "depth": depth, "rounds": measured.rounds, "rows": rows}
    if job is None:
        steps_ms = ", ".join(f"{mode} {1e3 * took.step:.3f} ms" for mode, took in measured.taken.items())
        print(f"A step takes: {steps_ms}.\nNothing for an optical engine to compute: the speed-up is 1.")
        return document
    projected = {name: _projected(config, job, e, measured, options) for name, e in engines.items()}
    electronics = _electronics(measured, b, gpu_joules(depth * job.values, options.library))
    rows += [{"part": "preset", "preset": name, **row} for name, row in projected.items()]
    rows += _frames(engines, options)
    rows += electronics
    for name in chosen:
        rows_of_engine = sensitivity(make_case(config, job, engines[name], measured.taken, options))
        rows += [{"part": "sensitivity", "preset": name, **row} for row in rows_of_engine]
    print(f"measured on {where}")
    print(measured_table(measured.taken, b))
    print("\npasses counted; times, energies and speed-ups (x) projected, typical (low to high)")
    print(time_table(projected, b))
    print(f"\n{energy_table(projected, b)}")
    for row in electronics:
        print(f"{row['name']:<11} {spread(row['joules'], 1e6)} uJ per example: {row['what']}")
    print(f"\n{notes(measured, options.static_w)}")
    return document


def earlier(file: Path, setting: str) -> tuple[str, Measured]:
    """Returns the setting and the measurements of an earlier report.

    Raises: ValueError for a file that is not such a report, or is one of another network.
    """
    try:
        document = json.loads(file.read_text())
        rows = document["rows"]
        taken = {
            row["mode"]: [row[name] for name in Taken._fields] for row in rows if row["part"] == "measured"
        }
        taken = {mode: Taken(*taken[mode]) for mode in MODES}
        measured_setting, when = document["setting"], document["date"]
        power, each = None, taken["inference"].transform / document["batch"]
        for row in rows:
            if row["part"] == "electronics" and row["name"] == "processor":
                low, typical, high = (row["joules"][corner] / each for corner in CORNERS)
                power = Power(low, typical, high, "RAPL" in row["what"], row["power"])
        measured = Measured(taken, document["rounds"], power)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"--measured={file} is not a report of this command ({error})") from error
    if measured_setting.split(";")[0] != setting:  # of 12 features, not of 128
        raise ValueError(f"--measured={file} is a report on {measured_setting}; this is {setting}")
    times = "; times of " if "; times of " not in measured_setting else None
    return (f"{measured_setting}{times}{when[:10]}" if times else measured_setting), measured


def _engines(fields: dict[str, Any], chosen: list[str]) -> dict[str, Engine]:
    """Returns the presets, and the configured engine if there is one."""
    engines = {name: entry.engine for name, entry in presets.PRESETS.items()}
    configured = model.engine_of(fields)
    if configured is not None:
        engines["configured"] = configured
    engines |= {name: presets.preset(name) for name in chosen if name.endswith(presets.DEVICE_FILES)}
    check_choices("--tornado", chosen, engines)
    return engines


def _projected(
    config: Config, job: Work, engine: Engine, measured: Measured, options: Options
) -> dict[str, Any]:
    """Returns the projection of a batch on an engine, or the reason why it has none."""
    try:
        return project(make_case(config, job, engine, measured.taken, options))
    except ValueError as error:
        return {"no_plan": str(error)}


def _frames(engines: dict[str, Engine], options: Options) -> list[dict[str, Any]]:
    """Returns the energy in J of one frame on each engine that has one, whatever the network."""
    rows = []
    for name, engine in engines.items():
        with contextlib.suppress(ValueError):  # the table of presets says why there is none
            points = engine.shape[0] * engine.shape[1]
            used = energy_at_corners(engine, {"frames": 1}, options)
            rows.append({"part": "frame", "preset": name, "points": points, "energy_j": used})
    return rows


def _electronics(measured: Measured, batch: int, gpu: dict[str, float]) -> list[dict[str, Any]]:
    """Returns the energy in J of an example's transforms without an engine."""
    joules = {corner: joule / batch for corner, joule in gpu.items()}
    rows = [{"name": "A100", "what": "its memory alone, arithmetic", "joules": joules}]
    if measured.power is not None:
        seconds = measured.taken["inference"].transform / batch
        joules = {corner: seconds * getattr(measured.power, corner) for corner in CORNERS}
        how = "watts by RAPL" if measured.power.measured else "watts estimated"
        rows.append({"name": "processor", "what": f"the transform here, {how}", "joules": joules})
        rows[-1]["power"] = measured.power.text
    return [{"part": "electronics", **row} for row in rows]


def notes(measured: Measured, static_w: float) -> str:
    """Returns notes on what the numbers mean, and what they leave out."""
    static = "not counted (--static_w)"
    if static_w:
        static = f"{static_w:g} W"
    power = "It does not do the work." if measured.power is None else f"{measured.power.text}."
    lines = textwrap.wrap(power, 98, break_on_hyphens=False)
    return NOTES.format(rounds=measured.rounds, static=static, power=f"\n{12 * ' '}".join(lines))


def define_flags() -> None:
    config_flag.define_flag("configuration, for example fnet:imdb")
    flags.DEFINE_string("out", None, "path of the results without a suffix; .json and .png are added")
    flags.DEFINE_list(
        "tornado", ["chip_11x11", "demonstrator_5x5"], "engines to plot in the sensitivity analysis"
    )
    flags.DEFINE_string("components", None, "TOML file with components that replace those of the library")
    flags.DEFINE_string(
        "measured",
        None,
        "JSON file of an earlier report, to project its times again without measuring",
    )
    flags.DEFINE_integer("engines", 1, "number of engines that work in parallel", lower_bound=1)
    flags.DEFINE_float("static_w", 0.0, "static power of an engine, W", lower_bound=0)
    flags.DEFINE_float(
        "seconds", 10.0, "duration of the measurement, s; at least three rounds are measured", lower_bound=0
    )


def main() -> None:
    """Writes and prints the report on one configuration."""
    config = config_flag.given()
    if config is None:
        raise ValueError("--config is missing; name one like --config=fnet:imdb, or your own file")
    stem = paths.stem(flags.FLAGS.out, "--out") if flags.FLAGS.out else None
    own = None if flags.FLAGS.components is None else paths.given(flags.FLAGS.components)
    options = Options(flags.FLAGS.engines, flags.FLAGS.static_w, components.library(own))
    document = report(fit_grid(config), options, flags.FLAGS.tornado)
    if stem:
        write(stem, document)


def write(stem: Path, document: dict[str, Any]) -> None:
    """Writes the numbers, and the figure if there are sensitivities."""
    table, picture = (stem.with_name(f"{stem.name}.{kind}") for kind in ("json", "png"))
    provenance.write(table, provenance.record() | document)
    sensitivities = any(row["part"] == "sensitivity" for row in document["rows"])
    if sensitivities:
        style.save(tornado.plot(document), picture)
    print(f"written to {table}" + (f" and {picture.name}" if sensitivities else ""))


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
