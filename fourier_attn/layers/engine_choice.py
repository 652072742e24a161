"""Which engine a layer uses, the key of its noise, and the ranges of its converters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp

from fourier_attn.optics import Engine
from fourier_attn.optics.planner import check_plan
from fourier_attn.optics.ranges import CONVERTERS, uncalibrated, with_full_scales


class Watch(NamedTuple):
    """A monitor of engines that is told the layer, too."""

    layer: tuple[str, ...]
    monitor: Callable[..., None]

    def __call__(self, *seen: Any) -> None:
        self.monitor(self.layer, *seen)


def select_engine(layer: nn.Module, train: bool) -> tuple[Engine | None, Any]:
    """The engine of training or of evaluation, and a key of the stream "noise" if it draws any.

    Noise is physics and not dropout: it is on in evaluation too, where the steps pass a fixed key. Where an
    engine has calibrated ranges, their full scales are parameters of the layer: 0 until they are calibrated,
    which gives no number, and without a derivative.

    Raises: ValueError for a plan that does not exist, or parameters without those that the engine asks for.
    """
    fields: Any = layer
    check_plan(fields.prefer)
    engine = fields.engine if train or fields.eval_engine is None else fields.eval_engine
    asking = [one for one in (fields.engine, fields.eval_engine) if one is not None]
    stored = {}
    for converter in dict.fromkeys(name for one in asking for name in uncalibrated(one)):
        name = CONVERTERS[converter].full_scale
        if not (layer.is_initializing() or layer.has_variable("params", name)):
            raise ValueError(
                f"{'/'.join(layer.path)} has no {name}, which {CONVERTERS[converter].range}='calibrated' "
                "needs; calibrate it with fourier_attn.train.ranges.calibrate_ranges, or train with it"
            )
        stored[converter] = layer.param(name, nn.initializers.zeros, (), jnp.float32)
    if engine is None:
        return None, None
    engine = with_full_scales(engine, {name: stored[name] for name in uncalibrated(engine)})
    if engine.monitor is not None:
        engine = engine.replace(monitor=Watch(layer.path, engine.monitor))
    return engine, layer.make_rng("noise") if engine.noisy else None
