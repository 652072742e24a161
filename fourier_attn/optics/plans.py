"""How many passes an operation takes on an engine, and why: by closed formulas, without running it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fourier_attn.ops.circular import signal_axes
from fourier_attn.optics.parameters import Engine
from fourier_attn.optics.planner import check_field, check_stages, describe, frames, stages
from fourier_attn.optics.tiles import tile


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
    """What an operation takes on arrays of these shapes, by closed formulas; the same as is executed.

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
    if operation != "dft":
        check_field(engine)
    if operation == "circular_correlate":
        return _plan_correlate(x, kernel, engine, shape, boundary)
    if operation == "position_lambda":
        return _plan_lambda(x, kernel, engine, shape)
    sizes = tuple(x[axis] for axis in transform_axes(x, axes if operation == "dft" else (-2, -1)))
    check_stages(sizes, engine)
    arrays = math.prod(x) // math.prod(sizes)
    if operation == "fourier_mix" and pairs(arrays, engine):
        arrays = -(-arrays // 2)
    used = frames(sizes, arrays, engine)
    return Plan(used, used * engine.passes, stages(sizes, engine), describe(sizes, engine))


def _plan_correlate(x, kernel, engine: Engine, shape, boundary: str) -> Plan:
    axes, taps, vectors = signal_axes(x, kernel, shape, boundary), kernel[1:], math.prod(x[:-1])
    engine = engine.whole_field()
    arrays = -(-vectors // 2) if pairs(vectors, engine) else vectors
    sizes = tuple(n + r - 1 for n, r in zip(axes, taps, strict=True)) if boundary == "zero" else axes
    tiles, method = tile((arrays, *sizes), kernel, engine, boundary), "whole"
    if tiles:
        arrays, sizes = arrays * math.prod(tiles), engine.shape[-len(axes) :]
        method = f"{' x '.join(map(str, tiles))} tiles"
    check_stages(sizes, engine)
    used = frames(sizes, arrays, engine) + frames(sizes, arrays * kernel[0], engine)
    method = f"{method}, {describe(sizes, engine)}"
    return Plan(used, used * engine.passes, 2 * stages(sizes, engine), method)


def _plan_lambda(value, position, engine: Engine, grid) -> Plan:
    wide = lambda_axes(value, position, grid)
    (b, _, v, u), (*taps, k, _) = value, position
    signals, image = (b, v, math.prod(wide)), wide if grid else None
    one = _plan_correlate(signals, (k, *taps), engine, image, "zero")
    return one._replace(frames=u * one.frames, passes=u * one.passes, stages=u * one.stages)


def transform_axes(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """Places of one axis or two of an array of this shape."""
    places = tuple(axis % len(shape) for axis in axes if -len(shape) <= axis < len(shape))
    if len(axes) not in (1, 2) or len(set(places)) != len(axes):
        raise ValueError(f"axes={tuple(axes)} must be one axis of {shape}, or two different ones")
    return places


def pairs(count: int, engine: Engine) -> bool:
    """Whether two real arrays share a pass, a + i b."""
    return count > 1 and engine.encode == "complex" and engine.detection != "homodyne_re"


def lambda_axes(
    value: tuple[int, ...], position: tuple[int, ...], grid: tuple[int, ...] | None
) -> tuple[int, ...]:
    """Axes that values and a table both fit on; zeros beyond the end are nothing new."""
    axes, taps = grid or value[1:2], position[:-2]
    fits = len(value) == 4 and len(taps) == len(axes) and math.prod(axes) == value[1]
    if not fits or value[-1] != position[-1] or any(r % 2 == 0 for r in taps):
        raise ValueError(
            f"value {value}, position {position}, grid {grid} must be (b, t, v, u), (r, k, u), None, or "
            "(b, t, v, u), (r1, r2, k, u), (t1, t2) with t1 t2 = t; and r odd"
        )
    return tuple(max(n, r) for n, r in zip(axes, taps, strict=True))
