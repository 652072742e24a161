"""Schedules: a transform of any size as a list of steps, some on an aperture of N x N pixels, some digital.

A smaller array on the aperture would be a zero-padded transform of N points, not one of its own size; larger
ones need stages. For an axis of $n = m N$ points, with $w_n = exp(-2 pi i / n)$ (Cooley and Tukey),

    y[j1 + N j2] = sum_{k2} w_m^(j2 k2) w_n^(j1 k2) sum_{k1} w_N^(j1 k1) x[m k1 + k2]

The inner sum is a transform of N points and runs optically. `w_n^(j1 k2)` are the twiddle factors, and the
outer sum is the remaining stages. Lengths $r N^s$ therefore take s stages. The last r points are transformed
digitally where they are few (N, or `Engine.max_remainder`), else by a convolution with a chirp of their own.
All other lengths are convolved with a chirp (Bluestein) as a whole, on a circle of $r N^s >= 2 n - 1$ points,
r at most 3:

    y[k] = c[k] sum_m (x[m] c[m]) / c[k - m],   c[k] = exp(-pi i k^2 / n)

Two axes share a stage as long as each has one: blocks of N x N points fill the aperture. One axis alone is
done in rows, N vectors in a pass. The spherical lens mixes them; its transform of the other axis is undone
digitally:

    F_rows X = F_columns^-1 (F_rows X F_columns)

Rows of their own length need no square aperture.

The steps are numbers only. `frames` counts them, `digital_work` counts what is not optical,
`fourier_attn.optics.transforms` executes them.
"""

import math
from typing import NamedTuple

REMAINDER = 3  # the largest radix that a chirp's length leaves to the digital side


class Stage(NamedTuple):
    """Transforms N points along some axes, with their twiddles: the one step that takes frames.

    Args:
      sizes: of an array as it comes and goes.
      sides: N on an axis that is transformed, 1 on one that rests.
      done: points of each axis that earlier stages have transformed. They lie as (n / done, done), and after
        the stage as (n / (N done), N done), so that the last stage leaves them in order (Stockham).
      pixels: of the aperture.
    """

    sizes: tuple[int, ...]
    sides: tuple[int, ...]
    done: tuple[int, ...]
    pixels: int


class DigitalRadix(NamedTuple):
    """Transforms the last points of an axis digitally, counted from the end as -2, -1."""

    place: int
    points: int


class Within(NamedTuple):
    """Transforms the last points of an axis optically, by its own schedule.

    Args:
      place, points: as `DigitalRadix` has them.
      total: points of an array, of all axes.
      schedule: of one axis of this many points.
    """

    place: int
    points: int
    total: int
    schedule: "Schedule"


class Chirp(NamedTuple):
    """Multiplies x by c, with zeros up to the length of the circle."""

    place: int
    n: int
    length: int


class ChirpFilter(NamedTuple):
    """Times the spectrum of $1 / c$."""

    place: int
    n: int
    length: int


class ChirpBack(NamedTuple):
    """Reads a second transform backwards, which is the inverse, and multiplies n points of it by c."""

    place: int
    n: int


class PairRows(NamedTuple):
    """Packs rows a, b of a real array as $a + i b$."""

    rows: int


class SplitRows(NamedTuple):
    """Separates half of the rows' spectra A, B: $(Z[k] + conj Z[-k]) / 2$, $(Z[k] - conj Z[-k]) / (2 i)$."""

    rows: int
    columns: int


class Mirror(NamedTuple):
    """Adds the other half of a real array's transform: $Y[k, l] = conj Y[-k, -l]$."""

    columns: int


Step = Stage | DigitalRadix | Within | Chirp | ChirpFilter | ChirpBack | PairRows | SplitRows | Mirror
Schedule = tuple[Step, ...]


