"""The planner: how transforms and correlations of any size are computed on an aperture of N x N pixels.

A smaller array on the aperture would be a zero-padded transform of N points, not one of its own size; larger
ones need stages. So lengths n = r N^s with s >= 1 are split by Cooley and Tukey,

    x[k2 + m k1] -> N-point transforms over k1 (optical) -> exp(-2 pi i j1 k2 / n) -> m-point ones over k2,

the last of r points digitally, and all other lengths go through a circular convolution with a chirp
(Bluestein) on L = r N^s >= 2 n - 1 points, r at most 3. Two-dimensional stages take N x N blocks; what
remains of one axis is done in rows, N vectors in one pass, whose mixing by the spherical lens is undone
digitally. Inverse transforms are forward ones, read backwards.

Plans are numbers only. `fourier_attn.optics.transforms` and `fourier_attn.optics.operations` execute the very
plans that `plan` counts.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fourier_attn.ops.circular import signal_axes
from fourier_attn.optics.parameters import Engine

REMAINDER = 3  # the largest radix that a chirp's length leaves to the digital side


def split(n: int, side: int) -> tuple[int, int]:
    """(s, r) with n = r side^s, side not dividing r: stages and digital remainder; (0, n) for a side of 1."""
    stages, remainder = 0, n
    while side > 1 and remainder % side == 0:
        stages += 1
        remainder //= side
    return stages, remainder


def chirp_length(n: int, side: int) -> int:
    """The least r side^s >= 2 n - 1 with s >= 1 and r <= 3, for a side of 2 at least."""
    lengths = []
    for r in range(1, REMAINDER + 1):
        length = r * side
        while length < 2 * n - 1:
            length *= side
        lengths.append(length)
    return min(lengths)


class Axis(NamedTuple):
    """One axis of a transform: n points, computed on length = remainder side^stages of them.

    Args:
      n: points.
      side: pixels of the aperture, the radix of an optical stage.
      length: n, or the points of a circular convolution with a chirp.
      stages: optical ones.
      remainder: points of the digital transforms that are left at the end.
    """

    n: int
    side: int
    length: int
    stages: int
    remainder: int

    @property
    def chirped(self) -> bool:
        """Whether it is computed as a convolution with a chirp, by a transform and one back."""
        return self.length > self.n

    @property
    def method(self) -> str:
        """In words."""
        if self.chirped:
            return f"{self.n}: chirp on {self.length}"
        rest = f" x {self.remainder} digitally" if self.remainder > 1 else ""
        return f"{self.n} = {self.side}^{self.stages}{rest}"

    def after_stage(self) -> "Axis":
        """What is left of it after an optical stage."""
        m = self.length // self.side
        return Axis(m, self.side, m, self.stages - 1, self.remainder)


def plan_axis(n: int, side: int) -> Axis:
    """How an axis of n points is computed with stages of `side` points."""
    stages, remainder = split(n, side)
    if stages > 0 or n == 1:
        return Axis(n, side, n, stages, remainder)
    length = chirp_length(n, side)
    return Axis(n, side, length, *split(length, side))


class TransformPlan(NamedTuple):
    """How transforms over one axis or two are computed.

    Args:
      axes: one or two.
      pixels: of the aperture.
      direct: whether the size is the aperture's own, so that one frame is all.
    """

    axes: tuple[Axis, ...]
    pixels: int
    direct: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(axis.n for axis in self.axes)

    @property
    def chirped(self) -> tuple[int, ...]:
        """Places of the axes that are convolved with a chirp, counted from the end: -2, -1."""
        return tuple(i - len(self.axes) for i, axis in enumerate(self.axes) if axis.chirped)

    @property
    def stages(self) -> int:
        """Lots of frames, one after the other: over all axes, and back over those with a chirp.

        Both axes share a stage as long as both have one.
        """
        if self.direct:
            return 1
        forth = max(axis.stages for axis in self.axes)
        back = max((self.axes[place].stages for place in self.chirped), default=0)
        return forth + back

    def frames(self, arrays: int) -> int:
        """Frames of so many arrays: each stage takes all of their points."""
        if self.direct:
            return arrays
        points = arrays * math.prod(axis.length for axis in self.axes)
        return self.stages * -(-points // self.pixels)

    @property
    def method(self) -> str:
        """In words."""
        return ", ".join(axis.method for axis in self.axes)


def plan_transform(sizes: tuple[int, ...], engine: Engine) -> TransformPlan:
    """How transforms over one or two axes of these sizes are computed.

    Raises: ValueError where the aperture cannot do these sizes, in one pass or in stages.
    """
    check_sizes(sizes, engine)
    return _transform(sizes, engine)


def _transform(sizes: tuple[int, ...], engine: Engine) -> TransformPlan:
    sides = engine.shape[-len(sizes) :]
    direct = sizes == engine.shape
    if direct:
        axes = tuple(Axis(n, n, n, *split(n, n)) for n in sizes)
    else:
        axes = tuple(plan_axis(n, side) for n, side in zip(sizes, sides, strict=True))
    return TransformPlan(axes, math.prod(engine.shape), direct)


def check_sizes(sizes: tuple[int, ...], engine: Engine) -> None:
    """Raises ValueError where the aperture cannot do these sizes, in one pass or in stages."""
    if min(sizes) < 1:
        raise ValueError(f"sizes {sizes} must all be at least 1")
    if engine.centered or (engine.lens == "1d" and len(sizes) == 2):
        raise ValueError(f"sizes {sizes} need centered=False, and two axes lens='2d'; or use optical_dft2")
    if sizes == engine.shape:
        return
    if not _has_stages(engine):
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
    """Whether the aperture is one on which sizes can be split into stages."""
    rows, columns = engine.shape
    return rows == columns and rows > 1


def check_field(engine: Engine) -> None:
    """Raises ValueError where the engine does not give the field, nor its real part."""
    if not engine.linear:
        raise ValueError(
            f"detection={engine.receiver.detection!r} loses the phase, which is needed; use 'hybrid90'"
        )


def packed(count: int, engine: Engine) -> int:
    """How many arrays so many real ones become: two share a pass, a + i b, where the engine can do that."""
    if count > 1 and engine.modulator.encode == "complex" and engine.receiver.detection != "homodyne_re":
        return -(-count // 2)
    return count


class CorrelationPlan(NamedTuple):
    """How vectors are correlated with kernels: transform, filter, transform back.

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
        """Places on each axis where the result stands."""
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

    @property
    def method(self) -> str:
        """In words."""
        way = f"{' x '.join(map(str, self.tiles))} tiles" if self.tiles else "whole"
        return f"{way}, {self.transform.method}"


