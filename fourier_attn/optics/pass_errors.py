"""The error budget of a pass: the power of each error, from parameters and statistics of the data alone.

An array x of N pixels is written as $u = x / s$ with $s = max |x|$. Its orthonormal transform over s is y. A
modulator with the leak $delta = 10^(-dB / 20)$ is driven for the amplitude b and writes w. Compensated
modulators have

    w = max(|u|, delta),   b^2 = max(|u|^2 - delta^2, 0) / (1 - delta^2)

Others have $b = |u|$ and $w^2 = |u|^2 + delta^2 (1 - |u|^2)$. The errors have these powers per pixel, in
units of $s^2$:

    leak            mean (w - |u|)^2 compensated,   delta^2 mean (1 - b^2) otherwise
    amplitude       mean min(b^2, 1 / (12 (2^c - 1)^2))                       c bits
    phase           mean |u| w (2 pi / 2^c)^2 / 12                            c bits
    phase noise     mean |u| w rms^2
    drive noise     mean (1 - b^2) rms^2
    amplitude noise, static phase, static gain, drift                         mean w^2 rms^2
    crosstalk       mean w^2 kappa 4 (2 - 1 / N1 - 1 / N2)                    before and after the lens
    laser           mean w^2 RIN B
    shot            (mean w^2 + R^2) / (R^2 n)                                n electrons of unit intensity
    electronics     (4 / R^2) (a tia^2 B / I^2 + I_dark / (I n) + (read / n)^2)
    common mode     10^(-cmrr / 10) mean |y|^4 / (2 R^2)
    converter       2 (2 F / (2^c - 2))^2 / 12,   F = max(|Re y|, |Im y|)     c bits

The budget shares no code with the emulation of a pass. It takes errors as small, rounding errors as spread
evenly over a step, and detectors as far from saturation.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Complex, Float, Inexact

from fourier_attn.optics.constants import ELECTRON_C
from fourier_attn.optics.engine_spec import Engine, every_parameter
from fourier_attn.optics.parameter import same

# Errors that a device repeats in every pass.
STATIC = ("static phase", "static gain", "crosstalk")
# Parameters that may differ from those of an engine without errors.
KNOWN = {
    *("shape", "frame_rate_hz", "dc_block", "max_remainder"),
    *("kind", "v_pi", "dac_bits_amp", "dac_bits_phase", "extinction_db", "compensated"),
    *("phase_noise_rms", "amp_noise_rms", "drive_noise_rms"),
    *("static_phase_rms", "static_gain_rms", "crosstalk_db", "insertion_loss_db", "seed"),
    *("calibration_probes", "recalibrate_s", "drift_time_s", "age_s"),  # nothing drifts
    *("power_w", "wavelength_m", "rin_db_hz", "power_drift_rms", "drift_corr"),
    *("detection", "lo_ratio", "statistics", "responsivity", "bandwidth_hz", "amplifiers"),
    *("dark_current", "tia_noise", "read_noise_e", "cmrr_db", "saturation_w", "well_depth_e", "adc_bits"),
}


def error_budget(x: Inexact[np.ndarray, "..."], engine: Engine) -> dict[str, Float[np.ndarray, "..."]]:
    """Returns the power of each error of the transform of arrays, per pixel and in the arrays' own unit.

    The equations are those of this module, times $s^2$.

        >>> arrays = np.random.default_rng(0).standard_normal((100, 11, 11))
        >>> powers = error_budget(arrays, Engine(shape=(11, 11)).replace(phase_noise_rms=0.1))
        >>> [name for name, power in powers.items() if power.any()]
        ['phase noise']
        >>> round(float(np.mean(powers["phase noise"])), 3)  # of power 1
        0.01

    Args:
      x: what modulators write, (..., N1, N2), real or complex, without the mean that `dc_block` holds back.
      engine: the engine; detections are "hybrid90" and "field".
    Returns: the errors by their names, (...).
    Raises: ValueError for an engine with effects that are not in the budget.
    """
    check_budget(engine)
    modulator, device = engine.modulator, engine.device
    size = np.abs(np.asarray(x, complex))
    largest = size.max(axis=(-2, -1), keepdims=True)
    scale = np.where(largest > 0, largest, 1.0)
    u = size / scale
    delta = 10 ** (-_or(modulator.extinction_db, math.inf) / 20)
    if modulator.compensated:
        drive = np.sqrt(np.maximum(u**2 - delta**2, 0) / (1 - delta**2))
        written = np.maximum(u, delta)
        leak = (written - u) ** 2
    else:
        drive, leak = u, delta**2 * (1 - u**2)
        written = np.sqrt(u**2 + leak)
    power, both = _mean(written**2), _mean(u * written)
    rows, columns = engine.shape
    kappa = 10 ** (_or(device.crosstalk_db, -math.inf) / 10)
    powers = {
        "leak": _mean(leak),
        "amplitude": _mean(np.minimum(drive**2, _step(modulator.dac_bits_amp, lambda b: 2**b - 1) / 12)),
        "phase": both * _step(modulator.dac_bits_phase, lambda b: 2**b / (2 * math.pi)) / 12,
        "phase noise": both * _or(modulator.phase_noise_rms) ** 2,
        "drive noise": _mean(1 - drive**2) * _or(modulator.drive_noise_rms) ** 2,
        "amplitude noise": power * _or(modulator.amp_noise_rms) ** 2,
        "static phase": power * _or(device.static_phase_rms) ** 2,
        "static gain": power * _or(device.static_gain_rms) ** 2,
        "crosstalk": power * kappa * 4 * (2 - 1 / rows - 1 / columns),
        "laser": power * 10 ** (_or(engine.laser.rin_db_hz, -math.inf) / 10) * float(engine.bandwidth),
        "drift": power * _or(engine.laser.power_drift_rms) ** 2,
    }
    if engine.receiver.detection == "hybrid90":
        powers |= _detection(np.fft.fft2(np.asarray(x, complex) / scale, norm="ortho"), power, engine)
    return {name: value * scale[..., 0, 0] ** 2 for name, value in powers.items()}


def check_budget(engine: Engine) -> None:
    """Checks that the budget has all effects of an engine.

    Raises: ValueError with the parameter that it does not have.
    """
    plain = {name: value for _, name, _, value in every_parameter(Engine())}
    for _, name, _, value in every_parameter(engine):
        if name not in KNOWN and not same(value, plain[name]):
            shown = value if isinstance(value, tuple) or np.ndim(value) == 0 else "an array"
            raise ValueError(f"{name}={shown} is not in the error budget; leave it at {plain[name]!r}")
    if engine.receiver.detection not in ("hybrid90", "field"):
        raise ValueError(
            f"detection={engine.receiver.detection!r} is not in the error budget; choose 'hybrid90'"
        )


def budgeted(engine: Engine, *, static: bool = False) -> Engine:
    """Returns an engine whose passes are exact transforms plus white noise with the powers of the budget.

    It has the aperture, and so the plans, of the engine. The noise is a function of the arrays.

    Args:
      engine: the engine.
      static: whether it has the static errors alone; default False, all errors.
    Raises: ValueError as `check_budget`.
    """
    check_budget(engine)

    def transform(x: np.ndarray) -> np.ndarray:
        powers = error_budget(x, engine)
        power = sum(powers[name] for name in (STATIC if static else powers))
        rng = np.random.default_rng(np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint32)[:4096])
        noise = rng.standard_normal((2, *x.shape)) * np.sqrt(np.asarray(power)[..., None, None] / 2)
        return (np.fft.fft2(x, norm="ortho") + noise[0] + 1j * noise[1]).astype(np.complex64)

    plain = Engine(shape=engine.shape, max_remainder=engine.max_remainder, dc_block=engine.dc_block)
    return plain.replace(backward="surrogate", hardware=transform)


def _detection(y: Complex[np.ndarray, "..."], power: np.ndarray, engine: Engine) -> dict[str, np.ndarray]:
    """Returns the errors of balanced receivers for a field y whose light has this mean power."""
    receiver, r2 = engine.receiver, float(engine.receiver.lo_ratio)
    full = np.maximum(np.abs(np.real(y)), np.abs(np.imag(y))).max(axis=(-2, -1))
    powers = {
        "common mode": 10 ** (-_or(receiver.cmrr_db, math.inf) / 10) * _mean(np.abs(y) ** 4) / (2 * r2),
        "converter": 2 * full**2 * _step(receiver.adc_bits, lambda b: 2 ** (b - 1) - 1) / 12,
    }
    if engine.photons is None:
        return powers
    n, current = float(engine.photons), float(engine.current)
    shared = receiver.amplifiers_per_pixel / engine.detector.detectors
    variance = shared * _or(receiver.tia_noise) ** 2 * float(engine.bandwidth) / current**2
    variance += _or(receiver.dark_current) / ELECTRON_C / float(engine.frame_rate_hz) / n**2
    variance += (_or(receiver.read_noise_e) / n) ** 2
    electronics = np.full_like(power, 4 * variance / r2)
    return powers | {"shot": (power + r2) / (r2 * n), "electronics": electronics}


def _or(value: object, off: float = 0.0) -> float:
    """Returns a parameter as a number; None is off."""
    return off if value is None else float(np.asarray(value))


def _step(bits: int | None, steps: Callable[[int], float]) -> float:
    """Returns the squared step of a converter, 0 without one."""
    return 0.0 if bits is None else 1 / steps(bits) ** 2


def _mean(values: np.ndarray) -> np.ndarray:
    return np.mean(values, axis=(-2, -1))
