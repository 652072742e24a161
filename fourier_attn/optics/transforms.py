"""Transforms of any size on an aperture: frames are sent through the engine as a plan says."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Inexact

from fourier_attn.ops.transforms import fftn, ifftn
from fourier_attn.optics.draws import Key
from fourier_attn.optics.engine import optical_dft2
from fourier_attn.optics.parameters import Engine
from fourier_attn.optics.planner import Axis, TransformPlan


class FrameRunner:
    """One execution: sends frames through the engine, each lot with a key of its own, and counts them."""

    def __init__(self, engine: Engine, key: Key):
        if engine.noisy and key is None:
            raise ValueError("this engine is noisy: pass key=jax.random.key(...)")
        self.engine = engine
        self.key = key
        self.frames = 0
        self.lots = 0

    def send(self, x: Array, *, real: bool = False, factor: Array | None = None) -> Array:
        """Transforms frames (..., N1, N2); complex unless only the real part is asked for."""
        engine = self.engine if real else self.engine.whole_field()
        key = None if self.key is None else jax.random.fold_in(self.key, self.lots)
        self.lots += 1
        self.frames += math.prod(x.shape[:-2])
        return optical_dft2(x, engine, key, factor=factor)

    @property
    def passes(self) -> int:
        """Passes so far: of the detection, the averages and the slices, for each frame."""
        return self.frames * self.engine.passes

    def dft(
        self, x: Inexact[Array, "..."], planned: TransformPlan, real: bool = False
    ) -> Inexact[Array, "..."]:
        """Orthonormal transform of the last axes, as planned; `real` says that the real part is enough.

        Axes of lengths without factors N are convolved with a chirp:

            y[k] = c[k] (IDFT(DFT(x c) DFT(1 / c)))[k],   c[k] = exp(-pi i k^2 / n)
        """
        if self.engine.modulator.encode == "complex":
            x = _complex(x)
        if planned.direct:
            return self.send(x, real=real)
        if not planned.chirped:
            return self._axes(x, planned.axes, real)
        for place in planned.chirped:
            axis = planned.axes[place]
            x = along(x, place, chirp(axis.n))
            ends = [(0, 0)] * x.ndim
            ends[place] = (0, axis.length - axis.n)
            x = jnp.pad(x, ends)
        y = self._axes(x, planned.axes)
        for place in planned.chirped:
            axis = planned.axes[place]
            y = along(y, place, chirp_spectrum(axis.n, axis.length))
        if len(planned.chirped) == len(planned.axes):
            y = self._axes(y, planned.axes)
        else:
            y = self._one_axis(y, planned.axes[planned.chirped[0]], planned.chirped[0])
        y = backwards(y, planned.chirped)
        for place in planned.chirped:
            n = planned.axes[place].n
            y = jax.lax.slice_in_dim(y, 0, n, axis=y.ndim + place)
            y = along(y, place, chirp(n) * (1 / n) ** 0.5)
        return y

    def _axes(self, x: Inexact[Array, "..."], axes: tuple[Axis, ...], real: bool = False) -> Array:
        """Transform of the last one axis or two, of `length` points each."""
        if len(axes) == 1:
            return self._last_axis(x, axes[0])
        return self._two_axes(x, axes, real)

    def _two_axes(self, x: Inexact[Array, "*b n1 n2"], axes: tuple[Axis, ...], real: bool) -> Array:
        """Transform of the last two axes: blocks of N x N points, then what is left of one axis."""
        if min(axis.stages for axis in axes) == 0:
            return self._last_axis(self._one_axis(x, axes[0], -2), axes[1])
        *lead, n1, n2 = x.shape
        a, b = axes[0].side, axes[1].side
        rest = tuple(axis.after_stage() for axis in axes)
        m1, m2 = rest[0].n, rest[1].n
        last = m1 == m2 == 1
        blocks = x.reshape(-1, a, m1, b, m2).transpose(0, 2, 4, 1, 3)
        y = self.send(blocks, real=real and last)  # (v, k1, k2, j1, j2)
        if not last:
            first = jnp.asarray(twiddle(m1, a), y.dtype)
            second = jnp.asarray(twiddle(m2, b), y.dtype)
            y = y * first[None, :, None, :, None] * second[None, None, :, None, :]
            y = self._two_axes(y.transpose(0, 3, 4, 1, 2), rest, real)  # (v, j1, j2, q1, q2)
            y = y.transpose(0, 3, 4, 1, 2)
        return y.transpose(0, 1, 3, 2, 4).reshape(*lead, n1, n2)

    def _one_axis(self, x: Inexact[Array, "..."], axis: Axis, place: int) -> Array:
        """Transform of the axis at this place."""
        return self._last_axis(x.swapaxes(place, -1), axis).swapaxes(place, -1)

    def _last_axis(self, x: Inexact[Array, "*b n"], axis: Axis) -> Array:
        """Transform of the last axis: rows of N points, and the remainder digitally."""
        if axis.stages == 0:
            return x if axis.length == 1 else fftn(_complex(x), 1)
        *lead, n = x.shape
        side = axis.side
        rest = axis.after_stage()
        vectors = math.prod(lead)
        x = x.reshape(vectors, side, rest.n).swapaxes(1, 2).reshape(-1, side)
        y = self._rows(x).reshape(vectors, rest.n, side)  # (v, k2, j1)
        y = y * jnp.asarray(twiddle(rest.n, side), y.dtype)[None]
        y = self._last_axis(y.swapaxes(1, 2), rest)  # (v, j1, j2)
        return y.swapaxes(1, 2).reshape(*lead, n)

    def _rows(self, x: Inexact[Array, "v n"]) -> Complex[Array, "v n"]:
        """N-point transforms of vectors, N1 of them on an aperture."""
        rows, columns = self.engine.shape
        vectors = len(x)
        frames = -(-vectors // rows)
        x = jnp.pad(x, ((0, frames * rows - vectors), (0, 0))).reshape(frames, rows, columns)
        y = self.send(x)
        if self.engine.lens == "2d":  # the other axis is transformed, too
            y = ifftn(y.swapaxes(-2, -1), 1).swapaxes(-2, -1)
        return y.reshape(-1, columns)[:vectors]


def _complex(x: Inexact[Array, "..."]) -> Complex[Array, "..."]:
    return x if jnp.iscomplexobj(x) else jax.lax.complex(x, jnp.zeros_like(x))


def twiddle(m: int, side: int) -> np.ndarray:
    """exp(-2 pi i k j / (m N)), (m, N)."""
    turn = np.outer(np.arange(m), np.arange(side)) % (m * side)
    return np.exp(-2j * np.pi * turn / (m * side))


def chirp(n: int) -> np.ndarray:
    """exp(-pi i k^2 / n)."""
    k = np.arange(n)
    return np.exp(-1j * np.pi * (k * k % (2 * n)) / n)


def chirp_spectrum(n: int, length: int) -> np.ndarray:
    """Spectrum of exp(pi i k^2 / n) for -n < k < n, on a circle of `length`."""
    k = np.arange(n)
    wave = np.exp(1j * np.pi * (k * k % (2 * n)) / n)
    around = np.zeros(length, complex)
    around[:n] = wave
    around[length - n + 1 :] = wave[1:][::-1]
    return np.fft.fft(around)


def along(x: Array, place: int, values: np.ndarray) -> Array:
    """x times values that run along one axis, counted from the end."""
    shape = [1] * x.ndim
    shape[place] = len(values)
    return x * jnp.asarray(values.reshape(shape), x.dtype)


def backwards(x: Array, axes: Sequence[int]) -> Array:
    """x at -k mod n: turns a forward transform into the inverse."""
    return jnp.roll(jnp.flip(x, axes), [1] * len(axes), axes)
