"""Random numbers of an aperture that do not depend on how many apertures there are."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array


def draw(sample: Callable[..., Array], key: Any, shape: tuple[int, ...], *more: Any) -> Array:
    """sample(key, shape, ...) for (m, *batch, n1, n2), m numbers for a pixel.

    Numbers are counted in the array's order, so that the batch has to stand first.
    """
    return jnp.moveaxis(sample(key, (*shape[1:], shape[0]), *more), -1, 0)
