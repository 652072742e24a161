"""Estimates what an engine takes: joules and seconds, line by line, and the speed-up (Amdahl).

Each price is a component of `fourier_attn.optics.components`, with a range and its source.
"""

import math
from typing import Any, NamedTuple

from fourier_attn.choices import check_choices
from fourier_attn.optics import components
from fourier_attn.optics.components import Prices
from fourier_attn.optics.data_statistics import DataStatistics
from fourier_attn.optics.drift import recalibration
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.frame import Frame, frame
from fourier_attn.optics.parameter import TINY

Number = float | int
UNKNOWN_DATA = DataStatistics()


class Energy(NamedTuple):
    """Holds an energy in J, line by line.

    Args:
      dac, modulator: of writing, once for each array and slice, and for each array of a second bank.
      hold: of modulators that need power to stay where they are, for all passes.
      laser, receiver, static: of what is on during all passes; a camera takes its part for each pixel.
      adc: of reading, in every pass.
      link, sram, hbm: of bits on their way.
      digital: of transforms that are left to electronics.
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
    digital: float

    @property
    def total(self) -> float:
        return sum(self)


class Time(NamedTuple):
    """Holds a time in s: passes, turnarounds between stages, transfer over the link, electronics."""

    optics: float
    turnaround: float
    transfer: float
    digital: float

    @property
    def total(self) -> float:
        return sum(self)


def energy(
    engine: Engine,
    frames: Number,
    *,
    prices: Prices | None = None,
    static_w: Number = 0.0,
    factors: Number = 0.0,
    lots: Number | None = None,
    digital_flops: Number = 0.0,
    digital_bytes: Number = 0.0,
    data: DataStatistics = UNKNOWN_DATA,
) -> Energy:
    """Returns the energy of a number of frames, each written S times and read in $P = M K S$ passes.

        E = frames (E_convert + E_power + E_move) (1 + o) + E_digital
        E_convert = N1 N2 (S sum_i (E_dac(b_i) + changed E_mod) + P T turns W_hold + P n_adc E_adc(b))
        E_power = P T (N1 N2 W_laser 10^(loss / 10) / wall_plug + N1 N2 n_amp W_rx + W_static / C)
        W_laser = W_signal + W_reference
        E_move = bits (E_link + 2 E_sram + E_hbm),    bits = N1 N2 (S sum_i b_i + P n_adc b)
        E_adc(b) = max(2^b E_level, 4^b E_thermal sqrt(1 + (f / f_c)^2))    and E_dac likewise
        E_digital = W_gpu max(digital_bytes / bandwidth, digital_flops / rate),    T = 1 / f

    C channels run at once, wavelengths times apertures, each with light, modulators and detectors of its own.
    So they share W_static alone, and channels that stay dark in a lot of frames are lit nevertheless.

    A second bank of modulators holds an array of its own in `factors` of the frames, and is sent and writes
    those that change. Heaters and electro-optic modulators keep a value that does not change, so that it
    takes no E_mod. With a driver's voltage, E_mod of an electro-optic modulator is $C V^2 / 2$ for the swing
    V and its capacitance C, since half of the values that change rise. Mirrors that are on or off make b bit
    of $2^b - 1$ patterns, each of them written with one bit, and again in each pass. Where patterns take
    longer than $1 / f$, T is their time.

    o is the passes of calibration for each pass of work (`fourier_attn.optics.drift.recalibration`). The M
    steps of the reference's phase and the K averages look at the array that is there, so that it is written
    once and sent once; what is read is sent as it is, raw. i runs over the two converters of a complex value
    (amplitude and phase) or the one of a real value; b is the effective bits, which flatters a converter
    whose noise is not given (`adc_noise_lsb`). A camera has its converters in E_pixel, one for each detector,
    which takes the place of T W_rx and of E_adc. Panels (liquid crystals, mirrors) bring the electronics that
    write them, and have no E_dac. The phase shifter of the reference is not here.

    Args:
      engine: the engine, with its converters, light and frame rate.
      frames: may be a mean, so need not be whole. `Plan.load` gives this and what follows of a plan.
      prices: by the names of the component library; None: typical ones.
      static_w: power that is always on besides, W. Nothing is published; 0 leaves it out.
      factors: frames in which a second bank multiplies.
      lots: of frames in which all channels run at once; None: frames / channels. A channel without a frame is
        lit and its receivers are on.
      digital_flops, digital_bytes: real operations of digital work, and bytes that cross memory for it, at
        the electronic reference's prices.
      data: statistics of what is written; by default all phases are equally likely and all values change.
        `measure_data` measures them.
    Raises: ValueError for converters without bits, for detection "field", which no detector does, and for
      numbers that cannot be.
    """
    check("frames", frames, 0)
    check("static_w", static_w, 0)
    check("factors", factors, 0, frames)
    prices = checked(prices)
    _check_data(data)
    one = frame(engine)
    if reason := no_energy(one):
        raise ValueError(reason)
    share = 1 + recalibration(engine, one.pass_s(prices))
    lots = share * _lots(lots, frames, one.channels)
    frames, factors = frames * share, factors * share
    rate_hz = 1 / one.pass_s(prices)
    written_j = sum(conversion_j("dac", bits or 0, prices, rate_hz) for bits in one.write_bits)
    read_j = conversion_j("adc", engine.receiver.effective_bits, prices, rate_hz)
    sent = factors * data.factor_changed
    shown = one.slices if one.patterns == 1 else one.passes * one.patterns
    writes = (frames * shown + sent) * one.points
    changes = (frames * shown * (data.changed if one.keeps else 1.0) + sent) * one.points
    on_s = lots * one.passes * one.pass_s(prices)
    lit_s = on_s * one.channels
    reads = frames * one.passes * one.points
    light_w = (one.signal_w + one.reference_w) * prices["setting.light"]
    supply = 10 ** (prices["laser.feed_loss_db"] / 10) / prices["laser.wall_plug"]
    receivers_w = one.points * one.amplifiers * prices["photodiode.receiver_w"]
    bits = frames * one.bits + sent * one.factor_bits
    held_s = (frames + factors) * one.passes * one.pass_s(prices)
    return Energy(
        dac=0.0 if one.panel else writes * written_j,
        modulator=changes * _switching_j(engine, one, prices),
        hold=held_s * one.points * data.turns(one.writers) * prices[f"{one.modulator}.hold_w_per_pi"],
        laser=lit_s * one.points * light_w * supply,
        receiver=reads * one.detectors * prices["camera.pixel_j"] if one.camera else lit_s * receivers_w,
        adc=0.0 if one.camera else reads * one.conversions * read_j,
        static=on_s * static_w,
        link=bits * prices["link.bit_j"],
        sram=2 * bits * prices["sram.bit_j"],
        hbm=bits * prices["hbm.bit_j"],
        digital=electronic_energy(digital_bytes, digital_flops, prices),
    )


def _switching_j(engine: Engine, one: Frame, prices: Prices) -> float:
    """Returns the energy in J that a written point takes if its values change."""
    volts = engine.modulator.drive_v
    if volts is None or one.modulator != "electro_optic":
        return len(one.writers) * prices[f"{one.modulator}.write_j"]
    one_sign = engine.modulator.encode in ("complex", "amplitude")
    swings = [volts if one_sign and name == "dac_bits_amp" else 2 * volts for name in one.writers]
    return sum(prices["electro_optic.capacitance_f"] * swing**2 / 2 for swing in swings)


def conversion_j(kind: str, bits: Number, prices: Prices, rate_hz: Number = 0.0) -> float:
    """Returns the energy of one conversion in J: by $2^b$ levels, or $4^b$ where thermal noise is the limit.

        E(b) = max(2^b E_level, 4^b E_thermal sqrt(1 + (f / f_c)^2))

    The first is Walden's figure of merit. The second is Schreier's, which falls by 10 dB for each decade of
    the rate above the corner $f_c$, the envelope in Murmann's survey of converters.

    Args:
      kind: "dac" or "adc".
      bits: effective bits b of the converter.
      prices: values by the names of the component library.
      rate_hz: conversions per second f; 0, the default, is far below the corner.
    Source: Murmann, ADC Performance Survey, https://github.com/bmurmann/ADC-survey.
    """
    faster = math.hypot(1.0, rate_hz / prices["converter.corner_hz"])
    return max(2.0**bits * prices[f"{kind}.level_j"], 4.0**bits * prices["converter.thermal_j"] * faster)


def _lots(lots: Number | None, frames: Number, channels: int) -> Number:
    """Returns the lots of frames; None: as many as full channels take."""
    if lots is None:
        return frames / channels
    check("lots", lots, 0)
    return lots


POSITIVE = (
    "converter.corner_hz",
    "laser.wall_plug",
    "link.bytes_per_s",
    "setting.frame_rate",
    "gpu.bytes_per_s",
    "gpu.flop_per_s",
)


def checked(prices: Prices | None) -> Prices:
    """Returns prices, which are typical where they are None.

    Args:
      prices: by the names of the component library.
    Raises: ValueError for a component without a price, and for prices that cannot be.
    """
    if prices is None:
        return components.prices()
    known = components.library()
    check_choices("prices: component", sorted(prices), known)
    if missing := sorted(known.keys() - prices.keys()):
        raise ValueError(f"prices lack {', '.join(missing)}; start from all, components.prices() | changes")
    for name, value in prices.items():
        check(name, value, TINY if name in POSITIVE else 0, 1.0 if name == "laser.wall_plug" else math.inf)
    return prices


def _check_data(data: DataStatistics) -> None:
    check("amp_turns", data.amp_turns, 0, 1)
    check("phase_turns", data.phase_turns, 0, 2)
    check("changed", data.changed, 0, 1)
    check("factor_changed", data.factor_changed, 0, 1)


def no_energy(one: Frame) -> str:
    """Returns why an engine has no energy, or "".

    Args:
      one: a frame of the engine.
    """
    if one.conversions == 0:
        return "detection='field' is not a detector, so has no energy; choose 'hybrid90' or 'psi4'"
    if name := one.ideal_converter:
        return (
            f"{name}=None is an ideal converter, which no energy is enough for; give it bits, "
            f"engine.replace({name}=8)"
        )
    return ""


def seconds(
    engine: Engine,
    frames: Number,
    *,
    prices: Prices | None = None,
    engines: int = 1,
    stages: Number = 0,
    factors: Number = 0.0,
    lots: Number | None = None,
    digital_flops: Number = 0.0,
    digital_bytes: Number = 0.0,
    data: DataStatistics = UNKNOWN_DATA,
) -> Time:
    """Returns the time that a number of frames takes.

        t = (lots P T / engines + stages turnaround + bytes / bandwidth) (1 + o) + t_digital
        t_digital = max(digital_bytes / bandwidth, digital_flops / rate)   of the electronic reference

    o is the passes of calibration for each pass of work (`fourier_attn.optics.drift.recalibration`). The
    four follow each other, which is pessimistic where transfer and passes overlap. The engines share the
    link. Ideal converters count as float32.

    Args:
      engine: the engine, with its converters and frame rate.
      frames: transforms of one aperture; can be a mean.
      prices: by the names of the component library; None: typical ones.
      engines: that work side by side.
      stages: how often results must be back before the next frames can be written.
      factors, lots, digital_flops, digital_bytes, data: as `energy` has them.
    Raises: ValueError for numbers that cannot be.
    """
    check("frames", frames, 0)
    check("factors", factors, 0, frames)
    check("stages", stages, 0)
    check("engines", engines, 1)
    prices = checked(prices)
    _check_data(data)
    one = frame(engine)
    share = 1 + recalibration(engine, one.pass_s(prices))
    lots = share * _lots(lots, frames, one.channels)
    frames, stages, factors = frames * share, stages * share, factors * share
    bits = frames * one.bits + factors * data.factor_changed * one.factor_bits
    return Time(
        optics=lots * one.passes * one.pass_s(prices) / engines,
        turnaround=stages * prices["link.turnaround_s"],
        transfer=bits / 8 / prices["link.bytes_per_s"],
        digital=electronic_seconds(digital_bytes, digital_flops, prices),
    )


def electronic_energy(moved_bytes: Number = 0.0, flop: Number = 0.0, prices: Prices | None = None) -> float:
    """Returns the energy of a GPU in J: its power for as long as the slower of memory and arithmetic takes.

        E = W max(bytes / bandwidth, flop / rate)

    For a complex float32 transform that is read and written once, 16 bytes per point.

    Args:
      moved_bytes: bytes that cross its memory; default 0.
      flop: real operations; default 0.
      prices: values by the names of the component library; None: typical ones.
    Raises: ValueError for negative numbers.
    """
    prices = checked(prices)
    return prices["gpu.power_w"] * electronic_seconds(moved_bytes, flop, prices)


def electronic_seconds(moved_bytes: Number, flop: Number, prices: Prices) -> float:
    """Returns the time of a GPU in s: that of its memory or of its arithmetic, whichever is longer.

    Args:
      moved_bytes: bytes that cross its memory.
      flop: real operations.
      prices: values by the names of the component library.
    Raises: ValueError for negative numbers.
    """
    check("moved_bytes", moved_bytes, 0)
    check("flop", flop, 0)
    return max(moved_bytes / prices["gpu.bytes_per_s"], flop / prices["gpu.flop_per_s"])


def speedup(fraction: Number, acceleration: Number, overhead: Number = 0.0) -> float:
    """Returns by how much the whole becomes faster: $1 / ((1 - f) + f / a + o)$. Below 1 it becomes slower.

    Args:
      fraction: f, share of the time that is accelerated.
      acceleration: a, times faster that part becomes; may be `math.inf`.
      overhead: o, time added (conversion, transfer), as a share of the original time. What is gained is lost
        at $o = f (1 - 1 / a)$.
    Raises: ValueError for numbers that cannot be.
    Source: Amdahl 1967. A share of 0.3 that takes no time any more gives 1.43, the articles' "around 40 %"
      for FNet.
    """
    check("fraction", fraction, 0, 1)
    check("acceleration", acceleration, TINY)
    check("overhead", overhead, 0)
    rest = 1 - fraction + fraction / acceleration + overhead
    return math.inf if rest == 0 else 1 / rest


def check(name: str, value: Any, least: Number, most: Number = math.inf) -> None:
    """Checks that a number is in its range.

    Args:
      name: of the number, for the message.
      value: the number.
      least, most: its range, both included; most is infinite by default.
    Raises: ValueError for a number that is out of its range.
    """
    if not least <= value <= most:  # not a number included
        low = "positive" if least == TINY else f"at least {least:g}"
        high = f" and at most {most:g}" if most < math.inf else ""
        raise ValueError(f"{name}={value} must be {low}{high}")
