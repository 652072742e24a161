"""Plans correlators: the places of a signal and a kernel in one plane, and frames and passes.

Plans are numbers only.
"""

import math
from typing import NamedTuple

from fourier_attn.choices import check_choice
from fourier_attn.optics.coherence import is_coherent
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.rails import count_rails
from fourier_attn.optics.schedule import DigitalWork

BOUNDARIES = ("zero", "valid", "full")
OPERATIONS = ("4f", "4f_correlate", "joint_transform_correlate")


class JointPlane(NamedTuple):
    """Places a signal and a kernel in the input plane of a joint transform correlator.

    Along a row of N pixels, the signal has the first n and the kernel has r of them from p on:

        p = n + max(n, r) - 1,   N >= 2 (p + r) - 1

    A guard distance of $max(n, r) - 1$ dark pixels is between them, and the rest is dark, too. A mask covers
    dark pixels, so that they do not leak. The output plane holds three terms, which do not overlap. Let L be
    the distance from its axis. The auto-correlations are at $|L| < max(n, r)$. The correlation $y[i]$ of the
    signal with the kernel is at $L = p - i$, so that $p - n < L < p + r$, and its mirror image is at $-L$.

    A spherical lens also transforms the columns. There the signal and the kernel begin in the same row, and
    $N1 >= n1 + r1 - 1$ rows are enough. A cylindrical lens correlates each row with its own kernel.

    Args:
      shape: (N1, N2) of the aperture.
      signal: (n1, n2).
      kernel: (r1, r2).
      lens: "2d" or "1d".
      centered: whether the optical axis is in the middle of the array.
    """

    shape: tuple[int, int]
    signal: tuple[int, int]
    kernel: tuple[int, int]
    lens: str
    centered: bool

    @property
    def widest(self) -> int:
        """Returns the longer row: auto-correlations end before this distance."""
        return max(self.signal[1], self.kernel[1])

    @property
    def tallest(self) -> int:
        """Returns the larger number of rows."""
        return max(self.signal[0], self.kernel[0])

    @property
    def offset(self) -> int:
        """Returns p, the column where the kernel begins."""
        return self.signal[1] + self.widest - 1

    @property
    def least(self) -> tuple[int, int]:
        """Returns the smallest aperture at which no terms overlap."""
        rows = self.signal[0] + (self.kernel[0] - 1 if self.lens == "2d" else 0)
        return rows, 2 * (self.offset + self.kernel[1]) - 1

    @property
    def points(self) -> int:
        """Returns the number of pixels that one transform takes together."""
        return math.prod(self.shape) if self.lens == "2d" else self.shape[1]

    def cross(self, boundary: str) -> tuple[list[int], list[int]]:
        """Returns the rows and the columns of the output plane that hold the correlation, in its order."""
        spans = []
        for n, r in zip(self.signal, self.kernel, strict=True):
            start, end = {"zero": (-(r // 2), n - r // 2), "valid": (0, n - r + 1), "full": (1 - r, n)}[
                boundary
            ]
            spans.append(range(start, end))
        rows = [self._place(-i, 0) for i in spans[0]] if self.lens == "2d" else list(range(self.signal[0]))
        return rows, [self._place(self.offset - i, 1) for i in spans[1]]

    def auto(self) -> tuple[list[int], list[int]]:
        """Returns the rows and the columns of the auto-correlations, the smallest distance first."""
        rows = [self._place(i, 0) for i in range(1 - self.tallest, self.tallest)]
        rows = rows if self.lens == "2d" else list(range(self.signal[0]))
        return rows, [self._place(i, 1) for i in range(1 - self.widest, self.widest)]

    def _place(self, distance: int, axis: int) -> int:
        size = self.shape[axis]
        return (distance + (size // 2 if self.centered else 0)) % size


def joint_plane(
    x: tuple[int, ...], kernel: tuple[int, ...], engine: Engine, boundary: str = "zero"
) -> JointPlane:
    """Returns where a signal and a kernel are placed on an engine's aperture.

    Args:
      x: shape of the signals, (..., n1, n2).
      kernel: shape of the kernels, (..., r1, r2).
      engine: the engine, with its aperture and lens.
      boundary: "zero" (default), "valid" or "full".
    Raises: ValueError for sizes at which terms of the output overlap, and for a kernel that does not fit.
    """
    check_choice("boundary", boundary, BOUNDARIES)
    _check_axes(x, kernel)
    if boundary == "valid" and any(r > n for r, n in zip(kernel[-2:], x[-2:], strict=True)):
        raise ValueError(f"a kernel of shape {kernel} fits nowhere on x of shape {x}; use boundary='full'")
    plane = JointPlane(engine.shape, (x[-2], x[-1]), (kernel[-2], kernel[-1]), engine.lens, engine.centered)
    if engine.lens == "1d" and x[-2] != kernel[-2]:
        raise ValueError(
            f"a cylindrical lens correlates row with row, but x has {x[-2]} rows and the kernel "
            f"{kernel[-2]}; repeat the kernel's rows, or use lens='2d'"
        )
    rows, columns = plane.least
    if engine.shape[0] < rows or engine.shape[1] < columns:
        raise ValueError(
            f"terms of the output overlap: x {plane.signal} beside a kernel {plane.kernel} needs an aperture "
            f"of at least ({rows}, {columns}), not {engine.shape}; enlarge it, or cut x into tiles"
        )
    return plane


def _check_axes(x: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    for name, shape in (("x", x), ("kernel", kernel)):
        if len(shape) < 2 or 0 in shape:
            raise ValueError(f"{name} of shape {shape} must end in rows and columns, and have no empty axis")


def check_kernel(x: tuple[int, ...], kernel: tuple[int, ...], engine: Engine) -> None:
    """Checks the shapes that a 4f correlator correlates. Raises: ValueError.

    Args:
      x: shape of the inputs, which end in the aperture.
      kernel: shape of the kernels, which fit on it.
      engine: the engine, with its aperture and lens.
    """
    _check_axes(x, kernel)
    rows, columns = engine.shape
    if x[-2:] != engine.shape or kernel[-2] > rows or kernel[-1] > columns:
        raise ValueError(
            f"x of shape {x} must end in the aperture {engine.shape}, and the kernel of shape {kernel} fit "
            "on it; pad x with zeros"
        )
    if engine.lens == "1d" and kernel[-2] not in (1, rows):
        raise ValueError(
            f"a cylindrical lens filters row by row, so that the kernel of shape {kernel} must have 1 row or "
            f"{rows}"
        )


def check_engine(engine: Engine, *, joint: bool = False) -> None:
    """Checks that an engine can be that of two lenses.

    Args:
      engine: the engine.
      joint: whether a camera reads between the lenses; default False.
    Raises: ValueError for what only one lens has.
    """
    if engine.device.transfer is not None or engine.device.file is not None:
        raise ValueError("a measured device is of one lens, and a correlator has two; use parameters instead")
    if not is_coherent(engine) or engine.channels.count > 1:
        raise ValueError(
            "a correlator needs coherent light in one channel; set source_pixels=None, line_width_rms=None, "
            "wavelengths=1 and apertures=1"
        )
    if engine.backward not in ("model", "ideal"):
        raise ValueError(f"backward={engine.backward!r} is for one lens; use 'model' or 'ideal'")
    for name, off in (("dc_block", False), ("slices", 1), ("input_factors", None), ("output_factors", None)):
        value = getattr(engine, name)
        if value is not off and (name in ("input_factors", "output_factors") or value != off):
            raise ValueError(
                f"{name}={value!r:.40} needs the field behind one lens; use engine.replace({name}={off})"
            )
    if joint and engine.detector.passes > 1:
        raise ValueError(
            f"detection={engine.receiver.detection!r} takes {engine.detector.passes} passes, and a joint "
            "transform correlator reads in one; use 'intensity' or 'amplitude'"
        )


class CorrelatorPlan(NamedTuple):
    """Counts what a correlator takes.

    Args:
      frames: apertures that are written and read.
      factors: frames in which a filter plane multiplies.
      factor_arrays: different filters.
      stages: rounds of frames.
      digital: spectra of kernels, roots and sums over rails.
      method: in words.
    """

    frames: int
    factors: int
    factor_arrays: int
    stages: int
    digital: DigitalWork
    method: str


def plan_correlator(
    operation: str,
    x: tuple[int, ...],
    kernel: tuple[int, ...],
    engine: Engine,
    *,
    encoding: str | None = None,
    signed: str = "both",
    real: tuple[bool, bool] = (True, True),
) -> CorrelatorPlan:
    """Plans a correlator with an intensity read-out.

    A 4f correlator has one frame for each pair of rails. `Plan.stationary` is for filters that stay. A joint
    transform correlator has two frames: the joint spectrum is read, and written again.

    Args:
      operation: "4f", "4f_correlate" or "joint_transform_correlate".
      x: shape of the inputs.
      kernel: shape of the kernels, or of the transmissions of "4f".
      engine: the engine, with its aperture.
      encoding, signed: as the operation has them.
      real: whether inputs are real, and whether kernels are; default both.
    Raises: ValueError for sizes that do not fit, an encoding of "4f", or an engine that is for one lens.
    """
    joint = operation == "joint_transform_correlate"
    check_engine(engine, joint=joint)
    if joint:
        joint_plane(x, kernel, engine)
    else:
        check_kernel(x, kernel, engine)
    if operation == "4f" and kernel[-2:] != engine.shape:
        raise ValueError(f"kernel={kernel} of '4f' are transmissions and must end in {engine.shape}")
    if operation == "4f" and encoding is not None:
        raise ValueError(f"encoding={encoding!r} has no meaning for '4f'; use '4f_correlate'")
    counts = count_rails(encoding, signed, real=real)
    pairs = math.prod(counts)
    arrays = math.prod(broadcast(x[:-2], kernel[:-2]))
    filters = math.prod(kernel[:-2]) * counts[1]
    work = 0.0
    if operation == "4f_correlate":
        rows, columns = engine.shape
        transforms, points = (kernel[-2], columns) if engine.lens == "1d" else (1, rows * columns)
        work += 5.0 * filters * transforms * points * math.log2(points)
    if encoding is not None:  # a root and a sum
        work += 2.0 * math.prod(x[-2:]) * arrays * pairs
    return CorrelatorPlan(
        frames=arrays * pairs * (2 if joint else 1),
        factors=0 if joint else arrays * pairs,
        factor_arrays=0 if joint else filters,
        stages=2 if joint else 1,
        digital=DigitalWork(work, 0),
        method=f"{counts[0]} x {counts[1]} rails" if encoding else "one pass of light",
    )


def broadcast(x: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the common shape of two batches.

    Raises: ValueError for batches that have none.
    """
    wide = max(len(x), len(kernel))
    a, b = ((1,) * (wide - len(shape)) + tuple(shape) for shape in (x, kernel))
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        raise ValueError(
            f"batches {x} of x and {kernel} of the kernel do not broadcast; give axes of equal size, or 1"
        )
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))
