"""Checks the fields of causal layers."""

import flax.linen as nn


def check_causal(layer: nn.Module) -> None:
    """Checks that a layer with a field `causal` has neither a grid nor an engine where that is True.

    Raises: ValueError otherwise: an image has no order, and on an engine tokens share passes and the
      converters' scale, so that later ones change the errors of earlier ones.
    """
    if not getattr(layer, "causal", False):
        return
    if grid := tuple(getattr(layer, "grid", ())):
        raise ValueError(f"causal=True needs a sequence, not grid={grid}; an image has no order")
    if getattr(layer, "optical", False):
        raise ValueError("causal=True has no optical form; use engine=None")
