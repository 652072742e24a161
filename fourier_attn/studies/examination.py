"""Seven findings of an independent examination, measured again: what each was, and what it is.

    python -m fourier_attn.studies.examination --out=results/examination

The examination was a simulation in NumPy that shared no code with the emulator. Its numbers are written here
as it gave them ("examination"); all numbers of today are measured by this command.

Writes OUT.json; a file of an earlier study is not overwritten.
"""

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from fourier_attn import atomic, command, paths, provenance
from fourier_attn.optics import Engine, cost, optical_dft2, plan
from fourier_attn.optics.planner import PREFER
from fourier_attn.optics.presets import preset
from fourier_attn.optics.ranges import BINS, full_scale, watched
from fourier_attn.studies.markdown import NOT_RUN, Results, notes, table

APERTURES = 200
STATIC = ("static_phase_rms", "static_gain_rms", "crosstalk_db", "extinction_db")
MOVING = ("phase_noise_rms", "drive_noise_rms", "rin_db_hz", "power_drift_rms", "cmrr_db")
CONVERTERS = ("dac_bits_amp", "dac_bits_phase", "adc_bits")
dft = jax.jit(optical_dft2)


class Finding(NamedTuple):
    """What was found, with its numbers then; how it is measured now; and the tests that hold it."""

    what: str
    before: str
    measure: Callable[[], str]
    tests: str


def define_flags() -> None:
    flags.DEFINE_string("out", "examination", "name of the file, without .json")


def main() -> None:
    """Measures, tells, writes."""
    out = paths.given(f"{flags.FLAGS.out}.json")
    if out.exists():
        raise ValueError(f"{out} is there from an earlier study; move it away, or name this one, --out=...")
    rows = []
    for finding in FINDINGS:
        rows.append({**finding._asdict(), "measure": finding.measure.__name__, "now": finding.measure()})
        print(f"{finding.what}\n    then  {finding.before}\n    now   {rows[-1]['now']}")
    atomic.make_folder(out.parent)
    provenance.write(out, provenance.record() | {"rows": rows})


def slopes_of_phases() -> str:
    """Along and across a number that is written as its phase, and of a number beside a leak."""
    x = jnp.full((1, 1), 0.3 + 0.4j, jnp.complex64)
    engine = Engine(shape=(1, 1)).replace(encode="phase", dac_bits_phase=12)
    along, across = (
        complex(jax.jvp(lambda x: optical_dft2(x, engine), (x,), (v,))[1][0, 0]) for v in (x, 1j * x)
    )
    turned = (across / complex(0.3 + 0.4j)).imag
    errors = [f"{_leaky_slope(extinction):.0e}" for extinction in (15.0, 25.0, 30.0)]
    return (
        f"along x {abs(along):.3g} (true 0), across {turned:.3f} i x (true 1 i x); relative error with "
        f"extinction of 15, 25, 30 dB: {', '.join(errors)}"
    )


def _leaky_slope(extinction: float) -> float:
    """Relative error of a derivative against differences, in float64."""
    draw, h = np.random.default_rng(0), 1e-6
    x, v = draw.standard_normal((2, 4, 4)) + 1j * draw.standard_normal((2, 4, 4))
    with jax.enable_x64(True):
        engine = Engine(shape=(4, 4)).replace(extinction_db=extinction, dac_range=4.0)
        run = jax.jit(partial(optical_dft2, engine=engine))
        found = jax.jvp(run, (jnp.asarray(x),), (jnp.asarray(v),))[1]
        expected = (run(jnp.asarray(x + h * v)) - run(jnp.asarray(x - h * v))) / (2 * h)
        return float(jnp.linalg.norm(found - expected) / jnp.linalg.norm(expected))


