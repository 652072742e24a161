"""Uniform quantisers whose derivative goes straight through where the signal is in range."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fourier_attn.optics.random import Key, uniform


def steps_of(bits: int, signed: bool) -> float:
    """Returns the steps (LSB) from 0 to full scale.

    Args:
      bits: of the converter.
      signed: whether its numbers have both signs.
    """
    return 2.0 ** (bits - 1) - 1.0 if signed else 2.0**bits - 1.0


def quantise(
    x: Float[Array, "*b"],
    bits: int | None,
    *,
    signed: bool,
    rounding: str = "nearest",
    key: Key = None,
    sample: Callable[..., Array] = uniform,
) -> Float[Array, "*b"]:
    """Clips to full scale and rounds to the levels of a converter.

        y = step round(clip(x) / step),   step = 2 / (2^b - 2) on [-1, 1],  1 / (2^b - 1) on [0, 1]

    Mid-tread: zero is a level; signed converters have $2^b - 1$ levels, unsigned ones $2^b$. The derivative
    is 1 in range and 0 outside, since the clip is part of the device and the rounding is not.

    Args:
      bits: None clips and does not round.
      rounding: "nearest", or "stochastic": up with the probability of the remainder, unbiased.
      sample: draws on [0, 1) from a key, a shape and a dtype.
    """
    low = -1.0 if signed else 0.0
    inside = (x >= low) & (x <= 1.0)
    bounded = jnp.where(inside, x, jax.lax.stop_gradient(jnp.clip(x, low, 1.0)))
    if bits is None:
        return bounded
    steps = steps_of(bits, signed)
    cells = jax.lax.stop_gradient(bounded) * steps
    stochastic = rounding == "stochastic"
    cells = jnp.floor(cells + sample(key, x.shape, x.dtype)) if stochastic else jnp.round(cells)
    return bounded + jax.lax.stop_gradient(cells / steps - bounded)


def quantise_phase(
    phase: Float[Array, "*b"], bits: int | None, rounding: str = "nearest", key: Key = None
) -> Float[Array, "*b"]:
    """Rounds an angle to $2^b$ steps around the circle; it has no derivative.

    Args:
      phase: angles in rad.
      bits: b; None does not round.
      rounding: "nearest" (default) or "stochastic".
      key: PRNG key, for "stochastic" alone.
    """
    if bits is None:
        return phase
    cells = phase * (2.0**bits / (2 * jnp.pi))
    if rounding == "stochastic":
        cells = jnp.floor(cells + uniform(key, phase.shape, phase.dtype))
    else:
        cells = jnp.round(cells)
    return cells * (2 * jnp.pi / 2.0**bits)
