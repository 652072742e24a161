"""Computes the transforms and convolutions of a program by an engine's planned transforms.

Two real arrays share a pass, as $a + i b$. The symmetry of real spectra separates their spectra.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from fourier_attn.optics.correlation_plan import tile_counts
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.operations import optical_dft
from fourier_attn.optics.planner import BYTES, Plan
from fourier_attn.optics.programs.call_sites import CallSite
from fourier_attn.optics.random import Key
from fourier_attn.optics.schedule import PRODUCT
from fourier_attn.optics.tiles import cut, join
from fourier_attn.optics.transform_plan import (
    check_field,
    check_plan,
    has_stages,
    packed,
    plan_transform,
)
from fourier_attn.optics.transforms import backwards


class Optics(NamedTuple):
    """Says how an engine computes a call site.

    Args:
      engine: the engine, which detects the whole field.
      prefer: "error" or "passes", see `fourier_attn.optics.transform_plan`.
    """

    engine: Engine
    prefer: str = "error"

    def dft(self, x: Array, axes: int, key: Key, *, inverse: bool = False) -> Complex[Array, "v ..."]:
        """Computes the orthonormal transform of the last axes, two of them at a time.

        Args:
          x: arrays, (v, *n).
          axes: number of transformed axes.
          key: PRNG key of the noise, or None.
          inverse: computes the inverse transform; default False.
        """
        for number, group in enumerate(groups(axes, self.engine)):
            part = None if key is None else jax.random.fold_in(key, number)
            x = optical_dft(x, self.engine, part, axes=group, inverse=inverse, prefer=self.prefer)
        return x

    def plan(self, sizes: tuple[int, ...], arrays: int, *, real: bool = False) -> Plan:
        """Counts what `dft` takes.

        Args:
          sizes: of the transformed axes.
          arrays: their number.
          real: whether they are real, and not packed in pairs; default False.
        """
        total = Plan(0, 0, 0, "")
        for number, group in enumerate(groups(len(sizes), self.engine)):
            part = tuple(sizes[axis] for axis in group)
            count = arrays * math.prod(sizes) // math.prod(part)
            chosen = plan_transform(
                part, self.engine, prefer=self.prefer, arrays=count, real=real and number == 0
            )
            frames, digital = chosen.frames(count), chosen.digital(count)
            lots = chosen.frames(count, self.engine.channels.count)
            one = Plan(
                frames=frames,
                passes=lots * self.engine.passes,
                stages=chosen.stages,
                method=chosen.method,
                digital_flops=digital.flops,
                digital_bytes=float(BYTES * digital.values),
                lots=lots,
            )
            total = one if number == 0 else add(total, one)
        return total


def add(one: Plan, other: Plan) -> Plan:
    """Returns the plan of one operation after another."""
    method = one.method if one.method == other.method else f"{one.method}; {other.method}"
    sums = {name: getattr(one, name) + getattr(other, name) for name in Plan._fields if name != "method"}
    return Plan(**sums, method=method)


def groups(axes: int, engine: Engine) -> list[tuple[int, ...]]:
    """Returns the trailing axes that the lens transforms together, the last ones first."""
    width = 1 if engine.lens == "1d" else 2
    return [tuple(range(-min(end + width, axes), -end)) for end in range(0, axes, width)]


def optics(engine: Engine, prefer: str) -> Optics:
    """Returns how an engine computes transforms.

    Raises: ValueError for an engine that loses the phase, and an unknown `prefer`.
    """
    check_plan(prefer)
    check_field(engine)
    return Optics(engine.whole_field(), prefer)


def plan_site(site: CallSite, light: Optics) -> Plan:
    """Counts what an engine takes for one run of a call site.

    Args:
      site: the call site.
      light: the engine, and its preference.
    Raises: ValueError for sizes that no plan covers.
    """
    if site.kind == "conv":
        return Correlation.of(site, light).plan(light)
    count, real = site.arrays, site.kind in ("rfft", "irfft")
    arrays = packed(count, light.engine) if real else count
    planned = light.plan(site.sizes, arrays, real=site.kind == "rfft" and arrays == count)
    points = math.prod(site.sizes)
    flops = 4.0 * points * arrays if arrays < count else 0.0  # two spectra are taken apart, or put together
    return planned._replace(digital_flops=planned.digital_flops + flops)


def run_site(site: CallSite, operands: list[Array], light: Optics, key: Key) -> Array:
    """Computes the result of a call site on an engine.

    Args:
      site: the call site.
      operands: of its equation.
      light: the engine, and its preference.
      key: PRNG key of the noise, or None.
    """
    if site.kind == "conv":
        return _convolve(site, operands, light, key)
    if site.kind == "matrix":
        return _multiply(site, operands[site.params["operand"]], light, key)
    (x,) = operands
    axes, lead = len(site.sizes), x.shape[: x.ndim - len(site.sizes)]
    flat = x.reshape(-1, *x.shape[len(lead) :])
    points = math.prod(site.sizes)
    if site.kind == "rfft":
        y = rfft(flat, axes, light, key) * points**0.5
    elif site.kind == "irfft":
        y = irfft(flat, site.sizes, light, key) * points**-0.5
    else:
        inverse = site.kind == "ifft"
        y = light.dft(flat, axes, key, inverse=inverse) * points ** (-0.5 if inverse else 0.5)
    return y.reshape(*lead, *y.shape[1:])


def _multiply(site: CallSite, x: Array, light: Optics, key: Key) -> Array:
    """Computes the product with a DFT matrix as a transform of one axis."""
    x = jnp.moveaxis(x, site.params["axis"], -1)
    y = light.dft(x.reshape(-1, x.shape[-1]), 1, key, inverse=site.params["inverse"]).reshape(x.shape)
    y = y * site.params["scale"]
    return jnp.moveaxis(y, -1, 0) if site.params["operand"] == 1 else y


def rfft(x: Float[Array, "v ..."], axes: int, light: Optics, key: Key) -> Complex[Array, "v ..."]:
    """Computes the half spectra of real arrays, orthonormal, two arrays in a pass.

        A[k] = (Z[k] + conj Z[-k]) / 2,   B[k] = (Z[k] - conj Z[-k]) / (2 i),   Z = F(a + i b)

    Args:
      x: real arrays, (v, *n).
      axes: number of transformed axes.
      light: the engine.
      key: PRNG key of the noise, or None.
    """
    half = x.shape[-1] // 2 + 1
    arrays = packed(len(x), light.engine)
    if arrays == len(x):
        return light.dft(x, axes, key)[..., :half]
    z = light.dft(_pairs(x), axes, key)
    other = jnp.conj(backwards(z, tuple(range(-axes, 0))))[..., :half]
    z = z[..., :half]
    parts = jnp.stack([(z + other) / 2, (z - other) * -0.5j], axis=1)
    return parts.reshape(-1, *parts.shape[2:])[: len(x)]


def irfft(
    x: Complex[Array, "v ..."], sizes: tuple[int, ...], light: Optics, key: Key
) -> Float[Array, "v ..."]:
    """Computes the real arrays of half spectra, orthonormal, two arrays in a pass.

    Args:
      x: half spectra along the last axis, (v, *n).
      sizes: n of the results.
      light: the engine.
      key: PRNG key of the noise, or None.
    """
    whole = _mirrored(x, sizes)
    arrays = packed(len(x), light.engine)
    if arrays == len(x):
        return light.dft(whole, len(sizes), key, inverse=True).real
    y = light.dft(_pairs(whole), len(sizes), key, inverse=True)
    return jnp.stack([y.real, y.imag], axis=1).reshape(-1, *sizes)[: len(x)]


def _pairs(x: Array) -> Complex[Array, "w ..."]:
    """Puts arrays $2 j$ and $2 j + 1$ into one, $a + i b$; the last has zeros beside it if it is alone."""
    x = jnp.pad(x, [(0, len(x) % 2)] + [(0, 0)] * (x.ndim - 1))
    x = x.reshape(-1, 2, *x.shape[1:])
    if jnp.iscomplexobj(x):
        return x[:, 0] + 1j * x[:, 1]
    return jax.lax.complex(x[:, 0], x[:, 1])


def _mirrored(x: Complex[Array, "v ..."], sizes: tuple[int, ...]) -> Complex[Array, "v ..."]:
    """Returns the whole spectra of real arrays from their halves along the last axis.

    The inverse transform of a half ignores the imaginary part of what has no mirror image, as FFTs do.
    """
    n, half = sizes[-1], sizes[-1] // 2 + 1
    lead = tuple(range(-len(sizes), -1))
    other = jnp.conj(backwards(x, lead) if lead else x)
    own = np.zeros((1,) * (x.ndim - 1) + (half,), bool)
    own[..., 0], own[..., half - 1] = True, n % 2 == 0 or half == 1
    x = jnp.where(own, (x + other) / 2, x)
    return jnp.concatenate([x, other[..., n - half : 0 : -1]], axis=-1)


class Correlation(NamedTuple):
    """Says how an engine computes a convolution: spectra of tiles, products summed over features, and back.

        y[b, o] = F^-1 sum_i conj(F w[o, i]) F x[b, i]

    Args:
      signals: number of signals that are transformed, examples times input features.
      results: number of signals that are transformed back, examples times output features.
      products: of spectra.
      taps: of a kernel, with its dilation.
      tiles: number of overlapping tiles on each axis; () for the padded signal as a whole.
      sizes: of a tile, or of the whole.
    """

    signals: int
    results: int
    products: int
    taps: tuple[int, ...]
    tiles: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, site: CallSite, light: Optics) -> "Correlation":
        """Returns the way with the fewest frames. Raises: ValueError where there is none."""
        params = site.params
        batch, _, *_ = params["dimension_numbers"].lhs_spec
        outputs, inputs, *places = params["dimension_numbers"].rhs_spec
        taps = tuple(
            (site.kernel[at] - 1) * by + 1 for at, by in zip(places, params["rhs_dilation"], strict=True)
        )
        results = site.shape[batch] * site.kernel[outputs]
        sides = light.engine.shape[-len(taps) :]
        ways = [cls(site.arrays, results, results * site.kernel[inputs], taps, (), site.sizes)]
        if site.sizes != sides and all(r <= side for r, side in zip(taps, sides, strict=True)):
            tiles = tile_counts(site.sizes, taps, sides, "valid")
            ways.append(ways[0]._replace(tiles=tiles, sizes=sides))
            if not has_stages(light.engine):
                ways = ways[1:]
        return min(ways, key=lambda way: way.plan(light).frames)

    def plan(self, light: Optics) -> Plan:
        """Counts transforms forth and back, and the digital products of spectra."""
        tiles, points = math.prod(self.tiles), math.prod(self.sizes)
        signals, results = self.signals * tiles, self.results * tiles
        forth, back = packed(signals, light.engine), packed(results, light.engine)
        planned = add(
            light.plan(self.sizes, forth, real=forth == signals),
            light.plan(self.sizes, back),
        )
        half = points // self.sizes[-1] * (self.sizes[-1] // 2 + 1)
        flops = (PRODUCT + 2) * half * self.products * tiles
        flops += 4.0 * points * (forth * (forth < signals) + back * (back < results))
        way = f"{' x '.join(map(str, self.tiles))} tiles" if self.tiles else "whole"
        return planned._replace(
            digital_flops=planned.digital_flops + flops, method=f"{way}, {planned.method}"
        )


def _convolve(site: CallSite, operands: list[Array], light: Optics, key: Key) -> Array:
    """Computes `jax.lax.conv_general_dilated` by correlations in the Fourier plane."""
    params, way = site.params, Correlation.of(site, light)
    x, kernel = operands
    numbers, groups_ = params["dimension_numbers"], params["feature_group_count"]
    dtype = params["preferred_element_type"] or x.dtype
    x = _signals(x.transpose(numbers.lhs_spec).astype(jnp.float32), params["padding"])
    kernel = _dilated(kernel.transpose(numbers.rhs_spec).astype(jnp.float32), params["rhs_dilation"])
    b, features = x.shape[:2]
    outputs, axes, n = kernel.shape[0], tuple(range(-len(way.taps), 0)), len(way.taps)
    forth, back = (None, None) if key is None else jax.random.split(key)
    z = x.reshape(-1, *x.shape[2:])
    z = cut(z, way.tiles, way.taps, way.sizes, "valid") if way.tiles else z
    spectrum = rfft(z.reshape(-1, *way.sizes), n, light, forth)
    grid, half = way.tiles or (1,) * n, spectrum.shape[1:]
    spectrum = spectrum.reshape(b, groups_, features // groups_, math.prod(grid), -1)
    filters = jnp.conj(jnp.fft.rfftn(kernel, way.sizes, axes))
    filters = filters.reshape(groups_, outputs // groups_, features // groups_, -1)
    y = jnp.einsum("bgitf,goif->bgotf", spectrum, filters, precision="highest")
    y = irfft(y.reshape(-1, *half), way.sizes, light, back)
    y = y.reshape(b, outputs, *grid, *way.sizes)
    y = join(y, way.tiles, way.taps) if way.tiles else y.reshape(b, outputs, *way.sizes)
    steps, results = params["window_strides"], []
    for size, taps, step in zip(site.sizes, way.taps, steps, strict=True):
        results.append(slice(0, size - taps + 1, step))
    y = y[(..., *results)]
    return y.transpose(_inverse(numbers.out_spec)).astype(dtype)


def _signals(x: Array, padding: tuple[tuple[int, int], ...]) -> Array:
    """Pads the axes after the first two with zeros, or cuts them where the padding is negative."""
    return jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)] * 2 + [(*ends, 0) for ends in padding])


def _dilated(kernel: Array, dilation: tuple[int, ...]) -> Array:
    """Puts zeros between the taps of a kernel."""
    return jax.lax.pad(
        kernel, jnp.zeros((), kernel.dtype), [(0, 0, 0)] * 2 + [(0, 0, by - 1) for by in dilation]
    )


def _inverse(spec: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the axes that bring (batch, features, *places) into the order of `spec`."""
    return tuple(spec.index(axis) for axis in range(len(spec)))
