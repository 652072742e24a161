"""Checks of an engine's parameters: one message that names the value and what is allowed."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

TINY, LARGEST = 1e-30, 1e30  # stand for "positive" and "finite" in ranges


def check(engine: Any, parameters: Mapping[str, Any]) -> None:
    """Checks each parameter against its row of the table, then what they ask of each other.

    Traced values are not looked at.

    Args:
      engine: an `Engine`.
      parameters: `fourier_attn.optics.parameters.PARAMETERS`.
    Raises: ValueError.
    """
    _check_shape(engine.shape)
    _check_shift(engine.shift_pitch)
    for name, parameter in parameters.items():
        if parameter.kind == "choice":
            _check_choice(name, getattr(engine, name), parameter.words)
    if isinstance(engine.device_seed, float | str | None):
        raise ValueError(f"device_seed={engine.device_seed!r} must be a whole number")
    optional = {field.name: field.default is None for field in dataclasses.fields(engine)}
    for name, parameter in parameters.items():
        value = getattr(engine, name)
        if parameter.kind == "count":
            _check_count(name, value, parameter.most)
        elif parameter.kind == "number":
            _check_number(name, value, parameter.least, parameter.most, optional[name])
        elif parameter.kind == "bits":
            _check_bits(name, value, _least_bits(engine, name, parameter.least), parameter.most)
        elif parameter.kind == "full_scale":
            _check_full_scale(name, value, parameter.words)
    _check_detection(engine)
    _check_writing(engine)


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a Python number, which can be looked at; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_shape(shape: Any) -> None:
    pair = isinstance(shape, tuple) and len(shape) == 2
    if not pair or any(not isinstance(n, int) or n < 1 for n in shape):
        raise ValueError(f"shape={shape!r} must be (rows, columns) of the aperture, each at least 1")


def _check_shift(shift: Any) -> None:
    if isinstance(shift, tuple) and len(shift) == 2 and all(_is_shift(pixels) for pixels in shift):
        return
    if isinstance(shift, int | float | str | list | tuple):  # neither None nor traced
        raise ValueError(f"shift_pitch={shift!r} must be (rows, columns), pixels, or None")


def _is_shift(pixels: Any) -> bool:
    if isinstance(pixels, int | float):
        return abs(pixels) <= LARGEST  # no NaN
    return not isinstance(pixels, str | None)


def _check_choice(name: str, value: Any, words: tuple[str, ...]) -> None:
    if value not in words:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(words)}")


def _check_count(name: str, value: Any, most: float | int) -> None:
    if not _is_whole(value) or value < 1:
        raise ValueError(f"{name}={value!r} must be at least 1, and whole")
    if value > most:
        raise ValueError(f"{name}={value!r} must be at most {most}")


def _check_number(name: str, value: Any, least: float | int, most: float | int, optional: bool) -> None:
    if _is_number(value):
        if least <= value <= most and (abs(value) <= LARGEST or math.isinf(value)):
            return  # a finite number beyond LARGEST is none of a float32
    elif not isinstance(value, str | bool | None) or (value is None and optional):  # traced, or off
        return
    bounds = []
    if least == 0:
        bounds.append("at least 0")
    elif least == TINY:
        bounds.append("positive")
    if _is_number(value) and abs(value) > LARGEST:
        bounds.append("finite")
    elif most < LARGEST:
        bounds.append(f"at most {most}")
    off = ", or None, which is off" if optional else ""
    raise ValueError(f"{name}={value!r} must be {' and '.join(bounds) or 'a number'}{off}")


def _least_bits(engine: Any, name: str, least: int) -> int:
    """One bit more where numbers have a sign."""
    if name == "dac_bits_amp" and engine.encode == "signed":
        return least + 1
    if name == "adc_bits" and engine.detector.balanced:
        return least + 1
    return least


def _check_bits(name: str, bits: Any, least: int, most: int) -> None:
    if bits is None:
        return
    if not _is_whole(bits) or not least <= bits <= most:
        raise ValueError(f"{name}={bits!r} must be from {least} to {most} bit, or None for no quantisation")


def _check_full_scale(name: str, value: Any, words: tuple[str, ...]) -> None:
    if value in words:
        return
    if not isinstance(value, int | float) or not 0 < value <= LARGEST:
        raise ValueError(f"{name}={value!r} must be positive or one of {', '.join(words)}")


def _check_detection(engine: Any) -> None:
    electrical = [n for n in ("dark_current", "tia_noise", "load_ohm") if getattr(engine, n) is not None]
    if electrical and engine.photons_fs is None:
        raise ValueError(f"{electrical[0]} needs photons_fs, which sets the scale of electrical noise")
    if engine.detector.detectors == 0:
        _check_idle(engine, ("adc_bits", "photons_fs"), "is no detector")
    if not engine.detector.referenced:
        _check_idle(engine, ("lo_phase_err", "lo_drift"), "has no reference")
    if not engine.linear and (engine.dc_block or engine.backward == "optical" or engine.slices > 1):
        raise ValueError(
            f"detection={engine.detection!r} loses the phase, which dc_block, slices and backward='optical' "
            "need; choose another detection"
        )


def _check_idle(engine: Any, names: tuple[str, ...], why: str) -> None:
    """Refuses parameters that do nothing with this detection."""
    for name in names:
        value = getattr(engine, name)
        if value is not None:
            raise ValueError(
                f"detection={engine.detection!r} {why}, so that {name}={value} does nothing; "
                "choose 'hybrid90'"
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
