"""The parameters of what is static and linear: patterns, misalignment, loss, drift, a measured matrix."""

import dataclasses
import math
from typing import Any, no_type_check

import numpy as np

from fourier_attn.optics import conventions
from fourier_attn.optics.checks import check, is_number
from fourier_attn.optics.parameter import TINY, measured, noise, parameter


@no_type_check  # transformations put other things than numbers into the leaves
@dataclasses.dataclass(frozen=True)
class Device:
    """Describes what is static and linear between modulators and detectors."""

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
        None, "(rows, columns) by which the input is off the axis", kind="pair", unit="pixel"
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
