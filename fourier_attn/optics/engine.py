"""One pass of a Fourier-optical engine: an array is written into light, a lens transforms it, detectors read.

    scale -> encode -> modulator noise -> static device and lens -> laser -> detect -> convert -> recover

Quantise, then add noise, at the modulators; add noise, then quantise, at the detectors.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Inexact, Num

from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.optics import channels, coherence, detection, modulator, ranges
from fourier_attn.optics.coupling import kept_share
from fourier_attn.optics.drift import timed
from fourier_attn.optics.engine_spec import SCOPE, Engine
from fourier_attn.optics.imperfections import flicker_share
from fourier_attn.optics.random import Key, device_key, normal, sample, stream

DRIFT_BLOCK = 128  # passes
SECOND_BANK = "converters of the second bank"
FLICKER_DRIFTS = 24  # whose sum is flicker noise


class PassKeys(NamedTuple):
    """Keys of all that a transform draws."""

    writing: modulator.Keys = modulator.Keys()
    factor: modulator.Keys = modulator.Keys()
    laser: Key = None
    drift: Key = None
    receiver: detection.Keys = detection.Keys()


@takes_arrays
def optical_dft2(
    x: Num[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    factor: Num[Array, "..."] | None = None,
) -> Inexact[Array, "..."]:
    """Computes the orthonormal discrete Fourier transform of each aperture on the engine.

        y[k, l] = (1 / sqrt(N1 N2)) sum_{m, n} x[m, n] exp(-2 pi sqrt(-1) (k m / N1 + l n / N2)) + errors

    `Engine()` has no errors. Compiled; bits and modes are static, strengths are traced.

        >>> pixels = jnp.zeros((1, 2, 2)).at[0, 0, 0].set(2.0)
        >>> optical_dft2(pixels, Engine(shape=(2, 2)))[0].real  # without errors: the orthonormal transform
        Array([[1., 1.],
               [1., 1.]], dtype=float32)

    Args:
      x: (..., N1, N2) with the engine's shape, real or complex; every aperture has a scale of its own.
      engine: its parameters.
      key: draws what changes from pass to pass; may be None where the engine has no such noise.
      factor: (..., N1, N2), a second bank of modulators that multiplies the written field, quantised and
        noisy like the first.
    Returns: complex, for detections of the field; real for "homodyne_re" (the real part), "amplitude" (its
      modulus) and "intensity" (its square). An aperture of zeros gives noise around zero, one with a number
      that is not finite gives such numbers, and no other aperture is affected.
    Raises: ValueError for a shape that is not the aperture's, or a missing key.
    Source: the forward model and its parameters are those of docs/optics/physics.md.
    """
    if x.ndim < 2 or x.shape[-2:] != engine.shape:
        raise ValueError(
            f"x of shape {x.shape} must end in the aperture {engine.shape}; use optical_dft for other sizes"
        )
    ranges.check_ranges(engine)
    if engine.device.file is not None and engine.device.transfer is None:
        raise ValueError(f"file={engine.device.file!r} has not been read; use Engine.from_file")
    if x.size == 0:
        raise ValueError(f"x of shape {x.shape} is empty; there is nothing to transform")
    if engine.noisy and key is None:
        raise ValueError("this engine is noisy: pass key=jax.random.key(...)")
    encode = engine.modulator.encode
    if encode in ("signed", "amplitude") and jnp.iscomplexobj(x):
        raise ValueError(f"encode={encode!r} writes real numbers only; x is {x.dtype}")
    if factor is not None and encode != "complex":
        raise ValueError(f"factor needs encode='complex', not {encode!r}")
    with jax.named_scope(f"{SCOPE}_pass"):
        return _transform(x, factor, engine.replace(device=timed(engine.device)), key)


@jax.jit
def _transform(x: Array, factor: Array | None, engine: Engine, key: Key) -> Array:
    if x.dtype not in (jnp.float64, jnp.complex128):
        x = x.astype(jnp.complex64 if jnp.iscomplexobj(x) else jnp.float32)
    if engine.backward == "model":
        return _pass(x, factor, engine, key)
    return _steered(x, factor, engine, key)


@jax.custom_vjp
def _steered(x: Array, factor: Array | None, engine: Engine, key: Key) -> Array:
    """Runs a pass with a derivative other than the model's."""
    return _pass(x, factor, engine, key)


