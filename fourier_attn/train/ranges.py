"""Calibrates the ranges of converters, which are stored with the weights as one full scale per layer."""

from collections.abc import Collection, Iterable
from typing import Any

import jax
import numpy as np

from fourier_attn import model
from fourier_attn.data.batches import Batch
from fourier_attn.optics import Engine
from fourier_attn.optics.ranges import BINS, CONVERTERS, ORACLES, clipped, full_scale, uncalibrated, watched
from fourier_attn.train.distributed.sharding import to_host
from fourier_attn.train.step import make_forward

BATCHES = 4  # number of batches for a calibration

Place = tuple[tuple[str, ...], str]  # a layer and its converter
IN_FORCE = "in force"  # the pass with the stored ranges


class Watcher:
    """Counts the values in front of each converter of a network, and computes the best full scales.

    It uses the engines of training, and those of evaluation for converters that are calibrated only there.

    Args:
      network: the model.
    """

    def __init__(self, network: model.Model):
        self.engines: dict[Place, Engine] = {}
        self.passes: list[tuple[str, set[Place], Any]] = []
        self.seen: list[tuple[Place, Any]] = []
        for engine_index in (0, -1):
            asking = {
                (("encoder", f"block_{block}", "mixer"), converter): engines[engine_index]
                for block, engines in enumerate(model.engines(network))
                if engines
                for converter in uncalibrated(engines[engine_index])
            }
            new = asking.keys() - self.engines.keys()
            self.engines = asking | self.engines
            for look in (*ORACLES, IN_FORCE):
                places = {place for place in new if look in (place[1], IN_FORCE)}
                if places:
                    self.passes.append(
                        (look, places, self._forward(network, engine_index, ORACLES.get(look, ())))
                    )

    def _forward(self, network: model.Model, engine_index: int, oracles: Collection[str]) -> Any:
        """Returns the forward pass of the network, which counts values.

        Args:
          network: the model.
          engine_index: 0 for the engines of training, -1 for those of evaluation.
          oracles: converters that use the range "auto".
        """
        watching = model.with_engines(
            network, lambda engine: watched(engine, self._count, oracles), engine_index
        )
        return make_forward(watching)

    def _count(self, layer: tuple[str, ...], converter: str, counts: Any) -> None:
        """Stores the `counts` of values in front of the `converter` of a `layer`."""
        # reading the counts here would be a deadlock: the program waits for this callback
        self.seen.append(((layer, converter), counts))

    def full_scales(
        self, params: Any, batches: Iterable[Batch]
    ) -> tuple[dict[tuple[str, ...], float], dict[str, float]]:
        """Returns the full scales with the smallest error, and the clip rates of the stored ones.

        Modulators are calibrated first, then detectors with the new ranges of the modulators.

        Args:
          params: parameters of one network.
          batches: the batches to calibrate with.
        Returns: the full scale for each path in the parameters; and "adc_clip_rate" and "dac_clip_rate", the
          shares of all conversions above the stored full scales ({} if one of them is missing).
        Raises: ValueError without batches.
        """
        batches, scales, changed = list(batches), {}, params
        for look in ORACLES:
            for (layer, converter), counts in self._counts(look, changed, batches).items():
                path = (*layer, CONVERTERS[converter].full_scale)
                scales[path] = full_scale(self.engines[layer, converter], converter, counts)
                changed = _put(changed, path, np.asarray(scales[path], np.float32))
        return scales, self._clip_rates(params, batches)

    def _counts(self, look: str, params: Any, batches: Iterable[Batch]) -> dict[Place, np.ndarray]:
        """Returns a histogram of the magnitudes in front of each converter.

        Args:
          look: "dac", "adc" or `IN_FORCE`.
          params: parameters of one network.
          batches: the batches to count.
        """
        total = {}
        for places, forward in [(places, forward) for name, places, forward in self.passes if name == look]:
            total |= {place: np.zeros(BINS, np.int64) for place in places}
            for batch in batches:
                self.seen = []
                jax.block_until_ready(forward(params, batch))
                jax.effects_barrier()
                for place, counts in self.seen:
                    if place in places:
                        total[place] += np.asarray(counts, np.int64)
        return total

    def _clip_rates(self, params: Any, batches: Iterable[Batch]) -> dict[str, float]:
        """Returns the shares of all conversions above the stored full scales; {} if one is missing."""
        stored = {
            place: float(_get(params, (*place[0], CONVERTERS[place[1]].full_scale))) for place in self.engines
        }
        if min(stored.values(), default=0.0) <= 0:
            return {}
        clips = {}
        for (layer, converter), counts in self._counts(IN_FORCE, params, batches).items():
            beyond = clipped(self.engines[layer, converter], converter, counts, stored[layer, converter])
            sums = clips.setdefault(f"{converter}_clip_rate", np.zeros(2))
            sums += [beyond * counts.sum(), counts.sum()]
        return {name: float(share / count) for name, (share, count) in clips.items()}

    def calibrate(
        self, params: Any, batches: Iterable[Batch], seeds: int = 1
    ) -> tuple[Any, dict[str, float]]:
        """Returns parameters with new full scales, and the clip rates of the old ones, see `full_scales`.

        Args:
          params: parameters; with several seeds, with a leading axis.
          batches: the batches to calibrate with.
          seeds: number of networks, each with its own full scales; default 1.
        """
        whole, batches = to_host(params), list(batches)
        if seeds == 1:
            values, rates = self.full_scales(whole, batches)
        else:
            each = [self.full_scales(jax.tree.map(lambda p, i=i: p[i], whole), batches) for i in range(seeds)]
            values = {path: [scales[path] for scales, _ in each] for path in each[0][0]}
            rates = {name: float(np.mean([clipped[name] for _, clipped in each])) for name in each[0][1]}
        for path, value in values.items():
            params = _put(params, path, np.asarray(value, np.float32))
        return params, rates


def calibrate_ranges(network: model.Model, params: Any, batches: Iterable[Batch]) -> Any:
    """Returns the parameters with a full scale for each "calibrated" converter.

    Args:
      network: a model on optical engines.
      params: its parameters.
      batches: a few batches, from which the ranges are measured.
    Raises: ValueError if no converter of the network is calibrated, or without batches.
    """
    watcher = Watcher(network)
    if not watcher.engines:
        raise ValueError("no layer has an engine with a calibrated range; set adc_range='calibrated'")
    return watcher.calibrate(params, batches)[0]


def _get(params: Any, path: tuple[str, ...]) -> Any:
    """Returns the parameter at a path; 0 if it is missing."""
    for name in path:
        params = params.get(name, {})
    return 0.0 if isinstance(params, dict) else params


def _put(params: Any, path: tuple[str, ...], value: np.ndarray) -> Any:
    """Returns `params` with a new `value` at a `path`, on the devices of the old one."""
    name, *rest = path
    if rest:
        return {**params, name: _put(params.get(name, {}), tuple(rest), value)}
    before = params.get(name)
    return {**params, name: jax.device_put(value, before.sharding if isinstance(before, jax.Array) else None)}
