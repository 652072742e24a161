"""What an engine would take: joules and seconds, line by line, and what is left of a speed-up (Amdahl).

Each number is a field with a default, its unit and where it comes from: "assumed" is an order of magnitude
that nobody has published for such an engine, "recalled" a datasheet's figure that was not looked up again.
"""

import math
from typing import Any, NamedTuple

from fourier_attn.optics.checks import TINY
from fourier_attn.optics.groups import Modulator, Receiver
from fourier_attn.optics.parameters import Engine

PLANCK_J_S = 6.62607015e-34  # exact, SI
LIGHT_M_S = 299792458.0  # exact, SI
Number = float | int


class Converters(NamedTuple):
    """Converters and modulators.

    Args:
      dac_j, adc_j: J per conversion and level, so that one of b bit takes 2^b times that (Walden's figure of
        merit P / (2^ENOB f)). Assumed, for GHz rates; 35 fJ is published for 10 bit at 160 MS/s.
      modulator_j: J per written value. Assumed; 200 fJ/bit is published for a travelling-wave Mach-Zehnder
        modulator (Baehr-Jones 2012), 1 to 7 fJ/bit for microrings (Dube-Demers 2016).
      adc_per_point: conversions of one point in all passes of one detection; None: as the emulator converts,
        `DETECTIONS` (psi4: 4; hybrid90: 2, one for each balanced pair).
    """

    dac_j: float = 50e-15
    adc_j: float = 50e-15
    modulator_j: float = 1e-12
    adc_per_point: int | None = None


class Laser(NamedTuple):
    """The light.

    Args:
      wavelength_m: assumed, the telecommunication band.
      wall_plug: optical over electrical power. Assumed.
      loss_db: laser to detector, dB, where the engine's `insertion_loss_db` is None. Assumed.
      photons: detected per point in all passes of one detection; None: what shot noise asks for,
        10^((6.02 b + 1.76) / 10) for b = `adc_bits`.
      reference_loss_db: of the reference's path, dB; the reference has `lo_ratio` times the photons. None
        leaves it out, 0 is the least that it can take.
    """

    wavelength_m: float = 1.55e-6
    wall_plug: float = 0.1
    loss_db: float = 15.0
    photons: float | None = None
    reference_loss_db: float | None = None


class Link(NamedTuple):
    """The way to the engine and back.

    Args:
      bytes_per_s: recalled, PCI Express 4.0 with 16 lanes, one direction at a time.
      joule_per_byte: assumed to be what the electronic reference pays for a byte, 400 W / 1.4 TB/s.
      turnaround_s: from the last value that is read to the first that is written, for each stage. Assumed.
    """

    bytes_per_s: float = 32e9
    joule_per_byte: float = 400 / 1.4e12
    turnaround_s: float = 1e-6


class Electronics(NamedTuple):
    """The electronic reference: an A100 GPU at its thermal design power, not measured.

    Args:
      watts: recalled datasheet.
      bytes_per_s: of its memory, recalled: 1.4 TB/s achieved of 1.555.
      flop_per_s: float16 on tensor cores at the peak, recalled datasheet; 19.5e12 for float32 without them.
    """

    watts: float = 400.0
    bytes_per_s: float = 1.4e12
    flop_per_s: float = 312e12


CONVERTERS = Converters()
LASER = Laser()
LINK = Link()
A100 = Electronics()


class Energy(NamedTuple):
    """Joules."""

    dac: float
    modulator: float
    adc: float
    laser: float
    static: float
    data_movement: float

    @property
    def total(self) -> float:
        return sum(self)


class Time(NamedTuple):
    """Seconds: passes through the engine, turnarounds between stages, transfer over the link."""

    optics: float
    turnaround: float
    transfer: float

    @property
    def total(self) -> float:
        return sum(self)


