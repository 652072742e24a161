"""The frame: one transform of one aperture, counted in writes, passes, conversions, bits and light.

`fourier_attn.optics.cost` multiplies these counts by prices, `fourier_attn.optics.pipeline` by times, and
`fourier_attn.optics.field_units` by areas.
"""

from typing import NamedTuple

from fourier_attn.optics import components
from fourier_attn.optics.components import Prices
from fourier_attn.optics.engine_spec import Engine, watts
from fourier_attn.optics.parts import MODULATOR_TYPES

IDEAL_BITS = 32  # bits of a number without a converter
SLOW_HZ = 1e6  # frame rate below which the default parts are heaters and cameras
PANELS = ("liquid_crystal", "micromirror")  # their prices include the electronics that write them


class Frame(NamedTuple):
    """Describes one transform of one aperture from the view of its parts.

    Args:
      points: pixels.
      writers: the parameters with the bits of the converters that write a point.
      write_bits: theirs; None is an ideal converter.
      patterns: for each written point, $2^b - 1$ of mirrors that are on or off, else 1.
      slices: arrays that are written. Steps of the reference's phase and averages look at the same array.
      passes: through the engine.
      detectors: of a point; 0 for detection "field", which has no detectors.
      conversions: of a point in one pass, one for a balanced pair.
      amplifiers: of a point.
      read_bits: theirs.
      channels: frames that run at once, on modulators and detectors of their own.
      pass_hz: passes per second, were the modulators fast enough.
      signal_w: optical power of a pixel that is written with 1, as it leaves the modulators.
      reference_w: optical power of the reference for one pixel, at the modulators' end.
      modulator, receiver: names of components.
      keeps: whether modulators keep a value without being written again.
    """

    points: int
    writers: tuple[str, ...]
    write_bits: tuple[int | None, ...]
    patterns: int
    slices: int
    passes: int
    detectors: int
    conversions: int
    amplifiers: int
    read_bits: int | None
    channels: int
    pass_hz: float
    signal_w: float
    reference_w: float
    modulator: str
    receiver: str
    keeps: bool

    @property
    def panel(self) -> bool:
        """Says whether the modulators are a panel, which includes its converters."""
        return self.modulator in PANELS

    @property
    def camera(self) -> bool:
        """Says whether the receivers are a camera, each of whose pixels brings its converter."""
        return self.receiver == "camera"

    @property
    def ideal_converter(self) -> str | None:
        """Returns the parameter of the first converter without bits, which has no energy; None: all have."""
        bits = {**dict(zip(self.writers, self.write_bits, strict=True)), "adc_bits": self.read_bits}
        return next((name for name, value in bits.items() if value is None), None)

    def pass_s(self, prices: Prices) -> float:
        """Returns the seconds of one pass: those of the frame rate, in which detectors integrate.

        Where they are more, those in which the modulators settle, once for each pattern. A frame rate that is
        raised by its setting, or modulators that are slower than typical ones, change a pass by no more.

        Raises: ValueError for a frame rate that typical modulators do not follow.
        """
        name = f"{self.modulator}.settle_s"
        lit, typical = 1 / self.pass_hz, components.typical(prices)[name]
        if typical > (1 + 1e-9) * lit:
            raise ValueError(
                f"frame_rate_hz={self.pass_hz:g} allows {lit:.3g} s per pass, less than {name}="
                f"{typical:.3g} s; lower frame_rate_hz, or give faster modulators with --components=FILE.toml"
            )
        settle = min(prices[name], lit) * self.patterns
        return max(lit / prices["setting.frame_rate"], settle)

    @property
    def bits(self) -> int:
        """Counts the bits that cross the link: what is written, once, and every conversion."""
        read = self.passes * (self.conversions or 2) * (self.read_bits or IDEAL_BITS)
        return self.points * (self.slices * self.point_bits + read)

    @property
    def factor_bits(self) -> int:
        """Counts the bits that cross the link for a second bank, which holds its array for all slices."""
        return self.points * self.point_bits

    @property
    def point_bits(self) -> int:
        """Counts the bits of a number that is written."""
        return sum(bits or IDEAL_BITS for bits in self.write_bits)


def frame(engine: Engine) -> Frame:
    """Returns the counts of one transform of one aperture."""
    writers = _writers(engine)
    detector, kind = engine.detector, modulator(engine)
    signal_w, detected = _power(engine)
    return Frame(
        points=engine.shape[0] * engine.shape[1],
        writers=writers,
        write_bits=tuple(getattr(engine.modulator, name) for name in writers),
        patterns=MODULATOR_TYPES[kind].patterns(engine.modulator.dac_bits_amp),
        slices=engine.slices,
        passes=engine.passes,
        detectors=detector.detectors,
        conversions=detector.converters,
        amplifiers=engine.receiver.amplifiers_per_pixel,
        read_bits=engine.receiver.adc_bits,
        channels=engine.channels.count,
        pass_hz=engine.frame_rate_hz,
        signal_w=signal_w,
        # on a path without loss
        reference_w=detected * engine.receiver.lo_ratio if detector.referenced else 0.0,
        modulator=kind,
        receiver=receiver(engine),
        keeps=MODULATOR_TYPES[kind].keeps,
    )


def modulator(engine: Engine) -> str:
    """Returns the type of the modulators; if it is not set, from their encoding and frame rate."""
    if engine.modulator.kind is not None:
        return engine.modulator.kind
    mirrors = MODULATOR_TYPES["micromirror"]
    patterns_hz = engine.frame_rate_hz * mirrors.patterns(engine.modulator.dac_bits_amp)
    if engine.modulator.encode == "amplitude" and patterns_hz <= mirrors.speed_hz:
        return "micromirror"
    return "thermo_optic" if engine.frame_rate_hz < SLOW_HZ else "electro_optic"


def receiver(engine: Engine) -> str:
    """Returns the type of the receivers; without a well depth it follows from the frame rate."""
    if engine.receiver.well_depth_e is not None or engine.receiver.read_noise_e is not None:
        return "camera"
    return "camera" if engine.frame_rate_hz < SLOW_HZ else "photodiode"


def _power(engine: Engine) -> tuple[float, float]:
    """Returns the watts of unit intensity as they leave the modulators, and as they are detected.

    An engine without a power gets enough light for its b bits. In all passes of one detection, the zero
    order then has $10^((6.02 b + 1.76) / 10)$ photons, so shot noise is as large as the rounding noise.
    """
    if engine.detector.detectors == 0:
        return 0.0, 0.0
    photons = engine.photons
    if photons is None:
        bits = engine.receiver.adc_bits or IDEAL_BITS
        photons = 10 ** ((6.02 * bits + 1.76) / 10) / engine.detector.passes / float(engine.zero_order) ** 2
    detected_w = watts(photons, engine.frame_rate_hz, engine.receiver.responsivity)
    return detected_w / engine.device.transmission, detected_w


def _writers(engine: Engine) -> tuple[str, ...]:
    """Returns the parameters with the bits of the converters that write a point."""
    if engine.modulator.encode == "complex":
        return ("dac_bits_amp", "dac_bits_phase")
    if engine.modulator.encode == "phase":
        return ("dac_bits_phase",)
    return ("dac_bits_amp",)
