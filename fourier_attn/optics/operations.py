"""Operations of networks on an engine: transforms of any size, circular correlations, Fourier mixing.

Two real arrays go into one complex pass, $a + i b$: what is real-linear acts on both parts, and of a
transform each part is found by the symmetry of real spectra. Partners share a scale and the noise of their
pass. They are neighbours, so that they are on one device where a sharded batch has an even number of arrays
on each.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Inexact, Num

from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.optics.correlation_plan import (
    CorrelationPlan,
    check_multiply,
    plan_correlation,
    plan_position_lambda,
)
from fourier_attn.optics.engine_spec import SCOPE, Engine
from fourier_attn.optics.random import Key
from fourier_attn.optics.tiles import cut, join
from fourier_attn.optics.transform_plan import check_field, plan_mix, plan_transform, transform_axes
from fourier_attn.optics.transforms import FrameRunner, backwards


@jax.named_scope(SCOPE)
@takes_arrays
def optical_dft(
    x: Num[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    axes: Sequence[int] = (-2, -1),
    inverse: bool = False,
    prefer: str = "error",
) -> Inexact[Array, "..."]:
    """Computes the orthonormal discrete Fourier transform over one or two axes of any size.

        y[k] = (1 / sqrt(n)) sum_m x[m] exp(-2 pi sqrt(-1) k m / n),  + for the inverse, on each axis

    Args:
      x: real or complex; all other axes are a batch.
      engine: the engine, with its aperture.
      key: PRNG key of the noise; None is enough for an engine without noise.
      axes: one or two axes.
      inverse: computes the inverse transform; default False.
      prefer: "error" or "passes", see `fourier_attn.optics.transform_plan`.
    Returns: complex; what the detection gives where the size is the aperture's own, and so one frame.
    Raises: ValueError for axes or sizes that no plan covers, an unknown plan, or a missing key.
    Source: Cooley and Tukey 1965; Bluestein 1970; see `fourier_attn.optics.schedule`.
    """
    axes = transform_axes(x.shape, axes)
    check_filled("x", x.shape, axes)
    if x.size == 0:
        one = jax.ShapeDtypeStruct([n if i in axes else 1 for i, n in enumerate(x.shape)], x.dtype)
        example = jax.eval_shape(lambda x: optical_dft(x, engine, key, axes=axes, prefer=prefer), one)
        return jnp.zeros(x.shape, example.dtype)
    last = tuple(range(-len(axes), 0))
    sizes = tuple(x.shape[axis] for axis in axes)
    arrays = x.size // max(1, math.prod(sizes))
    planned = plan_transform(sizes, engine, prefer=prefer, arrays=arrays, real=not jnp.iscomplexobj(x))
    run = FrameRunner(engine, key)
    real = planned.direct and engine.receiver.detection == "homodyne_re"
    y = run.dft(jnp.moveaxis(widen(x), axes, last), planned, real=real)
    if inverse:
        y = backwards(y, last)
    return jnp.moveaxis(y, last, axes)


def check_filled(name: str, shape: tuple[int, ...], axes: Sequence[int]) -> None:
    """Checks that axes other than those of the batch are not empty.

    Args:
      name: of the array, for the message.
      shape: of the array.
      axes: that must not be empty.
    Raises: ValueError for an empty axis.
    """
    if 0 in [shape[axis] for axis in axes]:
        places = sorted(axis % len(shape) for axis in axes)
        raise ValueError(
            f"{name} of shape {shape}: the sizes of axes {places} must all be at least 1; only the batch may "
            "be empty"
        )


def widen(x: Array) -> Array:
    """Casts x to the precision of the engine: single, or double if x is."""
    if x.dtype in (jnp.float64, jnp.complex128):
        return x
    return x.astype(jnp.complex64 if jnp.iscomplexobj(x) else jnp.float32)


def _pair(x: Float[Array, "v ..."], half: int) -> Inexact[Array, "w ..."]:
    """Arrays $2 i$ and $2 i + 1$ in one, $a + i b$, the last one with zeros if their number is odd.

    Where the plan has half as many, see `transform_plan.packed`.
    """
    if half == len(x):
        return x
    zeros = [(0, 2 * half - len(x))] + [(0, 0)] * (x.ndim - 1)
    pairs = jnp.pad(x, zeros).reshape(half, 2, *x.shape[1:])
    return jax.lax.complex(pairs[:, 0], pairs[:, 1])


def _unpair(y: Inexact[Array, "w ..."], count: int) -> Float[Array, "v ..."]:
    """Takes arrays out of the real and imaginary parts of half as many."""
    if len(y) == count:
        return y.real
    return jnp.stack([y.real, y.imag], axis=1).reshape(-1, *y.shape[1:])[:count]


@jax.named_scope(SCOPE)
@takes_arrays
def optical_fourier_mix(
    x: Float[Array, "*b t d"],
    engine: Engine,
    key: Key = None,
    *,
    prefer: str = "error",
) -> Float[Array, "*b t d"]:
    """Computes FNet's mixing on the engine, $y = Re F_t F_d x$.

    It is the same as `fourier_attn.ops.fourier.fourier_mix`. The transform is unnormalised. Two examples
    share a pass, $Z = F(a + i b)$:

        Re A[k] = (Re Z[k] + Re Z[-k]) / 2
        Re B[k] = (Im Z[k] + Im Z[-k]) / 2

    With detection "homodyne_re" the last stage measures the real part alone, without pairs.

    Args:
      x: examples of t tokens and d features, shape (*b, t, d).
      engine: the engine, with its aperture.
      key: PRNG key of the noise; None is enough for an engine without noise.
      prefer: "error" or "passes", see `fourier_attn.optics.transform_plan`.
    Masking: none; every output depends on every input.
    Raises: ValueError for sizes that no plan covers, or a missing key.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """
    check_filled("x", x.shape, (-2, -1))
    t, d = x.shape[-2:]
    arrays, planned = plan_mix(x.shape, engine, prefer)
    run = FrameRunner(engine, key)
    if x.size == 0:
        return x
    examples = widen(x).reshape(-1, t, d)
    z = run.dft(_pair(examples, arrays), planned, real=engine.receiver.detection == "homodyne_re")
    y = _unpair(z, len(examples))
    if len(z) < len(examples):
        y = (y + backwards(y, (-2, -1))) / 2
    return (y * math.sqrt(t * d)).reshape(x.shape).astype(x.dtype)


@jax.named_scope(SCOPE)
@takes_arrays
def optical_circular_correlate(
    x: Float[Array, "*b d"],
    kernel: Float[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    shape: tuple[int, ...] | None = None,
    boundary: str = "circular",
    multiply: str = "digital",
    prefer: str = "error",
) -> Float[Array, "*b h _"]:
    """Computes `fourier_attn.ops.circular.circular_correlate` on the engine.

        y_a = F^-1(conj(F w_a) F x)                               conj: a correlation, as the articles have it

    One transform of x serves all kernels; two vectors share a pass. Where the aperture is not of the signal's
    size, tiles of N points on each axis overlap by $r - 1$ (overlap-save), so that $N - r + 1$ of each are
    kept, 3 x 3 of a 5 x 5 aperture for a 3 x 3 kernel; or the signal goes through stages, where that is less.

    Args:
      x: vectors, shape (*b, d); with `shape` = (d1, d2) images, row by row.
      kernel: (h, r), or (h, r1, r2) with `shape`; its spectrum is computed digitally.
      engine: the engine, with its aperture.
      key: PRNG key of the noise; None is enough for an engine without noise.
      shape: (d1, d2) of the images, $d = d1 d2$; None, the default, is for vectors.
      boundary: "circular", "zero" or "valid".
      multiply: "digital", or "modulator": a second bank of modulators multiplies by the spectrum as the
        second pass is written, with its own quantisation; for tiles of the aperture's size only.
      prefer: "error" or "passes", see `fourier_attn.optics.transform_plan`.
    Masking: none needed; vectors do not mix, but for the pass that it shares with its partner.
    Raises: ValueError for kernels that do not fit, sizes that no plan covers, or a missing key.
    Source: Optalysys' articles on transformers by convolution (5 x 5 demonstrator: 3 x 3 kernels).
    """
    check_field(engine)
    check_filled("x", x.shape, (-1,))
    check_filled("kernel", kernel.shape, range(-kernel.ndim, 0))
    run = FrameRunner(engine.whole_field(), key)
    vectors = x.shape if x.size else (1, x.shape[-1])
    planned = plan_correlation(vectors, kernel.shape, run.engine, shape, boundary, prefer)
    check_multiply(multiply, planned, run.engine)
    if x.size == 0:
        return jnp.zeros((*x.shape[:-1], planned.kernels, math.prod(planned.places)), x.dtype)
    return _correlate(x, kernel, planned, run, multiply)


def _correlate(
    x: Float[Array, "*b d"],
    kernel: Float[Array, "h ..."],
    planned: CorrelationPlan,
    run: FrameRunner,
    multiply: str = "digital",
) -> Float[Array, "*b h _"]:
    """Runs the frames of `optical_circular_correlate` as they are planned."""
    z = _pair(widen(x).reshape(-1, *planned.axes), planned.arrays)
    if planned.boundary == "zero":
        z = jnp.pad(z, [(0, 0), *((r // 2, r - 1 - r // 2) for r in planned.taps)])
    if planned.tiles:
        z = cut(z, planned.tiles, planned.taps, planned.transform.sizes, planned.boundary)
    y = _filter(z, kernel, planned, run, multiply)
    if planned.tiles:
        y = join(y, planned.tiles, planned.taps)
    y = y[(..., *(slice(n) for n in planned.places))]
    y = _unpair(y.reshape(*y.shape[:2], -1), planned.vectors)
    return y.reshape(*x.shape[:-1], *y.shape[1:]).astype(x.dtype)


def _filter(
    z: Array, kernel: Float[Array, "h ..."], planned: CorrelationPlan, run: FrameRunner, multiply: str
) -> Array:
    """Transforms (v, ..., *n), multiplies by the kernels' spectra, and transforms back to (v, h, ..., *n)."""
    sizes = planned.transform.sizes
    last = tuple(range(-len(sizes), 0))
    spectrum = jnp.conj(jnp.fft.fftn(kernel.astype(z.real.dtype), sizes, last))
    tiles = (1,) * len(planned.tiles)
    spectrum = spectrum.reshape(1, planned.kernels, *tiles, *sizes)
    z = run.dft(z, planned.transform)[:, None]
    if multiply == "digital":
        y = run.dft(z * spectrum, planned.transform)
    else:
        whole = jnp.broadcast_shapes(z.shape, spectrum.shape)
        y = run.send(jnp.broadcast_to(z, whole), factor=jnp.broadcast_to(spectrum, whole))
    return backwards(y, last)


