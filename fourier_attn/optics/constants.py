"""Constants of nature, exact in the SI, and the energy of a photon."""

from typing import Any

ELECTRON_C = 1.602176634e-19  # charge of an electron, C
PLANCK_J_S = 6.62607015e-34
LIGHT_M_S = 299_792_458.0  # speed of light in vacuum, m/s


def photon_j(wavelength_m: Any) -> Any:
    """Returns the energy of a photon in J: $h c / lambda$.

        >>> f"{photon_j(1.55e-6):.4g}"
        '1.282e-19'

    Args:
      wavelength_m: lambda, vacuum wavelength, m.
    """
    return PLANCK_J_S * LIGHT_M_S / wavelength_m
