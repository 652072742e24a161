"""Layers that an optical engine can compute: which engine, the key of its noise, its converters' ranges."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array

from fourier_attn.optics import Engine, Rule, through
from fourier_attn.optics.ranges import CONVERTERS, uncalibrated, with_full_scales
from fourier_attn.optics.transform_plan import check_plan


class Watch(NamedTuple):
    """Passes the path of a layer to a monitor of engines.

    Args:
      layer: path of the layer.
      monitor: gets the path, then what the engine reports.
    """

    layer: tuple[str, ...]
    monitor: Callable[..., None]

    def __call__(self, *seen: Any) -> None:
        self.monitor(self.layer, *seen)


class OnEngine(nn.Module, kw_only=True):
    """Lets a Fourier-optical engine compute the transforms of a layer.

    Args:
      engine: engine that computes the transforms. Default None, exact.
      eval_engine: engine of evaluation. Default None, the same as in training.
      prefer: plan for sizes that the engine does not have: "error" for the fewest stages, each of which adds
        its error, or "passes" for the fewest passes. Default "error".
    """

    engine: Engine | None = None
    eval_engine: Engine | None = None
    prefer: str = "error"

    @property
    def optical(self) -> bool:
        """Says whether training or evaluation uses an engine."""
        return self.engine is not None or self.eval_engine is not None

    @nn.nowrap
    def on_engine(self, f: Callable[..., Array], x: Array, *weights: Any, train: bool) -> Array:
        """Returns f(x, *weights), with the transforms of what depends on x on the engine, if there is one.

        Spectra of the weights alone stay exact: hardware computes them once for many inputs.

        Args:
          f: function of arrays, see `fourier_attn.optics.through`.
          x: the data.
          weights: further arguments of f.
          train: whether the layer is called in training.
        """
        engine, key = self.choose_engine(train)
        if engine is None or self.is_initializing() or 0 in x.shape:
            return f(x, *weights)
        rules = (Rule(engine, prefer=self.prefer),)
        light = through(f, engine, key=key, rules=rules, argnums=0, custom_derivatives="inline")
        return light(x, *weights)

    @nn.nowrap
    def choose_engine(self, train: bool) -> tuple[Engine | None, Array | None]:
        """Returns the engine of training or of evaluation, and a key of the stream "noise" if it draws noise.

        Noise is physics and not dropout: it is on in evaluation too, where the steps pass a fixed key. Where
        an engine has calibrated ranges, their full scales are parameters of the layer, with no gradient.
        Before calibration they are 0, and the output is NaN.

        Args:
          train: whether the layer is called in training.
        Raises: ValueError for a plan that does not exist, or parameters without those that the engine asks
          for.
        """
        check_plan(self.prefer)
        engine = self.engine if train or self.eval_engine is None else self.eval_engine
        engines = [one for one in (self.engine, self.eval_engine) if one is not None]
        stored = {}
        for converter in dict.fromkeys(name for one in engines for name in uncalibrated(one)):
            name = CONVERTERS[converter].full_scale
            if not (self.is_initializing() or self.has_variable("params", name)):
                raise ValueError(
                    f"{'/'.join(self.path)} has no {name}, which {CONVERTERS[converter].range}='calibrated' "
                    "needs; calibrate it with fourier_attn.train.ranges.calibrate_ranges, or train with it"
                )
            stored[converter] = self.param(name, nn.initializers.zeros, (), jnp.float32)
        if engine is None:
            return None, None
        engine = with_full_scales(engine, {name: stored[name] for name in uncalibrated(engine)})
        if engine.monitor is not None:
            engine = engine.replace(monitor=Watch(self.path, engine.monitor))
        return engine, self.make_rng("noise") if engine.noisy else None