def _steered_backward(saved: tuple[Any, ...], g: Array) -> tuple[Array | None, ...]:
    x, factor, engine, key = saved
    if engine.backward == "optical":
        by = jax.vjp(_product, x, factor)[1](_send_back(g, engine, key))
    elif engine.backward == "surrogate":
        model = engine.replace(backward="model", hardware=None)
        by = jax.vjp(lambda x, factor: _pass(x, factor, model, key), x, factor)[1](g)
    else:
        by = jax.vjp(lambda x, factor: _pass(x, factor, engine.ideal(), None), x, factor)[1](g)
    return *by, None, None


def _product(x: Array, factor: Array | None) -> Array:
    """Returns what one bank of modulators, or two, are to write."""
    x = modulator.as_complex(x)
    return x if factor is None else x * modulator.as_complex(factor)


def _send_back(g: Array, engine: Engine, key: Key) -> Array:
    """Sends the cotangent through the engine: F is its own transpose, so light serves both directions."""
    free = {"dac_range": "auto", "adc_range": "auto"}  # cotangents have a size of their own
    free |= {"encode": "complex", "kind": None}  # and phases
    back = engine.whole_field().replace(backward="model", **free)
    y = _pass(g, None, back, None if key is None else jax.random.fold_in(key, 1))
    lit = jnp.any(g != 0, axis=(-2, -1), keepdims=True)  # a cotangent of zeros has no size: it is not sent
    return jnp.where(lit, y, jnp.zeros((), y.dtype))


_steered.defvjp(lambda *arguments: (_steered(*arguments), arguments), _steered_backward)


def _pass(x: Array, factor: Array | None, engine: Engine, key: Key) -> Array:
    """Runs all passes of one transform, between the digital work before and after them."""
    if engine.channels.count == 1:
        return _digital_and_light(x, factor, engine, key)
    shape = x.shape if factor is None else jnp.broadcast_shapes(x.shape, factor.shape)
    x = channels.group(jnp.broadcast_to(x, shape), engine)
    if factor is not None:
        factor = channels.group(jnp.broadcast_to(factor, shape), engine)
    return channels.ungroup(_digital_and_light(x, factor, engine, key), shape)


def _digital_and_light(x: Array, factor: Array | None, engine: Engine, key: Key) -> Array:
    """Runs all passes of apertures that are in the groups which share one."""
    blocked = engine.dc_block and factor is None  # a product has no mean of its own to add again
    mean = jnp.mean(x, (-2, -1), keepdims=True) if blocked else None
    x = x if mean is None else x - mean
    if engine.input_factors is not None:
        x = modulator.as_complex(x)
        x = x * jnp.asarray(engine.input_factors, x.dtype).reshape((1,) * (x.ndim - 2) + engine.shape)
    digits = _digits(x, engine)
    if factor is not None and engine.slices > 1:
        factor = factor[..., None, :, :]
    y = (_emulated if engine.hardware is None else _measured)(digits, factor, engine, key)
    if engine.slices > 1:
        y = y.sum(axis=-3)
    if engine.output_factors is not None:
        y = y * jnp.asarray(engine.output_factors, y.dtype).reshape((1,) * (y.ndim - 2) + engine.shape)
    return y if mean is None else _restore(y, mean, engine)


def _emulated(x: Array, factor: Array | None, engine: Engine, key: Key) -> Array:
    """Emulates the reading of an array: the passes of the detection and of the averages."""
    keys = split(key)
    scale, field = write(x, engine, keys.writing)
    if factor is not None:
        other, bank = write(factor, engine, keys.factor, bank=SECOND_BANK)
        scale, field = scale * other, field * bank
    return read(*coherence.propagate(field, engine), scale, engine, keys)


def read(
    field: Array,
    excess: Array | None,
    scale: Array,
    engine: Engine,
    keys: PassKeys,
    *,
    lenses: int = 1,
) -> Array:
    """Detects the light at the detectors, and multiplies by what it was divided by as it was written.

    Args:
      field: light at the detectors, (passes, ...).
      excess: power of the light that is not coherent with the field; None: all of it is.
      scale: of the field, one number for each aperture; powers get its square.
      engine: the engine, with its laser and receiver.
      keys: PRNG keys of the pass.
      lenses: on the way; before each of them, pixels send light into higher orders. Default 1.
    """
    power = _laser(engine, keys.laser, keys.drift, _laser_shape(field, engine), field.real.dtype)
    if engine.device.insertion_loss_db is not None:  # detectors count what is left, see `Engine.photons`
        eta = jnp.asarray(engine.device.transmission)
        field = field / jnp.sqrt(eta).astype(field.dtype)
        excess = None if excess is None else excess / eta.astype(excess.dtype)
    if engine.device.fill_factor is not None:  # detectors see the zero order alone
        share = jnp.asarray(engine.zero_order, field.real.dtype) ** lenses
        field, scale = field * share.astype(field.dtype), scale / share
        excess = None if excess is None else excess * share**2
    y = _detect(detection.Light(field, power, excess), engine, keys.receiver)
    return y * (scale**2 if engine.receiver.detection == "intensity" else scale).astype(y.dtype)


