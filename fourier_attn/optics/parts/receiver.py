"""The parameters of reference, detectors and converters, and the ways to detect."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, no_type_check

from fourier_attn.optics.checks import check, check_converter, check_words
from fourier_attn.optics.parameter import TINY, ByContent, bits, choice, noise, parameter


class Detection(NamedTuple):
    """Describes a detection method.

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


@no_type_check  # transformations put other things than numbers into the leaves
@dataclasses.dataclass(frozen=True, eq=False)
class Receiver(ByContent):
    """Describes the reference, the detectors and the converters.

    Electrical noise counts against the photons; so where noise is k times as strong, which is $k^2$ times
    less light, its parameters shrink by one power less than the light.
    """

    detection: str = choice("field", tuple(DETECTIONS), "detection method, a key of `DETECTIONS`")
    lo_ratio: float = parameter(
        10.0,
        "power of the reference (local oscillator) over unit intensity, at the detectors;"
        " $1 / (rows columns)$ is that of a bright pixel inside the aperture",
        least=TINY,
    )
    lo_phase_err: float | None = parameter(
        None, 'error of each phase step; not for "homodyne_re", which has one step', unit="rad"
    )
    lo_drift: float | None = noise("noise of the reference's phase, drawn in each pass", unit="rad")
    statistics: str = choice(
        "gaussian",
        ("gaussian", "poisson"),
        'distribution of the shot noise; "poisson" is exact up to 1e5 photons and Gaussian above',
    )
    # an electron for each photon at 2.6 um, where photodiodes end; `wavelength_m` sets a lower limit
    responsivity: float = parameter(
        1.0,
        "responsivity of the detectors; one electron per photon is wavelength / 1.24 um, "
        "for example 1.25 at 1.55 um",
        unit="A/W",
        least=TINY,
        most=2.1,
    )
    bandwidth_hz: float | None = parameter(
        None,
        "bandwidth of the detectors, for laser and electronic noise; None: the frame "
        "rate, which is twice the bandwidth of a detector that integrates over its pass. "
        "Less than half the frame rate mixes passes and needs `memory`",
        unit="Hz",
        least=TINY,
    )
    memory: bool = parameter(
        False,
        "lets detectors follow the light with the first-order response of the bandwidth B. A pass of the "
        "time T keeps $exp(-2 pi B T)$ of the light in the pass before; a call begins with the reference "
        "alone",
        kind="flag",
        static=True,
    )
    dark_current: float | None = noise("dark current of a detector", unit="A", power=-2)
    tia_noise: float | None = noise("current noise of an amplifier", "A/sqrt(Hz)", -1)
    amplifiers: str = choice(
        "detector",
        ("detector", "pair"),
        'position of amplifiers or load resistors: one per "detector", or one per '
        'balanced "pair", which subtracts currents first; affects noise and energy',
    )
    flicker_corner_hz: float | None = parameter(
        None,
        "frequency where an amplifier's flicker (1/f) noise equals `tia_noise`, its white noise; what is "
        "slower than a transform is the same in all of its passes",
        unit="Hz",
        least=0,
    )
    flicker_lowest_hz: float = parameter(
        1.0,
        "lowest frequency of the flicker noise of amplifiers and laser; calibration removes what is slower",
        unit="Hz",
        least=TINY,
    )
    load_ohm: float | None = parameter(
        None,
        "load resistor in place of an amplifier, with thermal noise",
        unit="Ohm",
        least=TINY,
        most=math.inf,
        noise_power=2,
    )
    temperature: float = parameter(300.0, "temperature of the load resistor", unit="K", least=TINY)
    read_noise_e: float | None = noise("read noise of a camera's pixel, drawn in each pass", "electron", -1)
    prnu_rms: float | None = noise(
        "photo-response non-uniformity: static relative gain error of each detector. A balanced pair of "
        "unequal detectors rejects less of the light on both; the reference's known part is removed"
    )
    well_depth_e: float | None = parameter(
        None,
        "electrons that a camera's pixel can hold in a pass; more are cut off",
        unit="electron",
        least=TINY,
        most=math.inf,
        noise_power=-2,
    )
    saturation_w: float | None = parameter(
        None,
        "light above which a photodiode's current stays constant",
        unit="W",
        least=TINY,
        most=math.inf,
        noise_power=-2,
    )
    cmrr_db: float | None = parameter(
        None,
        "common-mode rejection of balanced pairs: their sum leaks into their difference, "
        "attenuated by this; the reference's known mean is removed",
        unit="dB",
        least=0,
        most=math.inf,
        noise_db=-1,
    )
    adc_bits: int | None = bits(
        "bits of the detectors' converters: $2^b - 1$ levels on [-FS, FS] for balanced "
        "signals, $2^b$ on [0, FS] for powers"
    )
    adc_noise_lsb: float | None = noise(
        "noise of the converters themselves, as they see their input, rms; leaves "
        "$b - log_2(1 + 12 x^2) / 2$ effective bits of b",
        unit="LSB",
    )
    adc_inl_lsb: float | None = noise(
        "integral nonlinearity, rms: static smooth bend of each converter's thresholds about the line that "
        "fits best",
        unit="LSB",
    )
    adc_dnl_lsb: float | None = noise(
        "differential nonlinearity, rms: static error of the distance between two levels", unit="LSB"
    )
    adc_range: float | str = parameter(
        "auto",
        'full scale FS as an amplitude; "auto" is the largest of each pass, which no real'
        ' converter knows in advance; "fixed" is the largest possible one, '
        '$sqrt(rows columns)$, or $sqrt(columns)$ for lens "1d"; "calibrated" is `adc_full_scale`, one '
        "number per layer",
        kind="full_scale",
        least=TINY,
        words=("auto", "fixed", "calibrated"),
        static=True,
    )
    adc_full_scale: float | None = parameter(
        None, 'amplitude for adc_range="calibrated"; a network has one per layer', least=TINY
    )
    jitter_s: float | None = noise(
        "rms timing jitter of the detectors' converters, drawn for each number: noise of 2 pi f jitter of "
        "the signal, as for a sine at f, half the frame rate",
        unit="s",
    )
    adc_rounding: str = choice("nearest", ("nearest", "stochastic"), "like `dac_rounding`")

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
                ("adc_bits", "dark_current", "tia_noise", "load_ohm", "read_noise_e"), "is not a detector"
            )
            self._refuse(("well_depth_e", "saturation_w", "prnu_rms"), "is not a detector")
            if self.memory:
                self._refuse(("memory",), "is not a detector")
        check_converter(self, "adc_bits", ("adc_noise_lsb", "adc_inl_lsb", "adc_dnl_lsb"))
        if self.flicker_corner_hz is not None and self.tia_noise is None:
            raise ValueError(
                f"flicker_corner_hz={self.flicker_corner_hz} is where flicker noise equals tia_noise=None; "
                "give tia_noise, or leave the corner None"
            )
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
        """Returns the properties of this detection."""
        return DETECTIONS[self.detection]

    @property
    def effective_bits(self) -> Any:
        """Returns the bits of an ideal converter with as much noise; None is ideal.

            b_eff = b - log(1 + 12 x^2) / (2 log 2)

        Here x is `adc_noise_lsb`.
        """
        if self.adc_bits is None or self.adc_noise_lsb is None:
            return self.adc_bits
        return self.adc_bits - math.log2(1 + 12 * self.adc_noise_lsb**2) / 2

    @property
    def amplifiers_per_pixel(self) -> int:
        """Returns the number of amplifiers of a pixel's detectors."""
        return self.detector.detectors // (2 if self.amplifiers == "pair" else 1)
