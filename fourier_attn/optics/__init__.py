"""A Fourier-optical engine: emulated, planned for any size, costed."""

from typing import TYPE_CHECKING

from fourier_attn.lazy import lazy_names

if TYPE_CHECKING:
    from fourier_attn.optics.calibration import calibrate
    from fourier_attn.optics.camera import photon_transfer
    from fourier_attn.optics.correlators import (
        joint_transform,
        joint_transform_correlate,
        matched_filter,
        optical_4f,
        optical_4f_correlate,
    )
    from fourier_attn.optics.data_statistics import DataStatistics, measure_data
    from fourier_attn.optics.device_file import read_device
    from fourier_attn.optics.device_fit import fit_device
    from fourier_attn.optics.engine import optical_dft2
    from fourier_attn.optics.engine_spec import Engine
    from fourier_attn.optics.field_units import Budget, budget
    from fourier_attn.optics.incoherent import optical_incoherent_correlate
    from fourier_attn.optics.operations import (
        optical_circular_correlate,
        optical_dft,
        optical_fourier_mix,
        optical_position_lambda,
    )
    from fourier_attn.optics.parts import Detection, Device, Laser, Modulator, Receiver
    from fourier_attn.optics.pass_errors import error_budget
    from fourier_attn.optics.phase_retrieval import retrieve_phases
    from fourier_attn.optics.planner import Plan, plan
    from fourier_attn.optics.presets import preset
    from fourier_attn.optics.programs.calibrate import calibrate_ranges
    from fourier_attn.optics.programs.errors import Band, predicted_errors, site_errors
    from fourier_attn.optics.programs.report import Report, report
    from fourier_attn.optics.programs.rules import Rule
    from fourier_attn.optics.programs.through import through
    from fourier_attn.optics.recordings import read_drives, read_frames, read_recording

__all__ = [
    "Band",
    "Budget",
    "DataStatistics",
    "Detection",
    "Device",
    "Engine",
    "Laser",
    "Modulator",
    "Plan",
    "Receiver",
    "Report",
    "Rule",
    "budget",
    "calibrate",
    "calibrate_ranges",
    "error_budget",
    "fit_device",
    "joint_transform",
    "joint_transform_correlate",
    "matched_filter",
    "measure_data",
    "optical_4f",
    "optical_4f_correlate",
    "optical_circular_correlate",
    "optical_dft",
    "optical_dft2",
    "optical_fourier_mix",
    "optical_incoherent_correlate",
    "optical_position_lambda",
    "photon_transfer",
    "plan",
    "predicted_errors",
    "preset",
    "read_device",
    "read_drives",
    "read_frames",
    "read_recording",
    "report",
    "retrieve_phases",
    "site_errors",
    "through",
]

__getattr__, __dir__ = lazy_names(__name__)
