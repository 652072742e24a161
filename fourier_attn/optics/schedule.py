"""Schedules: a transform of any size as a list of steps, some on an aperture of N x N pixels, some digital.

A smaller array on the aperture would be a zero-padded transform of N points, not one of its own size; larger
ones need stages. For an axis of n = m N points, with w_n = exp(-2 pi i / n) (Cooley and Tukey),

    y[j1 + N j2] = sum_k2 w_m^(j2 k2)  w_n^(j1 k2)  sum_k1 w_N^(j1 k1) x[m k1 + k2]
                   the other stages    a twiddle    N points: optical

so that lengths r N^s take s stages; the last r points are transformed digitally. All other lengths are
convolved with a chirp (Bluestein), on a circle of r N^s >= 2 n - 1 points, r at most 3:

    y[k] = c[k] sum_m (x[m] c[m]) / c[k - m],   c[k] = exp(-pi i k^2 / n)

Two axes share a stage as long as each has one: blocks of N x N points fill the aperture. One axis alone is
done in rows, N vectors in a pass. The spherical lens mixes them; its transform of the other axis is undone
digitally, F_rows X = F_columns^-1 (F_rows X F_columns). Rows of their own length need no square aperture.

The steps are numbers only. `frames` counts them, `fourier_attn.optics.transforms` executes them.
"""

import math
from typing import NamedTuple

REMAINDER = 3  # the largest radix that a chirp's length leaves to the digital side


class Stage(NamedTuple):
    """N-point transforms along some axes, and their twiddles: the one step that takes frames.

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


class Rest(NamedTuple):
    """The digital transform of the last points of an axis, counted from the end as -2, -1."""

    place: int
    points: int


class Chirp(NamedTuple):
    """x c, with zeros up to the length of the circle."""

    place: int
    n: int
    length: int


class ChirpFilter(NamedTuple):
    """Times the spectrum of 1 / c."""

    place: int
    n: int
    length: int


class ChirpBack(NamedTuple):
    """A second transform read backwards, which is the inverse; of it n points, times c."""

    place: int
    n: int


class PairRows(NamedTuple):
    """Rows a, b of a real array become a + i b."""

    rows: int


class SplitRows(NamedTuple):
    """The first half of the spectra A, B of the rows: (Z[k] + conj Z[-k]) / 2, (Z[k] - conj Z[-k]) / 2 i."""

    rows: int
    columns: int


class Mirror(NamedTuple):
    """The other half of a real array's transform: Y[k, l] = conj Y[-k, -l]."""

    columns: int


Step = Stage | Rest | Chirp | ChirpFilter | ChirpBack | PairRows | SplitRows | Mirror
Schedule = tuple[Step, ...]


def frames(schedule: Schedule, arrays: int) -> int:
    """Frames of so many arrays: each stage takes all of their points."""
    stages = (step for step in schedule if isinstance(step, Stage))
    return sum(-(-arrays * math.prod(stage.sizes) // stage.pixels) for stage in stages)


def lots(schedule: Schedule) -> int:
    """Lots of frames, one after the other."""
    return sum(isinstance(step, Stage) for step in schedule)


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
    """One axis: n points, computed on length = remainder side^stages of them.

    Args:
      n: points.
      side: pixels of the aperture, the radix of an optical stage.
      length: n, or the points of a circular convolution with a chirp.
      stages: optical ones.
      remainder: points of the digital transform that is left at the end.
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


def axis_of(n: int, side: int) -> Axis:
    """How an axis of n points is computed with stages of `side` points."""
    stages, remainder = split(n, side)
    if stages > 0 or n == 1:
        return Axis(n, side, n, stages, remainder)
    length = chirp_length(n, side)
    return Axis(n, side, length, *split(length, side))


def resting(n: int) -> Axis:
    """An axis of n points that is not transformed."""
    return Axis(n, 1, n, 0, 1)


def one_frame(sizes: tuple[int, ...]) -> Schedule:
    """The transform of the aperture's own size."""
    return (Stage(sizes, sizes, (1,) * len(sizes), math.prod(sizes)),)


def together(axes: tuple[Axis, ...], pixels: int) -> Schedule:
    """All axes at once: forth over each, and back over those with a chirp. The fewest stages."""
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
    """Over `length` points of each axis, which share stages as long as each has one."""
    sizes, steps = tuple(axis.length for axis in axes), []
    for stage in range(max(axis.stages for axis in axes)):
        sides = tuple(axis.side if stage < axis.stages else 1 for axis in axes)
        done = tuple(axis.side ** min(stage, axis.stages) for axis in axes)
        steps.append(Stage(sizes, sides, done, pixels))
    rests = [Rest(place - len(axes), axis.remainder) for place, axis in enumerate(axes)]
    return (*steps, *(rest for rest in rests if rest.points > 1))


def row_column(axes: tuple[Axis, ...], pixels: int) -> Schedule:
    """Rows, then columns: neither is done on the points that the other's chirp adds."""
    columns, rows = axes
    return (
        *together((resting(columns.n), rows), pixels),
        *together((columns, resting(rows.n)), pixels),
    )


def real_row_column(axes: tuple[Axis, ...], pixels: int) -> Schedule:
    """The same of a real array: two rows in one, and half of the columns, of which the others are images."""
    columns, rows = axes
    pairs, half = -(-columns.n // 2), rows.n // 2 + 1
    return (
        PairRows(columns.n),
        *together((resting(pairs), rows), pixels),
        SplitRows(columns.n, half),
        *together((columns, resting(half)), pixels),
        Mirror(rows.n),
    )