def _laser_shape(field: Array, engine: Engine) -> tuple[int, ...]:
    """Returns the shape of the laser's fluctuations: one in each pass, which its channels share."""
    shape = list(field.shape[:-2])
    if engine.channels.count > 1:
        shape[2:4] = [1, 1]
    return (*shape, 1, 1)


def _measured(x: Array, factor: Array | None, engine: Engine, key: Key) -> Array:
    """Runs the hardware on an array and returns the mean of the averages."""
    hardware: Any = engine.hardware
    result = jax.eval_shape(partial(_emulated, engine=engine), x, factor, key=key)
    written = x if factor is None else _product(x, factor)
    if engine.averages > 1:
        repeated = (engine.averages, *written.shape)
        result, written = result.update(shape=repeated), jnp.broadcast_to(written, repeated)
    y = jax.pure_callback(lambda x: hardware(np.asarray(x)), result, written, vmap_method="broadcast_all")
    return y.mean(axis=0) if engine.averages > 1 else y


def split(key: Key) -> PassKeys:
    """Splits the key for each draw: noise and rounding have separate streams."""
    if key is None:
        return PassKeys()
    noise = jax.random.split(stream(key, "noise"), 7)
    rounding = jax.random.split(stream(key, "rounding"), 5)
    return PassKeys(
        writing=modulator.Keys(rounding[0], rounding[1], noise[0]),
        factor=modulator.Keys(rounding[2], rounding[3], noise[1]),
        laser=noise[2],
        drift=noise[3],
        receiver=detection.Keys(*noise[4:], rounding=rounding[4], slow=stream(key, "flicker")),
    )


def write(
    x: Array,
    engine: Engine,
    keys: modulator.Keys,
    *,
    plain: bool | None = None,
    bank: str = "writing converters",
) -> tuple[Array, Array]:
    """Returns the scale of each aperture, and its field in each pass.

    Args:
      x: arrays to write, (..., n1, n2).
      engine: the engine, with its modulators.
      keys: PRNG keys of the modulators.
      plain: whether the array itself is the field; None, the default, where nothing depends on its scale.
      bank: name of the converters, which have errors of their own; by default those of the first bank.
    """
    ranges.report(engine, "dac", x)
    if engine.modulator.bent:
        keys = keys._replace(device=stream(device_key(engine.device.seed), bank))
    written = modulator.write(x, engine.modulator, keys, plain=engine.scale_free if plain is None else plain)
    slow, passes = engine.modulator.settling_s, engine.passes // engine.slices
    kept = None if slow is None else kept_share(slow, engine.frame_rate_hz)
    jitter, arrays_hz = engine.modulator.dac_jitter_s, engine.frame_rate_hz / passes
    field = modulator.disturb(
        written,
        engine.modulator,
        passes,
        keys.noise,
        kept,
        channels=engine.channels.count > 1,
        jitter=None if jitter is None else math.pi * arrays_hz * jitter,  # of a sine at half the rate
    )
    return written.scale, field


def _detect(light: detection.Light, engine: Engine, keys: detection.Keys) -> Array:
    """Detects light (averages x passes, ...), and takes the mean of the averages."""
    passes = engine.detector.passes
    lights = jax.tree.map(lambda part: part.reshape(-1, passes, *part.shape[1:]), light)
    if engine.averages == 1:
        return detection.detect(jax.tree.map(lambda part: part[0], lights), engine, keys)
    if keys.reference is None:
        read = jax.vmap(lambda light: detection.detect(light, engine, keys), axis_name=detection.AVERAGES)
        return read(lights).mean(axis=0)
    draws = [jax.random.split(key, engine.averages) for key in keys[:-1]]

    def one(light: detection.Light, *own: Array) -> Array:
        return detection.detect(light, engine, detection.Keys(*own, slow=keys.slow))

    return jax.vmap(one, axis_name=detection.AVERAGES)(lights, *draws).mean(axis=0)


