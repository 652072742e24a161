"""Measures accuracy over time on drifting devices, with and without recalibration.

    python -m fourier_attn.studies.engine.drift --workdir=RUN [options]

A trained network is evaluated on its test split (validation, where labels of test are not public) through
--devices devices, seconds after their calibration (--ages), without recalibration and with it at intervals
(--intervals). Recalibrated devices are spread evenly over the last whole interval before the age; younger
ones have not been recalibrated yet. The engine is --engine=PRESET, or else the run's own, or else chip_11x11.
If it has no drift, it gets that of --phase_drift_rms, --gain_drift_rms and --drift_time_s, which are assumed,
not published.

Writes NAME.json, a row for each device, age and interval, with the cost of each interval in passes, and
NAME.png with 95 % bands of the mean over devices, into the run's directory, for --out=NAME.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from absl import flags
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from tqdm import tqdm

from fourier_attn import command, paths, provenance, style
from fourier_attn.columns import aligned
from fourier_attn.data import TASKS
from fourier_attn.optics import Engine
from fourier_attn.optics.drift import drifts, recalibration
from fourier_attn.studies import runs
from fourier_attn.studies.engine.evaluator import EngineEvaluator
from fourier_attn.studies.engine.robustness import choose_engines, number
from fourier_attn.studies.intervals import band, plot_band

Rows = Sequence[dict[str, Any]]
NEVER = math.inf  # interval of a device that is not calibrated again


def define_flags() -> None:
    runs.define_flags()
    flags.DEFINE_list(
        "ages", ["0", "60", "600", "1800", "3600", "36000"], "ages to evaluate: seconds since the calibration"
    )
    flags.DEFINE_list("intervals", ["60", "600"], "intervals between recalibrations, s")
    flags.DEFINE_integer("devices", 10, "number of device seeds", lower_bound=2)
    flags.DEFINE_string("engine", None, "preset to use instead of the run's own engine")
    flags.DEFINE_float("phase_drift_rms", 0.2, "long-term rms of the phase drift, rad", lower_bound=0)
    flags.DEFINE_float("gain_drift_rms", 0.05, "long-term rms of the gain drift, relative", lower_bound=0)
    flags.DEFINE_float("drift_time_s", 3600.0, "correlation time of the drift, s", lower_bound=1e-9)
    flags.DEFINE_string(
        "data_dir", None, "directory of the TFDS data sets; default: that of the run's configuration"
    )
    flags.DEFINE_integer("examples", 0, "limit the number of test examples (0: all)", lower_bound=0)
    flags.DEFINE_string(
        "out", "drift", "name of the results in the run's directory; .json and .png are added"
    )


def main() -> None:
    """Evaluates a run over ages, writes numbers and figure, and prints a table."""
    options, ages = flags.FLAGS, seconds("ages", least=0.0)
    intervals = [NEVER, *seconds("intervals", least=1e-9)]
    [directory] = runs.directories()
    table, picture = runs.new_files(directory / paths.stem(options.out, "--out"))
    evaluator = EngineEvaluator(directory, options.data_dir, options.examples)
    engine = drifting(choose_engines([evaluator])[0])
    costs = [cost(engine, interval) for interval in intervals]
    total = len(intervals) * len(ages)
    rows = list(tqdm(accuracies(evaluator, engine, ages, intervals, options.devices), total=1 + total))
    rows = [row for part in rows for row in part]
    device = engine.device
    setting = {
        "pixels": engine.shape,
        "detection": engine.receiver.detection,
        "phase_drift_rms": device.phase_drift_rms,
        "gain_drift_rms": device.gain_drift_rms,
        "drift_time_s": device.drift_time_s,
        "dataset": TASKS[evaluator.config.data.task].dataset,
        "examples": len(evaluator.splits[evaluator.public].labels),
    }
    document = provenance.record() | {"networks": [evaluator.facts()]}
    document |= {"setting": setting, "costs": costs, "rows": rows}
    provenance.write(table, document)
    style.save(plot(document), picture)
    print_table(rows, costs)
    print(f"written to {table} and {picture.name}")


def seconds(option: str, least: float) -> list[float]:
    """Times as given. Raises: ValueError."""
    times = [number(option, text, float) for text in getattr(flags.FLAGS, option)]
    if not times or not all(least <= time < math.inf for time in times):
        raise ValueError(f"--{option}={times} must be seconds, from {least:g} up, and one at least")
    return sorted(set(times))


def drifting(engine: Engine) -> Engine:
    """Returns the engine, with the drift of the flags if it has none."""
    names = ("phase_drift_rms", "gain_drift_rms", "drift_time_s")
    return (
        engine
        if drifts(engine.device)
        else engine.replace(**{name: flags.FLAGS[name].value for name in names})
    )


def cost(engine: Engine, interval: float) -> dict[str, Any]:
    """Returns the cost of recalibration: passes for each pass of work, a share of time and of energy."""
    return {
        "interval_s": finite(interval),
        "passes_for_each_of_work": recalibration(engine.replace(recalibrate_s=interval)),
    }


def finite(interval: float) -> float | None:
    """Returns an interval as files have it: None for never."""
    return None if interval == NEVER else interval


def moment(age: float, interval: float, share: float) -> float:
    """Returns the time at which a device is evaluated: its age, or a recalibrated one in the interval before.

    There it is `share` of the interval after a calibration.
    """
    return age if age < interval else (math.floor(age / interval) - 1 + share) * interval


def accuracies(
    evaluator: EngineEvaluator,
    engine: Engine,
    ages: Sequence[float],
    intervals: Sequence[float],
    devices: int,
) -> Iterator[list[dict[str, Any]]]:
    """Yields accuracies: the exact transform, then all devices at each age and interval, in one program.

    Args:
      evaluator: evaluates one run through engines.
      engine: the engine, with its drift.
      ages: in s since the first calibration.
      intervals: in s between calibrations.
      devices: how many are drawn.
    """
    row = {"run": evaluator.name, "split": evaluator.public}
    yield [row | {"accuracy": evaluator.exact(evaluator.public)}]
    for interval in intervals:
        for age in ages:
            moments = [moment(age, interval, (i + 0.5) / devices) for i in range(devices)]
            engines = [
                engine.replace(age_s=at, recalibrate_s=interval, seed=seed) for seed, at in enumerate(moments)
            ]
            values = evaluator.through(engines, evaluator.public)
            place = row | {"interval_s": finite(interval), "age_s": age}
            yield [
                place | {"device": seed, "looked_at_s": at, "accuracy": float(accuracy)}
                for seed, (at, accuracy) in enumerate(zip(moments, values, strict=True))
            ]


def curves(rows: Rows) -> dict[float | None, dict[float, list[float]]]:
    """Accuracies of the devices by interval and age."""
    by_interval: dict[float | None, dict[float, list[float]]] = {}
    for row in rows:
        if "age_s" in row:
            ages = by_interval.setdefault(row["interval_s"], {})
            ages.setdefault(row["age_s"], []).append(row["accuracy"])
    return by_interval


def name(interval: float | None) -> str:
    return "never calibrated again" if interval is None else f"every {interval:g} s"


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots accuracy over time, a curve for each interval."""
    figure = style.figure(height=3.4)
    axes, rows, setting = figure.subplots(), document["rows"], document["setting"]
    ages = sorted({row["age_s"] for row in rows if "age_s" in row})
    exact = 100 * rows[0]["accuracy"]
    axes.plot([ages[0], ages[-1]], [exact] * 2, color="black", linewidth=0.8, label="exact transform")
    for i, (interval, at) in enumerate(curves(rows).items()):
        marker = style.MARKERS[i % len(style.MARKERS)]
        plot_band(axes, list(at), list(at.values()), marker=marker, label=name(interval))
    axes.set_xscale("symlog", linthresh=min((age for age in ages if age > 0), default=1.0))
    axes.set_xticks(ages, [lasting(age) for age in ages])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axvline(setting["drift_time_s"], color=style.GREY, linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="time since the first calibration; dotted: correlation time of the drift",
        ylabel=f"{rows[0]['split']} accuracy, %",
        title=f"{rows[0]['run']} on {setting['dataset']}, drift {setting['phase_drift_rms']:g} rad, "
        f"gain {setting['gain_drift_rms']:g}: means of devices with 95 % bands",
    )
    style.label_ends(axes)
    return figure


def lasting(seconds: float) -> str:
    """Returns a duration in the largest unit that gives a whole number."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def print_table(rows: Rows, costs: Rows) -> None:
    """Prints the mean and half of the 95 % band, in percent."""
    by_interval = curves(rows)
    print(f"{rows[0]['run']}: {rows[0]['split']} accuracy, %; exact {100 * rows[0]['accuracy']:.2f}")
    lines = [["age, s", *(f"{age:g}" for age in next(iter(by_interval.values()))), "more passes"]]
    for (interval, ages), price in zip(by_interval.items(), costs, strict=True):
        cells = [band(values) for values in ages.values()]
        share = price["passes_for_each_of_work"]
        accuracies = [f"{100 * mean:.2f} ± {100 * half:.2f}" for mean, half in cells]
        lines.append([name(interval), *accuracies, f"{share:.2g}"])
    print("\n".join(aligned(lines, right=True)))


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
