"""The parameters of the light."""

import dataclasses
import math
from typing import no_type_check

from fourier_attn.optics.checks import check
from fourier_attn.optics.parameter import TINY, noise, parameter


@no_type_check  # transformations put other things than numbers into the leaves
@dataclasses.dataclass(frozen=True)
class Laser:
    """Describes the light: its power, how that varies, and its wavelength."""

    power_w: float | None = parameter(
        None,
        'power of a pixel that is written with 1 ("unit intensity"), as it leaves the '
        "modulators; None: unlimited light, hence no shot noise and no electronic noise",
        unit="W",
        least=TINY,
        most=math.inf,
        noise_power=-2,  # shot noise is the root of the photons
    )
    wavelength_m: float | None = parameter(
        None,
        "vacuum wavelength of the light, for the energy of photons; a responsivity above one "
        "electron per photon is refused. None: neither",
        unit="m",
        least=TINY,
        most=1e-3,
    )
    rin_db_hz: float | None = parameter(
        None,
        "relative intensity noise of signal and reference, drawn once per pass",
        unit="dB/Hz",
        least=-math.inf,
        noise_db=1,
    )
    power_drift_rms: float | None = noise("slow relative drift of the power")
    drift_corr: float = parameter(
        1000.0,
        "correlation length of the power's drift",
        unit="pass",
        least=TINY,
        most=math.inf,
    )

    def __post_init__(self) -> None:
        check(self)
