"""Plans correlations on an aperture: tiles, transforms forth and back, products."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fourier_attn.choices import check_choice
from fourier_attn.ops.circular import signal_axes
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.schedule import PRODUCT, DigitalWork
from fourier_attn.optics.transform_plan import (
    TransformPlan,
    check_sizes,
    choose_transform,
    has_stages,
    packed,
)


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
        """Counts frames: one transform of the signal for all kernels, and one back for each product."""
        return self.lots(1)

    def lots(self, channels: int) -> int:
        """Counts lots of frames in which a number of channels run at once."""
        arrays = self.arrays * math.prod(self.tiles)
        back = arrays * self.kernels
        return self.transform.frames(arrays, channels) + self.transform.frames(back, channels)

    def digital(self, multiply: str) -> DigitalWork:
        """Counts the digital work of transforms, kernels' spectra and digital products."""
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
    """Plans the correlation of vectors with kernels, for an engine that detects the field.

    Signals of another size than the aperture's are cut into tiles of its size where the kernel fits on it and
    where this takes fewer frames than the signal as a whole, whose transform `prefer` chooses.

    Args:
      x: shape of the vectors.
      kernel: shape of the kernels, (h, *r).
      engine: the engine, with its aperture.
      shape: grid on which a vector lies; None: one axis.
      boundary: "circular", "zero" or "valid".
      prefer: "error" (default) or "passes", see `plan_transform`.
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
            transform=choose_transform(sizes, engine, prefer, arrays * (1 + kernels)),
        )

    sides = engine.shape[-len(axes) :]
    if sizes == sides or any(r > side for r, side in zip(taps, sides, strict=True)):
        check_sizes(sizes, engine)
        return candidate((), sizes)
    tiles = tile_counts(sizes, taps, sides, boundary)
    if not has_stages(engine):
        check_sizes(sides, engine)
        return candidate(tiles, sides)
    whole, tiled = candidate((), sizes), candidate(tiles, sides)
    better = tiled if tiled.frames < whole.frames else whole
    check_sizes(better.transform.sizes, engine)
    return better


def tile_counts(
    sizes: tuple[int, ...], taps: Sequence[int], sides: tuple[int, ...], boundary: str
) -> tuple[int, ...]:
    """Returns the number of tiles of each axis; each keeps $N - r + 1$ points.

    Args:
      sizes: of the signal, with the zeros around it.
      taps: r, the kernel's size on each axis.
      sides: N, the aperture's size on each axis.
      boundary: "circular", or any other, which has results only where the kernel lies in the signal.
    """
    tiles = []
    for n, r, side in zip(sizes, taps, sides, strict=True):
        results = n if boundary == "circular" else n - r + 1
        tiles.append(-(-results // (side - r + 1)))
    return tuple(tiles)


def check_multiply(multiply: str, planned: CorrelationPlan, engine: Engine) -> None:
    """Checks that these frames can multiply in this way.

    Args:
      multiply: "digital" or "modulator".
      planned: the plan of the correlation.
      engine: the engine that executes it.
    Raises: ValueError for an unknown way to multiply, or one that these frames do not have.
    """
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
    """Plans position lambdas as correlations of values with tables.

    Args:
      value: shape of the values, (b, t, v, u).
      position: shape of the tables, (*r, k, u).
      engine: the engine, with its aperture.
      grid: rows and columns of the positions; None: one axis.
      prefer: "error" (default) or "passes", see `plan_transform`.
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
