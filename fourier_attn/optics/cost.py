"""What an engine would take: joules and seconds, line by line, and what is left of a speed-up (Amdahl).

Each price is a component of `fourier_attn.optics.components`, with a range and its source.
"""

import math
from typing import Any, NamedTuple

from fourier_attn.optics import components
from fourier_attn.optics.checks import TINY
from fourier_attn.optics.components import Prices
from fourier_attn.optics.drift import recalibration
from fourier_attn.optics.parameters import Engine, watts

IDEAL_BITS = 32  # of a number that no converter has touched
SLOW_HZ = 1e6  # below: heaters and cameras, where the engine does not name its parts
Number = float | int


class Energy(NamedTuple):
    """Joules.

    Args:
      dac, modulator: of writing, once for each array and slice.
      hold: of modulators that need power to stay where they are, for all passes.
      laser, receiver, static: of what is on during all passes; a camera takes its part for each pixel.
      adc: of reading, in every pass.
      link, sram, hbm: of bits on their way.
    """

    dac: float
    modulator: float
    hold: float
    laser: float
    receiver: float
    adc: float
    static: float
    link: float
    sram: float
    hbm: float

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


class Frame(NamedTuple):
    """One transform of one aperture, as its parts see it.

    Args:
      points: pixels.
      writers: the parameters with the bits of the converters that write a point.
      write_bits: theirs; None is an ideal converter.
      turns: phase that a written point holds in the mean, in units of pi.
      slices: arrays that are written. Steps of the reference's phase and averages look at the same array.
      passes: through the engine.
      conversions: of a point in one pass; 0 where nothing detects.
      read_bits: theirs.
      pass_hz: passes per second, were the modulators fast enough.
      signal_w: optical power of a pixel that is written with 1, as it leaves the modulators.
      reference_w: optical power of the reference for one pixel, at the modulators' end.
      modulator, receiver: names of components.
    """

    points: int
    writers: tuple[str, ...]
    write_bits: tuple[int | None, ...]
    turns: float
    slices: int
    passes: int
    conversions: int
    read_bits: int | None
    pass_hz: float
    signal_w: float
    reference_w: float
    modulator: str
    receiver: str

    def pass_s(self, prices: Prices) -> float:
        """Seconds of one pass: the frame rate's, or what the modulators need."""
        return max(1 / (self.pass_hz * prices["setting.frame_rate"]), prices[f"{self.modulator}.settle_s"])

    @property
    def bits(self) -> int:
        """That cross the link: what is written, once, and every conversion."""
        written = self.slices * sum(bits or IDEAL_BITS for bits in self.write_bits)
        return self.points * (
            written + self.passes * (self.conversions or 2) * (self.read_bits or IDEAL_BITS)
        )


TURNS = {"dac_bits_amp": 0.5, "dac_bits_phase": 1.0}  # means of [0, pi] and of [0, 2 pi], in units of pi


def frame(engine: Engine) -> Frame:
    """What one transform of one aperture asks of the parts."""
    writers = _writers(engine)
    detector = engine.detector
    signal_w, detected = _power(engine)
    return Frame(
        points=engine.shape[0] * engine.shape[1],
        writers=writers,
        write_bits=tuple(getattr(engine.modulator, name) for name in writers),
        turns=sum(TURNS[name] for name in writers),
        slices=engine.slices,
        passes=engine.passes,
        conversions=detector.converters,
        read_bits=engine.receiver.adc_bits,
        pass_hz=engine.frame_rate_hz,
        signal_w=signal_w,
        reference_w=detected * engine.receiver.lo_ratio
        if detector.referenced
        else 0.0,  # on a path without loss
        modulator=modulator(engine),
        receiver=receiver(engine),
    )


def modulator(engine: Engine) -> str:
    """The kind of its modulators; where it is not said, by what they write and how fast."""
    if engine.modulator.kind is not None:
        return engine.modulator.kind
    if engine.modulator.encode == "amplitude":
        return "micromirror"
    return "thermo_optic" if engine.frame_rate_hz < SLOW_HZ else "electro_optic"


