"""The numbers that the field reports: photons and joules per multiply-accumulate, TOPS per W and per area.

A frame counts as the dense product that it replaces: $n^2$ complex multiply-accumulates (MAC) for n points,
of 8 real operations each, 4 products and 4 sums. A real input halves the operations, and so does a result
whose real part alone is read. An FFT would take 5 n log2 n of them.
"""

import dataclasses
import math
from typing import NamedTuple

from fourier_attn.optics import cost
from fourier_attn.optics.checks import is_number
from fourier_attn.optics.coherence import is_coherent
from fourier_attn.optics.components import Prices
from fourier_attn.optics.constants import photon_j
from fourier_attn.optics.drift import recalibration
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.frame import frame
from fourier_attn.optics.link_budget import Link, electrons, link_budget
from fourier_attn.optics.pipeline import Pipeline, pipeline

MOVED = ("link", "sram", "hbm")  # the lines of energy that move data
POWERED = ("hold", "laser", "static")  # those of parts that take their power whether a frame passes or not
SETTINGS = ("setting.light", "setting.frame_rate")


class Area(NamedTuple):
    """Holds areas in square metres: modulators, writing and reading converters, receivers, the laser.

    Args:
      modulators, writers, receivers, readers, laser: of the parts; panels and cameras bring their
        electronics. Splitters, and the phase shifters of the reference, are not here. The lens is above the
        chip, or behind it.
    """

    modulators: float
    writers: float
    receivers: float
    readers: float
    laser: float

    @property
    def total(self) -> float:
        return sum(self)


@dataclasses.dataclass(frozen=True)
class Budget:
    """Holds the budget of one frame of an engine. A MAC is a complex multiply-accumulate.

    Args:
      link: light, from the laser to the noise of what is read.
      pipeline: time, stage after stage.
      area: of the parts, in square metres.
      energy: joules of a frame, line by line; None for converters without bits.
      no_energy: why there is none, or "".
      macs: complex MACs of the dense product.
      operations_per_mac: real operations of one of them.
      fft_operations: real operations of a fast Fourier transform.
      optical_s: time of all passes, in which each channel takes a frame, s.
      always_on_j: joules of a frame if laser, receivers and modulators that hold are on for the period of
        overlapping frames, and not for the passes alone; None without energy.
      more_passes: passes of calibration for each pass of work.
      signal_photons, reference_photons: detected per MAC; each is a photo-electron.
      photon_j: energy of a photon, J.
      laser_j: optical energy at the laser's output per MAC, J.
      wall_plug_j: electrical energy of the laser per MAC, J.
    """

    link: Link
    pipeline: Pipeline
    area: Area
    energy: cost.Energy | None
    no_energy: str
    macs: float
    operations_per_mac: int
    fft_operations: float
    optical_s: float
    always_on_j: float | None
    more_passes: float
    signal_photons: float
    reference_photons: float
    photon_j: float
    laser_j: float
    wall_plug_j: float

    @property
    def operations(self) -> float:
        """Returns the real operations of the dense product."""
        return self.macs * self.operations_per_mac

    @property
    def _at_once(self) -> float:
        return self.operations * self.pipeline.channels

    @property
    def photons_per_product(self) -> float:
        """Returns the signal's photons per real product, of which a complex MAC has up to four."""
        return 2 * self.signal_photons / self.operations_per_mac

    @property
    def signal_j(self) -> float:
        """Returns the optical energy of the detected signal per MAC, J."""
        return self.signal_photons * self.photon_j

    @property
    def detected_j(self) -> float:
        """Returns the optical energy of detected signal and reference per MAC, J."""
        return (self.signal_photons + self.reference_photons) * self.photon_j

    @property
    def electrical_j(self) -> float | None:
        """Returns the electrical energy per MAC, J."""
        return None if self.energy is None else self.energy.total / self.macs

    @property
    def processor_j(self) -> float | None:
        """Returns the electrical energy per MAC without link and memory, J."""
        if self.energy is None:
            return None
        return (self.energy.total - sum(getattr(self.energy, name) for name in MOVED)) / self.macs

    @property
    def peak_tops(self) -> float:
        """Returns tera-operations per second of overlapping frames while the link keeps up."""
        return self._at_once / self.pipeline.engine_s / (1 + self.more_passes) / 1e12

    @property
    def sustained_tops(self) -> float:
        """Returns tera-operations per second of overlapping frames, at the rate of the slowest part."""
        return self._at_once / self.pipeline.period_s / (1 + self.more_passes) / 1e12

    @property
    def sequential_tops(self) -> float:
        """Returns tera-operations per second if each frame waits for the one before."""
        return self._at_once / self.pipeline.latency_s / (1 + self.more_passes) / 1e12

    @property
    def tops_per_w(self) -> float | None:
        """Returns tera-operations per joule of all electrical energy."""
        return None if self.electrical_j is None else self.operations_per_mac / self.electrical_j / 1e12

    @property
    def processor_tops_per_w(self) -> float | None:
        """Returns tera-operations per joule without link and memory."""
        return None if self.processor_j is None else self.operations_per_mac / self.processor_j / 1e12

    @property
    def watts(self) -> float | None:
        """Returns the electrical power at the rate of `sustained_tops`, with what is always on, W."""
        if self.always_on_j is None:
            return None
        return self.always_on_j * self.pipeline.channels / self.pipeline.period_s / (1 + self.more_passes)

    @property
    def always_on_tops_per_w(self) -> float | None:
        """Returns sustained tera-operations per second over `watts`."""
        return None if self.always_on_j is None else self.operations / self.always_on_j / 1e12

    @property
    def tops_per_mm2(self) -> float:
        """Returns peak tera-operations per second and square millimetre."""
        return self.peak_tops / (1e6 * self.area.total) if self.area.total else math.inf


