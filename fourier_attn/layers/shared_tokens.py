"""Calls mixers where devices share the tokens of a sequence."""

from typing import Any, NamedTuple

import flax.linen as nn
from jaxtyping import Array

from fourier_attn.ops.token_shares import by_token, exchange, give_back


class Shared(NamedTuple):
    """Says what devices share inside a mixer; its attribute `shared`.

    A mixer without this attribute cannot have its tokens split.

    Args:
      axis: "tokens" if each device keeps its tokens; else "features", "pairs" (of features), or the name of
        the mixer's field with the number of independent parts, for example "blocks" or "heads".
      itself: whether the mixer exchanges tokens itself; else its block does, before and after it.
    """

    axis: str
    itself: bool = False

    def parts(self, mixer: nn.Module, d: int) -> dict[str, int]:
        """Returns what devices share, with its number, which must divide by that of the devices.

        Args:
          mixer: the mixer.
          d: model width.
        """
        known = {"tokens": {}, "features": {"d": d}, "pairs": {"d / 2": d // 2}}
        return known[self.axis] if self.axis in known else {self.axis: getattr(mixer, self.axis)}


TOKENS, FEATURES, BLOCKS = Shared("tokens"), Shared("features"), Shared("blocks")
PAIRS, MIXED_FEATURES = Shared("pairs", itself=True), Shared("features", itself=True)
HEADS = Shared("heads", itself=True)


def mix_shared(mixer: nn.Module, x: Array, **options: Any) -> Array:
    """Calls a mixer with whole sequences of some features, where devices share the tokens.

    Args:
      mixer: the mixer.
      x: the tokens, (b, t, d).
      options: further arguments of the mixer.
    """
    shared = getattr(mixer, "shared", None)
    if shared is None or shared.itself or shared.axis == "tokens":
        return by_token(mixer(x, **options))
    return give_back(mixer(exchange(x), **options))
