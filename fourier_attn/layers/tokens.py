"""Controls and simple mixers: what remains without attention or a transform."""

import zlib

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.ops.tokens import token_convolve


def _real(x: Array, mask: Array | None) -> Array:
    return x if mask is None else jnp.where(mask[..., None], x, jnp.zeros((), x.dtype))


def _mix(x: Array, tokens: Array, features: Array) -> Array:
    """y[i] = sum_j T[i, j] (x_j F); of T the part for t tokens is used."""
    t, length = x.shape[-2], len(tokens)
    if t > length:
        raise ValueError(f"a sequence of {t} tokens exceeds length={length}; raise length")
    matrix = (((x.ndim - 1,), (0,)), ((), ()))
    mixed = matrix_dot_general(x, features.astype(x.dtype), matrix)
    return jnp.einsum("ij,bjd->bid", tokens[:t, :t].astype(x.dtype), mixed)


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


class Linear(nn.Module):
    """Two learned matrices, y = T x F: T mixes tokens, F features ("Linear" of the FNet paper).

    Parameters: `tokens` (length, length), `features` (d, d), both normal with deviation 0.02, no bias. A
    shorter sequence uses the first t rows and columns of T.

    Args:
      length: tokens of the longest sequence.
      dtype: of the computation; parameters stay float32.
    Masking: padded tokens are set to zero first and have no influence; outputs there are not zero.
    Raises: ValueError for a longer sequence.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """

    length: int = 512
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        init = nn.initializers.normal(0.02)
        tokens = self.param("tokens", init, (self.length, self.length))
        features = self.param("features", init, (x.shape[-1], x.shape[-1]))
        return _mix(_real(x, mask).astype(self.dtype), tokens, features)


class Random(nn.Module):
    """Two random matrices that are never trained, y = T x F ("Random" of the FNet paper).

    T (length, length) and F (d, d) are normal with variance 1 / length and 1 / d; a shorter sequence uses
    the first t rows and columns of T, so that its output is smaller. They are no parameters: the
    seed and the layer's place in the model determine them, so that each block has its own and checkpoints
    need not hold them.

    Args: length, dtype: as for `Linear`.  seed: of the matrices, apart from the seed of the training.
    Masking: padded tokens are set to zero first and have no influence; outputs there are not zero.
    Raises: ValueError for a longer sequence.
    Source: Lee-Thorpe et al., arXiv 2105.03824.
    """

    length: int = 512
    seed: int = 0
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        place = zlib.crc32("/".join(self.path).encode())
        random = np.random.default_rng([self.seed, place])
        tokens, features = (
            jnp.asarray(random.normal(scale=n**-0.5, size=(n, n)), jnp.float32)
            for n in (self.length, x.shape[-1])
        )
        return _mix(_real(x, mask).astype(self.dtype), tokens, features)


class TokenConvolution(nn.Module):
    """Convolution over tokens with one learned filter, y[i] = sum_k w[k] x[i - k].

    Parameters: `filter` (taps), normal with variance 1 / taps.

    Args:
      taps: length of the filter, odd.
      dtype: of the computation; parameters stay float32.
    Masking: padded tokens are set to zero first, as what lies outside the sequence is: no influence.
    Raises: ValueError for an even number of taps.
    Source: see `fourier_attn.ops.tokens.token_convolve`.
    """

    taps: int = 3
    dtype: jnp.dtype = jnp.dtype("float32")

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], *, mask: Bool[Array, "b t"] | None = None, train: bool = False
    ) -> Float[Array, "b t d"]:
        if self.taps < 1 or self.taps % 2 == 0:
            raise ValueError(f"taps={self.taps} must be odd and positive")
        taps = self.param("filter", nn.initializers.normal(self.taps**-0.5), (self.taps,))
        return token_convolve(_real(x, mask).astype(self.dtype), taps)
