"""What is wrong with the parameters of an engine: one message that names the value and what is allowed."""

import dataclasses
import math
from typing import Any

from fourier_attn.optics.detection import DETECTIONS

CHOICES = {
    "lens": ("2d", "1d"),
    "encode": ("complex", "signed", "amplitude", "phase"),
    "dac_rounding": ("nearest", "stochastic"),
    "detection": tuple(DETECTIONS),
    "statistics": ("gaussian", "poisson"),
    "adc_rounding": ("nearest", "stochastic"),
    "backward": ("model", "ideal", "optical", "surrogate"),
}
TINY, LARGEST = 1e-30, 1e30
NUMBERS = {  # the least and the greatest value; infinite ones switch an effect off
    **dict.fromkeys(
        ("phase_noise_rms", "amp_noise_rms", "static_phase_rms", "static_gain_rms"), (0, LARGEST)
    ),
    **dict.fromkeys(("insertion_loss_db", "power_drift_rms", "lo_drift"), (0, LARGEST)),
    **dict.fromkeys(("dark_current", "tia_noise"), (0, LARGEST)),
    **dict.fromkeys(("bandwidth_hz", "lo_ratio", "responsivity"), (TINY, LARGEST)),
    **dict.fromkeys(("temperature", "frame_rate_hz"), (TINY, LARGEST)),
    **dict.fromkeys(("drift_corr", "load_ohm", "photons_fs"), (TINY, math.inf)),
    **dict.fromkeys(("defocus_rad", "lo_phase_err"), (-LARGEST, LARGEST)),
    "extinction_db": (0, math.inf),
    "rin_db_hz": (-math.inf, LARGEST),
    "fill_factor": (0, 1.0),
    "crosstalk_db": (-math.inf, -6.1),  # four neighbours share the light
}
COUNTS = ("averages", "slices")
RANGES = {"dac_range": ("auto",), "adc_range": ("auto", "fixed")}
DETECTED = ("adc_bits", "photons_fs")  # what needs a detector
REFERENCED = ("lo_phase_err", "lo_drift")  # what needs a reference


def check(engine: Any) -> None:
    """Raises ValueError for what cannot be; traced values are not looked at."""
    _check_pairs(engine.shape, engine.shift_pitch)
    for name, allowed in CHOICES.items():
        if (value := getattr(engine, name)) not in allowed:
            raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(allowed)}")
    for name in COUNTS:
        value = getattr(engine, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r} must be at least 1, and whole")
    if isinstance(engine.device_seed, float | str | None):
        raise ValueError(f"device_seed={engine.device_seed!r} must be a whole number")
    optional = {field.name: field.default is None for field in dataclasses.fields(engine)}
    for name in NUMBERS:
        _check_number(name, getattr(engine, name), optional[name])
    _check_converters(engine)
    _check_detection(engine)
    _check_writing(engine)


def _check_pairs(shape: Any, shift: Any) -> None:
    if not isinstance(shape, tuple) or len(shape) != 2 or any(not isinstance(n, int) or n < 1 for n in shape):
        raise ValueError(f"shape={shape!r} must be (rows, columns) of the aperture, each at least 1")
    numbers = shift if isinstance(shift, tuple) and len(shift) == 2 else (math.nan,)
    wrong = any(
        isinstance(n, str | None) or (isinstance(n, int | float) and not abs(n) <= LARGEST) for n in numbers
    )
    if isinstance(shift, int | float | str | list | tuple) and wrong:
        raise ValueError(f"shift_pitch={shift!r} must be (rows, columns), pixels, or None")


def _check_number(name: str, value: Any, optional: bool) -> None:
    least, most = NUMBERS[name]
    if value is None and optional:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or isinstance(value, str | bool) or (number and not least <= value <= most):  # or a NaN
        low = {0: "at least 0", TINY: "positive"}.get(least, "")
        endless = isinstance(value, int | float) and abs(value) > LARGEST
        high = "finite" if endless else f"at most {most}" if most < LARGEST else ""
        bounds = " and ".join(filter(None, (low, high)))
        raise ValueError(
            f"{name}={value!r} must be {bounds or 'a number'}{', or None, which is off' if optional else ''}"
        )


def _check_converters(engine: Any) -> None:
    signed = {"dac_bits_amp": engine.encode == "signed", "adc_bits": DETECTIONS[engine.detection].balanced}
    for name in ("dac_bits_amp", "dac_bits_phase", "adc_bits"):
        bits, least = getattr(engine, name), 2 if signed.get(name) else 1
        whole = isinstance(bits, int) and not isinstance(bits, bool)
        if bits is not None and not (whole and least <= bits <= 24):
            raise ValueError(f"{name}={bits!r} must be from {least} to 24 bit, or None for no quantisation")
    for name, words in RANGES.items():
        value = getattr(engine, name)
        if value not in words and not (isinstance(value, int | float) and 0 < value <= LARGEST):
            raise ValueError(f"{name}={value!r} must be positive or one of {', '.join(words)}")


def _check_detection(engine: Any) -> None:
    electrical = [n for n in ("dark_current", "tia_noise", "load_ohm") if getattr(engine, n) is not None]
    if electrical and engine.photons_fs is None:
        raise ValueError(f"{electrical[0]} needs photons_fs, which sets the scale of electrical noise")
    idle = dict.fromkeys(DETECTED, "is no detector") if engine.detection == "field" else {}
    if engine.detection == "field" or not engine.linear:
        idle |= dict.fromkeys(REFERENCED, "has no reference")
    for name, why in idle.items():
        if (value := getattr(engine, name)) is not None:
            chosen = f"detection={engine.detection!r} {why}"
            raise ValueError(f"{chosen}, so that {name}={value} does nothing; choose 'hybrid90'")
    if not engine.linear and (engine.dc_block or engine.backward == "optical" or engine.slices > 1):
        raise ValueError(
            f"detection={engine.detection!r} loses the phase, which dc_block, slices and backward='optical' "
            "need; choose another detection"
        )


def _check_writing(engine: Any) -> None:
    digital = engine.dac_bits_amp is not None and engine.dac_range == "auto"
    if engine.slices > 1 and not (digital and engine.encode in ("complex", "signed")):
        raise ValueError(
            f"slices={engine.slices} needs dac_bits_amp, dac_range='auto' and encode 'complex' or 'signed', "
            f"not {engine.dac_bits_amp}, {engine.dac_range!r} and {engine.encode!r}"
        )
    if engine.dc_block and engine.encode in ("amplitude", "phase"):
        raise ValueError(
            f"encode={engine.encode!r} writes no negative numbers, which dc_block needs; use another"
        )
    if (engine.backward == "surrogate") != (engine.hardware is not None):
        raise ValueError(
            f"backward={engine.backward!r}, hardware={engine.hardware}: 'surrogate' needs one, others none"
        )
