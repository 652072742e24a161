"""The parameters of modulators, and the kinds of modulators that there are."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, no_type_check

import numpy as np

from fourier_attn.optics import conventions
from fourier_attn.optics.checks import check, check_converter, is_number
from fourier_attn.optics.parameter import LARGEST, TINY, ByContent, bits, choice, measured, noise, parameter


class ModulatorType(NamedTuple):
    """Describes a type of modulator. Its energy for writing and holding is in `components.toml`.

    Args:
      speed_hz: frames per second that it follows; patterns where it is `binary`.
      source: where that comes from, "published" or "recalled" (not looked up again).
      binary: whether a pixel is on or off, so that b bits take $2^b - 1$ patterns, by pulse widths.
      keeps: whether a value stays without being written again. Panels refresh theirs, and mirrors are
        loaded with each pattern.
    """

    speed_hz: float
    source: str
    binary: bool = False
    keeps: bool = False

    def patterns(self, bits: int | None) -> int:
        """Returns the number of patterns that make up the levels of a frame."""
        return 2 ** (bits or 1) - 1 if self.binary else 1


MODULATOR_TYPES: Mapping[str, ModulatorType] = {
    "thermo_optic": ModulatorType(
        186e3,
        "published: bandwidth of 186 kHz (Photonics 2022, 9, 447); 140 us with air trenches (Micromachines "
        "2022, 13, 1509, table of heaters)",
        keeps=True,
    ),
    "electro_optic": ModulatorType(
        120e9,
        "published: 120 Gbaud in thin-film lithium niobate (a homodyne chip's abstract); 20 Gb/s in silicon "
        "(Baehr-Jones 2012)",
        keeps=True,
    ),
    "liquid_crystal": ModulatorType(
        205.0,
        "published: 2 pi at 205 Hz with a dynamic calibration (Oton 2009)",
    ),
    "micromirror": ModulatorType(
        32_552.0,
        "published: 32,552 binary patterns per second (data sheet of the DLP7000)",
        binary=True,
    ),
}


@no_type_check  # transformations put other things than numbers into the leaves
@dataclasses.dataclass(frozen=True, eq=False)
class Modulator(ByContent):
    """Describes the modulators, which write an array into light.

    Signals are scaled so that the largest written amplitude is 1, which is full transmission.
    """

    encode: str = choice(
        "complex",
        ("complex", "signed", "amplitude", "phase"),
        'values that are written: "complex" writes amplitude and phase; "signed" real '
        'numbers; "amplitude" real numbers from 0; "phase" the phase alone, with '
        "amplitude 1",
    )
    kind: str | None = choice(
        None,
        tuple(MODULATOR_TYPES),
        "type of the modulators, which limits the frame rate; None: no limit",
    )
    dac_bits_amp: int | None = bits(
        'bits of the amplitude: $2^b$ levels on [0, 1] for "complex" and "amplitude",'
        ' $2^b - 1$ on [-1, 1] for "signed"'
    )
    dac_inl_lsb: float | None = noise(
        "integral nonlinearity of the amplitude's converters, rms: static smooth bend of each one's levels "
        "about the line that fits best",
        unit="LSB",
    )
    dac_dnl_lsb: float | None = noise(
        "differential nonlinearity of the amplitude's converters, rms: static error of the distance between "
        "two levels",
        unit="LSB",
    )
    dac_bits_phase: int | None = bits("bits of the phase: $2^b$ levels around the circle")
    dac_range: float | str = parameter(
        "auto",
        'amplitude that is written as 1; "auto" is the largest of each aperture; '
        '"calibrated" is `dac_full_scale`, one number per layer',
        kind="full_scale",
        least=TINY,
        words=("auto", "calibrated"),
        static=True,
    )
    dac_full_scale: float | None = parameter(
        None, 'amplitude for dac_range="calibrated"; a network has one per layer', least=TINY
    )
    dac_rounding: str = choice(
        "nearest",
        ("nearest", "stochastic"),
        '"nearest" (ties to even) or "stochastic" (unbiased, with 3 dB more noise)',
    )
    extinction_db: float | None = parameter(
        None, "extinction ratio of the Mach-Zehnder modulators, of power", unit="dB", least=0, most=math.inf
    )
    compensated: bool = parameter(
        False,
        "corrects drives for the known leak of a finite extinction ratio: with a phase shifter, amplitudes "
        "above the leak are written exactly; all other numbers are written as closely as possible",
        kind="flag",
        static=True,
    )
    phase_noise_rms: float | None = noise("phase noise of each pixel, drawn in each pass", unit="rad")
    amp_noise_rms: float | None = noise(
        "amplitude noise of each pixel, drawn in each pass, relative to its amplitude"
    )
    drive_noise_rms: float | None = noise(
        "noise of the drive of the Mach-Zehnder modulators, drawn in each pass: of half the phase between "
        "the arms, pi sigma_V / (2 v_pi); the amplitude a gets this times $sqrt(1 - a^2)$, most at the null",
        unit="rad",
    )
    thermal_crosstalk: float | None = parameter(
        None,
        "part of a heater's phase that its next neighbour gets, and a modulator at the distance d (rows and "
        'columns together) this to the power d; for encode="complex" and "phase". Nothing undoes it',
        least=0,
        most=0.5,
    )
    settling_s: float | None = parameter(
        None,
        "time constant $tau$ of the modulators, $1 / (2 pi B)$ for a bandwidth B. The field in a pass of the "
        "time T keeps $exp(-T / tau)$ of the field in the pass before; a call begins in the dark",
        unit="s",
        least=0,
    )
    dac_jitter_s: float | None = noise(
        "rms timing jitter of the converters of amplitude and phase, drawn for each number of a written "
        "array: noise of 2 pi f jitter of the drive, as for a sine at f, half the rate of written arrays",
        unit="s",
    )
    v_pi: float | None = parameter(
        None, "voltage for a phase shift of pi", unit="V", least=TINY, most=LARGEST
    )
    drive_v: float | None = parameter(
        None,
        "largest voltage of the drivers, of both signs; needs `v_pi`. Amplitudes reach "
        "$sin(pi V / (2 v_pi))$, phases $pi V / v_pi$",
        unit="V",
        least=TINY,
    )
    drive_table: Any = measured(
        "measured complex transmission at equally spaced drives from 0 to full scale, "
        "with rising amplitudes and linear interpolation. Drives are chosen by it, and "
        "phases without the angle that it adds. It is the array of this name in the "
        "device's file",
        "rising",
    )

    def __post_init__(self) -> None:
        check(self, ("dac_bits_amp",) if self.encode == "signed" else ())
        check_converter(self, "dac_bits_amp", ("dac_inl_lsb", "dac_dnl_lsb"))
        if self.drive_table is not None:
            self._check_table()
        if self.thermal_crosstalk is not None and self.encode not in ("complex", "phase"):
            raise ValueError(
                f"thermal_crosstalk={self.thermal_crosstalk} is of phases, which encode={self.encode!r} does "
                "not write; use 'complex' or 'phase'"
            )
        if (self.v_pi is None) != (self.drive_v is None):
            raise ValueError(
                f"v_pi={self.v_pi} and drive_v={self.drive_v} belong together; give both, or neither"
            )
        if self.compensated and is_number(self.extinction_db) and self.extinction_db <= 0:
            raise ValueError(
                f"extinction_db={self.extinction_db} lets all light through, which no drive makes up for; it "
                "must be more than 0 with compensated=True, or compensated=False"
            )
        if self.kind == "micromirror" and self.encode not in ("amplitude", "signed"):
            raise ValueError(
                f"kind='micromirror' writes no phases, which encode={self.encode!r} has; use 'amplitude'"
            )

    def _check_table(self) -> None:
        if self.encode not in ("complex", "amplitude"):
            raise ValueError(
                f"encode={self.encode!r} has no drive_table; use 'complex' or 'amplitude', or no table"
            )
        for name in ("extinction_db", "v_pi", "drive_v"):
            value = getattr(self, name)
            if value is not None:
                raise ValueError(f"{name}={value} is a part of drive_table; leave it None")
        if isinstance(self.drive_table, np.ndarray):
            conventions.check_table(self.drive_table)

    @property
    def bent(self) -> bool:
        """Says whether the converters' levels are off."""
        return self.dac_inl_lsb is not None or self.dac_dnl_lsb is not None

    @property
    def speed_hz(self) -> float:
        """Returns the frames per second that the kind can write; of mirrors, the patterns."""
        return math.inf if self.kind is None else MODULATOR_TYPES[self.kind].speed_hz
