"""Engines with a name, and where each of their parameters comes from.

"published" stands in a source, "derived" follows from published facts, "assumed" is an order of magnitude.
Beyond the aperture, the boundary condition and the way of detection, nothing that we know of is published on
such an engine: no bit depth, no noise, no power, no error.

`python -m fourier_attn.optics.presets` prints the tables.
"""

import contextlib
import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from fourier_attn.optics.parameters import PARAMETERS, Engine


class Preset(NamedTuple):
    """An engine, and the provenance of its parameters."""

    engine: Engine
    published: tuple[str, ...]
    derived: tuple[str, ...] = ()

    def provenance(self) -> dict[str, str]:
        """ "published", "derived" or "assumed" for each parameter that is not off, published ones first."""
        given = [name for name in PARAMETERS if getattr(self.engine, name) is not None]
        words = dict.fromkeys(self.published, "published") | dict.fromkeys(self.derived, "derived")
        return {name: words.get(name, "assumed") for name in dict.fromkeys([*self.published, *given])}

    def table(self) -> str:
        """One line for each parameter that is not off: name, value, unit, provenance."""
        rows = []
        for name, provenance in self.provenance().items():
            rows.append((name, str(getattr(self.engine, name)), PARAMETERS[name].unit, provenance))
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


CHIP = Engine(
    shape=(11, 11),
    dac_bits_amp=8,
    dac_bits_phase=8,
    extinction_db=30.0,
    phase_noise_rms=0.01,
    amp_noise_rms=0.003,
    static_phase_rms=0.02,
    static_gain_rms=0.01,
    crosstalk_db=-40.0,
    insertion_loss_db=15.0,
    rin_db_hz=-145.0,
    power_drift_rms=0.002,
    detection="hybrid90",
    photons_fs=1e5,
    dark_current=1e-10,
    tia_noise=1e-11,
    adc_bits=8,
    frame_rate_hz=1e9,
    dc_block=True,
)

PRESETS: Mapping[str, Preset] = {
    "ideal": Preset(Engine(), ("shape",)),
    # 5 x 5 pixels, 3 x 3 kernels; the field is recovered from intensities, by linearity
    "demonstrator_5x5": Preset(
        CHIP.replace(
            shape=(5, 5),
            extinction_db=25.0,
            static_phase_rms=0.05,
            crosstalk_db=-30.0,
            detection="psi4",
            photons_fs=1e4,
            tia_noise=None,
            dark_current=None,
            frame_rate_hz=1e3,
        ),
        ("shape", "encode", "lens"),
    ),
    # 11 x 11 pixels; real and imaginary parts detected at once
    "chip_11x11": Preset(CHIP, ("shape", "encode", "lens", "detection"), ("photons_fs",)),
    "chip_11x11_4bit": Preset(
        CHIP.replace(dac_bits_amp=4, dac_bits_phase=4, adc_bits=4),
        ("shape", "encode", "lens", "detection"),
        ("photons_fs",),
    ),
    "shot_limited": Preset(Engine(detection="hybrid90", photons_fs=1e3), (), ("detection", "photons_fs")),
    # a micromirror device writes amplitudes, a camera reads intensities
    "amplitude_4f": Preset(
        Engine(
            shape=(1000, 1000),
            encode="amplitude",
            dac_bits_amp=8,
            extinction_db=30.0,
            detection="intensity",
            photons_fs=1e4,
            adc_bits=8,
            frame_rate_hz=1e4,
        ),
        ("shape", "encode", "detection", "frame_rate_hz"),
    ),
    "hostile": Preset(
        CHIP.replace(
            dac_bits_amp=3,
            dac_bits_phase=3,
            extinction_db=15.0,
            phase_noise_rms=0.1,
            amp_noise_rms=0.05,
            static_phase_rms=0.2,
            static_gain_rms=0.1,
            crosstalk_db=-20.0,
            shift_pitch=(0.1, 0.1),
            defocus_rad=0.3,
            fill_factor=0.8,
            rin_db_hz=-125.0,
            power_drift_rms=0.02,
            photons_fs=1e3,
            tia_noise=1e-12,  # with the chip's 1e-11 so few photons would be lost in it, at -10 dB
            adc_bits=3,
        ),
        (),
    ),
}


def preset(name: str) -> Engine:
    """The engine of that name.

    Raises: ValueError for a name that is not in `PRESETS`.
    """
    if name not in PRESETS:
        raise ValueError(f"preset={name!r} is unknown; choose one of {', '.join(PRESETS)}")
    return PRESETS[name].engine


def build(config: Any) -> Engine | None:
    """Turns a configuration's engine into one: a preset's name, a mapping of parameters, or None.

    Raises: ValueError for a name or a parameter that is unknown, or a value that cannot be.
    """
    if config is None or isinstance(config, Engine):
        return config
    if isinstance(config, str):
        return preset(config)
    values: dict[str, Any] = dict(config)
    for name, value in values.items():
        if isinstance(value, list):  # of JSON
            values[name] = tuple(value)
    for name in ("dac_range", "adc_range"):  # words or numbers
        with contextlib.suppress(KeyError, TypeError, ValueError):
            values[name] = float(values[name])
    return Engine().replace(**values)


def scaled(engine: Engine, bits: int, noise: float, device: int) -> Engine:
    """The engine with other converters, noise times a factor, and another device; without noise for 0.

    Amplitudes of noise are multiplied, photons divided by the square, so that shot noise grows alike;
    electrical noise, which counts against the photons, is divided once. Misalignment and extinction stay.
    The laws stand in `PARAMETERS`: `noise_power` and `noise_db_most`.
    """
    if noise < 0:
        raise ValueError(f"noise={noise} must be at least 0")
    changes: dict[str, Any] = {
        "dac_bits_amp": bits,
        "dac_bits_phase": bits,
        "adc_bits": None if engine.detector.detectors == 0 else bits,
        "device_seed": device,
    }
    for name, parameter in PARAMETERS.items():
        value = getattr(engine, name)
        power, most = parameter.noise_power, parameter.noise_db_most
        if power is None and most is None:
            continue
        if value is None or noise == 0:
            changes[name] = None
        elif most is not None:
            changes[name] = min(value + 20 * math.log10(noise), most)
        elif power is not None:
            changes[name] = value * noise**power
    return engine.replace(**changes)


def shot_limited(side: int, photons: float) -> Engine:
    """A reference for physics: a square aperture with shot noise and nothing else."""
    return preset("shot_limited").replace(shape=(side, side), photons_fs=photons)


if __name__ == "__main__":
    for name, entry in PRESETS.items():
        print(f"{name}\n{entry.table()}\n", file=sys.stdout)
