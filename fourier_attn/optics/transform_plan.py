"""Plans transforms on an aperture: the schedule of each, and what it takes.

Two axes can be transformed together or one after the other. Together takes the fewest stages, and each adds
its error. One after the other takes twice as many, but none of them works on the points that a chirp adds to
the other axis: 256 x 64 points on 11 x 11 pixels take 15,972 frames or 6,272. `prefer` chooses.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fourier_attn.choices import check_choice
from fourier_attn.optics import schedule
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.schedule import DigitalWork, Schedule

PREFER = ("error", "passes")


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

    def frames(self, arrays: int, channels: int = 1) -> int:
        """Returns the frames of a number of arrays, or the lots of them in which all channels run."""
        return schedule.frames(self.schedule, arrays, channels)

    def digital(self, arrays: int) -> DigitalWork:
        """Returns the digital work for this many arrays."""
        return schedule.digital_work(self.schedule, self.sizes, self.lens).times(arrays)


def plan_transform(
    sizes: tuple[int, ...], engine: Engine, *, prefer: str = "error", arrays: int = 1, real: bool = False
) -> TransformPlan:
    """Plans transforms over one or two axes.

    Args:
      sizes: of the transformed axes.
      engine: the engine, with its aperture.
      prefer: "error" takes the fewest stages, "passes" the fewest frames, and of these the fewest stages.
      arrays: their number; default 1. Frames are whole numbers.
      real: whether they are real, so that half of their transform says all.
    Raises: ValueError where the aperture cannot do these sizes, in one pass or in stages.
    """
    check_sizes(sizes, engine)
    return choose_transform(sizes, engine, prefer, arrays, real)


def choose_transform(
    sizes: tuple[int, ...], engine: Engine, prefer: str, arrays: int = 1, real: bool = False
) -> TransformPlan:
    """Returns the plan that `prefer` asks for, of sizes that the aperture can transform.

    Args:
      sizes: of the transformed axes.
      engine: the engine, with its aperture.
      prefer: "error" or "passes".
      arrays, real: as in `plan_transform`.
    """
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
    if not (has_stages(engine) or own_rows):
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


def has_stages(engine: Engine) -> bool:
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
    """Returns the number of packed arrays: two real ones share a pass, $a + i b$, if they can."""
    if count > 1 and engine.modulator.encode == "complex" and engine.receiver.detection != "homodyne_re":
        return -(-count // 2)
    return count


def plan_mix(shape: tuple[int, ...], engine: Engine, prefer: str = "error") -> tuple[int, TransformPlan]:
    """Plans the transforms of real arrays; returns the number of packed arrays and their plan.

    Two share a pass where the engine can do that; or, with prefer="passes", the rows of each by themselves,
    where that is less: for a single one, and for a small odd number.

    Args:
      shape: of the arrays, (..., t, d).
      engine: the engine, with its aperture.
      prefer: "error" (default) or "passes".
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


def transform_axes(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """Places of one axis or two of an array of this shape."""
    places = tuple(axis % len(shape) for axis in axes if -len(shape) <= axis < len(shape))
    if len(axes) not in (1, 2) or len(set(places)) != len(axes):
        raise ValueError(f"axes={tuple(axes)} must be one axis of {shape}, or two different ones")
    return places