def budget(engine: Engine, prices: Prices | None = None, level: float | None = None) -> Budget:
    """Returns light, time, energy and area of one frame, in the units that the field reports.

        MACs = n^2,    operations = 2 p_in p_out MACs
        photons per MAC = P n n_e / MACs
        TOPS = C operations / period,    TOPS/W = operations / E,    TOPS/mm^2 = TOPS / area
        E_on = E + (E_hold + E_laser + E_static + E_rx) (period / (P T) - 1),    watts = C E_on / period

    Complex numbers have two parts and real ones have one: $p_in$ those that are written, $p_out$ those that
    are read. n is the number of pixels; for lens "1d", each row of n pixels has $n^2$ MACs. P is the number
    of passes of a frame, T the time of a pass, C the number of channels, and E the energy of `cost.energy`,
    whose light and receivers are on for the passes alone. They are always on in $E_on$, but for a camera,
    whose energy is that of its readings. The electrons of a pixel in a pass are $n_e$.

        >>> from fourier_attn.optics import budget, preset
        >>> chip = budget(preset("chip_11x11"))
        >>> f"{chip.macs:.0f} complex MACs of {chip.operations_per_mac} operations, {chip.pipeline.bound}"
        '14641 complex MACs of 8 operations, link'

    Args:
      engine: the engine, with light and a wavelength.
      prices: by the names of the component library; None: typical ones.
      level: mean intensity of a written pixel, over that of 1, above 0 to 1; None: that of numbers that are
        spread evenly over the modulators' range.
    Raises: ValueError for an engine without a detector, light or wavelength, for light that is partially
      coherent, for a level or prices that cannot be, and for a frame rate that typical modulators do not
      follow.
    """
    prices = cost.checked(prices)
    _check(engine, prices, level)
    one = frame(engine)
    link = link_budget(engine, prices, level)
    macs = _macs(engine)
    parts = (2 if engine.modulator.encode in ("complex", "phase") else 1) * (
        1 if engine.receiver.detection == "homodyne_re" else 2
    )
    points_log = one.points * math.log2(one.points if engine.lens == "2d" else engine.shape[1])
    optical_s = one.passes * one.pass_s(prices)
    signal_photons, reference_photons = _per_mac(engine, link.signal_e, link.reference_e)
    laser_j = link.laser_w * optical_s / macs / one.channels
    stages, no_energy = pipeline(engine, prices), cost.no_energy(one)
    energy = None if no_energy else cost.energy(engine, 1, prices=prices)
    return Budget(
        link=link,
        pipeline=stages,
        area=area(engine, prices),
        energy=energy,
        no_energy=no_energy,
        macs=macs,
        operations_per_mac=2 * parts,
        fft_operations=5 * points_log * parts / 4,
        optical_s=optical_s,
        always_on_j=None if energy is None else _always_on(energy, one.camera, stages.period_s / optical_s),
        more_passes=float(recalibration(engine, one.pass_s(prices))),
        signal_photons=signal_photons,
        reference_photons=reference_photons,
        photon_j=photon_j(engine.laser.wavelength_m),
        laser_j=laser_j,
        wall_plug_j=laser_j / prices["laser.wall_plug"],
    )


