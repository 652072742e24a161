"""A Fourier-optical engine: emulated, planned for any size, costed."""

from fourier_attn.optics.calibration import calibrate
from fourier_attn.optics.engine import optical_dft2
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.operations import (
    optical_circular_correlate,
    optical_dft,
    optical_fourier_mix,
    optical_position_lambda,
)
from fourier_attn.optics.planner import Plan, plan

__all__ = [
    "Engine",
    "Plan",
    "calibrate",
    "optical_circular_correlate",
    "optical_dft",
    "optical_dft2",
    "optical_fourier_mix",
    "optical_position_lambda",
    "plan",
]
