"""The time of a frame, stage after stage: how long it takes, and how often one can follow another.

Channels, wavelengths or apertures, take a frame each at the same time. They have their own modulators,
detectors and converters, and share the link.

Stages of different frames overlap if they use different parts. A part that several stages use is busy for
the sum of them, and the part that is busy longest sets the rate:

    latency = sum_i t_i,    period = max over parts of sum_i b_i

$t_i$ is the time of a stage, and $b_i$ the time for which it keeps its part from the next frame.
"""

from typing import NamedTuple

from fourier_attn.optics.components import Prices
from fourier_attn.optics.constants import LIGHT_M_S
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.frame import frame

LINK = "link"  # between memory and engine


class Stage(NamedTuple):
    """Holds a stage of a frame.

    Args:
      name: of the stage.
      part: that it uses; "" for a delay that keeps no part.
      seconds: that it takes.
      busy_s: for which its part cannot serve another frame.
    """

    name: str
    part: str
    seconds: float
    busy_s: float


class Pipeline(NamedTuple):
    """Holds the stages of a frame in each channel, from memory to memory.

    Args:
      stages: in order.
      channels: frames at the same time.
    """

    stages: tuple[Stage, ...]
    channels: int = 1

    @property
    def latency_s(self) -> float:
        """Returns the time of a frame, which is also the period if nothing overlaps."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def busy_s(self) -> dict[str, float]:
        """Returns for how long a frame keeps each part."""
        parts: dict[str, float] = {}
        for stage in self.stages:
            if stage.part:
                parts[stage.part] = parts.get(stage.part, 0.0) + stage.busy_s
        return parts

    @property
    def engine_s(self) -> float:
        """Returns the time for which the busiest part of the engine itself is busy, the link aside."""
        return max(seconds for part, seconds in self.busy_s.items() if part != LINK)

    @property
    def bound(self) -> str:
        """Returns the part that is busy longest."""
        busy = self.busy_s
        return max(busy, key=lambda part: busy[part])

    @property
    def period_s(self) -> float:
        """Returns the time from one frame to the next if all stages overlap."""
        return max(self.busy_s.values())

    @property
    def frames_in_flight(self) -> float:
        """Returns the number of independent frames that hide the latency."""
        return self.channels * self.latency_s / self.period_s


def pipeline(engine: Engine, prices: Prices) -> Pipeline:
    """Returns the stages of one frame with all of its passes.

    A pass of the frame rate includes the time in which modulators settle. Each modulator and each detected
    number has a converter of its own; panels and cameras bring theirs, and a camera is read while it takes
    the next image. The link serves both directions in turn. A turnaround is a delay for a frame that needs
    results of the one before, and keeps no part.

    Args:
      engine: the engine.
      prices: by the names of the component library.
    Raises: ValueError for a frame rate that typical modulators do not follow.
    """
    one = frame(engine)
    per_pass, sent = one.pass_s(prices), one.points * one.slices * one.point_bits
    rate = 8 * prices["link.bytes_per_s"] / one.channels
    passes_s = one.passes * per_pass
    shown = one.slices if one.patterns == 1 else one.passes * one.patterns  # mirrors repeat their patterns
    settle_s = min(shown * prices[f"{one.modulator}.settle_s"], passes_s)
    stages = [_busy("send", LINK, sent / rate)]
    if not one.panel:
        written = shown * prices["dac.sample_s"]
        stages.append(Stage("write: converter", "writing converters", prices["dac.latency_s"], written))
    stages += [
        _busy("modulators settle", "light", settle_s),
        Stage("light travels", "", prices["lens.path_m"] / LIGHT_M_S, 0.0),
        _busy("detectors integrate", "light", passes_s - settle_s),
    ]
    if one.camera:
        stages.append(Stage("read: camera", "camera", per_pass, passes_s))
    else:
        read = one.passes * prices["adc.sample_s"]
        stages.append(Stage("read: converter", "reading converters", prices["adc.latency_s"], read))
    stages.append(_busy("receive", LINK, (one.bits - sent) / rate))
    stages.append(Stage("turnaround", "", prices["link.turnaround_s"], 0.0))
    return Pipeline(tuple(stages), one.channels)


def _busy(name: str, part: str, seconds: float) -> Stage:
    """Returns a stage that keeps its part for all of its time."""
    return Stage(name, part, seconds, seconds)