def photons_per_mac(engine: Engine, level: float | None = None) -> tuple[float, float]:
    """Returns the detected photons per complex MAC, of the signal and of the reference.

        >>> from fourier_attn.optics import preset
        >>> signal, reference = photons_per_mac(preset("chip_11x11"))
        >>> f"{signal:.0f} and {reference:.0f}"
        '271 and 8156'

    Args:
      engine: the engine, with light; no wavelength is needed.
      level: as `budget` has it.
    Raises: ValueError for an engine without a detector or light, for light that is partially coherent, and
      for a level that cannot be.
    """
    _check_light(engine, level)
    return _per_mac(engine, *electrons(engine, level))


def _per_mac(engine: Engine, signal_e: float, reference_e: float) -> tuple[float, float]:
    """Returns photons per MAC, from the electrons of a pixel in a pass."""
    lit = 2 / 3 if engine.receiver.detection == "linear3" else 1.0  # one pass of three has no reference
    counted = math.prod(engine.shape) * engine.passes / _macs(engine)
    return signal_e * counted, reference_e * counted * lit


def _macs(engine: Engine) -> float:
    """Returns the complex MACs of the dense product that a frame replaces."""
    rows, columns = engine.shape
    return float((rows * columns) ** 2 if engine.lens == "2d" else rows * columns**2)


def _always_on(energy: cost.Energy, camera: bool, longer: float) -> float:
    """Returns the joules of a frame if parts that are on for the passes are on for so many times as long."""
    lines = POWERED if camera else (*POWERED, "receiver")
    return energy.total + (longer - 1) * sum(getattr(energy, name) for name in lines)


def area(engine: Engine, prices: Prices) -> Area:
    """Returns the area of the parts in square metres.

    Each modulator has a writing converter, and each detected number a reading one. Each detector has an
    amplifier, or a balanced pair shares one. Each channel has its own parts, and each wavelength its laser.

    Args:
      engine: the engine.
      prices: by the names of the component library.
    """
    one = frame(engine)
    points = one.channels * one.points
    numbers = points * len(one.writers)
    detector_m2 = prices["camera.area_m2" if one.camera else "photodiode.area_m2"]
    amplifiers_m2 = 0.0 if one.camera else one.amplifiers * prices["amplifier.area_m2"]
    return Area(
        modulators=numbers * prices[f"{one.modulator}.area_m2"],
        writers=0.0 if one.panel else numbers * prices["dac.area_m2"],
        receivers=points * (one.detectors * detector_m2 + amplifiers_m2),
        readers=0.0 if one.camera else points * one.conversions * prices["adc.area_m2"],
        laser=engine.channels.wavelengths * prices["laser.area_m2"],
    )


def _check(engine: Engine, prices: Prices, level: float | None) -> None:
    _check_light(engine, level)
    if engine.laser.wavelength_m is None:
        raise ValueError(
            "wavelength_m=None leaves the energy of a photon open; give one, like "
            "engine.replace(wavelength_m=1.55e-6)"
        )
    for name in SETTINGS:
        if prices[name] != 1:
            raise ValueError(f"{name}={prices[name]:g} must be 1 here; change the engine's own value instead")


def _check_light(engine: Engine, level: float | None) -> None:
    if engine.detector.detectors == 0:
        raise ValueError(
            f"detection={engine.receiver.detection!r} is not a detector, so no light is counted; choose "
            "'hybrid90' or 'psi4'"
        )
    if engine.laser.power_w is None:
        raise ValueError("power_w=None is unlimited light, which has no budget; give power_w")
    if not is_coherent(engine):
        raise ValueError(
            "source_pixels and line_width_rms make light partially coherent, which has no link budget; set "
            "them None"
        )
    if level is not None and not (is_number(level) and 0 < level <= 1):
        raise ValueError(f"level={level!r} must be above 0 and at most 1")