def receiver(engine: Engine) -> str:
    """The kind of its receivers; where they hold no electrons, by how fast they are read."""
    if engine.receiver.well_depth_e is not None or engine.receiver.read_noise_e is not None:
        return "camera"
    return "camera" if engine.frame_rate_hz < SLOW_HZ else "photodiode"


def _power(engine: Engine) -> tuple[float, float]:
    """Watts of unit intensity as they leave the modulators, and as they are detected.

    Where the engine has none: for the photons that shot noise asks for, 10^((6.02 b + 1.76) / 10) in all
    passes of one detection, of those that the zero order has.
    """
    if engine.detector.detectors == 0:
        return 0.0, 0.0
    photons = engine.photons
    if photons is None:
        bits = engine.receiver.adc_bits or IDEAL_BITS
        photons = 10 ** ((6.02 * bits + 1.76) / 10) / engine.detector.passes / float(engine.zero_order) ** 2
    detected_w = watts(photons, engine.frame_rate_hz, engine.receiver.responsivity)
    return detected_w / engine.device.transmission, detected_w


def energy(engine: Engine, frames: Number, *, prices: Prices | None = None, static_w: Number = 0.0) -> Energy:
    """Energy of so many frames (transforms of one aperture), each written S times, read in P = M K S passes.

        E = frames {N1 N2 [S sum_i (2^b_i E_dac + E_mod) + P T turns W_hold + P n_adc 2^b E_adc]
            + P T [(N1 N2) (W_signal + W_reference) 10^(loss / 10) / wall_plug + N1 N2 n_adc W_rx + W_static]
            + bits (E_link + 2 E_sram + E_hbm)} (1 + o)
        bits = N1 N2 (S sum_i b_i + P n_adc b),    T = max(1 / f, settling time)

    o is the passes of calibration for each pass of work (`fourier_attn.optics.drift.recalibration`). The M
    steps of the reference's phase and the K averages look at the array that is there, so that it is written
    once and sent once; what is read is sent as it is, raw. i runs over the two converters of a complex value
    (amplitude and phase) or the one of a real value; b counts as the effective number of bits, which flatters
    the converter. A camera has its converters in E_pixel, which takes the place of T W_rx and of E_adc.
    Twiddles and other digital work are not here, nor is the phase shifter of the reference.

    Args:
      frames: may be a mean, so need not be whole.
      prices: by the names of the component library; None: typical ones.
      static_w: power that is always on besides, W. Nothing is published; 0 leaves it out.
    Raises: ValueError for converters without bits, for detection "field", which no detector does, and for
      numbers that cannot be.
    """
    check("frames", frames, 0)
    check("static_w", static_w, 0)
    prices = _checked(prices)
    one = frame(engine)
    frames = frames * (1 + recalibration(engine, one.pass_s(prices)))
    if one.conversions == 0:
        raise ValueError("detection='field' is no detector, so has no energy; choose 'hybrid90' or 'psi4'")
    dac_levels = [2.0 ** _known(*pair) for pair in zip(one.writers, one.write_bits, strict=True)]
    adc_levels = 2.0 ** _known("adc_bits", one.read_bits)
    writes = frames * one.slices * one.points
    on_s = frames * one.passes * one.pass_s(prices)
    reads = frames * one.passes * one.points * one.conversions
    light_w = (one.signal_w + one.reference_w) * prices["setting.light"]
    supply = 10 ** (prices["laser.feed_loss_db"] / 10) / prices["laser.wall_plug"]
    camera = one.receiver == "camera"
    receivers_w = one.points * one.conversions * prices["photodiode.receiver_w"]
    bits = frames * one.bits
    return Energy(
        dac=writes * sum(dac_levels) * prices["dac.level_j"],
        modulator=writes * len(dac_levels) * prices[f"{one.modulator}.write_j"],
        hold=on_s * one.points * one.turns * prices[f"{one.modulator}.hold_w_per_pi"],
        laser=on_s * one.points * light_w * supply,
        receiver=reads * prices["camera.pixel_j"] if camera else on_s * receivers_w,
        adc=0.0 if camera else reads * adc_levels * prices["adc.level_j"],
        static=on_s * static_w,
        link=bits * prices["link.bit_j"],
        sram=2 * bits * prices["sram.bit_j"],
        hbm=bits * prices["hbm.bit_j"],
    )


