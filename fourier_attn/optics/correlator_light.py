"""The light in correlators: through a filter plane, and through a square-law detector to a second lens.

Writing, lenses, laser, detectors and converters are those of `fourier_attn.optics.engine`.
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fourier_attn.optics.correlator_plan import JointPlane, broadcast
from fourier_attn.optics.device import propagate
from fourier_attn.optics.engine import SECOND_BANK, PassKeys, read, split, write
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.modulator import as_complex
from fourier_attn.optics.parts import Modulator
from fourier_attn.optics.random import Key, stream
from fourier_attn.optics.transforms import backwards

OTHER_SEED = 0x2545F491  # of the second lens, whose errors are others

ROUNDING = 32  # in the least numbers that a transform of the brightest field can tell apart


class JointTransform(NamedTuple):
    """Holds the terms of a joint transform correlator's output, each read by detectors of its own.

    Args:
      cross: the correlation, where `JointPlane.cross` says.
      auto: both auto-correlations together, around the optical axis. They are those of the light that is
        written: each array is divided by its scale.
    """

    cross: Array
    auto: Array


@partial(jax.jit, static_argnames="rails")
def four_f(x: Array, h: Array, engine: Engine, plane: Modulator, key: Key, *, rails: bool = False) -> Array:
    """Runs a 4f correlator, with the derivative that the engine asks for.

    Args:
      x: inputs, (..., N1, N2).
      h: transmissions of the filter plane, (..., N1, N2), which may have another batch.
      engine: the engine.
      plane: modulators of the filter plane, with their range.
      key: PRNG key of the noise.
      rails: whether no field at the detectors is negative; default False.
    """
    batch = broadcast(x.shape[:-2], h.shape[:-2])
    x, h = (jnp.broadcast_to(part, (*batch, *engine.shape)) for part in (x, h))
    y = _filtered(x, h, engine, plane, key, rails)
    if engine.backward == "model":
        return y
    ideal = Modulator(encode=plane.encode, dac_range=plane.dac_range)
    return follow(_filtered(x, h, engine.ideal(), ideal, None, rails), y)


def _filtered(x: Array, h: Array, engine: Engine, plane: Modulator, key: Key, rails: bool) -> Array:
    """Runs a 4f correlator on apertures that have a filter each."""
    keys = split(key)
    scale, field = write(x, engine, keys.writing)
    lossless = dataclasses.replace(engine.device, insertion_loss_db=None)  # the loss is that of the whole way
    field = propagate(field, dataclasses.replace(engine, device=lossless))
    bank = engine.replace(modulator=plane, monitor=None)
    plain = plane.dac_range == "auto" and bank.scale_free
    other, transmissions = write(h, bank, keys.factor, plain=plain, bank=SECOND_BANK)
    field = propagate(field * transmissions, other_lens(engine))
    y = read(field, None, scale * other, engine, keys, lenses=2)
    if rails:
        y = _grow(y, field, _brightest(field), scale * other, engine)
    return upright(y, engine)


@partial(jax.jit, static_argnames=("plane", "boundary", "rails"))
def joint_planes(
    x: Array,
    kernel: Array,
    engine: Engine,
    key: Key,
    plane: JointPlane,
    boundary: str,
    *,
    rails: bool = False,
) -> JointTransform:
    """Runs a joint transform correlator, with the derivative that the engine asks for.

    Args:
      x: signals, (..., n1, n2).
      kernel: kernels, (..., r1, r2), which may have another batch.
      engine: the engine.
      key: PRNG key of the noise.
      plane: places of signal and kernel.
      boundary: "zero", "valid" or "full".
      rails: whether no field at the detectors is negative; default False.
    """
    batch = broadcast(x.shape[:-2], kernel.shape[:-2])
    x, kernel = (jnp.broadcast_to(part, (*batch, *part.shape[-2:])) for part in (x, kernel))
    y = _both_planes(x, kernel, engine, key, plane, boundary, rails)
    if engine.backward == "model":
        return y
    ideal = _both_planes(x, kernel, engine.ideal(), None, plane, boundary, rails)
    return jax.tree.map(follow, ideal, y)


def _both_planes(
    x: Array, kernel: Array, engine: Engine, key: Key, plane: JointPlane, boundary: str, rails: bool
) -> JointTransform:
    """Runs a joint transform correlator on signals that have a kernel each."""
    names = ("spectrum", "cross", "auto")
    first, second, third = (split(None if key is None else stream(key, name)) for name in names)
    one_pass = {"reference": second.receiver.reference}  # lights all detectors of the second plane
    third = third._replace(
        laser=second.laser, drift=second.drift, receiver=third.receiver._replace(**one_pass)
    )
    left, field = write(x, engine, first.writing, plain=False)
    right, other = write(kernel, _own_scale(engine), first.factor, plain=False, bank=SECOND_BANK)
    field = _placed(field, plane, 0) + _placed(other, plane, plane.offset)
    joint = read(propagate(field, engine), None, jnp.ones_like(left), _camera(engine), first)
    other_plane = other_lens(engine)
    joint = jnp.where(joint < 0, 0.0, joint)  # noise below zero is not written
    scale, field = write(joint, _amplitudes(other_plane, plane), second.writing)
    output = propagate(field, other_plane)
    scale = scale * plane.points**0.5

    def detectors(places: tuple[list[int], list[int]], keys: PassKeys, factor: Array) -> Array:
        light = _at(output, places)
        y = read(light, None, scale * factor, other_plane, keys)
        return _grow(y, light, _brightest(output), scale * factor, engine) if rails else y

    cross = detectors(plane.cross(boundary), second, left * right)
    return JointTransform(cross, detectors(plane.auto(), third, jnp.ones_like(left)))


def _brightest(field: Array) -> Array:
    return jnp.max(jnp.abs(field), axis=(-2, -1), keepdims=True)


def _grow(y: Array, field: Array, brightest: Array, scale: Array, engine: Engine) -> Array:
    """Returns amplitudes of rails, with the derivative of the field in the dark, where a root has none.

    The field of rails is not negative, so it can only grow where it is 0 but for rounding. Where noise or
    levels hide such a field, no derivative is added.

    Args:
      y: amplitudes as they are read.
      field: light at the detectors, (passes, ...).
      brightest: largest amplitude of each aperture's light.
      scale: of the field.
      engine: the engine.
    """
    receiver = engine.receiver
    if receiver.detection != "amplitude" or engine.photons is not None or receiver.adc_bits is not None:
        return y
    eta = engine.device.transmission
    light = jnp.mean(field.real, axis=0) * scale / jnp.sqrt(jnp.asarray(eta, scale.dtype))
    dark = jnp.mean(jnp.abs(field) <= ROUNDING * jnp.finfo(y.dtype).eps * brightest, axis=0) == 1
    return jnp.where(dark, follow(light, y), y)


def _own_scale(engine: Engine) -> Engine:
    """Returns the engine as it writes a kernel: a range of the converters holds for inputs."""
    modulator = dataclasses.replace(engine.modulator, dac_range="auto", dac_full_scale=None)
    return dataclasses.replace(engine, modulator=modulator, monitor=None)


def other_lens(engine: Engine) -> Engine:
    """Returns the engine with its second lens, whose errors are drawn apart from those of the first.

    Args:
      engine: the engine with the first lens.
    """
    device = dataclasses.replace(engine.device, seed=engine.device.seed ^ OTHER_SEED)
    return dataclasses.replace(engine, device=device)


def _camera(engine: Engine) -> Engine:
    """Returns the engine as it takes the joint spectrum: an intensity, up to the power of the aperture."""
    span = "auto" if engine.receiver.adc_range == "auto" else "fixed"
    without = {"lo_phase_err": None, "lo_drift": None, "amplifiers": "detector", "cmrr_db": None}
    if engine.detector.detectors == 0:
        return engine.replace(detection="intensity", monitor=None)
    return engine.replace(detection="intensity", adc_range=span, monitor=None, **without)


def _amplitudes(engine: Engine, plane: JointPlane) -> Engine:
    """Returns the engine as it writes the joint spectrum, which is real and not negative."""
    modulator = engine.modulator
    bits = modulator.dac_bits_phase if modulator.encode == "phase" else modulator.dac_bits_amp
    span = "auto" if modulator.dac_range == "auto" else float(plane.points)
    changed = dataclasses.replace(
        modulator,
        encode="amplitude",
        dac_bits_amp=bits,
        dac_bits_phase=None,
        dac_range=span,
        dac_full_scale=None,
        thermal_crosstalk=None,  # of phases, which this plane does not write
    )
    return dataclasses.replace(engine, modulator=changed, monitor=None)


def _placed(field: Array, plane: JointPlane, column: int) -> Array:
    """Surrounds a field by the dark pixels of the aperture; it begins in the first row and a column."""
    rows, columns = field.shape[-2:]
    ends = [(0, plane.shape[0] - rows), (column, plane.shape[1] - columns - column)]
    return jnp.pad(field, [(0, 0)] * (field.ndim - 2) + ends)


def _at(y: Array, places: tuple[list[int], list[int]]) -> Array:
    rows, columns = (np.asarray(each) for each in places)
    return jnp.take(jnp.take(y, rows, axis=-2), columns, axis=-1)


def upright(y: Array, engine: Engine) -> Array:
    """Returns what a camera behind two lenses reads, read backwards around the optical axis.

    Args:
      y: at the camera.
      engine: the engine, with its lens.
    """
    axes = (-2, -1) if engine.lens == "2d" else (-1,)
    if not engine.centered:
        return backwards(y, axes)
    return jnp.fft.fftshift(backwards(jnp.fft.ifftshift(y, axes), axes), axes)


def follow(exact: Array, made: Array) -> Array:
    """Returns a result with the derivative of another one.

    Args:
      exact: has the derivative.
      made: has the values.
    """
    return exact + jax.lax.stop_gradient(made - exact)


def spectrum(kernel: Array, engine: Engine) -> Array:
    """Computes $conj(W)$ of kernels digitally; $W = F w$ is not normalised.

    Args:
      kernel: w, (..., r1, r2).
      engine: the engine, with its aperture and lens.
    """
    axes = (-2, -1) if engine.lens == "2d" else (-1,)
    sizes = [engine.shape[axis] for axis in axes]
    w = jnp.conj(jnp.fft.fftn(as_complex(kernel), sizes, axes))
    return jnp.fft.fftshift(w, axes) if engine.centered else w
