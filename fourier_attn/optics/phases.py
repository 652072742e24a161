"""Angles and unit phasors, whose derivatives are finite everywhere.

On CPUs by a few products, where XLA's own go number by number; on all other platforms by XLA's own, which is
the plain form that a test holds the products against.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Inexact

from fourier_attn.ops.platforms import by_platform, cpu_or_other

choose = cpu_or_other("products", "plain")


@jax.custom_jvp
def phasor(angle: Float[Array, "*b"]) -> Complex[Array, "*b"]:
    """Returns $exp(i angle)$.

    Units: rad. Within 3e-7 in float32 for angles of a few turns.
    """
    return by_platform(choose, compute_phasor, angle)


@phasor.defjvp
def _phasor_jvp(primals, tangents):
    value = phasor(*primals)
    return value, value * jax.lax.complex(jnp.zeros_like(tangents[0]), tangents[0])


def compute_phasor(form: str, angle: Float[Array, "*b"]) -> Complex[Array, "*b"]:
    """Computes it by products: takes whole and half turns off, then sums power series.

        cos(x) = sum_k (-x^2)^k / (2 k)!,   sin(x) = x sum_k (-x^2)^k / (2 k + 1)!

    They are summed for $|x| <= pi / 2$.
    """
    if form == "plain":
        return jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    halves = jnp.round(angle / math.pi)
    x = angle - math.pi * halves
    sign = 1 - 2 * jnp.abs(jnp.remainder(halves, 2))
    terms = 12 if angle.dtype == jnp.float64 else 7
    cosine = _series(-(x**2), [1 / math.factorial(2 * k) for k in range(terms)])
    sine = x * _series(-(x**2), [1 / math.factorial(2 * k + 1) for k in range(terms)])
    return jax.lax.complex(sign * cosine, sign * sine)


def angle(z: Inexact[Array, "*b"]) -> Float[Array, "*b"]:
    """Returns the angle of z, -pi to pi, 0 for 0. It has no derivative here.

    Units: rad. Within 5e-7 in float32, for z as `modulus` takes it.
    """
    z = jax.lax.stop_gradient(z)
    z = z if jnp.iscomplexobj(z) else jax.lax.complex(z, jnp.zeros_like(z))
    return by_platform(choose, compute_angle, z)


def compute_angle(form: str, z: Complex[Array, "*b"]) -> Float[Array, "*b"]:
    """Computes it by products: halves the angle, then sums the power series of the arcus tangent.

        tan(a / 2) = b / (1 + sqrt(1 + b^2)),   atan(x) = x sum_k (-x^2)^k / (2 k + 1)

    Here b is $tan(a)$.
    """
    if form == "plain":
        return jnp.angle(z)
    x, y = z.real, z.imag
    size = jnp.abs(x) + modulus(z)
    tangent = y / jnp.where(size > 0, size, 1.0)  # of half the angle
    tangent = tangent / (1 + jnp.sqrt(1 + tangent**2))
    terms = 20 if z.dtype == jnp.complex128 else 9
    result = 4 * tangent * _series(-(tangent**2), [1 / (2 * k + 1) for k in range(terms)])
    return jnp.where(x < 0, jnp.where(y < 0, -math.pi, math.pi) - result, result)


def modulus(z: Inexact[Array, "*b"]) -> Float[Array, "*b"]:
    """Returns |z| for numbers with squares in range, 1e-18 to 1e18 in float32; 0 below."""
    return jnp.sqrt(z.real**2 + z.imag**2)


def _series(x: Array, coefficients: list[float]) -> Array:
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total