def frames(schedule: Schedule, arrays: int, channels: int = 1) -> int:
    """Returns the frames of a number of arrays: each stage takes all of their points.

    Args:
      schedule: the steps.
      arrays: their number.
      channels: frames that run at once and count as one; default 1. A stage fills them up with dark ones.
    """
    count = 0
    for step in schedule:
        if isinstance(step, Stage):
            stage = -(-arrays * math.prod(step.sizes) // step.pixels)
            count += -(-stage // channels)
        elif isinstance(step, Within):
            count += frames(step.schedule, arrays * step.total // step.points, channels)
    return count


def rounds(schedule: Schedule) -> int:
    """Returns the number of rounds of frames, one after the other."""
    inner = sum(rounds(step.schedule) for step in schedule if isinstance(step, Within))
    return inner + sum(isinstance(step, Stage) for step in schedule)


class DigitalWork(NamedTuple):
    """Counts the operations and the memory traffic of digital steps.

    Args:
      flops: real operations, 6 for a complex product and 5 n log2 n for a transform of n points.
      values: complex numbers that digital transforms read from memory and write back: those of remainders,
        and those that undo the lens along the other axis of rows. Transforms that follow each other share
        one crossing. Products with twiddles and chirps, and pairs of rows that are taken apart, are
        computed as numbers pass on their way from detectors to modulators.
    """

    flops: float
    values: int

    def plus(self, other: "DigitalWork") -> "DigitalWork":
        return DigitalWork(self.flops + other.flops, self.values + other.values)

    def times(self, count: int) -> "DigitalWork":
        return DigitalWork(count * self.flops, count * self.values)


PRODUCT = 6  # real operations of a complex product


def digital_work(schedule: Schedule, sizes: tuple[int, ...], lens: str = "2d") -> DigitalWork:
    """Counts the digital work of one array of these sizes.

    Args:
      schedule: the steps.
      sizes: of the transformed axes.
      lens: a spherical one, "2d", mixes rows, which is undone digitally; a cylindrical one does not.
    """
    work = DigitalWork(0.0, 0)
    for before, step in zip((None, *schedule), schedule, strict=False):
        after = _sizes_after(step, sizes)
        points = min(math.prod(sizes), math.prod(after)) if isinstance(step, Chirp) else math.prod(after)
        follows = isinstance(before, DigitalRadix) or (isinstance(before, Stage) and _undone(before, lens))
        work = work.plus(_step_work(step, points, lens, alone=not follows))
        sizes = after
    return work


def _sizes_after(step: Step, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of an array that a step leaves."""
    now = list(sizes)
    match step:
        case Chirp():
            now[step.place] = step.length
        case ChirpBack():
            now[step.place] = step.n
        case PairRows():
            now[-2] = -(-step.rows // 2)
        case SplitRows():
            now[-2:] = [step.rows, step.columns]
        case Mirror():
            now[-1] = step.columns
    return tuple(now)


def _step_work(step: Step, points: int, lens: str, alone: bool) -> DigitalWork:
    """Counts the work of a step on a number of points.

    Args:
      alone: whether a transform crosses memory for itself, and not together with the one before.
    """
    match step:
        case Stage():
            work = _twiddles(step) + (_undoing(step) if _undone(step, lens) else 0.0)
            return DigitalWork(points * work, points if _undone(step, lens) else 0)
        case DigitalRadix():
            return DigitalWork(5 * points * math.log2(step.points), points if alone else 0)
        case Within():
            return digital_work(step.schedule, (step.points,), lens).times(points // step.points)
        case SplitRows():
            return DigitalWork(4.0 * points, 0)
        case Chirp() | ChirpFilter() | ChirpBack():
            return DigitalWork(float(PRODUCT * points), 0)
    return DigitalWork(0.0, 0)


def _twiddles(stage: Stage) -> float:
    """Counts the operations for each point of a product for each axis that has further stages."""
    axes = zip(stage.sizes, stage.sides, stage.done, strict=True)
    return float(PRODUCT * sum(side > 1 and n > side * done for n, side, done in axes))


def _undone(stage: Stage, lens: str) -> bool:
    """Returns whether several rows share a frame, along whose other axis the lens transforms, too."""
    return lens == "2d" and math.prod(stage.sides) < stage.pixels


def _undoing(stage: Stage) -> float:
    """Counts the operations for each point of the digital transform along the other axis of rows."""
    return 5 * math.log2(stage.pixels / math.prod(stage.sides))


def split(n: int, side: int) -> tuple[int, int]:
    """Returns stages s and remainder r with $n = r side^s$, side not dividing r; (0, n) for a side of 1."""
    stages, remainder = 0, n
    while side > 1 and remainder % side == 0:
        stages += 1
        remainder //= side
    return stages, remainder


def chirp_length(n: int, side: int, most: int = REMAINDER) -> int:
    """Returns the least $r side^s >= 2 n - 1$ with $s >= 1$, $r <= 3$ and $r <= most$, for a $side >= 2$."""
    lengths = []
    for r in range(1, min(REMAINDER, most) + 1):
        length = r * side
        while length < 2 * n - 1:
            length *= side
        lengths.append(length)
    return min(lengths)


class Axis(NamedTuple):
    """Describes one axis: n points, computed on $length = remainder side^stages$ points.

    Args:
      n: points.
      side: pixels of the aperture, the radix of an optical stage.
      length: n, or the points of a circular convolution with a chirp.
      stages: optical ones.
      remainder: points of the transform that is left at the end.
      most: of them that are transformed digitally.
    """

    n: int
    side: int
    length: int
    stages: int
    remainder: int
    most: int = REMAINDER

    @property
    def chirped(self) -> bool:
        """Says whether it is a convolution with a chirp, by a transform and one back."""
        return self.length > self.n

    @property
    def method(self) -> str:
        """Describes the stages in words."""
        if self.chirped:
            return f"{self.n}: chirp on {self.length}"
        if self.remainder == 1:
            return f"{self.n} = {self.side}^{self.stages}"
        how = "digitally"
        if self.remainder > self.most:
            how = f"with a chirp on {chirp_length(self.remainder, self.side, self.most)}"
        return f"{self.n} = {self.side}^{self.stages} x {self.remainder} {how}"

    @property
    def work(self) -> float:
        """Returns the points that pass a stage, over n."""
        if self.chirped:
            return 2 * self.stages * self.length / self.n
        if self.remainder <= self.most:
            return self.stages
        return self.stages + axis_of(self.remainder, self.side, self.most).work


def axis_of(n: int, side: int, most: int | None = None) -> Axis:
    """Returns how an axis of n points is computed with stages of `side` points.

    Args:
      most: points of a remainder that is transformed digitally; None is `side`, and 3 at least.
    """
    stages, remainder = split(n, side)
    most = max(side, REMAINDER) if most is None else most
    cut = Axis(n, side, n, stages, remainder, most)
    if n == 1 or (stages > 0 and remainder <= most):
        return cut
    length = chirp_length(n, side, most)
    whole = Axis(n, side, length, *split(length, side), most)
    return cut if stages > 0 and cut.work <= whole.work else whole


def resting(n: int) -> Axis:
    """Describes an axis of n points that is not transformed."""
    return Axis(n, 1, n, 0, 1)


def one_frame(sizes: tuple[int, ...]) -> Schedule:
    """Returns the schedule of the aperture's own size."""
    return (Stage(sizes, sizes, (1,) * len(sizes), math.prod(sizes)),)


def together(axes: tuple[Axis, ...], pixels: int) -> Schedule:
    """Returns the schedule of all axes at once, and back over those with a chirp: the fewest stages."""
    places = [(place - len(axes), axis) for place, axis in enumerate(axes)]
    chirped = [(place, axis) for place, axis in places if axis.chirped]
    back = tuple(axis if axis.chirped else resting(axis.length) for axis in axes)
    return (
        *(Chirp(place, axis.n, axis.length) for place, axis in chirped),
        *_stages(axes, pixels),
        *(ChirpFilter(place, axis.n, axis.length) for place, axis in chirped),
        *_stages(back, pixels),
        *(ChirpBack(place, axis.n) for place, axis in chirped),
    )


def _stages(axes: tuple[Axis, ...], pixels: int) -> Schedule:
    """Returns stages over `length` points of each axis, shared as long as each axis has one."""
    sizes, steps = tuple(axis.length for axis in axes), []
    for stage in range(max(axis.stages for axis in axes)):
        sides = tuple(axis.side if stage < axis.stages else 1 for axis in axes)
        done = tuple(axis.side ** min(stage, axis.stages) for axis in axes)
        steps.append(Stage(sizes, sides, done, pixels))
    rests = [_rest(axis, place - len(axes), sizes, pixels) for place, axis in enumerate(axes)]
    return (*steps, *(rest for rest in rests if rest.points > 1))


def _rest(axis: Axis, place: int, sizes: tuple[int, ...], pixels: int) -> DigitalRadix | Within:
    """Returns what is left of an axis after its stages."""
    if axis.remainder <= axis.most:
        return DigitalRadix(place, axis.remainder)
    inner = axis_of(axis.remainder, axis.side, axis.most)
    return Within(place, axis.remainder, math.prod(sizes), together((inner,), pixels))


def row_column(axes: tuple[Axis, ...], pixels: int) -> Schedule:
    """Returns the schedule of rows, then columns: neither works on points that the other's chirp adds."""
    columns, rows = axes
    return (
        *together((resting(columns.n), rows), pixels),
        *together((columns, resting(rows.n)), pixels),
    )


def real_row_column(axes: tuple[Axis, ...], pixels: int) -> Schedule:
    """Returns `row_column` for a real array: rows in pairs, half of the columns, the rest mirrored."""
    columns, rows = axes
    pairs, half = -(-columns.n // 2), rows.n // 2 + 1
    return (
        PairRows(columns.n),
        *together((resting(pairs), rows), pixels),
        SplitRows(columns.n, half),
        *together((columns, resting(half)), pixels),
        Mirror(rows.n),
    )