def _digits(x: Array, engine: Engine) -> Array:
    """Splits (..., N1, N2) into S arrays (..., S, N1, N2) that sum to it and are written in turn.

    All but the last are what the modulators can write, each of its own scale.
    """
    if engine.slices == 1:
        return x
    coarse = modulator.coarse(engine.modulator)
    parts = []
    for _ in range(engine.slices - 1):
        scale, field, _ = modulator.write(x, coarse, modulator.Keys())
        written = field * scale.astype(field.dtype)
        parts.append(written if jnp.iscomplexobj(x) else written.real)
        x = x - parts[-1]
    return jnp.stack([*parts, x], axis=-3)


def _laser(engine: Engine, fast: Key, slow: Key, shape: tuple[int, ...], real: Any) -> Array:
    """Draws the laser's relative power in each pass, the same for signal and reference."""
    power = jnp.ones(shape, real)
    if engine.laser.rin_db_hz is not None:
        rms = jnp.sqrt(10.0 ** (jnp.asarray(engine.laser.rin_db_hz, real) / 10) * engine.bandwidth)
        relative = sample(normal, fast, shape, real)
        if engine.laser.rin_corner_hz is not None:
            relative = relative + _flicker(engine, stream(slow, "flicker"), shape, real)
        power = power * (1 + rms * relative)
    if engine.laser.power_drift_rms is not None:
        drift = _drift(engine.laser.drift_corr, slow, shape, real)
        power = power * (1 + engine.laser.power_drift_rms * drift)
    return jnp.maximum(power, 0.0)


def _flicker(engine: Engine, key: Key, shape: tuple[int, ...], dtype: Any) -> Array:
    """Returns the laser's flicker noise over its white noise, as a sum of drifts.

    A drift with the frequency f has the correlation time $1 / (2 pi f)$. All have the same power and lie at
    equal distances on a logarithmic scale, so that the density of their sum falls as $1 / f$.
    """
    lowest, highest = engine.receiver.flicker_lowest_hz, engine.bandwidth
    share = flicker_share(lowest, highest, engine.laser.rin_corner_hz, highest)
    place = (jnp.arange(FLICKER_DRIFTS, dtype=dtype) + 0.5) / FLICKER_DRIFTS
    frequencies = lowest * jnp.maximum(highest / jnp.asarray(lowest, dtype), 1.0) ** place
    passes = (engine.frame_rate_hz / (2 * jnp.pi * frequencies)).astype(dtype)
    keys = jax.random.split(key, FLICKER_DRIFTS)
    drifts = jax.vmap(lambda passes, key: _drift(passes, key, shape, dtype))(passes, keys)
    return jnp.sqrt(share / FLICKER_DRIFTS).astype(dtype) * drifts.sum(axis=0)


def _drift(correlation: Any, key: Key, shape: tuple[int, ...], dtype: Any) -> Array:
    """Computes $z[t] = a z[t - 1] + sqrt(1 - a^2) n[t]$ over the passes, $a = exp(-1 / correlation)$.

    An aperture has all its passes, shape[0], before the next one. Block by block: within one as a product.
    """
    count = math.prod(shape)
    blocks = -(-count // DRIFT_BLOCK)
    fresh = jax.random.normal(key, (1 + blocks * DRIFT_BLOCK,), dtype)
    a = jnp.exp(-1 / jnp.asarray(correlation, dtype))
    place = jnp.arange(DRIFT_BLOCK, dtype=dtype)
    ago = place[:, None] - place[None]
    weights = jnp.where(ago >= 0, a ** jnp.maximum(ago, 0), 0.0) * jnp.sqrt(1 - a**2)

    def one(before: Array, fresh: Array) -> tuple[Array, Array]:
        drift = weights @ fresh + before * a ** (place + 1)
        return drift[-1], drift

    _, drift = jax.lax.scan(one, fresh[0], fresh[1:].reshape(blocks, -1))
    drift = drift.reshape(-1)[:count].reshape(*shape[1:], shape[0])
    return jnp.moveaxis(drift, -1, 0)


def _restore(y: Array, mean: Array, engine: Engine) -> Array:
    """Adds what the mean that was held back would have given: one bin, or one bin of each row."""
    rows, cols = engine.shape
    middle = (rows // 2, cols // 2) if engine.centered else (0, 0)
    mean = mean.real if engine.receiver.detection == "homodyne_re" else mean
    if engine.lens == "1d":
        return y.at[..., :, middle[1]].add((mean[..., 0] * cols**0.5).astype(y.dtype))
    return y.at[..., middle[0], middle[1]].add((mean[..., 0, 0] * (rows * cols) ** 0.5).astype(y.dtype))
