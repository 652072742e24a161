"""Measures the power of this machine's processor while it works, or estimates it without counters."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn import provenance
from fourier_attn.optics import components

POWERCAP = Path("/sys/class/powercap")


class Power(NamedTuple):
    """Holds watts with a range, and a text that names their source.

    Args:
      measured: whether a counter was read. Then the three are the same.
    """

    low: float
    typical: float
    high: float
    measured: bool
    text: str


def cpu_power(
    work: Callable[[], Any],
    seconds: float = 1.0,
    *,
    library: components.Library | None = None,
    root: Path = POWERCAP,
    clock: Callable[[], float] = time.perf_counter,
) -> Power:
    """Returns the processor's power in W while it repeats some work.

    Running average power limit (RAPL) counts the joules of the whole package, idle cores and other programs
    included. Where its counters cannot be read (virtual machines, other users than root), it is the thermal
    design power of the cores that this process may use.

    Args:
      work: the function to repeat.
      seconds: for how long; default 1.
      library: components with the power of a core; None: the built-in one.
      root: directory of the power counters.
      clock: returns the time in s.
    """
    before = counters(root)
    if not before:
        return _estimate((components.library() if library is None else library)["cpu.core_w"])
    began, elapsed = clock(), 0.0
    while elapsed == 0 or elapsed < seconds:
        work()
        elapsed = clock() - began
    after = counters(root)
    joules = sum(_spent(*after[zone], before[zone][0]) for zone in before if zone in after)
    watts = joules / elapsed
    text = f"{watts:.3g} W by RAPL, all of {len(before)} package(s), other programs included"
    return Power(watts, watts, watts, True, text)


def counters(root: Path = POWERCAP) -> dict[str, tuple[int, int]]:
    """Microjoules counted so far and where the counter wraps, by package; none that cannot be read."""
    counters = {}
    for zone in sorted(root.glob("intel-rapl:*")):  # the driver's name on other makes, too
        try:
            name = (zone / "name").read_text().strip()
            numbers = [int((zone / file).read_text()) for file in ("energy_uj", "max_energy_range_uj")]
        except (OSError, ValueError):
            continue
        if name.startswith("package"):  # not its parts, which have zones of their own
            counters[zone.name] = (numbers[0], numbers[1])
    return counters


def _spent(after: int, wrap: int, before: int) -> float:
    """Returns the joules between two readings of a counter that has wrapped around at most once."""
    return 1e-6 * (after - before if after >= before else after - before + wrap)


def _estimate(core: components.Component) -> Power:
    cores = provenance.cores()
    low, typical, high = (cores * getattr(core, corner) for corner in components.CORNERS)
    text = (
        f"{typical:.3g} W ({low:.3g} to {high:.3g}), no counter can be read: thermal design power of "
        f"{cores} cores, {core.typical:g} W each ({core.note}; {core.source})"
    )
    return Power(low, typical, high, False, text)
