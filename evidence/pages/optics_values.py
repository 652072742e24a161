"""Computes the numbers inside sentences of docs/optics from the files of results."""

import statistics
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from evidence.pages.markdown import Results, Row, significant
from evidence.pages.measured import PLAIN_METHODS
from evidence.pages.projected import spread
from fourier_attn.studies.engine import frontier, robustness_sweep
from fourier_attn.studies.engine.calibrate import prediction_error_db
from fourier_attn.studies.intervals import percent_range, wilson_interval

PLANNED = "256 x 64"  # the size in the sentence on plans
# Numbers that FNet transforms per example: layers x tokens x width.
PROJECTED = 2 * 512 * 128  # in studies/speedup-fnet
SEARCHED = 2 * 256 * 64  # in studies/pareto-fnet
MEASURED = 128 * 768  # in benchmarks/gpu-time, one layer


def plan(results: Results, prefer: str) -> str:
    """Returns the passes of a plan for `PLANNED`.

    Args:
      results: the files of results.
      prefer: "error" or "passes".
    """
    return f"{_plan(results, prefer)['passes']:,}"


def plan_loss(results: Results) -> str:
    """Returns by how many dB the plan with fewer passes has the smaller signal-to-error ratio."""
    return f"{_plan(results, 'error')['snr_db'] - _plan(results, 'passes')['snr_db']:.1f}"


def _plan(results: Results, prefer: str) -> Row:
    rows = results.document("studies/plans-chip")["rows"]
    wanted = (PLANNED, prefer, 1)
    return next(row for row in rows if (row["size"], row["prefer"], row["averages"]) == wanted)


def lost(
    results: Results,
    noise: float,
    name: str = "studies/robustness-imdb",
    at_least: int = 0,
    below: float = inf,
) -> str:
    """Returns the largest loss of accuracy over bits and runs in points, mean over devices.

    Args:
      results: the files of results.
      noise: strength of the noise over that of the preset.
      name: the file.
      at_least, below: limits of the bits.
    """
    rows = results.document(name)["rows"]
    bits = sorted({row["bits"] for row in rows if "bits" in row and at_least <= row["bits"] < below})
    losses = []
    for run in robustness_sweep.runs(rows):
        mine = [row for row in rows if "bits" not in row or (row["noise"] == noise and row["bits"] in bits)]
        exact, at = robustness_sweep.percentages(mine, run, bits, [noise])
        losses.append(exact - at.mean(axis=2).min())
    return f"{max(losses):.2f}"


def robustness_error(results: Results) -> str:
    """Returns one standard error of an accuracy in the study of bits and noise, in points."""
    return f"{robustness_sweep.standard_error(results.document('studies/robustness-imdb')):.2f}"


def calibration(results: Results, key: str) -> str:
    """Returns a number of the calibration with the most light, for large errors and "hybrid90".

    Args:
      results: the files of results.
      key: "photons", the largest number of all; "apart", the largest error of prediction with them in dB;
        "hidden_db" or "corrected_db", a ratio in dB.
    """
    rows = results.document("studies/calibrate")["rows"]
    most = max(row["photons"] for row in rows)
    bright = [row for row in rows if row["photons"] == most]
    if key == "photons":
        return f"{most:,.0f}"
    if key == "apart":
        return f"{max(map(prediction_error_db, bright)):.2f}"
    large = max(row["phase_rms"] for row in rows)
    return f"{next(r for r in bright if (r['phase_rms'], r['detection']) == (large, 'hybrid90'))[key]:.1f}"


def faster(results: Results) -> str:
    """Returns how many times faster inference is with `chip_11x11`, with its bounds."""
    row = _speedup(results, "preset", preset="chip_11x11")
    return spread({corner: at["speedup"] for corner, at in row["inference"].items()})


def transform_share(results: Results) -> float:
    """Returns the share of inference that the Fourier transforms of FNet take on the processor."""
    row = _speedup(results, "measured", mode="inference")
    return row["transform"] / row["step"]


def free_engine_speed(results: Results) -> float:
    """Returns how many times faster inference is with transforms that take no time (Amdahl's law)."""
    return 1 / (1 - transform_share(results))


def electronic_share(results: Results) -> float:
    """Returns the share of the energy of FNet's transforms on `chip_11x11` that digital work takes."""
    typical = _speedup(results, "preset", preset="chip_11x11")["energy_j"]["typical"]
    return typical["digital"] / typical["total"]