POSITIVE = ("laser.wall_plug", "link.bytes_per_s", "setting.frame_rate", "gpu.bytes_per_s", "gpu.flop_per_s")


def _checked(prices: Prices | None) -> Prices:
    if prices is None:
        return components.prices()
    for name, value in prices.items():
        check(name, value, TINY if name in POSITIVE else 0, 1.0 if name == "laser.wall_plug" else math.inf)
    return prices


def _writers(engine: Engine) -> tuple[str, ...]:
    """The parameters with the bits of the converters that write a point."""
    if engine.modulator.encode == "complex":
        return ("dac_bits_amp", "dac_bits_phase")
    if engine.modulator.encode == "phase":
        return ("dac_bits_phase",)
    return ("dac_bits_amp",)


def _known(name: str, bits: int | None) -> int:
    if bits is None:
        raise ValueError(
            f"{name}=None is an ideal converter, which no energy is enough for; give it bits, "
            f"engine.replace({name}=8)"
        )
    return bits


def seconds(
    engine: Engine,
    frames: Number,
    *,
    prices: Prices | None = None,
    engines: int = 1,
    stages: Number = 0,
) -> Time:
    """Time of so many frames: t = (frames P T / engines + stages turnaround + bytes / bandwidth) (1 + o).

    o is the passes of calibration for each pass of work (`fourier_attn.optics.drift.recalibration`). The
    three follow each other, which is pessimistic where transfer and passes overlap. The engines share the
    link. Ideal converters count as float32.

    Args:
      prices: by the names of the component library; None: typical ones.
      engines: that work side by side.
      stages: how often results must be back before the next frames can be written.
    Raises: ValueError for numbers that cannot be.
    """
    check("frames", frames, 0)
    check("stages", stages, 0)
    check("engines", engines, 1)
    prices = _checked(prices)
    one = frame(engine)
    share = 1 + recalibration(engine, one.pass_s(prices))
    frames, stages = frames * share, stages * share
    return Time(
        optics=frames * one.passes * one.pass_s(prices) / engines,
        turnaround=stages * prices["link.turnaround_s"],
        transfer=frames * one.bits / 8 / prices["link.bytes_per_s"],
    )


def electronic_energy(moved_bytes: Number = 0.0, flop: Number = 0.0, prices: Prices | None = None) -> float:
    """Joules of a GPU: its power for as long as the slower of memory and arithmetic takes.

        E = W max(bytes / bandwidth, flop / rate)

    For a complex float32 transform that is read and written once, 16 bytes per point.

    Raises: ValueError for negative numbers.
    """
    check("moved_bytes", moved_bytes, 0)
    check("flop", flop, 0)
    prices = _checked(prices)
    slower = max(moved_bytes / prices["gpu.bytes_per_s"], flop / prices["gpu.flop_per_s"])
    return prices["gpu.power_w"] * slower


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
    check("fraction", fraction, 0, 1)
    check("acceleration", acceleration, TINY)
    check("overhead", overhead, 0)
    rest = 1 - fraction + fraction / acceleration + overhead
    return math.inf if rest == 0 else 1 / rest


def check(name: str, value: Any, least: Number, most: Number = math.inf) -> None:
    """Raises ValueError for a number that is out of its range."""
    if not least <= value <= most:  # not a number included
        low = "positive" if least == TINY else f"at least {least:g}"
        high = f" and at most {most:g}" if most < math.inf else ""
        raise ValueError(f"{name}={value} must be {low}{high}")
