"""The parameters of what is static and linear: patterns, misalignment, loss, drift, a measured matrix."""

import dataclasses
import math
from typing import Any, no_type_check

import numpy as np

from fourier_attn.optics import conventions
from fourier_attn.optics.checks import check, is_number
from fourier_attn.optics.parameter import TINY, ByContent, crosstalk, measured, noise, parameter

# Static effects that a measured transfer holds.
STATIC = (
    "static_phase_rms",
    "static_gain_rms",
    "crosstalk_db",
    "shift_pitch",
    "defocus_rad",
    "defocus_m",
    "fill_factor",
    "vignetting_db",
    "pupil_radius",
    "stop_radius",
    "zernike_rad",
    "pitch_error",
    "rotation_rad",
    "output_shift_pitch",
)


@no_type_check  # transformations put other things than numbers into the leaves
@dataclasses.dataclass(frozen=True, eq=False)
class Device(ByContent):
    """Describes what is static and linear between modulators and detectors."""

    static_phase_rms: float | None = noise(
        "fixed pattern of phase errors that calibration leaves, before and after the lens together",
        unit="rad",
    )
    static_gain_rms: float | None = noise(
        "fixed pattern of relative gain errors that calibration leaves, before and after the lens together"
    )
    # four neighbours share the light, so that less than a quarter goes to each
    crosstalk_db: float | None = crosstalk(
        "power that couples to each of the four neighbours, before and after the lens",
        most=-6.1,
    )
    shift_pitch: tuple[float, float] | None = parameter(
        None, "offset (rows, columns) of the input from the optical axis", kind="pair", unit="pixel"
    )
    defocus_rad: float | None = parameter(
        None,
        "quadratic phase at half (rounded down) of the aperture's longer side from its middle",
        unit="rad",
    )
    defocus_m: float | None = parameter(
        None,
        "distance z of the modulators from the focal plane: Fresnel's phase $-pi lambda z f^2 / p^2$ at the "
        "frequency f in cycles per pixel; needs `wavelength_m` and `pixel_pitch_m`",
        unit="m",
    )
    pixel_pitch_m: float | None = parameter(
        None, "distance p between modulators, for `defocus_m`", unit="m", least=TINY, most=1.0
    )
    zernike_rad: tuple[float, ...] | None = parameter(
        None,
        "rms phases of Zernike's aberrations in Noll's order from the second one: tip, tilt, defocus, two of "
        "astigmatism, two of coma, two trefoils, spherical. The circle goes through the aperture's corners",
        kind="row",
        unit="rad",
        most=10,
    )
    vignetting_db: float | None = parameter(
        None,
        "loss at half (rounded down) of the aperture's longer side from its middle, which falls with the "
        "square of the radius to 0 in the middle; the light is lost, and a correction raises the noise with "
        "the signal",
        unit="dB",
        least=0,
    )
    pupil_radius: float | None = parameter(
        None,
        "radius where the lens' Gaussian pupil transmits the amplitude $1 / e$, in halves (rounded "
        "down) of the aperture's longer side; modulators and detectors, of the same pitch there, are in the "
        "focal planes",
        least=0.01,
        most=math.inf,
    )
    stop_radius: float | None = parameter(
        None,
        "radius of a round stop with a hard edge at the modulators, in halves (rounded down) of the "
        "aperture's longer side. Light outside is lost, and a pixel at the edge keeps the share of its "
        "amplitude that is inside",
        least=0.01,
        most=math.inf,
    )
    pitch_error: float | None = parameter(
        None,
        "relative error e of the detectors' pitch: they are at the frequencies (1 + e) k / N",
        least=-0.5,
        most=1.0,
    )
    rotation_rad: float | None = parameter(
        None,
        'rotation of the detectors against the modulators, about the optical axis; not for lens="1d"',
        unit="rad",
        least=-math.pi / 4,
        most=math.pi / 4,
    )
    output_shift_pitch: tuple[float, float] | None = parameter(
        None, "offset (rows, columns) of the detectors from the optical axis", kind="pair", unit="pixel"
    )
    fill_factor: float | None = parameter(
        None,
        "bright share F of a pixel's width. Detectors see the zero order, with "
        "$sqrt(F) sinc(F f)$ of the pixel's amplitude on each axis that the lens transforms; higher"
        " orders take the rest. The factor $sqrt(F)$ is undone digitally, with its noise, "
        "and $sinc(F f)$ is not",
        least=TINY,
        most=1.0,
    )
    insertion_loss_db: float | None = parameter(
        None, "loss from modulators to detectors; undone digitally", unit="dB", least=0
    )
    phase_drift_rms: float | None = noise(
        "long-term drift of each pixel's phase, before and after the lens together; see `drift_time_s`",
        unit="rad",
    )
    gain_drift_rms: float | None = noise(
        "long-term relative drift of each pixel's gain, before and after the lens together"
    )
    drift_time_s: float = parameter(
        3600.0,
        "correlation time $tau$ of the drift; its variance at time t after a calibration is"
        " $2 rms^2 (1 - exp(-t / tau))$",
        unit="s",
        least=TINY,
    )
    drift_length_pitch: float | None = parameter(
        None,
        "correlation length l of the drift over pixels: drifts of pixels that are m rows and n columns apart "
        "correlate by $exp(-(m + n) / l)$; None: they are independent",
        unit="pixel",
        least=TINY,
    )
    age_s: float = parameter(
        0.0, "time since the first calibration; then nothing has drifted", unit="s", least=0
    )
    recalibrate_s: float | None = parameter(
        None, "time between calibrations, which remove the drift so far", unit="s", least=TINY, most=math.inf
    )
    calibration_probes: float | None = parameter(
        None,
        "arrays that a calibration writes, which cost time and energy; None: two for each pixel",
        least=1,
    )
    seed: int = parameter(
        0,
        "seed of the static pattern and of its drift, and of nothing else",
        kind="seed",
        least=-(2**31),  # a key is made of 32 bits
        most=2**31 - 1,
    )
    file: str | None = parameter(
        None,
        "file of a measured device: .npz with `transfer` and optionally `drive_table`, or"
        " .npy with the transfer alone. It is read when a configuration is built; in "
        "Python use `Engine.from_file`",
        kind="file",
        static=True,
    )
    transfer: Any = measured(
        "measured matrix (pixels, pixels), with a row for each written pixel and a column"
        " for each detected one; includes the lens, excludes the insertion loss, and "
        "replaces the other static effects",
        "matrix",
    )

    def __post_init__(self) -> None:
        check(self)
        if (
            self.drift_length_pitch is not None
            and self.phase_drift_rms is None
            and self.gain_drift_rms is None
        ):
            raise ValueError(
                f"drift_length_pitch={self.drift_length_pitch} correlates a drift, which is off; give "
                "phase_drift_rms or gain_drift_rms, or leave it None"
            )
        if self.transfer is None:
            return
        for name in STATIC:
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
        """Returns the share eta of the power that arrives."""
        return 1.0 if self.insertion_loss_db is None else 10.0 ** (-self.insertion_loss_db / 10)