def drives_that_know_the_leak() -> str:
    """Presets over white real numbers, and a single bright pixel."""
    levels = [signal_to_error(preset(name)) for name in ("chip_11x11", "demonstrator_5x5")]
    pixel = jnp.zeros((1, 11, 11)).at[0, 3, 4].set(1.0)
    leaky = Engine(shape=(11, 11)).replace(extinction_db=30.0, compensated=True)
    first = abs(complex(dft(pixel, leaky)[0, 0, 0]))
    return (
        f"{levels[0]:.1f} dB and {levels[1]:.1f} dB; bin (0, 0) of one bright pixel {first:.3f} (true "
        f"{1 / 11:.3f})"
    )


def watts_first() -> str:
    """The chip's light and electronics alone, at three frame rates, and behind ten times the loss."""
    off: dict[str, Any] = dict.fromkeys((*STATIC, *MOVING, *CONVERTERS))
    light = preset("chip_11x11").replace(shape=(1, 1), compensated=False, dc_block=False, **off)
    rates = [f"{_unit_ratio(light.replace(frame_rate_hz=rate)):.1f}" for rate in (1e8, 1e9, 1e10)]
    lossy = _unit_ratio(light.replace(insertion_loss_db=25.0))
    return (
        f"{', '.join(rates)} dB at 1e8, 1e9, 1e10 Hz; {lossy:.1f} dB at 1e9 Hz with 10 dB more loss; the "
        f"demonstrator is a camera, with {_camera():.1f} dB"
    )


def _unit_ratio(engine: Engine) -> float:
    """Unit intensity over its noise, dB."""
    y = np.asarray(dft(jnp.ones((10_000, 1, 1)), engine, jax.random.key(0)))
    return float(-20 * np.log10(np.std(y)))


def _camera() -> float:
    off: dict[str, Any] = dict.fromkeys((*STATIC, *MOVING, *CONVERTERS))
    engine = preset("demonstrator_5x5")
    return _unit_ratio(engine.replace(shape=(1, 1), compensated=False, dc_block=False, **off))


def energies() -> str:
    """Typical components."""
    chip, heaters = (cost.energy(preset(name), 1) for name in ("chip_11x11", "demonstrator_5x5"))
    return (
        f"chip {1e12 * chip.total / 121:.0f} pJ a point, {1e12 * chip.link / 121:.0f} of them the link; "
        f"demonstrator {1e3 * heaters.total:.1f} mJ a frame, {1e3 * heaters.hold:.1f} of them heat; data are "
        "sent once; each component has a source and a range"
    )


def ranges_known_beforehand() -> str:
    """Eight bits behind a hybrid: an oracle, a calibrated range, and the best of a search."""
    engine = Engine(shape=(11, 11)).replace(detection="hybrid90", adc_bits=8, adc_range="calibrated")
    counts = np.zeros(BINS, int)

    def count(converter: str, found: Any) -> None:
        if converter == "adc":
            counts[:] += np.asarray(found, int)

    optical_dft2(_light(0), watched(engine, count)).block_until_ready()
    jax.effects_barrier()
    found = full_scale(engine, "adc", counts)
    scales = found * np.geomspace(1 / 3, 3, 41)
    fixed = [signal_to_error(engine.replace(adc_full_scale=float(scale))) for scale in (found, *scales)]
    oracle = signal_to_error(engine.replace(adc_range="auto"))
    return (
        f'"auto", an oracle, {oracle:.1f} dB; calibrated {fixed[0]:.1f} dB, best static range '
        f"{max(fixed):.1f} dB"
    )


def rows_then_columns() -> str:
    """Passes of both plans."""
    said = []
    for size in ((256, 64), (512, 128), (64, 64), (100, 37)):
        passes = [f"{plan('dft', size, Engine((11, 11)), prefer=prefer).passes:,}" for prefer in PREFER]
        said.append(f"{size[0]} x {size[1]}: {passes[0]} or {passes[1]}")
    return "; ".join(said)