def energy(
    engine: Engine,
    frames: Number,
    *,
    converters: Converters = CONVERTERS,
    laser: Laser = LASER,
    static_w: Number = 0.0,
    link: Link = LINK,
) -> Energy:
    """Energy of so many frames (transforms of one aperture), each in M x K x S passes.

        E = frames K S {N1 N2 [M sum_i (F_dac 2^b_i + E_mod) + n_adc F_adc 2^ENOB + E_ph] + M P / f} + E_link
        E_ph = n_ph (h c / lambda) 10^(loss / 10) / wall_plug

    M passes of the detection write the data anew each, K averages and S slices do everything anew; i runs
    over the two converters of a complex value (amplitude and phase) or the one of a real value; ENOB =
    `adc_bits`, which flatters the converter. The photons n_ph are those of all M passes together.

    The golden table of tests/test_optics_cost.py has 2 M writing conversions and as many modulator symbols
    per point (psi4: 8, hybrid90: 2), `adc_per_point=4` for both (psi4: one in each pass; hybrid90: all four
    detectors, where the emulator converts two balanced pairs), light once per frame, and no reference light,
    static power or data movement.

    Args:
      frames: may be a mean, so need not be whole.
      static_w: power that is always on, W. Nothing is published; 0 leaves it out.
    Raises: ValueError for converters without bits, for detection "field", which no detector does, and for
      numbers that cannot be.
    """
    _check_energy({"frames": frames, "static_w": static_w}, converters, laser, link)
    detector = engine.detector
    if detector.detectors == 0:
        raise ValueError("detection='field' is no detector, so has no energy; choose 'hybrid90' or 'psi4'")
    dac_levels = [2.0**b for b in dac_bits(engine)]
    adc_levels = 2.0 ** _bits(engine.receiver, "adc_bits")
    points = engine.shape[0] * engine.shape[1]
    shots = engine.averages * engine.slices * frames
    written = points * shots * detector.passes
    reads = converters.adc_per_point
    if reads is None:
        reads = detector.passes * detector.converters
    read = points * shots * reads
    return Energy(
        dac=written * sum(dac_levels) * converters.dac_j,
        modulator=written * len(dac_levels) * converters.modulator_j,
        adc=read * adc_levels * converters.adc_j,
        laser=points * shots * _light(engine, laser),
        static=frames * engine.passes * static_w / engine.frame_rate_hz,
        data_movement=link_bytes(engine, frames) * link.joule_per_byte,
    )


def _check_energy(numbers: dict[str, Any], *parts: Any) -> None:
    for part in parts:
        numbers = numbers | {name: value for name, value in part._asdict().items() if value is not None}
    for name, value in numbers.items():
        least = TINY if name in ("wavelength_m", "wall_plug", "bytes_per_s") else 0
        _check(name, value, least, 1.0 if name == "wall_plug" else math.inf)


def _light(engine: Engine, laser: Laser) -> float:
    """J for the light of one point in one detection."""
    photons = laser.photons
    if photons is None:
        photons = 10 ** ((6.02 * _bits(engine.receiver, "adc_bits") + 1.76) / 10)
    loss = laser.loss_db if engine.device.insertion_loss_db is None else engine.device.insertion_loss_db
    factor = 10 ** (loss / 10)
    if laser.reference_loss_db is not None and engine.detector.referenced:
        factor += engine.receiver.lo_ratio * 10 ** (laser.reference_loss_db / 10)
    return photons * PLANCK_J_S * LIGHT_M_S / laser.wavelength_m * factor / laser.wall_plug


def dac_bits(engine: Engine) -> tuple[int, ...]:
    """Bits of each converter that writes a point: amplitude, phase, or both.

    Raises: ValueError where one of them is None.
    """
    return tuple(_bits(engine.modulator, name) for name in _writers(engine))


def _writers(engine: Engine) -> tuple[str, ...]:
    """The parameters with the bits of the converters that write a point."""
    if engine.modulator.encode == "complex":
        return ("dac_bits_amp", "dac_bits_phase")
    if engine.modulator.encode == "phase":
        return ("dac_bits_phase",)
    return ("dac_bits_amp",)


