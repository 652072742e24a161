"""What networks ask of an engine: transforms of any size, circular correlations, Fourier mixing.

Two real arrays go into one complex pass, a + i b: what is real-linear acts on both parts, and of a transform
each part is found by the symmetry of real spectra. Partners share a scale and the noise of their pass.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Inexact

from fourier_attn.ops.circular import signal_axes
from fourier_attn.optics.draws import Key
from fourier_attn.optics.parameters import Engine
from fourier_attn.optics.planner import FrameRunner, backwards, check_field
from fourier_attn.optics.plans import lambda_axes, pairs, transform_axes
from fourier_attn.optics.tiles import cut, join, tile


def optical_dft(
    x: Inexact[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    axes: Sequence[int] = (-2, -1),
    inverse: bool = False,
    report: bool = False,
) -> Any:
    """Orthonormal discrete Fourier transform over one or two axes of any size.

        y[k] = (1 / sqrt(n)) sum_m x[m] exp(-2 pi sqrt(-1) k m / n),  + for the inverse, on each axis

    Args:
      x: real or complex; all other axes are a batch.
      axes: one or two axes.
      report: also returns the number of passes that were executed.
    Returns: complex; what the detection gives where the size is the aperture's own, and so one frame.
    Raises: ValueError for axes or sizes that no plan covers, or a missing key.
    Source: `fourier_attn.optics.planner`.
    """
    axes = transform_axes(x.shape, axes)
    run, last = FrameRunner(engine, key), tuple(range(-len(axes), 0))
    alone = tuple(x.shape[axis] for axis in axes) == engine.shape
    y = run.dft(
        jnp.moveaxis(_wide(x), axes, last), len(axes), real=alone and engine.detection == "homodyne_re"
    )
    y = jnp.moveaxis(backwards(y, last) if inverse else y, last, axes)
    return (y, run.passes) if report else y


def _wide(x: Array) -> Array:
    """In the precision of the engine: single, or double if x is."""
    if x.dtype in (jnp.float64, jnp.complex128):
        return x
    return x.astype(jnp.complex64 if jnp.iscomplexobj(x) else jnp.float32)


def _pair(x: Float[Array, "v ..."], engine: Engine) -> Inexact[Array, "w ..."]:
    """Halves the batch: a + i b, the last one with zeros if the batch is odd; one array stays real."""
    if not pairs(len(x), engine):
        return x
    half = -(-len(x) // 2)
    other = jnp.pad(x[half:], [(0, 2 * half - len(x))] + [(0, 0)] * (x.ndim - 1))
    return jax.lax.complex(x[:half], other)


def optical_fourier_mix(
    x: Float[Array, "*b t d"], engine: Engine, key: Key = None, *, report: bool = False
) -> Any:
    """FNet's mixing on the engine: y = Re F_t F_d x, unnormalised, as `fourier_attn.ops.fourier.fourier_mix`.

    Two examples share a pass; Re A[k] = (Re Z[k] + Re Z[-k]) / 2 and Re B[k] = (Im Z[k] + Im Z[-k]) / 2 for
    Z = F(a + i b). With detection "homodyne_re" the last stage measures the real part alone, without pairs.

    Args:
      report: also returns the number of passes that were executed.
    Masking: none; every output depends on every input.
    Raises: ValueError for sizes that no plan covers, or a missing key.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """
    check_field(engine)
    t, d = x.shape[-2:]
    run, flat = FrameRunner(engine, key), _wide(x).reshape(-1, t, d)
    z = run.dft(_pair(flat, engine), 2, real=engine.detection == "homodyne_re")
    if pairs(len(flat), engine):
        y = jnp.concatenate([z.real, z.imag])[: len(flat)]
        y = (y + backwards(y, (-2, -1))) / 2
    else:
        y = z.real
    y = (y * math.sqrt(t * d)).reshape(x.shape).astype(x.dtype)
    return (y, run.passes) if report else y


def optical_circular_correlate(
    x: Float[Array, "*b d"],
    kernel: Float[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    shape: tuple[int, ...] | None = None,
    boundary: str = "circular",
    multiply: str = "digital",
    report: bool = False,
) -> Any:
    """`fourier_attn.ops.circular.circular_correlate` on the engine: transform, filter, transform back.

        y_a = F^-1(conj(F w_a) F x)                               conj: a correlation, as the articles have it

    One transform of x serves all kernels; two vectors share a pass. Where the aperture is not of the signal's
    size, tiles of N points on each axis overlap by r - 1 (overlap-save), so that N - r + 1 of each are kept,
    3 x 3 of a 5 x 5 aperture for a 3 x 3 kernel; or the signal goes through stages, where that is less.

    Args:
      x: vectors; with `shape` = (d1, d2) images, row by row.
      kernel: (h, r), or (h, r1, r2) with `shape`; its spectrum is computed digitally.
      boundary: "circular", "zero" or "valid".
      multiply: "digital", or "modulator": a second bank of modulators multiplies by the spectrum as the
        second pass is written, with its own quantisation; for tiles of the aperture's size only.
      report: also returns the number of passes that were executed.
    Returns: (*b, h, p).
    Masking: none needed; each vector stands alone, but for the pass that it shares with its partner.
    Raises: ValueError for kernels that do not fit, sizes that no plan covers, or a missing key.
    Source: Optalysys' articles on transformers by convolution (5 x 5 demonstrator: 3 x 3 kernels).
    """
    if multiply not in ("digital", "modulator"):
        raise ValueError(f"multiply={multiply!r} is unknown; choose 'digital' or 'modulator'")
    check_field(engine)
    axes, taps = signal_axes(x.shape, kernel.shape, shape, boundary), kernel.shape[1:]
    run, count = FrameRunner(engine.whole_field(), key), math.prod(x.shape[:-1])
    engine = run.engine
    z = _pair(_wide(x).reshape(-1, *axes), engine)
    if boundary == "zero":
        z = jnp.pad(z, [(0, 0), *((r // 2, r - 1 - r // 2) for r in taps)])
    tiles = tile(z.shape, kernel.shape, engine, boundary)
    z = cut(z, tiles, taps, engine.shape[-len(axes) :], boundary) if tiles else z
    y = _filter(z, kernel, run, multiply)
    y = join(y, tiles, taps) if tiles else y
    places = tuple(n - r + 1 for n, r in zip(axes, taps, strict=True)) if boundary == "valid" else axes
    y = y[(..., *(slice(n) for n in places))].reshape(*y.shape[:2], -1)
    y = jnp.concatenate([y.real, y.imag])[:count] if pairs(count, engine) else y.real
    y = y.reshape(*x.shape[:-1], *y.shape[1:]).astype(x.dtype)
    return (y, run.passes) if report else y


def _filter(z: Array, kernel: Float[Array, "h ..."], run: FrameRunner, multiply: str) -> Array:
    """(v, ..., *n) becomes (v, h, ..., *n): forth, times the spectra of the kernels, and back."""
    axes = kernel.ndim - 1
    sides, last = z.shape[-axes:], tuple(range(-axes, 0))
    spectrum = jnp.conj(jnp.fft.fftn(kernel.astype(z.real.dtype), sides, last))
    spectrum = spectrum.reshape(1, len(kernel), *(1,) * (z.ndim - 1 - axes), *sides)
    if multiply == "modulator" and sides != run.engine.shape:
        raise ValueError(f"multiply='modulator' needs frames of the aperture {run.engine.shape}, not {sides}")
    z = run.dft(z, axes)[:, None]
    if multiply == "digital":
        return backwards(run.dft(z * spectrum, axes), last)
    whole = jnp.broadcast_shapes(z.shape, spectrum.shape)
    return backwards(run.send(jnp.broadcast_to(z, whole), factor=jnp.broadcast_to(spectrum, whole)), last)


def optical_position_lambda(
    query: Float[Array, "b t h k"],
    value: Float[Array, "b t v u"],
    position: Float[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    grid: tuple[int, ...] | None = None,
    mask: Bool[Array, "b t"] | None = None,
    report: bool = False,
) -> Any:
    """The position part of `fourier_attn.ops.lambdas.lambda_layer`, its convolutions on the engine.

        y[n, a] = lambda[n]^T q[n, a],   lambda[n] = sum_m R[m - n + (r - 1) / 2] value[m]^T

    Every feature of the values is a signal along the positions, every column of R a kernel, zero outside; the
    lambdas (b, v, k, t) are what the engine gives, so that they are written out.

    Args:
      position: R, (r, k, u), or (r1, r2, k, u) with `grid`; odd.
      mask: False where the value counts as zero.
      report: also returns the number of passes that were executed.
    Returns: (b, t, h, v).
    Raises: ValueError for a table that does not fit, sizes that no plan covers, or a missing key.
    Source: Bello, arXiv 2102.08602; Optalysys' article on lambda layers.
    """
    if mask is not None:
        value = jnp.where(mask[..., None, None], value, jnp.zeros((), value.dtype))
    axes, wide = grid or value.shape[1:2], lambda_axes(value.shape, position.shape, grid)
    kernels, passes = jnp.moveaxis(position, (-1, -2), (0, 1)), 0  # (u, k, *r)
    y = jnp.zeros((*query.shape[:-1], value.shape[2]), _wide(value).dtype)
    for i, kernel in enumerate(kernels):
        draw = None if key is None else jax.random.fold_in(key, i)
        signal = jnp.moveaxis(value[..., i], 1, -1).reshape(len(value), -1, *axes)  # (b, v, *n)
        ends = [(0, w - n) for w, n in zip(wide, axes, strict=True)]
        signal = jnp.pad(signal, [(0, 0), (0, 0), *ends]).reshape(*signal.shape[:2], -1)
        lambdas, used = optical_circular_correlate(
            signal, kernel, engine, draw, shape=wide if grid else None, boundary="zero", report=True
        )
        lambdas = lambdas.reshape(*lambdas.shape[:3], *wide)[(..., *(slice(n) for n in axes))]
        lambdas = lambdas.reshape(*lambdas.shape[:3], -1)
        y, passes = y + jnp.einsum("bthk,bvkt->bthv", query, lambdas.astype(query.dtype)), passes + used
    y = y.astype(value.dtype)
    return (y, passes) if report else y
