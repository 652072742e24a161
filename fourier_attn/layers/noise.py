"""Which engine a layer uses, and the key of its noise."""

from typing import Any

import flax.linen as nn

from fourier_attn.optics import Engine
from fourier_attn.optics.planner import check_plan


def select_engine(layer: nn.Module, train: bool) -> tuple[Engine | None, Any]:
    """The engine of training or of evaluation, and a key of the stream "noise" if it draws any.

    Noise is physics and not dropout: it is on in evaluation too, where the steps pass a fixed key.

    Raises: ValueError for a plan that does not exist.
    """
    fields: Any = layer
    check_plan(fields.prefer)
    engine = fields.engine if train or fields.eval_engine is None else fields.eval_engine
    return engine, layer.make_rng("noise") if engine is not None and engine.noisy else None
