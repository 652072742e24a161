"""The parameters of a Fourier-optical engine: default, unit, range, and how they grow with the noise."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, no_type_check

import jax

from fourier_attn.optics.checks import LARGEST, TINY, check

ELECTRON_C = 1.602176634e-19  # exact, SI


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


class Parameter(NamedTuple):
    """What a parameter can be.

    Args:
      kind: "number"; "count", whole; "bits", whole or None; "pair" of numbers; "choice" among the words;
        "full_scale", a number or one of the words; "other".
      unit: of the value; "" for none.
      least, most: its range; infinite values switch an effect off.
      words: that are allowed.
      noise_power: noise k times as strong is the value times k to this power; None: it is no noise.
      noise_db_most: noise k times as strong is the value + 20 log10(k) dB, this at most; None: it is no such.
      static: whether the compiled program depends on it; all others may be traced.
    """

    kind: str = "number"
    unit: str = ""
    least: float | int = -LARGEST
    most: float | int = LARGEST
    words: tuple[str, ...] = ()
    noise_power: int | None = None
    noise_db_most: float | None = None
    static: bool = False


def _choice(*words: str) -> Parameter:
    return Parameter("choice", words=words, static=True)


def _bits() -> Parameter:
    return Parameter("bits", "bit", 1, 24, static=True)


def _relative(unit: str = "") -> Parameter:
    """Noise whose amplitude is the value."""
    return Parameter(unit=unit, least=0, noise_power=1)


PARAMETERS: Mapping[str, Parameter] = {
    "shape": Parameter("pair", "pixel", 1, static=True),
    "lens": _choice("2d", "1d"),
    "centered": Parameter("other", static=True),
    "encode": _choice("complex", "signed", "amplitude", "phase"),
    "dac_bits_amp": _bits(),
    "dac_bits_phase": _bits(),
    "dac_range": Parameter("full_scale", least=TINY, words=("auto",), static=True),
    "dac_rounding": _choice("nearest", "stochastic"),
    "extinction_db": Parameter(unit="dB", least=0, most=math.inf),
    "phase_noise_rms": _relative("rad"),
    "amp_noise_rms": _relative(),
    "static_phase_rms": _relative("rad"),
    "static_gain_rms": _relative(),
    # four neighbours share the light, so that less than a quarter goes to each
    "crosstalk_db": Parameter(unit="dB", least=-math.inf, most=-6.1, noise_db_most=-6.2),
    "shift_pitch": Parameter("pair", "pixel"),
    "defocus_rad": Parameter(unit="rad"),
    "fill_factor": Parameter(least=0, most=1.0),
    "insertion_loss_db": Parameter(unit="dB", least=0),
    "rin_db_hz": Parameter(unit="dB/Hz", least=-math.inf, noise_db_most=math.inf),
    "bandwidth_hz": Parameter(unit="Hz", least=TINY),
    "power_drift_rms": _relative(),
    "drift_corr": Parameter(unit="pass", least=TINY, most=math.inf),
    "detection": _choice(*DETECTIONS),
    "lo_ratio": Parameter(least=TINY),
    "lo_phase_err": Parameter(unit="rad"),
    "lo_drift": _relative("rad"),
    # shot noise is the root of the photons; electrical noise counts against them, so it shrinks by one power
    "photons_fs": Parameter(unit="electron", least=TINY, most=math.inf, noise_power=-2),
    "statistics": _choice("gaussian", "poisson"),
    "responsivity": Parameter(unit="A/W", least=TINY),
    "dark_current": Parameter(unit="A", least=0, noise_power=-2),
    "tia_noise": Parameter(unit="A/sqrt(Hz)", least=0, noise_power=-1),
    "load_ohm": Parameter(unit="Ohm", least=TINY, most=math.inf, noise_power=2),
    "temperature": Parameter(unit="K", least=TINY),
    "adc_bits": _bits(),
    "adc_range": Parameter("full_scale", least=TINY, words=("auto", "fixed"), static=True),
    "adc_rounding": _choice("nearest", "stochastic"),
    "averages": Parameter("count", "pass", 1, 1_000_000, static=True),
    "slices": Parameter("count", "pass", 1, 64, static=True),  # more digits than a float32 has bits
    "frame_rate_hz": Parameter(unit="Hz", least=TINY),
    "device_seed": Parameter("other"),
    "dc_block": Parameter("other", static=True),
    "backward": _choice("model", "ideal", "optical", "surrogate"),
    "hardware": Parameter("other", static=True),
}


@no_type_check  # transformations put other things than numbers into the leaves
@dataclasses.dataclass(frozen=True)
class Engine:
    """Parameters of a Fourier-optical engine; None is ideal, or off. `Engine()` is the exact transform.

    Signals are scaled so that the largest written amplitude is 1; powers are relative to such a pixel
    ("unit intensity"). Bits and modes are static; strengths (all floats) and `device_seed` are leaves of a
    pytree, so that one compilation serves a sweep over them.

    Args:
      shape: (rows, columns) of the aperture, in pixels.
      lens: "2d" is spherical; "1d" is cylindrical and transforms each row (the last axis).
      centered: optical axis in the middle of the array, fftshift(F(ifftshift(x))), as in free space.
      encode: what a modulator writes. "complex" amplitude and phase; "signed" real numbers; "amplitude"
        real numbers from 0 up; "phase" the phase alone, with amplitude 1.
      dac_bits_amp, dac_bits_phase: of the modulators, bit. Amplitudes have 2^b levels on [0, 1] for
        "complex" and "amplitude", 2^b - 1 on [-1, 1] for "signed"; phases 2^b around the circle.
      dac_range: the amplitude that is written as 1; "auto" is the largest of each aperture.
      dac_rounding, adc_rounding: "nearest" (ties to even) or "stochastic" (unbiased, 3 dB more noise).
      extinction_db: of the Mach-Zehnder modulators, dB of power.
      phase_noise_rms, amp_noise_rms: of a modulator in each pass, rad and relative.
      static_phase_rms, static_gain_rms: fixed pattern left after calibration, before and after the lens
        together, rad and relative; drawn from `device_seed`.
      crosstalk_db: power coupled to each of the four neighbours, before and after the lens, dB.
      shift_pitch: (rows, columns) by which the input stands off the axis, pixels.
      defocus_rad: quadratic phase at the middle of the aperture's edge, rad.
      fill_factor: bright share of a pixel's width; apodises the output by sinc.
      insertion_loss_db: modulator to detector, dB; undone digitally. `photons_fs` counts what is left.
      rin_db_hz, bandwidth_hz: relative intensity noise of the laser, dB/Hz, and the detector's bandwidth,
        Hz (None: the frame rate, twice that of a detector that integrates over its pass). One draw for a
        whole pass, on signal and reference.
      power_drift_rms, drift_corr: slow drift of the laser's power, relative, and its correlation, passes.
      detection: a key of `DETECTIONS`.
      lo_ratio: power of the reference (local oscillator) over unit intensity; 1 / (rows columns) is that of
        a bright pixel inside the aperture.
      lo_phase_err, lo_drift: error of each phase step, rad (none for "homodyne_re", which has one), and rms
        of the reference's phase in a pass, rad.
      photons_fs: photo-electrons that unit intensity gives in one pass; None: no shot noise.
      statistics: of the shot noise; "poisson" is exact up to 1e5 photons and Gaussian above.
      responsivity, dark_current, tia_noise, load_ohm, temperature: electrical noise, A/W, A, A/sqrt(Hz),
        Ohm, K; needs `photons_fs` and `frame_rate_hz` for its scale.
      adc_bits: bit; 2^b - 1 levels on [-FS, FS] for balanced signals, 2^b on [0, FS] for powers.
      adc_range: full scale as an amplitude; "auto" is the largest of each pass, which a converter would have
        to know before; "fixed" the largest there can be, sqrt(rows columns), or sqrt(columns) for "1d".
      averages: passes that are averaged.
      slices: digits in which an array is written, a pass each: what the modulators' levels left over is
        written next, at full scale. Bits of the modulators add up, those of the detectors do not.
      frame_rate_hz: passes per second.
      device_seed: draws what is static. Never mixed with the key, which draws what changes between passes.
      dc_block: the mean is removed before and added after digitally; not where a factor multiplies.
      backward: derivative. "model" goes through the static device and the clips, straight through the
        quantisers; "ideal" is the exact transform's; "optical" sends the cotangent through the noisy engine
        (the transform is its own transpose); "surrogate" runs `hardware` forward and "model" backward.
      hardware: function of a NumPy array (..., rows, columns) that returns its transform, for "surrogate".
    Units: in the names, or above.
    Raises: ValueError for a parameter that is out of range or unknown.
    """

    shape: tuple[int, int] = (11, 11)
    lens: str = "2d"
    centered: bool = False
    encode: str = "complex"
    dac_bits_amp: int | None = None
    dac_bits_phase: int | None = None
    dac_range: float | str = "auto"
    dac_rounding: str = "nearest"
    extinction_db: float | None = None
    phase_noise_rms: float | None = None
    amp_noise_rms: float | None = None
    static_phase_rms: float | None = None
    static_gain_rms: float | None = None
    crosstalk_db: float | None = None
    shift_pitch: tuple[float, float] | None = None
    defocus_rad: float | None = None
    fill_factor: float | None = None
    insertion_loss_db: float | None = None
    rin_db_hz: float | None = None
    bandwidth_hz: float | None = None
    power_drift_rms: float | None = None
    drift_corr: float = 1000.0
    detection: str = "field"
    lo_ratio: float = 10.0
    lo_phase_err: float | None = None
    lo_drift: float | None = None
    photons_fs: float | None = None
    statistics: str = "gaussian"
    responsivity: float = 1.0
    dark_current: float | None = None
    tia_noise: float | None = None
    load_ohm: float | None = None
    temperature: float = 300.0
    adc_bits: int | None = None
    adc_range: float | str = "auto"
    adc_rounding: str = "nearest"
    averages: int = 1
    slices: int = 1
    frame_rate_hz: float = 1e9
    device_seed: int = 0
    dc_block: bool = False
    backward: str = "model"
    hardware: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        check(self, PARAMETERS)

    @property
    def detector(self) -> Detection:
        """The way to detect."""
        return DETECTIONS[self.detection]

    @property
    def passes(self) -> int:
        """Passes that one transform of one aperture takes."""
        return self.detector.passes * self.averages * self.slices

    @property
    def noisy(self) -> bool:
        """Whether a pass draws random numbers, so that it needs a key."""
        written = self.dac_bits_amp is not None or self.dac_bits_phase is not None
        if self.dac_rounding == "stochastic" and written:
            return True
        if self.adc_rounding == "stochastic" and self.adc_bits is not None:
            return True
        names = ["phase_noise_rms", "amp_noise_rms", "rin_db_hz", "power_drift_rms", "lo_drift", "photons_fs"]
        return any(getattr(self, name) is not None for name in names)

    @property
    def scale_free(self) -> bool:
        """Whether nothing depends on how large the signal is: no levels, no reference, no noise."""
        levels = (self.dac_bits_amp, self.dac_bits_phase, self.adc_bits, self.extinction_db)
        if self.noisy or any(value is not None for value in levels):
            return False
        if self.encode != "complex" or self.dac_range != "auto" or self.adc_range != "auto":
            return False
        # a balanced pair subtracts what the reference adds
        return self.detector.balanced or not self.detector.referenced

    @property
    def linear(self) -> bool:
        """Whether the result is the field, or a part of it, rather than a power."""
        return self.detector.linear

    def replace(self, **changes: Any) -> "Engine":
        """This engine with other parameters."""
        if unknown := set(changes) - {field.name for field in dataclasses.fields(self)}:
            raise ValueError(
                f"an engine has no {', '.join(sorted(unknown))}; "
                f"it has {', '.join(field.name for field in dataclasses.fields(self))}"
            )
        return dataclasses.replace(self, **changes)

    def with_power(self, watts: float) -> "Engine":
        """This engine with `photons_fs` for so much detected power of unit intensity: resp P T / q."""
        return self.replace(photons_fs=self.responsivity * watts / self.frame_rate_hz / ELECTRON_C)

    def whole_field(self) -> "Engine":
        """This engine, with "hybrid90" where it would detect the real part alone."""
        return self.replace(detection="hybrid90") if self.detection == "homodyne_re" else self

    def ideal(self) -> "Engine":
        """The exact transform with this engine's aperture, lens and detected quantity."""
        powers = ("intensity", "amplitude", "homodyne_re")
        return Engine(
            shape=self.shape,
            lens=self.lens,
            centered=self.centered,
            encode="complex" if self.encode == "phase" else self.encode,
            detection=self.detection if self.detection in powers else "field",
        )


STATIC = [name for name, parameter in PARAMETERS.items() if parameter.static]
TRACED = [name for name, parameter in PARAMETERS.items() if not parameter.static]
jax.tree_util.register_dataclass(Engine, TRACED, STATIC)
