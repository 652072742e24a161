"""The parameters of the light."""

import dataclasses
import math
from typing import no_type_check

from fourier_attn.optics.checks import check
from fourier_attn.optics.parameter import TINY, ByContent, choice, noise, parameter, whole

MOST_MODES = 64  # of a source on an axis, or of a line


@no_type_check  # transformations put other things than numbers into the leaves
@dataclasses.dataclass(frozen=True, eq=False)
class Laser(ByContent):
    """Describes the light: its power, how that varies, its wavelength and its coherence."""

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
    rin_corner_hz: float | None = parameter(
        None,
        "frequency where the flicker (1/f) noise of the laser's power equals the white `rin_db_hz`; it is "
        "correlated from pass to pass, down to `flicker_lowest_hz`",
        unit="Hz",
        least=0,
    )
    power_drift_rms: float | None = noise("slow relative drift of the power")
    drift_corr: float = parameter(
        1000.0,
        "correlation length of the power's drift",
        unit="pass",
        least=TINY,
        most=math.inf,
    )

    detuning: float | None = parameter(
        None,
        "relative difference of the wavelength from that of the design, lambda / lambda0 - 1. The transform "
        "grows with the wavelength, so that the detector of frequency k sees k lambda0 / lambda",
        least=-0.4,
        most=1.0,
    )
    source_pixels: float | None = parameter(
        None,
        "size of the source in its image at the detectors, on each axis that the lens transforms: width of a "
        "uniform one, standard deviation of a Gaussian one. Light of each of its points is tilted, does not "
        "interfere with that of others, and lands as many pixels away; None: a point",
        unit="pixel",
        least=0,
    )
    source_shape: str = choice("gaussian", ("gaussian", "uniform"), "shape of the source")
    source_modes: int = whole(
        5,
        "points that stand for the source on each axis; their powers add, and 1 is coherent",
        most=MOST_MODES,
    )
    line_width_rms: float | None = parameter(
        None,
        "relative standard deviation of the wavelength in the line, which is Gaussian; None: no width",
        least=0,
        most=0.02,
    )
    line_modes: int = whole(
        5,
        "wavelengths that stand for the line; their powers add, and 1 is coherent",
        most=MOST_MODES,
    )
    path_difference: float | None = parameter(
        None,
        "difference of the optical paths of signal and reference; its mean phase is calibrated. A line of "
        "finite width loses visibility with it",
        unit="wavelength",
    )

    def __post_init__(self) -> None:
        check(self)
        if self.path_difference is not None and self.line_width_rms is None:
            raise ValueError(
                f"path_difference={self.path_difference} needs line_width_rms, without which light of all "
                "paths is coherent; set both, or neither"
            )
        if self.rin_corner_hz is not None and self.rin_db_hz is None:
            raise ValueError(
                f"rin_corner_hz={self.rin_corner_hz} is where flicker noise equals rin_db_hz, which is None; "
                "give it, or leave the corner None"
            )
