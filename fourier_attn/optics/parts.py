"""The parts of an engine and their parameters: modulators, device, laser, receiver.

A parameter that is None is ideal, or off. What a field says about its parameter is in its metadata, see
`fourier_attn.optics.parameter`; `python -m fourier_attn.config` prints all of it.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, no_type_check

import numpy as np

from fourier_attn.optics import conventions
from fourier_attn.optics.checks import check, check_words, is_number
from fourier_attn.optics.parameter import LARGEST, TINY, bits, choice, measured, noise, parameter, register


class Detection(NamedTuple):
    """A way to detect.

    Args:
      passes: of one frame.
      detectors: of one pixel.
      converters: of one pixel in one pass.
      balanced: whether pairs of detectors are subtracted before they are converted.
      linear: whether the result is the field, or a part of it, rather than a power.
      referenced: whether light meets a reference (local oscillator).
    """

    passes: int
    detectors: int
    converters: int
    balanced: bool
    linear: bool
    referenced: bool


DETECTIONS: Mapping[str, Detection] = {
    # E itself: for debugging, and for the ideal engine
    "field": Detection(1, 0, 0, balanced=True, linear=True, referenced=False),
    # |E|^2
    "intensity": Detection(1, 1, 1, balanced=False, linear=False, referenced=False),
    # |E|, biased where photons are few
    "amplitude": Detection(1, 1, 1, balanced=False, linear=False, referenced=False),
    # E from three, four, five phase steps, one pass each
    "psi3": Detection(3, 1, 1, balanced=False, linear=True, referenced=True),
    "psi4": Detection(4, 1, 1, balanced=False, linear=True, referenced=True),
    "psi5": Detection(5, 1, 1, balanced=False, linear=True, referenced=True),
    # E from four detectors at once, two balanced pairs
    "hybrid90": Detection(1, 4, 2, balanced=True, linear=True, referenced=True),
    # Re E from one balanced pair
    "homodyne_re": Detection(1, 2, 1, balanced=True, linear=True, referenced=True),
    # E from |E|^2, |E + R|^2 and |E + i R|^2
    "linear3": Detection(3, 1, 1, balanced=False, linear=True, referenced=True),
}


class ModulatorType(NamedTuple):
    """A kind of modulator. What it takes to write and to hold is a price, see `components.toml`.

    Args:
      speed_hz: frames per second that it follows; patterns where it is `binary`.
      source: where that comes from, "published" or "recalled" (not looked up again).
      binary: whether a pixel is on or off, so that b bits take 2^b - 1 patterns, by pulse widths.
    """

    speed_hz: float
    source: str
    binary: bool = False

    def patterns(self, bits: int | None) -> int:
        """Returns the number of patterns that make up the levels of a frame."""
        return 2 ** (bits or 1) - 1 if self.binary else 1


MODULATOR_TYPES: Mapping[str, ModulatorType] = {
    "thermo_optic": ModulatorType(
        186e3,
        "published: bandwidth of 186 kHz (Photonics 2022, 9, 447); 140 us with air trenches (Micromachines "
        "2022, 13, 1509, table of heaters)",
    ),
    "electro_optic": ModulatorType(
        120e9,
        "published: 120 Gbaud in thin-film lithium niobate (a homodyne chip's abstract); 20 Gb/s in silicon "
        "(Baehr-Jones 2012)",
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
@dataclasses.dataclass(frozen=True)
class Modulator:
    """What writes an array into light.

    Signals are scaled so that the largest written amplitude is 1, which is full transmission.
    """

    encode: str = choice(
        "complex",
        ("complex", "signed", "amplitude", "phase"),
        'what is written: "complex" amplitude and phase; "signed" real numbers; "amplitude" real numbers '
        'from 0 up; "phase" the phase alone, with amplitude 1',
    )
    kind: str | None = choice(
        None,
        tuple(MODULATOR_TYPES),
        "what the modulators are, which limits the frame rate; None: not said, no limit",
    )
    dac_bits_amp: int | None = bits(
        'of the amplitude: 2^b levels on [0, 1] for "complex" and "amplitude", 2^b - 1 on [-1, 1] for '
        '"signed"'
    )
    dac_bits_phase: int | None = bits("of the phase: 2^b levels around the circle")
    dac_range: float | str = parameter(
        "auto",
        'the amplitude that is written as 1; "auto" is the largest of each aperture; '
        '"calibrated" is `dac_full_scale`, one number for a layer',
        kind="full_scale",
        least=TINY,
        words=("auto", "calibrated"),
        static=True,
    )
    dac_full_scale: float | None = parameter(
        None, 'amplitude for dac_range="calibrated"; a network has one for each layer', least=TINY
    )
    dac_rounding: str = choice(
        "nearest",
        ("nearest", "stochastic"),
        '"nearest" (ties to even) or "stochastic" (unbiased, 3 dB more noise)',
    )
    extinction_db: float | None = parameter(
        None, "extinction of the Mach-Zehnder modulators, of power", unit="dB", least=0, most=math.inf
    )
    compensated: bool = parameter(
        False,
        "whether drives are pre-distorted for the extinction's leak, which is known: what it leaves can be "
        "written exactly, all else as near as can be",
        kind="flag",
        static=True,
    )
    phase_noise_rms: float | None = noise("of the phase in each pass", unit="rad")
    amp_noise_rms: float | None = noise("of the amplitude in each pass, relative to it")
    drive_noise_rms: float | None = noise(
        "of the drive of the Mach-Zehnder modulators in each pass, as amplitude where it does most, at the "
        "null: times sqrt(1 - a^2)",
        unit="rad",
    )
    v_pi: float | None = parameter(
        None, "voltage that turns a phase by pi", unit="V", least=TINY, most=LARGEST
    )
    drive_v: float | None = parameter(
        None,
        "largest voltage of the drivers, both signs, which needs `v_pi`: amplitudes reach "
        "sin(pi V / (2 v_pi)), phases pi V / v_pi",
        unit="V",
        least=TINY,
    )
    drive_table: Any = dataclasses.field(
        default=None,
        compare=False,
        metadata=measured(
            "measured complex transmission at equally spaced drives from 0 to full, amplitudes rising; "
            "between them it is a line. Drives are chosen by it, and phases without the angle that it adds. "
            "The array of this name in the device's file",
            "rising",
        ),
    )

    def __post_init__(self) -> None:
        check(self, ("dac_bits_amp",) if self.encode == "signed" else ())
        if self.drive_table is not None:
            self._check_table()
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
    def speed_hz(self) -> float:
        """Returns the frames per second that the kind can write; of mirrors, the patterns."""
        return math.inf if self.kind is None else MODULATOR_TYPES[self.kind].speed_hz


@no_type_check
@dataclasses.dataclass(frozen=True)
class Device:
    """What is static and linear between modulators and detectors."""

    static_phase_rms: float | None = noise(
        "fixed pattern of phases left after calibration, before and after the lens together", unit="rad"
    )
    static_gain_rms: float | None = noise("fixed pattern of gains likewise, relative")
    # four neighbours share the light, so that less than a quarter goes to each
    crosstalk_db: float | None = parameter(
        None,
        "power coupled to each of the four neighbours, before and after the lens",
        unit="dB",
        least=-math.inf,
        most=-6.1,
        noise_db=1,
    )
    shift_pitch: tuple[float, float] | None = parameter(
        None, "(rows, columns) by which the input stands off the axis", kind="pair", unit="pixel"
    )
    defocus_rad: float | None = parameter(
        None, "quadratic phase at the middle of the aperture's edge", unit="rad"
    )
    fill_factor: float | None = parameter(
        None,
        "bright share F of a pixel's width. On each axis that the lens transforms, the zero order, which is "
        "what detectors see, has the amplitude sqrt(F) sinc(F f) of the pixel's light, and higher orders the "
        "rest; sqrt(F) is undone digitally, with its noise, and sinc(F f) is not",
        least=TINY,
        most=1.0,
    )
    insertion_loss_db: float | None = parameter(
        None, "modulators to detectors; undone digitally", unit="dB", least=0
    )
    phase_drift_rms: float | None = noise(
        "of each pixel's phase over a long time, before and after the lens together; see `drift_time_s`",
        unit="rad",
    )
    gain_drift_rms: float | None = noise("drift of each pixel's gain likewise, relative")
    drift_time_s: float = parameter(
        3600.0,
        "time tau over which the drift is correlated: t after a calibration it has the variance "
        "2 rms^2 (1 - exp(-t / tau))",
        unit="s",
        least=TINY,
    )
    age_s: float = parameter(0.0, "since the first calibration, when nothing has drifted", unit="s", least=0)
    recalibrate_s: float | None = parameter(
        None, "between calibrations, which take off what has drifted", unit="s", least=TINY, most=math.inf
    )
    calibration_probes: float | None = parameter(
        None,
        "arrays that a calibration writes, which cost time and energy; None: two for each pixel",
        least=1,
    )
    seed: int = parameter(
        0,
        "draws what is static, and how it drifts, nothing else",
        kind="seed",
        least=-(2**31),  # a key is made of 32 bits
        most=2**31 - 1,
    )
    file: str | None = parameter(
        None,
        "a measured device: .npz with `transfer` and, if there is one, `drive_table`, or .npy with the "
        "transfer alone. Read where a configuration is built; in Python use `Engine.from_file`",
        kind="file",
        static=True,
    )
    transfer: Any = dataclasses.field(
        default=None,
        compare=False,
        metadata=measured(
            "measured matrix (pixels, pixels) from the fields that are written, a row for each, to those "
            "that are detected, lens and all, without the insertion loss; instead of other static effects",
            "matrix",
        ),
    )

    def __post_init__(self) -> None:
        check(self)
        if self.transfer is None:
            return
        effects = ("static_phase_rms", "static_gain_rms", "crosstalk_db", "shift_pitch", "defocus_rad")
        for name in (*effects, "fill_factor"):
            value = getattr(self, name)
            if value is not None:
                raise ValueError(f"{name}={value} is a part of the measured transfer; leave it None")
        for name in ("phase_drift_rms", "gain_drift_rms"):
            value = getattr(self, name)
            if value is not None:
                raise ValueError(f"{name}={value}: a measured transfer does not drift; leave it None")
        loss = self.insertion_loss_db
        if isinstance(self.transfer, np.ndarray) and (loss is None or is_number(loss)):
            conventions.check_passive(self.transfer, self.transmission)

    @property
    def transmission(self) -> float:
        """Share eta of the power that arrives."""
        return 1.0 if self.insertion_loss_db is None else 10.0 ** (-self.insertion_loss_db / 10)


@no_type_check
@dataclasses.dataclass(frozen=True)
class Laser:
    """The light."""

    power_w: float | None = parameter(
        None,
        'of a pixel that is written with 1 ("unit intensity"), as it leaves the modulators; None: light '
        "without end, so no shot noise and no electronics",
        unit="W",
        least=TINY,
        most=math.inf,
        noise_power=-2,  # shot noise is the root of the photons
    )
    rin_db_hz: float | None = parameter(
        None,
        "relative intensity noise, one draw for a whole pass, on signal and reference",
        unit="dB/Hz",
        least=-math.inf,
        noise_db=1,
    )
    power_drift_rms: float | None = noise("slow drift of the power, relative")
    drift_corr: float = parameter(
        1000.0,
        "passes over which the drift of the power is correlated",
        unit="pass",
        least=TINY,
        most=math.inf,
    )

    def __post_init__(self) -> None:
        check(self)


@no_type_check
@dataclasses.dataclass(frozen=True)
class Receiver:
    """Reference, detectors and converters.

    Electrical noise counts against the photons; so where noise is k times as strong, which is k^2 times less
    light, its parameters shrink by one power less than the light.
    """

    detection: str = choice("field", tuple(DETECTIONS), "way to detect, a key of `DETECTIONS`")
    lo_ratio: float = parameter(
        10.0,
        "power of the reference (local oscillator) over unit intensity, at the detectors; 1 / (rows columns) "
        "is that of a bright pixel inside the aperture",
        least=TINY,
    )
    lo_phase_err: float | None = parameter(
        None, 'error of each phase step (none for "homodyne_re", which has one)', unit="rad"
    )
    lo_drift: float | None = noise("rms of the reference's phase in a pass", unit="rad")
    statistics: str = choice(
        "gaussian",
        ("gaussian", "poisson"),
        'of the shot noise; "poisson" is exact up to 1e5 photons and Gaussian above',
    )
    # an electron for each photon at 2.6 um, where photodiodes end; a wavelength is not a parameter
    responsivity: float = parameter(
        1.0,
        "of the detectors; an electron for each photon is wavelength / 1.24 um, like 1.25 at 1.55 um",
        unit="A/W",
        least=TINY,
        most=2.1,
    )
    bandwidth_hz: float | None = parameter(
        None,
        "of the detectors, for the laser's and electrical noise; None: the frame rate, twice that of a "
        "detector that integrates over its pass. Less than this half would mix a pass with the one before",
        unit="Hz",
        least=TINY,
    )
    dark_current: float | None = noise("of a detector", unit="A", power=-2)
    tia_noise: float | None = noise("current noise of an amplifier", "A/sqrt(Hz)", -1)
    amplifiers: str = choice(
        "detector",
        ("detector", "pair"),
        'where an amplifier, or a resistor, is: behind each "detector", or one behind each balanced "pair", '
        "which subtracts currents; noise and energy follow",
    )
    load_ohm: float | None = parameter(
        None,
        "resistor in an amplifier's place, which has thermal noise",
        unit="Ohm",
        least=TINY,
        most=math.inf,
        noise_power=2,
    )
    temperature: float = parameter(300.0, "of that resistor", unit="K", least=TINY)
    read_noise_e: float | None = noise("rms of a pixel's reading in each pass, of a camera", "electron", -1)
    well_depth_e: float | None = parameter(
        None,
        "electrons that a camera's pixel holds in a pass; more are cut off",
        unit="electron",
        least=TINY,
        most=math.inf,
        noise_power=-2,
    )
    saturation_w: float | None = parameter(
        None,
        "light on a photodiode beyond which its current stays the same",
        unit="W",
        least=TINY,
        most=math.inf,
        noise_power=-2,
    )
    cmrr_db: float | None = parameter(
        None,
        "common-mode rejection of balanced pairs: their sum appears in their difference, so much weaker; the "
        "reference's mean part is known and taken off",
        unit="dB",
        least=0,
        most=math.inf,
        noise_db=-1,
    )
    adc_bits: int | None = bits("2^b - 1 levels on [-FS, FS] for balanced signals, 2^b on [0, FS] for powers")
    adc_range: float | str = parameter(
        "auto",
        'full scale as an amplitude; "auto" is the largest of each pass, an oracle, since no converter '
        'knows it before; "fixed" the largest there can be, sqrt(rows columns), or sqrt(columns) for lens '
        '"1d"; "calibrated" is `adc_full_scale`, one number for a layer',
        kind="full_scale",
        least=TINY,
        words=("auto", "fixed", "calibrated"),
        static=True,
    )
    adc_full_scale: float | None = parameter(
        None, 'amplitude for adc_range="calibrated"; a network has one for each layer', least=TINY
    )
    adc_rounding: str = choice("nearest", ("nearest", "stochastic"), "as `dac_rounding`")

    def __post_init__(self) -> None:
        check_words(self)
        check(self, ("adc_bits",) if self.detector.balanced else ())
        if self.amplifiers == "pair" and self.detector.detectors < 2:
            raise ValueError(
                f"amplifiers='pair' needs balanced pairs, which detection={self.detection!r} does not have; "
                "use 'detector', or detection='hybrid90'"
            )
        if self.detector.detectors == 0:
            self._refuse(
                ("adc_bits", "dark_current", "tia_noise", "load_ohm", "read_noise_e"), "is no detector"
            )
            self._refuse(("well_depth_e", "saturation_w"), "is no detector")
        if not self.detector.referenced:
            self._refuse(("lo_phase_err", "lo_drift"), "has no reference")

    def _refuse(self, names: tuple[str, ...], why: str) -> None:
        """Refuses parameters that do nothing with this detection."""
        for name in names:
            value = getattr(self, name)
            if value is not None:
                raise ValueError(
                    f"detection={self.detection!r} {why}, so that {name}={value} does nothing; "
                    "choose 'hybrid90'"
                )

    @property
    def detector(self) -> Detection:
        """The way to detect."""
        return DETECTIONS[self.detection]

    @property
    def amplifiers_per_pixel(self) -> int:
        """Number of amplifiers behind a pixel's detectors."""
        return self.detector.detectors // (2 if self.amplifiers == "pair" else 1)


GROUPS = {"modulator": Modulator, "device": Device, "laser": Laser, "receiver": Receiver}
for group in GROUPS.values():
    register(group)
