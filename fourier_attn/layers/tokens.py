"""Controls: what remains when tokens are not mixed by attention or a transform."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Identity(nn.Module):
    """No mixing, y = x: the feed-forward-only control ("FF-only") of the FNet paper.

    Masking: tokens do not meet, so padding has no influence on them.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """

    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        return x.astype(self.dtype)
