"""What a modulator does to its neighbours, and to the pass after: leaking heat, and settling.

Neither changes the power of light for free: heat turns phases, and settling is a weighted mean of fields.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Inexact

from fourier_attn.optics.phases import angle, phasor
from fourier_attn.optics.sampling import places

DARK = 1e-6  # of full scale: the phase of what is below is rounding, and has no derivative


def leak_heat(field: Complex[Array, "*b n1 n2"], share: Any) -> Complex[Array, "*b n1 n2"]:
    """Returns the field whose phases have leaked to neighbouring modulators.

        q[i, j] = sum_{k, l} c^(|i - k| + |j - l|) p[k, l]

    Here p are the phases that are written, from -pi to pi, and q those of the light.

        >>> round(float(angle(leak_heat(jnp.asarray([[1.0, 1j]]), 0.1))[0, 0]), 4)  # a tenth of pi / 2
        0.1571

    Args:
      field: the written field.
      share: c, the part of a heater's phase that its next neighbour gets.
    """
    phases = _phase(field)
    rows, cols = (_kernel(n, jnp.asarray(share, phases.dtype)) for n in field.shape[-2:])
    leaked = jnp.matmul(jnp.matmul(rows, phases, precision="highest"), cols, precision="highest")
    return field * phasor(leaked - phases)


def settle(
    field: Inexact[Array, "p *b n1 n2"], kept: Any, *, channels: bool = False
) -> Inexact[Array, "p *b n1 n2"]:
    """Returns the fields of modulators, or the powers at detectors, that follow with a first-order response.

        E[t] = (1 - k) D[t] + k E[t - 1],    k = exp(-T / tau)

    An aperture has all its passes before the next aperture, as for the drift of the laser. Before the first
    pass of a call the modulators are dark.

    Args:
      field: D, the fields of modulators that settle at once, or the powers of light, for each pass.
      kept: k, the share of the last field that is left after a pass.
      channels: whether axes 2 and 3 are channels of a pass, each with modulators of its own.
    """
    if channels:
        return jax.vmap(jax.vmap(settle, (2, None), 2), (2, None), 2)(field, kept)
    drive = jnp.moveaxis(field, 0, -3)
    steps = drive.reshape(-1, *drive.shape[-2:])
    kept = jnp.asarray(kept, field.real.dtype).astype(field.dtype)
    shares = jnp.broadcast_to(kept, (len(steps), 1, 1))
    settled = jax.lax.associative_scan(_then, (shares, (1 - kept) * steps))[1]
    return jnp.moveaxis(settled.reshape(drive.shape), -3, 0)


def kept_share(settling_s: Any, frame_rate_hz: Any) -> Float[Array, ""]:
    """Returns $k = exp(-T / tau)$, the share of the last field that is left after a pass; 0 for tau 0.

    Args:
      settling_s: tau, time constant of the modulators.
      frame_rate_hz: $1 / T$, passes per second.
    """
    times = jnp.asarray(settling_s * frame_rate_hz)
    slow = times > 0
    return jnp.where(slow, jnp.exp(-1 / jnp.where(slow, times, 1.0)), 0.0)


def _then(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """Joins two stretches of passes: what each keeps of the field before, and what it adds."""
    return first[0] * second[0], second[0] * first[1] + second[1]


def _kernel(n: int, share: Array) -> Array:
    place = places(n, share.dtype, centred=True)
    distance = jnp.abs(place[:, None] - place[None])
    return jnp.where(distance == 0, 1.0, share ** jnp.maximum(distance, 1.0))


@jax.custom_jvp
def _phase(field: Array) -> Array:
    return angle(field)


@_phase.defjvp
def _phase_jvp(primals, tangents):  # none in the dark, where a phase has no derivative
    (field,), (tangent,) = primals, tangents
    power = field.real**2 + field.imag**2
    bright = power > DARK**2
    turned = field.real * tangent.imag - field.imag * tangent.real
    return angle(field), jnp.where(bright, turned / jnp.where(bright, power, 1.0), 0.0)
