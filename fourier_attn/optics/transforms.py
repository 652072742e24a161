"""Transforms of any size on an aperture: the steps of a schedule are executed."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Inexact

from fourier_attn.ops.transforms import fftn, ifftn
from fourier_attn.optics.engine import optical_dft2
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.random import Key
from fourier_attn.optics.schedule import (
    Chirp,
    ChirpBack,
    ChirpFilter,
    DigitalRadix,
    Mirror,
    PairRows,
    Schedule,
    SplitRows,
    Stage,
    Step,
    Within,
)
from fourier_attn.optics.transform_plan import TransformPlan


class FrameRunner:
    """Executes a schedule: sends frames through the engine, each round with its own key."""

    def __init__(self, engine: Engine, key: Key):
        if engine.noisy and key is None:
            raise ValueError("this engine is noisy: pass key=jax.random.key(...)")
        self.engine = engine
        self.key = key
        self.rounds = 0

    def send(self, x: Array, *, real: bool = False, factor: Array | None = None) -> Array:
        """Transforms frames; the result is complex unless only the real part is requested.

        Args:
          x: frames, (..., N1, N2).
          real: whether the real part is enough; default False.
          factor: (..., N1, N2), by which a second bank of modulators multiplies the written field; None: no
            multiplication.
        """
        engine = self.engine if real else self.engine.whole_field()
        key = None if self.key is None else jax.random.fold_in(self.key, self.rounds)
        self.rounds += 1
        return optical_dft2(x, engine, key, factor=factor)

    def dft(
        self, x: Inexact[Array, "..."], planned: TransformPlan, real: bool = False
    ) -> Inexact[Array, "..."]:
        """Computes the orthonormal transform of the last axes, as planned.

        Args:
          x: arrays, real or complex.
          planned: the plan.
          real: whether the real part is enough; default False.
        """
        if self.engine.modulator.encode == "complex":
            x = _complex(x)
        return self._steps(x.reshape(-1, *planned.sizes), planned.schedule, real).reshape(x.shape)

    def _steps(self, y: Inexact[Array, "v ..."], steps: Schedule, real: bool) -> Inexact[Array, "v ..."]:
        """Executes the steps one after the other."""
        last = len(steps) - 1
        for i, step in enumerate(steps):
            if isinstance(step, Stage):
                y = self._stage(y, step, real and i == last)
            elif isinstance(step, Within):
                y = _last_points(y, step.place, step.points, partial(self._within, step.schedule))
            else:
                y = digital(y, step)
        return y

    def _within(self, steps: Schedule, x: Complex[Array, "..."]) -> Complex[Array, "..."]:
        """Transforms the last axis by its own steps."""
        return self._steps(x.reshape(-1, x.shape[-1]), steps, False).reshape(x.shape)

    def _stage(self, x: Inexact[Array, "v ..."], stage: Stage, real: bool) -> Inexact[Array, "v ..."]:
        """Transforms each axis (N, m, done) to (m, N, done) and multiplies by its twiddle."""
        axes, opened, rests = range(len(stage.sizes)), [len(x)], []
        for n, side, done in zip(stage.sizes, stage.sides, stage.done, strict=True):
            rests.append(n // (side * done))
            opened += [side, rests[-1], done]
        points = [i - len(axes) for i in axes]  # the places of the optical ones
        x = jnp.moveaxis(x.reshape(opened), [1 + 3 * i for i in axes], points)  # (v, m, done, ..., N, ...)
        if stage.sides == self.engine.shape:
            y = self.send(x.reshape(-1, *stage.sides), real=real).reshape(x.shape)
        else:
            y = self._rows(x.reshape(-1, max(stage.sides))).reshape(x.shape)
        for i, (side, rest) in enumerate(zip(stage.sides, rests, strict=True)):
            if side > 1 and rest > 1:
                y = along(y, (1 + 2 * i, points[i]), twiddle(rest, side))
        return jnp.moveaxis(y, points, [2 + 3 * i for i in axes]).reshape(len(x), *stage.sizes)

    def _rows(self, x: Inexact[Array, "v n"]) -> Complex[Array, "v n"]:
        """Transforms vectors of N points, N1 of them on an aperture."""
        rows, columns = self.engine.shape
        vectors = len(x)
        frames = -(-vectors // rows)
        x = jnp.pad(x, ((0, frames * rows - vectors), (0, 0))).reshape(frames, rows, columns)
        y = self.send(x)
        if self.engine.lens == "2d":  # the other axis is transformed, too
            y = ifftn(y.swapaxes(-2, -1), 1).swapaxes(-2, -1)
        return y.reshape(-1, columns)[:vectors]


def digital(x: Inexact[Array, "v ..."], step: Step) -> Complex[Array, "v ..."]:
    """Runs a step that needs no light."""
    match step:
        case DigitalRadix(place, points):
            return _last_points(x, place, points, lambda y: fftn(y, 1))
        case Chirp(place, n, length):
            ends = [(0, 0)] * x.ndim
            ends[place] = (0, length - n)
            return jnp.pad(along(x, (place,), chirp(n)), ends)
        case ChirpFilter(place, n, length):
            return along(x, (place,), chirp_spectrum(n, length))
        case ChirpBack(place, n):
            y = jax.lax.slice_in_dim(backwards(x, (place,)), 0, n, axis=x.ndim + place)
            return along(y, (place,), chirp(n) * (1 / n) ** 0.5)
        case PairRows(rows):
            pairs = jnp.pad(x.real, ((0, 0), (0, rows % 2), (0, 0))).reshape(len(x), -1, 2, x.shape[-1])
            return jax.lax.complex(pairs[:, :, 0], pairs[:, :, 1])
        case SplitRows(rows, columns):
            other = jnp.conj(backwards(x, (-1,)))[..., :columns]
            x = x[..., :columns]
            parts = jnp.stack([(x + other) / 2, (x - other) * -0.5j], axis=2)
            return parts.reshape(len(x), -1, columns)[:, :rows]
        case Mirror(columns):
            other = jnp.conj(backwards(x, (-2,))[..., columns - x.shape[-1] : 0 : -1])
            return jnp.concatenate([x, other], axis=-1)
        case _:
            raise TypeError(f"{step} is not a digital step")


def _last_points(x: Array, place: int, points: int, transform: Callable[[Array], Array]) -> Array:
    """Transforms what is left of an axis after its stages, which lies as (points, done)."""
    y = x.swapaxes(place, -1)
    y = y.reshape(*y.shape[:-1], points, -1).swapaxes(-2, -1)  # (..., done, points)
    y = transform(y).swapaxes(-2, -1)
    return y.reshape(*y.shape[:-2], -1).swapaxes(place, -1)


def _complex(x: Inexact[Array, "..."]) -> Complex[Array, "..."]:
    return x if jnp.iscomplexobj(x) else jax.lax.complex(x, jnp.zeros_like(x))


def twiddle(m: int, side: int) -> np.ndarray:
    """Returns $exp(-2 pi i k j / (m N))$, (m, N)."""
    turn = np.outer(np.arange(m), np.arange(side)) % (m * side)
    return np.exp(-2j * np.pi * turn / (m * side))


def chirp(n: int) -> np.ndarray:
    """Returns $exp(-pi i k^2 / n)$."""
    k = np.arange(n)
    return np.exp(-1j * np.pi * (k * k % (2 * n)) / n)


def chirp_spectrum(n: int, length: int) -> np.ndarray:
    """Returns the spectrum of $exp(pi i k^2 / n)$ for $-n < k < n$, on a circle of `length`."""
    k = np.arange(n)
    wave = np.exp(1j * np.pi * (k * k % (2 * n)) / n)
    around = np.zeros(length, complex)
    around[:n] = wave
    around[length - n + 1 :] = wave[1:][::-1]
    return np.fft.fft(around)


def along(x: Array, places: Sequence[int], values: np.ndarray) -> Array:
    """Multiplies an array by values along some axes.

    Args:
      x: the array.
      places: the axes.
      values: with an axis for each of these.
    """
    shape = [1] * x.ndim
    for place, n in zip(places, values.shape, strict=True):
        shape[place] = n
    return x * jnp.asarray(values.reshape(shape), x.dtype)


def backwards(x: Array, axes: Sequence[int]) -> Array:
    """Returns x at -k mod n, which turns a forward transform into the inverse."""
    return jnp.roll(jnp.flip(x, axes), [1] * len(axes), axes)
