"""Rails: signed and complex numbers through modulators and detectors that know no sign.

Modulators that write amplitudes from 0 need two passes for a signed array, one for each *rail*. A correlation
is linear in the input and antilinear in the kernel, so that it is a sum over pairs of rails:

    x = sum_i s_i x_i,   w = sum_j t_j w_j,   y = sum_{i, j} s_i conj(t_j) sqrt(I[i, j])

Here $I[i, j]$ is the intensity for rail i of x and rail j of w. No rail has a negative number, and neither
has the field at the detectors, so that the field is the root of the intensity.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from fourier_attn.choices import check_choice
from fourier_attn.optics.modulator import as_complex

ENCODINGS = {  # passes of a signed array, and of a complex one
    "two_rail": (2, 4),  # positive and negative parts
    "bias": (2, 3),  # the array with a bias, and the bias alone
}
SIGNED = ("both", "input", "kernel")


def count_rails(encoding: str | None, signed: str, *, real: tuple[bool, bool]) -> tuple[int, int]:
    """Returns the number of rails of the input and of the kernel.

        >>> count_rails("two_rail", "both", real=(True, True))
        (2, 2)

    Args:
      encoding: "two_rail", "bias", or None for one pass.
      signed: "both", or "input" or "kernel" where the other one has no negative numbers.
      real: whether the input is real, and whether the kernel is.
    Raises: ValueError for an unknown word, for complex numbers that are said to have no sign, and for
      `signed` without an encoding.
    """
    check_choice("signed", signed, SIGNED)
    if encoding is None:
        if signed != "both":
            raise ValueError(f"signed={signed!r} needs an encoding; use encoding='two_rail'")
        return 1, 1
    check_choice("encoding", encoding, ENCODINGS, ", or None")
    counts = []
    for name, is_real in zip(("input", "kernel"), real, strict=True):
        if signed in ("both", name):
            counts.append(ENCODINGS[encoding][0 if is_real else 1])
        elif is_real:
            counts.append(1)
        else:
            raise ValueError(
                f"signed={signed!r} says that the {name} is not negative, but it is complex; use 'both'"
            )
    return counts[0], counts[1]


class Rails(NamedTuple):
    """Holds arrays without negative numbers and the factors with which they sum to one with them."""

    factors: Array
    parts: Array


def known(values: Array) -> np.ndarray | None:
    """Returns values that are not traced; None for others, and for an empty array."""
    return None if isinstance(values, Tracer) or values.size == 0 else np.asarray(values)


def pair_rails(x: Array, kernel: Array, encoding: str | None, signed: str) -> tuple[Rails, Rails]:
    """Returns the rails of an input and of a kernel, each on an axis of its own, so that all pairs meet.

    Args:
      x: inputs, (..., n1, n2).
      kernel: kernels, (..., r1, r2).
      encoding, signed: as `count_rails` has them; without an encoding the arrays have no new axes.
    Raises: ValueError for negative numbers where there are said to be none.
    """
    counts = count_rails(encoding, signed, real=(not jnp.iscomplexobj(x), not jnp.iscomplexobj(kernel)))
    if encoding is None:
        one = jnp.ones(1, x.real.dtype)
        return Rails(one, x), Rails(one, kernel)
    pair = []
    axes = max(x.ndim, kernel.ndim)
    for name, part, count, place in zip(("input", "kernel"), (x, kernel), counts, (0, 1), strict=True):
        rails = _split(name, part, count, encoding)
        lead = (count, 1) if place == 0 else (1, count)
        shape = (*lead, *(1,) * (axes - part.ndim), *part.shape)
        pair.append(rails._replace(parts=rails.parts.reshape(shape)))
    return pair[0], pair[1]


def _split(name: str, x: Array, count: int, encoding: str) -> Rails:
    """Splits an array into rails, which are stacked."""
    if count == 1:
        values = known(x)
        if values is not None and np.min(values) < 0:
            raise ValueError(f"the {name} reaches {np.min(values):.4g}, and has one rail; use signed='both'")
        return Rails(jnp.ones(1, x.dtype), x[None])
    real = [x.real, x.imag] if jnp.iscomplexobj(x) else [x]
    units = [1, 1j][: len(real)]
    if encoding == "two_rail":
        parts = [jnp.maximum(sign * part, 0.0) for part in real for sign in (1, -1)]
        factors = [sign * unit for unit in units for sign in (1, -1)]
    else:
        lowest = jnp.min(jnp.stack(real), axis=(0, -2, -1), keepdims=True)[0]
        bias = jnp.broadcast_to(jax.lax.stop_gradient(jnp.maximum(-lowest, 0.0)), real[0].shape)
        parts, factors = [*(part + bias for part in real), bias], [*units, -sum(units)]
    return Rails(jnp.asarray(factors, x.dtype), jnp.stack(parts))


def sum_rails(y: Array, inputs: Rails, kernels: Rails, encoding: str | None) -> Array:
    """Returns the correlation that the pairs of rails sum to: $sum_{i, j} s_i conj(t_j) y_{i j}$.

    Args:
      y: of each pair, (i, j, ...).
      inputs, kernels: the rails.
      encoding: None for arrays that have no rails.
    """
    if encoding is None:
        return y
    parts = [as_complex(part) for part in (inputs.factors, jnp.conj(kernels.factors), y)]
    total = jnp.einsum("i,j,ij...->...", *parts, precision="highest")
    whole = any(jnp.iscomplexobj(factors) for factors in (inputs.factors, kernels.factors))
    return total if whole else total.real