@jax.named_scope(SCOPE)
@takes_arrays
def optical_position_lambda(
    query: Float[Array, "b t h k"],
    value: Float[Array, "b t v u"],
    position: Float[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    grid: tuple[int, ...] | None = None,
    mask: Bool[Array, "b t"] | None = None,
    prefer: str = "error",
) -> Float[Array, "b t h _"]:
    """Computes the position part of `fourier_attn.ops.lambdas.lambda_layer` on the engine.

        y[n, a] = lambda[n]^T q[n, a],   lambda[n] = sum_m R[m - n + (r - 1) / 2] value[m]^T

    Every feature of the values is a signal along the positions, every column of R a kernel, zero outside; the
    lambdas (b, v, k, t) are what the engine gives, so that they are written out. The sum over tables has
    the engine's precision and is rounded once.

    Args:
      query: (b, t, h, k).
      value: (b, t, v, u).
      position: R, (r, k, u), or (r1, r2, k, u) with `grid`; odd.
      engine: the engine, with its aperture.
      key: PRNG key of the noise; None is enough for an engine without noise.
      grid: (rows, columns) of the positions; None: one axis.
      mask: False where the value counts as zero.
      prefer: "error" or "passes", see `fourier_attn.optics.transform_plan`.
    Raises: ValueError for a table that does not fit, sizes that no plan covers, or a missing key.
    Source: Bello, arXiv 2102.08602; Optalysys' article on lambda layers.
    """
    check_field(engine)
    check_filled("query", query.shape, (1,))
    check_filled("value", value.shape, (1,))
    if 0 in (query.size, value.size):
        return jnp.zeros((*query.shape[:-1], value.shape[2]), value.dtype)
    if mask is not None:
        value = jnp.where(mask[..., None, None], value, jnp.zeros((), value.dtype))
    engine = engine.whole_field()
    planned = plan_position_lambda(value.shape, position.shape, engine, grid, prefer)
    ends = [(0, w - n) for w, n in zip(planned.wide, planned.axes, strict=True)]
    wide = widen(value)
    y = jnp.zeros((*query.shape[:-1], value.shape[2]), wide.dtype)
    for i in range(planned.u):
        run = FrameRunner(engine, None if key is None else jax.random.fold_in(key, i))
        kernel = jnp.moveaxis(position[..., i], -1, 0)  # (k, *r)
        signal = jnp.moveaxis(wide[..., i], 1, -1)  # (b, v, t)
        signal = signal.reshape(*signal.shape[:2], *planned.axes)
        signal = jnp.pad(signal, [(0, 0), (0, 0), *ends]).reshape(*signal.shape[:2], -1)
        lambdas = _correlate(signal, kernel, planned.correlation, run)
        lambdas = lambdas.reshape(*lambdas.shape[:3], *planned.wide)
        lambdas = lambdas[(..., *(slice(n) for n in planned.axes))]
        lambdas = lambdas.reshape(*lambdas.shape[:3], -1)  # (b, v, k, t)
        y = y + jnp.einsum("bthk,bvkt->bthv", query.astype(y.dtype), lambdas)
    return y.astype(value.dtype)
