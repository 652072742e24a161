"""The planner: counts what an operation takes.

Plans are numbers only. `fourier_attn.optics.transforms` and `fourier_attn.optics.operations` execute the very
schedules that `plan` counts; see `fourier_attn.optics.schedule` for the mathematics.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex

from fourier_attn.choices import check_choice
from fourier_attn.optics.correlation_plan import check_multiply, plan_correlation, plan_position_lambda
from fourier_attn.optics.correlator_plan import OPERATIONS as CORRELATORS
from fourier_attn.optics.correlator_plan import plan_correlator
from fourier_attn.optics.cost import UNKNOWN_DATA
from fourier_attn.optics.data_statistics import DataStatistics
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.incoherent import check_incoherent
from fourier_attn.optics.transform_plan import check_field, plan_mix, plan_transform, transform_axes

OPERATIONS = (
    "dft",
    "fourier_mix",
    "circular_correlate",
    "position_lambda",
    "incoherent_correlate",
    *CORRELATORS,
)
BYTES = 16  # of a complex number of single precision that is read and written back


class Plan(NamedTuple):
    """Counts what an operation takes, without running it.

    Args:
      frames: apertures that are written, transformed and read.
      passes: lots of frames times the passes of the detection, the averages and the slices.
      stages: rounds of frames; each round waits for the results of the one before.
      method: how the sizes are fitted on the aperture.
      digital_flops: real operations of what is not optical: remainders, twiddles, chirps, rows that are taken
        apart, products with spectra, 6 for a complex product and 5 n log2 n for a transform.
      digital_bytes: that cross memory for digital transforms, 8 for a complex number each way.
      factors: frames in which a second bank of modulators multiplies what the first one writes.
      factor_arrays: different arrays that it writes in them, one for each kernel.
      lots: of frames in which all channels run at once; the frames themselves where there is one channel.
    """

    frames: int
    passes: int
    stages: int
    method: str
    digital_flops: float = 0.0
    digital_bytes: float = 0.0
    factors: int = 0
    factor_arrays: int = 0
    lots: int = 0

    def load(self, times: float | int = 1) -> dict[str, Any]:
        """Returns the arguments of `cost.energy` and `cost.seconds` for a number of such operations.

        Args:
          times: number of operations; default 1.
        """
        names = ("frames", "factors", "lots", "digital_flops", "digital_bytes")
        return {name: times * getattr(self, name) for name in names}

    def stationary(self, data: DataStatistics = UNKNOWN_DATA) -> DataStatistics:
        """Returns statistics of a second bank that keeps a kernel for all frames that need it.

        Args:
          data: statistics of the first bank; default unknown.
        """
        if self.factors == 0:
            return data
        return data._replace(factor_changed=self.factor_arrays / self.factors)


def plan(
    operation: str,
    x: Sequence[SupportsIndex],
    engine: Engine,
    *,
    axes: Sequence[SupportsIndex] = (-2, -1),
    kernel: Sequence[SupportsIndex] = (),
    shape: Sequence[SupportsIndex] | None = None,
    boundary: str = "circular",
    multiply: str = "digital",
    prefer: str = "error",
    real: bool | tuple[bool, bool] | None = None,
    encoding: str | None = None,
    signed: str = "both",
) -> Plan:
    """Returns the number of passes and the digital work of an operation: the plan that is executed, counted.

        >>> plan("dft", (11, 11), Engine(shape=(11, 11))).passes
        1
        >>> engine = Engine(shape=(8, 8)).replace(detection="intensity")
        >>> plan("4f_correlate", (8, 8), engine, kernel=(3, 3), encoding="two_rail").passes
        4

    Args:
      operation: "dft", "fourier_mix", "circular_correlate", "position_lambda", "incoherent_correlate",
        "4f", "4f_correlate" or "joint_transform_correlate".
      x, kernel: shapes of the operation's arguments; the values and the table R of "position_lambda", and the
        transmissions of "4f" as its kernel.
      engine: the engine, with its aperture.
      axes: of the transform of "dft"; default the last two.
      shape: (d1, d2) of images in rows, or the grid of "position_lambda"; None, the default, is one axis.
      boundary, multiply, prefer: as the operation has them; defaults "circular", "digital" and "error".
      real: whether the arguments of "dft", or of a correlator, are real; None, the default, is complex for
        "dft" and real for correlators. A pair says it of input and kernel.
      encoding, signed: of correlators, as the operation has them.
    Raises: ValueError for sizes that no plan covers.
    """
    check_choice("operation", operation, OPERATIONS)
    x, kernel, axes = (tuple(map(operator.index, sizes)) for sizes in (x, kernel, axes))
    image = None if shape is None else tuple(map(operator.index, shape))
    if not x or min(x) < 1:
        raise ValueError(f"sizes {x} must all be at least 1")
    if operation == "incoherent_correlate":
        return _plan_incoherent(x, kernel, engine, check_incoherent(x, kernel, engine, encoding, signed))
    times, factors, factor_arrays = 1, 0, 0
    if operation == "dft":
        sizes = tuple(x[axis] for axis in transform_axes(x, axes))
        arrays = math.prod(x) // math.prod(sizes)
        chosen = plan_transform(sizes, engine, prefer=prefer, arrays=arrays, real=bool(real))
        frames, digital = chosen.frames(arrays), chosen.digital(arrays)
        lots = chosen.frames(arrays, engine.channels.count)
    elif operation == "fourier_mix":
        arrays, chosen = plan_mix(x, engine, prefer)
        frames, digital = chosen.frames(arrays), chosen.digital(arrays)
        lots = chosen.frames(arrays, engine.channels.count)
    elif operation in CORRELATORS:
        both = real if isinstance(real, tuple) else (real is not False, real is not False)
        chosen = plan_correlator(operation, x, kernel, engine, encoding=encoding, signed=signed, real=both)
        frames, digital = chosen.frames, chosen.digital
        factors, factor_arrays, lots = chosen.factors, chosen.factor_arrays, chosen.frames
    else:
        check_field(engine)
        engine = engine.whole_field()
        if operation == "circular_correlate":
            chosen = plan_correlation(x, kernel, engine, image, boundary, prefer)
            check_multiply(multiply, chosen, engine)
            if multiply == "modulator":
                factor_arrays = chosen.kernels
                factors = chosen.transform.frames(chosen.arrays * math.prod(chosen.tiles) * chosen.kernels)
        else:
            lambdas = plan_position_lambda(x, kernel, engine, image, prefer)
            chosen, times = lambdas.correlation, lambdas.u
        frames, digital = times * chosen.frames, chosen.digital(multiply).times(times)
        lots = times * chosen.lots(engine.channels.count)
    return Plan(
        frames=frames,
        passes=lots * engine.passes,
        stages=times * chosen.stages,
        method=chosen.method,
        digital_flops=digital.flops,
        digital_bytes=float(BYTES * digital.values),
        factors=factors,
        factor_arrays=factor_arrays,
        lots=lots,
    )


def _plan_incoherent(
    x: tuple[int, ...], kernel: tuple[int, ...], engine: Engine, rails: tuple[int, int]
) -> Plan:
    """Plans one pass for each array and pair of rails, with the filters of the kernel's rails."""
    points, pairs = math.prod(x[-2:]), math.prod(rails)
    frames = pairs * (math.prod(x) // points)
    spectra = rails[1] * 5 * points * math.log2(max(points, 1))
    return Plan(
        frames=frames,
        passes=frames * engine.passes,
        stages=1,
        method=f"{pairs} pairs of rails of kernels {kernel}",
        digital_flops=spectra + (pairs - 1) / pairs * points * frames,
        factors=frames,
        factor_arrays=rails[1],
        lots=frames,
    )