def chip_energy(results: Results) -> str:
    """Returns the mJ of an example's transforms on `chip_11x11`, with their bounds."""
    row, batch = _speedup(results, "preset", preset="chip_11x11"), results.document(SPEEDUP)["batch"]
    return spread({corner: at["total"] for corner, at in row["energy_j"].items()}, 1e3 / batch)


def processor_energy(results: Results) -> str:
    """Returns the mJ of an example's transforms on the processor, with their bounds."""
    return spread(_speedup(results, "electronics", name="processor")["joules"], 1e3)


def gpu_joules(results: Results, numbers: int, scale: float) -> str:
    """Returns the energy of Fourier transforms on an A100 from its specification, with its bounds.

    Args:
      results: the files of results.
      numbers: how many numbers are transformed.
      scale: 1e9 for nJ, 1e6 for uJ, 1e3 for mJ.
    """
    return spread(_speedup(results, "electronics", name="A100")["joules"], numbers / PROJECTED * scale)


def measured_gpu_number(results: Results) -> str:
    """Returns the nJ per number of the fastest Fourier mixing in float32, measured on an H200."""
    rows = results.document("benchmarks/gpu-time")["rows"]
    exact = [r for r in rows if (r["dtype"], r["t"]) == ("float32", 128) and r["what"] in PLAIN_METHODS]
    return significant(1e6 * min(exact, key=lambda row: row["ms"])["mj_per_example"] / MEASURED)


def moved(results: Results) -> str:
    """Returns the share of a frame's energy on `chip_11x11` that moves data, in percent."""
    typical = _speedup(results, "frame", preset="chip_11x11")["energy_j"]["typical"]
    return f"{100 * sum(typical[line] for line in ('link', 'sram', 'hbm')) / typical['total']:.0f}"


def agreeing(results: Results, *, trained: bool) -> str:
    """Returns how many call sites have the predicted error, of how many.

    Args:
      results: the files of results.
      trained: whether those of trained networks alone are counted; else all others.
    """
    rows = results.document("studies/predictions")["rows"]
    agree = [row["inside"] for row in rows if ("steps" in row) == trained]
    return f"{sum(agree)} of {len(agree)}"


def laboratory(results: Results) -> str:
    """Returns the number of test images of the laboratory's networks."""
    return f"{results.document('studies/laboratory')['rows'][0]['examples']:,}"


def tuned_on_chip(results: Results) -> str:
    """Returns the test accuracy after training further on the chip, in percent, with its 95 % interval."""
    [row] = results.document("studies/optical-global-filter")["rows"]
    accuracy = row["test"]["accuracy"]
    interval = percent_range(*wilson_interval(accuracy, row["test"]["examples"]))
    return f"{100 * accuracy:.2f} ({interval})"


def held_out(results: Results, *, reference: bool) -> str:
    """Returns signal over error of the laboratory's held-out probes, and what the noise lets expect, in dB.

    Args:
      results: the files of results.
      reference: whether the recording has the reference beam.
    """
    fits = results.document("studies/laboratory")["fits"]
    fit = next(fit for fit in fits if fit["reference"] == reference)
    return f"{fit['held_out_db']:.1f} dB ({fit['expected_db']:.1f} dB expected)"


SPEEDUP = "studies/speedup-fnet"


def _speedup(results: Results, part: str, **names: str) -> Row:
    rows = results.document(SPEEDUP)["rows"]
    return next(row for row in rows if row["part"] == part and names.items() <= row.items())


def engine_energy(results: Results, name: str, scale: float) -> str:
    """Returns the energy of the cheapest engine within the 95 % interval of the exact network.

    Args:
      results: the files of results.
      name: "pareto-fnet" or "pareto-circular".
      scale: 1e6 for uJ, 1 for J.
    """
    return spread(cheapest_engine(results.document(f"studies/{name}")["rows"])["joules"], scale)


def cheapest_engine(rows: list[Row]) -> Row:
    """Returns the tested engine with the least energy, among those within 95 % of the exact network."""
    [exact] = frontier.part(rows, "exact")
    low, _ = wilson_interval(exact["accuracy"], exact["examples"])
    good = [row for row in frontier.part(rows, frontier.TESTED) if row["accuracy"] >= low]
    return min(good, key=lambda row: row["joules"]["typical"])


def electronic_energy(results: Results, name: str, scale: float) -> str:
    """Returns the energy of an example's transforms on the processor; the arguments of `engine_energy`."""
    [row] = frontier.part(results.document(f"studies/{name}")["rows"], "electronic")
    return spread(row["joules"], scale)


