"""Programs that know nothing of optics, written from their equations: operators, filters, solvers, a CNN.

Each function is f(weights, x). The entry of `PROGRAMS` draws weights and x for n points on each axis:

    >>> program = PROGRAMS["FNO"](11)
    >>> program.f(program.weights, program.x).shape
    (2, 11, 11, 4)
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

Weights = Mapping[str, Array]


class Program(NamedTuple):
    """Holds a function of weights and data, with both.

    Args:
      f: the function, f(weights, x).
      weights: arrays by their names.
      x: the data.
    """

    f: Callable[[Any, Any], Any]
    weights: Any
    x: Any


def fno_block(weights: Weights, x: Float[Array, "b n n c"]) -> Float[Array, "b n n c"]:
    """Computes a block of a Fourier neural operator, with m rows of modes on either side of 0 and m columns.

        y = gelu(F^-1 (R F x) + x W + b),   R = 0 for all other modes

    Args:
      weights: "low" and "high", R of the modes (2, m, m, c, c), real and imaginary part; "dense" W (c, c);
        "bias" b (c,).
      x: values on a grid, (b, n, n, c).
    Source: Li et al., arXiv 2010.08895.
    """
    spectrum = jnp.fft.rfft2(x, axes=(1, 2))
    low, high = (jax.lax.complex(*weights[name]) for name in ("low", "high"))
    m = len(low)
    mixed = [
        jnp.einsum("bxyi,xyio->bxyo", modes, r)
        for modes, r in ((spectrum[:, :m, :m], low), (spectrum[:, -m:, :m], high))
    ]
    kept = jnp.zeros_like(spectrum).at[:, :m, :m].set(mixed[0]).at[:, -m:, :m].set(mixed[1])
    y = jnp.fft.irfft2(kept, s=x.shape[1:3], axes=(1, 2))
    return jax.nn.gelu(y + x @ weights["dense"] + weights["bias"])


def s4d_block(weights: Weights, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
    """Computes a diagonal state-space model as a long convolution, with a gate.

        K[l] = 2 Re sum_n C_n B_n exp(l dt A_n),   B_n = (exp(dt A_n) - 1) / A_n,   A = -exp(a) + i w
        y = ((K * x + D x) V) sigmoid(x G)

    The transforms have 2 t points, so that the convolution does not wrap around.

    Args:
      weights: "decay" a, "frequency" w (d, n); "out" C (2, d, n), real and imaginary part; "step" log dt,
        "skip" D (d,); "values" V, "gate" G (d, d).
      x: signals, (b, t, d).
    Source: Gu et al., arXiv 2206.11893.
    """
    t, dt = x.shape[1], jnp.exp(weights["step"])[:, None]
    a = jax.lax.complex(-jnp.exp(weights["decay"]), weights["frequency"])
    c = jax.lax.complex(*weights["out"]) * (jnp.exp(dt * a) - 1) / a
    vandermonde = jnp.exp((dt * a)[..., None] * jnp.arange(t))
    kernel = 2 * jnp.einsum("dn,dnl->dl", c, vandermonde).real
    u = x.swapaxes(1, 2)
    y = jnp.fft.irfft(jnp.fft.rfft(u, 2 * t) * jnp.fft.rfft(kernel, 2 * t), 2 * t)[..., :t]
    y = (y + weights["skip"][:, None] * u).swapaxes(1, 2)
    return (y @ weights["values"]) * jax.nn.sigmoid(x @ weights["gate"])


def gfnet_block(weights: Weights, x: Float[Array, "b n n c"]) -> Float[Array, "b n n c"]:
    """Computes a block of a global filter network.

        y = x + W2 gelu(W1 norm(F^-1 (K F norm(x))))

    Args:
      weights: "filter" K (2, n, n // 2 + 1, c), real and imaginary part; "in" W1 (c, m); "out" W2 (m, c).
      x: patches of images, (b, n, n, c).
    Source: Rao et al., arXiv 2107.00645.
    """
    spectrum = jnp.fft.rfft2(_normalised(x), axes=(1, 2), norm="ortho")
    y = jnp.fft.irfft2(
        spectrum * jax.lax.complex(*weights["filter"]), s=x.shape[1:3], axes=(1, 2), norm="ortho"
    )
    return x + jax.nn.gelu(_normalised(y) @ weights["in"]) @ weights["out"]


def _normalised(x: Array) -> Array:
    return jax.nn.standardize(x, axis=-1, epsilon=1e-5)


def poisson(weights: Weights, x: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Solves $u_xx + u_yy = f$ on a square with periodic boundaries, for the solution of mean zero.

        F u = -F f / (k_x^2 + k_y^2),   0 at k = 0

    Args:
      weights: "side", the length of the square, ().
      x: f on a grid, (n, n).
    """
    _, _, squared = _wave_numbers(len(x), weights["side"])
    return jnp.fft.irfft2(-jnp.fft.rfft2(x) * _inverse(squared), s=x.shape)


def fluid(weights: Weights, x: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Computes three explicit steps of the vorticity of a viscous fluid on a periodic square.

        z = w + dt (nu (w_xx + w_yy) - u w_x - v w_y + g),   u = -p_y,   v = p_x,   p_xx + p_yy = w

    Here w is the vorticity before a step, z after it, and p the stream function.

    Args:
      weights: "viscosity" nu, "side", "step" dt, (); "force" g (n, n).
      x: vorticity w on a grid, (n, n).
    """
    kx, ky, squared = _wave_numbers(len(x), weights["side"])

    def step(w: Array, _: None) -> tuple[Array, None]:
        spectrum = jnp.fft.rfft2(w)
        stream = -spectrum * _inverse(squared)
        parts = jnp.stack(
            [-1j * ky * stream, 1j * kx * stream, 1j * kx * spectrum, 1j * ky * spectrum, -squared * spectrum]
        )
        u, v, wx, wy, spread = jnp.fft.irfft2(parts, s=w.shape)
        change = weights["viscosity"] * spread - u * wx - v * wy + weights["force"]
        return w + weights["step"] * change, None

    return jax.lax.scan(step, x, None, length=3)[0]


def _wave_numbers(n: int, side: Array) -> tuple[Array, Array, Array]:
    """Returns wave numbers along both axes of half a spectrum, and the sum of their squares."""
    kx = 2 * jnp.pi / side * jnp.fft.fftfreq(n, 1 / n)[:, None]
    ky = 2 * jnp.pi / side * jnp.fft.rfftfreq(n, 1 / n)[None]
    return kx, ky, kx**2 + ky**2


def _inverse(squared: Array) -> Array:
    return jnp.where(squared > 0, 1 / jnp.where(squared > 0, squared, 1), 0)


def wiener(weights: Weights, x: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    """Computes sharp images from blurred ones by Wiener's filter.

        y = F^-1 (conj(H) / (|H|^2 + s) F x),   H = F h

    Args:
      weights: "blur" h (n, n), with its centre at (0, 0); "noise" s, power of the noise over the signal's.
      x: blurred images, (*b, n, n).
    """
    transfer: Complex[Array, "n n"] = jnp.fft.fft2(weights["blur"])
    inverse = transfer.conj() / (jnp.abs(transfer) ** 2 + weights["noise"])
    return jnp.fft.ifft2(inverse * jnp.fft.fft2(x)).real


def cnn(weights: Weights, x: Float[Array, "b n n c"]) -> Float[Array, "b k"]:
    """Computes class scores of images by two convolutions of 3 x 3, the second one with steps of 2.

    Args:
      weights: "first" (3, 3, c, m), "second" (3, 3, m, m), "head" (m, k).
      x: images, (b, n, n, c).
    """
    for name, stride in (("first", 1), ("second", 2)):
        x = jax.lax.conv_general_dilated(
            x, weights[name], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
    return x.mean((1, 2)) @ weights["head"]


class _Draw:
    """Draws normal numbers; JAX would compile a program for each shape."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)

    def __call__(self, *shape: int, scale: float = 1.0) -> Array:
        return jnp.asarray(scale * self.random.standard_normal(shape), jnp.float32)

    def smooth(self, n: int, modes: int = 2) -> Array:
        """Returns a field of mean 0 and variance 1 with wave numbers up to `modes`, (n, n)."""
        at = 2 * np.pi * np.arange(n) / n
        field = np.zeros((n, n))
        for kx in range(-modes, modes + 1):
            for ky in range(1, modes + 1):
                phase = kx * at[:, None] + ky * at[None]
                real, imag = self.random.standard_normal(2)
                field += real * np.cos(phase) + imag * np.sin(phase)
        return jnp.asarray(field / field.std(), jnp.float32)


def _fno(n: int, c: int = 4, m: int = 3) -> Program:
    draw, r = _Draw(0), (2, m, m, c, c)
    weights = {"low": draw(*r, scale=c**-0.5), "high": draw(*r, scale=c**-0.5)}
    weights |= {"dense": draw(c, c, scale=c**-0.5), "bias": draw(c, scale=0.1)}
    return Program(fno_block, weights, draw(2, n, n, c))


def _s4d(n: int, d: int = 6, states: int = 8) -> Program:
    draw = _Draw(1)
    weights = {
        "decay": jnp.full((d, states), np.log(0.5), jnp.float32),
        "frequency": jnp.broadcast_to(jnp.pi * jnp.arange(states, dtype=jnp.float32), (d, states)),
        "out": draw(2, d, states),
        "step": jnp.linspace(np.log(1e-3), np.log(1e-1), d, dtype=jnp.float32),
        "skip": draw(d),
        "values": draw(d, d, scale=d**-0.5),
        "gate": draw(d, d, scale=d**-0.5),
    }
    return Program(s4d_block, weights, draw(2, n, d))


def _gfnet(n: int, c: int = 6) -> Program:
    draw = _Draw(2)
    weights = {
        "filter": draw(2, n, n // 2 + 1, c, scale=0.5),
        "in": draw(c, 2 * c, scale=c**-0.5),
        "out": draw(2 * c, c, scale=(2 * c) ** -0.5),
    }
    return Program(gfnet_block, weights, draw(2, n, n, c))


def _poisson(n: int) -> Program:
    return Program(poisson, {"side": jnp.asarray(2 * np.pi, jnp.float32)}, _Draw(3).smooth(n))


def _fluid(n: int) -> Program:
    draw = _Draw(4)
    numbers = {"viscosity": 0.01, "side": 2 * np.pi, "step": 0.02}
    weights = {name: jnp.asarray(number, jnp.float32) for name, number in numbers.items()}
    return Program(fluid, weights | {"force": 0.1 * draw.smooth(n)}, draw.smooth(n))


def _wiener(n: int) -> Program:
    draw, at = _Draw(5), np.minimum(np.arange(n), n - np.arange(n))
    blur = np.exp(-(at[:, None] ** 2 + at[None] ** 2) / 2)
    blur = jnp.asarray(blur / blur.sum(), jnp.float32)
    sharp = jnp.abs(draw(2, n, n))
    blurred = jnp.fft.ifft2(jnp.fft.fft2(sharp) * jnp.fft.fft2(blur)).real
    weights = {"blur": blur, "noise": jnp.asarray(0.01, jnp.float32)}
    return Program(wiener, weights, blurred + draw(2, n, n, scale=0.01))


def _cnn(n: int, c: int = 3, m: int = 8) -> Program:
    draw = _Draw(6)
    weights = {
        "first": draw(3, 3, c, m, scale=(9 * c) ** -0.5),
        "second": draw(3, 3, m, m, scale=(9 * m) ** -0.5),
        "head": draw(m, 10, scale=m**-0.5),
    }
    return Program(cnn, weights, draw(2, n, n, c))


PROGRAMS: Mapping[str, Callable[[int], Program]] = {
    "FNO": _fno,
    "S4D": _s4d,
    "GFNet": _gfnet,
    "Poisson": _poisson,
    "fluid": _fluid,
    "Wiener": _wiener,
    "CNN": _cnn,
}
