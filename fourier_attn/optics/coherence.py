"""Partially coherent light: a source of finite size and width of line, as modes whose powers add.

A point of the source lights the aperture by a plane wave. If its image lies s pixels from the axis, the wave
is tilted by s turns across the aperture, and the transform moves by s pixels. A wavelength of the line has a
transform at its own scale. Light of two modes does not interfere, so that detectors see

    P[k] = sum_j w[j] |E[j, k]|^2,   sum_j w[j] = 1

The reference comes from the same source, from the middle of its beam. Each mode interferes with its own share
of it, so that the mean G of the fields is recovered:

    G[k] = sum_j w[j] E[j, k]

It is the transform of the array times the mutual coherence (van Cittert and Zernike), between each pixel and
the middle:

    gamma[m] = sum_j w[j] exp(2 pi sqrt(-1) s[j] m / N)

Paths that differ by L wavelengths give the modes of the line different phases, $2 pi L lambda0 / lambda$.
This lowers the visibility of all frequencies alike.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from fourier_attn.optics import channels
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.phases import phasor


class Modes(NamedTuple):
    """Holds modes of light, c of them.

    Args:
      place: (c, 2), image of the source's point at the detectors, (rows, columns) in pixels from the axis.
      offset: (c,), relative difference of the wavelength from the middle of the line; None: one wavelength.
      weight: (c,), share of the power.
    """

    place: Float[Array, "c 2"]
    offset: Float[Array, " c"] | None
    weight: Float[Array, " c"]


def is_coherent(engine: Engine) -> bool:
    """Says whether one mode is all of the light."""
    laser = engine.laser
    return (laser.source_pixels is None or laser.source_modes == 1) and (
        laser.line_width_rms is None or laser.line_modes == 1
    )


def modes(engine: Engine, dtype: Any = jnp.float32) -> Modes:
    """Returns the modes of an engine's light: points of the source times wavelengths of the line.

        >>> light = modes(Engine().replace(source_pixels=3.0, source_shape="uniform", source_modes=3))
        >>> light.place[:3, 1]
        Array([-1.,  0.,  1.], dtype=float32)

    Points of a uniform source are equally far apart and have equal powers. Those of a Gaussian source, and
    the wavelengths, are the nodes of Gauss and Hermite, which have the right moments up to $2 M - 1$.

    Args:
      engine: the engine, with its laser.
      dtype: of the result.
    """
    laser = engine.laser
    points, shares = np.zeros(1), np.ones(1)
    if laser.source_pixels is not None:
        points, shares = _nodes(laser.source_shape, laser.source_modes)
    lines, line_shares = np.zeros(1), np.ones(1)
    if laser.line_width_rms is not None:
        lines, line_shares = _nodes("gaussian", laser.line_modes)
    rows, row_shares = (points, shares) if engine.lens == "2d" else (np.zeros(1), np.ones(1))
    grid = [part.ravel() for part in np.meshgrid(rows, points, lines, indexing="ij")]
    weights = [part.ravel() for part in np.meshgrid(row_shares, shares, line_shares, indexing="ij")]
    size = 0.0 if laser.source_pixels is None else laser.source_pixels
    return Modes(
        place=jnp.asarray(size, dtype) * jnp.asarray(np.stack(grid[:2], axis=-1), dtype),
        offset=None if laser.line_width_rms is None else laser.line_width_rms * jnp.asarray(grid[2], dtype),
        weight=jnp.asarray(np.prod(weights, axis=0), dtype),
    )


def _nodes(shape: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns points and powers of a source of size 1."""
    if shape == "uniform":
        return (np.arange(count) + 0.5) / count - 0.5, np.full(count, 1 / count)
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def mutual_coherence(light: Modes, separation: Float[Array, "*b 2"], engine: Engine) -> Complex[Array, "*b"]:
    """Returns the mutual coherence gamma of the light at two pixels; |gamma| is the visibility.

        gamma[m] = sum_j w[j] exp(2 pi sqrt(-1) (s[j, 0] m[0] / N1 + s[j, 1] m[1] / N2))

    A uniform source of S pixels gives $sinc(S m / N)$ on each axis. A Gaussian one of standard deviation S
    gives $exp(-2 (pi S m / N)^2)$. Both hold as far as the modes resolve them.

    Args:
      light: the modes, from `modes`.
      separation: m, (..., 2), between the pixels, in pixels.
      engine: the engine, with its aperture.
    """
    places = light.place / jnp.asarray([engine.shape], light.place.dtype)
    turns = jnp.tensordot(separation, places, (-1, -1))
    waves = phasor(2 * jnp.pi * turns)
    return jnp.tensordot(waves, light.weight.astype(waves.dtype), 1)


def propagate(
    field: Complex[Array, "m *b n1 n2"], engine: Engine
) -> tuple[Complex[Array, "m *b n1 n2"], Float[Array, "m *b n1 n2"] | None]:
    """Returns what detectors get of the field that leaves the modulators: G, and the power $P - |G|^2$.

    G interferes with the reference. The rest of the power does not; None: there is none.

    Args:
      field: that leaves the modulators.
      engine: the engine, with its light and its channels.
    """
    crosstalk = engine.channels.channel_crosstalk_db is not None
    if is_coherent(engine):
        field = channels.propagate(field, engine)
        if not crosstalk:
            return field, None
        power = _power(field)
    else:
        field, power = _add_modes(field, engine)
    if crosstalk:
        field, power = channels.mix(field, engine), channels.mix(power, engine)
    return field, jnp.maximum(power - _power(field), 0.0)


def _power(field: Array) -> Array:
    return field.real**2 + field.imag**2


def _add_modes(field: Array, engine: Engine) -> tuple[Array, Array]:
    """Returns the sums of G and P over the modes, one after the other."""
    light = modes(engine, field.real.dtype)
    path = engine.laser.path_difference

    def add(sums: tuple[Array, Array], mode: Modes) -> tuple[tuple[Array, Array], None]:
        one = engine if mode.offset is None else channels.detuned(engine, mode.offset)
        lit = met = channels.propagate(field, one, mode.place)
        if path is not None and mode.offset is not None:
            met = lit * phasor(2 * jnp.pi * path * (1 / (1 + mode.offset) - 1))
        weight = mode.weight
        return (sums[0] + weight.astype(lit.dtype) * met, sums[1] + weight * _power(lit)), None

    dark = (jnp.zeros_like(field), jnp.zeros_like(field.real))
    return jax.lax.scan(add, dark, light)[0]