def drifted(results: Results, interval: float | None, age: float) -> str:
    """Returns the mean accuracy over devices in percent.

    Args:
      results: the files of results.
      interval: seconds between calibrations; None for never.
      age: seconds since the first calibration.
    """
    wanted = (interval, age)
    return _mean(results, "drift-reviews", lambda row: (row.get("interval_s"), row.get("age_s")) == wanted)


def at_photons(results: Results, run: str, photons: float) -> str:
    """Returns the mean accuracy over devices in percent.

    Args:
      results: the files of results.
      run: name of the run.
      photons: photo-electrons per pixel and pass.
    """
    return _mean(results, "photons-reviews", lambda row: (row["run"], row.get("photons")) == (run, photons))


def at_power(results: Results, power: float) -> str:
    """Returns the accuracy of FNet on IMDb through a 4-bit chip, the mean over devices in percent.

    Args:
      results: the files of results.
      power: optical power as a multiple of the preset's.
    """
    rows = frontier.part(results.document("studies/pareto-fnet")["rows"], frontier.TESTED)
    wanted = {"bits": 4, "slices": 1, "averages": 1, "power": power}
    (accuracy,) = {row["accuracy"] for row in rows if wanted.items() <= row.items()}
    return f"{100 * accuracy:.2f}"


def _mean(results: Results, name: str, wanted: Callable[[dict[str, Any]], bool]) -> str:
    rows = results.document(f"studies/{name}")["rows"]
    return f"{100 * statistics.mean(row['accuracy'] for row in rows if wanted(row)):.2f}"


OPTICS_VALUES: dict[str, Callable[[Results], str]] = {
    "plan-error": partial(plan, prefer="error"),
    "plan-passes": partial(plan, prefer="passes"),
    "plan-loss": plan_loss,
    "robustness-loss": partial(lost, noise=1.0),
    "robustness-loss-4": partial(lost, noise=4.0),
    "robustness-suite-3": partial(lost, noise=1.0, name="evidence/imdb/robustness-fnet", below=4),
    "robustness-suite-4": partial(lost, noise=1.0, name="evidence/imdb/robustness-fnet", at_least=4),
    "robustness-error": robustness_error,
    "calibration-photons": partial(calibration, key="photons"),
    "calibration-apart": partial(calibration, key="apart"),
    "calibration-device": partial(calibration, key="hidden_db"),
    "calibration-corrected": partial(calibration, key="corrected_db"),
    "predictions-programs": partial(agreeing, trained=False),
    "predictions-trained": partial(agreeing, trained=True),
    "optical-global-filter": tuned_on_chip,
    "laboratory-images": laboratory,
    "laboratory-reference": partial(held_out, reference=True),
    "laboratory-alone": partial(held_out, reference=False),
    "speedup-chip": faster,
    "speedup-free": lambda results: f"{free_engine_speed(results):.2f}",
    "transform-share": lambda results: f"{100 * transform_share(results):.1f}",
    "electronic-share": lambda results: f"{100 * electronic_share(results):.0f}",
    "energy-chip": chip_energy,
    "energy-cpu": processor_energy,
    "energy-gpu": partial(gpu_joules, numbers=PROJECTED, scale=1e3),
    "gpu-number": partial(gpu_joules, numbers=1, scale=1e9),
    "gpu-number-measured": measured_gpu_number,
    "pareto-fnet-gpu": partial(gpu_joules, numbers=SEARCHED, scale=1e6),
    "frame-moved": moved,
    "pareto-fnet-engine": partial(engine_energy, name="pareto-fnet", scale=1e6),
    "pareto-fnet-cpu": partial(electronic_energy, name="pareto-fnet", scale=1e6),
    "pareto-circular-engine": partial(engine_energy, name="pareto-circular", scale=1.0),
    "pareto-circular-cpu": partial(electronic_energy, name="pareto-circular", scale=1e3),
    "drift-new": partial(drifted, interval=None, age=0.0),
    "drift-never": partial(drifted, interval=None, age=3600.0),
    "drift-often": partial(drifted, interval=600.0, age=3600.0),
    "drift-ten-minutes": partial(drifted, interval=None, age=600.0),
    "photons-chip-990": partial(at_power, power=0.01),
    "photons-chip-9900": partial(at_power, power=0.1),
    "photons-exact": partial(at_photons, run="exact", photons=30.0),
    "photons-tuned": partial(at_photons, run="insitu-30-photons", photons=30.0),
}
