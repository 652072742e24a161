"""A Fourier-optical engine: emulated, planned for any size, costed."""

from fourier_attn.optics.engine import optical_dft2
from fourier_attn.optics.operations import (
    Plan,
    optical_circular_correlate,
    optical_dft,
    optical_fourier_mix,
    optical_position_lambda,
    plan,
)
from fourier_attn.optics.parameters import Engine

__all__ = [
    "Engine",
    "Plan",
    "optical_circular_correlate",
    "optical_dft",
    "optical_dft2",
    "optical_fourier_mix",
    "optical_position_lambda",
    "plan",
]
