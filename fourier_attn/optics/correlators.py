"""Correlators that are all light between input and camera: 4f, and the joint transform correlator.

In a 4f correlator, a lens transforms the input, a filter plane multiplies by transmissions H, and a second
lens transforms again. In a joint transform correlator, signal and kernel are side by side in one plane, a
camera takes the intensity of their common transform, and a second lens transforms that intensity. Neither
needs a reference: detectors read intensities. Every effect of the engine is in every plane.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Inexact, Num

from fourier_attn.choices import check_choice
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.optics import ranges
from fourier_attn.optics.correlator_light import JointTransform, four_f, joint_planes, spectrum
from fourier_attn.optics.correlator_plan import check_engine, check_kernel, joint_plane
from fourier_attn.optics.drift import timed
from fourier_attn.optics.engine_spec import SCOPE, Engine
from fourier_attn.optics.operations import widen
from fourier_attn.optics.parts import Modulator
from fourier_attn.optics.rails import known, pair_rails, sum_rails
from fourier_attn.optics.random import Key

FULL = 1 + 1e-5  # full transmission, rounded
KINDS = ("complex", "phase", "amplitude")


@jax.named_scope(SCOPE)
@takes_arrays
def optical_4f(
    x: Num[Array, "..."],
    h: Num[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    filter_plane: Modulator | None = None,
) -> Inexact[Array, "..."]:
    """Returns what the camera of a 4f correlator reads, one pass for each aperture.

        I[n] = |E[-n]|^2,   E = F (H . F x)                       F: the orthonormal transform of a lens

    Two forward transforms reverse an array, so that the camera is read backwards. The result is upright: it
    is $|g * x|^2$ with $g = F^-1 H / sqrt(N)$, on a circle of N pixels. Pad x with zeros for a convolution on
    a line. H has no gain: $|H| <= 1$, and larger traced values are clipped.

        >>> engine = Engine(shape=(1, 4)).replace(detection="intensity")
        >>> optical_4f(jnp.array([[0.0, 1.0, 2.0, 3.0]]), jnp.ones((1, 4)), engine).round(3)  # an open filter
        Array([[0., 1., 4., 9.]], dtype=float32)

    The largest intensity of an output pixel is the power of the whole aperture, N times unit intensity. This
    is the full scale `adc_range="fixed"`. An open filter gives no pixel more than unit intensity. The well or
    the saturation of a detector counts electrons, whatever the full scale.

    Args:
      x: (..., N1, N2) with the engine's shape, real or complex.
      h: (..., N1, N2), transmissions H in the order of the transform: zero frequency first, or in the middle
        for a centered engine. For `encode="phase"` only its phase counts.
      engine: the engine; its `receiver.detection` reads the output. "intensity" gives I, "amplitude" its
        root, and a detection of the field gives the field.
      key: draws what changes from pass to pass; may be None where nothing is noisy.
      filter_plane: modulators of H, with their own bits and noise; None, the default: those of the input.
    Raises: ValueError for a shape that is not the aperture's, a gain, numbers that modulators do not write,
      or an engine that is for one lens alone.
    Source: VanderLugt 1964; with filters that have amplitudes alone, Miscuglio et al., Optica 7, 1812 (2020),
      arXiv 2008.05853.
    """
    check_kernel(x.shape, h.shape, engine)
    if h.shape[-2:] != engine.shape:
        raise ValueError(f"h of shape {h.shape} must end in the aperture {engine.shape}; see matched_filter")
    plane = _filter_plane(engine, filter_plane)
    check_run(engine, plane, key)
    _check_written("x", x, engine.modulator, "optical_4f_correlate with encoding='two_rail'")
    _check_written("h", h, plane, "matched_filter(..., kind='amplitude')")
    values = known(h)
    if plane.encode != "phase" and values is not None and np.max(np.abs(values)) > FULL:
        raise ValueError(
            f"h reaches |h|={np.max(np.abs(values)):.4g}, and a filter plane has no gain; divide h by that, "
            "or use matched_filter"
        )
    open_filter = dataclasses.replace(plane, dac_range=1.0, dac_full_scale=None)
    return four_f(widen(x), widen(h), _timed(engine), open_filter, key)


@jax.named_scope(SCOPE)
@takes_arrays
def optical_4f_correlate(
    x: Num[Array, "..."],
    kernel: Num[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    filter_plane: Modulator | None = None,
    encoding: str | None = None,
    signed: str = "both",
) -> Inexact[Array, "..."]:
    """Correlates arrays with kernels by a 4f correlator, on a circle of the aperture's size.

        y[n] = sum_m conj(w[m]) x[n + m],   H = conj(F w) / max|F w|

    Without an encoding the result is what the detection makes of y, for example $|y|^2$. With one it is y
    itself, the sum over pairs of rails, see `fourier_attn.optics.rails`.

        >>> engine = Engine(shape=(1, 4)).replace(detection="intensity")
        >>> x, w = jnp.array([[0.0, 1.0, 2.0, 3.0]]), jnp.array([[1.0, -1.0]])
        >>> optical_4f_correlate(x, w, engine, encoding="two_rail").round()
        Array([[-1., -1., -1.,  3.]], dtype=float32)

    Args:
      x: (..., N1, N2) with the engine's shape.
      kernel: w, (..., r1, r2), not larger than the aperture.
      engine, key, filter_plane: as in `optical_4f`; the filter plane must write complex numbers.
      encoding: None (default); "two_rail" takes positive and negative parts, "bias" the array with a bias and
        the bias alone. A complex array has two real ones.
      signed: "both" (default): four passes for real numbers. "kernel" or "input" where the other one is not
        negative: two passes.
    Raises: ValueError as `optical_4f`, and for a filter plane without phases.
    Source: arXiv 2211.05276 takes two passes for signed kernels ("pseudo-negative").
    """
    check_kernel(x.shape, kernel.shape, engine)
    plane = _filter_plane(engine, filter_plane)
    if plane.encode != "complex":
        raise ValueError(
            f"encode={plane.encode!r} of the filter plane does not write the spectrum of a kernel; use "
            "filter_plane=Modulator(), or optical_4f with matched_filter"
        )
    check_run(engine, plane, key)
    inputs, kernels = pair_rails(widen(x), widen(kernel), encoding, signed)
    if encoding is None:
        _check_written("x", x, engine.modulator, "encoding='two_rail'")
    plane = dataclasses.replace(plane, dac_range="auto", dac_full_scale=None)
    spectra = spectrum(kernels.parts, engine)
    engine = _timed(_linear(engine, encoding))
    y = four_f(inputs.parts, spectra, engine, plane, key, rails=encoding is not None)
    return sum_rails(y, inputs, kernels, encoding)


@takes_arrays
def matched_filter(
    kernel: Num[Array, "..."], shape: tuple[int, int], *, kind: str = "complex", lens: str = "2d"
) -> Inexact[Array, "..."]:
    """Returns the transmissions that correlate with a kernel, for `optical_4f`.

        H = conj(W) / max|W|,   conj(W) / |W|  or  |W| / max|W|,   W = F w

    The first is the matched filter. The second keeps its phase alone and the third its amplitude alone.

        >>> matched_filter(jnp.array([[1.0, 1.0]]), (1, 2), kind="amplitude").round(3)
        Array([[1., 0.]], dtype=float32)

    Args:
      kernel: w, (..., r1, r2).
      shape: (N1, N2) of the aperture. The result has zero frequency first; shift it for a centered engine.
      kind: "complex" (default), "phase" or "amplitude".
      lens: "2d" (default), or "1d" for a cylindrical lens; then kernels have one row or N1.
    Raises: ValueError for a kernel that does not fit on the aperture.
    """
    check_choice("kind", kind, KINDS)
    engine = Engine(shape=shape, lens=lens)
    check_kernel(shape, kernel.shape, engine)
    w = spectrum(widen(kernel), engine)
    size = jnp.abs(w)
    if kind == "phase":
        return jnp.where(size == 0, 1.0, w / jnp.where(size == 0, 1.0, size).astype(w.dtype))
    largest = jnp.max(size, axis=(-2, -1), keepdims=True)
    w = size if kind == "amplitude" else w
    return w / jnp.where(largest == 0, 1.0, largest).astype(w.dtype)


@jax.named_scope(SCOPE)
@takes_arrays
def joint_transform(
    x: Num[Array, "..."],
    kernel: Num[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    boundary: str = "zero",
) -> JointTransform:
    """Returns the terms in the output plane of a joint transform correlator, as they are detected.

        c = sqrt(N) F |F j|^2,   j = x + (w moved by p)

    F is the orthonormal transform of a lens over N pixels.

    Args:
      x, kernel, engine, key, boundary: as in `joint_transform_correlate`.
    Raises: ValueError for sizes at which terms overlap, or an auto-correlation overlaps itself.
    """
    plane = joint_plane(x.shape, kernel.shape, engine, boundary)
    if engine.lens == "2d" and engine.shape[0] < 2 * plane.tallest - 1:
        raise ValueError(
            f"auto-correlations of {plane.tallest} rows overlap themselves on {engine.shape[0]} rows; use "
            f"{2 * plane.tallest - 1}, or joint_transform_correlate, which does not read them"
        )
    check_run(engine, engine.modulator, key, joint=True)
    for name, values in (("x", x), ("kernel", kernel)):
        _check_written(name, values, engine.modulator, "joint_transform_correlate with encoding='two_rail'")
    return joint_planes(widen(x), widen(kernel), _timed(engine), key, plane, boundary)


@jax.named_scope(SCOPE)
@takes_arrays
def joint_transform_correlate(
    x: Num[Array, "..."],
    kernel: Num[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    boundary: str = "zero",
    encoding: str | None = None,
    signed: str = "both",
) -> Inexact[Array, "..."]:
    """Correlates signals with kernels by a joint transform correlator, in two passes.

        y[i] = sum_a conj(w[a]) x[i + a - r // 2]                 zeros outside

    Signal and kernel are written side by side, each at its own full scale. A camera, or photodiodes, take
    the intensity of their common transform, and modulators write it again. After the second lens the
    correlation is at its offset, clear of the auto-correlations at the centre, which no detector has to read.
    So the full scale of the output's detectors is that of the correlation. On a row of N pixels, a signal
    of n and a kernel of r pixels need a guard distance of $max(n, r) - 1$ and

        N >= 2 (n + max(n, r) + r) - 3

    `fourier_attn.optics.correlator_plan.JointPlane` says where each term is.

        >>> engine = Engine(shape=(1, 20)).replace(detection="intensity")
        >>> x, w = jnp.array([[0.0, 1.0, 2.0, 3.0]]), jnp.array([[1.0, -1.0]])
        >>> joint_transform_correlate(x, w, engine, encoding="two_rail", boundary="valid").round()
        Array([[-1., -1., -1.]], dtype=float32)

    Args:
      x: (..., n1, n2). A spherical lens correlates images; a cylindrical one each row by itself.
      kernel: w, (..., r1, r2); for a cylindrical lens with the rows of x.
      engine: the engine; its `receiver.detection` reads the output plane, in one pass.
      key: draws what changes from pass to pass; may be None where nothing is noisy.
      boundary: "zero" (default) gives the shape of x, "valid" the places where the kernel fits, "full" all.
      encoding, signed: as in `optical_4f_correlate`.
    Raises: ValueError for sizes at which terms overlap, or numbers that modulators do not write.
    Source: Weaver and Goodman 1966; on a chip with cylindrical lenses, arXiv 2211.05276.
    """
    plane = joint_plane(x.shape, kernel.shape, engine, boundary)
    check_run(engine, engine.modulator, key, joint=True)
    inputs, kernels = pair_rails(widen(x), widen(kernel), encoding, signed)
    if encoding is None:
        _check_written("x", x, engine.modulator, "encoding='two_rail'")
        _check_written("kernel", kernel, engine.modulator, "encoding='two_rail'")
    engine, rails = _timed(_linear(engine, encoding)), encoding is not None
    y = joint_planes(inputs.parts, kernels.parts, engine, key, plane, boundary, rails=rails).cross
    return sum_rails(y, inputs, kernels, encoding)


def _linear(engine: Engine, encoding: str | None) -> Engine:
    """Returns the engine that reads the root of an intensity, where rails are summed.

    Raises: ValueError for modulators that do not write the amplitudes of rails.
    """
    if encoding is not None and engine.modulator.encode == "phase":
        raise ValueError(
            f"encode='phase' writes no amplitudes, and encoding={encoding!r} has no phases; use "
            "encode='amplitude', or encoding=None"
        )
    if encoding is None or engine.receiver.detection != "intensity":
        return engine
    return engine.replace(detection="amplitude")


def _timed(engine: Engine) -> Engine:
    return dataclasses.replace(engine, device=timed(engine.device))


def _filter_plane(engine: Engine, plane: Modulator | None) -> Modulator:
    """Returns the modulators of the filter plane, which follow the frame rate as well."""
    plane = engine.modulator if plane is None else plane
    engine.replace(modulator=plane, dc_block=False, input_factors=None, output_factors=None)  # checks them
    return plane


def check_run(engine: Engine, plane: Modulator, key: Key, *, joint: bool = False) -> None:
    """Checks that an engine can run as a correlator with this key.

    Args:
      engine: the engine.
      plane: modulators of the filter plane.
      key: PRNG key of the noise.
      joint: whether a camera reads between the lenses; default False.
    Raises: ValueError for ranges that were not calibrated, what only one lens has, or a missing key.
    """
    ranges.check_ranges(engine)
    check_engine(engine, joint=joint)
    if key is None and (engine.noisy or Engine(modulator=plane).noisy):
        raise ValueError("this engine is noisy: pass key=jax.random.key(...)")


def _check_written(name: str, values: Array, modulator: Modulator, cure: str) -> None:
    """Checks that modulators write such numbers."""
    if modulator.encode in ("complex", "phase"):
        return
    if jnp.iscomplexobj(values):
        raise ValueError(
            f"{name} is {values.dtype}, and encode={modulator.encode!r} writes real numbers; use {cure}"
        )
    array = known(values)
    if modulator.encode == "amplitude" and array is not None and np.min(array) < 0:
        raise ValueError(
            f"{name} reaches {np.min(array):.4g}, and encode='amplitude' writes no negative numbers; use "
            f"{cure}"
        )
