"""The planner: which schedule computes an operation, and what it takes.

Plans are numbers only. `fourier_attn.optics.transforms` and `fourier_attn.optics.operations` execute the very
schedules that `plan` counts; see `fourier_attn.optics.schedule` for the mathematics.

Two axes can be transformed together or one after the other. Together takes the fewest stages, and each adds
its error. One after the other takes twice as many, but none of them works on the points that a chirp adds to
the other axis: 256 x 64 points on 11 x 11 pixels take 15,972 frames or 6,272. `prefer` chooses.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex

from fourier_attn.choices import check_choice
from fourier_attn.ops.circular import signal_axes
from fourier_attn.optics import schedule
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.schedule import PRODUCT, DigitalWork, Schedule

PREFER = ("error", "passes")
BYTES = 16  # of a complex number of single precision that is read and written back


class TransformPlan(NamedTuple):
    """Says how transforms over one axis or two are computed.

    Args:
      sizes: points of each axis.
      schedule: its steps.
      direct: whether the size is the aperture's own, so that one frame is all.
      method: in words.
      lens: the engine's.
    """

    sizes: tuple[int, ...]
    schedule: Schedule
    direct: bool
    method: str
    lens: str

    @property
    def stages(self) -> int:
        """Rounds of frames, one after the other."""
        return schedule.rounds(self.schedule)

    def frames(self, arrays: int) -> int:
        """Frames of so many arrays."""
        return schedule.frames(self.schedule, arrays)

    def digital(self, arrays: int) -> DigitalWork:
        """Returns the digital work for this many arrays."""
        return schedule.digital_work(self.schedule, self.sizes, self.lens).times(arrays)


def plan_transform(
    sizes: tuple[int, ...], engine: Engine, *, prefer: str = "error", arrays: int = 1, real: bool = False
) -> TransformPlan:
    """Plans transforms over one or two axes of these sizes.

    Args:
      prefer: "error" takes the fewest stages, "passes" the fewest frames, and of these the fewest stages.
      arrays: so many of them; frames are counted in wholes.
      real: whether they are real, so that half of their transform says all.
    Raises: ValueError where the aperture cannot do these sizes, in one pass or in stages.
    """
    check_sizes(sizes, engine)
    return _transform(sizes, engine, prefer, arrays, real)


def _transform(
    sizes: tuple[int, ...], engine: Engine, prefer: str, arrays: int = 1, real: bool = False
) -> TransformPlan:
    check_plan(prefer)
    if sizes == engine.shape:
        method = ", ".join(f"{n} = {n}^1" for n in sizes)
        return TransformPlan(sizes, schedule.one_frame(sizes), True, method, engine.lens)
    pixels = math.prod(engine.shape)
    axes = tuple(
        schedule.axis_of(n, side, engine.max_remainder)
        for n, side in zip(sizes, engine.shape[-len(sizes) :], strict=True)
    )
    method = ", ".join(axis.method for axis in axes)
    plans = [TransformPlan(sizes, schedule.together(axes, pixels), False, method, engine.lens)]
    if prefer == "passes" and len(sizes) == 2:
        steps, words = schedule.row_column(axes, pixels), f"rows, then columns: {method}"
        plans.append(TransformPlan(sizes, steps, False, words, engine.lens))
    if prefer == "passes" and len(sizes) == 2 and real:
        steps, words = schedule.real_row_column(axes, pixels), f"pairs of rows, half of the columns: {method}"
        plans.append(TransformPlan(sizes, steps, False, words, engine.lens))
    return min(plans, key=lambda planned: (planned.frames(arrays), planned.stages))


def check_plan(prefer: str) -> None:
    """Raises ValueError for a plan that does not exist."""
    check_choice("prefer", prefer, PREFER)


def check_sizes(sizes: tuple[int, ...], engine: Engine) -> None:
    """Raises ValueError where the aperture cannot do these sizes, in one pass or in stages."""
    if min(sizes) < 1:
        raise ValueError(f"sizes {sizes} must all be at least 1")
    if engine.centered or (engine.lens == "1d" and len(sizes) == 2):
        raise ValueError(f"sizes {sizes} need centered=False, and two axes lens='2d'; or use optical_dft2")
    if sizes == engine.shape:
        return
    own_rows = sizes == engine.shape[1:] and sizes != (1,)  # one axis, in one stage
    if not (_has_stages(engine) or own_rows):
        raise ValueError(
            f"aperture {engine.shape} must be square, 2 x 2 at least, for sizes {sizes} that are not its own"
        )
    if not engine.linear:
        raise ValueError(
            f"detection={engine.receiver.detection!r} loses the phase, which stages need for sizes {sizes}; "
            "use 'hybrid90'"
        )
    if engine.modulator.encode != "complex":
        raise ValueError(
            f"sizes {sizes} need stages, and stages encode='complex', not {engine.modulator.encode!r}"
        )


def _has_stages(engine: Engine) -> bool:
    """Says whether the aperture allows sizes to be split into stages."""
    rows, columns = engine.shape
    return rows == columns and rows > 1


def check_field(engine: Engine) -> None:
    """Raises ValueError where the engine does not give the field, nor its real part."""
    if not engine.linear:
        raise ValueError(
            f"detection={engine.receiver.detection!r} loses the phase, which is needed; use 'hybrid90'"
        )


def packed(count: int, engine: Engine) -> int:
    """Returns how many arrays so many real ones become: two share a pass, a + i b, if they can."""
    if count > 1 and engine.modulator.encode == "complex" and engine.receiver.detection != "homodyne_re":
        return -(-count // 2)
    return count


class CorrelationPlan(NamedTuple):
    """Says how vectors are correlated with kernels: transform, filter, transform back.

    Args:
      axes: the signal that each vector is, (d,) or (d1, d2).
      taps: of a kernel on each axis.
      vectors: that are correlated.
      kernels: with which each of them is.
      arrays: into which the vectors are packed.
      boundary: "circular", "zero" or "valid".
      tiles: of the aperture's size on each axis, which overlap by r - 1 points; () for the signal as a whole.
      transform: of a tile, or of the whole.
    """

    axes: tuple[int, ...]
    taps: tuple[int, ...]
    vectors: int
    kernels: int
    arrays: int
    boundary: str
    tiles: tuple[int, ...]
    transform: TransformPlan

    @property
    def places(self) -> tuple[int, ...]:
        """Returns the number of results on each axis."""
        if self.boundary == "valid":
            return tuple(n - r + 1 for n, r in zip(self.axes, self.taps, strict=True))
        return self.axes

    @property
    def stages(self) -> int:
        """Lots of frames, one after the other: forth and back."""
        return 2 * self.transform.stages

    @property
    def frames(self) -> int:
        """One transform of the signal serves all kernels; each product goes back by itself."""
        arrays = self.arrays * math.prod(self.tiles)
        return self.transform.frames(arrays) + self.transform.frames(arrays * self.kernels)

    def digital(self, multiply: str) -> DigitalWork:
        """Transforms' digital work, the kernels' spectra, and products with them where these are digital."""
        arrays = self.arrays * math.prod(self.tiles)
        points = math.prod(self.transform.sizes)
        flops = self.kernels * 5 * points * math.log2(max(points, 1))
        if multiply == "digital":
            flops += PRODUCT * points * arrays * self.kernels
        return self.transform.digital(arrays * (1 + self.kernels)).plus(DigitalWork(flops, 0))

    @property
    def method(self) -> str:
        """Describes the plan in words."""
        way = f"{' x '.join(map(str, self.tiles))} tiles" if self.tiles else "whole"
        return f"{way}, {self.transform.method}"


def plan_correlation(
    x: tuple[int, ...],
    kernel: tuple[int, ...],
    engine: Engine,
    shape: tuple[int, ...] | None,
    boundary: str,
    prefer: str = "error",
) -> CorrelationPlan:
    """Plans correlations of vectors (shape x) with kernels (h, *r), for an engine that gives the field.

    Signals of another size than the aperture's are cut into tiles of its size where the kernel fits on it and
    where this takes fewer frames than the signal as a whole, whose transform `prefer` chooses.

    Raises: ValueError for kernels that do not fit, or sizes that no plan covers.
    """
    axes = signal_axes(x, kernel, shape, boundary)
    kernels, *taps = kernel
    vectors = math.prod(x[:-1])
    sizes = axes
    if boundary == "zero":
        sizes = tuple(n + r - 1 for n, r in zip(axes, taps, strict=True))

    arrays = packed(vectors, engine)

    def candidate(tiles: tuple[int, ...], sizes: tuple[int, ...]) -> CorrelationPlan:
        return CorrelationPlan(
            axes=axes,
            taps=tuple(taps),
            vectors=vectors,
            kernels=kernels,
            arrays=arrays,
            boundary=boundary,
            tiles=tiles,
            transform=_transform(sizes, engine, prefer, arrays * (1 + kernels)),
        )

    sides = engine.shape[-len(axes) :]
    if sizes == sides or any(r > side for r, side in zip(taps, sides, strict=True)):
        check_sizes(sizes, engine)
        return candidate((), sizes)
    tiles = _tiles(sizes, taps, sides, boundary)
    if not _has_stages(engine):
        check_sizes(sides, engine)
        return candidate(tiles, sides)
    whole, tiled = candidate((), sizes), candidate(tiles, sides)
    better = tiled if tiled.frames < whole.frames else whole
    check_sizes(better.transform.sizes, engine)
    return better


def _tiles(
    sizes: tuple[int, ...], taps: Sequence[int], sides: tuple[int, ...], boundary: str
) -> tuple[int, ...]:
    """Returns the number of tiles of each axis; each keeps side - r + 1 points."""
    tiles = []
    for n, r, side in zip(sizes, taps, sides, strict=True):
        results = n if boundary == "circular" else n - r + 1
        tiles.append(-(-results // (side - r + 1)))
    return tuple(tiles)


def plan_mix(shape: tuple[int, ...], engine: Engine, prefer: str = "error") -> tuple[int, TransformPlan]:
    """Into how many arrays the real ones (..., t, d) are packed, and how these are transformed.

    Two share a pass where the engine can do that; or, with prefer="passes", the rows of each by themselves,
    where that is less: for a single one, and for a small odd number.

    Raises: ValueError for an engine without phases, or sizes that no plan covers.
    """
    check_field(engine)
    *batch, t, d = shape
    count = math.prod(batch)
    choices = []
    for arrays in (packed(count, engine), count):
        planned = plan_transform((t, d), engine, prefer=prefer, arrays=arrays, real=arrays == count)
        choices.append((arrays, planned))
    return min(choices, key=lambda choice: choice[1].frames(choice[0]))


def check_multiply(multiply: str, planned: CorrelationPlan, engine: Engine) -> None:
    """Raises ValueError for a way to multiply that does not exist, or that these frames do not have."""
    check_choice("multiply", multiply, ("digital", "modulator"))
    if multiply == "modulator" and not planned.transform.direct:
        sizes = planned.transform.sizes
        raise ValueError(f"multiply='modulator' needs frames of the aperture {engine.shape}, not {sizes}")


class LambdaPlan(NamedTuple):
    """Says how the position lambdas of values are computed: by correlations with each of u tables.

    Args:
      axes: of the positions, (t,) or (t1, t2).
      wide: axes on which values and a table both fit; zeros beyond the end are nothing new.
      u: tables.
      correlation: of all values with the columns of one table.
    """

    axes: tuple[int, ...]
    wide: tuple[int, ...]
    u: int
    correlation: CorrelationPlan


def plan_position_lambda(
    value: tuple[int, ...],
    position: tuple[int, ...],
    engine: Engine,
    grid: tuple[int, ...] | None,
    prefer: str = "error",
) -> LambdaPlan:
    """Plans the position lambdas of values (b, t, v, u) and tables (*r, k, u), by correlations.

    Raises: ValueError for tables that do not fit, or sizes that no plan covers.
    """
    axes, taps = grid or value[1:2], position[:-2]
    fits = len(value) == 4 and len(taps) == len(axes) and math.prod(axes) == value[1]
    if not fits or value[-1] != position[-1] or any(r % 2 == 0 for r in taps):
        raise ValueError(
            f"value {value}, position {position}, grid {grid} must be (b, t, v, u), (r, k, u), None, or "
            "(b, t, v, u), (r1, r2, k, u), (t1, t2) with t1 t2 = t; and r odd"
        )
    wide = tuple(max(n, r) for n, r in zip(axes, taps, strict=True))
    b, _, v, u = value
    k = position[-2]
    shape = wide if grid else None
    correlation = plan_correlation((b, v, math.prod(wide)), (k, *taps), engine, shape, "zero", prefer)
    return LambdaPlan(axes, wide, u, correlation)


def transform_axes(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """Places of one axis or two of an array of this shape."""
    places = tuple(axis % len(shape) for axis in axes if -len(shape) <= axis < len(shape))
    if len(axes) not in (1, 2) or len(set(places)) != len(axes):
        raise ValueError(f"axes={tuple(axes)} must be one axis of {shape}, or two different ones")
    return places


class Plan(NamedTuple):
    """Counts what an operation takes, without running it.

    Args:
      frames: apertures that are written, transformed and read.
      passes: frames times the passes of the detection, the averages and the slices.
      stages: rounds of frames; each round waits for the results of the one before.
      method: how the sizes are fitted on the aperture.
      digital_flops: real operations of what is not optical: remainders, twiddles, chirps, rows that are taken
        apart, products with spectra, 6 for a complex product and 5 n log2 n for a transform.
      digital_bytes: that cross memory for digital transforms, 8 for a complex number each way.
      factors: frames in which a second bank of modulators multiplies what the first one writes.
    """

    frames: int
    passes: int
    stages: int
    method: str
    digital_flops: float = 0.0
    digital_bytes: float = 0.0
    factors: int = 0

    def load(self, times: float | int = 1) -> dict[str, Any]:
        """Returns what `cost.energy` and `cost.seconds` count, of so many such operations."""
        names = ("frames", "factors", "digital_flops", "digital_bytes")
        return {name: times * getattr(self, name) for name in names}


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
    real: bool = False,
) -> Plan:
    """Returns what an operation takes on arrays of these shapes: the plan that is executed, counted.

        >>> plan("dft", (11, 11), Engine(shape=(11, 11))).passes
        1

    Args:
      operation: "dft", "fourier_mix", "circular_correlate" or "position_lambda".
      x, kernel: shapes of the operation's arguments; the values and the table R of "position_lambda".
      axes, shape (or grid), boundary, multiply, prefer: as the operation has them.
      real: of "dft", whether its argument is real; those of the others are.
    Raises: ValueError for sizes that no plan covers.
    """
    check_choice("operation", operation, ("dft", "fourier_mix", "circular_correlate", "position_lambda"))
    x, kernel, axes = (tuple(map(operator.index, sizes)) for sizes in (x, kernel, axes))
    image = None if shape is None else tuple(map(operator.index, shape))
    if not x or min(x) < 1:
        raise ValueError(f"sizes {x} must all be at least 1")
    times, factors = 1, 0
    if operation == "dft":
        sizes = tuple(x[axis] for axis in transform_axes(x, axes))
        arrays = math.prod(x) // math.prod(sizes)
        chosen = plan_transform(sizes, engine, prefer=prefer, arrays=arrays, real=real)
        frames, digital = chosen.frames(arrays), chosen.digital(arrays)
    elif operation == "fourier_mix":
        arrays, chosen = plan_mix(x, engine, prefer)
        frames, digital = chosen.frames(arrays), chosen.digital(arrays)
    else:
        check_field(engine)
        engine = engine.whole_field()
        if operation == "circular_correlate":
            chosen = plan_correlation(x, kernel, engine, image, boundary, prefer)
            check_multiply(multiply, chosen, engine)
            if multiply == "modulator":
                factors = chosen.transform.frames(chosen.arrays * math.prod(chosen.tiles) * chosen.kernels)
        else:
            lambdas = plan_position_lambda(x, kernel, engine, image, prefer)
            chosen, times = lambdas.correlation, lambdas.u
        frames, digital = times * chosen.frames, chosen.digital(multiply).times(times)
    return Plan(
        frames=frames,
        passes=frames * engine.passes,
        stages=times * chosen.stages,
        method=chosen.method,
        digital_flops=digital.flops,
        digital_bytes=float(BYTES * digital.values),
        factors=factors,
    )