def plan_correlation(
    x: tuple[int, ...], kernel: tuple[int, ...], engine: Engine, shape: tuple[int, ...] | None, boundary: str
) -> CorrelationPlan:
    """How vectors of shape x are correlated with kernels (h, *r), for an engine that gives the field.

    Signals of another size than the aperture's are cut into tiles of its size where the kernel fits on it and
    where this takes fewer frames than the signal as a whole.

    Raises: ValueError for kernels that do not fit, or sizes that no plan covers.
    """
    axes = signal_axes(x, kernel, shape, boundary)
    kernels, *taps = kernel
    vectors = math.prod(x[:-1])
    sizes = axes
    if boundary == "zero":
        sizes = tuple(n + r - 1 for n, r in zip(axes, taps, strict=True))

    def candidate(tiles: tuple[int, ...], sizes: tuple[int, ...]) -> CorrelationPlan:
        return CorrelationPlan(
            axes=axes,
            taps=tuple(taps),
            vectors=vectors,
            kernels=kernels,
            arrays=packed(vectors, engine),
            boundary=boundary,
            tiles=tiles,
            transform=_transform(sizes, engine),
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
    """How many tiles each axis takes; each keeps side - r + 1 points."""
    tiles = []
    for n, r, side in zip(sizes, taps, sides, strict=True):
        results = n if boundary == "circular" else n - r + 1
        tiles.append(-(-results // (side - r + 1)))
    return tuple(tiles)


class LambdaPlan(NamedTuple):
    """How the position lambdas of values are computed: as correlations, one lot for each of u tables.

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
    value: tuple[int, ...], position: tuple[int, ...], engine: Engine, grid: tuple[int, ...] | None
) -> LambdaPlan:
    """How values (b, t, v, u) meet tables (*r, k, u), for an engine that gives the field.

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
    correlation = plan_correlation((b, v, math.prod(wide)), (k, *taps), engine, shape, "zero")
    return LambdaPlan(axes, wide, u, correlation)


def transform_axes(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """Places of one axis or two of an array of this shape."""
    places = tuple(axis % len(shape) for axis in axes if -len(shape) <= axis < len(shape))
    if len(axes) not in (1, 2) or len(set(places)) != len(axes):
        raise ValueError(f"axes={tuple(axes)} must be one axis of {shape}, or two different ones")
    return places


class Plan(NamedTuple):
    """What an operation takes, without running it.

    Args:
      frames: apertures that are written, transformed and read.
      passes: frames times the passes of the detection, the averages and the slices.
      stages: lots of frames that wait for the results of those before.
      method: how the sizes are fitted on the aperture.
    """

    frames: int
    passes: int
    stages: int
    method: str


def plan(
    operation: str,
    x: tuple[int, ...],
    engine: Engine,
    *,
    axes: Sequence[int] = (-2, -1),
    kernel: tuple[int, ...] = (),
    shape: tuple[int, ...] | None = None,
    boundary: str = "circular",
) -> Plan:
    """What an operation takes on arrays of these shapes: the plan that is executed, counted.

    Args:
      operation: "dft", "fourier_mix", "circular_correlate" or "position_lambda".
      x, kernel: shapes of the operation's arguments; the values and the table R of "position_lambda".
      axes, shape (or grid), boundary: as the operation has them.
    Raises: ValueError for sizes that no plan covers.
    """
    names = ("dft", "fourier_mix", "circular_correlate", "position_lambda")
    if operation not in names:
        raise ValueError(f"operation={operation!r} is unknown; choose one of {', '.join(names)}")
    if not x or min(x) < 1:
        raise ValueError(f"sizes {x} must all be at least 1")
    times = 1
    if operation == "dft":
        sizes = tuple(x[axis] for axis in transform_axes(x, axes))
        chosen = plan_transform(sizes, engine)
        frames = chosen.frames(math.prod(x) // math.prod(sizes))
    elif operation == "fourier_mix":
        check_field(engine)
        *batch, t, d = x
        chosen = plan_transform((t, d), engine)
        frames = chosen.frames(packed(math.prod(batch), engine))
    else:
        check_field(engine)
        engine = engine.whole_field()
        if operation == "circular_correlate":
            chosen = plan_correlation(x, kernel, engine, shape, boundary)
        else:
            lambdas = plan_position_lambda(x, kernel, engine, shape)
            chosen, times = lambdas.correlation, lambdas.u
        frames = times * chosen.frames
    return Plan(frames, frames * engine.passes, times * chosen.stages, chosen.method)
