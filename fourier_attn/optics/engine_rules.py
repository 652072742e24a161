"""Rules for parameters of an engine that are in different parts of it."""

import math
from typing import Any

import numpy as np

from fourier_attn.optics.checks import is_number
from fourier_attn.optics.constants import ELECTRON_C, photon_j

MOST_PIXELS = 4_096  # of a measured device, whose matrix has their square


def check_together(engine: Any) -> None:
    """Checks the parameters of an `Engine` against each other. Raises: ValueError."""
    _check_detection(engine)
    _check_writing(engine)
    _check_light(engine)
    _check_places(engine)
    _check_measured(engine)
    _check_waves(engine)


def _check_waves(engine: Any) -> None:
    """Refuses wavelengths for a measured transfer, and paths without a reference."""
    laser = engine.laser
    given = {"detuning": laser.detuning, "line_width_rms": laser.line_width_rms}
    given["channel_spacing"] = engine.channels.channel_spacing
    for name, value in given.items():
        if value is not None and engine.device.transfer is not None:
            raise ValueError(f"{name}={value}: a measured transfer is that of one wavelength; leave it None")
    if laser.path_difference is not None and not engine.detector.referenced:
        raise ValueError(
            f"path_difference={laser.path_difference} needs a reference, which "
            f"detection={engine.receiver.detection!r} does not have; choose 'hybrid90'"
        )


def _check_measured(engine: Any) -> None:
    """Checks measured arrays against the aperture, as far as they can be looked at."""
    rows, columns = engine.shape
    transfer = engine.device.transfer
    if isinstance(transfer, np.ndarray):
        if rows * columns > MOST_PIXELS:
            raise ValueError(
                f"an aperture {engine.shape} is too large to be measured; at most {MOST_PIXELS} pixels"
            )
        if len(transfer) != rows * columns:
            raise ValueError(
                f"transfer of shape {transfer.shape} is not of the aperture {engine.shape}, which has "
                f"{rows * columns} pixels; set shape, or measure that one"
            )
    factors = (engine.input_factors, engine.output_factors)
    for name, values in zip(("input_factors", "output_factors"), factors, strict=True):
        if isinstance(values, np.ndarray) and values.shape != engine.shape:
            raise ValueError(
                f"{name} of shape {values.shape} must have the shape of the aperture, {engine.shape}"
            )
    whole = engine.modulator.encode == "complex" and engine.linear
    if any(values is not None for values in factors) and not (
        whole and engine.receiver.detection != "homodyne_re"
    ):
        raise ValueError(
            f"input_factors and output_factors are complex, which encode={engine.modulator.encode!r} or "
            f"detection={engine.receiver.detection!r} is not; use 'complex' and 'hybrid90'"
        )


def _check_detection(engine: Any) -> None:
    receiver = engine.receiver
    bandwidth, rate = receiver.bandwidth_hz, engine.frame_rate_hz
    if not receiver.memory and is_number(bandwidth) and is_number(rate) and bandwidth < rate / 2:
        raise ValueError(
            f"bandwidth_hz={bandwidth:g} is below half of frame_rate_hz={rate:g}: such detectors mix a pass "
            "with the one before; set memory=True, raise it, or lower frame_rate_hz"
        )
    names = ("dark_current", "tia_noise", "load_ohm", "read_noise_e", "well_depth_e", "saturation_w")
    electrical = [name for name in names if getattr(receiver, name) is not None]
    if electrical and engine.laser.power_w is None:
        raise ValueError(f"{electrical[0]} needs power_w, which sets the scale of the electronics")
    if engine.detector.detectors == 0 and engine.laser.power_w is not None:
        raise ValueError(
            f"detection={receiver.detection!r} is not a detector, so that "
            f"power_w={engine.laser.power_w} does nothing; choose 'hybrid90'"
        )
    if engine.detector.detectors == 0 and receiver.jitter_s is not None:
        raise ValueError(
            f"detection={receiver.detection!r} has no converters, whose jitter_s={receiver.jitter_s} does "
            "nothing; choose 'hybrid90'"
        )
    if not engine.linear and (engine.dc_block or engine.backward == "optical" or engine.slices > 1):
        raise ValueError(
            f"detection={receiver.detection!r} loses the phase, which dc_block, slices and "
            "backward='optical' need; choose another detection"
        )


def _check_writing(engine: Any) -> None:
    modulator = engine.modulator
    digital = modulator.dac_bits_amp is not None and modulator.dac_range == "auto"
    if engine.slices > 1 and not (digital and modulator.encode in ("complex", "signed")):
        raise ValueError(
            f"slices={engine.slices} needs dac_bits_amp, dac_range='auto' and encode 'complex' or 'signed', "
            f"not {modulator.dac_bits_amp}, {modulator.dac_range!r} and {modulator.encode!r}"
        )
    if engine.dc_block and modulator.encode in ("amplitude", "phase"):
        raise ValueError(
            f"encode={modulator.encode!r} writes no negative numbers, which dc_block needs; use another"
        )
    if (engine.backward == "surrogate") != (engine.hardware is not None):
        raise ValueError(
            f"backward={engine.backward!r}, hardware={engine.hardware}: 'surrogate' needs one, others none"
        )
    if is_number(engine.frame_rate_hz) and engine.frame_rate_hz > modulator.speed_hz:
        raise ValueError(
            f"frame_rate_hz={engine.frame_rate_hz:g} is above the {modulator.speed_hz:g} Hz that modulators "
            f"of kind={modulator.kind!r} follow; lower it, or choose another kind"
        )


def _check_places(engine: Any) -> None:
    device = engine.device
    if device.rotation_rad is not None and engine.lens == "1d":
        raise ValueError(
            f"rotation_rad={device.rotation_rad} needs lens='2d': a cylindrical lens transforms one axis only"
        )
    if device.defocus_m is not None and None in (device.pixel_pitch_m, engine.laser.wavelength_m):
        raise ValueError(
            f"defocus_m={device.defocus_m} needs pixel_pitch_m={device.pixel_pitch_m} and "
            f"wavelength_m={engine.laser.wavelength_m}; give both, or use defocus_rad"
        )


def _check_quantum_limit(engine: Any) -> None:
    wavelength, responsivity = engine.laser.wavelength_m, engine.receiver.responsivity
    if not is_number(wavelength) or not is_number(responsivity):
        return
    most = ELECTRON_C / photon_j(wavelength)
    if responsivity > most:
        raise ValueError(
            f"responsivity={responsivity:g} A/W is above one electron per photon, {most:.4g} A/W at "
            f"wavelength_m={wavelength:g}; lower it, or give the wavelength of the light"
        )


def _check_light(engine: Any) -> None:
    """Refuses more electrons than photons, and a power that overfills a detector by itself."""
    _check_quantum_limit(engine)
    laser, receiver = engine.laser, engine.receiver
    leaves = (laser.power_w, receiver.responsivity, engine.device.insertion_loss_db, engine.frame_rate_hz)
    leaves += (receiver.lo_ratio, receiver.well_depth_e, receiver.saturation_w)
    if laser.power_w is None or any(value is not None and not is_number(value) for value in leaves):
        return
    reference = receiver.lo_ratio if receiver.detector.referenced else 0.0
    falling = engine.photons * (1 + reference) / max(receiver.detector.detectors, 1)
    capacities = engine.capacities
    if falling > min(capacities, default=math.inf):
        raise ValueError(
            f"power_w={engine.laser.power_w:g} puts {falling:.3g} electrons into a detector in a pass, "
            f"reference and unit intensity, and it takes {min(capacities):.3g}; lower power_w or lo_ratio, "
            "or raise frame_rate_hz"
        )
