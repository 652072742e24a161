"""Each effect against its formula, and whole passes against a simulation that shares no code with them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from optical import KEY, decibel, dft, exact, made, snr, waves
from scipy.linalg import expm

from fourier_attn.optics import Engine
from fourier_attn.optics.engine_spec import ELECTRON_C
from fourier_attn.optics.presets import preset

FULL = 6.0  # what is written as 1; of 24,200 numbers of power 2 none is larger
N = 11
PHOTONS = 1e6
Noise = Callable[
    [np.ndarray], float
]  # mean power of the error, in units of unit intensity, for what is written


def power(u: np.ndarray) -> float:
    return float(np.mean(np.abs(u) ** 2))


def shot(detection: str, r2: float = 10.0, photons: float = PHOTONS) -> Noise:
    """n photons of the signal in each of M passes."""
    if detection == "linear3":
        return lambda u: (2 * r2 + 4 * power(u)) / (4 * r2 * photons)
    if detection == "homodyne_re":
        return lambda u: (r2 + power(u)) / (4 * r2 * photons / 2) / 2
    passes = {"hybrid90": 1, "psi3": 3, "psi4": 4, "psi5": 5}[detection]
    return lambda u: (power(u) + r2) / (r2 * passes * photons)


def electrical(electrons: float, r2: float = 10.0) -> Noise:
    """Of four detectors, each with a variance in electrons squared: two parts of (1st - 2nd) / R."""
    return lambda u: 4 * electrons / (r2 * PHOTONS**2)


def both(*noises: Noise) -> Noise:
    return lambda u: sum(noise(u) for noise in noises)


def level(bits: int, low: float) -> float:
    """Step of a converter of full scale 1."""
    return 2 / (2**bits - 2) if low < 0 else 1 / (2**bits - 1)


HYBRID = {"detection": "hybrid90", "photons": PHOTONS}
DELTA = 10 ** (-25 / 20)
BOLTZMANN = 1.380649e-23
CASES: dict[str, tuple[dict[str, Any], Noise]] = {
    "6 bit of amplitude": ({"dac_bits_amp": 6}, lambda u: level(6, 0) ** 2 / 12),
    "8 bit of amplitude": ({"dac_bits_amp": 8}, lambda u: level(8, 0) ** 2 / 12),
    "6 bit of phase": ({"dac_bits_phase": 6}, lambda u: (2 * np.pi / 2**6) ** 2 / 12 * power(u)),
    "8 bit of phase": ({"dac_bits_phase": 8}, lambda u: (2 * np.pi / 2**8) ** 2 / 12 * power(u)),
    "chance as it rounds": (
        {"dac_bits_amp": 8, "dac_rounding": "stochastic"},
        lambda u: 2 * level(8, 0) ** 2 / 12,
    ),
    "7 bit of balanced pairs": (
        {"detection": "hybrid90", "adc_bits": 7, "adc_range": 1.0},
        lambda u: 2 * level(7, -1) ** 2 / 12,
    ),
    "9 bit of phase steps": (
        {"detection": "psi4", "adc_bits": 9, "adc_range": 1.0},
        lambda u: ((1 + 10**0.5) ** 2 * level(9, 0)) ** 2 / 12 / (4 * 10.0),
    ),
    "shot noise": (HYBRID, shot("hybrid90")),
    "shot noise, counted": ({**HYBRID, "statistics": "poisson"}, shot("hybrid90")),
    "shot noise, weak reference": ({**HYBRID, "lo_ratio": 0.01}, shot("hybrid90", 0.01)),
    **{
        f"shot noise, {name}": ({"detection": name, "photons": PHOTONS}, shot(name))
        for name in ("psi3", "psi4", "psi5", "linear3", "homodyne_re")
    },
    "four averages": ({**HYBRID, "averages": 4}, lambda u: shot("hybrid90")(u) / 4),
    "amplifiers": (
        {**HYBRID, "tia_noise": 1e-9},
        both(shot("hybrid90"), electrical((1e-9 / ELECTRON_C) ** 2 / 1e9)),
    ),
    "resistors": (
        {**HYBRID, "load_ohm": 0.1},
        both(shot("hybrid90"), electrical(4 * BOLTZMANN * 300 / 0.1 / ELECTRON_C**2 / 1e9)),
    ),
    "dark current": (
        {**HYBRID, "dark_current": 1e-3},
        both(shot("hybrid90"), electrical(1e-3 / ELECTRON_C / 1e9)),
    ),
    "read noise": ({**HYBRID, "read_noise_e": 5e3}, both(shot("hybrid90"), electrical(5e3**2))),
    "laser": (
        {"detection": "hybrid90", "rin_db_hz": -120.0},
        lambda u: 10 ** (-120 / 10) * 1e9 * power(u),
    ),
    "phase noise": ({"phase_noise_rms": 0.03}, lambda u: 0.03**2 * power(u)),
    "amplitude noise": ({"amp_noise_rms": 0.03}, lambda u: 0.03**2 * power(u)),
    "drive noise": ({"drive_noise_rms": 0.01}, lambda u: 0.01**2 * (1 - power(u))),
    "leak": ({"extinction_db": 25.0}, lambda u: DELTA**2 * (1 - power(u))),
    "leak, compensated": (
        {"extinction_db": 25.0, "compensated": True},
        lambda u: float(np.mean(np.maximum(DELTA - np.abs(u), 0) ** 2)),
    ),
    "static phases": ({"static_phase_rms": 0.03}, lambda u: 0.03**2 * power(u)),
    "static gains": ({"static_gain_rms": 0.03}, lambda u: 0.03**2 * power(u)),
    # before and after the lens; of 4 neighbours those at the edges lack some
    "crosstalk": ({"crosstalk_db": -30.0}, lambda u: 2 * 1e-3 * 4 * (N - 1) / N * power(u)),
}
STATIC = ("static phases", "static gains")
# dB: 8 devices of 242 numbers know them to 0.14; a laser has a number for a pass, 200 know it to 0.43
LOOSE = {**dict.fromkeys(STATIC, 0.6), "laser": 1.7}
SOON = ("8 bit of amplitude", "shot noise", "read noise", "drive noise", "leak, compensated")


@pytest.mark.parametrize(
    "name", [*SOON, *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in SOON)]
)
def test_each_effect_has_the_size_of_its_formula(name: str) -> None:
    parameters, noise = CASES[name]
    engine, x = made(dac_range=FULL, **parameters), waves(200, N, N)
    u = np.asarray(x) / FULL
    expected = exact(x).real if engine.receiver.detection == "homodyne_re" else exact(x)
    devices = [engine.replace(seed=seed) for seed in range(8 if name in STATIC else 1)]
    errors = [np.mean(np.abs(np.asarray(dft(x, device, KEY)) - expected) ** 2) for device in devices]
    found = decibel(float(np.mean(errors)) / FULL**2)
    assert abs(found - decibel(noise(u))) < LOOSE.get(name, 0.3)


def simulated(x: np.ndarray, engine: Engine, rng: np.random.Generator) -> np.ndarray:
    """A pass in float64: explicit detectors that count, coupling by the exponential of a matrix."""
    modulator, device, receiver = engine.modulator, engine.device, engine.receiver
    pixels = engine.shape[0] * engine.shape[1]
    mean = x.mean(axis=(1, 2), keepdims=True)
    rest = x - mean
    scale = np.abs(rest).max(axis=(1, 2), keepdims=True)
    u = rest / scale
    delta = 10 ** (-modulator.extinction_db / 20)
    drive = np.sqrt(np.maximum(np.abs(u) ** 2 - delta**2, 0) / (1 - delta**2))
    phase = np.angle(u) - np.angle(drive + 1j * delta * np.sqrt(1 - drive**2))
    levels = 2**modulator.dac_bits_amp - 1
    drive = np.round(drive * levels) / levels
    turns = 2**modulator.dac_bits_phase
    phase = np.round(phase / (2 * np.pi) * turns) / turns * 2 * np.pi
    passes = []
    for _ in range(engine.detector.passes):
        angle = np.arccos(drive) + modulator.drive_noise_rms * rng.standard_normal(drive.shape)
        written = np.cos(angle) + 1j * delta * np.sin(angle)
        passes.append(
            written * np.exp(1j * (phase + modulator.phase_noise_rms * rng.standard_normal(u.shape)))
        )
    fields = np.stack(passes).reshape(engine.detector.passes, len(x), pixels)

    def pattern() -> np.ndarray:
        gain = 1 + device.static_gain_rms / 2**0.5 * rng.standard_normal(pixels)
        return gain * np.exp(1j * device.static_phase_rms / 2**0.5 * rng.standard_normal(pixels))

    places = np.stack(np.divmod(np.arange(pixels), engine.shape[1]))
    near = np.abs(places[:, :, None] - places[:, None]).sum(axis=0) == 1
    kappa = 10 ** (device.crosstalk_db / 20)

    def coupling() -> np.ndarray:
        phases = np.triu(near * np.exp(2j * np.pi * rng.random((pixels, pixels))))
        return expm(1j * kappa * (phases + phases.conj().T))

    fields = (fields * pattern()) @ coupling().T
    fields = exact(fields.reshape(*fields.shape[:2], *engine.shape)).reshape(fields.shape)
    fields = (fields @ coupling().T) * pattern()

    spread = (10 ** (engine.laser.rin_db_hz / 10) * engine.frame_rate_hz) ** 0.5
    lit = 1 + spread * rng.standard_normal((engine.detector.passes, len(x), 1))
    lit = lit * (1 + engine.laser.power_drift_rms * rng.standard_normal(lit.shape))
    eta = 10 ** (-device.insertion_loss_db / 10)
    photons = receiver.responsivity * eta * engine.laser.power_w / (ELECTRON_C * engine.frame_rate_hz)
    noise = ((receiver.tia_noise or 0) / ELECTRON_C) ** 2 / engine.frame_rate_hz
    noise += receiver.dark_current / ELECTRON_C / engine.frame_rate_hz + (receiver.read_noise_e or 0) ** 2

    def counted(light: np.ndarray) -> np.ndarray:
        mean = light * photons
        return (rng.poisson(mean) + noise**0.5 * rng.standard_normal(mean.shape)) / photons

    r = receiver.lo_ratio**0.5
    if receiver.detection == "hybrid90":
        share = [counted(lit[0] * np.abs(fields[0] + r * 1j**k) ** 2 / 4) for k in range(4)]
        leak = 10 ** (-receiver.cmrr_db / 20)
        parts = [(share[k] - share[k + 2] + leak * (share[k] + share[k + 2] - r**2 / 2)) / r for k in (0, 1)]
        y = converted(parts[0] + 1j * parts[1], receiver.adc_bits)
    else:
        y = np.zeros_like(fields[0])
        for k in range(4):
            bright = counted(lit[k] * np.abs(fields[k] + r * 1j**k) ** 2)
            full = bright.max(axis=1, keepdims=True)
            steps = 2**receiver.adc_bits - 1
            y += full * np.round(np.clip(bright / full, 0, 1) * steps) / steps * 1j**k / (4 * r)
    y = y.reshape(len(x), *engine.shape) * scale
    y[:, 0, 0] += mean[:, 0, 0] * pixels**0.5
    return y


def converted(y: np.ndarray, bits: int) -> np.ndarray:
    """Both parts at the levels of a converter whose full scale is their largest."""
    full = np.maximum(np.abs(y.real), np.abs(y.imag)).max(axis=1, keepdims=True)
    steps = 2 ** (bits - 1) - 1
    return full * (np.round(y.real / full * steps) + 1j * np.round(y.imag / full * steps)) / steps


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chip_11x11", "demonstrator_5x5"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dimmer", [1, 30])
def test_presets_agree_with_an_independent_simulation(name: str, bits: int, dimmer: float) -> None:
    """Of eight devices, whose static errors differ by 0.5 dB or more from each other."""
    engine = preset(name).replace(dac_bits_amp=bits, dac_bits_phase=bits, adc_bits=bits)
    engine = engine.replace(power_w=engine.laser.power_w / dimmer)
    x = np.random.default_rng(3).standard_normal((60, *engine.shape)).astype(np.float32)
    rng = np.random.default_rng(4)
    theirs = [snr(simulated(x.astype(float), engine, rng), exact(x)) for _ in range(8)]
    ours = [snr(dft(x, engine.replace(seed=seed), KEY), exact(x)) for seed in range(8)]
    error = math.sqrt((np.var(ours) + np.var(theirs)) / 7)
    assert abs(np.mean(ours) - np.mean(theirs)) < max(0.3, 3.5 * error)
