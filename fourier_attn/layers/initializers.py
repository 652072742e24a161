"""Makes initial values: Flax's, or those of PyTorch's modules, which the articles' listings use."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array

from fourier_attn.choices import check_choice

CHOICES = ("fan_in", "torch")
SMALL = nn.initializers.normal(0.02)


def _check(initializer: str) -> None:
    check_choice("initializer", initializer, CHOICES)


def dense(initializer: str, inputs: int) -> dict[str, Any]:
    """Returns the initializers of a dense layer with this many inputs.

    "fan_in": weights are normal, cut at two deviations, with variance $1 / inputs$, and biases 0. "torch":
    both are $U(-1 / sqrt(inputs), 1 / sqrt(inputs))$, as in torch.nn.Linear.

        >>> dense("fan_in", 8)
        {}
        >>> sorted(dense("torch", 8))
        ['bias_init', 'kernel_init']

    Args:
      initializer: "fan_in" or "torch".
      inputs: number of inputs.
    Raises: ValueError for another initializer.
    """
    _check(initializer)
    if initializer == "fan_in":
        return {}
    bound = inputs**-0.5

    def uniform(key: Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform}


def table(initializer: str) -> nn.initializers.Initializer:
    """Returns the initializer of a table of vectors: normal with deviation 0.02, or 1 as in PyTorch.

        >>> table("fan_in")(jax.random.key(0), (7, 4)).shape
        (7, 4)

    Args:
      initializer: "fan_in" or "torch".
    Raises: ValueError for another initializer.
    """
    _check(initializer)
    return SMALL if initializer == "fan_in" else nn.initializers.normal(1.0)
