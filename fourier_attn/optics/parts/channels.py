"""The parameters of channels that share a pass: wavelengths through one lens, and apertures side by side."""

import dataclasses
from typing import no_type_check

from fourier_attn.optics.checks import check, is_number
from fourier_attn.optics.parameter import ByContent, crosstalk, parameter, whole

MOST = 4_096  # channels of a kind


@no_type_check  # transformations put other things than numbers into the leaves
@dataclasses.dataclass(frozen=True, eq=False)
class Channels(ByContent):
    """Describes the channels of a pass, each with its own modulators and detectors."""

    wavelengths: int = whole(
        1,
        "number of wavelengths that pass the same lens at once. Each carries one aperture, with modulators, "
        "detectors and light (`power_w`) of its own",
        most=MOST,
    )
    channel_spacing: float | None = parameter(
        None,
        "relative distance of neighbouring wavelengths, (lambda[1] - lambda[0]) / lambda. They lie around the"
        " design wavelength. A lens transforms each of them at its own scale; None: the same scale",
        least=0,
        most=0.1,
    )
    channel_crosstalk_db: float | None = crosstalk(
        "power of a wavelength that reaches the detectors of each neighbouring one, signal and reference "
        "alike. Different wavelengths do not interfere, so that the readings add",
        most=-3.1,
    )
    apertures: int = whole(
        1,
        "number of apertures side by side, each with a lens, modulators and detectors of its own",
        most=MOST,
    )
    aperture_crosstalk_db: float | None = crosstalk(
        "power that couples to the same pixel of each neighbouring aperture. It has a "
        "static random phase, so that fields add",
        most=-3.1,
    )

    def __post_init__(self) -> None:
        check(self)
        for name, count in (
            ("channel_spacing", "wavelengths"),
            ("channel_crosstalk_db", "wavelengths"),
            ("aperture_crosstalk_db", "apertures"),
        ):
            value = getattr(self, name)
            if value is not None and getattr(self, count) == 1:
                raise ValueError(f"{name}={value} needs neighbours, but {count}=1; raise {count}")
        spacing = self.channel_spacing
        if is_number(spacing) and spacing * (self.wavelengths - 1) > 0.5:
            raise ValueError(
                f"channel_spacing={spacing} times {self.wavelengths - 1} is more than half of the design "
                "wavelength; lower wavelengths or channel_spacing"
            )

    @property
    def count(self) -> int:
        """Returns the number of apertures that are transformed at once."""
        return self.wavelengths * self.apertures