def noise_of_drives() -> str:
    """At the null and at full drive, as shares of the rms; and a pattern beside a pass's rounding."""
    engine = Engine(shape=(2, 1)).replace(lens="1d", dac_range=1.0, drive_noise_rms=0.02)
    x = jnp.broadcast_to(jnp.array([0.0, 1.0], jnp.float32)[None, :, None], (20_000, 2, 1))
    null, full = np.std(np.asarray(dft(x, engine, jax.random.key(0))), axis=0)[:, 0] / 0.02
    ones, plain = jnp.ones((1, 40, 40)), Engine(shape=(40, 40))
    clean, still, moving = (
        np.asarray(dft(ones, one, jax.random.key(0)))
        for one in (plain, plain.replace(static_gain_rms=1e-2), plain.replace(amp_noise_rms=1e-2))
    )
    still, moving = still - clean, moving - clean
    shared = abs(np.vdot(still, moving)) / np.linalg.norm(still) / np.linalg.norm(moving)
    return (
        f"{null:.2f} of its rms at the null, {full:.2f} at full drive; pattern of seed 0 and draws of key 0 "
        f"correlate {shared:.2f}"
    )


def signal_to_error(engine: Engine) -> float:
    """Of random real numbers, against the exact transform, dB."""
    x = _light(1)[:, : engine.shape[0], : engine.shape[1]]
    exact = np.fft.fft2(np.asarray(x, float), norm="ortho")
    error = np.asarray(dft(x, engine, jax.random.key(0))) - exact
    return 10 * math.log10(np.sum(np.abs(exact) ** 2) / np.sum(np.abs(error) ** 2))


def _light(seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (APERTURES, 11, 11))


FINDINGS = (
    Finding(
        'The gradient of `encode="phase"` was wrong, and "model" left out the leak',
        "along x -1.55 (true 0), across -2.09 (true -9.50), of another x; relative error with extinction of "
        "15, 25, 30 dB: .77, .35, .16",
        slopes_of_phases,
        "test_optics_gradients.py",
    ),
    Finding(
        "Leak dominated both presets, which nobody would drive so",
        "chip 20.1 dB, demonstrator 16.6 dB; bin (0, 0) of one bright pixel 0.357 (true 0.091)",
        drives_that_know_the_leak,
        "test_optics_modulator.py, test_optics_presets.py",
    ),
    Finding(
        "Photons came first: a faster frame improved the signal, and loss did nothing",
        "20.8, 30.6, 38.7 dB at 1e8, 1e9, 1e10 Hz; no influence of the loss; the demonstrator with the "
        "chip's electronics -31 dB",
        watts_first,
        "test_optics_power.py, test_optics_presets.py",
    ),
    Finding(
        "Energies hung on one assumption, heaters took nothing, and data were sent again",
        "chip 1,204 pJ a point, 1,143 of them the link; demonstrator 90 nJ a frame, no heat",
        energies,
        "test_optics_cost.py, test_components.py",
    ),
    Finding(
        "Converters knew the future",
        '"auto" alone, 43.2 dB, where the best static range has 39.0 dB',
        ranges_known_beforehand,
        "test_optics_ranges.py",
    ),
    Finding(
        "Plans by rows and columns were missing",
        "256 x 64: 15,972; 512 x 128: 23,958; 64 x 64: 1,936; 100 x 37: 968 passes",
        rows_then_columns,
        "test_optics_planner.py",
    ),
    Finding(
        "Noise of amplitudes vanished at the null, and streams shared draws",
        "0 at the null; static pattern and stochastic rounding correlate 1.0",
        noise_of_drives,
        "test_optics_modulator.py, test_optics_parameters.py",
    ),
)


def beside(results: Results, name: str) -> str:
    """A line for each finding: then, now, and the tests that hold it."""
    found = results.runs(name)
    if not found:
        return table(["finding"], [[NOT_RUN]])
    lines = []
    for number, row in enumerate(found[name]["rows"], 1):
        lines.append([f"{number}. {row['what']}", row["before"], row["now"], row["tests"]])
    return table(["finding", "before (examination)", "now (measured)", "held by"], lines) + notes(found)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
