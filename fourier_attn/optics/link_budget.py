"""The link budget: light from the laser to electrons, row by row in dB, and the noise of what is read.

The light of a pixel is that of an ordinary array, whose numbers are spread evenly over the modulators' range
and whose phases differ. Its transform is then spread over all pixels alike, and each of them detects

    n = R T P_1 L X eta D F / q

photo-electrons in a pass of T seconds. $P_1$ is the power of a pixel that is written with 1 and L the mean
level. The gain X is that of the leak, eta of the insertion loss, D of static errors, and F of the zero order.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import erfinv, ndtri

from fourier_attn.optics import device, modulator
from fourier_attn.optics.components import Prices
from fourier_attn.optics.detection import BOLTZMANN_J_K, full_scale
from fourier_attn.optics.drift import timed
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.frame import frame
from fourier_attn.optics.imperfections import between_hz, fast_flicker, flicker_share

PROBE = (64, 64)  # numbers of the ordinary array
GOLDEN = 2.399963229728653  # rad; turning by it spreads phases evenly
PROBED = 65_536  # pixels that are lit to find what a device that is too large for a matrix lets through
COHERENT = 1e-3  # share of the light in the zero frequency from which it counts as coherent


class Row(NamedTuple):
    """Holds a row of the link budget.

    Args:
      name: of the part.
      gain_db: its gain, dB.
      dbm: mean power after it, dBm.
    """

    name: str
    gain_db: float
    dbm: float


class Level(NamedTuple):
    """Holds mean intensities of written pixels, in units of a pixel that is written with 1.

    Args:
      wanted: of the numbers themselves.
      written: with leak, levels and the reach of the drivers.
      coherent: the part of `written` that is in the mean field, which the transform has at zero frequency.
    """

    wanted: float
    written: float
    coherent: float


class Link(NamedTuple):
    """Holds the light of an engine.

    Args:
      rows: from the laser to the electrons of a detector; the first is the laser, with a gain of 0 dB.
      laser_w: optical power of the lasers of all channels, of signal and reference, W.
      signal_e: electrons of the signal for each pixel in a pass, on all of its detectors.
      reference_e: electrons of the reference, likewise.
      snr_db: signal over each noise of a transform, and over their sum ("all"), dB; infinite without it.
    """

    rows: tuple[Row, ...]
    laser_w: float
    signal_e: float
    reference_e: float
    snr_db: Mapping[str, float]


def link_budget(engine: Engine, prices: Prices, level: float | None = None) -> Link:
    """Returns the light of an engine, from the laser to the noise of what is read.

    Args:
      engine: the engine, with its light.
      prices: by the names of the component library; `laser.feed_loss_db` counts.
      level: mean intensity of a written pixel, over that of 1; None: that of numbers that are spread evenly
        over the modulators' range.
    """
    one, written = frame(engine), written_level(engine, level)
    passed, order = _shares(engine)
    feed_db, pixels = prices["laser.feed_loss_db"], one.channels * one.points
    laser_w = pixels * (one.signal_w + one.reference_w) * 10 ** (feed_db / 10)
    gains = {
        "laser, signal and reference": 1.0,
        "part of the signal": one.signal_w / (one.signal_w + one.reference_w),
        "splitter, to each pixel": 1 / pixels,
        "coupling and modulator": 10 ** (-feed_db / 10),
        "mean level": written.wanted,
        "levels, leak and drive": written.written / written.wanted,
        "insertion loss": float(engine.device.transmission),
        "lens and static errors": passed,
        "fill factor": order,
        "splitter, to each detector": 1 / engine.detector.detectors,
        "quantum efficiency": float(engine.quantum_efficiency),
    }
    rows, power = [], laser_w
    for name, gain in gains.items():
        power *= gain
        rows.append(Row(name, decibel(gain), decibel(1e3 * power)))
    scattered = Level(*(value * passed * order for value in written))
    signal_e, reference_e = _electrons(engine, scattered.written)
    return Link(tuple(rows), laser_w, signal_e, reference_e, _snr(engine, scattered))


def electrons(engine: Engine, level: float | None = None) -> tuple[float, float]:
    """Returns the electrons of signal and reference for each pixel in a pass, on all of its detectors.

    Args:
      engine: the engine, with its light.
      level: as `link_budget` has it.
    """
    passed, order = _shares(engine)
    return _electrons(engine, written_level(engine, level).written * passed * order)


def _electrons(engine: Engine, intensity: float) -> tuple[float, float]:
    """Returns the electrons of signal and reference, for an intensity in units of unit intensity."""
    photons = float(engine.photons)
    reference_e = photons * float(engine.receiver.lo_ratio) if engine.detector.referenced else 0.0
    return photons * intensity, reference_e


def _shares(engine: Engine) -> tuple[float, float]:
    """Returns the shares of power that static errors and the zero order let through."""
    passed = _passed(engine.replace(fill_factor=None))
    if engine.device.fill_factor is None:
        return passed, 1.0
    return passed, float(engine.zero_order) ** 2 * _passed(engine) / passed


def decibel(ratio: float) -> float:
    """Returns a ratio of powers in dB; 0 is minus infinity.

    Args:
      ratio: of two powers.
    """
    return 10 * math.log10(ratio) if ratio > 0 else -math.inf


def written_level(engine: Engine, level: float | None = None) -> Level:
    """Returns the mean intensity of written pixels, over that of a pixel that is written with 1.

    Amplitudes that are spread evenly from 0 to 1 have a mean intensity of 1 / 3. Phases are spread, too;
    signs alternate; "phase" writes 1 everywhere. Mirrors of one bit are on in one pixel of two.

    Args:
      engine: the engine, with its modulators.
      level: mean intensity instead; all amplitudes are its root, and mirrors or amplitudes without a sign
        are on in this share of the pixels.
    """
    encode, count = engine.modulator.encode, math.prod(PROBE)
    place = np.arange(count)
    size = place / (count - 1)
    if encode == "phase":
        size = np.ones(count)
    elif level is not None:
        size = np.full(count, math.sqrt(level)) if encode != "amplitude" else place < level * count
    sign = np.where(place % 2, -1.0, 1.0) if encode == "signed" else np.ones(count)
    turn = np.exp(1j * GOLDEN * place) if encode in ("complex", "phase") else 1.0
    values = np.asarray(size * sign * turn)
    values[-1] = turn[-1] if isinstance(turn, np.ndarray) else sign[-1]  # full scale, which sets the range
    plain = engine.replace(dac_range="auto", dac_rounding="nearest").modulator
    kind = jnp.complex64 if np.iscomplexobj(values) else jnp.float32
    field = modulator.write(jnp.asarray(values.reshape(PROBE), kind), plain, modulator.Keys()).field
    lit = np.asarray(field, np.complex128).ravel()[:-1]
    wanted = np.abs(values[:-1]) ** 2
    mean = np.mean(lit)
    return Level(float(np.mean(wanted)), float(np.mean(np.abs(lit) ** 2)), float(abs(mean) ** 2))


def _passed(engine: Engine) -> float:
    """Returns the share of white light that arrives, but for the insertion loss and higher orders."""
    pixels = engine.shape[0] * engine.shape[1]
    aged = engine.replace(device=timed(engine.device))
    eta = float(engine.device.transmission)
    if device.is_exact(aged):
        return 1.0
    if aged.device.transfer is not None or pixels <= device.MATRIX_PIXELS:
        return float(jnp.sum(jnp.abs(device.matrix(aged)) ** 2)) / pixels / eta
    count = -(-PROBED // pixels)
    turns = jax.random.uniform(jax.random.key(0), (count, *engine.shape), maxval=2 * jnp.pi)
    field = device.propagate(jax.lax.complex(jnp.cos(turns), jnp.sin(turns)), aged)
    return float(jnp.mean(jnp.abs(field) ** 2)) / eta


def _snr(engine: Engine, level: Level) -> dict[str, float]:
    """Returns signal over noise of a transform in dB, by noise, and over the sum of all.

    The variance of a detector in a pass, v, becomes c v in what is recovered, in units of unit intensity n:

        v_shot = p / n,   v_thermal = a ((1 + r) tia^2 + 4 k T / R_load) B / I^2
        v_dark = I_dark / (I n),   v_read = (read / n)^2
        c = 4 / R^2              hybrid90
        c = 1 / (2 R^2)          homodyne_re
        c = 1 / (M R^2)          psi3, psi4, psi5 with M steps
        c = 1 / R^2              linear3

    p is the mean light on a detector, signal and reference, and $R^2$ that of the reference on all of them.
    I is the current of unit intensity, B the bandwidth, a the number of amplifiers per detector, and r the
    share of flicker noise, see `flicker_share`. Averages reduce all noise but two kinds: rounding, which
    repeats itself, and flicker noise that is slower than a transform. Phase steps cancel such flicker noise
    of amplifiers. The mean field of all written pixels is at zero frequency and does not count as signal.
    """
    receiver, n = engine.receiver, float(engine.photons)
    signal = level.written if level.coherent < COHERENT * level.written else level.written - level.coherent
    wanted, factor, light = _recovery(engine, signal)
    bandwidth = float(engine.frame_rate_hz if receiver.bandwidth_hz is None else receiver.bandwidth_hz)
    shared = receiver.amplifiers_per_pixel / engine.detector.detectors
    density = float(receiver.tia_noise or 0.0) ** 2 * (1 + float(fast_flicker(engine)))
    if receiver.load_ohm is not None:
        density += 4 * BOLTZMANN_J_K * float(receiver.temperature) / float(receiver.load_ohm)
    per_pass = {
        "shot": light / n,
        "thermal": shared * density * bandwidth / float(engine.current) ** 2,
        "dark": float(receiver.dark_current or 0.0) / float(engine.current) / n,
        "read": (float(receiver.read_noise_e or 0.0) / n) ** 2,
    }
    variances = {name: factor * value / engine.averages for name, value in per_pass.items()}
    variances["thermal"] += factor * _slow_thermal(engine, shared, bandwidth)
    variances["laser"] = _laser_variance(engine, signal, wanted, factor, bandwidth)
    jitter = (math.pi * float(engine.frame_rate_hz) * float(receiver.jitter_s or 0.0)) ** 2
    jitter *= _moved(engine, signal, wanted, factor, still=True) / engine.averages
    variances["converter"] = jitter + _converter_variance(engine, signal, level.coherent, factor)
    variances["all"] = sum(variances.values())
    return {name: decibel(wanted / value) if value else math.inf for name, value in variances.items()}


def _recovery(engine: Engine, s: float) -> tuple[float, float, float]:
    """Returns the recovered signal, c of `_snr`, and the mean light on a detector, for a signal s."""
    detection, r2 = engine.receiver.detection, float(engine.receiver.lo_ratio)
    if detection == "intensity":
        return s**2, 1.0, s
    if detection == "amplitude":
        return s, 1 / (4 * s), s
    if detection == "homodyne_re":
        return s / 2, 1 / (2 * r2), (s + r2) / 2
    if detection == "hybrid90":
        return s, 4 / r2, (s + r2) / 4
    if detection == "linear3":  # one pass of three has no reference, and counts twice
        return s, 1 / r2, s + r2 / 2
    return s, 1 / (engine.detector.passes * r2), s + r2


def _slow_thermal(engine: Engine, shared: float, bandwidth: float) -> float:
    """Returns the variance by flicker noise that all passes of a transform share; phase steps cancel it."""
    receiver = engine.receiver
    if receiver.flicker_corner_hz is None or (engine.detector.referenced and not engine.detector.balanced):
        return 0.0
    ends = float(receiver.flicker_lowest_hz), float(between_hz(engine))
    share = float(flicker_share(*ends, float(receiver.flicker_corner_hz), bandwidth))
    return shared * share * bandwidth * (float(receiver.tia_noise or 0.0) / float(engine.current)) ** 2


def _laser_variance(engine: Engine, s: float, wanted: float, factor: float, bandwidth: float) -> float:
    """Returns the variance by relative intensity noise.

    Flicker noise of the frequency f is the same in passes that are less than $1 / (2 pi f)$ apart. Noise
    that is slower than a transform scales the result.
    """
    if engine.laser.rin_db_hz is None:
        return 0.0
    rin, corner = (
        10 ** (float(engine.laser.rin_db_hz) / 10) * bandwidth,
        float(engine.laser.rin_corner_hz or 0),
    )
    lowest = float(engine.receiver.flicker_lowest_hz)
    between = max(lowest, float(engine.frame_rate_hz) / engine.passes / (2 * math.pi))
    fast = float(flicker_share(between, bandwidth, corner, bandwidth))
    slow = float(flicker_share(lowest, between, corner, bandwidth))
    of_pass = (1 + fast) * _moved(engine, s, wanted, factor, still=False) / engine.averages
    return rin * (of_pass + slow * (wanted / 4 if engine.receiver.detection == "amplitude" else wanted))


def _moved(engine: Engine, s: float, wanted: float, factor: float, *, still: bool) -> float:
    """Returns the variance of a result whose readings have independent relative errors of variance 1.

    Args:
      engine: the engine, with its detection.
      s: the signal.
      wanted: the recovered signal.
      factor: c of `_snr`.
      still: whether the reference alone has no error. Balanced pairs never see it.
    """
    if engine.receiver.detection == "amplitude":
        return wanted / 4
    if engine.detector.balanced or not engine.detector.referenced:
        return wanted
    r2 = float(engine.receiver.lo_ratio)
    square = 2 * r2 * s + 2 * s**2  # mean of (|E + R|^2 - R^2)^2 for a normal E
    square += 0.0 if still else r2**2 + 2 * r2 * s  # mean of |E + R|^4
    if engine.receiver.detection == "linear3":
        square = (square + 2 * s**2) / 2
    return factor * square


def _converter_variance(engine: Engine, s: float, coherent: float, factor: float) -> float:
    """Returns the variance by the detectors' converters.

    Each conversion has this variance, in squared steps:

        1 / 12 + inl^2 + dnl^2 / 2 + noise^2 / averages

    For an automatic range, the full scale is the median of the largest of all pixels, for normal numbers. The
    same holds for a calibrated range without a full scale, which only the layers of a network have.
    """
    bits, pixels = engine.receiver.adc_bits, engine.shape[0] * engine.shape[1]
    if bits is None:
        return 0.0
    inl, dnl, noise = (
        float(value or 0.0) ** 2
        for value in (engine.receiver.adc_inl_lsb, engine.receiver.adc_dnl_lsb, engine.receiver.adc_noise_lsb)
    )
    steps = 1 / 12 + inl + dnl / 2 + noise / engine.averages  # squared
    detection, balanced = engine.receiver.detection, engine.detector.balanced
    r = math.sqrt(float(engine.receiver.lo_ratio)) if engine.detector.referenced else 0.0
    unknown = engine.receiver.adc_range == "calibrated" and engine.receiver.adc_full_scale is None
    if engine.receiver.adc_range != "auto" and not unknown:
        amplitude = float(full_scale(engine))
        full = amplitude if balanced else (amplitude + r) ** 2
    elif coherent >= COHERENT * s:
        peak = math.sqrt(coherent * (pixels if engine.lens == "2d" else engine.shape[1]))
        full = peak if balanced else (peak + r) ** 2
    elif balanced:
        numbers = pixels * engine.detector.converters
        full = math.sqrt(s) * float(erfinv(0.5 ** (1 / numbers)))
    elif engine.detector.referenced:
        full = (r + math.sqrt(s / 2) * float(ndtri(0.5 ** (1 / pixels)))) ** 2
    else:
        full = s * math.log(pixels / math.log(2))
    if balanced:
        return engine.detector.converters * (2 * full / (2**bits - 2)) ** 2 * steps
    if engine.receiver.adc_range == "auto":  # detectors report no more than they hold
        full = min([full, *(capacity / float(engine.photons) for capacity in engine.capacities)])
    if detection == "linear3" and (unknown or engine.receiver.adc_range == "auto"):
        factor /= 2  # the range of the pass without reference is small
    return factor * (full / (2**bits - 1)) ** 2 * steps
