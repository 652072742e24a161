"""Transforms of any size on an aperture of N x N pixels, and the passes that they take.

A smaller array on the aperture would be a zero-padded transform of N points, not one of its own size; larger
ones need stages. So lengths n = r N^s with s >= 1 are split by Cooley and Tukey,

    x[k2 + m k1] -> N-point transforms over k1 (optical) -> exp(-2 pi i j1 k2 / n) -> m-point ones over k2,

the last of r points digitally, and all other lengths go through a circular convolution with a chirp
(Bluestein) on L = r N^s >= 2 n - 1 points, r at most 3. Two-dimensional stages take N x N blocks; what
remains of one axis is done in rows, N vectors in one pass, whose mixing by the spherical lens is undone
digitally.
Inverse transforms are forward ones, read backwards.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Inexact

from fourier_attn.optics.draws import Key
from fourier_attn.optics.engine import optical_dft2
from fourier_attn.optics.parameters import Engine

REMAINDER = 3  # the largest radix that a chirp's length leaves to the digital side


def split(n: int, side: int) -> tuple[int, int]:
    """(s, r) with n = r side^s, side not dividing r: stages and digital remainder; (0, n) for a side of 1."""
    s = 0
    while side > 1 and n % side == 0:
        n, s = n // side, s + 1
    return s, n


def chirp_length(n: int, side: int) -> int:
    """The least r side^s >= 2 n - 1 with s >= 1 and r <= 3, for a side of 2 at least."""
    lengths = []
    for r in range(1, REMAINDER + 1):
        length = r * side
        while length < 2 * n - 1:
            length *= side
        lengths.append(length)
    return min(lengths)


def frames(sizes: tuple[int, ...], arrays: int, engine: Engine) -> int:
    """Frames of `arrays` transforms over one or two axes of these sizes."""
    if sizes == engine.shape:
        return arrays
    if len(sizes) == 1:
        return frames_1d(sizes[0], arrays, engine.shape[1])
    return frames_2d(sizes, arrays, engine.shape[1])


def frames_1d(n: int, vectors: int, side: int) -> int:
    """Frames of `vectors` transforms of n points, by the closed formula."""
    if n == 1:
        return 0
    s, _ = split(n, side)
    if s:
        return s * math.ceil(vectors * n / side**2)
    return 2 * frames_1d(chirp_length(n, side), vectors, side)


def frames_2d(shape: tuple[int, ...], arrays: int, side: int) -> int:
    """Frames of `arrays` transforms of n1 x n2 points, by the closed formula."""
    (s1, _), (s2, _) = (split(n, side) for n in shape)
    chirp = [n > 1 and not s for n, s in zip(shape, (s1, s2), strict=True)]
    if any(chirp):
        padded = tuple(chirp_length(n, side) if c else n for n, c in zip(shape, chirp, strict=True))
        forth = frames_2d(padded, arrays, side)
        if all(chirp):
            return 2 * forth
        axis = chirp.index(True)
        return forth + frames_1d(padded[axis], arrays * padded[1 - axis], side)
    both = min(s1, s2)
    one = math.ceil(arrays * shape[0] * shape[1] / side**2)
    return both * (arrays * shape[0] * shape[1] // side**2) + (max(s1, s2) - both) * one


def stages(sizes: tuple[int, ...], engine: Engine) -> int:
    """How many lots of frames a transform of these sizes takes, one after the other."""
    if sizes == engine.shape:
        return 1
    side = engine.shape[1]
    chirps = [n > 1 and not split(n, side)[0] for n in sizes]
    padded = [chirp_length(n, side) if c else n for n, c in zip(sizes, chirps, strict=True)]
    depths = [split(n, side)[0] for n in padded]
    if all(chirps):
        return 2 * max(depths)
    return max(depths) + sum(depth for depth, c in zip(depths, chirps, strict=True) if c)


class FrameRunner:
    """One execution: sends frames through the engine, each lot with a key of its own, and counts them."""

    def __init__(self, engine: Engine, key: Key):
        if engine.noisy and key is None:
            raise ValueError("this engine is noisy: pass key=jax.random.key(...)")
        self.engine, self.key = engine, key
        self.frames, self.lots = 0, 0

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

    @property
    def side(self) -> int:
        return self.engine.shape[1]

    def rows(self, x: Inexact[Array, "v n"]) -> Complex[Array, "v n"]:
        """N-point transforms of vectors, N1 of them on an aperture."""
        rows, vectors = self.engine.shape[0], len(x)
        frames = -(-vectors // rows)
        x = jnp.pad(x, ((0, frames * rows - vectors), (0, 0))).reshape(frames, *self.engine.shape)
        y = self.send(x)
        if self.engine.lens == "2d":
            y = jnp.fft.ifft(y, axis=-2, norm="ortho")
        return y.reshape(-1, self.side)[:vectors]

    def dft_1d(self, x: Inexact[Array, "*b n"]) -> Inexact[Array, "*b n"]:
        """Transform of the last axis for lengths r N^s."""
        *lead, n = x.shape
        side, m = self.side, n // self.side
        if not split(n, side)[0]:
            return x if n == 1 else jnp.fft.fft(x, norm="ortho")
        vectors = math.prod(lead)
        x = x.reshape(vectors, side, m).swapaxes(1, 2).reshape(-1, side)
        y = self.rows(x).reshape(vectors, m, side)  # (.., k2, j1)
        y = y * jnp.asarray(twiddle(m, side), y.dtype)[None]
        y = self.dft_1d(y.swapaxes(1, 2))  # (.., j1, j2)
        return y.swapaxes(1, 2).reshape(*lead, n)

    def dft_2d(self, x: Inexact[Array, "*b n1 n2"], real: bool = False) -> Inexact[Array, "*b n1 n2"]:
        """Transform of the last two axes for lengths r N^s; `real` says that the real part is enough."""
        *lead, n1, n2 = x.shape
        if min(split(n, self.side)[0] for n in (n1, n2)) == 0:
            return self.dft_1d(self.dft_1d(x.swapaxes(-1, -2)).swapaxes(-1, -2))
        a, b = self.engine.shape
        m1, m2, v = n1 // a, n2 // b, math.prod(lead)
        blocks = x.reshape(v, a, m1, b, m2).transpose(0, 2, 4, 1, 3)
        y = self.send(blocks, real=real and m1 == m2 == 1)  # (v, k1, k2, j1, j2)
        if m1 * m2 > 1:
            first, second = (jnp.asarray(twiddle(*sizes), y.dtype) for sizes in ((m1, a), (m2, b)))
            y = y * first[None, :, None, :, None] * second[None, None, :, None, :]
            y = self.dft_2d(y.transpose(0, 3, 4, 1, 2), real)  # (v, j1, j2, q1, q2)
            y = y.transpose(0, 3, 4, 1, 2)
        return y.transpose(0, 1, 3, 2, 4).reshape(*lead, n1, n2)

    def dft(self, x: Inexact[Array, "..."], count: int, real: bool = False) -> Inexact[Array, "..."]:
        """Orthonormal transform of the last `count` (1 or 2) axes, of any length."""
        if not jnp.iscomplexobj(x) and self.engine.encode == "complex":
            x = jax.lax.complex(x, jnp.zeros_like(x))
        sizes = x.shape[-count:]
        check_stages(sizes, self.engine)
        if sizes == self.engine.shape:
            return self.send(x, real=real)
        whole = self.dft_1d if count == 1 else self.dft_2d
        chirps = [n > 1 and not split(n, self.side)[0] for n in sizes]
        if not any(chirps):
            return whole(x) if count == 1 else self.dft_2d(x, real)
        places = [i - count for i, chirp in enumerate(chirps) if chirp]
        for axis in places:
            x = along(x, axis, chirp(x.shape[axis]))
            length = chirp_length(x.shape[axis], self.side)
            x = jnp.pad(x, [(0, length - x.shape[axis] if i - x.ndim == axis else 0) for i in range(x.ndim)])
        y = whole(x)
        for axis, n in zip(places, (sizes[axis] for axis in places), strict=True):
            y = along(y, axis, chirp_spectrum(n, y.shape[axis]))
        if len(places) == count:
            y = backwards(whole(y), places)
        else:
            last = places[0]
            y = backwards(self.dft_1d(y.swapaxes(last, -1)).swapaxes(last, -1), places)
        for axis, n in zip(places, (sizes[axis] for axis in places), strict=True):
            y = along(jax.lax.slice_in_dim(y, 0, n, axis=y.ndim + axis), axis, chirp(n) * (1 / n) ** 0.5)
        return y


def check_stages(sizes: tuple[int, ...], engine: Engine) -> None:
    """Raises ValueError where the aperture cannot do these sizes, in one pass or in stages."""
    if min(sizes) < 1:
        raise ValueError(f"sizes {sizes} must all be at least 1")
    if engine.centered or (engine.lens == "1d" and len(sizes) == 2):
        raise ValueError(f"sizes {sizes} need centered=False, and two axes lens='2d'; or use optical_dft2")
    if sizes == engine.shape:
        return
    if engine.shape[0] != engine.shape[1] or engine.shape[0] < 2:
        raise ValueError(
            f"aperture {engine.shape} must be square, 2 x 2 at least, for sizes {sizes} that are not its own"
        )
    if not engine.linear:
        raise ValueError(
            f"detection={engine.detection!r} loses the phase, which stages need for sizes {sizes}; "
            "use 'hybrid90'"
        )
    if engine.encode != "complex":
        raise ValueError(f"sizes {sizes} need stages, and stages encode='complex', not {engine.encode!r}")


def check_field(engine: Engine) -> None:
    """Raises ValueError where the engine does not give the field, nor its real part."""
    if not engine.linear:
        raise ValueError(f"detection={engine.detection!r} loses the phase, which is needed; use 'hybrid90'")


def describe(sizes: tuple[int, ...], engine: Engine) -> str:
    """In words how sizes are fitted on the aperture."""
    words = []
    for n, side in zip(sizes, engine.shape[-len(sizes) :], strict=True):
        s, r = split(n, side)
        if s == 0 and n > 1:
            words.append(f"{n}: chirp on {chirp_length(n, side)}")
        else:
            words.append(f"{n} = {side}^{s}" + (f" x {r} digitally" if r > 1 else ""))
    return ", ".join(words)


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
    around[:n], around[length - n + 1 :] = wave, wave[1:][::-1]
    return np.fft.fft(around)


def along(x: Array, axis: int, values: np.ndarray) -> Array:
    """x times values that run along one axis."""
    values = values.reshape((1,) * (x.ndim + axis) + (-1,) + (1,) * (-1 - axis))
    return x * jnp.asarray(values, x.dtype)


def backwards(x: Array, axes: Sequence[int]) -> Array:
    """x at -k mod n: turns a forward transform into the inverse."""
    return jnp.roll(jnp.flip(x, axes), [1] * len(axes), axes)
