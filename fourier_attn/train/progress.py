"""How far a run is: a bar on a terminal, and elsewhere a line a minute."""

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tqdm import tqdm

LOOK = 0.5  # seconds, about, from one look at the devices to the next
LINE = 60.0  # seconds between two lines where there is no terminal


class Progress:
    """Shows steps, or batches, with metrics, examples a second and the time that is left.

    Steps are started before the devices have computed the ones before. `due` says when to wait for them:
    about every `LOOK` seconds, and after each step where a step takes longer.

    Args:
      title: "train", or the name of a split.
      total: steps or batches, as `unit` says.
      batch: examples of each.
      first: how many were done before.
      leave: whether the bar stays on the terminal at the end.
      say: gets the lines; None: there are none.
    """

    def __init__(
        self,
        title: str,
        total: int,
        batch: int,
        *,
        unit: str,
        first: int = 0,
        leave: bool = False,
        say: Callable[[str], None] | None = None,
    ):
        self.say = say
        self.title, self.total, self.batch, self.unit = title, total, batch, unit
        self.bar = tqdm(
            desc=None if leave else title,
            total=total,
            initial=first,
            unit=unit,
            leave=leave,
            disable=None,
            mininterval=LOOK,
            **_width(),
        )
        self.metrics, self.line = "", time.perf_counter()
        self.looked, self.next = (first, self.line), first + 1
        self.since: tuple[int, float] | None = None  # what speed is measured from: not while it compiles

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.close()

    def due(self, step: int) -> bool:
        """Returns whether to wait for the devices and to show this step."""
        return step >= self.next

    def resume(self, step: int) -> None:
        """Measures the speed anew, after a pause."""
        self.looked = self.since = (step, time.perf_counter())
        self.next = step + 1

    def show(self, step: int, metrics: str = "") -> None:
        """Shows that `step` steps have been computed.

        Args:
          metrics: in words; "": those that were shown before.
        """
        self.metrics = metrics or self.metrics
        (last, then), now = self.looked, time.perf_counter()
        seconds = (now - then) / max(step - last, 1)
        self.looked, self.next = (step, now), step + max(1, int(LOOK / max(seconds, 1e-6)))
        facts = [self.metrics] if self.metrics else []
        if self.since and step > self.since[0]:
            speed = (step - self.since[0]) / (now - self.since[1])
            facts.append(f"{speed * self.batch:,.0f} examples/s")
            if self.bar.disable:
                facts.append(f"{duration((self.total - step) / speed)} left")
        self.bar.set_postfix_str(", ".join(facts), refresh=False)
        self.bar.update(step - self.bar.n)
        if self.say and self.bar.disable and now - self.line >= LINE:
            self.say(f"{self.title:<11} {', '.join((f'{step:,} of {self.total:,} {self.unit}s', *facts))}")
            self.line = now
        if not self.since or self.line == now:
            self.since = (step, now)


def _width() -> dict[str, Any]:
    """Returns what tells tqdm the width of its bar: a terminal that says 0 columns would show nothing."""
    try:
        known = os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):  # not a terminal
        known = True
    return {"dynamic_ncols": True} if known else {"ncols": 100, "nrows": 20}


def duration(seconds: float) -> str:
    """Returns a duration in words: "40 s", "12 min", "3 h 05 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