def _bits(group: Modulator | Receiver, name: str) -> int:
    bits = getattr(group, name)
    if bits is None:
        raise ValueError(
            f"{name}=None is an ideal converter, which no energy is enough for; give it bits, "
            f"engine.replace({name}=8)"
        )
    return bits


def link_bytes(engine: Engine, frames: Number) -> float:
    """Bytes of all conversions of so many frames, packed; ideal converters count as float32.

    Raw samples: what a pass writes and reads crosses the link, M x K x S times for each frame.
    """
    written = sum(getattr(engine.modulator, name) or 32 for name in _writers(engine))
    read = (engine.detector.converters or 2) * (engine.receiver.adc_bits or 32)
    bits = written + read
    return frames * engine.passes * engine.shape[0] * engine.shape[1] * bits / 8


def seconds(
    engine: Engine,
    passes: Number,
    *,
    engines: int = 1,
    stages: Number = 0,
    transfer_bytes: Number = 0.0,
    link: Link = LINK,
) -> Time:
    """Time of so many passes: t = passes / (f engines) + stages turnaround + bytes / bandwidth.

    The three follow each other, which is pessimistic where transfer and passes overlap. The engines share
    the link.

    Args:
      engines: that work side by side.
      stages: how often results must be back before the next frames can be written.
      transfer_bytes: over the link, both ways together, see `link_bytes`.
    Raises: ValueError for numbers that cannot be.
    """
    _check("passes", passes, 0)
    _check("stages", stages, 0)
    _check("transfer_bytes", transfer_bytes, 0)
    _check("turnaround_s", link.turnaround_s, 0)
    _check("engines", engines, 1)
    _check("bytes_per_s", link.bytes_per_s, TINY)
    return Time(
        optics=passes / engine.frame_rate_hz / engines,
        turnaround=stages * link.turnaround_s,
        transfer=transfer_bytes / link.bytes_per_s,
    )


def electronic_energy(
    moved_bytes: Number = 0.0, flop: Number = 0.0, electronics: Electronics = A100
) -> float:
    """Joules of the reference: its power for as long as the slower of memory and arithmetic takes.

        E = W max(bytes / bandwidth, flop / rate)

    For a complex float32 transform that is read and written once, 16 bytes per point.

    Raises: ValueError for negative numbers.
    """
    _check("moved_bytes", moved_bytes, 0)
    _check("flop", flop, 0)
    _check("bytes_per_s", electronics.bytes_per_s, TINY)
    _check("flop_per_s", electronics.flop_per_s, TINY)
    return electronics.watts * max(moved_bytes / electronics.bytes_per_s, flop / electronics.flop_per_s)


def speedup(fraction: Number, acceleration: Number, overhead: Number = 0.0) -> float:
    """Times faster the whole becomes: 1 / ((1 - f) + f / a + o). Below 1 it becomes slower.

    Args:
      fraction: f, share of the time that is accelerated.
      acceleration: a, times faster that part becomes; may be `math.inf`.
      overhead: o, time added (conversion, transfer), as a share of the original time. What is gained is lost
        at o = f (1 - 1 / a).
    Raises: ValueError for numbers that cannot be.
    Source: Amdahl 1967. f = 0.3 and a = inf give 1.43, the articles' "around 40 %" for FNet.
    """
    _check("fraction", fraction, 0, 1)
    _check("acceleration", acceleration, TINY)
    _check("overhead", overhead, 0)
    rest = 1 - fraction + fraction / acceleration + overhead
    return math.inf if rest == 0 else 1 / rest


def _check(name: str, value: Number, least: Number, most: Number = math.inf) -> None:
    if not least <= value <= most:  # not a number included
        low = "positive" if least == TINY else f"at least {least:g}"
        high = f" and at most {most:g}" if most < math.inf else ""
        raise ValueError(f"{name}={value} must be {low}{high}")
