"""What stands after the blocks: one vector of a sequence, and what a task wants to know."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fourier_attn.layers import initial
from fourier_attn.layers.initial import SMALL


def mean(x: Float[Array, "b t d"], mask: Bool[Array, "b t"] | None) -> Float[Array, "b d"]:
    """The mean over the real tokens, (sum_i m_i x_i) / sum_i m_i; 0 where there is none."""
    real = jnp.ones(x.shape[:2], jnp.float32) if mask is None else mask.astype(jnp.float32)
    return jnp.einsum("btd,bt->bd", x, real) / jnp.maximum(real.sum(axis=1), 1.0)[:, None]


class Head(nn.Module):
    """Linear in one vector, of the sequence or of each token: y = W x + b, in float32.

    Parameters: `output/kernel` (d, outputs), `output/bias` (outputs).

    Args:
      outputs: number of them; 0: there is one, without an axis of its own.
      of: "pooled", the sequence's vector, (b, c), or "tokens", each token's, (b, t, c).
      initializer: see `fourier_attn.layers.initial.dense`.
    """

    outputs: int
    of: str = "pooled"
    initializer: str = "fan_in"

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], pooled: Float[Array, "b d"], **_: Any
    ) -> Float[Array, "b ..."]:
        begin = initial.dense(self.initializer, x.shape[-1])
        y = nn.Dense(self.outputs or 1, name="output", **begin)(pooled if self.of == "pooled" else x)
        return y if self.outputs else y[..., 0]


class Features(nn.Module):
    """What the encoder found, as it is: {"hidden": (b, t, d), "pooled": (b, d)}."""

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t d"], pooled: Float[Array, "b d"], **_: Any
    ) -> dict[str, Float[Array, "..."]]:
        return {"hidden": x, "pooled": pooled}


class Pretraining(nn.Module):
    """A masked language model, tied to the table of tokens E, and a judge of two segments' order.

        mlm_i = LN(gelu(A x_i + a)) E^T + c          (b, t, vocab)
        nsp   = W pooled + b                         (b, 2); 1: swapped

    Parameters: `mlm_dense/kernel` (d, e), `/bias`; `mlm_norm/scale`, `/bias` (e); `mlm_bias` (vocab);
    `nsp/kernel` (d, 2), `/bias`. GELU in its tanh form.

    Args:
      mlm, nsp: which of the two there are.
      norm_eps: added to the variance in the normalisation.
    Returns: a dict with `mlm` and `nsp`; with `mlm_positions` (b, p) the first is (b, p, vocab).
    Source: Devlin et al., BERT, arXiv 1810.04805; Lee-Thorpe et al., arXiv 2105.03824 (order of segments).
    """

    mlm: bool = True
    nsp: bool = True
    norm_eps: float = 1e-12

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "b t d"],
        pooled: Float[Array, "b d"],
        *,
        table: Float[Array, "v e"],
        mlm_positions: Int[Array, "b p"] | None = None,
    ) -> dict[str, Float[Array, "..."]]:
        outputs = {}
        if self.mlm:
            x = x if mlm_positions is None else jnp.take_along_axis(x, mlm_positions[..., None], axis=1)
            x = nn.gelu(nn.Dense(table.shape[-1], kernel_init=SMALL, name="mlm_dense")(x), approximate=True)
            x = nn.LayerNorm(self.norm_eps, use_fast_variance=False, name="mlm_norm")(x)
            bias = self.param("mlm_bias", nn.initializers.zeros, (table.shape[0],))
            outputs["mlm"] = jnp.einsum("bte,ve->btv", x, table.astype(jnp.float32)) + bias[None, None]
        if self.nsp:
            outputs["nsp"] = nn.Dense(2, kernel_init=SMALL, name="nsp")(pooled)
        return outputs
